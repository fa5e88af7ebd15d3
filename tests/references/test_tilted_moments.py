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
import mpmath
import numpy as np
import pytest
from scipy import special as sp

from cavity.factors.clutter_problem import clutter
from cavity.factors.glm import likelihoods
from cavity.factors.mixtures.known import mixture
from cavity.families import Gaussian

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
    if power * variance * expect(abs(curve)) < 1:  # the scores then lose fewer digits
        g = expect(slope)
        h = expect(curve) + power * expect((slope - g) ** 2)
        shrinkage = 1 + power * variance * h
    return Moments(float(log_mean), float(g), float(h), float(shrinkage))


@partial(jax.jit, static_argnames="power")
def tilts(likelihood: Any, y: Any, mean: Any, variance: Any, power: float) -> Any:
    return jax.vmap(lambda *row: likelihood.tilt(*row, power))(y, mean, variance)


def worst_errors(case: Case, power: float) -> dict[str, np.ndarray]:
    """Errors over the grid: tilted mean in tilted sds, the others relative, with a floor where the truth may vanish."""
    grid = [(y, m, v) for y, m in case.pairs for v in VARIANCES if not overflows(case, m, v, power)]
    with jax.enable_x64(True):
        columns = [jnp.array(column) for column in zip(*grid, strict=True)]
        ours = np.stack([np.asarray(part) for part in tilts(case.likelihood, *columns, power)], -1)
    assert np.all(np.isfinite(ours))
    rows = [brute_force(case.derivatives, y, case.center(y), m, v, power) for y, m, v in grid]
    exact, v = np.array(rows), np.array(grid)[:, 2]
    error = np.abs(ours - exact)
    return {
        "log_mean": error[:, 0] / np.maximum(1, np.abs(exact[:, 0])),
        "mean": power * np.sqrt(v / exact[:, 3]) * error[:, 1],
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
    for what, error in worst_errors(CASES[name], power).items():
        assert np.max(error) < 1e-8, f"{what}: {np.max(error):.1e} in row {np.argmax(error)}"


def test_brute_force_against_mpmath() -> None:
    """The reference itself, on a bimodal and an edge-shaped case."""
    for name, y, mean, variance, power in [("student 1.5 0.05", 6.0, 0.0, 1.0, 0.5), ("logit", 1.0, 3.0, 1e6, 1.0)]:
        case = CASES[name]
        exact = by_mpmath(name, y, mean, variance, power)
        ours = brute_force(case.derivatives, y, case.center(y), mean, variance, power)
        np.testing.assert_allclose(ours, exact, rtol=1e-12)


def by_mpmath(name: str, y: float, mean: float, variance: float, power: float) -> Moments:
    with mpmath.workdps(30):
        scale = mpmath.sqrt(variance)
        if name == "logit":
            log_lik = lambda a: -mpmath.log1p(mpmath.exp(-y * a))
        else:
            df, width = (mpmath.mpf(part) for part in name.split()[1:])
            base = mpmath.loggamma((df + 1) / 2) - mpmath.loggamma(df / 2) - mpmath.log(mpmath.pi * df) / 2
            log_lik = lambda a: base - mpmath.log(width) - (df + 1) / 2 * mpmath.log1p(((a - y) / width) ** 2 / df)
        center = CASES[name].center(y)
        near = [center + side * mpmath.mpf(4) ** k / 100 for k in range(9) for side in (-1, 1)]
        far = [mean + k * scale / 2 for k in range(-24, 25)]
        breaks = sorted(point for point in {*near, *far, mpmath.mpf(center)} if abs(point - mean) <= 12 * scale)
        weight = lambda a: mpmath.exp(-((a - mean) ** 2) / (2 * mpmath.mpf(variance)) + power * log_lik(a))
        total, first, second = (mpmath.quad(lambda a, k=k: weight(a) * (a - mean) ** k, breaks) for k in range(3))
        log_mean = mpmath.log(total / (scale * mpmath.sqrt(2 * mpmath.pi))) / power
        shift = first / total
        shrinkage = (second / total - shift**2) / variance
        values = log_mean, shift / (power * variance), (shrinkage - 1) / (power * variance), shrinkage
        return Moments(*(float(value) for value in values))


# Factors that sum out an assignment: the definition, in one dimension and fifty digits


class Site(NamedTuple):
    slope: float  # of ℓ_α in the cavity's mean, here ν − τ m at the tilted variance
    mean: float
    variance: float
    precision: float


def exact_sites(
    x: float, log_other: list[Any], weights: list[float], noises: list[float], mean: float, v: float, power: float
) -> list[Site]:
    """Moments of Σ_h r_h (cavity tilted by component h), r_h ∝ exp ℓ_α(h), and the site they define."""
    x, mean, v, power = (mpmath.mpf(part) for part in (x, mean, v, power))
    logs, tilted = [*log_other], []
    for w, noise in zip(weights, noises, strict=True):
        spread = v / noise if power == 0 else mpmath.log1p(power * v / noise) / power
        square = (x - mean) ** 2 / (noise + power * v)
        logs.insert(len(tilted), mpmath.log(w) - (mpmath.log(2 * mpmath.pi * noise) + spread + square) / 2)
        variance = 1 / (1 / v + power / mpmath.mpf(noise))
        tilted.append((variance * power * (x - mean) / noise, variance))  # relative to the cavity's mean
    top = max(logs)
    total = sum(mpmath.exp(part - top) for part in logs)
    sites = []
    for j, (shift, variance) in enumerate(tilted):
        r = mpmath.exp(logs[j] - top) / total
        mean_hat = r * shift
        v_hat = r * (variance + (shift - mean_hat) ** 2) + (1 - r) * (v + mean_hat**2)
        slope = r * (x - mean) / noises[j] if power == 0 else mean_hat / (power * v)
        precision = r / noises[j] if power == 0 else (1 / v_hat - 1 / v) / power
        sites.append(Site(*(float(part) for part in (slope, mean_hat, v_hat, precision))))
    return sites


NOISES, WEIGHTS = [0.5, 2.0], [0.3, 0.7]
POINTS = [(x, m, v) for x in [0.1, 2.5, -60.0, 1e3] for m in [0.0, 3.0, -500.0] for v in VARIANCES]


def clutter_sites(x: float, m: float, v: float, power: float) -> list[Site]:
    with mpmath.workdps(50):
        log_clutter = mpmath.log(0.4) - mpmath.log(2 * mpmath.pi * 10) / 2 - mpmath.mpf(x) ** 2 / 20
        return exact_sites(x, [log_clutter], [0.6], [0.5], m, v, power)


def mixture_sites(x: float, m: float, v: float, power: float) -> list[Site]:
    with mpmath.workdps(50):
        return exact_sites(x, [], WEIGHTS, NOISES, m, v, power)


FACTORS = {
    "clutter": (clutter(0.4, 0.5, 10.0), 1, clutter_sites),
    "mixture": (mixture(WEIGHTS, NOISES), 2, mixture_sites),
}


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("name", FACTORS)
def test_mixture_sites(name: str, power: float) -> None:
    errors = mixture_errors(name, power)
    for what, error in errors.items():
        assert np.max(error) < 1e-8, f"{what}: {np.max(error):.1e} in row {np.argmax(error)}"


def mixture_errors(name: str, power: float) -> dict[str, np.ndarray]:
    factor, count, reference = FACTORS[name]
    x, m, v = (np.repeat(np.array(column)[:, None], count, 1) for column in zip(*POINTS, strict=True))
    lead = (len(POINTS), count) if count > 1 else (len(POINTS),)
    with jax.enable_x64(True):
        cavity = Gaussian((m / v).reshape(*lead, 1), (1 / v).reshape(*lead, 1, 1))
        site = jax.jit(jax.vmap(lambda c, datum: factor.site(c, datum, power)))(cavity, jnp.array(x[:, :1]))
        shift, precision = (np.asarray(leaf).reshape(m.shape) for leaf in (site.shift, site.precision))
    assert np.all(np.isfinite(shift))
    assert np.all(np.isfinite(precision))
    exact = np.array([reference(*point, power) for point in POINTS])
    slope, mean, variance, exact_precision = np.moveaxis(exact, -1, 0)
    v_hat = 1 / (1 / v + power * precision)
    pull = shift - precision * m
    return {
        "mean": np.abs(power * v_hat * pull - mean) / np.sqrt(variance),
        "slope": np.abs(pull * (v_hat / v) - slope) / (np.abs(slope) + 1e-3 / np.sqrt(v)),
        "variance": np.abs(v_hat / variance - 1),
        "precision": np.abs(precision - exact_precision) / (np.abs(exact_precision) + 1e-3 / v),
    }
