"""What a posterior over coefficients says about new rows: activations, and averages of the likelihood over them."""

from typing import Any

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
    """log E[p(y|a)] under a ~ N(mean, variance), for every row."""
    return likelihood.tilts(y, mean, variance, 1.0).log_mean
