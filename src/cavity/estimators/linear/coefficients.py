"""The prior of a linear model's coefficients, in the units of the features as they are given.

In standardised units the coefficients are independent, β ~ N(0, v_g) with a variance for each group of features and
b ~ N(0, v_b) for the intercept. With x → (x − c)/s the same functions of x have coefficients β/s and b − cᵀβ/s: the
prior in the given units is a correlated Gaussian, and no data are changed. Without standardisation s = 1 and c = 0.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cavity._warnings import warn
from cavity.families import Gaussian

FARTHEST = 1e5  # means from zero, in standard deviations: half the digits of float64 are left in squares


@dataclass(frozen=True)
class Coefficients:
    """Centre c and scale s of each feature, the group whose variance it has, and the intercept's variance."""

    center: np.ndarray
    scale: np.ndarray
    groups: np.ndarray
    intercept_variance: float | None  # None for no intercept

    @property
    def n_groups(self) -> int:
        return int(self.groups.max()) + 1

    @classmethod
    def of(
        cls, features: Any, weight: np.ndarray, standardize: bool, groups: Any, intercept_variance: float | None
    ) -> "Coefficients":
        """Groups as given, or one for all; centre and scale read from the data where wanted."""
        dim = features.shape[1]
        groups = np.zeros(dim, dtype=int) if groups is None else np.unique(groups, return_inverse=True)[1]
        center, scale = np.zeros(dim), np.ones(dim)
        if standardize:
            center, scale = center_and_scale(features, weight, with_center=intercept_variance is not None)
            far = np.flatnonzero(np.abs(center) > FARTHEST * scale)
            if len(far):
                warn(
                    f"X has columns, such as {far[0]}, whose mean is more than {FARTHEST:.0e} standard deviations from "
                    "zero: coefficients in their units lose digits. Subtract the mean from such columns first.",
                    RuntimeWarning,
                )
        return cls(center, scale, groups, intercept_variance)

    def prior(self, variance: np.ndarray) -> Gaussian:
        """N(0, …) over the coefficients, intercept last, for one variance per group."""
        precision = np.diag(self.scale**2 / variance[self.groups])
        if self.intercept_variance is None:
            return Gaussian(np.zeros(len(self.scale)), precision)
        edge = np.append(self.center, 1.0)  # b in standardised units is b + cᵀβ in the given ones
        full = np.pad(precision, (0, 1)) + np.outer(edge, edge) / self.intercept_variance
        return Gaussian(np.zeros(len(edge)), full)

    def by_log_variance(self, posterior: Gaussian, variance: np.ndarray) -> np.ndarray:
        """d log Z/d log v_g = ½ Σ_{i∈g} (E_q[β_i²]/v_g − 1): with the sites held fixed, equation (30)."""
        dim = len(self.scale)
        square = self.scale**2 * (posterior.mean[:dim] ** 2 + posterior.variance[:dim])
        return 0.5 * np.bincount(self.groups, square / variance[self.groups] - 1.0, self.n_groups)

    def from_gradient(self, by_prior: Gaussian, variance: np.ndarray) -> np.ndarray:
        """d log Z/d log v_g from the derivative in the prior's natural parameters."""
        by_precision = np.diag(by_prior.precision)[: len(self.scale)]
        return -np.bincount(self.groups, by_precision * self.scale**2 / variance[self.groups], self.n_groups)


def center_and_scale(features: Any, weight: np.ndarray, with_center: bool) -> tuple[np.ndarray, np.ndarray]:
    """Weighted mean and standard deviation of every column; a constant column has scale one."""
    share = weight / weight.sum()
    mean = np.asarray(features.T @ share).ravel()
    squared = features.multiply(features) if hasattr(features, "multiply") else features**2
    if hasattr(features, "multiply"):
        variance = np.asarray(squared.T @ share).ravel() - mean**2
    else:
        variance = share @ (features - mean) ** 2
    spread = variance > 1e-14 * np.maximum(mean**2, 1e-300)
    scale = np.where(spread, np.sqrt(np.where(spread, variance, 1.0)), 1.0)
    return (mean if with_center else np.zeros_like(mean)), scale
