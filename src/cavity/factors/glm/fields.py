"""Mean fields over the rows of a chunk, in NumPy: few passes over two numbers for each row and coordinate.

The likelihood's slope g and curvature h along a row x act on coordinate d as x_d g and x_d² h. With a cavity of mean
m_d and variance v_d its site is equation (37), coordinate by coordinate:

    τ_d = −x_d² h / r_d,   ν_d = τ_d m_d + x_d g / r_d,   r_d = 1 + α v_d x_d² h.

Where all rows see one cavity, m and v are vectors: marginals of the activations are the products X m and (X∘X) v, the
sum of the sites at power 0 is two more, and at other powers r alone has as many numbers as X. Work is done in place, in
arrays that stay in the cache.
"""

from typing import Any, NamedTuple

import numpy as np

from cavity.factors.glm.rows import scratch, spread_out, weighted_gram
from cavity.inference import memory
from cavity.inference.contract import Rows
from cavity.quadrature import Tilt

SOME = 2048  # rows
RIDGE = 1e-10  # of a matrix with unit diagonal: what rounding may take from it


class Field(NamedTuple):
    """Independent normals: a cavity for each row, or one of all rows."""

    mean: np.ndarray
    variance: np.ndarray


class Asked(NamedTuple):
    """Sites of rows, or what they differ by from others; zero where they are not valid."""

    shift: np.ndarray
    precision: np.ndarray
    valid: np.ndarray


class Total(NamedTuple):
    """Σ w λ̂ over rows that see one cavity, and whether each of its terms was fit to be added."""

    shift: np.ndarray
    precision: np.ndarray
    sound: bool


class Chunk:
    """Some rows, and arrays to work in."""

    def __init__(self, likelihood: Any, rows: Rows, power: float) -> None:
        self.likelihood, self.power, self.weight = likelihood, power, rows.weight
        self.features, self.y = spread_out(rows.data[0]), rows.data[1]
        self.squares, *self.room = scratch((3, *self.features.shape))

    def tilts(self, cavity: Field) -> Tilt:
        """What the likelihood says of every row's activation; NaN where the row's cavity is improper.

        The squares of X are at hand after it.
        """
        squares, (mean, variance) = np.multiply(self.features, self.features, out=self.squares), cavity
        if mean.ndim == 1:
            return self.likelihood.tilts(self.y, self.features @ mean, squares @ variance, self.power)
        pairs = (self.features, mean), (squares, variance)
        means, variances = (np.einsum("nd,nd->n", *pair) for pair in pairs)
        if not (variance.min() > 0 and variance.max() < np.inf):
            variances[~np.all((variance > 0) & (variance < np.inf), axis=1)] = np.nan
        return self.likelihood.tilts(self.y, means, variances, self.power)

    def cavities(self, q: Any, sites: Any) -> Field:
        """q without the site of each row, as much of it as q holds."""
        present = memory.present(self.weight)
        part: Any = self.power if np.all(present == 1) else self.power * present[:, None]
        mean, variance = self.room
        np.multiply(sites.precision, part, out=variance)
        np.subtract(q.precision, variance, out=variance)
        np.divide(1.0, variance, out=variance)
        np.multiply(sites.shift, part, out=mean)
        np.subtract(q.shift, mean, out=mean)
        mean *= variance
        return Field(mean, variance)

    def sites(self, tilt: Tilt, cavity: Field) -> Asked:
        """λ̂ of every row, in arrays of its own. The squares of X are lost."""
        valid, work = is_finite(tilt), self.squares
        precision = np.multiply(self.features, -tilt.curvature[:, None])
        precision *= self.features
        shift = np.multiply(self.features, tilt.slope[:, None])
        if self.power != 0:
            shrinkage = np.multiply(precision, cavity.variance, out=work)
            shrinkage *= -self.power
            shrinkage += 1.0
            precision /= shrinkage
            shift /= shrinkage
            if not shrinkage.min() > 0:
                valid &= np.all(shrinkage > 0, axis=1)
        shift += np.multiply(precision, cavity.mean, out=work)
        if not np.isfinite(shift.sum() + precision.sum()):  # one that is not finite spoils the sum
            valid &= np.all(np.isfinite(shift) & np.isfinite(precision), axis=1)
        return without_invalid(Asked(shift, precision, valid))

    def total(self, tilt: Tilt, weight: np.ndarray, cavity: Field) -> Total:
        """Σ w λ̂ by products of X with vectors, where all see one cavity. The squares of X are lost."""
        push, curvature, lowest = weight * tilt.slope, weight * tilt.curvature, 1.0
        if self.power == 0:
            shift, precision = push @ self.features, -(curvature @ self.squares)
        else:
            shrinkage = np.multiply(self.squares, tilt.curvature[:, None], out=self.squares)
            shrinkage *= self.power * cavity.variance
            shrinkage += 1.0
            lowest = shrinkage.min()
            shrunk = np.divide(self.features, shrinkage, out=shrinkage)
            shift = push @ shrunk
            shrunk *= self.features
            precision = -(curvature @ shrunk)
        shift += precision * cavity.mean
        return Total(shift, precision, bool(lowest > 0 and np.isfinite(shift.sum() + precision.sum())))

    def response(self, curvature: np.ndarray) -> np.ndarray:
        """Σ w |h| x xᵀ: what moves by δ along a row changes its slope by h δ. The squares of X are lost.

        Where a likelihood is not log-concave, h counts as zero: the response is then too large, and steps too short.
        """
        size = np.fmax(-self.weight * curvature, 0.0)
        return weighted_gram(self.features, np.where(np.isfinite(size), size, 0.0))

    def log_means(self, cavity: Field, sites: Any) -> np.ndarray:
        """(1/α) log E_c[site^α] of every row, and its limit ⟨λ, E_c[T]⟩ at power 0."""
        (mean, variance), shift, precision, power = cavity, sites.shift, sites.precision, self.power
        if power == 0:
            return shift @ mean - 0.5 * precision @ (mean**2 + variance)
        value = shift * mean - 0.5 * precision * mean**2
        slope, ratio = shift - precision * mean, 1 + power * precision * variance
        return np.sum(value + 0.5 * power * variance * slope**2 / ratio - 0.5 * np.log(ratio) / power, axis=1)


def ahead(prior: Any, seen: Any, reached: Any, response: np.ndarray, share: float) -> Any:
    """A share of the way to where the mean stays as it is, to first order in it; None where that is out of reach.

    Rows that were judged at m make up S and P. With R how their sum answers to m, it stays at m + (P₀ + R)⁻¹ (S − P m).
    """
    matrix = response + np.diag(prior.precision)
    scale = 1 / np.sqrt(np.diagonal(matrix))
    scaled = scale[:, None] * matrix * scale + RIDGE * np.eye(len(scale))
    if not np.all(np.isfinite(scaled)):
        return None
    try:
        step = scale * np.linalg.solve(scaled, scale * (reached.shift - reached.precision * seen.mean))
    except np.linalg.LinAlgError:
        return None
    return type(prior)(reached.precision * (seen.mean + share * step), reached.precision)


def narrowed(prior: Any, features: Any) -> Any:
    """The prior, as narrow as makes activations of some of the rows vary by one on the average.

    Under a wide one, counts are expected to be e to the power of half that variance.
    """
    some = spread_out(features[:: -(-len(features) // SOME)])
    wide = max(float(np.mean(some**2 @ prior.variance)), 1.0)
    return type(prior)(wide * prior.shift, wide * prior.precision)


def changes(asked: Asked, sites: Any) -> Asked:
    """What new sites differ by from those before, in the place of the new; nothing where they are not valid."""
    np.subtract(asked.shift, sites.shift, out=asked.shift)
    np.subtract(asked.precision, sites.precision, out=asked.precision)
    return without_invalid(asked)


def without_invalid(asked: Asked) -> Asked:
    """Zero, in place, for rows that are not valid."""
    if not np.all(asked.valid):
        asked.shift[~asked.valid] = asked.precision[~asked.valid] = 0.0
    return asked


def is_finite(tilt: Tilt) -> np.ndarray:
    """Which rows have a tilt."""
    return np.isfinite(tilt.log_mean) & np.isfinite(tilt.slope) & np.isfinite(tilt.curvature)


def without_gaps(tilt: Tilt, valid: np.ndarray) -> Tilt:
    """Tilts that say nothing where there is none."""
    return tilt if np.all(valid) else Tilt(*(np.where(valid, part, 0.0) for part in tilt))
