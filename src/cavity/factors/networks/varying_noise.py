"""Noise whose size depends on the input: N(r; 0, e^c(s)/γ) with s ~ N(m, v), a second output of the network.

c(s) = L tanh(s/L) keeps the size within reason: without it rows far from all others are taken for noise, and nothing
holds the function there. γ is as in `gamma_noise`; s is averaged over by Gauss–Hermite quadrature, so that the noise is
a mixture of noises of fixed size. Where s and the function go together, each node has its own residual and variance.
"""

from typing import Any, NamedTuple

import numpy as np

from cavity._array import Array, namespace
from cavity._lazy import jax, jnp
from cavity.factors.networks import gamma_noise
from cavity.families import Gamma
from cavity.families.stirling import log_minus_digamma
from cavity.special import LOG_SQRT_2PI

LIMIT = 4.0  # L: variances from 1/55 to 55 times the common one
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


class LogSize(NamedTuple):
    """Moments of s."""

    mean: Any
    variance: Any
    shared: Any = 0.0  # its covariance with the function


def log_mean(residual: Array, variance: Array, log_size: LogSize, noise: Gamma, power: float) -> Array:
    """ℓ_α, and E[log N] at power 0."""
    residual, variance = at_nodes(residual, variance, log_size)
    if power == 0:
        size, shape, rate = sizes(log_size), jnp.asarray(noise.shape), jnp.asarray(noise.rate)
        mean_log = jnp.log(shape / rate) - log_minus_digamma(shape) - WEIGHTS @ jnp.log(size)
        return 0.5 * (mean_log - shape / rate * (WEIGHTS @ ((residual**2 + variance) / size))) - LOG_SQRT_2PI
    logs = power * gamma_noise.log_mean(residual, variance, sized(noise, log_size), power)
    return jax.nn.logsumexp(logs + np.log(WEIGHTS)) / power


def site(residual: Array, variance: Array, log_size: LogSize, noise: Gamma, power: float) -> Gamma:
    """What replaces the factor in the posterior of γ."""
    half = jnp.full(jnp.shape(residual), 0.5)
    residual, variance = at_nodes(residual, variance, log_size)
    if power == 0:
        return Gamma(half, half * (WEIGHTS @ ((residual**2 + variance) / sizes(log_size))))
    of_each = sized(noise, log_size)
    share = jax.nn.softmax(power * gamma_noise.log_mean(residual, variance, of_each, power) + np.log(WEIGHTS))
    first, second = gamma_noise.rises(residual, variance, of_each, power)
    once = jnp.log1p(share @ jnp.expm1(first))
    twice = jnp.log1p((share * jnp.exp(first - once)) @ jnp.expm1(second))
    return gamma_noise.site_of_rises(noise, once, twice, power)


def at_nodes(residual: Array, variance: Array, log_size: LogSize) -> tuple[Array, Array]:
    """Residual and variance of the function given s, at every node."""
    slope = log_size.shared / jnp.sqrt(log_size.variance)
    return residual - slope * NODES, variance - slope**2 + 0.0 * NODES


def mean_size(log_size: LogSize) -> Array:
    """E[e^c(s)]."""
    return sizes(log_size) @ WEIGHTS


def sizes(log_size: LogSize) -> Array:
    """e^c(s) at every node, on the last axis."""
    xp = namespace(log_size.mean, log_size.variance)
    mean, sd = xp.asarray(log_size.mean), xp.sqrt(log_size.variance)
    at = mean[..., None] + sd[..., None] * NODES
    return xp.exp(LIMIT * xp.tanh(at / LIMIT))


def sized(noise: Gamma, log_size: LogSize) -> Gamma:
    """The precision of noise at every node: γ e^−c(s)."""
    size = sizes(log_size)
    return Gamma(jnp.broadcast_to(noise.shape, size.shape), noise.rate * size)
