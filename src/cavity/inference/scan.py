"""Many small batches in one compiled program: a scan over the batches that lie in a chunk.

The update is that of the host (`cavity.inference.update`), traced. Rows of a chunk are laid out batch by batch; those
that fill up the last chunk weigh nothing, and a batch without weight takes no time.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from cavity.inference import memory
from cavity.inference.boundary import call
from cavity.inference.contract import CHUNK, Found, Member, Programs, Rows, Sites, Tree
from cavity.inference.order import Plan
from cavity.inference.update import Info, State, update, update_own


class Batches(NamedTuple):
    """The batches of a chunk: leaves have an axis for the batch, then one for its rows."""

    data: Tree
    weight: Any
    sites: Sites  # of the rows' own, or None
    slot: Any  # (B,)
    rate: Any  # (B,)


def visits(
    programs: Programs, state: State, rows: Rows, plan: Plan, rates: np.ndarray, counts: np.ndarray, power: float
) -> tuple[State, Info]:
    """The batches of a plan, a chunk of them at a time. Sites of the rows' own change in place."""
    n_rows, (n_batches, size) = len(rows.weight), plan.rows.shape
    remembered = bool(plan.slot[0] < len(counts))
    at_once = max(CHUNK // size, 1)
    carried, total = (state.q, state.sites, state.filed, state.filed_weight), Info(0, 0, 0.0, 0.0)
    if rows.sites is not None:
        carried = (state.q, None, None, None)
    for begin in range(0, n_batches, at_once):
        here = slice(begin, begin + at_once)
        batches, which = laid_out(rows, plan.rows[here], plan.slot[here], rates[here], at_once, n_rows)
        carried, info, change = call(
            one_chunk, programs, carried, state.prior, batches, counts, power=power, remembered=remembered
        )
        skipped, backoffs, log_scale = info
        total = total + Info(skipped, backoffs, log_scale, 0.0)
        if rows.sites is not None:
            add_to_rows(rows.sites, which, n_rows, change)
    q, sites, filed, filed_weight = carried
    if rows.sites is not None:
        return state._replace(q=q), total
    return state._replace(q=q, sites=sites, filed=filed, filed_weight=filed_weight), total


def laid_out(
    rows: Rows, which: np.ndarray, slot: np.ndarray, rate: np.ndarray, at_once: int, n_rows: int
) -> tuple[Batches, np.ndarray]:
    """Batches of a chunk, filled up to `at_once`, and which rows they hold."""
    short = at_once - len(which)
    which = np.pad(which, ((0, short), (0, 0)), constant_values=n_rows)
    take = lambda leaf: leaf[np.minimum(which, n_rows - 1)]
    weight = np.where(which < n_rows, take(rows.weight), 0.0)
    batches = Batches(
        jax.tree.map(take, rows.data),
        weight,
        jax.tree.map(take, rows.sites),
        np.pad(slot, (0, short)),
        np.pad(rate, (0, short)),
    )
    return batches, which


def add_to_rows(sites: Sites, which: np.ndarray, n_rows: int, change: Any) -> None:
    """Add what batches changed to the sites of their rows; no row is in two places."""
    here = which < n_rows

    def add(stack: np.ndarray, leaf: np.ndarray) -> None:
        stack[which[here]] += leaf[here]

    jax.tree.map(add, sites, change)


@partial(jax.jit, static_argnames=("power", "remembered"))
def one_chunk(
    programs: Programs, carried: Any, prior: Member, batches: Batches, counts: Array, power: float, remembered: bool
) -> tuple[Any, tuple[Array, Array, Array], Any]:
    """Visit the batches of a chunk in order."""

    def visit(carried: Any, batch: Batches) -> tuple[Any, Any]:
        nothing = jnp.zeros((), int), jnp.zeros((), int), jnp.zeros(())
        still = carried, nothing, None if batch.sites is None else jax.tree.map(jnp.zeros_like, batch.sites)
        step = shared_step if batch.sites is None else own_step
        moving = lambda: step(programs, carried, prior, batch, counts, power, remembered)
        carried, info, change = jax.lax.cond(jnp.any(batch.weight > 0), moving, lambda: still)
        return carried, (info, change)

    carried, (info, change) = jax.lax.scan(visit, carried, batches)
    return carried, jax.tree.map(lambda leaf: jnp.sum(leaf, 0), info), change


def shared_step(
    programs: Programs, carried: Any, prior: Member, batch: Batches, counts: Array, power: float, remembered: bool
) -> tuple[Any, Any, None]:
    """A batch whose rows share a site, or are remembered nowhere."""
    q, sites, filed, filed_weight = carried
    state, slot = State(q, sites, filed, filed_weight, prior), batch.slot[None]
    site, present = None, 1.0
    if remembered:
        site = jax.tree.map(lambda leaf: leaf[0], memory.read(state.sites, slot))
        present = memory.present(memory.count_of(counts, batch.slot))
    found = programs.estimates(state.q, site, present, batch.data, batch.weight, power)
    stacked = Found(*jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], tuple(found)))
    state, cut = update(state, slot, stacked, batch.rate, counts)
    info = found.skipped, jnp.asarray(cut).astype(int), found.log_scale
    return (state.q, state.sites, state.filed, state.filed_weight), info, None


def own_step(
    programs: Programs, carried: Any, prior: Member, batch: Batches, counts: Array, power: float, remembered: bool
) -> tuple[Any, Any, Any]:
    """A batch whose rows have sites of their own."""
    found = programs.own_estimates(carried[0], batch.sites, batch.data, batch.weight, power)
    q, change, cut = update_own(carried[0], found, batch.rate)
    return (q, None, None, None), (found.skipped, jnp.asarray(cut).astype(int), found.log_scale), change
