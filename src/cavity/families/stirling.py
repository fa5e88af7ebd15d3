"""Differences of gamma functions that keep their digits: of log Γ and ψ from their leading terms, and divergences.

Arrays of JAX are given to programs that are compiled once per shape, also outside jit; those of NumPy need no JAX, but
for what the Wishart needs.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from cavity._array import Array, namespace
from cavity._lazy import jax, jitted, jitted_for_jax, jnp
from cavity.families import gaps
from cavity.families.gaps import horner
from cavity.special import log_gamma

SERIES_FROM = 10.0  # where eight terms of Stirling's series are exact in double precision
RISING = np.polynomial.polynomial.polyfromroots(-np.arange(SERIES_FROM))  # a (a + 1) … (a + 9)
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)  # B₂, B₄, …, B₁₆

gap = jitted_for_jax(gaps.gap)
triangle_gap = jitted_for_jax(gaps.triangle_gap)


@jitted_for_jax
def log_minus_digamma(a: Array) -> Array:
    """log a − ψ(a) > 0 for a > 0, falling from 1/a to 1/(2a)."""
    # Below the series' reach, ψ(a) = ψ(a + 10) − Σ_{k<10} 1/(a + k).
    xp = namespace(a)
    small = a < SERIES_FROM
    low = xp.where(small, a, 1.0)
    steps = _ratio_of_steps(low) - xp.log1p(SERIES_FROM / low)
    high = xp.where(small, a + SERIES_FROM, a)
    return 0.5 / high + digamma_series(high) + xp.where(small, steps, 0.0)


def digamma_series(a: Array) -> Array:
    """1/(12a²) − 1/(120a⁴) + …: what is left of log a − ψ(a) beside 1/(2a); minus the slope of `stirling_series`."""
    return horner([b / (2 * k) for k, b in enumerate(BERNOULLI, start=1)], 1 / a**2)


def _ratio_of_steps(a: Array) -> Array:
    """Σ_{k<10} 1/(a + k) as one division: P′(a)/P(a) with P(a) = ∏ (a + k), whose coefficients are all positive."""
    slope = np.polynomial.polynomial.polyder(RISING)
    return polynomial(slope, a) / polynomial(RISING, a)


@jitted_for_jax
def stirling_remainder(a: Array) -> Array:
    """R(a) = log Γ(a) − a log a + a, convex, with R′(a) = ψ(a) − log a."""
    xp = namespace(a)
    small = a < SERIES_FROM
    low = xp.where(small, a, 1.0)
    high = xp.where(small, SERIES_FROM, a)
    large = 0.5 * xp.log(2 * np.pi / high) + stirling_series(high)
    return xp.where(small, log_gamma(low) - low * xp.log(low) + low, large)


@jitted_for_jax
def stirling_bregman(a: Array, b: Array) -> Array:
    """R(b) − R(a) − R′(a)(b − a) ≥ 0: what KL divergences of gamma-like families are made of."""
    # Far up R is −½ log a and a tiny series; the divergence of the first is a gap.
    xp = namespace(a, b)
    large = (a > SERIES_FROM) & (b > SERIES_FROM)
    up, other = xp.where(large, a, SERIES_FROM), xp.where(large, b, SERIES_FROM)
    series, slope = stirling_series(up), -digamma_series(up)
    high = 0.5 * gap((other - up) / up) + stirling_series(other) - series - slope * (other - up)
    low, other = xp.where(large, 1.0, a), xp.where(large, 1.0, b)
    plain = stirling_remainder(other) - stirling_remainder(low) + log_minus_digamma(low) * (other - low)
    return xp.where(large, high, plain)


def stirling_series(a: Array) -> Array:
    """1/(12a) − 1/(360a³) + …"""
    return a * horner([b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI, start=1)], 1 / a**2)


@partial(jitted, static_argnums=2)
def wishart_bregman(df: Array, other: Array, dim: int) -> Array:
    """Σ_i B(x − i/2, y − i/2) − B(x, y) over i < D with x = ν/2, y = ν'/2 and B(x, y) = y log(y/x) − y + x.

    What the log-gammas of a Wishart leave of their leading terms; zero at D = 1.
    """
    shift = 0.5 * jnp.arange(dim)
    x, y = 0.5 * jnp.asarray(df)[..., None], 0.5 * jnp.asarray(other)[..., None]
    step, rest = y - x, x - shift
    far = shift * step / (y * rest)
    # (y − c) log(1 + u) + c log(1 + w), c = i/2; where ν and ν' are close the linear terms nearly cancel
    close = jnp.abs(step) < 0.1 * rest
    exact = (y - shift) * jnp.log1p(far) + shift * jnp.log1p(-step / y)
    series = shift * step**2 / (y * rest) - (y - shift) * gap(far) - shift * gap(-step / y)
    return jnp.sum(jnp.where(close, series, exact))


def wishart_excess(half: Array, dim: int) -> Array:
    """s(x) = D log(ν/2) − Σ_{i<D} ψ((ν − i)/2) > 0 as a function of x = (ν − D + 1)/2."""
    args = half[..., None] + 0.5 * jnp.arange(dim)
    # log(ν/2) − log(x + i/2), written as a sum of positive terms
    return jnp.sum(log_minus_digamma(args) + jnp.log1p(0.5 * jnp.arange(dim)[::-1] / args), axis=-1)


def with_slope(function: Callable[[Array], Array], at: Array) -> tuple[Array, Array]:
    return jax.jvp(function, (at,), (jnp.ones_like(at),))


def polynomial(coefficients: Any, x: Array) -> Array:
    """Σ_k c_k xᵏ by Horner's rule, c on the first axis; Clenshaw's recurrence makes XLA compute terms again."""
    value = namespace(x).zeros_like(x)
    for c in coefficients[::-1]:
        value = value * x + c
    return value
