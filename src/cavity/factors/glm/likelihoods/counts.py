"""Counts."""

from functools import cache, partial
from typing import Any, ClassVar

import numpy as np

from cavity._array import is_jax, namespace
from cavity._pytree import pytree
from cavity.factors.glm.likelihoods.base import Likelihood, check_finite, proper
from cavity.quadrature import Kernel, Tilt
from cavity.special import LOG_SQRT_2PI, log_gamma

LARGEST_COUNT = 1e15
SMALLEST_POWER = 0.01  # but zero
TABLE, MANY = 255, 1000  # counts whose constants are kept, and rows that are worth looking there


@pytree
class Poisson(Likelihood):
    """p(y|a) = e^(y a − e^a)/y!, counts with a log link; closed at power 0. Fractions are allowed, as for rates.

    At power 0 the expected rate e^(m + v/2) overflows above m + v/2 = 709; the tilt is then not finite, and the engine
    skips the datum. Positive powers have no such limit.
    """

    log_concave: ClassVar[bool] = True

    def is_closed(self, power: float) -> bool:
        return power == 0

    def log_kernel(self, y: Any, a: Any) -> Any:
        # y a − e^a about its mode, so that large counts do not cancel
        xp = namespace(y, a)
        scale = xp.maximum(y, 1.0)
        step = a - xp.log(scale)
        return y * step - scale * xp.expm1(step)

    def derivatives(self, y: Any, a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        scale = np.maximum(y, 1.0)
        step = a - np.log(scale)
        grown = scale * np.expm1(step)  # e^a − scale
        return y * step - grown, (y - scale) - grown, -scale - grown

    def log_base(self, y: Any) -> Any:
        if not is_jax(y) and np.size(y) > MANY:  # counts are few numbers, again and again
            small = np.minimum(y, TABLE).astype(np.int64)
            if np.array_equal(small, y):
                return of_small_counts()[small]
        xp = namespace(y)
        scale = xp.maximum(y, 1.0)
        series = (1 / 12 - (1 / 360 - 1 / (1260 * scale**2)) / scale**2) / scale  # Stirling's
        large = -0.5 * xp.log(scale) - LOG_SQRT_2PI - series
        return xp.where(y > 30, large, y * xp.log(scale) - scale - log_gamma(y + 1))

    def center(self, y: Any, mean: Any) -> Any:
        xp = namespace(y, mean)
        return xp.log(xp.maximum(y, 1.0)) + xp.zeros_like(mean)

    def check(self, y: Any) -> np.ndarray:
        y = check_finite(y)
        if np.any(y < 0):
            raise ValueError(f"y must be counts, not below zero; got {y.min():g}. Shift or drop those rows.")
        if np.any(y > LARGEST_COUNT):
            raise ValueError(f"y must not exceed {LARGEST_COUNT:g}, or a count is lost in rounding; got {y.max():g}.")
        return y

    def rule(self, y: Any, power: float) -> Kernel:
        # of small counts p^α has no peak, but an edge where α e^a = 1
        edge = lambda y, mean: np.log(np.maximum(y, 1 / max(power, SMALLEST_POWER))) + np.zeros_like(mean)
        near = partial(self.near, power=power) if power else None
        return super().rule(y, power)._replace(center=edge, near=near)

    def near(self, y: Any, mean: np.ndarray, shift: np.ndarray, power: float) -> tuple[np.ndarray, ...]:
        """p^α relative to that at the mean, l′ minus that at the mean and l″."""
        rate = np.exp(mean)
        grown = np.expm1(shift)
        grown *= rate
        ratio = y * shift
        ratio -= grown
        if power != 1:
            ratio *= power
        np.exp(ratio, out=ratio)
        np.negative(grown, out=grown)
        return ratio, grown, grown - rate

    def tilts(self, y: Any, mean: np.ndarray, variance: np.ndarray, power: float) -> Tilt:
        if power != 0:
            return super().tilts(y, mean, variance, power)
        with np.errstate(all="ignore"):
            return self.tilt(y, mean, proper(variance), 0)

    def tilt(self, y: Any, mean: Any, variance: Any, power: float) -> Tilt:
        if power != 0:
            return super().tilt(y, mean, variance, power)
        xp = namespace(mean, variance)
        rate = xp.exp(mean + 0.5 * variance)
        return Tilt(self.log_mean(y, mean, variance, 0), y - rate, -rate, xp.ones_like(rate))

    def log_mean(self, y: Any, mean: Any, variance: Any, power: float) -> Any:
        if power != 0:
            return super().log_mean(y, mean, variance, power)
        xp = namespace(mean, variance)
        return self.log_kernel(y, mean) + self.log_base(y) - xp.exp(mean) * xp.expm1(0.5 * variance)


@cache
def of_small_counts() -> np.ndarray:
    """`Poisson.log_base` of 0, 1, … `TABLE`."""
    return np.asarray(Poisson().log_base(np.arange(TABLE + 1.0)))
