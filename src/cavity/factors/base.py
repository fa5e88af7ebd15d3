"""What a likelihood factor is: one function, ℓ_α(q) = (1/α) log E_q[p(x|θ)^α].

Everything the engine needs follows from it by automatic differentiation. A factor may add a closed form of its site;
tests hold it equal to the derivative.
"""

import abc
from collections.abc import Callable
from typing import Any

import numpy as np

from cavity import _tree as tree
from cavity._array import Array
from cavity._checks import as_numbers
from cavity.families.base import ExpFamily


class Factor(abc.ABC):
    """A likelihood p(x|θ). Subclasses are frozen pytrees whose leaves are the hyper-parameters."""

    @abc.abstractmethod
    def log_mean(self, q: Any, datum: Any, power: float) -> Array:
        """ℓ_α(q) = (1/α) log E_q[p(x|θ)^α], and its limit E_q[log p(x|θ)] at power 0."""

    def site(self, cavity: Any, datum: Any, power: float) -> Any:
        """The datum's own site λ̂ = (proj[c pᵅ] − c)/α, equation (11): what replaces p(x|θ) in q."""
        return site_by_autodiff(self, cavity, datum, power)

    def estimate(self, cavity: Any, datum: Any, power: float) -> tuple[Any, Array]:
        """The site with ℓ_α(c), for factors that get both from the same work."""
        return self.site(cavity, datum, power), self.log_mean(cavity, datum, power)

    def proper_parts(self, q: Any, of: Any) -> Any:
        """Which numbers of q, made of another proper one, are of a proper distribution.

        One answer for all, unless parts are matched alone.
        """
        good = q.is_proper()
        return tree.map(lambda _: good, q)

    def check(self, prior: Any, data: Any) -> Any:
        """The data as float64 arrays, or a ValueError that names the argument. Factors add what they know."""
        return as_rows(data)

    def simplify(self, prior: Any, data: Any) -> tuple[Any, Any, Callable[[Any], Any] | None]:
        """A problem of fewer dimensions in its place, and the map that lifts a site back; None for as it is."""
        return prior, data, None

    def smooth(self) -> "Factor":
        """This factor with sites that JAX can differentiate in reverse; itself unless they are found by search."""
        return self

    def sums(self, prior: Any, data: Any, algorithm: Any) -> Any:
        """How chunks of rows are summed (`cavity.inference.contract.Sums`), or None: by automatic differentiation."""
        return None

    def log_lik(self, theta: Any, datum: Any) -> Array:
        """log p(x|θ) itself, which only sampling needs."""
        raise ValueError(
            f"factor must say its log_lik to be sampled; {type(self).__name__} does not. Give sampled() a function "
            "log_lik(theta, datum) instead."
        )


def site_by_autodiff(factor: Factor, cavity: ExpFamily, datum: Any, power: float) -> Any:
    """Equations (11) and, at power 0, (15) for any family and factor, by gradients of log-partitions."""
    import jax

    if power == 0:
        expected = lambda moments: factor.log_mean(moments.from_moments(), datum, 0)
        return jax.grad(expected)(cavity.moments())
    log_tilted = lambda eta: eta.log_partition() + power * factor.log_mean(eta, datum, power)
    return (1 / power) * (jax.grad(log_tilted)(cavity).from_moments() - cavity)


def as_rows(data: Any) -> Any:
    """Every leaf as a finite float64 array with the same number of rows."""
    data = tree.map(lambda leaf: as_numbers("data", leaf), data, is_leaf=lambda leaf: isinstance(leaf, list))
    leaves = tree.leaves(data)
    if not leaves or any(leaf.ndim == 0 for leaf in leaves):
        raise ValueError(
            "data must be an array, or a tuple of arrays, with one row per datum; got "
            f"{'single numbers: put them in an array, np.array(data)' if leaves else 'nothing'}."
        )
    if len({len(leaf) for leaf in leaves}) > 1:
        raise ValueError(f"data must have the same number of rows throughout; got {[len(leaf) for leaf in leaves]}.")
    if not all(np.all(np.isfinite(leaf)) for leaf in leaves):
        raise ValueError("data must be finite; got NaN or infinity. Remove or impute those rows.")
    return data


def of_user(name: str, function: Callable[..., Any], *args: Any) -> Any:
    """The value of a user's function, or a ValueError that names it where JAX cannot trace it."""
    try:
        return function(*args)
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        raise ValueError(f"{name} must be a JAX function, written with jax.numpy instead of NumPy; {reason}") from error


def scalar_of_user(name: str, function: Callable[..., Any], *args: Any) -> Any:
    """The value of a user's function that must return one number, or a ValueError that names it."""
    value = of_user(name, function, *args)
    if not isinstance(value, int | float) and getattr(value, "shape", None) != ():
        got = f"shape {value.shape}" if hasattr(value, "shape") else type(value).__name__
        raise ValueError(f"{name} must return a scalar; got {got}. Sum over its axes with jnp.sum.")
    return value
