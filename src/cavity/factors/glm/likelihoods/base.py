"""What a likelihood of one activation is: `tilt` for one row under JAX, `tilts` for many rows on the host."""

import abc
from typing import Any, ClassVar

import numpy as np

from cavity import quadrature
from cavity._checks import as_numbers
from cavity.quadrature import Kernel, Tilt


class Likelihood(abc.ABC):
    """p(y|a) for one observation y and one activation a; subclasses are frozen pytrees.

    `log_kernel`, `log_base` and `center` are written for NumPy and JAX alike. `tilt` and `log_mean` are the definition:
    one row, traced by JAX. `tilts` has the same values for arrays of rows, in NumPy.
    """

    log_concave: ClassVar[bool] = False

    @abc.abstractmethod
    def log_kernel(self, y: Any, a: Any) -> Any:
        """log p(y|a) up to a term that does not depend on a."""

    @abc.abstractmethod
    def derivatives(self, y: Any, a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`log_kernel` with its first and second derivative in a, on the host."""

    @abc.abstractmethod
    def center(self, y: Any, mean: Any) -> Any:
        """The activation around which the likelihood varies most; a hint to the quadrature."""

    @abc.abstractmethod
    def check(self, y: Any) -> Any:
        """The observations as float64, or a ValueError that names what is wrong."""

    def is_closed(self, power: float) -> bool:
        """Whether tilts at this power have a closed form, in place of quadrature."""
        return False

    def can_be_traced(self, y: Any) -> bool:
        """Whether `tilt` is for JAX to trace; a user's function may be NumPy's alone."""
        return True

    def length(self, y: Any) -> Any:
        """The distance over which derivatives of `log_kernel` change around the centre."""
        return 1.0

    def log_base(self, y: Any) -> Any:
        """The term of log p(y|a) that `log_kernel` leaves out."""
        return 0.0

    def log_lik(self, y: Any, a: Any) -> Any:
        """log p(y|a)."""
        return self.log_kernel(y, a) + self.log_base(y)

    def tilts(self, y: Any, mean: np.ndarray, variance: np.ndarray, power: float) -> Tilt:
        """The tilt of every row, in NumPy; a variance that is negative or not finite gives NaN."""
        resort = lambda y, mean, variance: walk(self, y, mean, variance, power)
        tilt = quadrature.tilts(self.rule(y, power), y, mean, variance, power, resort)
        return tilt._replace(log_mean=tilt.log_mean + self.log_base(y))

    def rule(self, y: Any, power: float) -> Kernel:
        """What the quadrature of many rows is told."""
        return Kernel(self.derivatives, self.center, self.length, self.log_concave)

    def tilt(self, y: Any, mean: Any, variance: Any, power: float) -> Tilt:
        """ℓ(m, v) = (1/α) log E[p(y|a)^α] under a ~ N(m, v), with its derivatives: see `Tilt`."""
        from cavity.quadrature import adaptive

        kernel = lambda a: self.log_kernel(y, a)
        tilt = adaptive.tilt(kernel, mean, variance, power, self.center(y, mean))
        return tilt._replace(log_mean=tilt.log_mean + self.log_base(y))

    def log_mean(self, y: Any, mean: Any, variance: Any, power: float) -> Any:
        """ℓ(m, v) alone, differentiable in everything."""
        from cavity.quadrature import adaptive

        kernel = lambda a: self.log_kernel(y, a)
        return adaptive.log_mean(kernel, mean, variance, power, self.center(y, mean)) + self.log_base(y)


def walk(likelihood: Likelihood, y: Any, mean: np.ndarray, variance: np.ndarray, power: float) -> Tilt:
    """The tilts of the kernel by the adaptive walk: the last resort of the host, for very few rows."""
    from cavity.factors.glm.likelihoods import traced

    return traced.walk(likelihood, y, mean, variance, power)


def proper(variance: Any) -> np.ndarray:
    """Variances with NaN for those that are none, so that closed forms give NaN there."""
    variance = np.asarray(variance, dtype=np.float64)
    return np.where((variance >= 0) & np.isfinite(variance), variance, np.nan)


def check_finite(y: Any, name: str = "y") -> np.ndarray:
    """Numbers as float64, or a ValueError."""
    y = as_numbers(name, y)
    if not np.all(np.isfinite(y)):
        raise ValueError(f"{name} must be finite; got NaN or infinity. Remove those rows.")
    return y
