"""Bernoulli and categorical distributions in minimal form."""

from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import logsumexp

from cavity._precision import in_float64, is_traced
from cavity.families.base import ExpFamily, family


@family
class Bernoulli(ExpFamily):
    """p^θ (1 − p)^{1−θ} for θ ∈ {0, 1}, with T(θ) = θ, so that η = log p/(1 − p).

    >>> from cavity.families import Bernoulli
    >>> Bernoulli.from_probabilities(0.25).mean.round(6).item()
    0.25
    """

    logit: Array

    @classmethod
    @in_float64
    def from_probabilities(cls, probabilities: Array) -> Self:
        """Bernoulli with P(θ = 1) as given."""
        probabilities = jnp.asarray(probabilities, dtype=float)
        return cls(jnp.log(probabilities) - jnp.log1p(-probabilities))

    @property
    @in_float64
    def probabilities(self) -> Array:
        """P(θ = 1)."""
        return jax.nn.sigmoid(self.logit)

    @property
    @in_float64
    def mean(self) -> Array:
        """E[θ] = p."""
        return self.probabilities

    @property
    @in_float64
    def variance(self) -> Array:
        """Var[θ] = p(1 − p)."""
        return jax.nn.sigmoid(self.logit) * jax.nn.sigmoid(-self.logit)

    @in_float64
    def log_partition(self) -> Array:
        return jnp.sum(jax.nn.softplus(self.logit))

    @in_float64
    def moments(self) -> Self:
        return type(self)(self.probabilities)

    @in_float64
    def from_moments(self) -> Self:
        return type(self).from_probabilities(self.logit)

    @in_float64
    def is_proper(self) -> Array:
        return jnp.all(jnp.isfinite(self.logit))

    @in_float64
    def statistics(self, theta: Array) -> Self:
        return type(self)(jnp.asarray(theta, dtype=float))

    @in_float64
    def log_base(self, theta: Array) -> Array:
        return jnp.zeros(())

    @in_float64
    def log_weight(self, theta: Array) -> Array:
        theta = jnp.asarray(theta)
        return jnp.where(jnp.all((theta == 0) | (theta == 1)), super().log_weight(theta), -jnp.inf)

    def event_shape(self) -> tuple[int, ...]:
        return tuple(np.shape(self.logit))

    def draw(self, key: Array) -> Array:
        return jax.random.bernoulli(key, self.probabilities).astype(int)


@family
class Categorical(ExpFamily):
    """P(θ = j) = p_j for θ ∈ {0, …, J−1}, with T(θ)_j = [θ = j] for j < J − 1, so that η_j = log p_j/p_{J−1}.

    The last axis holds the J − 1 logits relative to the last category.

    >>> from cavity.families import Categorical
    >>> Categorical.from_probabilities([0.25, 0.25, 0.5]).probabilities.round(6).tolist()
    [0.25, 0.25, 0.5]
    """

    logits: Array

    def __post_init__(self) -> None:
        if not is_traced(self.logits) and np.ndim(self.logits) < 1:
            raise ValueError("logits must have the categories but the last on its last axis; got a scalar.")

    @classmethod
    @in_float64
    def from_probabilities(cls, probabilities: Array) -> Self:
        """The categorical with the J probabilities of the last axis."""
        logs = jnp.log(jnp.asarray(probabilities, dtype=float))
        return cls(logs[..., :-1] - logs[..., -1:])

    @property
    @in_float64
    def probabilities(self) -> Array:
        """P(θ = j), all J of them on the last axis."""
        return jax.nn.softmax(self._all_logits(), axis=-1)

    @in_float64
    def log_partition(self) -> Array:
        return jnp.sum(logsumexp(self._all_logits(), axis=-1))

    @in_float64
    def moments(self) -> Self:
        return type(self)(self.probabilities[..., :-1])

    @in_float64
    def from_moments(self) -> Self:
        last = 1.0 - jnp.sum(self.logits, axis=-1, keepdims=True)
        return type(self)(jnp.log(self.logits) - jnp.log(last))

    @in_float64
    def is_proper(self) -> Array:
        return jnp.all(jnp.isfinite(self.logits))

    @in_float64
    def statistics(self, theta: Array) -> Self:
        categories = jnp.arange(np.shape(self.logits)[-1])
        return type(self)((jnp.asarray(theta)[..., None] == categories).astype(float))

    @in_float64
    def log_base(self, theta: Array) -> Array:
        return jnp.zeros(())

    @in_float64
    def log_weight(self, theta: Array) -> Array:
        one_of_them = jnp.any(jnp.asarray(theta)[..., None] == jnp.arange(np.shape(self.logits)[-1] + 1), axis=-1)
        return jnp.where(jnp.all(one_of_them), super().log_weight(theta), -jnp.inf)

    def event_shape(self) -> tuple[int, ...]:
        return tuple(np.shape(self.logits)[:-1])

    def draw(self, key: Array) -> Array:
        return jax.random.categorical(key, self._all_logits())

    def _all_logits(self) -> Array:
        logits = jnp.asarray(self.logits)
        return jnp.concatenate([logits, jnp.zeros_like(logits[..., :1])], axis=-1)
