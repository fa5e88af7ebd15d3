"""Data in blocks: a factor whose datum is many rows at once, so that one site stands for a whole block.

With a site for each block EP is distributed EP, and SEP, AEP and ADF have blocks for data in the same way. What a block
asks for has no closed form: it comes from sampling (`cavity.factors.sampled`) or from EP inside the block
(`cavity.factors.nested`), outside compiled programs (`cavity.factors.blocks.sums`).
"""

import abc
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from cavity._checks import is_integer
from cavity.factors.base import Factor, as_rows
from cavity.factors.blocks.sums import Asking, OfBlocks


class Blocks(NamedTuple):
    """Rows in blocks of equal length. Short blocks are filled up with rows that are not present."""

    rows: Any  # leaves (block, row, …)
    present: Any  # (block, row), one or zero


def in_blocks(data: Any, n_blocks: int | None = None, seed: int = 0, labels: Any = None) -> Blocks:
    """Data in blocks, for factors that see a block at a time.

    Rows are dealt out at random to `n_blocks` blocks whose sizes differ by one at most, or by `labels` 0, 1, … that say
    where each belongs (hospitals, files, machines).

    >>> import cavity, numpy as np
    >>> blocks = cavity.factors.in_blocks((np.ones((5, 2)), np.ones(5)), n_blocks=2)
    >>> blocks.rows[0].shape, blocks.present.sum(1).tolist()
    ((2, 3, 2), [3.0, 2.0])
    """
    if any(hasattr(leaf, "tocsr") for leaf in jax.tree.leaves(data)):
        raise ValueError("data must be dense to be put in blocks; got a sparse matrix. Use X.toarray().")
    data = as_rows(data)
    n = len(jax.tree.leaves(data)[0])
    label = np.arange(n) % check_count(n_blocks, n) if labels is None else check_labels(labels, n_blocks, n)
    order = np.random.default_rng(seed).permutation(n) if labels is None else np.arange(n)
    members = [order[label == block] for block in range(int(label.max(initial=-1)) + 1)]
    width = max(len(m) for m in members)
    rows = np.stack([np.pad(m, (0, width - len(m)), mode="edge") for m in members])
    present = np.arange(width) < np.array([[len(m)] for m in members])
    return Blocks(jax.tree.map(lambda leaf: leaf[rows], data), present.astype(np.float64))


def check_count(n_blocks: Any, n: int) -> int:
    """A number of blocks, none of them empty."""
    if not (is_integer(n_blocks) and 1 <= n_blocks <= n):
        raise ValueError(f"n_blocks must be an integer from 1 to the number of rows, {n}; got {n_blocks=}.")
    return int(n_blocks)


def check_labels(labels: Any, n_blocks: Any, n: int) -> np.ndarray:
    """Labels 0, 1, … without gaps, one for each row."""
    if n_blocks is not None:
        raise ValueError("n_blocks must be None where labels are given: they say how many blocks there are.")
    label = np.asarray(labels)
    if label.shape != (n,) or label.dtype.kind not in "iu" or n == 0:
        raise ValueError(f"labels must be integers, one per row, ({n},); got shape {label.shape}, dtype {label.dtype}.")
    found = np.unique(label)
    if not np.array_equal(found, np.arange(len(found))):
        raise ValueError(f"labels must be 0, 1, … without gaps; got {found[:10].tolist()}.")
    return label


class BlockFactor(Factor):
    """A likelihood over blocks; `rows_factor` is that of one row."""

    rows_factor: Any

    @abc.abstractmethod
    def asking(self, prior: Any, data: Blocks) -> Asking:
        """How a fit asks its blocks."""

    def check_setting(self, prior: Any, algorithm: Any) -> None:
        """Raise a ValueError for a prior or an algorithm that this cannot handle."""

    def log_mean(self, q: Any, datum: Any, power: float) -> Array:
        raise ValueError(
            f"factor must have a log_mean that JAX can trace for this; {type(self).__name__.lower()}() has none. Its "
            "evidence cannot be differentiated, and its parts cannot be used outside cavity.fit."
        )

    def check(self, prior: Any, data: Any) -> Blocks:
        if not isinstance(data, Blocks):
            raise ValueError(
                f"data must be in blocks: cavity.factors.in_blocks(data, n_blocks=20); got {type(data).__name__}."
            )
        here = np.asarray(data.present) > 0
        flat = self.rows_factor.check(prior, jax.tree.map(lambda leaf: np.asarray(leaf)[here], data.rows))
        return Blocks(jax.tree.map(lambda leaf: refill(leaf, here), flat), here.astype(np.float64))

    def sums(self, prior: Any, data: Any, algorithm: Any) -> OfBlocks:
        self.check_setting(prior, algorithm)
        return OfBlocks(self.asking(prior, data), prior)


def refill(leaf: np.ndarray, here: np.ndarray) -> np.ndarray:
    """Rows put back in their blocks; where there is none, the block's first stands in."""
    place = np.cumsum(here.ravel()).reshape(here.shape) - 1
    return leaf[np.where(here, place, place[:, :1])]
