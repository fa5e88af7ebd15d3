"""Generalised linear models by their likelihoods: the names that users build them with."""

from collections.abc import Callable
from typing import Any

from cavity.factors.glm import likelihoods
from cavity.factors.glm.factor import GLM


def probit() -> GLM:
    """p(y | a) = Φ(y a) for y ∈ {−1, +1}."""
    return GLM(likelihoods.Probit())


def logit() -> GLM:
    """p(y | a) = 1/(1 + exp(−y a)) for y ∈ {−1, +1}."""
    return GLM(likelihoods.Logit())


def poisson() -> GLM:
    """p(y | a) = Poisson(y; exp(a)) for counts y."""
    return GLM(likelihoods.Poisson())


def gaussian(noise_variance: float) -> GLM:
    """p(y | a) = N(y; a, noise_variance)."""
    return GLM(likelihoods.gaussian_noise(noise_variance))


def student_t(df: float, scale: float) -> GLM:
    """p(y | a) = Student's t with `df` degrees of freedom, location a and `scale`: robust to outliers."""
    return GLM(likelihoods.student_t(df, scale))


def offset_of(factor: GLM) -> GLM:
    """A model with a known part of its activation: data are `(X, (y, offset))`, and a = xᵀθ + offset."""
    if not isinstance(factor, GLM):
        raise ValueError(
            f"factor must be a generalised linear model, such as cavity.factors.poisson(); got {factor!r}."
        )
    return GLM(likelihoods.Offset(factor.likelihood))


def glm(log_lik: Callable[[Any, Any], Any], center: Callable[[Any], Any] | None = None) -> GLM:
    """A generalised linear model from your own log p(y | a).

    `log_lik(y, a)` is smooth in a, with one peak or one edge, and acts on each observation and activation by itself: it
    is called with two numbers under JAX, and with arrays of one shape where the rows are worked on by NumPy. Write it
    with NumPy, jax.numpy, or operators that either understands; a choice is a `where`, not an `if`. What else is
    known of a row, such as trials, exposures or a noise of its own, goes beside the observation: where data are
    `(X, (count, total))`, `y` is such a pair too. `center(y)`, where known, says around which activation log p varies
    most.

    >>> import jax, numpy as np, cavity
    >>> def binomial(y, a):
    ...     count, total = y
    ...     return count * a - total * jax.nn.softplus(a)
    >>> X, count, total = np.ones((3, 1)), np.array([1.0, 4.0, 2.0]), np.array([5.0, 9.0, 6.0])
    >>> prior = cavity.Gaussian.isotropic(1, 10.0)
    >>> result = cavity.fit(cavity.factors.glm(binomial), prior, (X, (count, total)), cavity.ep())
    >>> print(np.round(1 / (1 + np.exp(-result.posterior.mean)), 2))
    [0.35]
    """
    return GLM(likelihoods.user(log_lik, center))
