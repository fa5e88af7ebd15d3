"""What a network says of rows: moments of its outputs by NumPy, densities and drawn functions by compiled programs."""

from typing import Any

import numpy as np

from cavity._array import Array
from cavity._lazy import jax, jitted, jnp
from cavity.factors.networks import varying_noise
from cavity.factors.networks.factor import Network
from cavity.families import Product
from cavity.inference.boundary import call

ROWS = 1024  # at most, at a time: what is compiled is for one shape


def moments(factor: Network, q: Product, rows: np.ndarray) -> np.ndarray:
    """Mean and variance of the function and variance of the noise at each row, (3, n)."""
    if factor.unit_covariances:
        return of_rows(moments_with_covariances, factor, q, rows)
    weights = q["weights"]
    with np.errstate(all="ignore"):  # as JAX does: what overflows is infinite
        mean, variance, _ = factor.output(weights.mean, weights.variance, rows)
        return np.stack([mean[:, 0], variance[:, 0], noise(q, mean.T, variance.T)])


@jitted
def moments_with_covariances(factor: Network, q: Product, rows: Array) -> Array:
    weights = q["weights"]

    def one(x: Array) -> Array:
        mean, variance, _ = factor.output(weights.mean, weights.variance, x)
        return jnp.stack([mean[0], variance[0], noise(q, mean, variance)])

    return jax.vmap(one, out_axes=1)(rows)


def noise(q: Product, mean: Any, variance: Any) -> Any:
    """Variance of the noise, zero of labels, from moments of the outputs, which are on the first axis."""
    size_one = q["noise"].rate / (q["noise"].shape - 1) if "noise" in q.parts else 0.0
    size = varying_noise.mean_size(varying_noise.LogSize(mean[1], variance[1])) if len(mean) == 2 else 1.0
    return size * size_one + 0.0 * mean[0]


def log_density(factor: Network, q: Product, rows: np.ndarray) -> np.ndarray:
    """log p(y | x) of rows with the target last."""
    return of_rows(log_densities, factor, q, rows)


def evaluated(factor: Network, weights: Array, rows: np.ndarray) -> np.ndarray:
    """f(x) for given weights."""
    return of_rows(functions, factor, weights, rows)


def of_rows(program: Any, factor: Network, q: Any, rows: np.ndarray) -> np.ndarray:
    """What a compiled program says of rows, which are its last axis."""
    filled = np.pad(rows, ((0, ROWS - len(rows)), (0, 0)))
    return call(program, factor, q, filled)[..., : len(rows)]


@jitted
def log_densities(factor: Network, q: Product, rows: Array) -> Array:
    return jax.vmap(lambda row: factor.log_mean(q, (row[:-1], row[-1]), 1.0))(rows)


@jitted
def functions(factor: Network, weights: Array, rows: Array) -> Array:
    return jax.vmap(lambda x: factor.evaluate(weights, x)[0])(rows)
