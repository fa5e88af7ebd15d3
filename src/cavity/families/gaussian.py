"""The Gaussian with full covariance."""

import math
from typing import Any, Self

import numpy as np

from cavity import linalg
from cavity._array import Array, is_jax, namespace
from cavity._checks import as_numbers, check_positive, is_integer
from cavity._precision import in_float64, is_traced
from cavity.families.base import ExpFamily, as_array, check_alike, family, inner
from cavity.families.gaps import triangle_gap
from cavity.families.precision_reads import Reads

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
        return self.reads().mean

    @property
    @in_float64
    def covariance(self) -> Array:
        """Cov[θ]."""
        return self.reads().covariance

    def reads(self) -> Reads:
        """What is read of the precision: of arrays of NumPy once; of JAX's each time, which its compiler sees to."""
        if is_jax(self.shift, self.precision):
            return Reads(self.shift, self.precision)
        known = self.__dict__.get("_reads")
        if known is None:
            known = Reads(self.shift, self.precision)
            object.__setattr__(self, "_reads", known)
        return known

    def read_by(self, reads: Reads) -> Self:
        """This Gaussian, whose mean, covariance and factor are known by other means than its precision."""
        object.__setattr__(self, "_reads", reads)
        return self

    def __getstate__(self) -> dict[str, Any]:
        known = self.__dict__.get("_reads")
        return super().__getstate__() | ({} if type(known) in (Reads, type(None)) else {"_reads": known})

    @property
    @in_float64
    def variance(self) -> Array:
        """The diagonal of the covariance."""
        covariance = self.covariance
        return namespace(covariance).diagonal(covariance, axis1=-2, axis2=-1)

    @in_float64
    def log_partition(self) -> Array:
        reads = self.reads()
        return 0.5 * ((self.shift * reads.mean).sum() - reads.logdet.sum() + self.shift.size * LOG_2_PI)

    @in_float64
    def moments(self) -> Self:
        reads = self.reads()
        return type(self)(reads.mean, -0.5 * (reads.covariance + linalg.outer(reads.mean)))

    @in_float64
    def expected(self, direction: Self) -> Array:
        # ⟨s', μ⟩ − ½ tr Λ' (Σ + μμᵀ), without the matrix of second moments
        reads = self.reads()
        along = direction.shift - 0.5 * times(direction.precision, reads.mean)
        return (along * reads.mean).sum() - 0.5 * inner(direction.precision, reads.covariance)

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
        return 0.5 * (self.shift.size * (LOG_2_PI + 1) - self.reads().logdet.sum())

    @in_float64
    def kl(self, other: Self) -> Array:
        check_alike(self, other)
        # ½ [tr(Λ'Σ) − D + log|Λ| − log|Λ'| + (μ − μ')ᵀ Λ' (μ − μ')], by Cholesky: A(η) of large data sets would cancel.
        chol, chol_other = self.reads().chol, other.reads().chol
        ratio = linalg.solve_triangular(chol, chol_other)  # Λ'Σ = (L⁻¹L')(L⁻¹L')ᵀ
        step = self.reads().mean - other.reads().mean
        return 0.5 * (triangle_gap(ratio).sum() + (over(step, chol_other) ** 2).sum())

    @in_float64
    def distance(self, other: Self) -> Array:
        check_alike(self, other)
        if any(type(each.reads()) is not Reads for each in (self, other)):  # precisions are not to be relied upon
            return np.sqrt(self.kl(other) + other.kl(self))
        # ⟨Δη, Δμ⟩ in central moments: raw second moments cancel when the mean is many sds from the origin.
        reads, reads_other = self.reads(), other.reads()
        step = reads.mean - reads_other.mean
        spread = inner(self.precision - other.precision, reads_other.covariance - reads.covariance)
        square = 0.5 * spread + 0.5 * (step * (times(self.precision, step) + times(other.precision, step))).sum()
        xp = namespace(square)
        return xp.sqrt(xp.maximum(square, 0.0))

    @in_float64
    def log_prob(self, theta: Array) -> Array:
        # about the mean: ⟨η, T(θ)⟩ − A(η) would cancel when it is many sds from the origin
        reads = self.reads()
        chol, step = reads.chol, as_array(theta) - reads.mean
        square = (over(step, chol) ** 2).sum(axis=tuple(range(-self.shift.ndim, 0)))
        return 0.5 * (reads.logdet.sum() - square - self.shift.size * LOG_2_PI)

    @in_float64
    def is_proper(self) -> Array:
        xp = namespace(self.shift, self.precision)
        if xp is np:
            return np.all(np.isfinite(self.reads().logdet)) & np.all(np.isfinite(self.shift))
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
        chol = self.reads().chol
        return self.mean + linalg.solve_triangular(chol, noise, transposed=True)[..., 0]

    @in_float64
    def draws(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        root = linalg.inverse_transpose(self.reads().chol)  # L⁻ᵀ z has the covariance Λ⁻¹
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
