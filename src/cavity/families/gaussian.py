"""The Gaussian with full covariance."""

import math
from typing import Any, Self

import numpy as np

from cavity import linalg
from cavity._array import Array, namespace
from cavity._checks import as_numbers, check_positive, is_integer
from cavity._precision import in_float64, is_traced
from cavity.families.base import ExpFamily, as_array, check_alike, family
from cavity.families.gaps import triangle_gap

LOG_2_PI = math.log(2 * math.pi)


@family
class Gaussian(ExpFamily):
    """N(θ; Λ⁻¹ s, Λ⁻¹), with T(θ) = (θ, −½ θθᵀ), so that η = (s, Λ).

    Build one with `Gaussian.isotropic` or `Gaussian.from_mean`; the constructor takes the natural parameters.

    >>> import cavity
    >>> cavity.Gaussian.from_mean([1.0, 2.0], [[2.0, 0.5], [0.5, 1.0]]).mean.round(6).tolist()
    [1.0, 2.0]
    """

    shift: Any
    precision: Any

    def __post_init__(self) -> None:
        shift, precision = np.shape(self.shift), np.shape(self.precision)
        if not is_traced(self.shift, self.precision) and (not shift or precision != (*shift, shift[-1])):
            raise ValueError(f"precision must have a row and a column per entry of shift, {shift}; got {precision}.")

    @classmethod
    def isotropic(cls, dim: int, variance: float = 1.0) -> Self:
        """N(0, variance · I), the usual prior."""
        check_isotropic(dim, variance)
        return cls(np.zeros(dim), np.eye(dim) / variance)

    @classmethod
    def from_mean(cls, mean: Any, covariance: Any) -> Self:
        """N(mean, covariance)."""
        if not is_traced(mean, covariance):
            mean, covariance = check_vector(mean), as_numbers("covariance", covariance)
            linalg.check_covariance("covariance", covariance, (*mean.shape, mean.shape[-1]))
        precision = linalg.inverse(linalg.cholesky(as_array(covariance)))
        return cls(times(precision, as_array(mean)), precision)

    def has_host_form(self) -> bool:
        return True

    @property
    @in_float64
    def mean(self) -> Array:
        """E[θ]."""
        return linalg.solve(linalg.cholesky(self.precision), self.shift)

    @property
    @in_float64
    def covariance(self) -> Array:
        """Cov[θ]."""
        return linalg.inverse(linalg.cholesky(self.precision))

    @property
    @in_float64
    def variance(self) -> Array:
        """The diagonal of the covariance."""
        covariance = self.covariance
        return namespace(covariance).diagonal(covariance, axis1=-2, axis2=-1)

    @in_float64
    def log_partition(self) -> Array:
        chol = linalg.cholesky(self.precision)
        half = linalg.solve_triangular(chol, self.shift[..., None])
        return 0.5 * (half**2).sum() - 0.5 * linalg.logdet(chol).sum() + 0.5 * self.shift.size * LOG_2_PI

    @in_float64
    def moments(self) -> Self:
        chol = linalg.cholesky(self.precision)
        mean = linalg.solve(chol, self.shift)
        return type(self)(mean, -0.5 * (linalg.inverse(chol) + linalg.outer(mean)))

    @in_float64
    def moments_along(self, direction: Self) -> Self:
        covariance, mean = self.covariance, self.mean
        times = lambda matrix, vector: (matrix @ vector[..., None])[..., 0]
        by_mean = times(covariance, direction.shift - times(direction.precision, mean))
        both = by_mean[..., :, None] * mean[..., None, :]
        spread = covariance @ direction.precision @ covariance
        return type(self)(by_mean, 0.5 * (spread - both - both.swapaxes(-1, -2)))

    @in_float64
    def from_moments(self) -> Self:
        mean = self.shift
        covariance = -2.0 * self.precision - linalg.outer(mean)
        precision = linalg.inverse(linalg.cholesky(covariance))
        return type(self)(times(precision, mean), precision)

    @in_float64
    def entropy(self) -> Array:
        return 0.5 * self.shift.size * (LOG_2_PI + 1) - 0.5 * linalg.logdet(linalg.cholesky(self.precision)).sum()

    @in_float64
    def kl(self, other: Self) -> Array:
        check_alike(self, other)
        # ½ [tr(Λ'Σ) − D + log|Λ| − log|Λ'| + (μ − μ')ᵀ Λ' (μ − μ')], by Cholesky: A(η) of large data sets would cancel.
        chol, chol_other = linalg.cholesky(self.precision), linalg.cholesky(other.precision)
        ratio = linalg.solve_triangular(chol, chol_other)  # Λ'Σ = (L⁻¹L')(L⁻¹L')ᵀ
        step = linalg.solve(chol, self.shift) - linalg.solve(chol_other, other.shift)
        return 0.5 * (triangle_gap(ratio).sum() + (over(step, chol_other) ** 2).sum())

    @in_float64
    def distance(self, other: Self) -> Array:
        check_alike(self, other)
        # ⟨Δη, Δμ⟩ in central moments: raw second moments cancel when the mean is many sds from the origin.
        chol, chol_other = linalg.cholesky(self.precision), linalg.cholesky(other.precision)
        step = linalg.solve(chol, self.shift) - linalg.solve(chol_other, other.shift)
        change = linalg.inverse(chol_other) - linalg.inverse(chol)
        spread = ((self.precision - other.precision) * change).sum()
        square = 0.5 * spread + 0.5 * (step * times(self.precision + other.precision, step)).sum()
        xp = namespace(square)
        return xp.sqrt(xp.maximum(square, 0.0))

    @in_float64
    def log_prob(self, theta: Array) -> Array:
        # about the mean: ⟨η, T(θ)⟩ − A(η) would cancel when it is many sds from the origin
        chol = linalg.cholesky(self.precision)
        step = as_array(theta) - linalg.solve(chol, self.shift)
        square = (over(step, chol) ** 2).sum(axis=tuple(range(-self.shift.ndim, 0)))
        return 0.5 * (linalg.logdet(chol).sum() - square - self.shift.size * LOG_2_PI)

    @in_float64
    def is_proper(self) -> Array:
        xp = namespace(self.shift, self.precision)
        return xp.all(linalg.is_positive_definite(self.precision)) & xp.all(xp.isfinite(self.shift))

    @in_float64
    def statistics(self, theta: Array) -> Self:
        theta = as_array(theta)
        return type(self)(theta, -0.5 * linalg.outer(theta))

    @in_float64
    def log_base(self, theta: Array) -> Array:
        return np.float64(0.0)

    def event_shape(self) -> tuple[int, ...]:
        return tuple(np.shape(self.shift))

    def draw(self, key: Array) -> Array:
        import jax

        noise = jax.random.normal(key, self.shift.shape, dtype=float)[..., None]
        chol = linalg.cholesky(self.precision)
        return self.mean + linalg.solve_triangular(chol, noise, transposed=True)[..., 0]

    @in_float64
    def draws(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        root = linalg.inverse_transpose(linalg.cholesky(self.precision))  # L⁻ᵀ z has the covariance Λ⁻¹
        return self.mean + times(root, rng.standard_normal((*shape, *self.shift.shape)))


def times(matrix: Array, vector: Array) -> Array:
    """M v over the last axes."""
    return (matrix @ vector[..., None])[..., 0]


def over(vector: Array, matrix: Array) -> Array:
    """vᵀ M over the last axes."""
    return (vector[..., None, :] @ matrix)[..., 0, :]


def check_isotropic(dim: Any, variance: Any) -> None:
    """Raise a ValueError unless N(0, variance · I) in `dim` dimensions has a finite precision."""
    if not (is_integer(dim) and dim >= 1):
        raise ValueError(f"dim must be a positive integer; got {dim=}.")
    check_positive("variance", variance)
    if not is_traced(variance) and not np.isfinite(1.0 / float(variance)):
        raise ValueError(f"variance must be a positive number whose inverse is finite; got {variance=}.")


def check_vector(mean: Any) -> np.ndarray:
    """A user's mean as a finite vector, on the last axis."""
    mean = as_numbers("mean", mean)
    if mean.ndim == 0 or not np.all(np.isfinite(mean)):
        raise ValueError(f"mean must be a vector of finite numbers; got {mean.tolist()!r:.60}.")
    return mean
