"""Mixtures of a conjugate likelihood: p(x|θ) = Σ_j π_j p(x|φ_j), weights π and parameters φ unknown together.

q is a product of a `Dirichlet` over the weights and a family with a leading axis for the components. The assignment
h = j is summed out of every update: given it the model is conjugate, so the tilted distribution is a mixture of members
of q's family, (23), with the responsibilities (21) for weights.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from cavity._precision import in_float64
from cavity._pytree import pytree
from cavity.factors.base import Factor
from cavity.factors.conjugate_likelihoods import Conjugate
from cavity.factors.mixtures.weights import all_but, check_parts, log_mean_weights
from cavity.families import Dirichlet, Product


@pytree
class ConjugateMixture(Factor):
    """A mixture of `component`, a conjugate likelihood; q has parts "weights" and "components"."""

    component: Conjugate

    def log_mean(self, q: Product, datum: Any, power: float) -> Array:
        return jax.nn.logsumexp(self.log_joint(q, datum, power))

    def log_joint(self, q: Product, datum: Any, power: float) -> Array:
        """ℓ_α(j) for each component, (22)."""
        one = lambda part: self.component.log_mean(part, datum, power)
        return log_mean_weights(jnp.asarray(q["weights"].concentration), power) + jax.vmap(one)(q["components"])

    @in_float64
    def responsibilities(self, q: Product, datum: Any, power: float = 1.0) -> Array:
        """The posterior of the assignment, softmax_j ℓ_α(j)."""
        return jax.nn.softmax(self.log_joint(q, jax.tree.map(jnp.asarray, datum), power))

    def site(self, cavity: Product, datum: Any, power: float) -> Product:
        taken = self.responsibilities(cavity, datum, power)
        one = lambda part, r, left: self._site(part, datum, r, left, power)
        components = jax.vmap(one)(cavity["components"], taken, all_but(taken))
        return Product({"weights": site_of_weights(cavity["weights"], taken, power), "components": components})

    def _site(self, part: Any, datum: Any, taken: Array, left: Array, power: float) -> Any:
        """The site of one component, which the datum tilts with probability `taken` and leaves alone with `left`."""
        asked = self.component.site(part, datum, power)
        if power == 0:
            return taken * asked
        matched = left * part.moments() + taken * (part + power * asked).moments()
        return (1 / power) * (matched.from_moments() - part)

    def check(self, prior: Any, data: Any) -> Any:
        check_parts(prior)
        return self.component.check(jax.tree.map(lambda leaf: np.asarray(leaf)[0], prior["components"]), data)


def mixture_of(component: Conjugate) -> ConjugateMixture:
    """A mixture of a conjugate likelihood, with unknown weights. Counts from two Poisson rates, for instance:

    >>> import cavity
    >>> prior = {"weights": cavity.Dirichlet([1.0, 1.0]), "components": cavity.Gamma([1.0, 9.0], [1.0, 1.0])}
    >>> factor = cavity.factors.mixture_of(cavity.factors.poisson_rate())
    >>> result = cavity.fit(factor, prior, [0, 9, 1, 11, 0, 8], cavity.ep())
    >>> result.posterior["components"].mean.round(1).tolist()
    [0.5, 9.2]
    """
    if not isinstance(component, Conjugate):
        raise ValueError(
            f"component must be a conjugate likelihood, such as cavity.factors.poisson_rate(); got {component!r}."
        )
    return ConjugateMixture(component)


def site_of_weights(cavity: Dirichlet, taken: Array, power: float) -> Dirichlet:
    """The site of the weights: π is tilted by π_j^α with probability r_j."""
    if power == 0 or len(taken) == 1:
        return Dirichlet(taken)
    tilted = jax.vmap(lambda unit: Dirichlet(cavity.concentration + power * unit).moments())(jnp.eye(len(taken)))
    return (1 / power) * (Dirichlet(taken @ tilted.concentration).from_moments() - cavity)
