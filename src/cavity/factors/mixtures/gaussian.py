"""Mixture of Gaussians, weights, means and precisions unknown: `cavity.factors.mixtures.conjugate` in closed form."""

from dataclasses import field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from cavity._pytree import pytree
from cavity.factors.base import as_rows
from cavity.factors.conjugate_likelihoods import gaussian_mean_precision
from cavity.factors.mixtures.conjugate import ConjugateMixture, all_but, check_parts, log_mean_weights
from cavity.factors.mixtures.matching import Matched, change_of_weights, parts_of
from cavity.factors.mixtures.sums import InSums, chunk_size
from cavity.families import Dirichlet, NormalGamma, NormalWishart, Product
from cavity.families.base import describe
from cavity.inference.contract import CHUNK, Sums
from cavity.inference.named import ALL
from cavity.inference.traced import Traced


@pytree
class GaussianMixture(ConjugateMixture):
    """A mixture of Gaussians; its components are `NormalWishart` or `NormalGamma`."""

    row_by_row: bool = field(default=False, metadata={"static": True})  # its evidence

    def smooth(self) -> "GaussianMixture":
        """Eigenvectors, which the evidence of many rows at once needs, have no derivative where eigenvalues agree."""
        return replace(self, row_by_row=True)

    def log_joint(self, q: Product, datum: Array, power: float) -> Array:
        parts = parts_of(q["components"])
        return self._log_joints(q, parts, parts.squares(jnp.asarray(datum)[None]), power)[0]

    def site(self, cavity: Product, datum: Array, power: float) -> Product:
        return self.estimate(cavity, datum, power)[0]

    def estimate(self, cavity: Product, datum: Array, power: float) -> tuple[Product, Array]:
        site, log_means = self.summed(cavity, jnp.asarray(datum)[None], jnp.ones(1), power)
        return site, log_means[0]

    def summed(self, cavity: Product, x: Array, weight: Array, power: float) -> tuple[Product, Array]:
        """Σ_n w_n λ̂_n over the rows of x from one cavity, and ℓ_α of each; rows where it is not finite are left out."""
        parts, x, matched, weights, log_means = self.match(cavity, x, power)
        weight = jnp.where(jnp.isfinite(log_means), weight, 0.0)
        return self.total(parts, x, matched, weights, weight, power), log_means

    def total(self, parts: Any, x: Array, matched: Matched, weights: Array, weight: Array, power: float) -> Product:
        """Σ_n w_n λ̂_n of rows that were matched."""
        total = Product({"weights": Dirichlet(weight @ weights), "components": parts.total(x, weight, matched)})
        return (1 / power) * total if power else total

    def match(
        self, cavity: Product, x: Array, power: float, parts: Any = None, near: Any = None
    ) -> tuple[Any, Array, Matched, Array, Array]:
        """How each row changes components and weights; rows where ℓ_α is not finite are replaced by zeros.

        `parts` and `near` are what many rows need alike of the cavity's components and weights.
        """
        parts = parts_of(cavity["components"]) if parts is None else parts
        concentration = jnp.asarray(cavity["weights"].concentration)
        s = parts.squares(x)
        logs = self._log_joints(cavity, parts, s, power)
        log_means = jax.nn.logsumexp(logs, axis=-1)
        finite = jnp.isfinite(log_means)
        x, s, logs = (jnp.where(finite.reshape(-1, *[1] * (v.ndim - 1)), v, 0.0) for v in (x, s, logs))
        taken = jax.nn.softmax(logs)
        matched = parts.match(s, taken, all_but(taken), power)
        return parts, x, matched, change_of_weights(concentration, taken, power, near), log_means

    def _log_joints(self, q: Product, parts: Any, s: Array, power: float) -> Array:
        """ℓ_α(j) of every row, (n, J)."""
        return log_mean_weights(q["weights"].concentration, power) + parts.log_mean(s, power)

    def sums(self, prior: Any, data: Any, algorithm: Any) -> Sums:
        own = algorithm.n_sites == ALL  # sites of a row are many more numbers than its features
        return Traced(InSums(self), prior, chunk=CHUNK if own else chunk_size(np.shape(data)[1]))

    def check(self, prior: Any, data: Any) -> np.ndarray:
        check_parts(prior)
        components, data = prior["components"], as_rows(data)
        shape = np.shape(getattr(components, "shift", 0.0))
        diagonal = isinstance(components, NormalGamma) and len(shape) == 3 and shape[2] == 1
        if not isinstance(components, NormalWishart | NormalGamma) or not (len(shape) == 2 or diagonal):
            raise ValueError(
                "prior['components'] must be a NormalWishart or NormalGamma with means of shape (components, features),"
                " or for a precision of each feature a NormalGamma with means of shape (components, features, 1); got "
                f"{describe(components)}."
            )
        if not isinstance(data, np.ndarray) or data.ndim != 2 or data.shape[1] != shape[1]:
            got = f"shape {data.shape}" if isinstance(data, np.ndarray) else type(data).__name__
            raise ValueError(f"data must be a matrix with one row per datum and {shape[1]} columns; got {got}.")
        return data


def gaussian_mixture() -> GaussianMixture:
    """A mixture of Gaussians whose weights, means and precisions are unknown together.

    The prior is a dict of "weights", a Dirichlet, and "components" with a leading axis for them: a `NormalWishart` for
    full precision matrices, a `NormalGamma` with means (J, D) for one precision each, or with means (J, D, 1) for one
    in each direction. Components that are alike in the prior stay alike: begin elsewhere, `fit(start=…)`.

    >>> import cavity, numpy as np
    >>> from cavity.factors.mixtures.gaussian import gaussian_mixture
    >>> x = np.concatenate([np.linspace(-3, -2, 20), np.linspace(2, 3, 20)])[:, None]
    >>> apart = cavity.NormalGamma.from_parameters([[-1.0], [1.0]], np.full(2, 0.1), np.ones(2), np.ones(2))
    >>> prior = {"weights": cavity.Dirichlet([1.0, 1.0]), "components": apart}
    >>> cavity.fit(gaussian_mixture(), prior, x, cavity.aep()).posterior["components"].mean.round(2)
    array([[-2.49],
           [ 2.49]])
    """
    return GaussianMixture(gaussian_mean_precision())
