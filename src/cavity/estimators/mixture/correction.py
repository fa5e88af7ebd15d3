"""How much wider than q a mixture's posterior is, and what that does to draws.

Weights, means and variances are looked at as u = (log π, μ, log σ²), in which posteriors are nearly Gaussian.
"""

from dataclasses import dataclass

import numpy as np

SMALLEST = 1e-10  # of the largest eigenvalue: directions in which q has no spread of its own, as those of a spherical q


@dataclass(frozen=True)
class Correction:
    """How much wider than q the posterior is, in the units of the fit."""

    center: np.ndarray  # E_q[u]
    own: np.ndarray  # Cov_q[u]
    added: np.ndarray
    n_components: int
    too_small: bool = False  # whether clusters can hardly be told apart, and the posterior is wider still

    def parts(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Something on the last axis of u's size as that of log weights, means and log variances."""
        weights, rest = values[..., : self.n_components], values[..., self.n_components :]
        means, variances = np.split(rest, 2, axis=-1)
        shape = (*values.shape[:-1], self.n_components, -1)
        return weights, means.reshape(shape), variances.reshape(shape)

    def inflation(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The posterior's variances over q's, for weights (J), means and variances (J, D)."""
        return self.parts(1 + np.diag(self.added) / np.diag(self.own))

    def added_to_mean(self, component: int) -> np.ndarray:
        """What is added to the covariance of a component's mean, (D, D)."""
        dim = (len(self.center) // self.n_components - 1) // 2
        at = self.n_components + component * dim + np.arange(dim)
        return self.added[np.ix_(at, at)]

    def recolour(self, u: np.ndarray) -> np.ndarray:
        """Draws of q moved so that their covariance is the posterior's: the shortest such map of Gaussians."""
        root, inverse = roots(self.own)
        middle = roots(root @ (self.own + self.added) @ root)[0]
        return self.center + (u - self.center) @ (inverse @ middle @ inverse)


def roots(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The symmetric square root of a covariance and that root's inverse, zero where there is no spread."""
    values, vectors = np.linalg.eigh(matrix)
    kept = values > SMALLEST * values.max()
    root = np.sqrt(np.where(kept, values, 0.0))
    inverse = np.where(kept, 1 / np.where(kept, root, 1.0), 0.0)
    return (vectors * root) @ vectors.T, (vectors * inverse) @ vectors.T
