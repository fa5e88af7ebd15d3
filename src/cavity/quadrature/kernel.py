"""What the rules for many rows are told of a likelihood and of its rows."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

Derivatives = Callable[[Any, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]
BLOCK = 2**15  # numbers of an array that is worked on at once: it stays in the processor's cache


class Kernel(NamedTuple):
    """A log-likelihood l(a) of many rows.

    `derivatives(y, a)` gives l, l′ and l″ for `a` of shape (row,) or (node, row). `center(y, mean)` is where l varies
    most. `length(y)` is the distance over which its derivatives change there, or None where it is not known. With
    `exact` false, l′ and l″ are rough: good to place nodes with, not for results.
    """

    derivatives: Derivatives
    center: Callable[[Any, np.ndarray], np.ndarray]
    length: Callable[[Any], Any] | None = None
    log_concave: bool = False
    exact: bool = True


class Rows(NamedTuple):
    """Observations with the mean and the standard deviation of their activations."""

    y: Any
    mean: np.ndarray
    scale: np.ndarray

    def take(self, index: np.ndarray) -> "Rows":
        if len(index) == len(self.mean):
            return self  # indices of rows are distinct and in order
        return Rows(take(self.y, index), self.mean[index], self.scale[index])

    def blocks(self, n_nodes: int) -> Iterator[slice]:
        """Slices of rows whose nodes fit into a block."""
        size = max(1, BLOCK // n_nodes)
        return (slice(start, start + size) for start in range(0, len(self.mean), size))


def take(y: Any, index: Any) -> Any:
    """The same rows of every array in a nest of tuples."""
    return tuple(take(part, index) for part in y) if isinstance(y, tuple) else y[index]


def weighted_sum(weights: Any, terms: np.ndarray) -> np.ndarray:
    """Σ_k w_k terms_k in the order of k, for every row alike: BLAS adds in an order that depends on the row's place."""
    total = weights[0] * terms[0]
    for weight, term in zip(weights[1:], terms[1:], strict=True):
        total += weight * term
    return total
