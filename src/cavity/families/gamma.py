"""The Gamma distribution."""

from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import gammaln, xlogy

from cavity._precision import in_float64, is_traced
from cavity.families.base import ExpFamily, check_alike, family, total_of_logs
from cavity.families.inverse import gamma_shape
from cavity.families.stirling import gap, log_minus_digamma, stirling_bregman


@family
class Gamma(ExpFamily):
    """x^{a−1} e^{−bx} bᵃ/Γ(a), with T(x) = (log x, −x) and base measure dx/x, so that η = (a, b).

    The base dx/x makes the shape itself, not a − 1, the natural parameter, which stays exact for tiny shapes.

    >>> from cavity.families import Gamma
    >>> (Gamma(2.0, 1.0) + Gamma(1.0, 3.0)).mean.item()
    0.75
    """

    shape: Array
    rate: Array

    def __post_init__(self) -> None:
        shape, rate = np.shape(self.shape), np.shape(self.rate)
        if not is_traced(self.shape, self.rate) and shape != rate:
            raise ValueError(f"rate must be an array like shape, {shape}; got one of {rate}.")

    @property
    @in_float64
    def mean(self) -> Array:
        """E[x] = a/b."""
        return jnp.asarray(self.shape) / self.rate

    @property
    @in_float64
    def variance(self) -> Array:
        """Var[x] = a/b²."""
        return self.mean / self.rate

    @in_float64
    def log_partition(self) -> Array:
        return jnp.sum(gammaln(self.shape) - self.shape * jnp.log(self.rate))

    @in_float64
    def moments(self) -> Self:
        # ψ(a) − log b, relative to log E[x]: what `from_moments` takes off again
        mean = self.mean
        return type(self)(jnp.log(mean) - log_minus_digamma(jnp.asarray(self.shape)), -mean)

    @in_float64
    def from_moments(self) -> Self:
        mean = -self.rate
        shape = gamma_shape(jnp.log(mean) - self.shape)
        return type(self)(shape, shape / mean)

    @in_float64
    def kl(self, other: Self) -> Array:
        check_alike(self, other)
        # a' (r − 1 − log r) + R(a') − R(a) − R'(a)(a' − a), r = μ/μ': log Γ of large shapes would cancel.
        step = (self.mean - other.mean) / other.mean
        return jnp.sum(other.shape * gap(step) + stirling_bregman(jnp.asarray(self.shape), jnp.asarray(other.shape)))

    @in_float64
    def is_proper(self) -> Array:
        leaves = jnp.stack([jnp.asarray(self.shape), jnp.asarray(self.rate)])
        return jnp.all((leaves > 0) & jnp.isfinite(leaves))

    @in_float64
    def statistics(self, theta: Array) -> Self:
        return type(self)(jnp.log(theta), -jnp.asarray(theta))

    @in_float64
    def log_base(self, theta: Array) -> Array:
        return -jnp.sum(jnp.log(theta))

    @in_float64
    def log_weight(self, theta: Array) -> Array:
        theta = jnp.asarray(theta)
        outside = (theta < 0) | jnp.isposinf(theta)
        safe = jnp.where(outside, 1.0, theta)
        return total_of_logs(jnp.where(outside, -jnp.inf, xlogy(self.shape - 1, safe) - self.rate * safe))

    @in_float64
    def expected_log_base(self, moments: Self) -> Array:
        return -jnp.sum(moments.shape)

    def event_shape(self) -> tuple[int, ...]:
        return tuple(np.shape(self.shape))

    def draw(self, key: Array) -> Array:
        log_draw = jax.random.loggamma(key, self.shape, dtype=float) - jnp.log(self.rate)
        # A shape of 1e-3 often draws below the smallest number: the floor keeps log x finite.
        return jnp.maximum(jnp.exp(log_draw), jnp.finfo(float).tiny)
