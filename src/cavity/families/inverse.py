"""Inverse moment maps that have no closed form: of the Gamma, the Wishart and the Dirichlet, at once and as a step.

Arrays of NumPy are taken to the algorithms themselves. For JAX's these are compiled once per shape, also outside jit,
and have derivatives of any order, by `cavity.families.implicit`.
"""

from typing import Any

from cavity._array import Array, is_jax
from cavity.families import concentrations, roots


def gamma_shape(excess: Array) -> Array:
    """The a with log a − ψ(a) = s: the shape of a Gamma with log E[x] − E[log x] = s."""
    return implicit().gamma_shape(excess) if is_jax(excess) else roots.gamma_root(excess)


def wishart_df(excess: Array, dim: int) -> Array:
    """The degrees of freedom ν > D − 1 of a Wishart with log |E[W]| − E[log |W|] = s."""
    return dim - 1 + 2 * wishart_half(excess, dim)


def wishart_half(excess: Array, dim: int) -> Array:
    """The x = (ν − D + 1)/2 with `wishart_excess(x)` = s."""
    return implicit().wishart_half(excess, dim) if is_jax(excess) else roots.wishart_root(excess, dim)


def half_step(half: Array, change: Array, dim: int, near: Any = None) -> Array:
    """The h with s(x + h) = s(x) + `change`, s = `wishart_excess`; for D = 1, s(x) = log x − ψ(x).

    The last axis is that of many changes from one place, where x has length one, or of places. With many changes from
    few places the inverse of log s, nearly a straight line in log x, is interpolated around each place, and Newton's
    method is left for changes that go far. With few, as from one datum, Newton's method is quicker than the nodes.
    `near` is `roots.near_halves(x, dim)`, where it is at hand.
    """
    if is_jax(half, change):
        return implicit().half_step(half, change, dim, near)
    return roots.step_of_half(half, change, dim, near)


def dirichlet_concentration(mean_log: Array) -> Array:
    """The α with ψ(α_j) − ψ(Σα) = E[log x_j], categories on the last axis."""
    if is_jax(mean_log):
        return implicit().dirichlet_concentration(mean_log)
    return concentrations.root_of_concentrations(mean_log)


def dirichlet_step(alpha: Array, gain: Array, near: Any = None) -> Array:
    """The δ with E[log x_j] under α + δ higher by `gain`, (J, n), than under α, (J, n) or (J, 1).

    With many gains from one place the inverse of ψ is interpolated around each α_j and around their sum; Newton's
    method for all J unknowns is left for gains that go far, or are few. `near` is
    `concentrations.near_concentrations(α)`, where it is at hand.
    """
    if is_jax(alpha, gain):
        return implicit().dirichlet_step(alpha, gain, near)
    return concentrations.step_of_concentrations(alpha, gain, near)


def implicit() -> Any:
    """The same with derivatives, for JAX, which is then imported already."""
    from cavity.families import implicit

    return implicit
