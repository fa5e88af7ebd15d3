"""The evidence log Z, equation (26), and its gradient (31) in the hyper-parameters of prior and likelihood."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.sparse.linalg import gmres

from cavity.families.base import dot
from cavity.inference.kernel import Kernel, Model
from cavity.inference.memory import Plan
from cavity.inference.step import State


class Evidence(NamedTuple):
    """log Z, and what may be wrong with it."""

    value: Any
    left_out: Any  # data whose term could not be formed
    rebuilt: Any  # whether q could be rebuilt from the data's own sites
    refusal: str | None = None  # why there is none: `value` is then NaN


@partial(jax.jit, static_argnames=("kernel", "power"))
def log_evidence(kernel: Kernel, model: Model, sites: Any, plan: Plan, power: float) -> Evidence:
    """log Z = A(q̂) − A(λ₀) + Σ_n w_n {ℓ_α(c_n) + (A(c_n) − A(q))/α} by one closing pass over the data.

    q̂ = λ₀ + Σ w_n λ̂_n is q rebuilt from the data's own sites. At a fixed point it is q; short of one, it makes the
    error of log Z second order in what is left to move, where q itself would leave it first order. At power 0 the gap
    KL(q ‖ q̂) between this and the ELBO is taken off: log Z is then a lower bound wherever q is.
    """
    q = model.prior + kernel.total(sites, model)
    own_sites, terms, left_out = kernel.evidence_terms(q, sites, model, plan, power=power)
    q_hat = model.prior + own_sites
    rebuilt = q.log_partition() + dot(q_hat - q, q.moments()) if power == 0 else q_hat.log_partition()
    ok = jnp.isfinite(rebuilt)  # far from a fixed point q̂ may be improper
    rebuilt = jnp.where(ok, rebuilt, q.log_partition())
    return Evidence(rebuilt - model.prior.log_partition() + terms, left_out, ok)


@partial(jax.jit, static_argnames=("kernel", "power", "stationary"))
def gradient(kernel: Kernel, model: Model, sites: Any, plan: Plan, power: float, stationary: bool) -> tuple[Any, Array]:
    """d log Z at the fixed point with respect to (factor, prior), and the relative error left in solving for u.

    Where log Z is stationary in the sites they are held fixed. Otherwise the sites λ = F(λ, h) move with the
    hyper-parameters h, and by the implicit function theorem

        d log Z/dh = ∂_h log Z + uᵀ ∂_h F,   u = ∂_λ log Z + (∂_λ F)ᵀ u.
    """

    def value(sites: Any, factor: Any, prior: Any) -> Array:
        return log_evidence(kernel, model._replace(factor=factor.smooth(), prior=prior), sites, plan, power).value

    by_sites, *by_hyper = jax.grad(value, (0, 1, 2))(sites, model.factor, model.prior)
    if stationary:
        return tuple(by_hyper), jnp.zeros(())

    def averaged(sites: Any, factor: Any, prior: Any) -> Any:
        return average_of_estimates(kernel, model._replace(factor=factor.smooth(), prior=prior), sites, plan, power)

    _, pull_back = jax.vjp(averaged, sites, model.factor, model.prior)
    minus = lambda a, b: jax.tree.map(jnp.subtract, a, b)
    equation = lambda u: minus(u, pull_back(u)[0])
    adjoint, _ = gmres(equation, by_sites, tol=1e-10, maxiter=20)
    error = norm(minus(equation(adjoint), by_sites)) / jnp.maximum(norm(by_sites), 1e-300)
    return tuple(jax.tree.map(jnp.add, by_hyper, list(pull_back(adjoint)[1:]))), error


def average_of_estimates(kernel: Kernel, model: Model, sites: Any, plan: Plan, power: float) -> Any:
    """F(λ): the mean own-site estimate in each slot, which is what averaged EP, or one parallel step, puts there."""
    q = model.prior + kernel.total(sites, model)
    if plan.slot.ndim == 2:
        state = State(q, sites, None, None)
        return kernel.sweep(state, model, plan, jnp.ones(len(plan.rows)), power=power, mode=None)[0].sites
    zero = jax.tree.map(jnp.zeros_like, sites)
    state = State(q, sites, zero, jnp.zeros_like(model.counts))
    state, _ = kernel.sweep(state, model, plan, jnp.zeros(len(plan.rows)), power=power, mode=None)
    weight = jnp.where(state.filed_weight > 0, state.filed_weight, 1.0)
    return jax.vmap(lambda filed, w: (1 / w) * filed)(state.filed, weight)


def norm(tree: Any) -> Array:
    """The Euclidean norm of all numbers in a pytree."""
    return jnp.sqrt(dot(tree, tree))
