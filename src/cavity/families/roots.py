"""Roots that inverse moment maps of the Gamma and the Wishart need: the algorithms of `cavity.families.inverse`.

Every solver is a bracketed Newton iteration in the logarithm of its unknown, so it cannot diverge, and returns NaN
where no distribution has the given moments. Written for arrays of NumPy and of JAX alike.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from cavity._array import Array, either, held, is_jax, namespace, repeat_while
from cavity.families.interpolation import EXACT, NODES, TO_CHEBYSHEV, TO_POWERS, Tables
from cavity.families.stirling import (
    log_minus_digamma,
    log_minus_digamma_slope,
    polynomial,
    wishart_excess,
    wishart_excess_slope,
)

Carry = tuple[Array, Array, Array, Array, Any]  # bracket, iterate, last step, count
Sloped = Callable[[Array], tuple[Array, Array]]  # values and derivatives

LOG_RANGE = 100.0  # every unknown is sought in (e⁻¹⁰⁰, e¹⁰⁰)
FARTHEST = 1.0  # change of a logarithm up to which `half_step` interpolates
REACHES = {FARTHEST: len(NODES), FARTHEST / 4: 14, FARTHEST / 16: 10, FARTHEST / 64: 8}  # with as many nodes


def gamma_root(excess: Array) -> Array:
    sloped = lambda a: (log_minus_digamma(a), log_minus_digamma_slope(a))
    return excess_root(sloped, excess, lambda s: (1 + 2 * s) / (2 * s * (1 + s)))


def wishart_root(excess: Array, dim: int) -> Array:
    start = lambda s: (1 + dim * (dim + 1) / 4) / s  # the sum of both asymptotes
    return excess_root(lambda half: sloped_excess(half, dim), excess, start)


def sloped_excess(half: Array, dim: int) -> tuple[Array, Array]:
    return wishart_excess(half, dim), wishart_excess_slope(half, dim)


def excess_root(function: Sloped, excess: Array, start: Callable[[Array], Array]) -> Array:
    """The x > 0 with function(x) = s, where log function is nearly −log x + constant at both ends; NaN if none."""
    xp = namespace(excess)
    feasible = (excess > 0) & xp.isfinite(excess)
    excess = xp.where(feasible, excess, 1.0)

    def residual(t: Array) -> tuple[Array, Array]:
        at = xp.exp(t)
        value, slope = function(at)
        return xp.log(value) - xp.log(excess), at * slope / value

    return xp.where(feasible, xp.exp(newton(residual, xp.log(start(excess)))), np.nan)


def newton(residual: Sloped, start: Array) -> Array:
    """The zero of an elementwise decreasing function, given with its slope: Newton, or bisection where it strays."""
    xp = namespace(start)

    def unfinished(carry: Carry) -> Array:
        _, _, _, step, count = carry
        return xp.any(xp.abs(step) > 1e-13) & (count < 200)

    def advance(carry: Carry) -> Carry:
        low, high, t, _, count = carry
        value, slope = residual(t)
        low, high = xp.where(value > 0, t, low), xp.where(value < 0, t, high)
        newton = t - value / slope
        good = ((newton > low) & (newton < high)) | (newton == t)  # t is an end: a step below rounding stays there
        step = xp.where(value == 0, 0.0, xp.where(good, newton, 0.5 * (low + high)) - t)
        return low, high, t + step, step, count + 1

    start = xp.clip(start, -LOG_RANGE, LOG_RANGE)
    bound = xp.full_like(start, LOG_RANGE)
    return repeat_while(unfinished, advance, (-bound, bound, start, bound, xp.zeros((), int)))[2]


# -- steps ----------------------------------------------------------------------------------------------------------


class Interpolation(NamedTuple):
    """An inverse around some places: the coefficients of its polynomials, and what else is known of each place."""

    powers: Array
    beside: Array  # whether interpolation is exact; or where the slope begins


def step_of_half(half: Array, change: Array, dim: int, near: Any) -> Array:
    """`half_step`, without its derivatives."""
    xp = namespace(half, change)
    excess = near.excess if isinstance(near, NearHalves) else wishart_excess(half, dim)
    rise = xp.log1p(change / excess)

    def residual(log_ratio: Array) -> tuple[Array, Array]:
        at = half * xp.exp(log_ratio)
        value, slope = sloped_excess(at, dim)
        return xp.log(value / excess) - rise, at * slope / value

    if near is None and np.size(change) < len(NODES) * np.size(half):
        return half * xp.expm1(newton(residual, -rise))
    near = near_halves(half, dim) if near is None else near
    log_ratio, found = near.log_ratio(rise) if isinstance(near, NearHalves) else interpolated(near, rise)
    return half * xp.expm1(either(found, lambda: log_ratio, lambda: newton(residual, log_ratio)))


def interpolated(near: Interpolation, rise: Array) -> tuple[Array, Array]:
    """log (1 + h/x) at some changes of log s, or what reaches nearest to it, and whether that is exact."""
    xp = namespace(rise)
    clipped = xp.clip(rise, -FARTHEST, FARTHEST)
    found = near.beside & xp.all(xp.abs(rise) <= FARTHEST)
    return clipped * polynomial(near.powers, clipped / FARTHEST), found


def near_halves(half: Array, dim: int) -> Any:
    """log (1 + h/x) over the change of log s, by polynomials around each x, and whether they are exact.

    With many dimensions and few degrees of freedom functions are not smooth enough for that. Then, and for a change
    that goes too far, the nearest place that interpolation reaches is where Newton's method begins.
    """
    if not is_jax(half):
        return NearHalves(half, dim)
    xp, half = namespace(half), held(half)  # `half_step` has a derivative of its own
    nodes = FARTHEST * NODES.reshape(-1, *[1] * half.ndim)
    goal = wishart_excess(half, dim) * xp.exp(nodes)
    ratio = xp.log(excess_root(lambda x: sloped_excess(x, dim), goal, lambda _: half * xp.exp(-nodes)) / half) / nodes
    last = xp.max(xp.abs(xp.tensordot(TO_CHEBYSHEV[-2:], ratio, 1)))
    return Interpolation(xp.tensordot(TO_POWERS, ratio, 1), last < EXACT)


class NearHalves(Tables):
    """On the host polynomials are made for changes as far as they are asked for: shorter ones have fewer terms."""

    reaches = REACHES

    def __init__(self, half: np.ndarray, dim: int) -> None:
        super().__init__()
        self.half, self.dim, self.excess = half, dim, wishart_excess(half, dim)
        self.slope = half * wishart_excess_slope(half, dim) / self.excess  # of log s in log x

    def values(self, steps: np.ndarray) -> np.ndarray:
        """The change of log s, for changes of log x."""
        return np.log(wishart_excess(self.half * np.exp(steps), self.dim) / self.excess)

    def log_ratio(self, rise: np.ndarray) -> tuple[np.ndarray, bool]:
        """log (1 + h/x) at some changes of log s, or what reaches nearest to it, and whether that is exact."""
        farthest = max(rise.max(), -rise.min())
        if farthest > FARTHEST:
            rise = np.clip(rise, -FARTHEST, FARTHEST)
        powers, reach, exact = self.near(farthest)
        return (rise * polynomial(powers, rise / reach), farthest <= FARTHEST) if exact else (-rise, False)
