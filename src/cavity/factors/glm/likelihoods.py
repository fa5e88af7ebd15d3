"""Likelihoods p(y|a) of one activation a = xᵀθ: what distinguishes one generalised linear model from another.

Each says log p(y|a) and where it varies most; adaptive quadrature does the rest, and closed forms replace it where they
exist. Hyper-parameters are leaves, so that the evidence can be differentiated in them.
"""

import abc
from collections.abc import Callable
from dataclasses import field
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import gammaln

from cavity._checks import as_numbers, check_positive
from cavity._pytree import pytree
from cavity.factors.base import scalar_of_user
from cavity.quadrature import Tilt, adaptive
from cavity.special import LOG_SQRT_2PI, hazard, hazard_excess, log_ndtr, log_sigmoid, truncated_variance

LARGEST_COUNT = 1e15


class Likelihood(abc.ABC):
    """p(y|a) for one observation y and one activation a; subclasses are frozen pytrees."""

    @abc.abstractmethod
    def log_kernel(self, y: Array, a: Array) -> Array:
        """log p(y|a) up to a term that does not depend on a."""

    @abc.abstractmethod
    def center(self, y: Array, mean: Array) -> Array:
        """The activation around which the likelihood varies most; a hint to the quadrature."""

    @abc.abstractmethod
    def check(self, y: Any) -> np.ndarray:
        """The observations as float64, or a ValueError that names what is wrong."""

    def log_base(self, y: Array) -> Array:
        """The term of log p(y|a) that `log_kernel` leaves out."""
        return jnp.zeros(())

    def log_lik(self, y: Array, a: Array) -> Array:
        """log p(y|a)."""
        return self.log_kernel(y, a) + self.log_base(y)

    def tilt(self, y: Array, mean: Array, variance: Array, power: float) -> Tilt:
        """ℓ(m, v) = (1/α) log E[p(y|a)^α] under a ~ N(m, v), with its derivatives: see `Tilt`."""
        kernel = lambda a: self.log_kernel(y, a)
        tilt = adaptive.tilt(kernel, mean, variance, power, self.center(y, mean))
        return tilt._replace(log_mean=tilt.log_mean + self.log_base(y))

    def log_mean(self, y: Array, mean: Array, variance: Array, power: float) -> Array:
        """ℓ(m, v) alone, differentiable in everything."""
        kernel = lambda a: self.log_kernel(y, a)
        return adaptive.log_mean(kernel, mean, variance, power, self.center(y, mean)) + self.log_base(y)


@pytree
class Probit(Likelihood):
    """p(y|a) = Φ(y a), y ∈ {−1, +1}; closed at power 1."""

    def log_kernel(self, y: Array, a: Array) -> Array:
        return log_ndtr(y * a)

    def center(self, y: Array, mean: Array) -> Array:
        return jnp.zeros_like(mean)

    def check(self, y: Any) -> np.ndarray:
        return _check_signs(y)

    def tilt(self, y: Array, mean: Array, variance: Array, power: float) -> Tilt:
        if power != 1:
            return super().tilt(y, mean, variance, power)
        total = 1 + variance
        z = y * mean / jnp.sqrt(total)
        slope = y * hazard(z) / jnp.sqrt(total)
        curvature = -hazard(z) * hazard_excess(z) / total
        return Tilt(log_ndtr(z), slope, curvature, (1 + variance * truncated_variance(z)) / total)

    def log_mean(self, y: Array, mean: Array, variance: Array, power: float) -> Array:
        if power != 1:
            return super().log_mean(y, mean, variance, power)
        return log_ndtr(y * mean / jnp.sqrt(1 + variance))


@pytree
class Logit(Likelihood):
    """p(y|a) = 1/(1 + e^(−y a)), y ∈ {−1, +1}."""

    def log_kernel(self, y: Array, a: Array) -> Array:
        return log_sigmoid(y * a)

    def center(self, y: Array, mean: Array) -> Array:
        return jnp.zeros_like(mean)

    def check(self, y: Any) -> np.ndarray:
        return _check_signs(y)


@pytree
class Poisson(Likelihood):
    """p(y|a) = e^(y a − e^a)/y!, counts with a log link; closed at power 0. Fractions are allowed, as for rates.

    At power 0 the expected rate e^(m + v/2) overflows above m + v/2 = 709; the tilt is then not finite, and the engine
    skips the datum. Positive powers have no such limit.
    """

    def log_kernel(self, y: Array, a: Array) -> Array:
        # y a − e^a about its mode, so that large counts do not cancel
        scale = jnp.maximum(y, 1.0)
        step = a - jnp.log(scale)
        return y * step - scale * jnp.expm1(step)

    def log_base(self, y: Array) -> Array:
        scale = jnp.maximum(y, 1.0)
        series = (1 / 12 - (1 / 360 - 1 / (1260 * scale**2)) / scale**2) / scale  # Stirling's
        large = -0.5 * jnp.log(scale) - LOG_SQRT_2PI - series
        return jnp.where(y > 30, large, y * jnp.log(scale) - scale - gammaln(y + 1))

    def center(self, y: Array, mean: Array) -> Array:
        return jnp.log(jnp.maximum(y, 1.0)) + jnp.zeros_like(mean)

    def check(self, y: Any) -> np.ndarray:
        y = _check_finite(y)
        if np.any(y < 0):
            raise ValueError(f"y must be counts, not below zero; got {y.min():g}. Shift or drop those rows.")
        if np.any(y > LARGEST_COUNT):
            raise ValueError(f"y must not exceed {LARGEST_COUNT:g}, or a count is lost in rounding; got {y.max():g}.")
        return y

    def tilt(self, y: Array, mean: Array, variance: Array, power: float) -> Tilt:
        if power != 0:
            return super().tilt(y, mean, variance, power)
        rate = jnp.exp(mean + 0.5 * variance)
        return Tilt(self.log_mean(y, mean, variance, 0), y - rate, -rate, jnp.ones_like(rate))

    def log_mean(self, y: Array, mean: Array, variance: Array, power: float) -> Array:
        if power != 0:
            return super().log_mean(y, mean, variance, power)
        return self.log_kernel(y, mean) + self.log_base(y) - jnp.exp(mean) * jnp.expm1(0.5 * variance)


@pytree
class GaussianNoise(Likelihood):
    """p(y|a) = N(y; a, noise_variance); closed at every power."""

    noise_variance: Array

    def log_kernel(self, y: Array, a: Array) -> Array:
        return -0.5 * (y - a) ** 2 / self.noise_variance

    def log_base(self, y: Array) -> Array:
        return -0.5 * jnp.log(self.noise_variance) - LOG_SQRT_2PI

    def center(self, y: Array, mean: Array) -> Array:
        return y

    def check(self, y: Any) -> np.ndarray:
        return _check_finite(y)

    def tilt(self, y: Array, mean: Array, variance: Array, power: float) -> Tilt:
        total = self.noise_variance + power * variance
        slope = (y - mean) / total
        return Tilt(self.log_mean(y, mean, variance, power), slope, -1 / total, self.noise_variance / total)

    def log_mean(self, y: Array, mean: Array, variance: Array, power: float) -> Array:
        ratio = variance / self.noise_variance
        spread = ratio if power == 0 else jnp.log1p(power * ratio) / power
        square = (y - mean) ** 2 / (self.noise_variance + power * variance)
        return self.log_base(y) - 0.5 * (spread + square)


@pytree
class StudentT(Likelihood):
    """p(y|a) = Student's t with `df` degrees of freedom, location a and `scale`: regression that forgives outliers."""

    df: Array
    scale: Array

    def log_kernel(self, y: Array, a: Array) -> Array:
        return -0.5 * (self.df + 1) * jnp.log1p(((y - a) / self.scale) ** 2 / self.df)

    def log_base(self, y: Array) -> Array:
        half = 0.5 * jnp.asarray(self.df, dtype=float)
        return gammaln(half + 0.5) - gammaln(half) - 0.5 * jnp.log(2 * jnp.pi * half) - jnp.log(self.scale)

    def center(self, y: Array, mean: Array) -> Array:
        return y

    def check(self, y: Any) -> np.ndarray:
        return _check_finite(y)


@pytree
class Offset:
    """A likelihood whose activation has a known part: observations are pairs (y, offset), and p(y | a + offset)."""

    likelihood: Any

    def check(self, y: Any) -> tuple[np.ndarray, np.ndarray]:
        if not (isinstance(y, tuple | list) and len(y) == 2):
            raise ValueError("y must be a pair (y, offset) of observations and what is added to their activations.")
        return self.likelihood.check(y[0]), _check_finite(y[1], "offset")

    def log_lik(self, y: tuple[Array, Array], a: Array) -> Array:
        return self.likelihood.log_lik(y[0], a + y[1])

    def tilt(self, y: tuple[Array, Array], mean: Array, variance: Array, power: float) -> Tilt:
        return self.likelihood.tilt(y[0], mean + y[1], variance, power)

    def log_mean(self, y: tuple[Array, Array], mean: Array, variance: Array, power: float) -> Array:
        return self.likelihood.log_mean(y[0], mean + y[1], variance, power)


@pytree
class UserLikelihood(Likelihood):
    """A user's own log p(y|a), a smooth function `log_density(y, a)` of scalars.

    `where(y)` says around which activation it varies most; without it, the mode of the likelihood uphill from the
    cavity's mean is used.
    """

    log_density: Callable[[Array, Array], Array] = field(metadata={"static": True})
    where: Callable[[Array], Array] | None = field(default=None, metadata={"static": True})

    def log_kernel(self, y: Array, a: Array) -> Array:
        return scalar_of_user("log_lik", self.log_density, y, a)

    def center(self, y: Array, mean: Array) -> Array:
        if self.where is not None:
            return scalar_of_user("center", self.where, y)
        return adaptive.mode(lambda a: self.log_kernel(y, a), mean)

    def check(self, y: Any) -> np.ndarray:
        return _check_finite(y)


def gaussian_noise(noise_variance: float) -> GaussianNoise:
    """A `GaussianNoise` whose hyper-parameter has been checked."""
    return GaussianNoise(check_positive("noise_variance", noise_variance))


def student_t(df: float, scale: float) -> StudentT:
    """A `StudentT` whose hyper-parameters have been checked."""
    return StudentT(check_positive("df", df), check_positive("scale", scale))


def user(log_lik: Callable[[Array, Array], Array], center: Callable[[Array], Array] | None = None) -> UserLikelihood:
    """A `UserLikelihood` from `log_lik(y, a)` and, where known, `center(y)`."""
    for name, function in {"log_lik": log_lik, "center": center}.items():
        if not (callable(function) or (name == "center" and function is None)):
            raise TypeError(f"{name} must be a function; got {function!r}.")
    return UserLikelihood(log_lik, center)


def _check_finite(y: Any, name: str = "y") -> np.ndarray:
    y = as_numbers(name, y)
    if not np.all(np.isfinite(y)):
        raise ValueError(f"{name} must be finite; got NaN or infinity. Remove those rows.")
    return y


def _check_signs(y: Any) -> np.ndarray:
    y = _check_finite(y)
    if not np.all(np.abs(y) == 1):
        labels = np.unique(y)
        got = ", ".join(f"{label:g}" for label in labels[:5]) + (", …" if labels.size > 5 else "")
        raise ValueError(
            f"y must contain −1 and +1 only; got {got}. Map the two labels to −1 and +1, for instance 2 * y − 1 for "
            "labels 0 and 1."
        )
    return y
