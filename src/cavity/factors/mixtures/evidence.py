"""The evidence of rows of a Gaussian mixture that share a site, without a factorisation for each of them.

A row's own site changes the natural parameters of q by Δ, which has few numbers besides d = x − m, m the mean of the
shared cavity (`cavity.factors.mixtures.matching`). The terms of (26) need A(q + tΔ) and ℓ_α(q + tΔ). In coordinates
around m the inverse scale matrix of a component is

    R' = R_q + ts R_c + κ_q e eᵀ + t c d dᵀ − (κ_q e + tγ d)(κ_q e + tγ d)ᵀ/κ',   e = m_q − m,

with numbers s, c, γ of the row: where R_q and R_c are both diagonal it is a diagonal matrix and one of rank two, whose
determinant and inverse are known (55). Everything is formed as a difference from q.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from cavity import linalg
from cavity._pytree import pytree
from cavity.factors.mixtures.conjugate import log_gamma_ratio
from cavity.factors.mixtures.matching import Gammas, Matched, Wisharts
from cavity.families import NormalGamma, NormalWishart
from cavity.families.stirling import SERIES_FROM, stirling_series
from cavity.special import LOG_SQRT_2PI


class Changed(NamedTuple):
    """Components of q after a change, for each row and component."""

    log_partition: Array  # A(q + tΔ) − A(q)
    log_mean: Array  # ℓ_α of the row under q + tΔ


@pytree
class WishartsBeside:
    """Components of q with full precision matrices, in a basis in which R_q and the cavity's R_c are diagonal."""

    cavity: Wisharts
    count: Array  # κ_q
    df: Array
    basis: Array  # B with B R_c Bᵀ = I, (J, D, D)
    scales: Array  # B R_q Bᵀ, (J, D)
    offset: Array  # B e, (J, D)

    @classmethod
    def of(cls, cavity: Wisharts, q: NormalWishart) -> "WishartsBeside":
        own = Wisharts.of(q)
        basis, scales = linalg.diagonalise(cavity.chol, own.chol @ jnp.swapaxes(own.chol, -1, -2))
        return cls(cavity, own.count, own.df, basis, scales, jnp.einsum("jde,je->jd", basis, own.mean - cavity.mean))

    def changed(self, x: Array, matched: Matched, times: Array, power: float) -> Changed:
        """For every row of x, `times` (n, 1) its change."""
        dim = self.scales.shape[-1]
        d = jnp.einsum("jde,nje->njd", self.basis, x[:, None] - self.cavity.mean)
        count, df = self.count + times * matched.count, self.df + times * matched.shape
        diagonal = self.scales + (times * matched.scale)[..., None]
        step = times * matched.step
        # the part of rank two, F C Fᵀ with F = (d, e), and G = Fᵀ diagonal⁻¹ F
        c_dd, c_de = times * matched.square - step**2 / count, -self.count * step / count
        c_ee = self.count * times * matched.count / count
        g_dd, g_de, g_ee = (
            jnp.sum(a * b / diagonal, axis=-1) for a, b in ((d, d), (d, self.offset), (self.offset, self.offset))
        )
        # I + C G
        m_11, m_12 = 1 + c_dd * g_dd + c_de * g_de, c_dd * g_de + c_de * g_ee
        m_21, m_22 = c_de * g_dd + c_ee * g_de, 1 + c_de * g_de + c_ee * g_ee
        determinant = m_11 * m_22 - m_12 * m_21
        change_of_logdet = jnp.sum(jnp.log(diagonal / self.scales), axis=-1) + jnp.log(determinant)
        logdet_q = linalg.logdet(self.cavity.chol) + jnp.sum(jnp.log(self.scales), axis=-1)
        log_partition = -0.5 * dim * jnp.log(count / self.count)
        log_partition += 0.5 * times * matched.shape * (dim * jnp.log(2.0) - logdet_q) - 0.5 * df * change_of_logdet
        log_partition += change_of_log_gammas(self.df, 0.5 * times * matched.shape, dim)
        # x − m' = u d + v e, and its square zᵀ G (I + C G)⁻¹ z for z = (u, v)
        u, v = 1 - step / count, -self.count / count
        first, second = (m_22 * u - m_12 * v) / determinant, (m_11 * v - m_21 * u) / determinant
        s = u * (g_dd * first + g_de * second) + v * (g_de * first + g_ee * second)
        logdet = logdet_q + change_of_logdet
        return Changed(log_partition, log_student(count, df, logdet, s, dim, power))


def log_student(count: Array, df: Array, logdet: Array, s: Array, dim: int, power: float) -> Array:
    """ℓ_α of N(x; μ, W⁻¹) where the inverse scale matrix has this determinant, and x this square in its metric."""
    if power == 1:  # the ratios of gamma functions telescope
        gammas = ratio_for_many(0.5 * (df - dim + 1), 0.5 * dim)
    else:
        gammas = jnp.sum(log_gamma_ratio(0.5 * (df[..., None] - jnp.arange(dim)), 0.5 * power), axis=-1)
    constant = gammas - 0.5 * dim * jnp.log1p(power / count) + 0.5 * power * (dim * jnp.log(2.0) - logdet)
    gain = power * count / (count + power)
    return (constant - 0.5 * (df + power) * jnp.log1p(gain * s)) / power - dim * LOG_SQRT_2PI


def change_of_log_gammas(df: Array, step: Array, dim: int) -> Array:
    """log Γ_D(ν/2 + h) − log Γ_D(ν/2)."""
    return ratio_for_many(0.5 * (df[..., None] - jnp.arange(dim)), step[..., None], axis=-1)


def ratio_for_many(a: Array, step: Any, axis: int | tuple[()] = ()) -> Array:
    """Σ log Γ(a + h) − log Γ(a) over an axis, by one logarithm and Stirling's series where all arguments are large."""
    large = (jnp.min(a) > SERIES_FROM) & (jnp.min(a + step) > SERIES_FROM)

    def by_series() -> Array:
        rest = stirling_series(a + step) - stirling_series(a)
        return jnp.sum((a + step - 0.5) * jnp.log1p(step / a) + step * (jnp.log(a) - 1) + rest, axis=axis)

    return jax.lax.cond(large, by_series, lambda: jnp.sum(log_gamma_ratio(a, step), axis=axis))


@pytree
class GammasBeside:
    """Components of q whose coordinates share a precision, or have one each."""

    cavity: Gammas
    count: Array
    shape: Array
    rate: Array
    offset: Array  # e

    @classmethod
    def of(cls, cavity: Gammas, q: NormalGamma) -> "GammasBeside":
        own = Gammas.of(q)
        return cls(cavity, own.count, own.shape, own.rate, own.mean - cavity.mean)

    def changed(self, x: Array, matched: Matched, times: Array, power: float) -> Changed:
        """For every row of x, `times` (n, 1) its change; summed over precisions."""
        dim = self.offset.shape[-1]
        d = x.reshape(len(x), 1, *self.cavity.mean.shape[1:]) - self.cavity.mean
        times = times.reshape(-1, *[1] * (matched.count.ndim - 1))
        count, shape = self.count + times * matched.count, self.shape + times * matched.shape
        shift = self.count[..., None] * self.offset + (times * matched.step)[..., None] * d
        added = times * (matched.scale + 0.5 * matched.square * jnp.sum(d**2, axis=-1))
        added += 0.5 * (self.count * jnp.sum(self.offset**2, axis=-1) - jnp.sum(shift**2, axis=-1) / count)
        rate = self.rate + added
        log_partition = -0.5 * dim * jnp.log(count / self.count) + log_gamma_ratio(self.shape, times * matched.shape)
        log_partition -= times * matched.shape * jnp.log(self.rate) + shape * jnp.log1p(added / self.rate)
        s = 0.5 * jnp.sum((d - shift / count[..., None]) ** 2, axis=-1) / rate
        more = 0.5 * power * dim
        constant = log_gamma_ratio(shape, more) - 0.5 * dim * jnp.log1p(power / count) - more * jnp.log(rate)
        log_mean = (constant - (shape + more) * jnp.log1p(power * count / (count + power) * s)) / power
        together = lambda values: jnp.sum(values.reshape(*values.shape[:2], -1), axis=-1)
        return Changed(together(log_partition), together(log_mean - dim * LOG_SQRT_2PI))


def beside(cavity: Any, q: Any) -> Any:
    """The components of q as seen from those of a cavity."""
    return WishartsBeside.of(cavity, q) if isinstance(cavity, Wisharts) else GammasBeside.of(cavity, q)


def change_of_weights_partition(concentration: Array, change: Array) -> Array:
    """A(α + δ) − A(α) of a Dirichlet, for each row of δ."""
    each = ratio_for_many(concentration, change, axis=-1)
    return each - ratio_for_many(jnp.sum(concentration), jnp.sum(change, axis=-1))


def log_mean_changed_weights(concentration: Array, power: float) -> Array:
    """(1/α) log E[π_j^α] for each row of concentrations."""
    total = jnp.sum(concentration, axis=-1, keepdims=True)
    if power == 1:
        return jnp.log(concentration / total)
    return (ratio_for_many(concentration, power) - ratio_for_many(total, power)) / power


def terms(q: Any, parts: Any, x: Array, changes: tuple[Matched, Array], weight: Array, power: float) -> Array:
    """ℓ_α(c_n) + (A(c_n) − A(c_n + Δ_n))/α of every row, c_n = q − wΔ_n for rows of weight below one.

    `parts` are the components of q `beside` those of the cavity that gave the changes.
    """
    matched, change = changes
    concentration = jnp.asarray(q["weights"].concentration)
    present = jnp.minimum(weight, 1.0)[:, None]

    def at(times: Array) -> tuple[Array, Array]:
        """A(q + tΔ) − A(q), and ℓ_α."""
        components = parts.changed(x, matched, times, power)
        log_weights = log_mean_changed_weights(concentration + times * change, power)
        log_partition = jnp.sum(components.log_partition, axis=-1)
        log_partition += change_of_weights_partition(concentration, times * change)
        return log_partition, jax.nn.logsumexp(components.log_mean + log_weights, axis=-1)

    without, log_mean = at(-present)
    put_back = jax.lax.cond(jnp.all(present >= 1), lambda: jnp.zeros_like(without), lambda: at(1 - present)[0])
    return log_mean + (without - put_back) / power
