"""Anderson's acceleration of sweeps that converge slowly.

A sweep in which every slot is one batch is a fixed map of the sites, λ → g(λ), and its moves r = g(λ) − λ shrink by a
nearly constant factor where rows do not say much of what they could, as between overlapping parts of a mixture. The
combination Σ a_i g(λ_i), Σ a_i = 1, of the last sweeps whose Σ a_i r_i is shortest is then much nearer to the fixed
point than the last of them. Lengths are in posterior standard deviations: ⟨r, r'⟩ = rᵀ ∇²A(q) r'.
Anderson (1965), "Iterative procedures for nonlinear integral equations".
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

DEPTH = 4  # sweeps that are combined
LARGEST = 1e3  # of a_i: beyond, the moves are too alike to tell more
MOST_NUMBERS = 4_000_000  # in the sites of a sweep: larger ones are not kept


@jax.jit
def products(q: Any, moves: Any) -> Array:
    """⟨r_i, r_j⟩ of moves of q that are stacked on the first axis."""
    slope = lambda move: jax.jvp(lambda at: at.moments(), (q,), (move,))[1]
    pairs = zip(jax.tree.leaves(moves), jax.tree.leaves(jax.vmap(slope)(moves)), strict=True)
    flat = lambda leaf: leaf.reshape(len(leaf), -1)
    return jnp.sum(jnp.stack([flat(a) @ flat(b).T for a, b in pairs]), axis=0)


class Acceleration:
    """The last sweeps, and where they point."""

    def __init__(self) -> None:
        self.sweeps: list[tuple[Any, Any]] = []  # g(λ), and the move of q

    def note(self, sites: Any, move: Any) -> None:
        """Remember the sites that a sweep ended with, and by how much it moved q."""
        if sum(leaf.size for leaf in jax.tree.leaves(sites)) > MOST_NUMBERS:
            return
        self.sweeps = [*self.sweeps[1 - DEPTH :], (sites, move)]

    def forget(self) -> None:
        self.sweeps = []

    def propose(self, q: Any) -> Any:
        """Sites nearer to the fixed point, or None while there is too little to go by."""
        if len(self.sweeps) < 2:
            return None
        moves = [move for _, move in self.sweeps]
        moves += [0.0 * moves[0]] * (DEPTH - len(moves))  # one shape, compiled once
        gram = np.asarray(products(q, jax.tree.map(lambda *leaves: jnp.stack(leaves), *moves)))
        share = shortest(gram[: len(self.sweeps), : len(self.sweeps)])
        if share is None:
            return None
        combine = lambda *leaves: sum(a * leaf for a, leaf in zip(share, leaves, strict=True))
        return jax.tree.map(combine, *(sites for sites, _ in self.sweeps))


def shortest(gram: np.ndarray) -> np.ndarray | None:
    """The a with Σ a_i = 1 and the least aᵀ G a; None where it is out of reach."""
    length = np.sqrt(np.diagonal(gram))
    if not np.all(np.isfinite(gram)) or np.any(length <= 0):
        return None
    scaled = gram / np.outer(length, length)
    towards = np.linalg.solve(scaled + 1e-12 * np.eye(len(gram)), 1 / length) / length
    share = towards / towards.sum()
    return share if np.all(np.abs(share) < LARGEST) else None
