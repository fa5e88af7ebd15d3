"""Covariances between the units of a layer, which share inputs that are not known: equations (56) and (57).

Weights are independent, so with one hidden layer units are too. Those of a second layer, and two outputs, are not.
"""

import numpy as np

from cavity._array import Array
from cavity._lazy import jnp
from cavity.factors.networks.activations import ACTIVATIONS, LEAK
from cavity.special import log_ndtr

TERMS = 10  # of Mehler's series: what is left out is less than 0.002 of the sums' variance even between equal units


def through(weight: Array, spread: Array, mean: Array, covariance: Array) -> tuple[Array, Array]:
    """Mean and covariance of a layer's sums, from those of its inputs and the moments of its weights."""
    n_in = len(weight)
    mean, covariance = jnp.append(mean, 1.0), jnp.pad(covariance, (0, 1))
    own = (mean**2 + jnp.diagonal(covariance)) @ spread
    return mean @ weight / np.sqrt(n_in), (weight.T @ covariance @ weight + jnp.diag(own)) / n_in


def activate(name: str, mean: Array, covariance: Array) -> tuple[Array, Array]:
    """Mean and covariance of an activation function of every unit; variances are those without covariances."""
    out, variance = ACTIVATIONS[name](mean, jnp.diagonal(covariance))
    between = BETWEEN[name](mean, covariance)
    return out, jnp.where(np.eye(len(mean), dtype=bool), variance, between)


def relu(mean: Array, covariance: Array) -> Array:
    """Mehler's series Σ ρⁿ fₙ fₙᵀ / n! with fₙ = E[max(a, 0) Heₙ]: s Φ(r), then s φ(r) Heₙ₋₂(−r), for r = m/s."""
    scale = jnp.sqrt(jnp.diagonal(covariance))
    ratio, correlation = mean / scale, covariance / jnp.outer(scale, scale)
    density = jnp.exp(-0.5 * ratio**2) / np.sqrt(2 * np.pi)
    first = jnp.exp(log_ndtr(ratio))
    total, part = correlation * jnp.outer(first, first), correlation
    before, polynomial = jnp.zeros_like(ratio), jnp.ones_like(ratio)  # He₋₁ and He₀, at −r
    for n in range(2, TERMS + 1):
        part = part * correlation / n
        total = total + part * jnp.outer(density * polynomial, density * polynomial)
        before, polynomial = polynomial, -ratio * polynomial - (n - 2) * before
    return total * jnp.outer(scale, scale)


def leaky_relu(mean: Array, covariance: Array) -> Array:
    """Of LEAK · a + (1 − LEAK) max(a, 0), with Cov[a, max(b, 0)] = Cov[a, b] P(b > 0)."""
    above = jnp.exp(log_ndtr(mean / jnp.sqrt(jnp.diagonal(covariance))))
    crossed = covariance * (above[:, None] + above)
    return LEAK**2 * covariance + LEAK * (1 - LEAK) * crossed + (1 - LEAK) ** 2 * relu(mean, covariance)


def sin(mean: Array, covariance: Array) -> Array:
    """From sin a sin b = ½ (cos(a − b) − cos(a + b))."""
    variance = jnp.diagonal(covariance)
    damping = jnp.exp(-0.5 * (variance[:, None] + variance))
    apart, together = jnp.cos(mean[:, None] - mean), jnp.cos(mean[:, None] + mean)
    return 0.5 * damping * (jnp.expm1(covariance) * apart - jnp.expm1(-covariance) * together)


def identity(_: Array, covariance: Array) -> Array:
    return covariance


BETWEEN = {"relu": relu, "leaky_relu": leaky_relu, "sin": sin, "identity": identity}
