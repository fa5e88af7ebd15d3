"""Conjugate likelihoods: log p(x|θ) = ⟨s(x), T(θ)⟩ + b(x), whose site is s(x) itself at every power.

ℓ_α(q) = (A(q + αs) − A(q))/α + b = ⟨s, ∇A(q)⟩ + KL(q ‖ q + αs)/α + b: the second form does not cancel, and its first
and last terms are the limit at α = 0.
"""

from collections.abc import Callable
from dataclasses import field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import gammaln

from cavity import linalg
from cavity._pytree import pytree
from cavity.factors.base import Factor, as_rows, of_user, scalar_of_user
from cavity.families import Beta, Dirichlet, Gamma, NormalGamma, NormalWishart
from cavity.families.base import are_alike, describe, dot
from cavity.special import LOG_SQRT_2PI


@pytree
class Conjugate(Factor):
    """The functions that say a conjugate likelihood; build one with `conjugate`."""

    natural: Callable[[Any, Any], Any] = field(metadata={"static": True})
    log_base: Callable[[Any], Array] = field(metadata={"static": True})
    validate: Callable[[Any, Any], Any] = field(metadata={"static": True})

    def log_mean(self, q: Any, datum: Any, power: float) -> Array:
        site = self.site(q, datum, power)
        gap = q.kl(q + power * site) / power if power else 0.0
        return dot(site, q.moments()) + gap + scalar_of_user("log_base", self.log_base, datum)

    def site(self, cavity: Any, datum: Any, power: float) -> Any:
        site = of_user("natural", self.natural, cavity, datum)
        if not are_alike(site, cavity):
            wanted, got = describe(cavity), describe(site)
            raise ValueError(f"natural must return a member of the prior's family and shape, {wanted}; got {got}.")
        return site

    def check(self, prior: Any, data: Any) -> Any:
        return self.validate(prior, as_rows(data))


def conjugate(
    natural: Callable[[Any, Any], Any],
    log_base: Callable[[Any], Any] | None = None,
    validate: Callable[[Any, Any], Any] | None = None,
) -> Conjugate:
    """A conjugate likelihood from `natural(q, datum)`, which returns s(x) as a member of q's family.

    `log_base(datum)` is b(x), zero if not given: it matters to the evidence only. `validate(prior, data)` returns the
    data or raises. Coin tosses, for instance:

    >>> from cavity.factors.conjugate_likelihoods import conjugate
    >>> from cavity.families import Beta
    >>> coin = conjugate(lambda q, heads: Beta(heads, 1 - heads))
    >>> coin.site(Beta(1.0, 1.0), 1.0, power=1.0).alpha.item()
    1.0
    """
    return Conjugate(natural, log_base or _zero, validate or _as_given)


def bernoulli() -> Conjugate:
    """y ∈ {0, 1} with unknown probability: q is a Beta."""
    return Conjugate(_beta, _zero, _check_bernoulli)


def categorical() -> Conjugate:
    """Labels 0 … J − 1 with unknown probabilities: q is a Dirichlet over J categories."""
    return Conjugate(_dirichlet, _zero, _check_categorical)


def poisson_rate() -> Conjugate:
    """Counts with unknown rate: q is a Gamma."""
    return Conjugate(_gamma_of_count, _minus_log_factorial, _check_counts)


def exponential() -> Conjugate:
    """Waiting times with unknown rate: q is a Gamma."""
    return Conjugate(_gamma_of_time, _zero, _check_times)


def gaussian_mean_precision() -> Conjugate:
    """Points of a Gaussian with unknown mean and precision: q is a NormalWishart or a NormalGamma."""
    return Conjugate(_mean_precision, _minus_log_root, _check_points)


# Functions of the module rather than lambdas: a factor built twice is then compiled once.


def _beta(q: Beta, y: Array) -> Beta:
    return Beta(y, 1 - y)


def _dirichlet(q: Dirichlet, label: Array) -> Dirichlet:
    return Dirichlet(jax.nn.one_hot(jnp.asarray(label).astype(int), q.concentration.shape[-1], dtype=float))


def _gamma_of_count(q: Gamma, count: Array) -> Gamma:
    return Gamma(count, jnp.ones_like(count))


def _gamma_of_time(q: Gamma, time: Array) -> Gamma:
    return Gamma(jnp.ones_like(time), time)


def _mean_precision(q: NormalWishart | NormalGamma, x: Array) -> NormalWishart | NormalGamma:
    if isinstance(q, NormalWishart):
        return NormalWishart(x, jnp.ones_like(q.count), jnp.ones_like(q.df), linalg.outer(x))
    x = x.reshape(q.shift.shape)  # of a row (D,), a precision for each entry: (D, 1)
    half = jnp.full_like(q.shape, 0.5)
    return NormalGamma(x, jnp.ones_like(q.count), half * x.shape[-1], half * jnp.sum(x**2, axis=-1))


def _zero(datum: Any) -> Array:
    return jnp.zeros(())


def _minus_log_factorial(count: Array) -> Array:
    return -jnp.sum(gammaln(count + 1))


def _minus_log_root(x: Array) -> Array:
    return jnp.asarray(-x.size * LOG_SQRT_2PI)


def _as_given(prior: Any, data: Any) -> Any:
    return data


def _check_bernoulli(prior: Any, y: Any) -> np.ndarray:
    return _check(prior, Beta, "alpha", y, lambda y: (y == 0) | (y == 1), "0 or 1")


def _check_categorical(prior: Any, label: Any) -> np.ndarray:
    count = np.shape(getattr(prior, "concentration", (0,)))[-1]
    inside = lambda label: (label >= 0) & (label < count) & (label == np.floor(label))
    return _check(prior, Dirichlet, "concentration", label, inside, f"labels 0 … {count - 1}")


def _check_counts(prior: Any, y: Any) -> np.ndarray:
    return _check(prior, Gamma, "shape", y, lambda y: (y >= 0) & (y == np.floor(y)), "non-negative integers")


def _check_times(prior: Any, time: Any) -> np.ndarray:
    return _check(prior, Gamma, "shape", time, lambda time: time >= 0, "non-negative numbers")


def _check_points(prior: Any, x: Any) -> np.ndarray:
    family = NormalGamma if isinstance(prior, NormalGamma) else NormalWishart
    return _check(prior, family, "shift", x, np.isfinite, "finite numbers")


def _check(prior: Any, family: type, like: str, data: Any, good: Callable[[Any], Any], wanted: str) -> np.ndarray:
    """The data, if the prior is of the conjugate family, each row has its shape and every entry is good."""
    if not isinstance(prior, family):
        raise ValueError(f"prior must be a {family.__name__}; got {type(prior).__name__}.")
    shape = np.shape(getattr(prior, like))
    shape = shape[:-1] if family is Dirichlet else shape
    if not isinstance(data, np.ndarray) or data.shape[1:] != shape:
        got = data.shape if isinstance(data, np.ndarray) else type(data).__name__
        raise ValueError(f"data must be one array of shape (n, *{shape}) to go with the prior; got {got}.")
    if not np.all(good(data)):
        raise ValueError(f"data must be {wanted}; got {data[~good(data)].flat[0]:g}.")
    return data
