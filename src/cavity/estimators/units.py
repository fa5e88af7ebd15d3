"""The units that a model is fitted in: centre and scale of columns, as rows that may have weights tell them."""

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from scipy import sparse

from cavity.inference.source import Arrays, chunks
from cavity.inference.threads import Threads, available, one_blas_thread

NORMAL_RANGE = 1.3489795003921634  # between the quartiles of a standard normal distribution
FARTHEST = 1e100  # scales from the centre: what is farther away is as good as there, where squares are still numbers
LARGEST = 1e100  # numbers up to it, and their inverses, have squares
NUMBERS = 2**17  # of a matrix that are looked at together
ROUNDING = 4 * np.finfo(float).eps  # of a column's mean: a standard deviation below it is none


@dataclass(frozen=True)
class Units:
    """x = center + scale · z for every column: models are fitted to z, in which parameters keep their digits."""

    center: np.ndarray
    scale: np.ndarray

    @classmethod
    def standard(cls, X: np.ndarray, weight: np.ndarray) -> "Units":
        """Mean and standard deviation."""
        moments = Moments.of(X, weight)
        return cls(moments.mean, moments.scale)

    @classmethod
    def robust(cls, X: np.ndarray, weight: np.ndarray, common: bool) -> "Units":
        """Median and quartiles, which a few outliers do not move; deviation where half of the rows are equal.

        With a `common` scale for all features, what is round in z is round in x.
        """
        quartiles = np.stack([quantiles(column, weight, (0.25, 0.5, 0.75)) for column in X.T], axis=1)
        (low, middle, high), moments = quartiles, Moments.of(X, weight)
        with np.errstate(over="ignore"):
            between = (high / 2 - low / 2) / (NORMAL_RANGE / 2)
        wide = np.isfinite(between) & (between > ROUNDING * np.abs(middle))
        scale, varies = np.where(wide, between, moments.scale), wide | ~moments.constant
        if common:
            scale = np.full_like(scale, np.exp(np.mean(np.log(scale[varies]))) if np.any(varies) else 1.0)
        return cls(middle, scale)

    def to_fit(self, X: np.ndarray) -> np.ndarray:
        """z, by halves, whose difference is never too large for a number."""
        with np.errstate(over="ignore"):
            return np.clip((X / 2 - self.center / 2) / (self.scale / 2), -FARTHEST, FARTHEST)


@dataclass(frozen=True)
class Moments:
    """Weight, mean and standard deviation of the columns of some rows; `merge` adds those of further ones.

    A mean is kept as its distance from one of the rows, in which a column far from zero keeps its digits, and all
    columns by halves, whose differences are never too large for a number.
    """

    weight: float
    origin: np.ndarray  # x/2 of one of the rows
    offset: np.ndarray  # of the mean from there
    spread: np.ndarray  # standard deviation

    @classmethod
    def of(cls, X: Any, weight: np.ndarray | None = None) -> "Moments":
        """Of the rows of a matrix, dense or sparse; a weight counts a row as often as it says, zero as no row."""
        w = np.ones(X.shape[0]) if weight is None else np.asarray(weight, dtype=float)
        if not np.all(w > 0):
            X, w = X[w > 0], w[w > 0]
        nothing = cls(0.0, *[np.zeros(X.shape[1])] * 3)
        if len(w) == 0:
            return nothing
        if sparse.issparse(X):
            return of_sparse(sparse.csr_array(X), w)
        size = max(NUMBERS // max(X.shape[1], 1), 1)
        parts = chunks(Arrays.of((X, w)), size)
        with Threads(available() if len(w) > size else 1) as threads, one_blas_thread():
            return reduce(cls.merge, threads.map(lambda part: of_chunk(*part), parts), nothing)

    def merge(self, other: "Moments") -> "Moments":
        """Of both together: Chan, Golub and LeVeque (1983)."""
        if self.weight == 0 or other.weight == 0:
            return self if other.weight == 0 else other
        total = self.weight + other.weight
        a, b = self.weight / total, other.weight / total
        apart = (other.origin - self.origin) + (other.offset - self.offset)
        within = np.hypot(np.sqrt(a) * self.spread, np.sqrt(b) * other.spread)
        return Moments(total, self.origin, self.offset + b * apart, np.hypot(within, np.sqrt(a * b) * apart))

    @property
    def mean(self) -> np.ndarray:
        """Weighted mean of each column."""
        return 2 * (self.origin + self.offset)

    @property
    def constant(self) -> np.ndarray:
        """Whether all rows of a column are equal but for rounding."""
        return self.spread <= ROUNDING * np.abs(self.origin + self.offset)

    @property
    def scale(self) -> np.ndarray:
        """Standard deviation of each column; one of a constant column."""
        return np.where(self.constant, 1.0, 2 * self.spread)


def of_chunk(X: np.ndarray, weight: np.ndarray) -> Moments:
    """Of a few dense rows that weigh something."""
    total, origin = float(weight.sum()), X[0] / 2
    halves, share = X / 2, weight / total
    halves -= origin
    farthest = np.maximum(halves.max(axis=0), -halves.min(axis=0))
    has_square = (farthest == 0) | ((farthest > 1 / LARGEST) & (farthest < LARGEST))
    unit = np.where(has_square, 1.0, farthest)
    if not np.all(has_square):
        halves /= unit
    middle = share @ halves
    halves -= middle
    spread = np.sqrt(share @ np.square(halves, out=halves))
    return Moments(total, origin, unit * middle, unit * spread)


def of_sparse(X: Any, weight: np.ndarray) -> Moments:
    """Of sparse rows that weigh something: those without an entry are zero, and taken together."""
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    (n_rows, dim), at, total = X.shape, X.indices, float(weight.sum())
    share = np.repeat(weight / total, np.diff(X.indptr))
    full = np.bincount(at, minlength=dim) == n_rows
    halves, origin, unit = X.data / 2, np.zeros(dim), np.zeros(dim)
    origin[at] = halves  # any row of them, where all have one
    origin = np.where(full, origin, 0.0)
    halves = halves - origin[at]
    np.maximum.at(unit, at, np.abs(halves))
    unit = np.where(unit > 0, unit, 1.0)
    parts = halves / unit[at]
    middle = np.bincount(at, share * parts, dim)
    absent = np.where(full, 0.0, np.maximum(1 - np.bincount(at, share, dim), 0.0))
    square = np.bincount(at, share * (parts - middle[at]) ** 2, dim) + absent * middle**2
    return Moments(total, origin, unit * middle, unit * np.sqrt(square))


def quantiles(column: np.ndarray, weight: np.ndarray, shares: tuple[float, ...]) -> np.ndarray:
    """Values below which such shares of the weight are; the middle of two where a share ends between them."""
    order = np.argsort(column, kind="stable")
    ordered, below = column[order], np.cumsum(weight[order])
    wanted = np.asarray(shares) * below[-1]
    low, high = (np.minimum(np.searchsorted(below, wanted, side), len(order) - 1) for side in ("left", "right"))
    return ordered[low] / 2 + ordered[high] / 2
