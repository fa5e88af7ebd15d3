"""What is read of a symmetric precision matrix on the host, factorised once.

A Gaussian is asked again and again between two steps of a fit: whether it is proper, for its mean, its covariance, its
entropy. All of it comes from one Cholesky factor, which is dropped when the covariance takes its place in memory.
"""

from typing import Any

import numpy as np

from cavity import linalg


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
