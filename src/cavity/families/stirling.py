"""Differences of gamma functions that keep their digits: of log Γ and ψ from their leading terms, and divergences.

Written for arrays of NumPy and of JAX alike; for JAX each is compiled once per shape, also outside jit.
"""

from typing import Any

import numpy as np

from cavity._array import Array, by_program, namespace
from cavity.families import gaps
from cavity.families.gaps import horner
from cavity.special import log_gamma

SERIES_FROM = 10.0  # where eight terms of Stirling's series are exact in double precision
STEPS = range(int(SERIES_FROM))
RISING = np.polynomial.polynomial.polyfromroots(-np.arange(SERIES_FROM))  # a (a + 1) … (a + 9)
RISING_SLOPE = np.polynomial.polynomial.polyder(RISING)
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)  # B₂, B₄, …, B₁₆

gap = by_program()(gaps.gap)
triangle_gap = by_program()(gaps.triangle_gap)


@by_program()
def log_minus_digamma(a: Array) -> Array:
    """log a − ψ(a) > 0 for a > 0, falling from 1/a to 1/(2a)."""
    # Below the series' reach, ψ(a) = ψ(a + 10) − Σ_{k<10} 1/(a + k).
    xp = namespace(a)
    small = a < SERIES_FROM
    high = xp.where(small, a + SERIES_FROM, a)
    series = 0.5 / high + horner([b / (2 * k) for k, b in enumerate(BERNOULLI, start=1)], 1 / high**2)
    if xp is np and not small.any():
        return series
    low = xp.where(small, a, 1.0)
    # Σ_{k<10} 1/(a + k) as one division: P′(a)/P(a) with P(a) = ∏ (a + k), whose coefficients are all positive
    steps = polynomial(RISING_SLOPE, low) / polynomial(RISING, low) - xp.log1p(SERIES_FROM / low)
    return series + xp.where(small, steps, 0.0)


@by_program()
def log_minus_digamma_slope(a: Array) -> Array:
    """1/a − ψ′(a) < 0, the derivative of `log_minus_digamma`."""
    xp = namespace(a)
    small = a < SERIES_FROM
    low, high = xp.where(small, a, 1.0), xp.where(small, a + SERIES_FROM, a)
    series = horner(list(BERNOULLI), 1 / high**2) / high
    steps = SERIES_FROM / (low * (low + SERIES_FROM)) - sum(1 / (low + k) ** 2 for k in STEPS)
    return xp.where(small, steps, 0.0) - 0.5 / high**2 - series


def trigamma(a: Array) -> Array:
    """ψ′(a)."""
    return 1 / a - log_minus_digamma_slope(a)


@by_program()
def stirling_remainder(a: Array) -> Array:
    """R(a) = log Γ(a) − a log a + a, convex, with R′(a) = ψ(a) − log a."""
    xp = namespace(a)
    small = a < SERIES_FROM
    low = xp.where(small, a, 1.0)
    high = xp.where(small, SERIES_FROM, a)
    large = 0.5 * xp.log(2 * np.pi / high) + stirling_series(high)
    return xp.where(small, log_gamma(low) - low * xp.log(low) + low, large)


@by_program()
def stirling_bregman(a: Array, b: Array) -> Array:
    """R(b) − R(a) − R′(a)(b − a) ≥ 0: what KL divergences of gamma-like families are made of."""
    # Far up R is −½ log a and a tiny series; the divergence of the first is a gap.
    xp = namespace(a, b)
    large = (a > SERIES_FROM) & (b > SERIES_FROM)
    up, other = xp.where(large, a, SERIES_FROM), xp.where(large, b, SERIES_FROM)
    series, slope = stirling_series(up), stirling_series_slope(up)
    high = 0.5 * gap((other - up) / up) + stirling_series(other) - series - slope * (other - up)
    low, other = xp.where(large, 1.0, a), xp.where(large, 1.0, b)
    plain = stirling_remainder(other) - stirling_remainder(low) + log_minus_digamma(low) * (other - low)
    return xp.where(large, high, plain)


def stirling_series(a: Array) -> Array:
    """1/(12a) − 1/(360a³) + …"""
    return a * horner([b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI, start=1)], 1 / a**2)


def stirling_series_slope(a: Array) -> Array:
    """−1/(12a²) + 1/(120a⁴) − …"""
    return -horner([b / (2 * k) for k, b in enumerate(BERNOULLI, start=1)], 1 / a**2)


def log_gamma_ratio(a: Array, step: Any) -> Array:
    """log Γ(a + h) − log Γ(a) without the digits that large a would cost."""
    xp = namespace(a, step)
    rest = stirling_remainder(a + step) - stirling_remainder(a)
    return a * xp.log1p(step / a) + step * xp.log(a + step) - step + rest


@by_program(2)
def wishart_bregman(df: Array, other: Array, dim: int) -> Array:
    """Σ_i B(x − i/2, y − i/2) − B(x, y) over i < D with x = ν/2, y = ν'/2 and B(x, y) = y log(y/x) − y + x.

    One number for each ν: what the log-gammas of a Wishart leave of their leading terms; zero at D = 1.
    """
    xp = namespace(df, other)
    shift = 0.5 * np.arange(dim)
    x, y = 0.5 * df[..., None], 0.5 * other[..., None]
    step, rest = y - x, x - shift
    far = shift * step / (y * rest)
    # (y − c) log(1 + u) + c log(1 + w), c = i/2; where ν and ν' are close the linear terms nearly cancel
    close = xp.abs(step) < 0.1 * rest
    exact = (y - shift) * xp.log1p(far) + shift * xp.log1p(-step / y)
    series = shift * step**2 / (y * rest) - (y - shift) * gap(far) - shift * gap(-step / y)
    return xp.where(close, series, exact).sum(-1)


def wishart_excess(half: Array, dim: int) -> Array:
    """s(x) = D log(ν/2) − Σ_{i<D} ψ((ν − i)/2) > 0 as a function of x = (ν − D + 1)/2."""
    args, missing = wishart_arguments(half, dim)
    # log(ν/2) − log(x + i/2), written as a sum of positive terms
    return (log_minus_digamma(args) + namespace(half).log1p(missing / args)).sum(0)


def wishart_excess_slope(half: Array, dim: int) -> Array:
    """s′(x) < 0."""
    args, missing = wishart_arguments(half, dim)
    return (log_minus_digamma_slope(args) - missing / (args * (args + missing))).sum(0)


def wishart_arguments(half: Array, dim: int) -> tuple[Array, np.ndarray]:
    """x + i/2 for i < D on a first axis, and what each of them is short of ν/2."""
    steps = 0.5 * np.arange(dim).reshape(-1, *[1] * np.ndim(half))
    return half + steps, steps[::-1]


def polynomial(coefficients: Any, x: Array) -> Array:
    """Σ_k c_k xᵏ by Horner's rule, c on the first axis; Clenshaw's recurrence makes XLA compute terms again."""
    value = namespace(x).zeros_like(x) + coefficients[-1]
    for c in coefficients[-2::-1]:
        value *= x
        value += c
    return value
