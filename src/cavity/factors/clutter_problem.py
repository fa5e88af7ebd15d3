"""Minka's clutter problem: p(x|θ) = (1 − w) N(x; θ, σ² I) + w N(x; 0, c I), an unknown mean among noise.

The two explanations of a datum are summed out as a mixture's assignments are: see `cavity.factors.mixtures.known`.
Minka (2001), "Expectation Propagation for approximate Bayesian inference", section 3.1.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from cavity._checks import check_positive, is_number
from cavity._precision import in_float64, is_traced
from cavity._pytree import pytree
from cavity.factors.base import Factor
from cavity.factors.mixtures.known import check_points, describe, log_mean_normal, mixed_site
from cavity.families import Gaussian


@pytree
class Clutter(Factor):
    """Signal of `noise_variance` around θ with probability 1 − `weight`, otherwise clutter around the origin."""

    weight: Array
    noise_variance: Array
    clutter_variance: Array

    def log_mean(self, q: Gaussian, datum: Array, power: float) -> Array:
        return jax.nn.logsumexp(self._log_joint(q, datum, power))

    def site(self, cavity: Gaussian, datum: Array, power: float) -> Gaussian:
        signal, clutter = self.responsibilities(cavity, datum, power)
        return mixed_site(cavity, self._noise(datum), datum, signal, clutter, power)

    @in_float64
    def responsibilities(self, q: Gaussian, datum: Array, power: float = 1.0) -> Array:
        """The posterior probabilities of signal and clutter."""
        return jax.nn.softmax(self._log_joint(q, jnp.asarray(datum), power))

    def _log_joint(self, q: Gaussian, datum: Array, power: float) -> Array:
        signal = jnp.log1p(-jnp.asarray(self.weight)) + log_mean_normal(q, self._noise(datum), datum, power)
        variance = jnp.asarray(self.clutter_variance)
        clutter = -0.5 * (datum.size * jnp.log(2 * jnp.pi * variance) + jnp.sum(datum**2) / variance)
        return jnp.stack([signal, jnp.log(self.weight) + clutter])

    def _noise(self, datum: Array) -> Array:
        return self.noise_variance * jnp.eye(datum.size)

    def check(self, prior: Any, data: Any) -> np.ndarray:
        if not isinstance(prior, Gaussian) or np.ndim(prior.shift) != 1:
            raise ValueError(f"prior must be a Gaussian over one vector; got {describe(prior)}.")
        return check_points(data, len(prior.shift))


def clutter(weight: Any = 0.5, noise_variance: Any = 1.0, clutter_variance: Any = 10.0) -> Clutter:
    """The clutter problem; the defaults are Minka's.

    >>> from cavity.factors.clutter_problem import clutter
    >>> from cavity.families import Gaussian
    >>> clutter().responsibilities(Gaussian.isotropic(1, 100.0), [30.0]).round(3).tolist()
    [1.0, 0.0]
    """
    if not is_traced(weight) and not (is_number(weight) and 0 < weight < 1):
        raise ValueError(f"weight must lie strictly between 0 and 1; got {weight=}.")
    positive = check_positive("noise_variance", noise_variance), check_positive("clutter_variance", clutter_variance)
    return Clutter(weight, *positive)
