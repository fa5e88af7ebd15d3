"""What is remembered of the data: slots, counts and the order of visits. The only file that knows K.

Every datum points at a slot. Data that point at the same slot share its site λ_k, and W_k is how many they are
(weights are counts). K = N gives each datum its own slot (EP), K = 1 one slot for all (SEP), K groups lie between
(DSEP). A slot past the last is remembered nowhere: that is K = 0 (ADF), for which one unaddressed slot is kept
because JAX cannot gather from an empty stack.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array


class Slots(NamedTuple):
    """How data are assigned to sites."""

    of_row: np.ndarray  # (N,) slot of each datum
    counts: np.ndarray  # (max(K, 1),) W_k, the total weight of a slot's data
    n_sites: int  # K
    own: bool  # whether every datum has a slot to itself


class Plan(NamedTuple):
    """The visits of one sweep, as arrays. Rows equal to N are padding and weigh nothing."""

    rows: Any  # (B, M) data of each batch
    slot: Any  # (B,) one slot for a whole batch, or (B, M) one for each row


def assign(groups: np.ndarray | None, n_sites: int, weight: np.ndarray) -> Slots:
    """Slots for K = 0, K = N, or K groups given by labels (one group when there are no labels)."""
    n = len(weight)
    if n_sites == 0:
        return Slots(np.ones(n, dtype=int), np.ones(1), 0, own=False)
    if n_sites == n and (groups is None or len(np.unique(groups)) == n):
        return Slots(np.arange(n), weight, n, own=True)
    of_row = np.zeros(n, dtype=int) if groups is None else groups
    return Slots(of_row, np.bincount(of_row, weight, minlength=n_sites), n_sites, own=False)


def plan(rng: np.random.Generator, slots: Slots, batch_size: int | None, replace: bool) -> Plan:
    """One sweep in batches of `batch_size` rows (all of a slot's rows where None), each within one slot.

    Rows are permuted, or drawn with replacement; batches of several groups are interleaved at random.
    """
    n = len(slots.of_row)
    if slots.own or slots.n_sites <= 1:
        rows = in_batches(visits(rng, np.arange(n), batch_size, replace), batch_size or n, n)
        return Plan(rows, rows if slots.own else np.full(len(rows), slots.of_row[0]))
    order = np.argsort(slots.of_row, kind="stable")
    members = np.split(order, np.cumsum(np.bincount(slots.of_row, minlength=slots.n_sites))[:-1])
    width = batch_size or max(len(m) for m in members)
    parts = [in_batches(visits(rng, m, batch_size, replace), width, n) for m in members]
    rows = np.concatenate(parts)
    slot = np.repeat(np.arange(slots.n_sites), [len(p) for p in parts])
    mixed = rng.permutation(len(rows))
    return Plan(rows[mixed], slot[mixed])


def part_of_site(slots: Slots, weight: np.ndarray, plan: Plan) -> np.ndarray:
    """The weight of each batch as a part of its site's (of all data, for K = 0); one where each datum has its own."""
    if slots.own:
        return np.ones(len(plan.rows))
    total = slots.counts[plan.slot] if slots.n_sites else weight.sum()
    return np.append(weight, 0.0)[plan.rows].sum(1) / total


def visits(rng: np.random.Generator, rows: np.ndarray, batch_size: int | None, replace: bool) -> np.ndarray:
    """The order in which a slot's rows are seen; a batch that holds all of them has no order."""
    if replace:
        return rng.choice(rows, len(rows))
    return rows if batch_size is None or batch_size >= len(rows) else rng.permutation(rows)


def in_batches(rows: np.ndarray, size: int, padding: int) -> np.ndarray:
    """Rows in batches of equal size, the last filled up with the padding index."""
    n_batches = -(-len(rows) // size)
    return np.pad(rows, (0, n_batches * size - len(rows)), constant_values=padding).reshape(n_batches, size)


def read(sites: Any, slot: Array) -> Any:
    """λ_k for a slot, or one for each of several; zero for a slot past the last."""
    return jax.tree.map(lambda stack: stack.at[slot].get(mode="fill", fill_value=0), sites)


def weight_of(weight: Array, rows: Array) -> Array:
    """w_n of the given rows; zero for padding."""
    return jnp.asarray(weight).at[rows].get(mode="fill", fill_value=0)


def count_of(count: Array, slot: Array) -> Array:
    """W_k of a slot; one for a slot past the last, whose share is dropped anyway."""
    return jnp.asarray(count).at[slot].get(mode="fill", fill_value=1)


def present(count: Array) -> Array:
    """How much of a site a cavity may remove: one copy, or what there is where its data weigh less than one."""
    return jnp.minimum(jnp.asarray(count, dtype=float), 1.0)


def file(sites: Any, slot: Array, change: Any) -> Any:
    """Add to λ_k; a slot past the last remembers nothing."""
    return jax.tree.map(lambda stack, leaf: stack.at[slot].add(leaf, mode="drop"), sites, change)


def total(sites: Any, count: Array) -> Any:
    """Σ_k W_k λ_k, the second term of equation (1)."""
    return jax.tree.map(lambda stack: jnp.tensordot(count, stack, 1), sites)
