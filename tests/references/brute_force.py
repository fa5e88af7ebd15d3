"""Tilted moments by brute force: 80-bit sums over panels graded towards every feature.

Nothing is shared with the library: likelihoods and their derivatives are written out in NumPy, and the integral is a
Gauss–Legendre sum over hundreds of panels that shrink geometrically towards the cavity's mean, the likelihood's centre
and the tilted mode. `test_brute_force_against_mpmath` holds it to mpmath.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import special as sp

Wide = np.longdouble


def logit(y, a):
    z = y * a
    small = np.exp(-abs(z))
    other = np.where(z > 0, small, Wide(1)) / (1 + small)
    return np.minimum(z, 0) - np.log1p(small), y * other, -small / (1 + small) ** 2


def probit(y, a):
    z = y * a
    x, fraction = np.maximum(-z, Wide(4)), np.zeros_like(z)
    for k in range(120, 0, -1):
        fraction = k / (x + fraction)
    near = np.asarray(np.maximum(z, -4), dtype=float)
    log_near, far = sp.log_ndtr(near), z < -4
    hazard = np.where(far, x + fraction, np.exp(-Wide(0.5) * z**2 - log_near) / np.sqrt(2 * Wide(np.pi)))
    excess = np.where(far, fraction, hazard + z)
    value = np.where(far, -z * z / 2 - np.log(np.sqrt(2 * Wide(np.pi)) * (x + fraction)), log_near)
    return value, y * hazard, -hazard * excess


def poisson(y, a):
    rate = np.exp(np.minimum(a, 11000))
    return y * a - rate - sp.gammaln(float(y) + 1), y - rate, -rate


def student(y, a, df, scale):
    z = (a - y) / Wide(scale)
    bottom = df + z * z
    base = sp.gammaln((df + 1) / 2) - sp.gammaln(df / 2) - np.log(np.pi * df) / 2 - np.log(scale)
    slope = -(df + 1) * z / bottom / scale
    return (
        Wide(base) - (df + 1) / Wide(2) * np.log1p(z * z / df),
        slope,
        -(df + 1) * (df - z * z) / bottom**2 / scale**2,
    )


class Moments(NamedTuple):
    log_mean: float
    slope: float
    curvature: float
    shrinkage: float


def panels(specials: list[Any], reach: Any) -> np.ndarray:
    """Break points that accumulate geometrically at every special point."""
    steps = reach * np.geomspace(Wide(1e-12), Wide(1), 110)
    return np.unique(np.concatenate([np.concatenate([c - steps, [c], c + steps]) for c in specials]))


def brute_force(derivatives: Any, y: float, center: float, mean: float, variance: float, power: float) -> Moments:
    y, mean, variance, scale = Wide(y), Wide(mean), Wide(variance), np.sqrt(Wide(variance))
    log_tilted = lambda a: -((a - mean) ** 2) / (2 * variance) + Wide(power) * derivatives(y, a)[0]
    specials = [mean, Wide(center)]
    reach = abs(Wide(center) - mean) + 45 * scale
    for _ in range(6):  # close in on the highest point
        grid = panels(specials, reach)
        best = grid[np.nanargmax(log_tilted(grid))]
        specials = [mean, Wide(center), best]
    edges = panels(specials, reach)
    nodes, weights = np.polynomial.legendre.leggauss(24)
    half = np.diff(edges)[:, None] / 2
    a = ((edges[:-1, None] + edges[1:, None]) / 2 + half * nodes).ravel()
    value, slope, curve = derivatives(y, a)
    height = -((a - mean) ** 2) / (2 * variance) + Wide(power) * value
    height = np.where(np.isfinite(height), height, -np.inf)
    w = (half * weights).ravel() * np.exp(height - height.max())
    keep = w > 0
    w, a, value, slope, curve = w[keep], a[keep], value[keep], slope[keep], curve[keep]
    total = w.sum()
    expect = lambda f: (w * f).sum() / total
    if power == 0:
        return Moments(float(expect(value)), float(expect(slope)), float(expect(curve)), 1.0)
    log_mean = (np.log(total) + height.max() - np.log(2 * Wide(np.pi) * variance) / 2) / power
    shift = expect(a - best)
    shrinkage = expect((a - best - shift) ** 2) / variance
    g, h = (best - mean + shift) / (power * variance), (shrinkage - 1) / (power * variance)
    if power * variance * expect(abs(curve)) < 1:  # the scores then lose fewer digits
        g = expect(slope)
        h = expect(curve) + power * expect((slope - g) ** 2)
        shrinkage = 1 + power * variance * h
    return Moments(float(log_mean), float(g), float(h), float(shrinkage))


def errors(ours: np.ndarray, exact: np.ndarray, variance: np.ndarray, power: float) -> dict[str, np.ndarray]:
    """Of (row, [ℓ, g, h, r]): tilted mean in tilted sds, the others relative, with a floor where truth may vanish."""
    error = np.abs(ours - exact)
    return {
        "log_mean": error[:, 0] / np.maximum(1, np.abs(exact[:, 0])),
        "mean": power * np.sqrt(variance / exact[:, 3]) * error[:, 1],
        "slope": error[:, 1] / (np.abs(exact[:, 1]) + 1e-3 / np.sqrt(variance)),
        "variance": error[:, 3] / exact[:, 3],
        "curvature": error[:, 2] / (np.abs(exact[:, 2]) + 1e-3 / variance),
    }
