"""Anderson's acceleration of sweeps that converge slowly.

A sweep over all rows at once is a fixed map of the sites, λ → g(λ), and its moves r = g(λ) − λ shrink by a nearly
constant factor where rows do not say much of what they could, as between overlapping parts of a mixture. The
combination Σ a_i g(λ_i), Σ a_i = 1, of the last sweeps whose Σ a_i r_i is shortest is then much nearer to the fixed
point than the last of them. Lengths are in posterior standard deviations: ⟨r, r'⟩ = rᵀ ∇²A(q) r'.
Anderson (1965), "Iterative procedures for nonlinear integral equations".
"""

from typing import Any, NamedTuple

import numpy as np

from cavity import _tree as tree
from cavity.inference.contract import Family, Sites
from cavity.inference.measure import inner_products

DEPTH = 4  # sweeps that are combined
LARGEST = 1e3  # of a_i: beyond, the moves are too alike to tell more
MOST_NUMBERS = 4_000_000  # in the sites of a sweep: larger ones are not kept


class Past(NamedTuple):
    """A sweep that may be combined with others."""

    sites: Sites  # g(λ)
    move: Family  # of q


def with_sweep(past: tuple[Past, ...], sites: Sites, move: Family) -> tuple[Past, ...]:
    """The last sweeps, with the sites that one more ended with, and by how much it moved q."""
    if sum(leaf.size for leaf in tree.leaves(sites)) > MOST_NUMBERS:
        return past
    return (*past[1 - DEPTH :], Past(sites, move))


def proposed(past: tuple[Past, ...], q: Family) -> Any:
    """Sites nearer to the fixed point, or None while there is too little to go by."""
    if len(past) < 2:
        return None
    share = shortest(inner_products(q, [each.move for each in past], DEPTH))
    if share is None:
        return None
    combine = lambda *leaves: sum(a * leaf for a, leaf in zip(share, leaves, strict=True))
    return tree.map(combine, *(each.sites for each in past))


def shortest(gram: np.ndarray) -> np.ndarray | None:
    """The a with Σ a_i = 1 and the least aᵀ G a; None where it is out of reach."""
    length = np.sqrt(np.diagonal(gram))
    if not np.all(np.isfinite(gram)) or np.any(length <= 0):
        return None
    scaled = gram / np.outer(length, length)
    towards = np.linalg.solve(scaled + 1e-12 * np.eye(len(gram)), 1 / length) / length
    share = towards / towards.sum()
    return share if np.all(np.abs(share) < LARGEST) else None
