"""Where clusters overlap the data couple parameters that q takes for independent: what that adds to their spread.

Weights, means and variances are looked at as u = (log π, μ, log σ²), in which posteriors are nearly Gaussian.
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array

from cavity.families import NormalWishart, Product
from cavity.families.inverse import log_minus_digamma
from cavity.inference.response import Response

SMALLEST = 1e-10  # of the largest eigenvalue: directions in which q has no spread of its own, as those of a spherical q


def expectations(q: Product) -> Array:
    """E_q[u], of log weights (J), means (J, D) and log variances (J, D), in one vector."""
    components, alpha = q["components"], jnp.asarray(q["weights"].concentration)
    mean = components.shift / jnp.asarray(components.count)[..., None]
    if isinstance(components, NormalWishart):
        square = components.count[:, None] * mean**2
        shape = 0.5 * (components.df - mean.shape[1] + 1)[:, None]
        rate = 0.5 * (jnp.diagonal(components.rate, axis1=-2, axis2=-1) - square)
    else:
        shape = jnp.asarray(components.shape)
        rate = components.rate - 0.5 * components.count * jnp.sum(mean**2, axis=-1)
        shape, rate = shape.reshape(len(alpha), -1), rate.reshape(len(alpha), -1)
    mean = mean.reshape(len(alpha), -1)
    log_variance = jnp.log(rate / shape) + log_minus_digamma(shape)
    mean_log = jnp.log(alpha / jnp.sum(alpha)) - log_minus_digamma(alpha) + log_minus_digamma(jnp.sum(alpha))
    return jnp.concatenate([mean_log, mean.ravel(), jnp.broadcast_to(log_variance, mean.shape).ravel()])


@dataclass(frozen=True)
class Correction:
    """How much wider than q the posterior is, in the units of the fit."""

    center: np.ndarray  # E_q[u]
    own: np.ndarray  # Cov_q[u]
    added: np.ndarray
    n_components: int

    @classmethod
    def of(cls, response: Response, order: np.ndarray) -> "Correction | None":
        """With the components in another order. None where the fixed point is not stable or this is no covariance."""
        total = response.own + response.added
        if not (response.radius < 1 and np.all(np.isfinite(total)) and np.all(np.diag(total) > 0)):
            return None
        count, size = len(order), len(response.mean)
        of_component = count + np.arange(size - count).reshape(2, count, -1)
        at = np.concatenate([order, of_component[:, order].ravel()])
        square = np.ix_(at, at)
        return cls(response.mean[at], response.own[square], response.added[square], count)

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
    values = np.where(values > SMALLEST * values.max(), values, 0.0)
    with np.errstate(divide="ignore"):
        inverse = np.where(values > 0, 1 / np.sqrt(values), 0.0)
    return (vectors * np.sqrt(values)) @ vectors.T, (vectors * inverse) @ vectors.T
