"""The prior of a linear function, in the units in which it is learned.

For features with centre c and scale s, and a target with middle μ and spread τ, coefficients are independent before any
data: β s/τ ~ N(0, v_g), with a variance for each group of features, and the value at c is N(μ, v_b τ²). With all of
these read from the data the prior is one on a scale that data define; with c = μ = 0 and s = τ = 1 it is one in the
units of the user.

In units w = (x − a)/b and y' = (y − m)/t these are γ r ~ N(0, v_g) with r = t s/(b τ), and eᵀγ + d ~ N((μ − m)/t,
v_b τ²/t²) with e = (c − a)/b.

A learned v has a prior of its own: the standard deviation of what a group adds to the function, √(v_g Σ 1/r²), is
log-normal around a value that is usual for the likelihood, within a factor of 1.5 nats.
"""

from dataclasses import dataclass

import numpy as np

from cavity.estimators.linear.units import Units
from cavity.families import Gaussian

USUAL_WITHIN = 1.5  # standard deviation of the logarithm of that standard deviation
FARTHEST = 12.0  # logarithms from the usual value, within which a variance is looked for


@dataclass(frozen=True)
class Prior:
    """r, e and the group of each feature, mean and variance of the function at c, and the usual deviation."""

    ratio: np.ndarray
    edge: np.ndarray
    groups: np.ndarray
    intercept: tuple[float, float] | None  # mean and variance
    usual: float

    @classmethod
    def on_scale_of_data(
        cls, units: Units, center: np.ndarray, groups: np.ndarray, variance: float, usual: float
    ) -> "Prior":
        """s = b, τ = t, μ = m, and c as given."""
        edge = (center - units.center) / units.scale
        return cls(np.ones_like(edge), edge, groups, (0.0, variance) if units.intercept else None, usual)

    @classmethod
    def in_given_units(cls, units: Units, groups: np.ndarray, variance: float, usual: float) -> "Prior":
        """c = μ = 0, s = τ = 1."""
        at_zero = (-units.middle / units.spread, variance / units.spread**2)
        ratio = units.spread / units.scale
        return cls(ratio, -units.center / units.scale, groups, at_zero if units.intercept else None, usual)

    @property
    def n_groups(self) -> int:
        return int(self.groups.max()) + 1

    def __call__(self, variance: np.ndarray) -> Gaussian:
        """The Gaussian for one variance per group, intercept last."""
        precision = np.diag(self.ratio**2 / variance[self.groups])
        if self.intercept is None:
            return Gaussian(np.zeros(len(precision)), precision)
        mean, spread = self.intercept
        along = np.append(self.edge, 1.0)
        full = np.pad(precision, (0, 1)) + np.outer(along, along) / spread
        return Gaussian(along * (mean / spread), full)

    def by_log_variance(self, posterior: Gaussian, variance: np.ndarray) -> np.ndarray:
        """d log Z/d log v_g = ½ Σ_{i∈g} (E_q[γ_i² r_i²]/v_g − 1): with the sites held fixed, equation (30)."""
        dim = len(self.ratio)
        square = self.ratio**2 * (posterior.mean[:dim] ** 2 + posterior.variance[:dim])
        return 0.5 * np.bincount(self.groups, square / variance[self.groups] - 1.0, self.n_groups)

    def determined(self, posterior: Gaussian, variance: np.ndarray) -> np.ndarray:
        """Of each group, Σ 1 − Var[γ_i] r_i²/v_g: MacKay's number of coefficients that the data determine."""
        left = self.ratio**2 * posterior.variance[: len(self.ratio)] / variance[self.groups]
        return np.bincount(self.groups, 1 - left, self.n_groups)

    def reach(self, posterior: Gaussian, variance: np.ndarray) -> float:
        """Standard deviations by which one of log v moves the posterior mean farthest, with sites held fixed.

        d mean/d log v_g = Σ P_g mean, P_g the part of the prior's precision that belongs to group g.
        """
        dim, (sd, mean) = len(self.ratio), (np.sqrt(posterior.variance), posterior.mean)
        pulled = np.zeros((len(mean), self.n_groups))
        pulled[np.arange(dim), self.groups] = self.ratio**2 * mean[:dim] / variance[self.groups]
        return float(np.max(np.abs(posterior.covariance @ pulled) / sd[:, None]))

    # -- what is thought of a variance before any data -------------------------------------------------------------

    @property
    def usual_variance(self) -> np.ndarray:
        """Of each group: with it, the deviation that the group adds is the usual one."""
        return self.usual**2 / np.bincount(self.groups, self.ratio**-2.0, self.n_groups)

    def variance_bounds(self) -> np.ndarray:
        """Of log v: lowest and highest of each group."""
        return np.log(self.usual_variance) + 2 * FARTHEST * np.array([[-1.0], [1.0]])

    def log_prior(self, variance: np.ndarray) -> tuple[float, np.ndarray]:
        """log p of the deviations' logarithms, but for a constant, and its gradient in log v."""
        away = 0.5 * np.log(variance / self.usual_variance) / USUAL_WITHIN
        return -0.5 * float(away @ away), -0.5 * away / USUAL_WITHIN
