"""Inverse moment maps of the Dirichlet: concentrations from E[log x], at once and as a step from others nearby.

E[log x_j] = ψ(α_j) − ψ(Σα) couples the concentrations through their sum alone, so each solver has one unknown, or an
inverse Hessian by Sherman–Morrison.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from cavity.families.inverse import Interpolation, chebyshev, newton
from cavity.families.stirling import log_minus_digamma, polynomial, with_slope

NEAR = 0.1  # change of E[log x] up to which `dirichlet_step` interpolates
FEW_NODES, TO_FEW_POWERS = chebyshev(12)[:2]


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
    t = newton(residual, start=jnp.log(0.5 * (mean_log.shape[-1] - 1) / spare))
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
    """Newton in log (α + δ), with the inverse Hessian by Sherman–Morrison as for `dirichlet_concentration`, and
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
