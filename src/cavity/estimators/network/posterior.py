"""The posterior of a network, or of several, in the units of the data."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.special import logsumexp

from cavity.factors.networks import varying_noise
from cavity.factors.networks.factor import Network
from cavity.families import Product
from cavity.inference.boundary import call
from cavity.inference.source import Arrays, chunks

ROWS = 1024  # that are predicted at a time
FARTHEST = 1e100  # standard deviations from the rows of the fit, whose squares and their sums are still numbers


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
        return np.clip(in_units(X, self.x_center, self.x_scale), -FARTHEST, FARTHEST)

    def target(self, y: np.ndarray) -> np.ndarray:
        return in_units(y, self.y_center, self.y_scale)


def in_units(values: np.ndarray, center: Any, scale: Any) -> np.ndarray:
    """(values − center) / scale, by halves, whose difference is never too large for a number."""
    return (values / 2 - center / 2) / (scale / 2)


def center_and_scale(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each column, without overflow; the value and one for a constant column."""
    first = columns[0]  # without it values far from zero would lose digits
    halves = columns / 2 - first / 2
    farthest = np.max(np.abs(halves), axis=0)
    unit = np.where(farthest > 0, farthest, 0.5)
    scale = np.where(farthest > 0, np.std(halves / unit, axis=0), 1.0)
    return first + 2 * (np.mean(halves / unit, axis=0) * unit), 2 * (scale * unit)


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
        """√E[1/γ] of each network: the noise where its size is one. Labels have none."""
        if self.factor.labels:
            raise ValueError("noise_std must be asked of a network for numbers: labels have no noise.")
        return self.units.y_scale * np.sqrt([float(q["noise"].rate / (q["noise"].shape - 1)) for q in self.networks])

    def outputs(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean and variance of the function, and variance of the noise, of each network (rows) at each row of X.

        In standardised units: squares of the target's own may be too large for a number.
        """
        found = [self._over_rows(partial(moments, self.factor, leaves_in_float64(q)), X) for q in self.networks]
        means, variances, noises = np.moveaxis(np.array(found), 1, 0)
        return means, variances, noises

    def log_predictive(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """log p(y | x, data) of each row."""
        z = self.units.target(y)
        each = [self._over_rows(partial(log_density, self.factor, leaves_in_float64(q)), X, z) for q in self.networks]
        return logsumexp(each, axis=0) - np.log(len(each)) - np.log(self.units.y_scale)

    def _over_rows(self, function: Any, X: np.ndarray, *columns: np.ndarray) -> np.ndarray:
        """A compiled function of rows, a thousand at a time: one shape, compiled once. Rows are its last axis."""
        found = []
        for part in chunks(Arrays.of((X, *columns)), ROWS):
            rows = np.column_stack([self.units.features(part[0]), *part[1:]])
            padded = np.pad(rows, ((0, ROWS - len(rows)), (0, 0)))
            found.append(call(function, padded)[..., : len(rows)])
        return np.concatenate(found, axis=-1)

    def draw_functions(self, X: np.ndarray, n_samples: int, seed: int) -> np.ndarray:
        """f(x) for weights drawn from q: of networks in turn, beginning with any of them."""
        values = np.empty((n_samples, len(X)))
        first = int(np.random.default_rng(seed).integers(len(self.networks)))
        for number in range(n_samples):
            q = self.networks[(first + number) % len(self.networks)]["weights"]
            with jax.enable_x64(True):
                weights = q.draw(jax.random.fold_in(jax.random.key(seed), number))
            values[number] = self._over_rows(partial(evaluated, self.factor, weights), X)
        return self.units.y_center + self.units.y_scale * values


def leaves_in_float64(q: Product) -> Product:
    with jax.enable_x64(True):
        return jax.tree.map(jnp.asarray, q)


@jax.jit
def moments(factor: Network, q: Product, rows: Array) -> Array:
    """Mean and variance of the function and variance of the noise at each row, (3, n)."""
    weights = q["weights"]
    size_one = q["noise"].rate / (q["noise"].shape - 1) if "noise" in q.parts else 0.0  # labels have no noise

    def one(x: Array) -> Array:
        mean, variance, _ = factor.output(weights.mean, weights.variance, x)
        size = varying_noise.mean_size(varying_noise.LogSize(mean[1], variance[1])) if len(mean) == 2 else 1.0
        return jnp.stack([mean[0], variance[0], size * size_one])

    return jax.vmap(one, out_axes=1)(rows)


@jax.jit
def log_density(factor: Network, q: Product, rows: Array) -> Array:
    """log p(y | x) of rows with the target last."""
    return jax.vmap(lambda row: factor.log_mean(q, (row[:-1], row[-1]), 1.0))(rows)


@jax.jit
def evaluated(factor: Network, weights: Array, rows: Array) -> Array:
    return jax.vmap(lambda x: factor.evaluate(weights, x)[0])(rows)
