"""Factors from a user's own ℓ_α(q), and the reference path that uses nothing else."""

from collections.abc import Callable
from dataclasses import field
from typing import Any

from jax import Array

from cavity._pytree import pytree
from cavity.factors.base import Factor, scalar_of_user


@pytree
class Custom(Factor):
    """A factor that is the function it was given; its sites come by automatic differentiation."""

    function: Callable[[Any, Any, float], Array] = field(metadata={"static": True})

    def log_mean(self, q: Any, datum: Any, power: float) -> Array:
        return scalar_of_user("log_mean", self.function, q, datum, power)


@pytree
class Autodiff(Factor):
    """A factor seen through its `log_mean` alone."""

    factor: Factor

    def log_mean(self, q: Any, datum: Any, power: float) -> Array:
        return self.factor.log_mean(q, datum, power)

    def check(self, prior: Any, data: Any) -> Any:
        return self.factor.check(prior, data)


def custom(log_mean: Callable[[Any, Any, float], Array]) -> Custom:
    """A factor from `log_mean(q, datum, power)` = (1/α) log E_q[p(x|θ)^α], at power 0 E_q[log p(x|θ)].

    It must be a JAX function of q, a member of your prior's family; all else follows by automatic differentiation. A
    Gaussian with unknown mean and unit noise, for instance, for use at power 1:

    >>> import jax.numpy as jnp
    >>> from cavity.factors.by_log_mean import custom
    >>> from cavity.families import DiagonalGaussian
    >>> def log_mean(q, x, power):
    ...     total = 1 + q.variance
    ...     return -0.5 * jnp.sum((x - q.mean) ** 2 / total + jnp.log(2 * jnp.pi * total))
    >>> print(round(float(custom(log_mean).log_mean(DiagonalGaussian([0.0], [1.0]), 1.0, power=1.0)), 4))
    -1.5155
    """
    if not callable(log_mean):
        raise TypeError(f"log_mean must be a function log_mean(q, datum, power); got {log_mean!r}.")
    return Custom(log_mean)


def autodiff(factor: Factor) -> Autodiff:
    """A factor reduced to its `log_mean`, without its closed forms and fast paths: what tests compare them with."""
    return Autodiff(factor)
