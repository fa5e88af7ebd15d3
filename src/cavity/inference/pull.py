"""How one datum moves q: equations (2)–(4)."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from cavity.families.base import dot


class Pull(NamedTuple):
    """What one datum asks for."""

    move: Any  # δ_n = λ̂_n − λ_k, zero where it is not valid
    valid: Array  # whether cavity, tilted distribution and move were proper
    log_scale: Array  # ℓ_α(c_n) + (A(c_n) − A(c_n + α λ̂_n))/α, zero where it is not valid: what λ̂_n leaves of p


def pull(factor: Any, q: Any, site: Any, datum: Any, present: Any, power: float) -> Pull:
    """δ = (proj[(q / siteᵅ) pᵅ] − q) / α, and its limit at α = 0.

    Written with the datum's own site λ̂ = (proj[c pᵅ] − c)/α the move is δ = λ̂ − λ. `present` is the part of a copy of
    the site that q holds: one, unless its data weigh less. An improper cavity or tilted distribution gives no move, of
    the part that is so where a factor matches parts by themselves: a datum with no move is skipped and counted, and
    nothing that is not a number reaches q.
    """
    cavity = q - (power * present) * site
    proper = factor.proper_parts(cavity, q)
    cavity = jax.tree.map(jnp.where, proper, cavity, q)  # somewhere harmless to evaluate; the result is not used
    estimate, log_mean = factor.estimate(cavity, datum, power)
    matched = factor.proper_parts(cavity + power * estimate, cavity)
    good = all_finite(estimate) & jnp.isfinite(log_mean)
    moves = jax.tree.map(lambda a, b: a & b & good, proper, matched)
    valid = jnp.any(jnp.stack([jnp.any(leaf) for leaf in jax.tree.leaves(moves)]))
    move = jax.tree.map(lambda ok, new, old: jnp.where(ok, new - old, 0.0), moves, estimate, site)
    log_scale = log_mean - log_mean_of_site(cavity, estimate, power)
    return Pull(move, valid, jnp.where(valid, log_scale, 0.0))


def log_mean_of_site(cavity: Any, site: Any, power: float) -> Array:
    """(1/α) log E_c[site^α] = (A(c + α λ) − A(c))/α, and its limit ⟨λ, ∇A(c)⟩ at α = 0."""
    if power == 0:
        return dot(site, cavity.moments())
    return ((cavity + power * site).log_partition() - cavity.log_partition()) / power


def select(condition: Array, yes: Any, no: Any) -> Any:
    """`jnp.where` over the leaves of two pytrees."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def all_finite(tree: Any) -> Array:
    """Whether every number in a pytree is finite."""
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree)]))
