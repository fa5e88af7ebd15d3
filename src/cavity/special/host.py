"""The functions of `cavity.special` in NumPy.

All of the normal's come from one call of E = `erfcx`(|z|/√2), the upper tail without its exponential:
Φ(−|z|) = ½ e^(−z²/2) E, which is right however far the tail. Below z = −`SWITCH` the excess λ + z would cancel and
comes from Laplace's continued fraction e = 1/(x + 2/(x + 3/(x + …))) with x = −z, whose terms are all positive.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import erfcx, xlogy
from scipy.special import gammaln as log_gamma

__all__ = [
    "hazard",
    "hazard_excess",
    "log_gamma",
    "log_ndtr",
    "log_sigmoid",
    "sigmoid",
    "truncated",
    "truncated_variance",
    "xlogy",
]

SWITCH = 2.5
DEPTH = 80  # of the continued fraction: exact to rounding at x = SWITCH
SQRT_HALF = np.sqrt(0.5)
SQRT_2_OVER_PI = np.sqrt(2 / np.pi)


class Truncated(NamedTuple):
    """What the normal distribution truncated to above −z says: each an array of the shape of z."""

    log_ndtr: np.ndarray
    hazard: np.ndarray
    excess: np.ndarray
    variance: np.ndarray


def truncated(z: Any) -> Truncated:
    """log Φ, hazard, excess and variance together, for the price of one."""
    z = np.asarray(z, dtype=np.float64)
    with np.errstate(all="ignore"):
        square, tail, damp = _parts(z)
        value = _log_ndtr(z, square, tail, damp)
        near = _hazard(z, tail, damp)
        excess = near + z
        variance = 1 - near * excess
        far = z < -SWITCH
        if np.any(far):
            excess, variance, near = np.array(excess), np.array(variance), np.array(near)
            excess[far], variance[far] = _tail(-z[far])
            near[far] = excess[far] - z[far]
    return Truncated(value, near[()], excess[()], variance[()])


def log_ndtr(z: Any) -> Any:
    """log Φ(z)."""
    z = np.asarray(z, dtype=np.float64)
    with np.errstate(all="ignore"):
        return _log_ndtr(z, *_parts(z))


def hazard(z: Any) -> Any:
    """φ(z)/Φ(z)."""
    z = np.asarray(z, dtype=np.float64)
    with np.errstate(all="ignore"):
        _, tail, damp = _parts(z)
        return _hazard(z, tail, damp)


def hazard_excess(z: Any) -> Any:
    """φ(z)/Φ(z) + z."""
    return truncated(z).excess


def truncated_variance(z: Any) -> Any:
    """The variance of a standard normal truncated to above −z."""
    return truncated(z).variance


def sigmoid(z: Any) -> Any:
    """1 / (1 + e^−z)."""
    z = np.asarray(z, dtype=np.float64)
    with np.errstate(under="ignore"):
        return np.exp(np.minimum(z, 0.0)) / (1 + np.exp(-np.abs(z)))


def log_sigmoid(z: Any) -> Any:
    """log 1 / (1 + e^−z)."""
    z = np.asarray(z, dtype=np.float64)
    with np.errstate(under="ignore"):
        return np.minimum(z, 0.0) - np.log1p(np.exp(-np.abs(z)))


def _parts(z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """½ z², erfcx(|z|/√2) and e^(−½ z²)."""
    square = 0.5 * z * z
    return square, erfcx(SQRT_HALF * np.abs(z)), np.exp(-square)


def _log_ndtr(z: np.ndarray, square: np.ndarray, tail: np.ndarray, damp: np.ndarray) -> np.ndarray:
    # beyond 1e150 erfcx leaves the range of numbers long after z² has said everything
    below = np.log(np.maximum(0.5 * tail, 1e-300)) - square
    return np.where(z < 0, below, np.log1p(-0.5 * damp * tail))[()]


def _hazard(z: np.ndarray, tail: np.ndarray, damp: np.ndarray) -> np.ndarray:
    below = np.where(tail > 0, SQRT_2_OVER_PI / tail, np.abs(z))
    return np.where(z < 0, below, SQRT_2_OVER_PI * damp / (2 - damp * tail))[()]


def _tail(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Excess e = 1/(x + c) and variance e (c − e) at z = −x, with c from the continued fraction; c is about 2 e."""
    rest = np.zeros_like(x)
    for k in range(DEPTH, 1, -1):
        rest = k / (x + rest)
    excess = 1 / (x + rest)
    return excess, excess * (rest - excess)
