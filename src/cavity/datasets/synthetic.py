"""Data from the models themselves: the probit, with inputs from one Gaussian or from several, and a mixture."""

from typing import NamedTuple

import numpy as np

MOST_DRAWS = 10_000  # of centres, before a separation is said to be out of reach


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


class SyntheticMixture(NamedTuple):
    """Points, the component that each of them came from, and the centres of the components."""

    X: np.ndarray
    component: np.ndarray
    centres: np.ndarray


def synthetic_mixture(
    n_rows: int = 200,
    n_components: int = 4,
    n_features: int = 2,
    noise: float = 0.5,
    separation: float = 0.0,
    seed: int = 0,
) -> SyntheticMixture:
    """Centres from N(0, I), components with equal chances, and points with standard deviation `noise` around them.

    Centres are drawn anew, all of them, until any two are at least `separation` apart. The defaults are the mixture of
    the paper, which asks for no separation.
    """
    if not (n_components >= 1 and n_features >= 1 and noise > 0):
        raise ValueError(
            f"n_components, n_features and noise must be positive; got {n_components=}, {n_features=}, {noise=}."
        )
    rng = np.random.default_rng(seed)
    centres = separate_centres(rng, n_components, n_features, separation)
    component = rng.integers(n_components, size=n_rows)
    return SyntheticMixture(centres[component] + noise * rng.standard_normal((n_rows, n_features)), component, centres)


def separate_centres(rng: np.random.Generator, n_components: int, n_features: int, separation: float) -> np.ndarray:
    """The first draw from N(0, I) in which no two centres are nearer than `separation`."""
    pairs = np.triu_indices(n_components, 1)
    for _ in range(MOST_DRAWS):
        centres = rng.standard_normal((n_components, n_features))
        if np.all(np.linalg.norm(centres[pairs[0]] - centres[pairs[1]], axis=1) >= separation):
            return centres
    raise ValueError(
        f"separation must be a distance that {n_components} draws from N(0, I) can have; got {separation=}, "
        f"and no such centres in {MOST_DRAWS:,} draws. Ask for less, or for fewer components."
    )
