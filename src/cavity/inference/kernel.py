"""A sweep over the data, for any family and factor; and the contract for structured versions of it.

A kernel is a few functions. The general one below calls `step` for each batch of the plan. A factor may bring a
kernel of its own that does the same arithmetic faster (`cavity.factors.glm.linear`); tests hold the two equal.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from cavity.families.base import dot
from cavity.inference import memory
from cavity.inference.chunks import gather, sum_over_chunks
from cavity.inference.memory import Plan
from cavity.inference.pull import log_mean_of_site, pull, select
from cavity.inference.step import Batch, Info, State, proper_rate, step


class Model(NamedTuple):
    """What stays fixed during a fit."""

    factor: Any
    prior: Any
    data: Any  # leaves with N rows
    weight: Any  # (N,)
    slot: Any  # (N,) slot of each row
    counts: Any  # (K,) total weight of each slot


class Kernel(NamedTuple):
    """The functions an implementation of the engine consists of."""

    init: Callable[..., State]  # (model, own) -> state
    sweep: Callable[..., tuple[State, Info]]  # (state, model, plan, rates, *, power, mode) -> (state, info)
    total: Callable[..., Any]  # (sites, model) -> Σ_k W_k λ_k, in equation (1)
    evidence_terms: Callable[..., tuple[Any, Array, Array]]  # (q, sites, model, plan, *, power) -> sums in the evidence
    mode: Callable[..., Any]  # (model, weight, plan, rates) -> how to sweep, decided before tracing
    errors_of_sharing: Callable[..., Array]  # (q, site, model, draws, *, power) -> (N, draws): what one site costs


def init(model: Model, own: bool) -> State:
    """Sites of one, and q equal to the prior."""
    stack = lambda leaf: jnp.zeros((len(model.counts), *jnp.shape(leaf)))
    sites = jax.tree.map(stack, model.prior)
    prior = jax.tree.map(jnp.asarray, model.prior)
    return State(prior, sites, None if own else sites, None if own else jnp.zeros(len(model.counts)))


def sweep(
    state: State,
    model: Model,
    plan: Plan,
    rates: Array,
    *,
    power: float,
    mode: None = None,
) -> tuple[State, Info]:
    """Visit the batches of a plan in order; there is one way to do it."""

    def visit(state: State, batch: tuple[Plan, Array]) -> tuple[State, Info]:
        (rows, slot), rate = batch
        return step(
            state,
            Batch(rows, slot),
            model.data,
            model.weight,
            model.counts,
            factor=model.factor,
            power=power,
            rate=rate,
        )

    state, info = jax.lax.scan(visit, state, (plan, rates))
    return state, jax.tree.map(lambda leaf: jnp.sum(leaf, 0), info)


def settle(prior: Any, counts: Array, start: State, end: State, keep: Any, *, average: bool) -> tuple[State, Array]:
    """The end of a sweep: each shared slot becomes the mean of the estimates filed in it, and q is rebuilt from (1).

    Only a share `keep` of the way is taken, halved until q is proper. Where each datum has its own slot the steps
    have done this already. Without averaging the sites stay as the steps left them: the paper's literal update.
    Also returned: whether the share had to be cut.
    """
    if end.filed is None:
        return end, jnp.asarray(False)
    cleared = jax.tree.map(jnp.zeros_like, (end.filed, end.filed_weight))
    if not average:
        return State(end.q, end.sites, *cleared), jnp.asarray(False)
    seen = end.filed_weight > 0
    weight = jnp.where(seen, end.filed_weight, 1.0)
    towards_mean = jax.vmap(lambda filed, w, old, ok: select(ok, (1 / w) * filed - old, 0.0 * old))
    change = towards_mean(end.filed, weight, start.sites, seen)
    keep, cut = proper_rate(start.q, memory.total(change, counts), keep)
    sites = start.sites + keep * change
    return State(prior + memory.total(sites, counts), sites, *cleared), cut


def total(sites: Any, model: Model) -> Any:
    """Σ_k W_k λ_k."""
    return memory.total(sites, model.counts)


def evidence_terms(q: Any, sites: Any, model: Model, plan: Plan, *, power: float) -> tuple[Any, Array, Array]:
    """Σ w_n λ̂_n and Σ w_n {ℓ_α(c_n) + (A(c_n) − A(q))/α} of (26), and for how many data they could not be formed.

    c_n = q − α λ̂_n is the cavity of the datum's own site.
    Where slots are shared, λ̂_n is formed here from the shared site's cavity and not kept.
    """
    own = plan.slot.ndim == 2

    def ask(row: Array, datum: Any) -> tuple[Any, Array]:
        slot = model.slot[row]
        site = memory.read(sites, slot)
        if own:
            return site, jnp.asarray(True)
        asked = pull(model.factor, q, site, datum, memory.present(model.counts[slot]), power)
        return select(asked.valid, site + asked.move, 0.0 * site), asked.valid

    return sum_of_terms(q, model, lambda rows, data: jax.vmap(ask)(rows, data), power)


def sum_of_terms(q: Any, model: Model, ask: Callable[..., tuple[Any, Array]], power: float) -> tuple[Any, Array, Array]:
    """The same, where `ask(rows, data)` gives the own sites of some rows, and which of them are valid."""
    moments, log_partition = q.moments(), q.log_partition()

    def term(row: Array, datum: Any, site: Any, whole: bool) -> Array:
        cavity = q - (power * memory.present(model.weight[row])) * site
        if power == 0:
            removed = dot(site, moments)
        elif whole:  # q again, with the site put back
            removed = (log_partition - cavity.log_partition()) / power
        else:
            removed = log_mean_of_site(cavity, site, power)
        return model.factor.log_mean(cavity, datum, power) - removed

    def chunk(rows: Array) -> tuple[Any, None]:
        weight, data = memory.weight_of(model.weight, rows), gather(model.data, rows)
        rows = jnp.minimum(rows, len(model.weight) - 1)
        site, valid = ask(rows, data)
        terms = lambda whole: jax.vmap(partial(term, whole=whole))(rows, data, site)
        value = jax.lax.cond(jnp.all(model.weight[rows] >= 1), lambda: terms(True), lambda: terms(False))
        usable = jnp.isfinite(value) & valid
        add = lambda leaf: jnp.tensordot(weight, leaf, 1)
        left_out = jnp.sum(~usable & (weight > 0), dtype=float)
        return (jax.tree.map(add, site), add(jnp.where(usable, value, 0.0)), left_out), None

    return sum_over_chunks(chunk, jnp.arange(len(model.weight)))[0]


def errors_of_sharing(q: Any, site: Any, model: Model, draws: Any, *, power: float) -> Array:
    """⟨r_n, T(θ)⟩ for every datum n and draw of θ, zero where it cannot be formed.

    With one site shared by all data, λ̂_n is what a datum asks for without that site, and λ̂_n + r_n what it asks for
    without λ̂_n.
    """
    statistics = jax.vmap(q.statistics)(draws)

    def values(row: Array, datum: Any) -> Array:
        asked = pull(model.factor, q, site, datum, memory.present(jnp.sum(model.weight)), power)
        again = pull(model.factor, q, site + asked.move, datum, memory.present(model.weight[row]), power)
        at_draws = jax.tree.map(lambda t, leaf: jnp.tensordot(t, leaf, leaf.ndim), statistics, again.move)
        return jnp.where(asked.valid & again.valid, sum(jax.tree.leaves(at_draws)), 0.0)

    def chunk(rows: Array) -> tuple[Any, Array]:
        return (), jax.vmap(values)(jnp.minimum(rows, len(model.weight) - 1), gather(model.data, rows))

    return sum_over_chunks(chunk, jnp.arange(len(model.weight)))[1]


GENERAL = Kernel(init, sweep, total, evidence_terms, lambda *_: None, errors_of_sharing)
