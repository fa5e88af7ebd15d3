"""The Gaussian with independent coordinates."""

from typing import Self

import numpy as np

from cavity._array import Array, namespace
from cavity._checks import as_numbers
from cavity._precision import in_float64, is_traced
from cavity.families.base import ExpFamily, as_array, check_alike, family
from cavity.families.gaps import gap
from cavity.families.gaussian import LOG_2_PI, check_isotropic


@family
class DiagonalGaussian(ExpFamily):
    """∏ N(θ_i; s_i/λ_i, 1/λ_i), with T(θ) = (θ, −½ θ²) elementwise, so that η = (s, λ).

    Build one with `isotropic` or `from_mean`; the constructor takes the natural parameters.

    >>> from cavity.families import DiagonalGaussian
    >>> DiagonalGaussian.from_mean([1.0, 2.0], [4.0, 0.5]).variance.tolist()
    [4.0, 0.5]
    """

    shift: Array
    precision: Array

    def __post_init__(self) -> None:
        shift, precision = np.shape(self.shift), np.shape(self.precision)
        if not is_traced(self.shift, self.precision) and shift != precision:
            raise ValueError(f"precision must have the shape of shift, {shift}; got {precision}.")

    @classmethod
    def isotropic(cls, dim: int, variance: float = 1.0) -> Self:
        """N(0, variance · I), the usual prior."""
        check_isotropic(dim, variance)
        return cls(np.zeros(dim), np.ones(dim) / variance)

    @classmethod
    def from_mean(cls, mean: Array, variance: Array) -> Self:
        """N(mean, diag(variance))."""
        if not is_traced(mean, variance):
            mean, variance = as_numbers("mean", mean), as_numbers("variance", variance)
            check_variances(mean, variance)
        precision = 1.0 / as_array(variance)
        return cls(precision * as_array(mean), precision)

    def has_host_form(self) -> bool:
        return True

    @property
    @in_float64
    def mean(self) -> Array:
        """E[θ]."""
        return self.shift / self.precision

    @property
    @in_float64
    def variance(self) -> Array:
        """Var[θ], elementwise."""
        return 1.0 / self.precision

    @property
    @in_float64
    def covariance(self) -> Array:
        """Cov[θ] over the last axis: a dense diagonal matrix."""
        variance = namespace(self.precision).atleast_1d(self.variance)
        return variance[..., None] * np.eye(variance.shape[-1])

    @in_float64
    def log_partition(self) -> Array:
        # log of a negative precision is NaN, as a failed Cholesky is for the full Gaussian
        xp = namespace(self.shift, self.precision)
        return 0.5 * xp.sum(self.shift**2 / self.precision - xp.log(self.precision) + LOG_2_PI)

    @in_float64
    def moments(self) -> Self:
        mean = self.mean
        return type(self)(mean, -0.5 * (self.variance + mean**2))

    @in_float64
    def moments_along(self, direction: Self) -> Self:
        variance, mean = self.variance, self.mean
        by_mean = variance * (direction.shift - direction.precision * mean)
        return type(self)(by_mean, 0.5 * variance**2 * direction.precision - mean * by_mean)

    @in_float64
    def from_moments(self) -> Self:
        variance = -2.0 * self.precision - self.shift**2
        precision = 1.0 / namespace(variance).where(variance > 0, variance, np.nan)
        return type(self)(precision * self.shift, precision)

    @in_float64
    def kl(self, other: Self) -> Array:
        check_alike(self, other)
        # ½ Σ [λ'/λ − 1 − log(λ'/λ) + λ' (μ − μ')²]: central moments, because A(η) of large data sets would cancel.
        change = (other.precision - self.precision) / self.precision
        return 0.5 * (gap(change) + other.precision * (self.mean - other.mean) ** 2).sum()

    @in_float64
    def distance(self, other: Self) -> Array:
        check_alike(self, other)
        spread = (self.precision - other.precision) * (other.variance - self.variance)
        step = (self.precision + other.precision) * (self.mean - other.mean) ** 2
        square = 0.5 * (spread + step).sum()
        xp = namespace(square)
        return xp.sqrt(xp.maximum(square, 0.0))

    @in_float64
    def log_prob(self, theta: Array) -> Array:
        # about the mean: ⟨η, T(θ)⟩ − A(η) would cancel when it is many sds from the origin
        step = as_array(theta) - self.mean
        logs = namespace(self.precision).log(self.precision) - self.precision * step**2 - LOG_2_PI
        return 0.5 * logs.sum(axis=tuple(range(-self.shift.ndim, 0)))

    @in_float64
    def is_proper(self) -> Array:
        xp = namespace(self.shift, self.precision)
        return xp.all((self.precision > 0) & xp.isfinite(self.precision) & xp.isfinite(self.shift))

    @in_float64
    def statistics(self, theta: Array) -> Self:
        theta = as_array(theta)
        return type(self)(theta, -0.5 * theta**2)

    @in_float64
    def log_base(self, theta: Array) -> Array:
        return np.float64(0.0)

    def event_shape(self) -> tuple[int, ...]:
        return tuple(np.shape(self.shift))

    def draw(self, key: Array) -> Array:
        import jax

        noise = jax.random.normal(key, self.event_shape(), dtype=float)
        return self.mean + noise / namespace(self.precision).sqrt(self.precision)

    @in_float64
    def draws(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return self.mean + rng.standard_normal((*shape, *self.event_shape())) / np.sqrt(self.precision)


def check_variances(mean: np.ndarray, variance: np.ndarray) -> None:
    """Raise a ValueError unless the mean is finite and each of its entries has a positive variance."""
    if not np.all(np.isfinite(mean)):
        raise ValueError("mean must be finite; got NaN or infinity.")
    if variance.shape != mean.shape:
        raise ValueError(f"variance must have the shape of mean, {mean.shape}; got {variance.shape}.")
    good = (variance > 0) & np.isfinite(variance)
    if not np.all(good):
        raise ValueError(f"variance must be positive and finite; got {variance[~good].flat[0]:g}.")
