"""Real observations: the activation with noise."""

from functools import partial
from typing import Any, ClassVar

import numpy as np

from cavity._array import namespace
from cavity._checks import check_positive
from cavity._pytree import pytree
from cavity.factors.glm.likelihoods.base import Likelihood, check_finite, proper
from cavity.quadrature import Kernel, Tilt
from cavity.special import LOG_SQRT_2PI, log_gamma


@pytree
class GaussianNoise(Likelihood):
    """p(y|a) = N(y; a, noise_variance); closed at every power."""

    noise_variance: Any

    log_concave: ClassVar[bool] = True

    def is_closed(self, power: float) -> bool:
        return True

    def log_kernel(self, y: Any, a: Any) -> Any:
        return -0.5 * (y - a) ** 2 / self.noise_variance

    def derivatives(self, y: Any, a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rest = y - a
        slope = rest / self.noise_variance
        return -0.5 * rest * slope, slope, np.broadcast_to(-1 / self.noise_variance, np.shape(slope))

    def log_base(self, y: Any) -> Any:
        return -0.5 * namespace(self.noise_variance).log(self.noise_variance) - LOG_SQRT_2PI

    def center(self, y: Any, mean: Any) -> Any:
        return y

    def length(self, y: Any) -> float:
        return np.inf

    def check(self, y: Any) -> np.ndarray:
        return check_finite(y)

    def tilts(self, y: Any, mean: np.ndarray, variance: np.ndarray, power: float) -> Tilt:
        with np.errstate(all="ignore"):
            return self.tilt(y, mean, proper(variance), power)

    def tilt(self, y: Any, mean: Any, variance: Any, power: float) -> Tilt:
        total = self.noise_variance + power * variance
        slope = (y - mean) / total
        return Tilt(self.log_mean(y, mean, variance, power), slope, -1 / total, self.noise_variance / total)

    def log_mean(self, y: Any, mean: Any, variance: Any, power: float) -> Any:
        ratio = variance / self.noise_variance
        spread = ratio if power == 0 else namespace(ratio).log1p(power * ratio) / power
        square = (y - mean) ** 2 / (self.noise_variance + power * variance)
        return self.log_base(y) - 0.5 * (spread + square)


@pytree
class StudentT(Likelihood):
    """p(y|a) = Student's t with `df` degrees of freedom, location a and `scale`: regression that forgives outliers."""

    df: Any
    scale: Any

    def log_kernel(self, y: Any, a: Any) -> Any:
        square = ((y - a) / self.scale) ** 2 / self.df
        return -0.5 * (self.df + 1) * namespace(square).log1p(square)

    def derivatives(self, y: Any, a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        z = (y - a) / self.scale
        square = z * z
        weight = (self.df + 1) / (self.df + square)
        value = -0.5 * (self.df + 1) * np.log1p(square / self.df)
        curve = weight * (square - self.df) / ((self.df + square) * self.scale**2)
        return value, weight * z / self.scale, curve

    def log_base(self, y: Any) -> Any:
        xp = namespace(self.df, self.scale)
        half = 0.5 * xp.asarray(self.df, dtype=float)
        return log_gamma(half + 0.5) - log_gamma(half) - 0.5 * xp.log(2 * xp.pi * half) - xp.log(self.scale)

    def center(self, y: Any, mean: Any) -> Any:
        return y

    def length(self, y: Any) -> Any:
        return 0.5 * self.scale * np.sqrt(self.df)  # half the way to its poles

    def rule(self, y: Any, power: float) -> Kernel:
        return super().rule(y, power)._replace(near=partial(self.near, power=power) if power else None)

    def near(self, y: Any, mean: np.ndarray, shift: np.ndarray, power: float) -> tuple[np.ndarray, ...]:
        """p^α relative to that at the mean, l′ minus that at the mean and l″."""
        at_mean = (y - mean) / self.scale
        z = at_mean - shift / self.scale
        square = z * z
        inverse = 1 / (self.df + square)
        base = self.df + at_mean**2
        ratio = np.log(base * inverse)
        ratio *= 0.5 * (self.df + 1) * power
        strength = (self.df + 1) / self.scale
        z *= inverse
        z -= at_mean / base
        square -= self.df
        square *= inverse
        square *= inverse
        return np.exp(ratio, out=ratio), strength * z, (strength / self.scale) * square

    def check(self, y: Any) -> np.ndarray:
        return check_finite(y)


def gaussian_noise(noise_variance: float) -> GaussianNoise:
    """A `GaussianNoise` whose hyper-parameter has been checked."""
    return GaussianNoise(check_positive("noise_variance", noise_variance))


def student_t(df: float, scale: float) -> StudentT:
    """A `StudentT` whose hyper-parameters have been checked."""
    return StudentT(check_positive("df", df), check_positive("scale", scale))
