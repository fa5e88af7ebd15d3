"""Where targets lie and how far they spread, gathered over chunks: from these come the units of a fit."""

from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from scipy.special import logsumexp

from cavity.estimators.units import ROUNDING, Moments, quantiles

KEPT, KEPT_OF_CHUNK = 10_000, 1_000  # targets of which a median is taken: in all, and from each chunk
FEWEST = 0.5  # counts that stand for none at all
MAD = 1.4826  # standard deviation of a normal variable over its median absolute deviation


class Targets(Protocol):
    """What is known of the targets so far."""

    def merge(self, other: Self) -> Self:
        """Of both together."""

    def forget(self, kept: float) -> Self:
        """With a share of the weight."""

    def middle(self) -> float:
        """Where they lie."""

    def spread(self, about: float) -> float:
        """A usual distance from there; where there is none, their size."""


def median(values: np.ndarray, weight: np.ndarray) -> float:
    return float(quantiles(values, weight, (0.5,))[0])


def unit_of(value: float) -> float:
    """A unit in which a value that has no spread is of size one."""
    return abs(value) or 1.0


@dataclass(frozen=True)
class Labels:
    """Of classes: activations have units of their own."""

    def merge(self, other: "Labels") -> "Labels":
        return self

    def forget(self, kept: float) -> "Labels":
        return self

    def middle(self) -> float:
        return 0.0

    def spread(self, about: float) -> float:
        return 1.0


@dataclass(frozen=True)
class Averages:
    """Mean and standard deviation."""

    moments: Moments

    @classmethod
    def of(cls, y: np.ndarray, weight: np.ndarray) -> "Averages":
        return cls(Moments.of(y[:, None], weight))

    def merge(self, other: "Averages") -> "Averages":
        return Averages(self.moments.merge(other.moments))

    def forget(self, kept: float) -> "Averages":
        return Averages(replace(self.moments, weight=kept * self.moments.weight))

    def middle(self) -> float:
        return float(self.moments.mean[0])

    def spread(self, about: float) -> float:
        if not self.moments.constant[0]:
            return float(np.hypot(self.moments.scale[0], self.middle() - about))
        return unit_of(self.middle())


@dataclass(frozen=True)
class Medians:
    """Median and median absolute deviation of some of the targets, which a few outliers do not move."""

    values: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(cls, y: np.ndarray, weight: np.ndarray) -> "Medians":
        """Of many, in the order of their size, one stands for those next to it."""
        order = np.argsort(y[weight > 0], kind="stable")
        y, weight = y[weight > 0][order], weight[weight > 0][order]
        begins = np.unique(np.linspace(0, len(y), KEPT_OF_CHUNK, endpoint=False, dtype=int)) if len(y) else order
        middles = (begins + np.append(begins[1:], len(y))) // 2
        return cls(y[middles], np.add.reduceat(weight, begins) if len(y) else weight)

    def merge(self, other: "Medians") -> "Medians":
        values, weight = np.append(self.values, other.values), np.append(self.weight, other.weight)
        return Medians(values[-KEPT:], weight[-KEPT:])

    def forget(self, kept: float) -> "Medians":
        return replace(self, weight=kept * self.weight)

    def middle(self) -> float:
        return median(self.values, self.weight)

    def spread(self, about: float) -> float:
        away = np.abs(self.values - about)
        some = away > ROUNDING * abs(about)
        if not np.any(some):
            return unit_of(about)
        usual = median(away, self.weight)
        return MAD * (usual if usual > ROUNDING * abs(about) else median(away[some], self.weight[some]))


@dataclass(frozen=True)
class Counts:
    """The logarithm of a rate: of counts, over what they were exposed to."""

    counted: float
    log_exposure: float

    @classmethod
    def of(cls, y: np.ndarray, offset: np.ndarray, weight: np.ndarray) -> "Counts":
        counted = weight > 0
        return cls(float(weight @ y), float(logsumexp(offset[counted], b=weight[counted])))

    def merge(self, other: "Counts") -> "Counts":
        return Counts(self.counted + other.counted, float(np.logaddexp(self.log_exposure, other.log_exposure)))

    def forget(self, kept: float) -> "Counts":
        return Counts(kept * self.counted, self.log_exposure + float(np.log(kept)))

    def middle(self) -> float:
        return float(np.log(max(self.counted, FEWEST))) - self.log_exposure

    def spread(self, about: float) -> float:
        return 1.0
