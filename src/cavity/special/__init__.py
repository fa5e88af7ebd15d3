"""The normal distribution's tail functions and the logistic function, right in both tails, for either array library.

With φ and Φ the standard normal density and distribution function, everything a probit needs is log Φ(z) and

    hazard     λ(z) = φ(z)/Φ(z) = d log Φ/dz     the mean of a standard normal truncated to above −z
    excess     e(z) = λ(z) + z > 0               how far that mean lies above the cut
    variance   1 − λ(z) e(z) = e′(z) ∈ (0, 1)    the variance of that truncated normal

All functions act elementwise. Arrays of JAX, concrete or traced, get the differentiable versions of
`cavity.special.traced`, anything else those of `cavity.special.host`; only the former imports JAX.
"""

from typing import Any

from cavity._array import is_jax
from cavity.special import host
from cavity.special.constants import LOG_SQRT_2PI

__all__ = [
    "LOG_SQRT_2PI",
    "hazard",
    "hazard_excess",
    "log_gamma",
    "log_ndtr",
    "log_sigmoid",
    "sigmoid",
    "truncated_variance",
    "xlogy",
]


def log_ndtr(z: Any) -> Any:
    """log Φ(z)."""
    return _library(z).log_ndtr(z)


def hazard(z: Any) -> Any:
    """φ(z)/Φ(z)."""
    return _library(z).hazard(z)


def hazard_excess(z: Any) -> Any:
    """φ(z)/Φ(z) + z."""
    return _library(z).hazard_excess(z)


def truncated_variance(z: Any) -> Any:
    """1 − λ(λ + z) with λ = φ(z)/Φ(z): the variance of a standard normal truncated to above −z."""
    return _library(z).truncated_variance(z)


def sigmoid(z: Any) -> Any:
    """1 / (1 + e^−z)."""
    return _library(z).sigmoid(z)


def log_sigmoid(z: Any) -> Any:
    """log 1 / (1 + e^−z)."""
    return _library(z).log_sigmoid(z)


def log_gamma(z: Any) -> Any:
    """log Γ(z)."""
    return _library(z).log_gamma(z)


def xlogy(x: Any, y: Any) -> Any:
    """x log y, and 0 where x is 0."""
    return _library(x, y).xlogy(x, y)


def _library(*z: Any) -> Any:
    if not is_jax(*z):
        return host
    from cavity.special import traced

    return traced
