"""The posterior of a network, or of several, in the units of the data."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from cavity._kept import double_precision
from cavity._lazy import jax
from cavity.estimators.network import outputs
from cavity.estimators.units import Units
from cavity.factors.networks.factor import Network
from cavity.families import Product
from cavity.inference.source import Arrays, chunks


class DataUnits(NamedTuple):
    """Those of the features and of the target, which the network learns in."""

    x: Units
    y: Units

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray, weight: np.ndarray) -> "DataUnits":
        """Mean and standard deviation; one where a column is constant."""
        of_y = Units.standard(y[:, None], weight)
        return cls(Units.standard(X, weight), Units(of_y.center[0], of_y.scale[0]))


class RowsOfChunk(NamedTuple):
    """Rows that networks learn from at once, as they are given, and the units of the fit."""

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    units: DataUnits


@dataclass(frozen=True)
class NetworkPosterior:
    """Gaussian weights and Gamma noise of each network.

    `networks` hold q in the standardised units that they learn in; the rest is in those of the data.
    """

    factor: Network
    networks: list[Product]
    units: DataUnits

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
        return self.units.y.scale * np.sqrt([float(q["noise"].rate / (q["noise"].shape - 1)) for q in self.networks])

    def outputs(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean and variance of the function, and variance of the noise, of each network (rows) at each row of X.

        In standardised units: squares of the target's own may be too large for a number.
        """
        found = [self._over_rows(partial(outputs.moments, self.factor, q), X) for q in self.networks]
        means, variances, noises = np.moveaxis(np.array(found), 1, 0)
        return means, variances, noises

    def log_predictive(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """log p(y | x, data) of each row."""
        z = self.units.y.to_fit(y)
        each = [self._over_rows(partial(outputs.log_density, self.factor, q), X, z) for q in self.networks]
        return logsumexp(each, axis=0) - np.log(len(each)) - np.log(self.units.y.scale)

    def _over_rows(self, function: Any, X: np.ndarray, *columns: np.ndarray) -> np.ndarray:
        """A function of rows, which are its last axis, some of them at a time."""
        found = []
        for part in chunks(Arrays.of((X, *columns)), outputs.ROWS):
            rows = np.column_stack([self.units.x.to_fit(part[0]), *part[1:]])
            found.append(function(rows))
        return np.concatenate(found, axis=-1)

    def draw_functions(self, X: np.ndarray, n_samples: int, seed: int) -> np.ndarray:
        """f(x) for weights drawn from q: of networks in turn, beginning with any of them."""
        values = np.empty((n_samples, len(X)))
        first = int(np.random.default_rng(seed).integers(len(self.networks)))
        for number in range(n_samples):
            q = self.networks[(first + number) % len(self.networks)]["weights"]
            with double_precision():
                weights = q.draw(jax.random.fold_in(jax.random.key(seed), number))
            values[number] = self._over_rows(partial(outputs.evaluated, self.factor, weights), X)
        return self.units.y.center + self.units.y.scale * values
