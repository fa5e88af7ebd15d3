"""Inverse moment maps of the Dirichlet: concentrations from E[log x], at once and as a step from others nearby.

E[log x_j] = ψ(α_j) − ψ(Σα) couples the concentrations through their sum alone, so each solver has one unknown, or an
inverse Hessian by Sherman–Morrison: the algorithms of `cavity.families.inverse`. Written for arrays of NumPy and of JAX
alike. Steps have the categories on their first axis: the last is that of rows.
"""

from typing import Any

import numpy as np

from cavity._array import Array, either, held, is_jax, namespace, repeat_while
from cavity.families.interpolation import Tables, chebyshev
from cavity.families.roots import Interpolation, newton
from cavity.families.stirling import log_minus_digamma, log_minus_digamma_slope, polynomial, trigamma

NEAR = 0.1  # change of E[log x] up to which `dirichlet_step` interpolates
FEW_NODES, TO_FEW_POWERS = chebyshev(12)[:2]
REACHES = {NEAR: len(FEW_NODES), NEAR / 8: 8, NEAR / 64: 6, NEAR / 512: 4}  # with as many nodes
ROUNDS = 6  # of Newton's method, after which a share is exact


def root_of_concentrations(mean_log: Array) -> Array:
    """One unknown, t = log Σα: shares r_j = log(α_j/Σα) follow from it, and log Σ_j exp r_j falls through zero once."""
    xp = namespace(mean_log)

    def residual(t: Array) -> tuple[Array, Array]:
        shares = dirichlet_shares(mean_log, t[..., None])
        total, parts = bend(xp.exp(t))[..., None], bend(xp.exp(t[..., None] + shares))
        whole = log_sum_exp(shares)
        return whole, xp.sum(xp.exp(shares - whole[..., None]) * (total - parts) / (1 + parts), axis=-1)

    spare = -log_sum_exp(mean_log)  # > 0 by Jensen; (J − 1)/(2 Σα) for large α
    t = newton(residual, start=xp.log(0.5 * (mean_log.shape[-1] - 1) / spare))
    feasible = (spare > 0) & xp.all(xp.isfinite(mean_log), axis=-1)
    return xp.where(feasible[..., None], xp.exp(t[..., None] + dirichlet_shares(mean_log, t[..., None])), np.nan)


def dirichlet_shares(mean_log: Array, log_total: Array) -> Array:
    """The r with ψ(e^{t + r}) − ψ(eᵗ) = E[log x]: the inverse of ψ by Newton, relative to the total eᵗ."""
    xp = namespace(mean_log, log_total)
    # r − s(e^{t+r}) = m − s(eᵗ), s = log − ψ: no term grows with the total
    target = mean_log - log_minus_digamma(xp.exp(log_total))

    def advance(carry: tuple[Array, Any]) -> tuple[Array, Any]:
        shares, count = carry
        part = xp.exp(log_total + shares)
        value, slope = log_minus_digamma(part), log_minus_digamma_slope(part)
        return shares - (shares - value - target) / (1 - part * slope), count + 1

    digamma = target + log_total
    low = digamma < -2.22  # where the asymptotes of the inverse of ψ meet: e^y + ½ and −1/(y + γ)
    start = xp.where(low, -1 / (xp.where(low, digamma, -3.0) + 0.5772156649015329), xp.exp(digamma) + 0.5)
    return repeat_while(lambda carry: carry[1] < ROUNDS, advance, (xp.log(start) - log_total, xp.zeros((), int)))[0]


def log_sum_exp(logs: Array) -> Array:
    """log Σ exp over the last axis, with full relative precision where it is nearly zero and one term dominates."""
    xp = namespace(logs)
    first = xp.argmax(logs, axis=-1)[..., None]
    top = xp.take_along_axis(logs, first, axis=-1)
    rest = xp.where(np.arange(logs.shape[-1]) == first, 0.0, xp.exp(logs - top))
    return top[..., 0] + xp.log1p(xp.sum(rest, axis=-1))


def bend(a: Array) -> Array:
    """a ψ′(a) − 1 > 0."""
    return -a * log_minus_digamma_slope(a)


def width(a: Array) -> Array:
    """a − 1/ψ′(a), from a itself where a is small to ½."""
    return a * bend(a) / (1 + bend(a))


def total_of(array: Array) -> Array:
    """The sum over categories, which keeps their axis."""
    return array.sum(0, keepdims=True)


def fisher_solve(alpha: Array, change: Array) -> Array:
    """The dα with (diag ψ′(α) − ψ′(Σα) 11ᵀ) dα = `change`, by Sherman–Morrison, categories on the first axis.

    Widths a − 1/ψ′(a) keep its denominator from cancelling.
    """
    spread = alpha / (1 + bend(alpha))  # 1/ψ′(α)
    return spread * (change + total_of(spread * change) / (total_of(width(alpha)) - width(total_of(alpha))))


# -- steps ----------------------------------------------------------------------------------------------------------


def step_of_concentrations(alpha: Array, gain: Array, near: Any) -> Array:
    """`dirichlet_step`, without its derivatives."""
    if near is None and np.size(gain) < len(FEW_NODES) * (np.size(alpha) + 1):
        return dirichlet_newton(alpha, gain)
    near = near_concentrations(alpha) if near is None else near
    delta, found = dirichlet_near(near, gain)
    return either(found, lambda: delta, lambda: dirichlet_newton(alpha, gain))


def near_concentrations(alpha: Array) -> Any:
    """What adds to α_j and to Σα over the change of ψ there, by polynomials."""
    if not is_jax(alpha):
        return NearConcentrations(alpha)
    xp, alpha = namespace(alpha), held(alpha)  # `dirichlet_step` has a derivative of its own
    places = xp.concatenate([alpha, total_of(alpha)])
    rise = NEAR * FEW_NODES.reshape(-1, *[1] * alpha.ndim)
    steps = places * xp.expm1(dirichlet_shares(rise, xp.log(places)))
    return Interpolation(xp.tensordot(TO_FEW_POWERS, steps / rise, 1), slope_of_missing(alpha))


def slope_of_missing(alpha: Array) -> Array:
    """Of what is missing of a sum, where nothing is: 1/ψ′ = α − width."""
    return (width(total_of(alpha)) - total_of(width(alpha)))[0]


class NearConcentrations(Tables):
    """On the host polynomials are made for changes as far as they are asked for: shorter ones have fewer terms."""

    reaches = REACHES

    def __init__(self, alpha: np.ndarray) -> None:
        super().__init__()
        self.places, self.beside = np.concatenate([alpha, total_of(alpha)]), slope_of_missing(alpha)
        self.slope = trigamma(self.places)
        self.excess = log_minus_digamma(self.places)

    def values(self, steps: np.ndarray) -> np.ndarray:
        """The change of ψ."""
        return np.log1p(steps / self.places) - (log_minus_digamma(self.places + steps) - self.excess)


def dirichlet_near(near: Any, gain: Array) -> tuple[Array, Array]:
    """The change of α for small gains of E[log x], and whether they were small.

    With ψ(Σα + Σδ) − ψ(Σα) = u, each δ_j is a function of gain_j + u, and Σδ one of u: one unknown for each row.
    """
    xp, powers, reach, exact = namespace(gain), *table(near, gain)
    moved, slope = lambda rise, powers: rise * polynomial(powers, rise / reach), near.beside

    def at(u: Array) -> tuple[Array, Array]:
        delta = moved(gain + u, powers[:, :-1])
        return delta, delta.sum(0) - moved(u, powers[:, -1])

    def advance(carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        u, _, missing, count = carry
        u = u - missing / (slope + missing)
        return u, *at(u), count + 1

    unfinished = lambda carry: (xp.max(xp.abs(carry[2])) > 1e-14) & (carry[3] < 20)
    # where a row belongs to one component, all other gains are the same, and this is the answer
    begin = -gain.min(0)
    u, delta, missing, _ = repeat_while(unfinished, advance, (begin, *at(begin), xp.zeros((), int)))
    near_enough = (xp.max(xp.abs(gain + u)) <= reach) & (xp.max(xp.abs(u)) <= reach)
    return delta, (xp.max(xp.abs(missing)) <= 1e-13) & near_enough & exact


def table(near: Any, gain: Array) -> tuple[Array, float, Any]:
    """Polynomials, how far they reach, and whether they are exact."""
    if isinstance(near, Interpolation):
        return near.powers, NEAR, True
    farthest = 2 * float(np.max(np.abs(gain)))  # gains and u together
    return near.near(farthest)


def dirichlet_newton(alpha: Array, gain: Array) -> Array:
    """Newton in log (α + δ), with the inverse Hessian by Sherman–Morrison as for `dirichlet_concentration`, and
    with the digits of δ rather than of α + δ.
    """
    xp, total, excess = namespace(alpha, gain), total_of(alpha), log_minus_digamma
    towards = lambda delta, missing: fisher_solve(alpha + delta, missing) / (alpha + delta)

    def advance(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        delta, _, count = carry
        change = total_of(delta)
        rise = xp.log1p(delta / alpha) - (excess(alpha + delta) - excess(alpha))
        rise_total = xp.log1p(change / total) - (excess(total + change) - excess(total))
        step = xp.clip(towards(delta, gain - rise + rise_total), -3.0, 3.0)
        return delta + (alpha + delta) * xp.expm1(step), step, count + 1

    # convergence is quadratic: after a step of 1e-9 there is nothing left
    unfinished = lambda carry: xp.any(xp.abs(carry[1]) > 1e-9) & (carry[2] < 100)
    start = alpha * xp.expm1(xp.clip(towards(xp.zeros_like(alpha), gain), -3.0, 3.0))
    return repeat_while(unfinished, advance, (start, xp.ones_like(gain), xp.zeros((), int)))[0]
