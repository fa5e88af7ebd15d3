"""The evidence of rows of a Gaussian mixture that share a site, without a factorisation for each of them.

A row's own site changes the natural parameters of q by Δ, which has few numbers besides d = x − m, m the mean of the
shared cavity (`cavity.factors.mixtures.matching`). The terms of (26) need A(q + tΔ) and ℓ_α(q + tΔ). In coordinates
around m the inverse scale matrix of a component is

    R' = R_q + ts R_c + κ_q e eᵀ + t c d dᵀ − (κ_q e + tγ d)(κ_q e + tγ d)ᵀ/κ',   e = m_q − m,

with numbers s, c, γ of the row: where R_q and R_c are both diagonal it is a diagonal matrix and one of rank two, whose
determinant and inverse are known (55). Everything is formed as a difference from q.
"""

from typing import Any, NamedTuple

import numpy as np

from cavity import linalg
from cavity._array import Array, either, namespace
from cavity.factors.mixtures.matching import LOG_2, Gammas, Matched, Wisharts, over_precisions
from cavity.factors.mixtures.weights import log_sum_exp
from cavity.families import NormalGamma, NormalWishart
from cavity.families.stirling import SERIES_FROM, log_gamma_ratio, stirling_series
from cavity.special import LOG_SQRT_2PI


class Changed(NamedTuple):
    """Components of q after a change, for each component and row."""

    log_partition: Array  # A(q + tΔ) − A(q)
    log_mean: Array  # ℓ_α of the row under q + tΔ


class WishartsBeside(NamedTuple):
    """Components of q with full precision matrices, in a basis in which R_q and the cavity's R_c are diagonal."""

    cavity: Wisharts
    count: Array  # κ_q, (J, 1)
    df: Array
    basis: Array  # B with B R_c Bᵀ = I, (J, D, D)
    scales: Array  # B R_q Bᵀ, (J, D, 1)
    offset: Array  # B e, (J, D, 1)

    @classmethod
    def of(cls, cavity: Wisharts, q: NormalWishart) -> "WishartsBeside":
        chol = q.inverse_scale_cholesky()
        basis, scales = linalg.diagonalise(cavity.chol, chol @ chol.swapaxes(-1, -2))
        offset = basis @ (q.mean[..., None] - cavity.mean)
        return cls(cavity, q.count[..., None], q.df[..., None], basis, scales[..., None], offset)

    def changed(self, d: Array, matched: Matched, times: Array, power: float) -> Changed:
        """For every row, at d = x − m of the cavity; `times` (n,) its change."""
        xp, dim = namespace(d, self.basis), self.scales.shape[1]
        log, d = xp.log, self.basis @ d
        count, df = self.count + times * matched.count, self.df + times * matched.shape
        diagonal = self.scales + (times * matched.scale)[:, None]
        step = times * matched.step
        # the part of rank two, F C Fᵀ with F = (d, e), and G = Fᵀ diagonal⁻¹ F
        c_dd, c_de = times * matched.square - step**2 / count, -self.count * step / count
        c_ee = self.count * times * matched.count / count
        over = d / diagonal
        g_dd, g_de = (d * over).sum(1), (self.offset * over).sum(1)
        g_ee = (self.offset**2 / diagonal).sum(1)
        # I + C G
        m_11, m_12 = 1 + c_dd * g_dd + c_de * g_de, c_dd * g_de + c_de * g_ee
        m_21, m_22 = c_de * g_dd + c_ee * g_de, 1 + c_de * g_de + c_ee * g_ee
        determinant = m_11 * m_22 - m_12 * m_21
        change_of_logdet = log(diagonal / self.scales).sum(1) + log(determinant)
        logdet_q = linalg.logdet(self.cavity.chol)[:, None] + log(self.scales).sum(1)
        log_partition = -0.5 * dim * log(count / self.count)
        log_partition += 0.5 * times * matched.shape * (dim * LOG_2 - logdet_q) - 0.5 * df * change_of_logdet
        log_partition += change_of_log_gammas(self.df, 0.5 * times * matched.shape, dim)
        # x − m' = u d + v e, and its square zᵀ G (I + C G)⁻¹ z for z = (u, v)
        u, v = 1 - step / count, -self.count / count
        first, second = (m_22 * u - m_12 * v) / determinant, (m_11 * v - m_21 * u) / determinant
        s = u * (g_dd * first + g_de * second) + v * (g_de * first + g_ee * second)
        logdet = logdet_q + change_of_logdet
        return Changed(log_partition, log_student(count, df, logdet, s, dim, power))


def log_student(count: Array, df: Array, logdet: Array, s: Array, dim: int, power: float) -> Array:
    """ℓ_α of N(x; μ, W⁻¹) where the inverse scale matrix has this determinant, and x this square in its metric."""
    xp = namespace(count, df, s)
    if power == 1:  # the ratios of gamma functions telescope
        gammas = ratio_for_many(0.5 * (df - dim + 1), 0.5 * dim)
    else:
        gammas = log_gamma_ratio(halves_first(df, dim), 0.5 * power).sum(0)
    constant = gammas - 0.5 * dim * xp.log1p(power / count) + 0.5 * power * (dim * LOG_2 - logdet)
    gain = power * count / (count + power)
    return (constant - 0.5 * (df + power) * xp.log1p(gain * s)) / power - dim * LOG_SQRT_2PI


def halves_first(df: Array, dim: int) -> Array:
    """(ν − i)/2 for i < D, on a first axis."""
    return 0.5 * (df - np.arange(dim).reshape(-1, *[1] * df.ndim))


def change_of_log_gammas(df: Array, step: Array, dim: int) -> Array:
    """log Γ_D(ν/2 + h) − log Γ_D(ν/2)."""
    return ratio_for_many(halves_first(df, dim), step, axis=0)


def ratio_for_many(a: Array, step: Any, axis: int | tuple[()] = ()) -> Array:
    """Σ log Γ(a + h) − log Γ(a) over an axis, by one logarithm and Stirling's series where all arguments are large."""
    xp = namespace(a, step)
    large = (xp.min(a) > SERIES_FROM) & (xp.min(a + step) > SERIES_FROM)

    def by_series() -> Array:
        rest = stirling_series(a + step) - stirling_series(a)
        return xp.sum((a + step - 0.5) * xp.log1p(step / a) + step * (xp.log(a) - 1) + rest, axis=axis)

    return either(large, by_series, lambda: xp.sum(log_gamma_ratio(a, step), axis=axis))


class GammasBeside(NamedTuple):
    """Components of q whose coordinates share a precision, or have one each."""

    cavity: Gammas
    count: Array
    shape: Array
    rate: Array
    offset: Array  # e

    @classmethod
    def of(cls, cavity: Gammas, q: NormalGamma) -> "GammasBeside":
        count, shape, rate = (part[..., None] for part in (q.count, q.shape, q.rate_of_precision()))
        return cls(cavity, count, shape, rate, q.mean[..., None] - cavity.mean)

    def changed(self, d: Array, matched: Matched, times: Array, power: float) -> Changed:
        """For every row, at d = x − m of the cavity; `times` (n,) its change. Summed over precisions."""
        xp, dim = namespace(d, self.count), self.offset.shape[-2]
        vector = lambda values: values[..., None, :]
        count, shape = self.count + times * matched.count, self.shape + times * matched.shape
        shift = vector(self.count) * self.offset + vector(times * matched.step) * d
        added = times * (matched.scale + 0.5 * matched.square * (d**2).sum(-2))
        added += 0.5 * (self.count * (self.offset**2).sum(-2) - (shift**2).sum(-2) / count)
        rate = self.rate + added
        log_partition = -0.5 * dim * xp.log(count / self.count) + log_gamma_ratio(self.shape, times * matched.shape)
        log_partition -= times * matched.shape * xp.log(self.rate) + shape * xp.log1p(added / self.rate)
        s = 0.5 * ((d - shift / vector(count)) ** 2).sum(-2) / rate
        more = 0.5 * power * dim
        constant = log_gamma_ratio(shape, more) - 0.5 * dim * xp.log1p(power / count) - more * xp.log(rate)
        log_mean = (constant - (shape + more) * xp.log1p(power * count / (count + power) * s)) / power
        return Changed(over_precisions(log_partition), over_precisions(log_mean - dim * LOG_SQRT_2PI))


def beside(cavity: Any, q: Any) -> Any:
    """The components of q as seen from those of a cavity."""
    return WishartsBeside.of(cavity, q) if isinstance(cavity, Wisharts) else GammasBeside.of(cavity, q)


def change_of_weights_partition(concentration: Array, change: Array) -> Array:
    """A(α + δ) − A(α) of a Dirichlet, for each row of δ (J, n)."""
    each = ratio_for_many(concentration[:, None], change, axis=0)
    return each - ratio_for_many(concentration.sum(), change.sum(0))


def log_mean_changed_weights(concentration: Array, power: float) -> Array:
    """(1/α) log E[π_j^α] for each row of concentrations."""
    total = concentration.sum(0, keepdims=True)
    if power == 1:
        return namespace(concentration).log(concentration / total)
    return (ratio_for_many(concentration, power) - ratio_for_many(total, power)) / power


def terms(q: Any, parts: Any, d: Array, changes: tuple[Matched, Array], weight: Array, power: float) -> Array:
    """ℓ_α(c_n) + (A(c_n) − A(c_n + Δ_n))/α of every row, c_n = q − wΔ_n for rows of weight below one.

    `parts` are the components of q `beside` those of the cavity that gave the changes, and d = x − m from that.
    """
    matched, change = changes
    xp, concentration = namespace(d, weight), q["weights"].concentration
    present = xp.minimum(weight, 1.0)

    def at(times: Array) -> tuple[Array, Array]:
        """A(q + tΔ) − A(q), and ℓ_α."""
        components = parts.changed(d, matched, times, power)
        log_weights = log_mean_changed_weights(concentration[:, None] + times * change, power)
        log_partition = components.log_partition.sum(0) + change_of_weights_partition(concentration, times * change)
        return log_partition, log_sum_exp(components.log_mean + log_weights)

    without, log_mean = at(-present)
    put_back = either(xp.all(present >= 1), lambda: xp.zeros_like(without), lambda: at(1 - present)[0])
    return log_mean + (without - put_back) / power
