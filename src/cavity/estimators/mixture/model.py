"""The prior of a Gaussian mixture, and where a fit begins."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cavity import _tree as tree
from cavity.estimators.mixture.k_means import k_means
from cavity.estimators.units import Units
from cavity.families import Dirichlet, NormalGamma, NormalWishart, Product
from cavity.inference.lloyd import nearest
from cavity.inference.result import Result
from cavity.inference.source import Arrays, chunks, sample

ROWS_FOR_KMEANS = 20_000


@dataclass(frozen=True)
class Prior:
    """What is believed of each component before data, in the units of the fit: all are alike."""

    n_components: int
    covariance_type: str
    concentration: float  # of the weights
    mean_count: float  # κ: rows that the prior mean is worth
    df: float  # ν
    variance: float  # expected in every direction

    def family(self, means: np.ndarray) -> Product:
        """With prior means (J, D)."""
        weights = Dirichlet(np.full(self.n_components, self.concentration))
        return Product({"weights": weights, "components": self.components(means)})

    def flat(self, dim: int) -> Product:
        """With all means in the middle of the data."""
        return self.family(np.zeros((self.n_components, dim)))

    def components(self, means: np.ndarray) -> Any:
        """Precisions are such that the covariance is `variance` times the unit matrix in the mean."""
        count, dim = np.full(len(means), self.mean_count), means.shape[1]
        if self.covariance_type == "full":
            scale = np.stack([np.eye(dim) / ((self.df - dim - 1) * self.variance)] * len(means))
            return NormalWishart.from_parameters(means, count, 0 * count + self.df, scale)
        # a Gamma with the degrees of freedom that a direction of the Wishart has
        shape = 0.5 * (self.df - dim + 1)
        rate = (shape - 1) * self.variance
        if self.covariance_type == "spherical":
            return NormalGamma.from_parameters(means, count, 0 * count + shape, 0 * count + rate)
        each = np.ones_like(means)
        return NormalGamma.from_parameters(means[..., None], self.mean_count * each, shape * each, rate * each)


def given_labels(prior: Product, Z: np.ndarray, weight: np.ndarray, labels: np.ndarray) -> Product:
    """The posterior if the assignments were known."""
    known, unit = prior, np.eye(len(prior["weights"].concentration))
    for rows, w, names in chunks(Arrays.of((Z, weight, labels))):
        known = known + given_shares(prior, rows, w[:, None] * unit[names])
    return known


def given_shares(prior: Product, Z: np.ndarray, share: np.ndarray) -> Product:
    """What rows add to the natural parameters if such shares of them (n, J) belong to the components: conjugate."""
    components = prior["components"]
    rows, sums = share.sum(0), share.T @ Z
    if isinstance(components, NormalWishart):
        squares = np.stack([(column[:, None] * Z).T @ Z for column in share.T])
        added: Any = NormalWishart(sums, rows, rows, squares)
    elif components.shift.ndim == 2:
        added = NormalGamma(sums, rows, 0.5 * Z.shape[1] * rows, 0.5 * (share.T @ Z**2).sum(1))
    else:
        each = np.repeat(rows[:, None], Z.shape[1], axis=1)
        added = NormalGamma(sums[..., None], each, 0.5 * each, 0.5 * share.T @ Z**2)
    return Product({"weights": Dirichlet(rows), "components": added})


def first_labels(
    Z: np.ndarray, weight: np.ndarray, n_components: int, how: Any, rng: np.random.RandomState
) -> np.ndarray:
    """Assignments to begin with: by k-means, at random, or as given."""
    if not isinstance(how, str):
        return np.asarray(how)
    at_random = lambda: rng.randint(n_components, size=len(Z))
    if how == "random":
        return at_random()
    source = Arrays.of((Z, weight))
    (chosen, w), _ = sample(source, ROWS_FOR_KMEANS, lambda n, k: rng.choice(n, k, replace=False))
    distinct = len(np.unique(chosen, axis=0))
    if distinct == 1:
        return at_random()
    centres = k_means(chosen, w, min(n_components, distinct), rng)
    return np.concatenate([nearest(rows, centres) for rows, _ in chunks(source)])


def log_evidence_of(result: Result, units: Units, weight: np.ndarray) -> float:
    """log Z of the data in their own units."""
    return result.log_evidence - float(weight.sum()) * float(np.sum(np.log(units.scale)))


def take(q: Product, order: np.ndarray) -> Product:
    """The components in another order."""
    return tree.map(lambda leaf: leaf[order], q)
