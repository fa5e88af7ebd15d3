"""Probabilistic backpropagation as first written: `lax.scan` over the rows, gradients by JAX, `erfc` moments.

What the compiled loops are measured against. ADF with steps of one row.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import erfc


def rectified(mean: Array, variance: Array) -> tuple[Array, Array]:
    """Mean and variance of max(a, 0), as in Hernández-Lobato & Adams (2015)."""
    scale = jnp.sqrt(variance)
    ratio = mean / scale
    above = 0.5 * erfc(-ratio / math.sqrt(2))
    hazard = jnp.exp(-0.5 * ratio**2) / math.sqrt(2 * math.pi) / above
    conditional = mean + scale * hazard
    out = above * conditional
    return out, out * conditional * (1 - above) + above * variance * (1 - hazard * (hazard + ratio))


def output(weights: Any, x: Array) -> tuple[Array, Array]:
    """Mean and variance of the network's output."""
    mean, variance = x, jnp.zeros_like(x)
    for number, (m, v) in enumerate(weights):
        mean, variance = rectified(mean, variance) if number else (mean, variance)
        mean, variance = jnp.append(mean, 1.0), jnp.append(variance, 0.0)
        spread = variance @ m**2 + (mean**2 + variance) @ v
        mean, variance = mean @ m / math.sqrt(len(m)), spread / len(m)
    return mean[0], variance[0]


def step(carry: Any, datum: Any) -> tuple[Any, None]:
    """One row."""
    weights, shape, rate = carry
    x, y = datum

    def log_z(weights: Any) -> tuple[Array, tuple[Array, Array]]:
        mean, variance = output(weights, x)
        return gaussian(y - mean, variance + rate / (shape - 1)), (mean, variance)

    (zero, (mean, variance)), slopes = jax.value_and_grad(log_z, has_aux=True)(weights)
    one, two = (gaussian(y - mean, variance + rate / (shape + k)) for k in (0, 1))
    moved = []
    for (m, v), (by_m, by_v) in zip(weights, slopes, strict=True):
        new = v - v**2 * (by_m**2 - 2 * by_v)
        moved.append((jnp.where(new > 0, m + v * by_m, m), jnp.where(new > 0, new, v)))
    new_shape = 1 / (jnp.exp(two - 2 * one + zero) * (shape + 1) / shape - 1)
    new_rate = 1 / (jnp.exp(two - one) * (shape + 1) / rate - jnp.exp(one - zero) * shape / rate)
    return (tuple(moved), new_shape, new_rate), None


def gaussian(residual: Array, variance: Array) -> Array:
    return -0.5 * (jnp.log(variance) + residual**2 / variance)


@jax.jit
def epoch(weights: Any, shape: Array, rate: Array, X: Array, y: Array) -> Any:
    """One pass over the rows in their order."""
    return jax.lax.scan(step, (weights, shape, rate), (X, y))[0]
