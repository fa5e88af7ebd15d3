"""A Gaussian mixture as rows see it, and how they change it: components on the first axis, rows on the last.

Written for NumPy and for JAX alike.
"""

from typing import Any, NamedTuple

import numpy as np

from cavity._array import Array, namespace
from cavity.factors.mixtures import weights
from cavity.factors.mixtures.matching import Matched, parts_of
from cavity.factors.mixtures.weights import log_mean_weights
from cavity.families import Dirichlet, Product
from cavity.families.concentrations import near_concentrations


class Cavity(NamedTuple):
    """A mixture as rows see it at one power."""

    parts: Any  # components, as `matching` has them
    concentration: Array  # (J, 1), or (J, n) where each row has a cavity of its own
    log_weights: Array
    rises: Any
    near: Any
    power: float

    @classmethod
    def of(cls, q: Product, power: float, many: bool = False, of_rows: bool = False) -> "Cavity":
        """What rows share, with what `many` of them need alike; or a cavity for each row, on the first axis of q."""
        alpha = q["weights"].concentration
        alpha = alpha.T if of_rows else alpha[:, None]
        parts = parts_of(q["components"], power, many, of_rows)
        if power == 0:
            return cls(parts, alpha, log_mean_weights(alpha, power), None, None, power)
        near = near_concentrations(alpha) if many and len(alpha) > 1 else None
        return cls(parts, alpha, log_mean_weights(alpha, power), weights.rises(alpha, power), near, power)

    def match(self, x: Array) -> "MatchedRows":
        """How each row changes components and weights; rows where ℓ_α is not finite are taken for others."""
        d = self.parts.from_mean(x)
        s = self.parts.squares(d)
        logs = self.log_weights + self.parts.log_mean(s)
        log_means, taken = weights.shares(logs)
        xp = namespace(logs)
        finite = xp.isfinite(log_means)
        if xp is not np or not finite.all():
            d, s, taken = (xp.where(finite, v, other) for v, other in ((d, 0.0), (s, 0.0), (taken, 1 / len(logs))))
        matched = self.parts.match(s, taken, weights.all_but(taken))
        change = weights.change_of_weights(self.concentration, taken, self.power, self.rises, self.near)
        return MatchedRows(d, matched, change, log_means)

    def total(self, rows: "MatchedRows", weight: Array) -> Product:
        """Σ_n w_n λ̂_n of rows that were matched."""
        components = self.parts.total(rows.d, weight, rows.components)
        total = Product({"weights": Dirichlet(rows.weights @ weight), "components": components})
        return (1 / self.power) * total if self.power else total

    def each(self, rows: "MatchedRows") -> Product:
        """λ̂ of every row, on the first axis."""
        components = self.parts.each(rows.d, rows.components)
        sites = Product({"weights": Dirichlet(rows.weights.T), "components": components})
        return (1 / self.power) * sites if self.power else sites


class MatchedRows(NamedTuple):
    """How rows change a cavity."""

    d: Array  # x − m
    components: Matched
    weights: Array  # of concentrations, (J, n)
    log_means: Array  # ℓ_α of each row
