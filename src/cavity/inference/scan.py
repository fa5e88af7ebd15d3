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

from cavity._kept import double_precision
from cavity.inference import memory
from cavity.inference.contract import CHUNK, Found, Programs, Rows, Sites, Tree
from cavity.inference.order import Plan
from cavity.inference.update import Info, State, update, update_own

ROWS = 2 * CHUNK  # in one call of the program: what a call costs is spread over more batches


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
    own, n_rows, (n_batches, size) = rows.sites is not None, len(rows.weight), plan.rows.shape
    at_once, remembered = max(ROWS // size, 1), bool(plan.slot[0] < len(counts))
    carried = (state.q, None, None, None) if own else (state.q, state.sites, state.filed, state.filed_weight)
    totals = []
    with double_precision():
        for begin in range(0, n_batches, at_once):
            here = slice(begin, begin + at_once)
            batches, which = laid_out(rows, plan.rows[here], plan.slot[here], rates[here], at_once, n_rows)
            carried, info, change = one_chunk(
                programs, carried, batches, len(plan.slot[here]), counts, power=power, remembered=remembered
            )
            totals.append(info)
            if own:
                add_to_rows(rows.sites, which, n_rows, jax.tree.map(np.asarray, change))
        q, sites, filed, filed_weight = jax.tree.map(np.asarray, carried)
    skipped, backoffs, log_scale = (sum(map(float, column)) for column in zip(*totals, strict=True))
    info = Info(int(skipped), int(backoffs), log_scale, float("nan"))
    if own:
        return state._replace(q=q), info
    return state._replace(q=q, sites=sites, filed=filed, filed_weight=filed_weight), info


def laid_out(
    rows: Rows, which: np.ndarray, slot: np.ndarray, rate: np.ndarray, at_once: int, n_rows: int
) -> tuple[Batches, np.ndarray]:
    """Batches of a chunk, filled up to `at_once`, and which rows they hold."""
    short = at_once - len(which)
    if short:  # the last chunk
        which = np.pad(which, ((0, short), (0, 0)), constant_values=n_rows)
        slot, rate = np.pad(slot, (0, short)), np.pad(rate, (0, short))
    here = which < n_rows
    full = bool(np.all(here))
    take = lambda leaf: leaf[which if full else np.minimum(which, n_rows - 1)]
    weight = take(rows.weight) if full else np.where(here, take(rows.weight), 0.0)
    return Batches(jax.tree.map(take, rows.data), weight, jax.tree.map(take, rows.sites), slot, rate), which


def add_to_rows(sites: Sites, which: np.ndarray, n_rows: int, change: Any) -> None:
    """Add what batches changed to the sites of their rows; no row is in two places."""
    here = which < n_rows

    def add(stack: np.ndarray, leaf: np.ndarray) -> None:
        stack[which[here]] += leaf[here]

    jax.tree.map(add, sites, change)


@partial(jax.jit, static_argnames=("power", "remembered"))
def one_chunk(
    programs: Programs, carried: Any, batches: Batches, number: Any, counts: Array, power: float, remembered: bool
) -> tuple[Any, tuple[Array, Array, Array], Any]:
    """Visit the first `number` batches of a chunk in order."""
    step = shared_step if batches.sites is None else own_step

    def visit(i: Array, loop: Any) -> Any:
        carried, total, changes = loop
        batch = jax.tree.map(lambda leaf: leaf[i], batches)
        carried, info, change = step(programs, carried, batch, counts, power, remembered)
        changes = jax.tree.map(lambda stack, leaf: stack.at[i].set(leaf), changes, change)
        return carried, jax.tree.map(jnp.add, total, info), changes

    nothing = jnp.zeros((), int), jnp.zeros((), int), jnp.zeros(())
    start = carried, nothing, jax.tree.map(jnp.zeros_like, batches.sites)
    return jax.lax.fori_loop(0, number, visit, start)


def shared_step(
    programs: Programs, carried: Any, batch: Batches, counts: Array, power: float, remembered: bool
) -> tuple[Any, Any, None]:
    """A batch whose rows share a site, or are remembered nowhere."""
    q, sites, filed, filed_weight = carried
    state, slot = State(q, sites, filed, filed_weight, None), batch.slot[None]
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
    programs: Programs, carried: Any, batch: Batches, counts: Array, power: float, remembered: bool
) -> tuple[Any, Any, Any]:
    """A batch whose rows have sites of their own."""
    found = programs.own_estimates(carried[0], batch.sites, batch.data, batch.weight, power)
    q, rate, cut = update_own(carried[0], found, batch.rate)
    change = jax.tree.map(lambda leaf: rate * leaf, found.change)
    return (q, None, None, None), (found.skipped, jnp.asarray(cut).astype(int), found.log_scale), change
