"""Inverse moment maps that have no closed form.

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
NEAR = 0.1  # change of E[log x] up to which `dirichlet_step` interpolates


def _chebyshev(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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
NODES, TO_POWERS, TO_CHEBYSHEV = _chebyshev(20)
FEW_NODES, TO_FEW_POWERS = _chebyshev(12)[:2]
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
        return half * jnp.expm1(_newton(residual, -rise))
    near = near_halves(half, dim) if near is None else near
    clipped = jnp.clip(rise, -FARTHEST, FARTHEST)
    log_ratio = clipped * polynomial(near.powers, clipped / FARTHEST)
    found = near.beside & jnp.all(jnp.abs(rise) <= FARTHEST)
    log_ratio = jax.lax.cond(found, lambda start: start, lambda start: _newton(residual, start), log_ratio)
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


@jax.custom_jvp
def dirichlet_step(alpha: Array, gain: Array, near: Interpolation | None = None) -> Array:
    """The δ with E[log x_j] under α + δ higher by `gain`, (…, J), than under α, (J,).

    With many gains from one place the inverse of ψ is interpolated around each α_j and around their sum; Newton's
    method for all J unknowns is left for gains that go far, or are few. `near` is `near_concentrations(α)`, where it
    is at hand.
    """
    if near is None and gain.size < len(FEW_NODES) * (alpha.size + 1):
        return _dirichlet_newton(alpha, gain)
    delta, found = _dirichlet_near(near_concentrations(alpha) if near is None else near, gain)
    return jax.lax.cond(found, lambda: delta, lambda: _dirichlet_newton(alpha, gain))


def near_concentrations(alpha: Array) -> Interpolation:
    """What adds to α_j and to Σα over the change of ψ there, by polynomials."""
    alpha = jax.lax.stop_gradient(jnp.asarray(alpha))  # `dirichlet_step` has a derivative of its own
    places = jnp.append(alpha, jnp.sum(alpha))
    rise = jnp.asarray(NEAR * FEW_NODES[:, None, None])
    steps = places * jnp.expm1(dirichlet_shares(rise, jnp.log(places)))[..., 0]
    slope = _width(places[-1]) - jnp.sum(_width(places[:-1]))  # of what is missing, where nothing is: 1/ψ′ = α − width
    return Interpolation(jnp.tensordot(TO_FEW_POWERS, steps / rise[..., 0], 1), slope)


def _dirichlet_near(near: Interpolation, gain: Array) -> tuple[Array, Array]:
    """The change of α for small gains of E[log x], and whether they were small.

    With ψ(Σα + Σδ) − ψ(Σα) = u, each δ_j is a function of gain_j + u, and Σδ one of u: one unknown for each row.
    """
    # J first: sums over a short last axis keep XLA from using vector instructions
    gain, powers = jnp.moveaxis(gain, -1, 0), near.powers.reshape(*near.powers.shape, *[1] * (gain.ndim - 1))
    moved, slope = lambda rise, powers: rise * polynomial(powers, rise / NEAR), near.beside

    def advance(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        u, _, count = carry
        missing = jnp.sum(moved(gain + u, powers[:, :-1]), axis=0) - moved(u, powers[:, -1])
        return u - missing / (slope + missing), jnp.max(jnp.abs(missing)), count + 1

    unfinished = lambda carry: (carry[1] > 1e-14) & (carry[2] < 20)
    start = (jnp.zeros(gain.shape[1:]), jnp.asarray(jnp.inf), jnp.zeros((), int))
    u, missing, _ = jax.lax.while_loop(unfinished, advance, start)
    rise = gain + u
    found = (missing <= 1e-13) & (jnp.max(jnp.abs(rise)) <= NEAR) & (jnp.max(jnp.abs(u)) <= NEAR)
    return jnp.moveaxis(moved(rise, powers[:, :-1]), 0, -1), found


def _dirichlet_newton(alpha: Array, gain: Array) -> Array:
    """Newton in log (α + δ), with the inverse Hessian by Sherman–Morrison as for `dirichlet_concentration` below, and
    with the digits of δ rather than of α + δ.
    """
    total, excess, sum_of = jnp.sum(alpha), log_minus_digamma, lambda x: jnp.sum(x, axis=-1, keepdims=True)
    towards = lambda delta, missing: _fisher_solve(alpha + delta, missing) / (alpha + delta)

    def advance(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        delta, _, count = carry
        change = sum_of(delta)
        rise = jnp.log1p(delta / alpha) - (excess(alpha + delta) - excess(alpha))
        rise_total = jnp.log1p(change / total) - (excess(total + change) - excess(total))
        step = jnp.clip(towards(delta, gain - rise + rise_total), -3.0, 3.0)
        return delta + (alpha + delta) * jnp.expm1(step), step, count + 1

    # convergence is quadratic: after a step of 1e-9 there is nothing left
    unfinished = lambda carry: jnp.any(jnp.abs(carry[1]) > 1e-9) & (carry[2] < 100)
    start = alpha * jnp.expm1(jnp.clip(towards(jnp.zeros_like(alpha), gain), -3.0, 3.0))
    return jax.lax.while_loop(unfinished, advance, (start, jnp.ones_like(gain), jnp.zeros((), int)))[0]


@dirichlet_step.defjvp
def _(primals: tuple[Array, Array, Any], tangents: tuple[Array, Array, Any]) -> tuple[Array, Array]:
    # the derivative of E[log x] under α + δ, less that under α, is d gain
    alpha, gain, near = primals
    by_alpha = lambda a: (1 + _bend(a)) / a  # ψ′
    under = by_alpha(alpha) * tangents[0] - by_alpha(jnp.sum(alpha)) * jnp.sum(tangents[0])
    step = dirichlet_step(alpha, gain, near)
    return step, _fisher_solve(alpha + step, tangents[1] + under) - tangents[0]


def _fisher_solve(alpha: Array, change: Array) -> Array:
    """The dα with (diag ψ′(α) − ψ′(Σα) 11ᵀ) dα = `change`, by Sherman–Morrison.

    Widths a − 1/ψ′(a) keep its denominator from cancelling.
    """
    sum_of = lambda x: jnp.sum(x, axis=-1, keepdims=True)
    spread = alpha / (1 + _bend(alpha))  # 1/ψ′(α)
    return spread * (change + sum_of(spread * change) / (sum_of(_width(alpha)) - _width(sum_of(alpha))))


def _width(a: Array) -> Array:
    """a − 1/ψ′(a), from a itself where a is small to ½."""
    return a * _bend(a) / (1 + _bend(a))


@jax.custom_jvp
@jax.jit
def dirichlet_concentration(mean_log: Array) -> Array:
    """The α with ψ(α_j) − ψ(Σα) = E[log x_j], categories on the last axis.

    One unknown, t = log Σα: the shares r_j = log(α_j/Σα) follow from it, and log Σ_j exp r_j falls through zero once.
    """

    def residual(t: Array) -> tuple[Array, Array]:
        shares = dirichlet_shares(mean_log, t)
        total, parts = _bend(jnp.exp(t))[..., None], _bend(jnp.exp(t[..., None] + shares))
        return log_sum_exp(shares), jnp.sum(jax.nn.softmax(shares, axis=-1) * (total - parts) / (1 + parts), axis=-1)

    spare = -log_sum_exp(mean_log)  # > 0 by Jensen; (J − 1)/(2 Σα) for large α
    t = _newton(residual, start=jnp.log(0.5 * (mean_log.shape[-1] - 1) / spare))
    feasible = (spare > 0) & jnp.all(jnp.isfinite(mean_log), axis=-1)
    return jnp.where(feasible[..., None], jnp.exp(t[..., None] + dirichlet_shares(mean_log, t)), jnp.nan)


def dirichlet_shares(mean_log: Array, log_total: Array) -> Array:
    """The r_j with ψ(e^{t + r_j}) − ψ(eᵗ) = E[log x_j]: the inverse of ψ by Newton, relative to the total eᵗ."""
    log_total = log_total[..., None]
    # r − s(e^{t+r}) = m − s(eᵗ), s = log − ψ: no term grows with the total
    target = mean_log - log_minus_digamma(jnp.exp(log_total))

    def newton(_: int, shares: Array) -> Array:
        part = jnp.exp(log_total + shares)
        value, slope = with_slope(log_minus_digamma, part)
        return shares - (shares - value - target) / (1 - part * slope)

    digamma = target + log_total
    low = digamma < -2.22  # where the asymptotes of the inverse of ψ meet: e^y + ½ and −1/(y + γ)
    start = jnp.where(low, -1 / (jnp.where(low, digamma, -3.0) + 0.5772156649015329), jnp.exp(digamma) + 0.5)
    return jax.lax.fori_loop(0, 6, newton, jnp.log(start) - log_total)


def log_sum_exp(logs: Array) -> Array:
    """log Σ exp over the last axis, with full relative precision where it is nearly zero and one term dominates."""
    first = jnp.argmax(logs, axis=-1, keepdims=True)
    top = jnp.take_along_axis(logs, first, axis=-1)
    rest = jnp.where(jnp.arange(logs.shape[-1]) == first, 0.0, jnp.exp(logs - top))
    return top[..., 0] + jnp.log1p(jnp.sum(rest, axis=-1))


@dirichlet_concentration.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    alpha = dirichlet_concentration(*primals)
    return alpha, _fisher_solve(alpha, tangents[0])


def _bend(a: Array) -> Array:
    """a ψ′(a) − 1 > 0."""
    return -a * with_slope(log_minus_digamma, a)[1]


def _excess_root(function: Callable[[Array], Array], excess: Array, start: Array) -> Array:
    """The x > 0 with function(x) = s, where log function is nearly −log x + constant at both ends."""

    def residual(t: Array) -> tuple[Array, Array]:
        value, slope = with_slope(lambda u: jnp.log(function(jnp.exp(u))), t)
        return value - jnp.log(excess), slope

    feasible = (excess > 0) & jnp.isfinite(excess)
    return jnp.where(feasible, jnp.exp(_newton(residual, start)), jnp.nan)


def _newton(residual: Callable[[Array], tuple[Array, Array]], start: Array) -> Array:
    """The zero of an elementwise decreasing function, given with its slope: Newton, or bisection where it strays."""

    def unfinished(carry: Carry) -> Array:
        _, _, _, step, count = carry
        return jnp.any(jnp.abs(step) > 1e-13) & (count < 200)

    def advance(carry: Carry) -> Carry:
        low, high, t, _, count = carry
        value, slope = residual(t)
        low, high = jnp.where(value > 0, t, low), jnp.where(value < 0, t, high)
        newton = t - value / slope
        good = (newton > low) & (newton < high)
        step = jnp.where(value == 0, 0.0, jnp.where(good, newton, 0.5 * (low + high)) - t)
        return low, high, t + step, step, count + 1

    start = jnp.clip(start, -LOG_RANGE, LOG_RANGE)
    bound = jnp.full_like(start, LOG_RANGE)
    return jax.lax.while_loop(unfinished, advance, (-bound, bound, start, bound, jnp.zeros((), int)))[2]
