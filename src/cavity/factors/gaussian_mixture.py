"""Mixture of Gaussians, weights, means and precisions unknown: `cavity.factors.conjugate_mixture` in closed form."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from cavity._pytree import pytree
from cavity.factors.base import as_rows
from cavity.factors.conjugate import gaussian_mean_precision
from cavity.factors.conjugate_mixture import ConjugateMixture, all_but, check_parts, log_mean_weights, mixture_of
from cavity.factors.matching import change_of_weights, parts_of
from cavity.families import Dirichlet, NormalGamma, NormalWishart, Product
from cavity.families.base import describe


@pytree
class GaussianMixture(ConjugateMixture):
    """A mixture of Gaussians; its components are `NormalWishart` or `NormalGamma`."""

    def log_joint(self, q: Product, datum: Array, power: float) -> Array:
        parts = parts_of(q["components"])
        return self._log_joints(q, parts, parts.squares(jnp.asarray(datum)[None]), power)[0]

    def site(self, cavity: Product, datum: Array, power: float) -> Product:
        return self.estimate(cavity, datum, power)[0]

    def estimate(self, cavity: Product, datum: Array, power: float) -> tuple[Product, Array]:
        site, log_means = self.sum_of_sites(cavity, jnp.asarray(datum)[None], jnp.ones(1), power)
        return site, log_means[0]

    def sum_of_sites(self, cavity: Product, x: Array, weight: Array, power: float) -> tuple[Product, Array]:
        """Σ_n w_n λ̂_n over the rows of x from one cavity, and ℓ_α of each."""
        parts, concentration = parts_of(cavity["components"]), jnp.asarray(cavity["weights"].concentration)
        s = parts.squares(x)
        logs = self._log_joints(cavity, parts, s, power)
        taken = jax.nn.softmax(logs)
        components = parts.total(x, weight, parts.match(s, taken, all_but(taken), power))
        weights = Dirichlet(weight @ change_of_weights(concentration, taken, power))
        total = Product({"weights": weights, "components": components})
        return (1 / power) * total if power else total, jax.nn.logsumexp(logs, axis=-1)

    def _log_joints(self, q: Product, parts: Any, s: Array, power: float) -> Array:
        """ℓ_α(j) of every row, (n, J)."""
        return log_mean_weights(q["weights"].concentration, power) + parts.log_mean(s, power)

    def smooth(self) -> ConjugateMixture:
        return mixture_of(self.component)

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
    >>> from cavity.factors.gaussian_mixture import gaussian_mixture
    >>> x = np.concatenate([np.linspace(-3, -2, 20), np.linspace(2, 3, 20)])[:, None]
    >>> apart = cavity.NormalGamma.from_parameters([[-1.0], [1.0]], np.full(2, 0.1), np.ones(2), np.ones(2))
    >>> prior = {"weights": cavity.Dirichlet([1.0, 1.0]), "components": apart}
    >>> cavity.fit(gaussian_mixture(), prior, x, cavity.aep()).posterior["components"].mean.round(2)
    array([[-2.49],
           [ 2.49]])
    """
    return GaussianMixture(gaussian_mean_precision())
