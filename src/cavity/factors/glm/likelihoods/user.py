"""A user's own log p(y|a)."""

from collections.abc import Callable
from dataclasses import field
from typing import Any

import numpy as np

from cavity._array import is_jax
from cavity._pytree import pytree
from cavity.factors.glm.likelihoods.base import Likelihood, check_finite
from cavity.factors.glm.likelihoods.on_host import first_array, on_host
from cavity.quadrature import Kernel, Tilt, tilts
from cavity.quadrature.kernel import map_arrays


@pytree
class UserLikelihood(Likelihood):
    """A user's own log p(y|a), a smooth function `log_density(y, a)`; y may be a tuple, of one entry per row each.

    `where(y)` says around which activation it varies most; without it, the mode of the likelihood uphill from the
    cavity's mean is used. Under JAX both are called with scalars; on the host with arrays of one shape where they are
    NumPy functions, and with traced scalars, mapped over rows, where they are JAX's.
    """

    log_density: Callable[[Any, Any], Any] = field(metadata={"static": True})
    where: Callable[[Any], Any] | None = field(default=None, metadata={"static": True})

    def log_kernel(self, y: Any, a: Any) -> Any:
        from cavity.factors.base import scalar_of_user

        if is_jax(a):
            return scalar_of_user("log_lik", self.log_density, y, a)
        return on_host("log_lik", self.log_density).values(y, a)

    def derivatives(self, y: Any, a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return on_host("log_lik", self.log_density).derivatives(y, a)

    def center(self, y: Any, mean: Any) -> Any:
        from cavity.factors.base import scalar_of_user
        from cavity.quadrature import adaptive

        if self.where is None:
            return adaptive.mode(lambda a: self.log_kernel(y, a), mean)
        if is_jax(mean):
            return scalar_of_user("center", self.where, y)
        return on_host("center", self.where).values(y)

    def can_be_traced(self, y: Any) -> bool:
        functions = [on_host("log_lik", self.log_density).can_be_traced(y, mean_like(y))]
        if self.where is not None:
            functions.append(on_host("center", self.where).can_be_traced(y))
        return all(functions)

    def check(self, y: Any) -> Any:
        y = map_arrays(check_finite, y)
        if self.where is not None:  # at power 0 nothing else would look at it
            on_host("center", self.where).values(map_arrays(lambda part: part[:1], y))
        return y

    def tilts(self, y: Any, mean: np.ndarray, variance: np.ndarray, power: float) -> Tilt:
        kernel = self.rule(y, power)
        if kernel.exact:
            return super().tilts(y, mean, variance, power)
        return tilts(kernel, y, mean, variance, power)  # JAX cannot trace it: there is no last resort

    def rule(self, y: Any, power: float) -> Kernel:
        function = on_host("log_lik", self.log_density)
        values = function.values if function.takes_arrays(y, np.zeros(1)) else None
        return Kernel(self.derivatives, None if self.where is None else self.center, values=values)


def mean_like(y: Any) -> np.ndarray:
    """An activation for every row of y."""
    return np.zeros(np.shape(first_array(y)))


def user(log_lik: Callable[[Any, Any], Any], center: Callable[[Any], Any] | None = None) -> UserLikelihood:
    """A `UserLikelihood` from `log_lik(y, a)` and, where known, `center(y)`."""
    for name, function in {"log_lik": log_lik, "center": center}.items():
        if not (callable(function) or (name == "center" and function is None)):
            raise TypeError(f"{name} must be a function; got {function!r}.")
    return UserLikelihood(log_lik, center)
