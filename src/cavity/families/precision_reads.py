"""What is read of a symmetric precision matrix on the host, factorised once.

A Gaussian is asked again and again between two steps of a fit: whether it is proper, for its mean, its covariance, its
entropy. All of it comes from one Cholesky factor, which is dropped when the covariance takes its place in memory.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from cavity import linalg
from cavity._array import is_jax
from cavity._tree import leaves


class Reads:
    """Reads of one precision matrix, or of a batch of them."""

    def __init__(self, shift: np.ndarray, precision: np.ndarray) -> None:
        self.shift, self.precision = shift, precision
        self._chol: Any = None
        self._logdet: Any = None
        self._mean: Any = None
        self._covariance: Any = None

    @property
    def chol(self) -> np.ndarray:
        """L with L Lᵀ = Λ; NaN where Λ is not positive definite."""
        chol = self._chol
        if chol is None:
            chol = linalg.cholesky(self.precision)
            if self._logdet is None:
                self._logdet = linalg.logdet(chol)
            if self._covariance is None:
                self._chol = chol
        return chol

    @property
    def logdet(self) -> np.ndarray:
        """log |Λ|, a number for each matrix; NaN where it is not positive definite."""
        if self._logdet is None:
            self._logdet = linalg.logdet(self.chol)
        return self._logdet

    @property
    def mean(self) -> np.ndarray:
        """Λ⁻¹ s."""
        if self._mean is None:
            self._mean = kept(linalg.solve(self.chol, self.shift))
        return self._mean

    @property
    def covariance(self) -> np.ndarray:
        """Λ⁻¹."""
        if self._covariance is None:
            _ = self.mean  # by the factor, while it is there
            self._covariance = kept(linalg.inverse(self.chol))
            self._chol = None
        return self._covariance


def kept(array: Any) -> Any:
    """An array that is handed out more than once, and so must not be written to."""
    if isinstance(array, np.ndarray):
        array.flags.writeable = False
    return array


def read_once(owner: Any, name: str, read: Callable[[], Any]) -> Any:
    """What is read of a member of a family, kept under a name; of numbers of JAX each time, in a compiled program."""
    values = vars(owner)
    if name in values:
        return values[name]
    value = read()
    if not is_jax(*leaves(owner)):
        object.__setattr__(owner, name, value)
    return value
