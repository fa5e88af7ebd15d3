"""What a posterior over coefficients says about new rows: activations, and averages of the likelihood over them."""

from typing import Any

import jax
import numpy as np

from cavity.families import Gaussian

ROWS = 4096  # at a time


def activations(features: Any, posterior: Gaussian) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of xᵀθ (+ intercept, where θ has one entry more than x) for every row, dense or sparse."""
    mean, covariance = posterior.mean, posterior.covariance
    dim = features.shape[1]
    middle, variance = np.empty(features.shape[0]), np.empty(features.shape[0])
    for start in range(0, features.shape[0], ROWS):
        part = features[start : start + ROWS]
        product = part @ covariance[:dim, :dim]
        square = part.multiply(product).sum(1) if hasattr(part, "multiply") else np.sum(product * part, axis=1)
        here = slice(start, start + ROWS)
        middle[here], variance[here] = part @ mean[:dim], np.asarray(square).ravel()
        if len(mean) > dim:
            middle[here] += mean[dim]
            variance[here] += 2 * (part @ covariance[:dim, dim]) + covariance[dim, dim]
    return middle, np.maximum(variance, 0.0)


def log_mean(likelihood: Any, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """log E[p(y|a)] under a ~ N(mean, variance), row by row; sizes are rounded up so that few programs are compiled."""
    padding = (0, 2 ** int(np.ceil(np.log2(max(len(mean), 16)))) - len(mean))
    pad = lambda array: np.pad(array, padding, mode="edge")
    with jax.enable_x64(True):
        return np.asarray(_log_mean(likelihood, *map(pad, (y, mean, variance))))[: len(mean)]


@jax.jit
def _log_mean(likelihood: Any, y: Any, mean: Any, variance: Any) -> Any:
    one = lambda *row: likelihood.log_mean(*row, 1.0)
    chunks = jax.tree.map(_in_chunks, (y, mean, variance))
    return jax.lax.map(lambda chunk: jax.vmap(one)(*chunk), chunks).reshape(-1)


def _in_chunks(array: Any) -> Any:
    return array.reshape(-1, min(len(array), ROWS))
