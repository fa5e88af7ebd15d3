"""What a posterior over coefficients says about new rows: activations, and averages of the likelihood over them."""

from typing import Any

import numpy as np

from cavity.estimators.linear.units import Units
from cavity.families import Gaussian
from cavity.inference.source import Arrays, chunks


def activations(features: Any, units: Units, posterior: Gaussian) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the function at every row, dense or sparse, from its posterior in the units of learning."""
    mean, covariance = posterior.mean, posterior.covariance
    found = [marginals(units.design(rows), mean, covariance) for rows in chunks(Arrays.of(features))]
    middle, variance = (np.concatenate(column) for column in zip(*found, strict=True))
    return units.middle + units.spread * middle, units.spread**2 * variance


def marginals(design: Any, mean: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of wᵀφ for some rows w."""
    product = design @ covariance
    square = design.multiply(product).sum(1) if hasattr(design, "multiply") else np.sum(product * design, axis=1)
    return design @ mean, np.maximum(np.asarray(square).ravel(), 0.0)


def log_mean(likelihood: Any, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """log E[p(y|a)] under a ~ N(mean, variance), for every row."""
    return likelihood.tilts(y, mean, variance, 1.0).log_mean
