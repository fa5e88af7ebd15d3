"""How data move q: equations (2)–(4) for one datum, and their sums over rows. All of it is traced by JAX."""

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from cavity._pytree import pytree
from cavity.families.base import dot
from cavity.inference import memory
from cavity.inference.blocks import over_blocks
from cavity.inference.contract import Factor, Found, Member, Programs, Sites, Terms, Tree


class Pull(NamedTuple):
    """What one datum asks for."""

    move: Member  # δ = λ̂ − λ, zero where it is not valid
    valid: Array  # whether cavity, tilted distribution and move were proper
    log_scale: Array  # ℓ_α(c) + (A(c) − A(c + α λ̂))/α, zero where it is not valid: what λ̂ leaves of p


def pull(factor: Factor, q: Member, site: Sites, datum: Tree, present: Array, power: float) -> Pull:
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


def estimates_of_each(
    factor: Factor, q: Member, site: Sites, present: Array, data: Tree, weight: Array, power: float
) -> Found:
    """Σ w λ̂ over rows that share a site, from the pull of each; without a site nothing is removed."""
    site = 0.0 * q if site is None else site

    def block(weight: Array, data: Tree) -> tuple[Found, None]:
        return summarise(jax.vmap(lambda datum: pull(factor, q, site, datum, present, power))(data), weight), None

    found, _ = over_blocks(block, weight, data)
    return found._replace(total=found.total + found.weight * site)


def estimates_of_own(factor: Factor, q: Member, sites: Sites, data: Tree, weight: Array, power: float) -> Found:
    """Σ w (λ̂ − λ) over rows with sites of their own, and the change of each."""

    def block(weight: Array, data: Tree, sites: Sites) -> tuple[Found, Any]:
        one = lambda site, datum, present: pull(factor, q, site, datum, present, power)
        pulls = jax.vmap(one)(sites, data, memory.present(weight))
        return summarise(pulls, weight), pulls.move

    found, change = over_blocks(block, weight, data, sites)
    return found._replace(change=change)


def summarise(pulls: Pull, weight: Array) -> Found:
    """Σ w δ over rows, and what there is to say about them."""
    used = jnp.where(pulls.valid, weight, 0.0)
    move = jax.tree.map(lambda leaf: jnp.tensordot(used, leaf, 1), pulls.move)
    skipped = jnp.sum(~pulls.valid & (weight > 0))
    return Found(move, jnp.sum(used), skipped, jnp.sum(used * pulls.log_scale), jnp.asarray(False))


def terms_of_each(
    factor: Factor, q: Member, site: Sites, present: Array, data: Tree, weight: Array, power: float
) -> Terms:
    """What rows that share a site add to the closing evidence: own sites are formed from its cavity and not kept."""

    def block(weight: Array, data: Tree) -> tuple[Terms, None]:
        sites, valid = own_sites(factor, q, site, present, data, power)
        again = lambda site, datum, present: pull(factor, q, site, datum, present, power)
        pulls = jax.vmap(again)(sites, data, memory.present(weight))
        moves = summarise(pulls._replace(valid=pulls.valid & valid), weight).total
        return sum_of_terms(factor, q, sites, valid, data, weight, power)._replace(moves=moves), None

    return over_blocks(block, weight, data)[0]


def terms_of_own(factor: Factor, q: Member, sites: Sites, data: Tree, weight: Array, power: float) -> Terms:
    """What rows with sites of their own add to the closing evidence."""

    def block(weight: Array, data: Tree, sites: Sites) -> tuple[Terms, None]:
        return sum_of_terms(factor, q, sites, jnp.ones(len(weight), bool), data, weight, power), None

    return over_blocks(block, weight, data, sites)[0]


def sum_of_terms(
    factor: Factor, q: Member, sites: Sites, valid: Array, data: Tree, weight: Array, power: float
) -> Terms:
    """Σ w λ̂ and the sum of the terms in (26) that can be formed."""
    value = evidence_terms(factor, q, sites, data, weight, power)
    usable = jnp.isfinite(value) & valid
    add = lambda leaf: jnp.tensordot(jnp.where(usable, weight, 0.0), leaf, 1)
    left_out = jnp.sum(~usable & (weight > 0), dtype=float)
    finite = jax.tree.map(lambda leaf: jnp.where(memory.lifted(usable, leaf), leaf, 0.0), sites)
    return Terms(jax.tree.map(add, finite), add(jnp.where(usable, value, 0.0)), left_out)


def log_mean_of_site(cavity: Member, site: Sites, power: float) -> Array:
    """(1/α) log E_c[site^α] = (A(c + α λ) − A(c))/α, and its limit ⟨λ, ∇A(c)⟩ at α = 0."""
    if power == 0:
        return dot(site, cavity.moments())
    return ((cavity + power * site).log_partition() - cavity.log_partition()) / power


def own_sites(factor: Factor, q: Member, site: Sites, present: Array, data: Tree, power: float) -> tuple[Any, Array]:
    """λ̂ of every row from the cavity of a shared site, and whether it could be formed."""

    def one(datum: Tree) -> tuple[Any, Array]:
        asked = pull(factor, q, site, datum, present, power)
        return select(asked.valid, site + asked.move, 0.0 * site), asked.valid

    return jax.vmap(one)(data)


def evidence_terms(factor: Factor, q: Member, sites: Sites, data: Tree, weight: Array, power: float) -> Array:
    """ℓ_α(c) + (A(c) − A(q))/α of every row, with c = q − α λ̂ the cavity of its own site."""
    moments, log_partition = q.moments(), q.log_partition()

    def term(site: Sites, datum: Tree, weight: Array, whole: bool) -> Array:
        cavity = q - (power * memory.present(weight)) * site
        if power == 0:
            removed = dot(site, moments)
        elif whole:  # q again, with the site put back
            removed = (log_partition - cavity.log_partition()) / power
        else:
            removed = log_mean_of_site(cavity, site, power)
        return factor.log_mean(cavity, datum, power) - removed

    terms = lambda whole: jax.vmap(partial(term, whole=whole))(sites, data, weight)
    return jax.lax.cond(jnp.all((weight >= 1) | (weight == 0)), lambda: terms(True), lambda: terms(False))


def errors_of_sharing(
    factor: Factor, q: Member, site: Sites, present: Array, data: Tree, weight: Array, draws: Tree, power: float
) -> Array:
    """⟨r, T(θ)⟩ for every row and draw of θ, zero where it cannot be formed.

    λ̂ is what a datum asks for without the shared site, and λ̂ + r what it asks for without λ̂.
    """
    statistics = jax.vmap(q.statistics)(draws)

    def values(datum: Tree, weight: Array) -> Array:
        asked = pull(factor, q, site, datum, present, power)
        again = pull(factor, q, site + asked.move, datum, memory.present(weight), power)
        at_draws = jax.tree.map(lambda t, leaf: jnp.tensordot(t, leaf, leaf.ndim), statistics, again.move)
        return jnp.where(asked.valid & again.valid, sum(jax.tree.leaves(at_draws)), 0.0)

    return over_blocks(lambda weight, data: ((), jax.vmap(values)(data, weight)), weight, data)[1]


def select(condition: Array, yes: Any, no: Any) -> Any:
    """`jnp.where` over the leaves of two pytrees."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def all_finite(tree: Any) -> Array:
    """Whether every number in a pytree is finite."""
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree)]))


@pytree
class Each(Programs):
    """Sums over rows from what the factor says of each."""

    factor: Any

    def estimates(self, q: Member, site: Sites, present: Array, data: Tree, weight: Array, power: float) -> Found:
        return estimates_of_each(self.factor, q, site, present, data, weight, power)

    def terms(self, q: Member, site: Sites, present: Array, data: Tree, weight: Array, power: float) -> Terms:
        return terms_of_each(self.factor, q, site, present, data, weight, power)

    def errors(
        self, q: Member, site: Sites, present: Array, data: Tree, weight: Array, draws: Tree, power: float
    ) -> Array:
        return errors_of_sharing(self.factor, q, site, present, data, weight, draws, power)

    def own_site(self, prior: Member) -> Any:
        return jax.tree.map(np.zeros_like, prior)

    def own_total(self, prior: Member, sites: Sites, data: Tree, weight: Array) -> Any:
        return jax.tree.map(lambda leaf: jnp.tensordot(weight, leaf, 1), sites)

    def own_estimates(self, q: Member, sites: Sites, data: Tree, weight: Array, power: float) -> Found:
        return estimates_of_own(self.factor, q, sites, data, weight, power)

    def own_terms(self, q: Member, sites: Sites, data: Tree, weight: Array, power: float) -> Terms:
        return terms_of_own(self.factor, q, sites, data, weight, power)

    def with_factor(self, factor: Factor) -> "Each":
        return replace(self, factor=factor)
