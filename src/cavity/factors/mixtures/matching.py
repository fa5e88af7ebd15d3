"""How matching moments changes the parameters of a mixture's components and weights, for many data at once.

A datum reaches a component through one number, the squared distance of x from the component's mean in the metric of its
scale. All matched parameters are functions of it, of the responsibility and of the component's own numbers (46)–(49);
they are written as differences from the cavity, and keep their digits however many data q has seen.
"""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from cavity import linalg
from cavity._pytree import pytree
from cavity.factors.mixtures.conjugate import log_gamma_ratio
from cavity.families import NormalGamma, NormalWishart
from cavity.families.concentrations import dirichlet_step
from cavity.families.inverse import half_step, near_halves
from cavity.families.stirling import log_minus_digamma, wishart_excess
from cavity.families.wishart import mean_logdet
from cavity.special import LOG_SQRT_2PI


@pytree
class Matched:
    """How a component's parameters change for each datum, as multiples of d = x − m and of what the component has."""

    count: Array  # κ̂ − κ
    step: Array  # κ̂ t, where m̂ = m + t d
    square: Array  # of d dᵀ in the rate
    shape: Array  # ν̂ − ν, or â − a
    scale: Array  # of the scale matrix, ν̂/(ν + rα) − 1; or b̂ − b itself


@pytree
class Wisharts:
    """Components with a full precision matrix each."""

    mean: Array  # (J, D)
    count: Array
    df: Array
    chol: Array  # of the inverse scale matrix R
    near: Any = None  # interpolation of its matched degrees of freedom, for many rows

    @classmethod
    def of(cls, q: NormalWishart) -> "Wisharts":
        mean, count = q.mean, jnp.asarray(q.count)
        chol = linalg.cholesky(q.rate - count[..., None, None] * linalg.outer(mean))
        return cls(jnp.asarray(mean), count, jnp.asarray(q.df), chol)

    def for_many(self) -> "Wisharts":
        """What many rows need alike, found once."""
        dim = self.mean.shape[-1]
        return replace(self, near=near_halves(0.5 * (self.df - dim + 1), dim))

    def squares(self, x: Array) -> Array:
        """s = dᵀ R⁻¹ d of every row of x and component, (n, J)."""
        root = linalg.inverse_transpose(self.chol)
        half = jnp.einsum("njd,jde->nje", x[:, None] - self.mean, root)
        return jnp.sum(half**2, axis=-1)

    def log_mean(self, s: Array, power: float) -> Array:
        """ℓ_α of N(x; μ, W⁻¹)."""
        dim, root = self.mean.shape[-1], self.mean.shape[-1] * LOG_SQRT_2PI
        if power == 0:
            return 0.5 * (mean_logdet(self.df, self.chol) - dim / self.count - self.df * s) - root
        halves = 0.5 * (self.df[..., None] - jnp.arange(dim))
        constant = jnp.sum(log_gamma_ratio(halves, 0.5 * power), axis=-1) - 0.5 * dim * jnp.log1p(power / self.count)
        constant += 0.5 * power * (dim * jnp.log(2.0) - linalg.logdet(self.chol))
        return (constant - 0.5 * (self.df + power) * jnp.log1p(self._gain(power) * s)) / power - root

    def match(self, s: Array, taken: Array, left: Array, power: float) -> Matched:
        """Equations (46) and (47)."""
        if power == 0:
            return Matched(taken, taken, taken, taken, jnp.zeros_like(taken))
        dim, gain, tau = self.mean.shape[-1], self._gain(power), power / (self.count + power)
        seen = taken * (self.df + power) / (1 + gain * s)
        along, across = left * self.df + seen, self.df + power * taken  # E[W] R along d, and across it
        step = tau * seen / along
        spread = left * tau**2 * self.df * s * seen / along  # of the mean between the two explanations
        count = 1 / (left / self.count + taken / (self.count + power) + spread / dim)
        lost = gain * s * seen / across
        change = log_left(lost, along / across)
        change += taken * jnp.log1p(gain * s)
        change += dim * (jnp.log1p(power * taken / self.df) - taken * jnp.log1p(power / self.df))
        half = 0.5 * (self.df - dim + 1)
        excess = wishart_excess(half + 0.5 * power, dim) - wishart_excess(half, dim)
        shape = 2 * half_step(half, change + taken * excess, dim, self.near)
        scale = (shape - power * taken) / across
        square = (1 + scale) * gain * seen / along + count * step**2
        return Matched(count * (tau * taken - self.count * spread / dim), count * step, square, shape, scale)

    def total(self, x: Array, weight: Array, matched: Matched) -> NormalWishart:
        """Changes of the natural parameters, summed over the rows of x with weights."""
        add = lambda values: jnp.einsum("n,nj->j", weight, values)
        d = x[:, None] - self.mean
        count, step = add(matched.count), jnp.einsum("n,nj,njd->jd", weight, matched.step, d)
        weighted = (weight[:, None] * matched.square)[..., None] * d
        rate = jnp.einsum("njd,nje->jde", weighted, d) + count[:, None, None] * linalg.outer(self.mean)
        rate += add(matched.scale)[:, None, None] * (self.chol @ jnp.swapaxes(self.chol, -1, -2))
        cross = self.mean[:, :, None] * step[:, None]
        shift = count[:, None] * self.mean + step
        return NormalWishart(shift, count, add(matched.shape), rate + cross + jnp.swapaxes(cross, -1, -2))

    def _gain(self, power: float) -> Array:
        """g: a datum seen with power α adds g d dᵀ to R."""
        return power * self.count / (self.count + power)


def log_left(lost: Array, left: Array) -> Array:
    """log (1 − l) from l and from 1 − l: from whichever has the digits; logarithms are most of the work of a row."""
    close = lost < 0.5
    either = lambda: jnp.where(close, jnp.log1p(-jnp.minimum(lost, 0.5)), jnp.log(left))
    return jax.lax.cond(jnp.all(close), lambda: jnp.log1p(-lost), either)


@pytree
class Gammas:
    """Components whose coordinates share a precision, or have one each: then on a second axis, with vectors of one."""

    mean: Array  # (J, D), or (J, D, 1)
    count: Array
    shape: Array
    rate: Array  # b
    near: Any = None  # interpolation of its matched shape, for many rows

    @classmethod
    def of(cls, q: NormalGamma) -> "Gammas":
        mean, count = jnp.asarray(q.mean), jnp.asarray(q.count)
        return cls(mean, count, jnp.asarray(q.shape), q.rate - 0.5 * count * jnp.sum(mean**2, axis=-1))

    def for_many(self) -> "Gammas":
        """What many rows need alike, found once."""
        return replace(self, near=near_halves(self.shape, 1))

    def squares(self, x: Array) -> Array:
        """s = ‖d‖²/2b of every row of x and precision, (n, J) or (n, J, D)."""
        return 0.5 * jnp.sum(self._from_mean(x) ** 2, axis=-1) / self.rate

    def log_mean(self, s: Array, power: float) -> Array:
        """ℓ_α of N(x; μ, I/w), summed over precisions."""
        dim = self.mean.shape[-1]
        if power == 0:
            mean_log = jnp.log(self.shape / self.rate) - log_minus_digamma(self.shape)
            value = 0.5 * dim * (mean_log - 1 / self.count) - self.shape * s
        else:
            more = 0.5 * power * dim
            constant = log_gamma_ratio(self.shape, more) - 0.5 * dim * jnp.log1p(power / self.count)
            constant -= more * jnp.log(self.rate)
            value = (constant - (self.shape + more) * jnp.log1p(self._gain(power) * s)) / power
        return jnp.sum((value - dim * LOG_SQRT_2PI).reshape(*s.shape[:2], -1), axis=-1)

    def match(self, s: Array, taken: Array, left: Array, power: float) -> Matched:
        """Equations (48) and (49)."""
        taken, left = (jnp.broadcast_to(r.reshape(*r.shape, *[1] * (s.ndim - r.ndim)), s.shape) for r in (taken, left))
        dim = self.mean.shape[-1]
        if power == 0:
            return Matched(taken, taken, taken, 0.5 * dim * taken, jnp.zeros_like(taken))
        gain, tau, more = self._gain(power), power / (self.count + power), 0.5 * power * dim
        seen = taken * (self.shape + more) / (1 + gain * s)
        along = left * self.shape + seen  # b E[w]
        step = tau * seen / along
        spread = 2 * left * tau**2 * self.shape * s * seen / along
        count = 1 / (left / self.count + taken / (self.count + power) + spread / dim)
        ratio = jnp.log1p(more / self.shape) - jnp.log1p(gain * s)
        excess = log_minus_digamma(self.shape + more) - log_minus_digamma(self.shape)
        change = jnp.log1p(taken * jnp.expm1(ratio)) - taken * ratio + taken * excess
        shape = half_step(self.shape, change, 1, self.near)
        scale = self.rate * (shape - self.shape * taken * jnp.expm1(ratio)) / along
        return Matched(count * (tau * taken - self.count * spread / dim), count * step, count * step**2, shape, scale)

    def total(self, x: Array, weight: Array, matched: Matched) -> NormalGamma:
        """Changes of the natural parameters, summed over the rows of x with weights."""
        add = lambda values: jnp.tensordot(weight, values, 1)
        d = self._from_mean(x)
        count, step = add(matched.count), add(matched.step[..., None] * d)
        rate = add(matched.scale + 0.5 * matched.square * jnp.sum(d**2, axis=-1))
        rate += 0.5 * count * jnp.sum(self.mean**2, axis=-1) + jnp.sum(self.mean * step, axis=-1)
        return NormalGamma(count[..., None] * self.mean + step, count, add(matched.shape), rate)

    def _gain(self, power: float) -> Array:
        """g: a datum seen with power α adds ½ g ‖d‖² to b."""
        return power * self.count / (self.count + power)

    def _from_mean(self, x: Array) -> Array:
        return x.reshape(len(x), 1, *self.mean.shape[1:]) - self.mean


def parts_of(components: Any) -> Any:
    """A cavity's components in the parameters that the closed forms are written in."""
    return Wisharts.of(components) if isinstance(components, NormalWishart) else Gammas.of(components)


def change_of_weights(concentration: Array, taken: Array, power: float, near: Any = None) -> Array:
    """What matching E[log π] adds to the concentrations, for each row of responsibilities."""
    if power == 0 or len(concentration) == 1:
        return taken * (power or 1)
    total = jnp.sum(concentration)
    rise = lambda a: jnp.log1p(power / a) - (log_minus_digamma(a + power) - log_minus_digamma(a))  # ψ(a + α) − ψ(a)
    return dirichlet_step(concentration, taken * rise(concentration) - rise(total), near)
