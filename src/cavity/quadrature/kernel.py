"""What the rules for many rows are told of a likelihood and of its rows."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

Derivatives = Callable[[Any, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]
Near = Callable[[Any, np.ndarray, np.ndarray], tuple[np.ndarray, ...]]
BLOCK = 2**16  # numbers of an array that is worked on at once: it stays in the processor's cache


class Kernel(NamedTuple):
    """A log-likelihood l(a) of many rows.

    `derivatives(y, a)` gives l, l′ and l″ for `a` of shape (row,) or (node, row). `center(y, mean)` is where l varies
    most, and `length(y)` the distance over which its derivatives change there; None where it is not known. With
    `values(y, a)`, l′ and l″ are rough: good to place nodes with, while results come from these values of l alone.
    `level(y, a)` is l by itself, where it is so flat that rounding of a does not matter. `near(y, mean, shift)` gives
    e^(α (l − l(mean))), l′ − l′(mean) and l″ at mean + shift with fewer steps, for shifts of a few units at most.
    """

    derivatives: Derivatives
    center: Callable[[Any, np.ndarray], np.ndarray] | None
    length: Callable[[Any], Any] | None = None
    log_concave: bool = False
    values: Callable[[Any, np.ndarray], np.ndarray] | None = None
    level: Callable[[Any, np.ndarray], np.ndarray] | None = None
    near: Near | None = None

    @property
    def exact(self) -> bool:
        return self.values is None


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
    """Some rows of every array in a nest of tuples."""
    return map_arrays(lambda part: part[index], y)


def map_arrays(function: Callable[[Any], Any], y: Any) -> Any:
    """A function of every array in a nest of tuples, in the same nest."""
    if not isinstance(y, tuple):
        return function(y)
    parts = [map_arrays(function, part) for part in y]
    return type(y)(*parts) if hasattr(y, "_fields") else tuple(parts)


def weighted_sum(weights: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """Σ_k w_k terms_k in the order of k, for every row alike: BLAS adds in an order that depends on the row's place."""
    if terms.shape[1] == 1:  # NumPy adds a single column in another order
        return weighted_sum(weights, np.repeat(terms, 2, 1))[..., :1]
    return np.einsum("...k,kn->...n", weights, terms)
