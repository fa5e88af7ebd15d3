"""Reads of q by NumPy, for families that have a host form."""

from typing import Any

import numpy as np

from cavity import _tree as tree
from cavity.families.base import dot
from cavity.inference.contract import Family


def is_proper(q: Family) -> bool:
    return bool(q.is_proper())


def distance(new: Family, reference: Family) -> Any:
    """How far q is from a reference, in posterior standard deviations."""
    return new.distance(reference)


def means_apart(q: Family, other: Family) -> Any:
    """How many standard deviations of q the means of one number in θ are apart at most."""
    return q.means_apart(other)


def entropy(q: Family) -> Any:
    return q.entropy()


def along(new: Family, old: Family, q: Family) -> Any:
    """⟨η − η', E_q[T]⟩. From one q to another its sign says whether two moves point against each other."""
    return q.expected(new - old)


def log_partition(q: Family) -> Any:
    return q.log_partition()


def rise(q: Family, to: Family) -> Any:
    """⟨η' − η, E_q[T]⟩: by how much A rises from q, to first order."""
    return q.expected(to - q)


def products(q: Family, moves: Any) -> np.ndarray:
    """⟨r_i, r_j⟩ of moves of q that are stacked on the first axis."""
    n = len(tree.leaves(moves)[0])
    each = [tree.map(lambda leaf, i=i: leaf[i], moves) for i in range(n)]
    slopes = [q.moments_along(move) for move in each]
    return np.array([[float(dot(a, slope)) for slope in slopes] for a in each])
