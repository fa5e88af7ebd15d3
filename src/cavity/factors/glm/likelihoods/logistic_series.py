"""Tilts of the logistic function σ under narrow cavities, by a series in their variance: one exponential a row.

E[f(a)] under a ~ N(m, v) is Σ_k (v/2)ᵏ/k! f⁽²ᵏ⁾(m). The derivatives of σ are polynomials: with u = σ(1 − σ) and
t = 1 − 2σ they are u A_j(u) for odd j and u t B_j(u) for even j, where u′ = u t and t′ = −2u give

    B_{j+1} = A_j + u A_j′,        A_{j+1} = (1 − 6u) B_j + u (1 − 4u) B_j′.

Where σ(m) is less than a half, E[σ(a)] = e^(m + v/2) E[σ(−b)] with b ~ N(m + v, v): nothing cancels on either side.
"""

from functools import cache
from math import factorial
from typing import NamedTuple

import numpy as np
from numpy.polynomial import Polynomial

from cavity.quadrature import Tilt

# widest cavity, and terms of the series that keep ten digits there
TIERS = ((0.004, 3), (0.02, 5))
WIDEST = TIERS[-1][0]


class Series(NamedTuple):
    """Coefficients of uⁱ (v/2)ᵏ⁻¹ in (E[σ] − σ)/(u t v/2), and of uⁱ (v/2)ᵏ in E[σ′]/u and E[σ″]/(u t): (i, k)."""

    value: np.ndarray
    slope: np.ndarray
    curve: np.ndarray


def derivatives_of_sigma(n: int) -> tuple[dict[int, Polynomial], dict[int, Polynomial]]:
    """A_j and B_j up to j = n."""
    u, odd, even = Polynomial([0.0, 1.0]), {1: Polynomial([1.0])}, {}
    for j in range(1, n, 2):
        even[j + 1] = odd[j] + u * odd[j].deriv()
        odd[j + 2] = (1 - 6 * u) * even[j + 1] + u * (1 - 4 * u) * even[j + 1].deriv()
    return odd, even


@cache
def series(n_terms: int) -> Series:
    """The coefficients of so many terms beyond the first."""
    odd, even = derivatives_of_sigma(2 * n_terms + 2)

    def table(polynomials: list[Polynomial], first: int) -> np.ndarray:
        columns = np.zeros((n_terms + 1, len(polynomials)))
        for k, polynomial in enumerate(polynomials):
            columns[: len(polynomial.coef), k] = np.asarray(polynomial.coef, float) / factorial(first + k)
        return columns[np.any(columns != 0, axis=1)]

    terms = range(n_terms + 1)
    return Series(
        table([even[2 * k] for k in terms[1:]], 1),
        table([odd[2 * k + 1] for k in terms], 0),
        table([even[2 * k + 2] for k in terms], 0),
    )


def horner(coefficients: np.ndarray, u: np.ndarray, half: np.ndarray) -> np.ndarray:
    """Σ_ik c_ik uⁱ halfᵏ."""
    total: np.ndarray | None = None
    for row in coefficients[::-1]:
        powers = np.flatnonzero(row)
        inner = np.full_like(half, row[powers[-1]])
        for k in range(powers[-1] - 1, -1, -1):
            inner *= half
            if row[k]:
                inner += row[k]
        if total is None:
            total = inner
        else:
            total *= u
            total += inner
    assert total is not None
    return total


def tilts(y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> Tilt:
    """The tilts of 1/(1 + e^(−y a)) for variances up to `WIDEST`; each row's depends on nothing but itself."""
    tier = [variance <= widest for widest, _ in TIERS]
    if np.all(tier[0]):
        return by_terms(y, mean, variance, TIERS[0][1])
    found = Tilt(*np.empty((4, len(mean))))
    for (_, n_terms), here in zip(TIERS, (tier[0], ~tier[0]), strict=True):
        part = by_terms(y[here], mean[here], variance[here], n_terms)
        for whole, values in zip(found, part, strict=True):
            whole[here] = values
    return found


def by_terms(y: np.ndarray, mean: np.ndarray, variance: np.ndarray, n_terms: int) -> Tilt:
    """The same by so many terms for all rows."""
    of_value, of_slope, of_curve = series(n_terms)
    z, half = y * mean, 0.5 * variance
    below = z < 0
    away = np.where(below, -(z + variance), z)  # b, or a itself
    odds = np.exp(-away)
    share = 1 / (1 + odds)
    left = odds * share
    u = share * left
    turn = left - share
    bent = u * turn
    risen = horner(of_value, u, half)
    risen *= half
    risen *= bent
    share += risen  # E[σ], of which this much is left of one:
    left -= risen
    slope, curve = horner(of_slope, u, half), horner(of_curve, u, half)
    slope *= u
    slope /= share
    curve *= bent
    curve /= share
    curve -= slope**2
    log_mean = np.log1p(-left)
    log_mean += np.where(below, z + half, 0.0)
    slope = np.where(below, 1 - slope, slope)
    slope *= y
    return Tilt(log_mean, slope, curve, 1 + variance * curve)
