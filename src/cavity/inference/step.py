"""Equation (5): one update of q and its sites by a batch of data. There is nothing else to an algorithm.

K and the batch size are array shapes, power and rate are numbers.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from cavity.inference import memory
from cavity.inference.chunks import gather, sum_over_chunks
from cavity.inference.pull import Pull, pull

MAX_HALVINGS = 40


class State(NamedTuple):
    """What the next step needs."""

    q: Any
    sites: Any  # λ_k stacked over slots
    filed: Any  # Σ w_n λ̂_n stacked over slots: this sweep's estimates; None where each datum has its own slot
    filed_weight: Any  # Σ w_n of those estimates, one number per slot


class Batch(NamedTuple):
    """Which data to visit: M rows, and the slot they are remembered in (one for all, or one for each)."""

    rows: Array
    slot: Array


class Info(NamedTuple):
    """What a person may want to see, summed over the data visited."""

    weight: Any  # Σ w_n of the data that moved q
    skipped: Any  # number of data whose cavity or tilted distribution was improper
    backoffs: Any  # number of batches whose rate was cut to keep q proper
    log_scale: Any  # Σ w_n log s_n, the scales of the sites: equation (24)


def each(factor: Any, q: Any, site: Any, present: Any, data: Any, weight: Array, power: float) -> tuple[Any, Info]:
    """Σ w_n δ_n over rows that share a site, from the pull of each."""
    one = partial(pull, factor, q, site, present=present, power=power)
    return summarise(jax.vmap(one)(data), weight)


def sum_of_pulls(
    factor: Any, q: Any, site: Any, present: Any, data: Any, weight: Array, power: float
) -> tuple[Any, Info]:
    """The same, as the factor itself forms the sum where it can."""
    own = getattr(factor, "sum_of_pulls", partial(each, factor))
    return own(q, site, present, data, weight, power)


def step(
    state: State,
    batch: Batch,
    data: Any,
    weight: Array,
    count: Array,
    *,
    factor: Any,
    power: float,
    rate: Any,
) -> tuple[State, Info]:
    """Visit M data: q += ε Σ w_n δ_n and λ_k += (ε/W_k) Σ w_n δ_n over the batch's data in slot k.

    `data` and `weight` hold all rows, `count` the total weight W_k of each slot. Where rows share a slot only sums
    are formed, never one site per datum.
    """
    site, present = memory.read(state.sites, batch.slot), memory.present(memory.count_of(count, batch.slot))
    if jnp.ndim(batch.slot):
        pulls = jax.vmap(partial(pull, factor, power=power), (None, 0, 0, 0))(
            state.q, site, gather(data, batch.rows), present
        )
        move, info = summarise(pulls, memory.weight_of(weight, batch.rows))
    else:
        weighed = lambda rows: (gather(data, rows), memory.weight_of(weight, rows))
        summed = lambda rows: (sum_of_pulls(factor, state.q, site, present, *weighed(rows), power), None)
        (move, info), _ = sum_over_chunks(summed, batch.rows, n_rows=len(weight))
    rate, backed_off = proper_rate(state.q, move, rate)
    info = info._replace(backoffs=backed_off.astype(int))
    q = state.q + rate * move
    if jnp.ndim(batch.slot):
        sites = memory.file(state.sites, batch.slot, rate * pulls.move)
        return State(q, sites, None, None), info
    sites = memory.file(state.sites, batch.slot, (rate / memory.count_of(count, batch.slot)) * move)
    filed = memory.file(state.filed, batch.slot, move + info.weight * site)
    return State(q, sites, filed, memory.file(state.filed_weight, batch.slot, info.weight)), info


def summarise(pulls: Pull, weight: Array) -> tuple[Any, Info]:
    """Σ w_n δ_n over a batch, and what there is to say about it."""
    used = jnp.where(pulls.valid, weight, 0.0)
    move = jax.tree.map(lambda leaf: jnp.tensordot(used, leaf, 1), pulls.move)
    skipped = jnp.sum(~pulls.valid & (weight > 0))
    return move, Info(jnp.sum(used), skipped, jnp.zeros((), int), jnp.sum(used * pulls.log_scale))


def proper_rate(q: Any, move: Any, rate: Any) -> tuple[Array, Array]:
    """The largest of rate, rate/2, rate/4, … that keeps q + rate · move proper (0 if none), and whether it was cut."""
    ok = lambda scale: (q + scale * move).is_proper()
    q, move = jax.lax.stop_gradient((q, move))  # a loop has no reverse derivative, and the rate needs none
    rate = jnp.asarray(rate, dtype=float)

    def halve(carry: Any) -> Any:
        scale, _, tries = carry
        return 0.5 * scale, ok(0.5 * scale), tries + 1

    searching = lambda carry: ~carry[1] & (carry[2] < MAX_HALVINGS)
    scale, found, tries = jax.lax.while_loop(searching, halve, (rate, ok(rate), 0))
    return jnp.where(found, scale, 0.0), jnp.asarray(tries > 0)
