"""What a posterior over coefficients says about new rows: activations, and averages of the likelihood over them."""

from typing import Any

import numpy as np

from cavity.families import Gaussian
from cavity.inference.source import Arrays, chunks


def activations(features: Any, posterior: Gaussian) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of xᵀθ (+ intercept, where θ has one entry more than x) for every row, dense or sparse."""
    mean, covariance = posterior.mean, posterior.covariance
    found = [marginals_of_chunk(rows, mean, covariance) for rows in chunks(Arrays.of(features))]
    middle, variance = (np.concatenate(column) for column in zip(*found, strict=True))
    return middle, np.maximum(variance, 0.0)


def marginals_of_chunk(rows: Any, mean: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the activations of some rows."""
    dim = rows.shape[1]
    product = rows @ covariance[:dim, :dim]
    square = rows.multiply(product).sum(1) if hasattr(rows, "multiply") else np.sum(product * rows, axis=1)
    middle, variance = rows @ mean[:dim], np.asarray(square).ravel()
    if len(mean) > dim:
        middle = middle + mean[dim]
        variance = variance + 2 * (rows @ covariance[:dim, dim]) + covariance[dim, dim]
    return middle, variance


def log_mean(likelihood: Any, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """log E[p(y|a)] under a ~ N(mean, variance), for every row."""
    return likelihood.tilts(y, mean, variance, 1.0).log_mean
