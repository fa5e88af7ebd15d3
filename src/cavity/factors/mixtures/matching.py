"""How matching moments changes the parameters of a mixture's components, for many data at once.

A datum reaches a component through one number, the squared distance of x from the component's mean in the metric of its
scale. All matched parameters are functions of it, of the responsibility and of the component's own numbers (46)–(49);
they are written as differences from the cavity, and keep their digits however many data q has seen.

Arrays have components first and rows last, where numbers that rows share have length one. Written for NumPy and for JAX
alike.
"""

from dataclasses import field
from typing import Any, NamedTuple

import numpy as np

from cavity import linalg
from cavity._array import Array, either, namespace
from cavity._pytree import pytree
from cavity.families import NormalGamma, NormalWishart
from cavity.families.inverse import half_step
from cavity.families.roots import near_halves
from cavity.families.stirling import log_gamma_ratio, log_minus_digamma, wishart_excess
from cavity.families.wishart_reads import mean_logdet
from cavity.special import LOG_SQRT_2PI

LOG_2 = float(np.log(2.0))


class Matched(NamedTuple):
    """How a component's parameters change for each datum, as multiples of d = x − m and of what the component has."""

    count: Array  # κ̂ − κ
    step: Array  # κ̂ t, where m̂ = m + t d
    square: Array  # of d dᵀ in the rate
    shape: Array  # ν̂ − ν, or â − a
    scale: Array  # of the scale matrix, ν̂/(ν + rα) − 1; or b̂ − b itself


@pytree
class Wisharts:
    """Components with a full precision matrix each, and what their closed forms need at one power."""

    mean: Array  # (J, D, 1)
    count: Array
    df: Array
    chol: Array  # of the inverse scale matrix R: (J, D, D), or of each row (n, J, D, D)
    root: Array  # L⁻ᵀ
    constant: Array  # of ℓ_α
    gain: Array  # g: a datum seen with power α adds g d dᵀ to R
    excess: Array  # e(ν + α) − e(ν)
    power: float = field(metadata={"static": True})
    near: Any = None  # interpolation of its matched degrees of freedom, for many rows

    @classmethod
    def of(cls, q: NormalWishart, power: float, many: bool = False) -> "Wisharts":
        """Of components that rows share, with what `many` of them need alike; or of each row, on a first axis of q."""
        chol, dim = q.inverse_scale_cholesky(), q.shift.shape[-1]
        rows_last = last if chol.ndim == 4 else lambda array: array[..., None]
        count, df, logdet = map(rows_last, (q.count, q.df, linalg.logdet(chol)))
        xp, half = namespace(count), 0.5 * (df - dim + 1)
        gain = power * count / (count + power)
        if power == 0:
            constant = 0.5 * (rows_last(mean_logdet(q.df, chol)) - dim / count)
            excess, near = xp.zeros_like(half), None
        else:
            more = 0.5 * (df - np.arange(dim).reshape(-1, 1, 1))
            constant = log_gamma_ratio(more, 0.5 * power).sum(0) - 0.5 * dim * xp.log1p(power / count)
            constant = constant + 0.5 * power * (dim * LOG_2 - logdet)
            excess = wishart_excess(half + 0.5 * power, dim) - wishart_excess(half, dim)
            near = near_halves(half, dim) if many else None
        root = linalg.inverse_transpose(chol)
        return cls(rows_last(q.mean), count, df, chol, root, constant, gain, excess, power, near)

    def from_mean(self, x: Array) -> Array:
        """d = x − m, (J, D, n)."""
        return x.T - self.mean

    def squares(self, d: Array) -> Array:
        """s = dᵀ R⁻¹ d, (J, n)."""
        if self.root.ndim == 4:
            half = namespace(d).einsum("jdn,njde->jen", d, self.root)
        else:
            half = self.root.swapaxes(-1, -2) @ d
        half *= half
        return half.sum(1)

    def log_mean(self, s: Array) -> Array:
        """ℓ_α of N(x; μ, W⁻¹)."""
        root = self.mean.shape[1] * LOG_SQRT_2PI
        if self.power == 0:
            return self.constant - root - 0.5 * self.df * s
        constant, slope = self.constant / self.power - root, 0.5 * (self.df + self.power) / self.power
        return constant - slope * namespace(s).log1p(self.gain * s)

    def match(self, s: Array, taken: Array, left: Array) -> Matched:
        """Equations (46) and (47)."""
        power, xp = self.power, namespace(s, taken)
        if power == 0:
            return Matched(taken, taken, taken, taken, xp.zeros_like(taken))
        dim, tau, gained = self.mean.shape[1], power / (self.count + power), self.gain * s
        seen = taken * (self.df + power) / (1 + gained)
        along, across = left * self.df + seen, self.df + power * taken  # E[W] R along d, and across it
        part = seen / along
        spread = left * (tau**2 * self.df) * s * part  # of the mean between the two explanations
        count = 1 / (left / self.count + taken / (self.count + power) + spread / dim)
        change = log_left(gained * seen / across, along / across)
        change += taken * (xp.log1p(gained) + (self.excess - dim * xp.log1p(power / self.df)))
        change += dim * xp.log1p(power * taken / self.df)
        shape = 2 * half_step(0.5 * (self.df - dim + 1), change, dim, self.near)
        scale = (shape - power * taken) / across
        step = tau * part
        square = (1 + scale) * self.gain * part + count * step**2
        return Matched(count * (tau * taken - self.count / dim * spread), count * step, square, shape, scale)

    def total(self, d: Array, weight: Array, matched: Matched) -> NormalWishart:
        """Changes of the natural parameters, summed over rows with weights."""
        count, shape, scale = (values @ weight for values in (matched.count, matched.shape, matched.scale))
        step = (d @ (weight * matched.step)[..., None])[..., 0]
        square = (d * (weight * matched.square)[:, None]) @ d.swapaxes(-1, -2)
        return self._natural(
            count, step, square + scale[:, None, None] * self._scale_matrix(), shape, self.mean[..., 0]
        )

    def each(self, d: Array, matched: Matched) -> NormalWishart:
        """Changes of the natural parameters for every row, on the first axis."""
        count, step, shape, scale, square = (
            first(values) for values in (matched.count, matched.step[:, None] * d, *matched[3:], matched.square)
        )
        d = first(d)
        rate = square[..., None, None] * linalg.outer(d) + scale[..., None, None] * self._scale_matrix()
        return self._natural(count, step, rate, shape, first(self.mean))

    def _scale_matrix(self) -> Array:
        return self.chol @ self.chol.swapaxes(-1, -2)

    def _natural(self, count: Array, step: Array, rate: Array, shape: Array, mean: Array) -> NormalWishart:
        """From changes in coordinates around the mean."""
        cross = mean[..., :, None] * step[..., None, :]
        rate = rate + count[..., None, None] * linalg.outer(mean) + cross + cross.swapaxes(-1, -2)
        return NormalWishart(count[..., None] * mean + step, count, shape, rate)


def log_left(lost: Array, left: Array) -> Array:
    """log (1 − l) from l and from 1 − l: from whichever has the digits; logarithms are most of the work of a row."""
    xp = namespace(lost, left)
    close = lost < 0.5
    both = lambda: xp.where(close, xp.log1p(-xp.minimum(lost, 0.5)), xp.log(left))
    return either(xp.all(close), lambda: xp.log1p(-lost), both)


def last(array: Array) -> Array:
    """Rows from the first axis to the last."""
    return namespace(array).moveaxis(array, 0, -1)


def first(array: Array) -> Array:
    """Rows from the last axis to the first."""
    return namespace(array).moveaxis(array, -1, 0)


@pytree
class Gammas:
    """Components whose coordinates share a precision, or have one each: then on a second axis, with vectors of one."""

    mean: Array  # (J, D, 1), or (J, D, 1, 1)
    count: Array
    shape: Array
    rate: Array  # b
    constant: Array  # of ℓ_α
    gain: Array  # g: a datum seen with power α adds ½ g ‖d‖² to b
    excess: Array  # e(a′) − e(a)
    power: float = field(metadata={"static": True})
    near: Any = None  # interpolation of its matched shape, for many rows

    @classmethod
    def of(cls, q: NormalGamma, power: float, many: bool = False, of_rows: bool = False) -> "Gammas":
        """Of components that rows share, with what `many` of them need alike; or of each row, on a first axis of q."""
        rows_last = last if of_rows else lambda array: array[..., None]
        mean, count, shape, rate = map(rows_last, (q.mean, q.count, q.shape, q.rate_of_precision()))
        xp, dim, more = namespace(count), q.shift.shape[-1], 0.5 * power * q.shift.shape[-1]
        gain = power * count / (count + power)
        if power == 0:
            mean_log = xp.log(shape / rate) - log_minus_digamma(shape)
            constant, excess, near = 0.5 * dim * (mean_log - 1 / count), xp.zeros_like(shape), None
        else:
            constant = log_gamma_ratio(shape, more) - 0.5 * dim * xp.log1p(power / count) - more * xp.log(rate)
            excess = log_minus_digamma(shape + more) - log_minus_digamma(shape)
            near = near_halves(shape, 1) if many else None
        return cls(mean, count, shape, rate, constant, gain, excess, power, near)

    def from_mean(self, x: Array) -> Array:
        """d = x − m, (J, D, n) or (J, D, 1, n)."""
        return x.T.reshape(*self.mean.shape[1:-1], -1) - self.mean

    def squares(self, d: Array) -> Array:
        """s = ‖d‖²/2b of every precision, (J, n) or (J, D, n)."""
        return 0.5 * (d**2).sum(-2) / self.rate

    def log_mean(self, s: Array) -> Array:
        """ℓ_α of N(x; μ, I/w), summed over precisions."""
        dim, power = self.mean.shape[-2], self.power
        if power == 0:
            value = self.constant - self.shape * s
        else:
            value = (self.constant - (self.shape + 0.5 * power * dim) * namespace(s).log1p(self.gain * s)) / power
        return over_precisions(value - dim * LOG_SQRT_2PI)

    def match(self, s: Array, taken: Array, left: Array) -> Matched:
        """Equations (48) and (49)."""
        xp, dim, power = namespace(s, taken), self.mean.shape[-2], self.power
        if s.ndim > taken.ndim:
            taken, left = (xp.broadcast_to(r[:, None], s.shape) for r in (taken, left))
        if power == 0:
            return Matched(taken, taken, taken, 0.5 * dim * taken, xp.zeros_like(taken))
        tau, more, gained = power / (self.count + power), 0.5 * power * dim, self.gain * s
        seen = taken * (self.shape + more) / (1 + gained)
        along = left * self.shape + seen  # b E[w]
        step = tau * seen / along
        spread = 2 * left * tau**2 * self.shape * s * seen / along
        count = 1 / (left / self.count + taken / (self.count + power) + spread / dim)
        ratio = xp.log1p(more / self.shape) - xp.log1p(gained)
        grown = xp.expm1(ratio)
        change = xp.log1p(taken * grown) - taken * ratio + taken * self.excess
        shape = half_step(self.shape, change, 1, self.near)
        scale = self.rate * (shape - self.shape * taken * grown) / along
        return Matched(count * (tau * taken - self.count * spread / dim), count * step, count * step**2, shape, scale)

    def total(self, d: Array, weight: Array, matched: Matched) -> NormalGamma:
        """Changes of the natural parameters, summed over rows with weights."""
        rate = (matched.scale + 0.5 * matched.square * (d**2).sum(-2)) @ weight
        step = (matched.step[..., None, :] * d) @ weight
        return self._natural(matched.count @ weight, step, rate, matched.shape @ weight, self.mean[..., 0])

    def each(self, d: Array, matched: Matched) -> NormalGamma:
        """Changes of the natural parameters for every row, on the first axis."""
        rate = matched.scale + 0.5 * matched.square * (d**2).sum(-2)
        changes = matched.count, matched.step[..., None, :] * d, rate, matched.shape, self.mean
        return self._natural(*map(first, changes))

    def _natural(self, count: Array, step: Array, rate: Array, shape: Array, mean: Array) -> NormalGamma:
        """From changes in coordinates around the mean."""
        rate = rate + 0.5 * count * (mean**2).sum(-1) + (mean * step).sum(-1)
        return NormalGamma(count[..., None] * mean + step, count, shape, rate)


def over_precisions(values: Array) -> Array:
    """The sum over the precisions of a component, where it has several."""
    return values.sum(1) if values.ndim == 3 else values


def parts_of(components: Any, power: float, many: bool = False, of_rows: bool = False) -> Any:
    """A cavity's components in the parameters that the closed forms are written in.

    `of_rows` says that each row has components of its own, on the first axis.
    """
    if isinstance(components, NormalWishart):
        return Wisharts.of(components, power, many)
    return Gammas.of(components, power, many, of_rows)
