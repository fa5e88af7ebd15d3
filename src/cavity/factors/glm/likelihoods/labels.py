"""Two labels, y ∈ {−1, +1}."""

from functools import partial
from typing import Any, ClassVar

import numpy as np

from cavity._array import namespace
from cavity._pytree import pytree
from cavity.factors.glm.likelihoods import logistic_series
from cavity.factors.glm.likelihoods.base import Likelihood, check_finite, proper
from cavity.factors.glm.likelihoods.logistic_series import WIDEST
from cavity.quadrature import Kernel, Tilt
from cavity.special import hazard, hazard_excess, host, log_ndtr, log_sigmoid, truncated_variance

LARGEST_ODDS = 300.0  # their logarithm: beyond, p is proportional to them to all digits


@pytree
class Probit(Likelihood):
    """p(y|a) = Φ(y a), y ∈ {−1, +1}; closed at power 1."""

    log_concave: ClassVar[bool] = True

    def is_closed(self, power: float) -> bool:
        return power == 1

    def log_kernel(self, y: Any, a: Any) -> Any:
        return log_ndtr(y * a)

    def derivatives(self, y: Any, a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        at = host.truncated(y * a)
        return at.log_ndtr, y * at.hazard, -at.hazard * at.excess

    def center(self, y: Any, mean: Any) -> Any:
        return namespace(mean).zeros_like(mean)

    def check(self, y: Any) -> np.ndarray:
        return check_signs(y)

    def tilts(self, y: Any, mean: np.ndarray, variance: np.ndarray, power: float) -> Tilt:
        if power != 1:
            return super().tilts(y, mean, variance, power)
        with np.errstate(all="ignore"):
            variance = proper(variance)
            total = 1 + variance
            root = np.sqrt(total)
            at = host.truncated(y * mean / root)
            slope, curvature = y * at.hazard / root, -at.hazard * at.excess / total
            return Tilt(at.log_ndtr, slope, curvature, (1 + variance * at.variance) / total)

    def tilt(self, y: Any, mean: Any, variance: Any, power: float) -> Tilt:
        if power != 1:
            return super().tilt(y, mean, variance, power)
        total = 1 + variance
        root = namespace(total).sqrt(total)
        z = y * mean / root
        slope = y * hazard(z) / root
        curvature = -hazard(z) * hazard_excess(z) / total
        return Tilt(log_ndtr(z), slope, curvature, (1 + variance * truncated_variance(z)) / total)

    def log_mean(self, y: Any, mean: Any, variance: Any, power: float) -> Any:
        if power != 1:
            return super().log_mean(y, mean, variance, power)
        return log_ndtr(y * mean / namespace(variance).sqrt(1 + variance))


@pytree
class Logit(Likelihood):
    """p(y|a) = 1/(1 + e^(−y a)), y ∈ {−1, +1}."""

    log_concave: ClassVar[bool] = True

    def log_kernel(self, y: Any, a: Any) -> Any:
        return log_sigmoid(y * a)

    def derivatives(self, y: Any, a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        z = y * a
        small = np.exp(-np.abs(z))
        share = 1 / (1 + small)
        value = np.minimum(z, 0.0) - np.log1p(small)
        return value, y * share * np.exp(-np.maximum(z, 0.0)), -small * share * share

    def center(self, y: Any, mean: Any) -> Any:
        return namespace(mean).zeros_like(mean)

    def length(self, y: Any) -> float:
        return 1.4  # its poles are π away

    def tilts(self, y: Any, mean: np.ndarray, variance: np.ndarray, power: float) -> Tilt:
        """By a series where cavities are narrow, and by quadrature elsewhere."""
        narrow = (variance <= WIDEST) & (variance >= 0) & np.isfinite(mean)
        if power != 1 or not np.any(narrow):
            return super().tilts(y, mean, variance, power)
        with np.errstate(all="ignore"):
            if np.all(narrow):
                return logistic_series.tilts(y, mean, variance)
            found = Tilt(*np.empty((4, len(mean))))
            for rule, rows in ((partial(super().tilts, power=power), ~narrow), (logistic_series.tilts, narrow)):
                for whole, part in zip(found, rule(y[rows], mean[rows], variance[rows]), strict=True):
                    whole[rows] = part
        return found

    def rule(self, y: Any, power: float) -> Kernel:
        near = self.near if power == 1 else None
        return super().rule(y, power)._replace(level=self.log_kernel, near=near)

    def near(self, y: Any, mean: np.ndarray, shift: np.ndarray) -> tuple[np.ndarray, ...]:
        """p relative to that at the mean, l′ minus that at the mean and l″, by one exponential."""
        at_mean = np.exp(np.minimum(-y * mean, LARGEST_ODDS))  # odds against y
        total = 1 + at_mean
        odds = y * shift
        np.negative(odds, out=odds)
        np.exp(odds, out=odds)
        odds *= at_mean
        ratio = 1 + odds
        np.divide(1.0, ratio, out=ratio)  # p
        odds *= ratio  # what is left of one
        curve = odds * ratio
        np.negative(curve, out=curve)
        ratio *= total
        odds -= at_mean / total
        odds *= y
        return ratio, odds, curve

    def check(self, y: Any) -> np.ndarray:
        return check_signs(y)


def check_signs(y: Any) -> np.ndarray:
    """Labels −1 and +1 as float64, or a ValueError."""
    y = check_finite(y)
    if not np.all(np.abs(y) == 1):
        labels = np.unique(y)
        got = ", ".join(f"{label:g}" for label in labels[:5]) + (", …" if labels.size > 5 else "")
        raise ValueError(
            f"y must contain −1 and +1 only; got {got}. Map the two labels to −1 and +1, for instance 2 * y − 1 for "
            "labels 0 and 1."
        )
    return y
