"""The posterior of a network, or of several, in the units of the data."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from cavity.factors.network import Network
from cavity.families import Product

ROWS = 1024  # that are predicted at a time


@dataclass(frozen=True)
class Units:
    """x = center + scale · z for every feature and the target: the network learns z."""

    x_center: np.ndarray
    x_scale: np.ndarray
    y_center: float
    y_scale: float

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray) -> "Units":
        """Mean and standard deviation; one where a column is constant."""
        center, scale = center_and_scale(X)
        y_center, y_scale = center_and_scale(y[:, None])
        return cls(center, scale, float(y_center[0]), float(y_scale[0]))

    def features(self, X: np.ndarray) -> np.ndarray:
        return (X - self.x_center) / self.x_scale

    def target(self, y: np.ndarray) -> np.ndarray:
        return (y - self.y_center) / self.y_scale


def center_and_scale(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each column, without overflow; one for a constant column."""
    largest = np.max(np.abs(columns), axis=0)
    unit = np.where(largest > 0, largest, 1.0)
    scaled = columns / unit
    center, scale = scaled.mean(axis=0), scaled.std(axis=0)
    return center * unit, np.where(scale > 1e-12, scale * unit, 1.0)  # rounding of a constant column


@dataclass(frozen=True)
class NetworkPosterior:
    """Gaussian weights and Gamma noise of each network.

    `networks` hold q in the standardised units that they learn in; the rest is in those of the data.
    """

    factor: Network
    networks: list[Product]
    units: Units

    def weights(self, network: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
        """Mean and variance of each layer's weights, (inputs + 1, units) with biases last, in standardised units."""
        q = self.networks[network]["weights"]
        return [
            (np.asarray(mean), np.asarray(variance))
            for mean, variance in zip(self.factor.layers(q.mean), self.factor.layers(q.variance), strict=True)
        ]

    @property
    def noise_std(self) -> np.ndarray:
        """√E[1/γ] of each network."""
        return self.units.y_scale * np.sqrt(self._noise_variances())

    def _noise_variances(self) -> np.ndarray:
        gammas = [q["noise"] for q in self.networks]
        return np.array([float(gamma.rate / (gamma.shape - 1)) for gamma in gammas])

    def outputs(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean and variance of the function, and variance of the noise, of each network (rows) at each row of X.

        In standardised units: squares of the target's own may be too large for a number.
        """
        Z, found = self.units.features(X), []
        for q in self.networks:
            with jax.enable_x64(True):
                weights = jnp.asarray(q["weights"].mean), jnp.asarray(q["weights"].variance)
                parts = [moments(self.factor, *weights, jnp.asarray(part)) for part in in_parts(Z)]
                found.append(np.concatenate([np.asarray(part) for part in parts], axis=1)[:, : len(X)])
        means, variances = np.moveaxis(np.array(found), 1, 0)
        return means, variances, np.broadcast_to(self._noise_variances()[:, None], means.shape)

    def draw_functions(self, X: np.ndarray, n_samples: int, seed: int) -> np.ndarray:
        """f(x) for weights drawn from q."""
        Z, values = self.units.features(X), np.empty((n_samples, len(X)))
        for number in range(n_samples):
            q = self.networks[number % len(self.networks)]["weights"]
            with jax.enable_x64(True):
                weights = q.draw(jax.random.fold_in(jax.random.key(seed), number))
                parts = [evaluated(self.factor, weights, jnp.asarray(part)) for part in in_parts(Z)]
                values[number] = np.concatenate([np.asarray(part) for part in parts])[: len(X)]
        return self.units.y_center + self.units.y_scale * values


@jax.jit
def moments(factor: Network, mean: Array, variance: Array, Z: Array) -> Array:
    """Mean and variance of the output at each row, (2, n)."""
    return jnp.stack(jax.vmap(lambda z: factor.output(mean, variance, z))(Z))


@jax.jit
def evaluated(factor: Network, weights: Array, Z: Array) -> Array:
    return jax.vmap(lambda z: factor.evaluate(weights, z))(Z)


def in_parts(Z: np.ndarray) -> list[np.ndarray]:
    """Rows a thousand at a time, the last filled up with zeros: one shape, compiled once."""
    count = max(1, -(-len(Z) // ROWS))
    return np.split(np.pad(Z, ((0, count * ROWS - len(Z)), (0, 0))), count)
