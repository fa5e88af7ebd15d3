"""Inverse moment maps that have no closed form, and the differences of gamma functions they rest on.

Every solver is a bracketed Newton iteration in the logarithm of its unknown, so it cannot diverge, and returns NaN
where no distribution has the given moments. It is compiled once per shape, also outside jit. Derivatives of any order
come from the implicit function theorem.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import gammaln

from cavity.families import gaps
from cavity.families.gaps import horner

Carry = tuple[Array, Array, Array, Array, Array]  # bracket, iterate, last step, count

LOG_RANGE = 100.0  # every unknown is sought in (e⁻¹⁰⁰, e¹⁰⁰)
SERIES_FROM = 10.0  # where eight terms of Stirling's series are exact in double precision
FARTHEST = 1.0  # change of a logarithm up to which `half_step` interpolates
NEAR = 0.1  # change of E[log x] up to which `dirichlet_step` interpolates
RISING = np.polynomial.polynomial.polyfromroots(-np.arange(SERIES_FROM))  # a (a + 1) … (a + 9)
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)  # B₂, B₄, …, B₁₆


def _chebyshev(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Chebyshev's nodes in (−1, 1), and the matrix from values there to the coefficients of their polynomial."""
    order = np.arange(count)
    angles = (order + 0.5) * np.pi / count
    to_chebyshev = np.cos(np.outer(order, angles)) * np.where(order == 0, 1.0, 2.0)[:, None] / count
    of_each = [np.polynomial.chebyshev.cheb2poly(row) for row in np.eye(count)]
    return np.cos(angles), np.stack([np.pad(p, (0, count - len(p))) for p in of_each], axis=1) @ to_chebyshev


# as many nodes as make interpolation exact to rounding, for functions as smooth as these and intervals as wide
NODES, TO_POWERS = _chebyshev(20)
FEW_NODES, TO_FEW_POWERS = _chebyshev(12)


gap = jax.jit(gaps.gap)
triangle_gap = jax.jit(gaps.triangle_gap)


@jax.jit
def log_minus_digamma(a: Array) -> Array:
    """log a − ψ(a) > 0 for a > 0, falling from 1/a to 1/(2a)."""
    # Below the series' reach, ψ(a) = ψ(a + 10) − Σ_{k<10} 1/(a + k).
    small = a < SERIES_FROM
    low = jnp.where(small, a, 1.0)
    steps = _ratio_of_steps(low) - jnp.log1p(SERIES_FROM / low)
    high = jnp.where(small, a + SERIES_FROM, a)
    series = horner([b / (2 * k) for k, b in enumerate(BERNOULLI, start=1)], 1 / high**2)
    return 0.5 / high + series + jnp.where(small, steps, 0.0)


def _ratio_of_steps(a: Array) -> Array:
    """Σ_{k<10} 1/(a + k) as one division: P′(a)/P(a) with P(a) = ∏ (a + k), whose coefficients are all positive."""
    slope = np.polynomial.polynomial.polyder(RISING)
    return _polynomial(slope, a) / _polynomial(RISING, a)


@jax.jit
def stirling_remainder(a: Array) -> Array:
    """R(a) = log Γ(a) − a log a + a, convex, with R′(a) = ψ(a) − log a."""
    small = a < SERIES_FROM
    low = jnp.where(small, a, 1.0)
    high = jnp.where(small, SERIES_FROM, a)
    large = 0.5 * jnp.log(2 * jnp.pi / high) + stirling_series(high)
    return jnp.where(small, gammaln(low) - low * jnp.log(low) + low, large)


@jax.jit
def stirling_bregman(a: Array, b: Array) -> Array:
    """R(b) − R(a) − R′(a)(b − a) ≥ 0: what KL divergences of gamma-like families are made of."""
    # Far up R is −½ log a and a tiny series; the divergence of the first is a gap.
    large = (a > SERIES_FROM) & (b > SERIES_FROM)
    up, other = jnp.where(large, a, SERIES_FROM), jnp.where(large, b, SERIES_FROM)
    series, slope = _with_slope(stirling_series, up)
    high = 0.5 * gap((other - up) / up) + stirling_series(other) - series - slope * (other - up)
    low, other = jnp.where(large, 1.0, a), jnp.where(large, 1.0, b)
    plain = stirling_remainder(other) - stirling_remainder(low) + log_minus_digamma(low) * (other - low)
    return jnp.where(large, high, plain)


def stirling_series(a: Array) -> Array:
    """1/(12a) − 1/(360a³) + …"""
    return a * horner([b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI, start=1)], 1 / a**2)


@functools.partial(jax.jit, static_argnums=2)
def wishart_bregman(df: Array, other: Array, dim: int) -> Array:
    """Σ_i B(x − i/2, y − i/2) − B(x, y) over i < D with x = ν/2, y = ν'/2 and B(x, y) = y log(y/x) − y + x.

    What the log-gammas of a Wishart leave of their leading terms; zero at D = 1.
    """
    shift = 0.5 * jnp.arange(dim)
    x, y = 0.5 * jnp.asarray(df)[..., None], 0.5 * jnp.asarray(other)[..., None]
    step, rest = y - x, x - shift
    far = shift * step / (y * rest)
    # (y − c) log(1 + u) + c log(1 + w), c = i/2; where ν and ν' are close the linear terms nearly cancel
    close = jnp.abs(step) < 0.1 * rest
    exact = (y - shift) * jnp.log1p(far) + shift * jnp.log1p(-step / y)
    series = shift * step**2 / (y * rest) - (y - shift) * gap(far) - shift * gap(-step / y)
    return jnp.sum(jnp.where(close, series, exact))


@jax.custom_jvp
@jax.jit
def gamma_shape(excess: Array) -> Array:
    """The a with log a − ψ(a) = s: the shape of a Gamma with log E[x] − E[log x] = s."""
    return _excess_root(log_minus_digamma, excess, start=jnp.log((1 + 2 * excess) / (2 * excess * (1 + excess))))


@gamma_shape.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    shape = gamma_shape(*primals)
    return shape, tangents[0] / _with_slope(log_minus_digamma, shape)[1]


def wishart_excess(half: Array, dim: int) -> Array:
    """s(x) = D log(ν/2) − Σ_{i<D} ψ((ν − i)/2) > 0 as a function of x = (ν − D + 1)/2."""
    args = half[..., None] + 0.5 * jnp.arange(dim)
    # log(ν/2) − log(x + i/2), written as a sum of positive terms
    return jnp.sum(log_minus_digamma(args) + jnp.log1p(0.5 * jnp.arange(dim)[::-1] / args), axis=-1)


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
    return half, tangents[0] / _with_slope(lambda x: wishart_excess(x, dim), half)[1]


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def half_step(half: Array, change: Array, dim: int) -> Array:
    """The h with s(x + h) = s(x) + `change`, s = `wishart_excess`; for D = 1, s(x) = log x − ψ(x).

    `change` has more axes in front than x. With many changes from few places the inverse of log s, nearly a straight
    line in log x, is interpolated around each place, and Newton's method is left for changes that go far. With few, as
    from one datum, Newton's method is quicker than the nodes.
    """
    excess = wishart_excess(half, dim)
    rise = jnp.log1p(change / excess)
    if change.size < len(NODES) * half.size:

        def residual(log_ratio: Array) -> tuple[Array, Array]:
            value, slope = _with_slope(lambda u: jnp.log(wishart_excess(half * jnp.exp(u), dim) / excess), log_ratio)
            return value - rise, slope

        return half * jnp.expm1(_newton(residual, -rise))
    root = lambda rise, start: _excess_root(lambda x: wishart_excess(x, dim), excess * jnp.exp(rise), start)
    nodes = FARTHEST * NODES.reshape(-1, *[1] * half.ndim)
    ratio = jnp.log(root(nodes, jnp.log(half) - nodes) / half) / nodes
    near = jnp.clip(rise, -FARTHEST, FARTHEST)
    log_ratio = near * _polynomial(jnp.tensordot(TO_POWERS, ratio, 1), near / FARTHEST)
    far = lambda start: jnp.where(jnp.abs(rise) > FARTHEST, jnp.log(root(rise, start + jnp.log(half)) / half), start)
    return half * jnp.expm1(jax.lax.cond(jnp.any(jnp.abs(rise) > FARTHEST), far, lambda start: start, log_ratio))


@half_step.defjvp
def _(dim: int, primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    # s′(x + h) (dx + dh) = s′(x) dx + d change
    step, slope = half_step(*primals, dim), lambda x: _with_slope(lambda x: wishart_excess(x, dim), x)[1]
    moved = (slope(primals[0]) * tangents[0] + tangents[1]) / slope(primals[0] + step)
    return step, moved - tangents[0]


@jax.custom_jvp
def dirichlet_step(alpha: Array, gain: Array) -> Array:
    """The δ with E[log x_j] under α + δ higher by `gain`, (…, J), than under α, (J,).

    With many gains from one place the inverse of ψ is interpolated around each α_j and around their sum; Newton's
    method for all J unknowns is left for gains that go far, or are few.
    """
    if gain.size < len(FEW_NODES) * (alpha.size + 1):
        return _dirichlet_newton(alpha, gain)
    delta, found = _dirichlet_near(alpha, gain)
    return jax.lax.cond(found, lambda: delta, lambda: _dirichlet_newton(alpha, gain))


def _dirichlet_near(alpha: Array, gain: Array) -> tuple[Array, Array]:
    """The same for small gains, and whether they were small.

    With ψ(Σα + Σδ) − ψ(Σα) = u, each δ_j is a function of gain_j + u, and Σδ one of u: one unknown for each row.
    """
    places = jnp.append(alpha, jnp.sum(alpha))
    rise = jnp.asarray(NEAR * FEW_NODES[:, None, None])
    steps = places * jnp.expm1(dirichlet_shares(rise, jnp.log(places)))[..., 0]
    powers = jnp.tensordot(TO_FEW_POWERS, steps / rise[..., 0], 1)
    # J first: sums over a short last axis keep XLA from using vector instructions
    gain, powers = jnp.moveaxis(gain, -1, 0), powers.reshape(*powers.shape, *[1] * (gain.ndim - 1))
    moved = lambda rise, powers: rise * _polynomial(powers, rise / NEAR)
    slope = _width(places[-1]) - jnp.sum(_width(places[:-1]))  # of what is missing, where nothing is: 1/ψ′ = α − width

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
def _(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    # the derivative of E[log x] under α + δ, less that under α, is d gain
    alpha, gain = primals
    by_alpha = lambda a: (1 + _bend(a)) / a  # ψ′
    under = by_alpha(alpha) * tangents[0] - by_alpha(jnp.sum(alpha)) * jnp.sum(tangents[0])
    step = dirichlet_step(alpha, gain)
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
        value, slope = _with_slope(log_minus_digamma, part)
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
    return -a * _with_slope(log_minus_digamma, a)[1]


def _with_slope(function: Callable[[Array], Array], at: Array) -> tuple[Array, Array]:
    return jax.jvp(function, (at,), (jnp.ones_like(at),))


def _polynomial(coefficients: Any, x: Array) -> Array:
    """Σ_k c_k xᵏ by Horner's rule, c on the first axis; Clenshaw's recurrence makes XLA compute terms again."""
    value = jnp.zeros_like(x)
    for c in coefficients[::-1]:
        value = value * x + c
    return value


def _excess_root(function: Callable[[Array], Array], excess: Array, start: Array) -> Array:
    """The x > 0 with function(x) = s, where log function is nearly −log x + constant at both ends."""

    def residual(t: Array) -> tuple[Array, Array]:
        value, slope = _with_slope(lambda u: jnp.log(function(jnp.exp(u))), t)
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
