"""Inverse moment maps that have no closed form: of the Gamma and the Wishart.

Every solver is a bracketed Newton iteration in the logarithm of its unknown, so it cannot diverge, and returns NaN
where no distribution has the given moments. It is compiled once per shape, also outside jit. Derivatives of any order
come from the implicit function theorem.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from cavity.families.stirling import log_minus_digamma, polynomial, wishart_excess, with_slope

Carry = tuple[Array, Array, Array, Array, Array]  # bracket, iterate, last step, count

LOG_RANGE = 100.0  # every unknown is sought in (e⁻¹⁰⁰, e¹⁰⁰)
FARTHEST = 1.0  # change of a logarithm up to which `half_step` interpolates


def chebyshev(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Chebyshev's nodes in (−1, 1), and matrices from values there to the coefficients of their polynomial, in powers
    and in Chebyshev's polynomials: the last of these say how exact it is.
    """
    order = np.arange(count)
    angles = (order + 0.5) * np.pi / count
    to_chebyshev = np.cos(np.outer(order, angles)) * np.where(order == 0, 1.0, 2.0)[:, None] / count
    of_each = [np.polynomial.chebyshev.cheb2poly(row) for row in np.eye(count)]
    to_powers = np.stack([np.pad(p, (0, count - len(p))) for p in of_each], axis=1) @ to_chebyshev
    return np.cos(angles), to_powers, to_chebyshev


# as many nodes as make interpolation exact to rounding, for most functions as smooth as these and intervals as wide
NODES, TO_POWERS, TO_CHEBYSHEV = chebyshev(20)
EXACT = 1e-12  # share of the last coefficients from which on interpolation is not exact to rounding


@jax.custom_jvp
@jax.jit
def gamma_shape(excess: Array) -> Array:
    """The a with log a − ψ(a) = s: the shape of a Gamma with log E[x] − E[log x] = s."""
    return _excess_root(log_minus_digamma, excess, start=jnp.log((1 + 2 * excess) / (2 * excess * (1 + excess))))


@gamma_shape.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    shape = gamma_shape(*primals)
    return shape, tangents[0] / with_slope(log_minus_digamma, shape)[1]


def wishart_df(excess: Array, dim: int) -> Array:
    """The degrees of freedom ν > D − 1 of a Wishart with log |E[W]| − E[log |W|] = s."""
    return dim - 1 + 2 * wishart_half(excess, dim)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
@functools.partial(jax.jit, static_argnums=1)
def wishart_half(excess: Array, dim: int) -> Array:
    """The x = (ν − D + 1)/2 with `wishart_excess(x)` = s."""
    start = jnp.log((1 + dim * (dim + 1) / 4) / excess)  # the sum of both asymptotes
    return _excess_root(lambda half: wishart_excess(half, dim), excess, start)


@wishart_half.defjvp
def _(dim: int, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    half = wishart_half(*primals, dim)
    return half, tangents[0] / with_slope(lambda x: wishart_excess(x, dim), half)[1]


class Interpolation(NamedTuple):
    """An inverse around some places: the coefficients of its polynomials, and what else is known of each place."""

    powers: Array
    beside: Array  # whether interpolation is exact; or where the slope begins


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def half_step(half: Array, change: Array, dim: int, near: Interpolation | None = None) -> Array:
    """The h with s(x + h) = s(x) + `change`, s = `wishart_excess`; for D = 1, s(x) = log x − ψ(x).

    `change` has more axes in front than x. With many changes from few places the inverse of log s, nearly a straight
    line in log x, is interpolated around each place, and Newton's method is left for changes that go far. With few, as
    from one datum, Newton's method is quicker than the nodes. `near` is `near_halves(x, dim)`, where it is at hand.
    """
    excess = wishart_excess(half, dim)
    rise = jnp.log1p(change / excess)

    def residual(log_ratio: Array) -> tuple[Array, Array]:
        value, slope = with_slope(lambda u: jnp.log(wishart_excess(half * jnp.exp(u), dim) / excess), log_ratio)
        return value - rise, slope

    if near is None and change.size < len(NODES) * half.size:
        return half * jnp.expm1(newton(residual, -rise))
    near = near_halves(half, dim) if near is None else near
    clipped = jnp.clip(rise, -FARTHEST, FARTHEST)
    log_ratio = clipped * polynomial(near.powers, clipped / FARTHEST)
    found = near.beside & jnp.all(jnp.abs(rise) <= FARTHEST)
    log_ratio = jax.lax.cond(found, lambda start: start, lambda start: newton(residual, start), log_ratio)
    return half * jnp.expm1(log_ratio)


def near_halves(half: Array, dim: int) -> Interpolation:
    """log (1 + h/x) over the change of log s, by polynomials around each x, and whether they are exact.

    With many dimensions and few degrees of freedom functions are not smooth enough for that. Then, and for a change
    that goes too far, the nearest place that interpolation reaches is where Newton's method begins.
    """
    half = jax.lax.stop_gradient(jnp.asarray(half))  # `half_step` has a derivative of its own
    excess = wishart_excess(half, dim)
    nodes = FARTHEST * NODES.reshape(-1, *[1] * half.ndim)
    root = _excess_root(lambda x: wishart_excess(x, dim), excess * jnp.exp(nodes), jnp.log(half) - nodes)
    ratio = jnp.log(root / half) / nodes
    last = jnp.max(jnp.abs(jnp.tensordot(TO_CHEBYSHEV[-2:], ratio, 1)))
    return Interpolation(jnp.tensordot(TO_POWERS, ratio, 1), last < EXACT)


@half_step.defjvp
def _(dim: int, primals: tuple[Array, Array, Any], tangents: tuple[Array, Array, Any]) -> tuple[Array, Array]:
    # s′(x + h) (dx + dh) = s′(x) dx + d change
    half, change, near = primals
    step, slope = half_step(half, change, dim, near), lambda x: with_slope(lambda x: wishart_excess(x, dim), x)[1]
    moved = (slope(primals[0]) * tangents[0] + tangents[1]) / slope(primals[0] + step)
    return step, moved - tangents[0]


def _excess_root(function: Callable[[Array], Array], excess: Array, start: Array) -> Array:
    """The x > 0 with function(x) = s, where log function is nearly −log x + constant at both ends."""

    def residual(t: Array) -> tuple[Array, Array]:
        value, slope = with_slope(lambda u: jnp.log(function(jnp.exp(u))), t)
        return value - jnp.log(excess), slope

    feasible = (excess > 0) & jnp.isfinite(excess)
    return jnp.where(feasible, jnp.exp(newton(residual, start)), jnp.nan)


def newton(residual: Callable[[Array], tuple[Array, Array]], start: Array) -> Array:
    """The zero of an elementwise decreasing function, given with its slope: Newton, or bisection where it strays."""

    def unfinished(carry: Carry) -> Array:
        _, _, _, step, count = carry
        return jnp.any(jnp.abs(step) > 1e-13) & (count < 200)

    def advance(carry: Carry) -> Carry:
        low, high, t, _, count = carry
        value, slope = residual(t)
        low, high = jnp.where(value > 0, t, low), jnp.where(value < 0, t, high)
        newton = t - value / slope
        good = ((newton > low) & (newton < high)) | (newton == t)  # t is an end: a step below rounding stays there
        step = jnp.where(value == 0, 0.0, jnp.where(good, newton, 0.5 * (low + high)) - t)
        return low, high, t + step, step, count + 1

    start = jnp.clip(start, -LOG_RANGE, LOG_RANGE)
    bound = jnp.full_like(start, LOG_RANGE)
    return jax.lax.while_loop(unfinished, advance, (-bound, bound, start, bound, jnp.zeros((), int)))[2]
