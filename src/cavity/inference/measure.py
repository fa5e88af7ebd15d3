"""What a sweep did to q. Families with a host form are read by NumPy, others by compiled programs."""

from typing import Any, NamedTuple

import numpy as np

from cavity import _tree as tree
from cavity.inference.contract import Family


class Moved(NamedTuple):
    """How far q is from a reference, its entropy, whether this sweep took back some of the last, and if q is proper."""

    distance: float
    entropy: float
    turned: bool
    proper: bool


def measure(reference: Family, before: Family, old: Family, new: Family) -> Moved:
    """What the sweep from `old` to `new` did, after one from `before` to `old`."""
    reads = reads_of(new)
    if not bool(reads.is_proper(new)):
        return Moved(np.inf, float("nan"), False, False)
    turned = float(reads.along(new, old, old)) < float(reads.along(new, old, before))
    return Moved(float(reads.distance(new, reference)), float(reads.entropy(new)), turned, True)


def inner_products(q: Family, moves: list[Any], at_most: int) -> np.ndarray:
    """⟨r_i, r_j⟩ = r_iᵀ ∇²A(q) r_j of some moves of q."""
    filled = [*moves, *[0.0 * moves[0]] * (at_most - len(moves))]  # one shape, compiled once
    stack = tree.map(lambda *leaves: np.stack(leaves), *filled)
    return np.asarray(reads_of(q).products(q, stack))[: len(moves), : len(moves)]


def reads_of(q: Family) -> Any:
    """The module that reads members of q's family."""
    if q.has_host_form():
        from cavity.inference import host_reads as reads
    else:
        from cavity.inference import traced_reads as reads  # type: ignore[no-redef]
    return reads
