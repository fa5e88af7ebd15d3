"""Units in which a linear function is learned: w = (x − a)/b for features, y' = (y − m)/t for the target.

A function with coefficients γ and intercept d there is m + t (γᵀ(x − a)/b + d) = βᵀx + c, with

    β = t γ/b,   c = m + t (d − γᵀa/b).

Columns far from zero keep their digits in w, and lose them in c.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from cavity.estimators.linear.affine import Affine
from cavity.estimators.units import NUMBERS
from cavity.inference.source import pieces
from cavity.inference.threads import Threads, available


@dataclass(frozen=True)
class Units:
    """a and b of each feature, m and t of the target, and whether there is an intercept."""

    center: np.ndarray
    scale: np.ndarray
    middle: float
    spread: float
    intercept: bool

    @property
    def dim(self) -> int:
        """Number of coefficients, the intercept among them."""
        return len(self.scale) + self.intercept

    def design(self, X: Any) -> Any:
        """w of every row, and one for the intercept. Sparse rows are scaled, and not centred."""
        if sparse.issparse(X):
            scaled = X @ sparse.diags_array(1 / self.scale)
            ones = sparse.csr_array(np.ones((X.shape[0], int(self.intercept))))
            return sparse.csr_array(sparse.hstack([scaled, ones], format="csr"))
        design, dim = np.empty((len(X), self.dim)), len(self.scale)

        def fill(rows: slice) -> None:
            design[rows, dim:] = 1.0
            features = design[rows, :dim]
            np.subtract(X[rows], self.center, out=features)
            features /= self.scale

        lots = pieces(slice(None), len(X), max(NUMBERS // max(dim, 1), 1))
        with Threads(available() if len(lots) > 1 else 1) as threads:
            for _ in threads.map(fill, lots):
                pass
        return design

    def target(self, y: np.ndarray) -> np.ndarray:
        """y' of every row."""
        return (y - self.middle) / self.spread

    def to_given(self) -> Affine:
        """From coefficients in these units to those in the user's."""
        ratio = self.spread / self.scale
        return Affine(ratio, -self.center * ratio, self.spread if self.intercept else None, self.middle)

    def to(self, other: "Units") -> Affine:
        """From coefficients in these units to those of the same function in others."""
        ratio = self.spread / other.spread
        edge = ratio * (other.center - self.center) / self.scale
        last = ratio if self.intercept else None
        return Affine(ratio * other.scale / self.scale, edge, last, (self.middle - other.middle) / other.spread)
