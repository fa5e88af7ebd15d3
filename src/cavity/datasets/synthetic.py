"""Data from the probit model itself, with inputs from one Gaussian or from several."""

from typing import NamedTuple

import numpy as np


class Synthetic(NamedTuple):
    """Inputs, labels ±1, the coefficients that made them, and the component that each input came from."""

    X: np.ndarray
    y: np.ndarray
    coefficients: np.ndarray
    component: np.ndarray


def synthetic_probit(
    n_rows: int = 5000,
    n_features: int = 4,
    n_components: int = 1,
    separation: float = 3.0,
    label_noise: float = 0.0,
    prior_variance: float = 1.0,
    seed: int = 0,
) -> Synthetic:
    """Coefficients from N(0, prior_variance I), inputs, and labels with P(y = 1) = Φ(xᵀθ).

    Inputs come from N(0, I), or from a mixture of such Gaussians with equal weights whose centres are drawn from
    N(0, separation² I). A share `label_noise` of the labels is replaced by coin flips. The defaults are the first
    synthetic set of the paper; `n_components=5` gives the second.
    """
    rng = np.random.default_rng(seed)
    theta = np.sqrt(prior_variance) * rng.standard_normal(n_features)
    component = rng.integers(n_components, size=n_rows)
    centres = separation * rng.standard_normal((n_components, n_features)) * (n_components > 1)
    inputs = centres[component] + rng.standard_normal((n_rows, n_features))
    y = np.where(inputs @ theta + rng.standard_normal(n_rows) > 0, 1.0, -1.0)
    noisy = rng.uniform(size=n_rows) < label_noise
    y[noisy] = rng.choice([-1.0, 1.0], size=n_rows)[noisy]
    return Synthetic(inputs, y, theta, component)
