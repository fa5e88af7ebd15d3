"""What is remembered of the data: slots, and how many data each stands for. The only file that knows K.

Every datum points at a slot. Data that point at the same slot share its site λ_k, and W_k is how many they are
(weights are counts). K = N gives each datum its own slot (EP), K = 1 one slot for all (SEP), K groups lie between
(DSEP). A slot past the last is remembered nowhere: that is K = 0 (ADF), for which one unaddressed slot is kept.

Stacks of sites are NumPy's between chunks, and JAX's where batches are scanned inside a compiled program: reads and
writes are for both. On the host a write changes the stack in place, so that a sweep works on a copy of its own.
"""

from typing import Any, NamedTuple

import numpy as np

from cavity import _tree as tree
from cavity._array import Array, is_jax, namespace
from cavity.inference.contract import Rows, Sites, View


class Slots(NamedTuple):
    """How data are assigned to sites."""

    n_sites: int  # K
    own: bool  # whether every datum has a slot to itself
    counts: np.ndarray  # (max(K, 1),) W_k, the total weight of a slot's data; one number where they are the rows' own
    of_row: tuple[np.ndarray, ...] | None = None  # slot of each row, a part after the other, where several are shared
    members: tuple[tuple[np.ndarray, np.ndarray], ...] = ()  # rows of each part by slot, and where each slot's begin

    @property
    def nowhere(self) -> bool:
        """Whether nothing is remembered."""
        return self.n_sites == 0

    @property
    def first(self) -> int:
        """The slot of all data where they share one; past the last where there is none."""
        return 1 if self.nowhere else 0

    def visited(self) -> list[int]:
        """The slots that have any data."""
        if self.of_row is None:
            return [self.first]
        return np.flatnonzero(sum(np.diff(begins) for _, begins in self.members)).tolist()

    def rows_of(self, slot: int, part: int) -> Any:
        """The rows of a slot in a part: all of them, as a slice, where there is one slot only."""
        if self.of_row is None:
            return slice(None)
        rows, begins = self.members[part]
        return rows[begins[slot] : begins[slot + 1]]


def assign(
    groups: np.ndarray | None, n_sites: int, sizes: list[int], weight: np.ndarray | None, once: bool = True
) -> Slots:
    """Slots for K = 0, K = N, or K groups given by labels (one group when there are no labels).

    `sizes` are the numbers of rows in the parts of the source. Sites are kept beside their rows where each row has one
    and is visited `once` in a sweep.
    """
    n_rows = sum(sizes)
    total = float(n_rows if weight is None else weight.sum())
    if n_sites == 0:
        return Slots(0, own=False, counts=np.ones(1))
    if once and n_sites == n_rows and (groups is None or len(np.unique(groups)) == n_rows):
        return Slots(n_rows, own=True, counts=np.array([total]))
    if groups is None or n_sites == 1:
        return Slots(n_sites, own=False, counts=np.array([total]))
    counts = np.bincount(groups, weight, minlength=n_sites).astype(float)
    by_part = tuple(np.split(groups, np.cumsum(sizes)[:-1]))
    in_order = [np.argsort(slots, kind="stable") for slots in by_part]
    begins = [np.append(0, np.cumsum(np.bincount(slots, minlength=n_sites))) for slots in by_part]
    counts = np.where(counts > 0, counts, 1.0)  # of an empty slot, which is never visited
    return Slots(n_sites, False, counts, by_part, tuple(zip(in_order, begins, strict=True)))


def sites_seen(view: View, rows: Rows) -> tuple[Any, np.ndarray]:
    """λ for each of some rows, its own or the one that all share, and how much of it q holds."""
    if rows.sites is not None:
        return rows.sites, present(rows.weight)
    n, site = len(rows.weight), 0.0 * view.q if view.site is None else view.site
    return tree.map(lambda leaf: np.broadcast_to(leaf, (n, *np.shape(leaf))), site), np.full(n, view.present)


def present(count: Array) -> Any:
    """How much of a site a cavity may remove: one copy, or what there is where its data weigh less than one."""
    return namespace(count).minimum(count, 1.0)


def read(sites: Sites, slot: Array) -> Any:
    """λ_k of some slots, stacked; zero for a slot past the last."""
    return tree.map(lambda stack: _read(stack, slot), sites)


def _read(stack: Any, slot: Array) -> Any:
    if is_jax(stack, slot):
        return stack.at[slot].get(mode="fill", fill_value=0)
    inside = slot < len(stack)
    return stack[slot] if np.all(inside) else np.where(lifted(inside, stack), stack[np.where(inside, slot, 0)], 0.0)


def file(sites: Sites, slot: Array, change: Any) -> Any:
    """Add to λ_k of some slots, no two alike; a slot past the last remembers nothing."""
    return tree.map(lambda stack, leaf: _file(stack, slot, leaf), sites, change)


def _file(stack: Any, slot: Array, change: Any) -> Any:
    if is_jax(stack, slot, change):
        return stack.at[slot].add(change, mode="drop")
    inside = slot < len(stack)
    stack[slot[inside]] += change[inside]
    return stack


def count_of(counts: Array, slot: Array) -> Any:
    """W_k of some slots; one for a slot past the last, whose share is dropped anyway."""
    if is_jax(counts, slot):
        return counts.at[slot].get(mode="fill", fill_value=1)
    return np.where(slot < len(counts), counts[np.minimum(slot, len(counts) - 1)], 1.0)


def times(scale: Array, stack: Any) -> Any:
    """Every member of a stack times a number of its own."""
    return tree.map(lambda leaf: lifted(scale, leaf) * leaf, stack)


def lifted(values: Any, leaf: Any) -> Any:
    """One value for each member of a stack, in the shape that broadcasts against the stack."""
    return values.reshape(values.shape + (1,) * (leaf.ndim - values.ndim))


def summed(stack: Any) -> Any:
    """The sum of a stack's members."""
    return tree.map(lambda leaf: leaf.sum(0), stack)


def total(sites: Sites, counts: Array) -> Any:
    """Σ_k W_k λ_k, the second term of equation (1)."""
    return tree.map(lambda stack: namespace(stack).tensordot(counts, stack, 1), sites)
