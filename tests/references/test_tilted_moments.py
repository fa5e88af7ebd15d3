"""Tilted moments of every likelihood against brute force, one row at a time under JAX.

`test_brute_force_against_mpmath` holds the reference itself to mpmath.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from cavity.factors.clutter_problem import clutter
from cavity.factors.glm import likelihoods
from cavity.factors.mixtures.known import mixture
from cavity.families import Gaussian
from tests.references.brute_force import Moments, Wide, brute_force, errors, logit, poisson, probit, student

POWERS = [1.0, 0.5, 0.01, 0.0]
VARIANCES = [1e-6, 1e-2, 1.0, 1e2, 1e6]


class Case(NamedTuple):
    likelihood: Any
    derivatives: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, ...]]  # (y, a) -> l, l', l''
    center: Callable[[float], float]
    pairs: list[tuple[float, float]]  # (y, m)


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


@partial(jax.jit, static_argnames="power")
def tilts(likelihood: Any, y: Any, mean: Any, variance: Any, power: float) -> Any:
    return jax.vmap(lambda *row: likelihood.tilt(*row, power))(y, mean, variance)


def worst_errors(case: Case, power: float) -> dict[str, np.ndarray]:
    """Errors over the grid."""
    grid = [(y, m, v) for y, m in case.pairs for v in VARIANCES if not overflows(case, m, v, power)]
    with jax.enable_x64(True):
        columns = [jnp.array(column) for column in zip(*grid, strict=True)]
        ours = np.stack([np.asarray(part) for part in tilts(case.likelihood, *columns, power)], -1)
    assert np.all(np.isfinite(ours))
    rows = [brute_force(case.derivatives, y, case.center(y), m, v, power) for y, m, v in grid]
    exact, v = np.array(rows), np.array(grid)[:, 2]
    return errors(ours, exact, v, power)


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
