"""Linear functions in other coordinates: an affine map of coefficients with an intercept last, and what it does to
Gaussians.

The map is φ → (r φ_1…D, l φ_last + uᵀφ + e). It costs O(D²) for a Gaussian, and nothing is inverted.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cavity import linalg
from cavity.families import Gaussian
from cavity.families.precision_reads import Reads, kept


@dataclass(frozen=True)
class Affine:
    """r and u for each feature, l and e for the intercept; without one l is None."""

    ratio: np.ndarray
    edge: np.ndarray
    last: float | None
    offset: float

    def turn(self, phi: np.ndarray) -> np.ndarray:
        """A φ over the last axis."""
        dim, out = len(self.ratio), np.empty_like(phi)
        out[..., :dim] = self.ratio * phi[..., :dim]
        if self.last is not None:
            out[..., dim] = self.last * phi[..., dim] + phi[..., :dim] @ self.edge
        return out

    def __call__(self, phi: np.ndarray) -> np.ndarray:
        """A φ + (0, e) over the last axis."""
        theta = self.turn(phi)
        if self.last is not None:
            theta[..., -1] += self.offset
        return theta

    def pull(self, rows: np.ndarray) -> np.ndarray:
        """A⁻ᵀ over the last axis: what gives of θ the same numbers as of φ."""
        dim, out = len(self.ratio), np.empty_like(rows)
        out[..., :dim] = rows[..., :dim] / self.ratio
        if self.last is not None:
            out[..., dim] = rows[..., dim] / self.last
            out[..., :dim] -= out[..., dim:] * (self.edge / self.ratio)
        return out

    def log_volume(self) -> float:
        """log |A|."""
        return float(np.sum(np.log(self.ratio)) + (0.0 if self.last is None else np.log(self.last)))

    def natural(self, phi: Gaussian) -> Gaussian:
        """The natural parameters over θ from those over φ, of a density or of a factor that is none."""
        precision = self.pull(self.pull(phi.precision).swapaxes(-1, -2))
        precision = 0.5 * (precision + precision.swapaxes(-1, -2))
        shift = self.pull(phi.shift)
        if self.last is not None:
            shift = shift + self.offset * precision[..., -1]
        return Gaussian(shift, precision)

    def density(self, phi: Gaussian) -> Gaussian:
        """A density over θ, or a batch of them: its mean, covariance and logarithm have the digits of those over φ.

        Its precision may have a condition of 10¹⁸, where columns are far from zero, and is not inverted.
        """
        theta = self.natural(phi)
        return theta.read_by(Mapped(theta.shift, theta.precision, phi, self))


class Mapped(Reads):
    """Reads of a density over θ from that over φ."""

    def __init__(self, shift: np.ndarray, precision: np.ndarray, phi: Gaussian, affine: Affine) -> None:
        super().__init__(shift, precision)
        self.phi, self.affine = phi, affine

    def __getstate__(self) -> dict[str, Any]:
        read = {"mean", "covariance", "chol"}
        return {name: value for name, value in vars(self).items() if name not in read}

    @cached_property
    def mean(self) -> np.ndarray:
        return kept(self.affine(self.phi.mean))

    @cached_property
    def covariance(self) -> np.ndarray:
        turned = self.affine.turn(self.affine.turn(self.phi.covariance).swapaxes(-1, -2))
        return kept(0.5 * (turned + turned.swapaxes(-1, -2)))

    @cached_property
    def chol(self) -> np.ndarray:
        # A⁻ᵀ L has the right product with its transpose, and a QR of the latter the right shape
        mapped = self.affine.pull(linalg.cholesky(self.phi.precision).swapaxes(-1, -2))
        upper = np.linalg.qr(mapped, mode="r")
        sign = np.where(np.diagonal(upper, axis1=-2, axis2=-1) < 0, -1.0, 1.0)
        return kept((sign[..., None] * upper).swapaxes(-1, -2))

    @property
    def logdet(self) -> np.ndarray:
        return self.phi.reads().logdet - 2 * self.affine.log_volume()
