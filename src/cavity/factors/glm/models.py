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

    `log_lik(y, a)` is a smooth JAX function of two scalars; `center(y)`, where known, says around which activation it
    varies most.
    """
    return GLM(likelihoods.user(log_lik, center))
