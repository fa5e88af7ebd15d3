"""A Gaussian whose precision is Gamma distributed, matched as probabilistic backpropagation does.

The variance of N(r; 0, v + 1/γ) under γ ~ Gamma(a, b) is v + b/(a − 1), and log Z is taken to be that of a Gaussian
with this variance. The posterior of γ is matched in its first two moments, which follow from log Z at the shapes a,
a + 1 and a + 2. Hernández-Lobato & Adams (2015), "Probabilistic Backpropagation for Scalable Learning of Bayesian
Neural Networks". Everything is written as differences: shapes in the millions keep the digits of one datum's share.
"""

from cavity._array import Array
from cavity._lazy import jnp
from cavity.families import Gamma
from cavity.families.stirling import log_minus_digamma
from cavity.special import LOG_SQRT_2PI


def log_mean(residual: Array, variance: Array, noise: Gamma, power: float) -> Array:
    """ℓ_α = (1/α) log E[N(r; f, 1/γ)^α] for f ~ N(0, v); at power 0, exactly E[log N]."""
    shape, rate = jnp.asarray(noise.shape), jnp.asarray(noise.rate)
    if power == 0:
        mean_log = jnp.log(shape / rate) - log_minus_digamma(shape)
        return 0.5 * (mean_log - shape / rate * (residual**2 + variance)) - LOG_SQRT_2PI
    spread = rate / (shape - 1)
    total = power * variance + spread
    logs = jnp.log(total) - (1 - power) * jnp.log(spread)
    return -0.5 * (logs / power + residual**2 / total) - LOG_SQRT_2PI


def site(residual: Array, variance: Array, noise: Gamma, power: float) -> Gamma:
    """What replaces the factor in the posterior of γ: matched moments less the cavity, over α; zero if it has none."""
    if power == 0:
        return Gamma(jnp.full(jnp.shape(residual), 0.5), 0.5 * (residual**2 + variance))
    return site_of_rises(noise, *rises(residual, variance, noise, power), power)


def rises(residual: Array, variance: Array, noise: Gamma, power: float) -> tuple[Array, Array]:
    """By how much α ℓ_α rises from shape to shape + 1, and from there to shape + 2."""
    shape, rate = jnp.asarray(noise.shape), jnp.asarray(noise.rate)
    at = [rate / (shape + k) for k in (-1, 0, 1)]  # variances of the noise at shape, shape + 1, shape + 2
    steps = [rate / ((shape + k - 1) * (shape + k)) for k in (0, 1)]  # by how much they fall
    totals = [power * variance + spread for spread in at]
    first, second = (
        -0.5 * jnp.log1p(-steps[k] / totals[k])
        - 0.5 * power * residual**2 * steps[k] / (totals[k] * totals[k + 1])
        + 0.5 * (1 - power) * jnp.log1p(-1 / (shape + k))
        for k in (0, 1)
    )
    return first, second


def site_of_rises(noise: Gamma, first: Array, second: Array, power: float) -> Gamma:
    """From these, E[γ] = (a/b) e^first and E[γ²] = a(a + 1)/b² e^(first + second)."""
    shape, rate = jnp.asarray(noise.shape), jnp.asarray(noise.rate)
    bend = jnp.expm1(second - first)
    spread = bend + (1 + bend) / shape  # E[γ²]/E[γ]² − 1, the inverse of the new shape
    more = -(shape + 1) * bend / spread
    scale = more / shape * jnp.exp(-first) + jnp.expm1(-first)
    good = (shape > 1) & (spread > 0) & (shape + more > 1) & (1 + scale > 0) & jnp.isfinite(more) & jnp.isfinite(scale)
    keep = lambda value: jnp.where(good, value / power, 0.0)
    return Gamma(keep(more), keep(rate * scale))
