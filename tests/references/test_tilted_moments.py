"""Tilted moments of every likelihood against brute force: 80-bit sums over panels graded towards every feature.

The reference shares nothing with the library: likelihoods and their derivatives are written out in NumPy, and the
integral is a Gauss–Legendre sum over hundreds of panels that shrink geometrically towards the cavity's mean, the
likelihood's centre and the tilted mode. `test_brute_force_against_mpmath` holds the reference itself to mpmath.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special as sp

from cavity.factors import likelihoods

POWERS = [1.0, 0.5, 0.01, 0.0]
VARIANCES = [1e-6, 1e-2, 1.0, 1e2, 1e6]
Wide = np.longdouble


class Case(NamedTuple):
    likelihood: Any
    derivatives: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, ...]]  # (y, a) -> l, l', l''
    center: Callable[[float], float]
    pairs: list[tuple[float, float]]  # (y, m)


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


SIGNED = [(1.0, 0.0), (1.0, 3.0), (-1.0, 3.0), (1.0, -40.0), (1.0, 40.0), (-1.0, 1e3), (1.0, 1e3)]
CASES = {
    "logit": Case(likelihoods.Logit(), logit, lambda y: 0.0, SIGNED),
    "probit": Case(likelihoods.Probit(), probit, lambda y: 0.0, SIGNED),
    "poisson": Case(
        likelihoods.Poisson(),
        poisson,
        lambda y: float(np.log(max(y, 1.0))),
        [(0.0, 0.0), (3.0, 1.0), (0.0, 20.0), (50.0, -20.0), (1e4, 9.0), (2.0, -1e3), (0.0, 50.0)],
    ),
    "gaussian": Case(
        likelihoods.gaussian_noise(0.3),
        lambda y, a: (
            -np.log(2 * np.pi * 0.3) / 2 - (y - a) ** 2 / Wide(0.6),
            (y - a) / Wide(0.3),
            0 * a - 1 / Wide(0.3),
        ),
        lambda y: y,
        [(0.0, 0.0), (1.0, -3.0), (1e3, 0.0)],
    ),
    **{
        f"student {df} {scale}": Case(
            likelihoods.student_t(df, scale),
            partial(student, df=df, scale=scale),
            lambda y: y,
            [(0.0, 0.0), (1.0, -0.5), (6.0, 0.0), (40.0, 0.0), (1e3, -1e3), (0.012, 0.0)],
        )
        for df, scale in [(4.0, 1.0), (1.5, 0.05), (30.0, 2.0)]
    },
}


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
    if shrinkage > 0.5:
        g = expect(slope)
        h = expect(curve) + power * expect((slope - g) ** 2)
        shrinkage = 1 + power * variance * h
    return Moments(float(log_mean), float(g), float(h), float(shrinkage))


def worst_errors(case: Case, power: float) -> dict[str, float]:
    """Largest errors over the grid: tilted mean in tilted sds, the rest relative (log_mean and g with a unit floor)."""
    grid = [(y, m, v) for y, m in case.pairs for v in VARIANCES if not overflows(case, m, v, power)]
    with jax.enable_x64(True):
        y, m, v = (jnp.array(column) for column in zip(*grid, strict=True))
        ours = jax.jit(jax.vmap(lambda *row: case.likelihood.tilt(*row, power)))(y, m, v)
        ours = np.stack([np.asarray(part) for part in ours], -1)
    assert np.all(np.isfinite(ours))
    rows = [brute_force(case.derivatives, *row[:1], case.center(row[0]), *row[1:], power) for row in grid]
    exact, v = np.array(rows), np.array(grid)[:, 2]
    sd = np.sqrt(v * exact[:, 3])
    error = np.abs(ours - exact)
    return {
        "log_mean": error[:, 0] / np.maximum(1, np.abs(exact[:, 0])),
        "mean": (power * v * error[:, 1] / sd) if power else 0 * v,
        "slope": error[:, 1] / (np.abs(exact[:, 1]) + 1e-3 / np.sqrt(v)),
        "variance": error[:, 3] / exact[:, 3],
        "curvature": error[:, 2] / (np.abs(exact[:, 2]) + 1e-3 / v),
    }


def overflows(case: Case, mean: float, variance: float, power: float) -> bool:
    """Whether E[log p] itself is beyond double precision."""
    return isinstance(case.likelihood, likelihoods.Poisson) and power == 0 and mean + variance / 2 > 700


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("name", CASES)
def test_tilt(name: str, power: float) -> None:
    errors = worst_errors(CASES[name], power)
    for what, error in errors.items():
        assert np.max(error) < 1e-8, f"{what}: {np.max(error):.1e} in row {np.argmax(error)}"
