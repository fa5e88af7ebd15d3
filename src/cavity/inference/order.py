"""The order of a sweep: which rows come in which batch, drawn from a key of (seed, sweep, part).

An order that depends on nothing else can be drawn again: by a fit that goes on where another stopped, or by a second
process that is given the same part.
"""

from typing import Any, NamedTuple

import numpy as np

from cavity.inference.contract import CHUNK
from cavity.inference.memory import Slots


class Plan(NamedTuple):
    """The visits of a sweep to one part. Rows equal to the number of rows are padding and weigh nothing."""

    rows: np.ndarray  # (B, M) rows of each batch
    slot: np.ndarray  # (B,) the slot of each batch; past the last where rows have sites of their own, or none


def generator(seed: int, sweep: int, part: int) -> np.random.Generator:
    """The random numbers of one sweep over one part: a child of the seed, unlike any that others draw from it."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(sweep, part)))


def plan(rng: Any, slots: Slots, part: int, n_rows: int, batch_size: int, replace: bool) -> Plan:
    """One sweep over a part in batches of at most `batch_size` rows, each within one slot.

    Rows are permuted, or drawn with replacement; batches of several groups are interleaved at random.
    """
    members = {slots.first: np.arange(n_rows)}
    if slots.of_row is not None:
        members = {slot: rows for slot in slots.visited() if len(rows := slots.rows_of(slot, part))}
    # small batches keep their size whatever the number of rows: programs are compiled for it
    width = min(batch_size, max(CHUNK, *map(len, members.values())))
    parts = [in_batches(visits(rng, rows, width, replace), width, n_rows) for rows in members.values()]
    rows, slot = np.concatenate(parts), np.repeat(list(members), [len(part) for part in parts])
    mixed = np.arange(len(rows)) if len(members) == 1 else rng.permutation(len(rows))
    return Plan(rows[mixed], slot[mixed])


def visits(rng: Any, rows: np.ndarray, batch_size: int, replace: bool) -> np.ndarray:
    """The order in which a slot's rows are seen; a batch that holds all of them has no order."""
    if replace:
        return rng.choice(rows, len(rows))
    return rows if batch_size >= len(rows) else rng.permutation(rows)


def in_batches(rows: np.ndarray, size: int, padding: int) -> np.ndarray:
    """Rows in batches of equal size, the last filled up with the padding index."""
    n_batches = -(-len(rows) // size)
    return np.pad(rows, (0, n_batches * size - len(rows)), constant_values=padding).reshape(n_batches, size)


def part_of_site(slots: Slots, weight: np.ndarray | None, plan: Plan, n_rows: int, total: float) -> np.ndarray:
    """The weight of each batch as a part of its site's (of all data, for K = 0); one where each datum has its own."""
    if slots.own:
        return np.ones(len(plan.rows))
    every = np.ones(n_rows) if weight is None else weight
    return np.append(every, 0.0)[plan.rows].sum(1) / (total if slots.nowhere else slots.counts[plan.slot])
