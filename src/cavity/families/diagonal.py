"""The Gaussian with independent coordinates."""

from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from cavity._checks import as_numbers
from cavity._precision import in_float64, is_traced
from cavity.families.base import ExpFamily, check_alike, family
from cavity.families.gaussian import check_isotropic
from cavity.families.inverse import gap


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
    @in_float64
    def isotropic(cls, dim: int, variance: float = 1.0) -> Self:
        """N(0, variance · I), the usual prior."""
        check_isotropic(dim, variance)
        return cls(jnp.zeros(dim), jnp.full(dim, 1.0 / variance))

    @classmethod
    @in_float64
    def from_mean(cls, mean: Array, variance: Array) -> Self:
        """N(mean, diag(variance))."""
        if not is_traced(mean, variance):
            check_variances(as_numbers("mean", mean), as_numbers("variance", variance))
        precision = 1.0 / jnp.asarray(variance, dtype=float)
        return cls(precision * jnp.asarray(mean, dtype=float), precision)

    @property
    @in_float64
    def mean(self) -> Array:
        """E[θ]."""
        return jnp.asarray(self.shift) / self.precision

    @property
    @in_float64
    def variance(self) -> Array:
        """Var[θ], elementwise."""
        return 1.0 / jnp.asarray(self.precision)

    @property
    @in_float64
    def covariance(self) -> Array:
        """Cov[θ] over the last axis: a dense diagonal matrix."""
        variance = jnp.atleast_1d(self.variance)
        return variance[..., None] * jnp.eye(variance.shape[-1])

    @in_float64
    def log_partition(self) -> Array:
        # log of a negative precision is NaN, as a failed Cholesky is for the full Gaussian
        shift, precision = jnp.asarray(self.shift), jnp.asarray(self.precision)
        return 0.5 * jnp.sum(shift**2 / precision - jnp.log(precision) + jnp.log(2 * jnp.pi))

    @in_float64
    def moments(self) -> Self:
        mean = self.mean
        return type(self)(mean, -0.5 * (self.variance + mean**2))

    @in_float64
    def from_moments(self) -> Self:
        variance = -2.0 * self.precision - jnp.square(self.shift)
        precision = 1.0 / jnp.where(variance > 0, variance, jnp.nan)
        return type(self)(precision * self.shift, precision)

    @in_float64
    def kl(self, other: Self) -> Array:
        check_alike(self, other)
        # ½ Σ [λ'/λ − 1 − log(λ'/λ) + λ' (μ − μ')²]: central moments, because A(η) of large data sets would cancel.
        change = (other.precision - self.precision) / self.precision
        return 0.5 * jnp.sum(gap(change) + other.precision * (self.mean - other.mean) ** 2)

    @in_float64
    def distance(self, other: Self) -> Array:
        check_alike(self, other)
        spread = (self.precision - other.precision) * (other.variance - self.variance)
        step = (self.precision + other.precision) * (self.mean - other.mean) ** 2
        return jnp.sqrt(jnp.maximum(0.5 * jnp.sum(spread + step), 0.0))

    @in_float64
    def is_proper(self) -> Array:
        positive = (jnp.asarray(self.precision) > 0) & jnp.isfinite(self.precision)
        return jnp.all(positive & jnp.isfinite(self.shift))

    @in_float64
    def statistics(self, theta: Array) -> Self:
        return type(self)(theta, -0.5 * jnp.square(theta))

    @in_float64
    def log_base(self, theta: Array) -> Array:
        return jnp.zeros(())

    def event_shape(self) -> tuple[int, ...]:
        return tuple(np.shape(self.shift))

    def draw(self, key: Array) -> Array:
        return self.mean + jax.random.normal(key, self.event_shape(), dtype=float) / jnp.sqrt(self.precision)


def check_variances(mean: np.ndarray, variance: np.ndarray) -> None:
    """Raise a ValueError unless the mean is finite and each of its entries has a positive variance."""
    if not np.all(np.isfinite(mean)):
        raise ValueError("mean must be finite; got NaN or infinity.")
    if variance.shape != mean.shape:
        raise ValueError(f"variance must have the shape of mean, {mean.shape}; got {variance.shape}.")
    good = (variance > 0) & np.isfinite(variance)
    if not np.all(good):
        raise ValueError(f"variance must be positive and finite; got {variance[~good].flat[0]:g}.")
