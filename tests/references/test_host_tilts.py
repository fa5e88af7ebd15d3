"""Tilts of many rows on the host: against brute force, against the traced definition, and row by row."""

import ast
import math
import subprocess
import sys
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

import cavity
from cavity import quadrature
from cavity.factors.glm import likelihoods, line
from cavity.factors.glm.likelihoods import traced
from cavity.quadrature import hermite
from cavity.quadrature.kernel import Rows
from tests.references.brute_force import Wide, brute_force, errors, logit, poisson, probit, student


class Case(NamedTuple):
    likelihood: Any
    derivatives: Any  # (y, a) -> l, l', l'' in 80 bits
    center: Any  # of y
    observations: list[float]
    means: list[float]


def gaussian(y, a):
    return -np.log(2 * np.pi * 0.3) / 2 - (y - a) ** 2 / Wide(0.6), (y - a) / Wide(0.3), 0 * a - 1 / Wide(0.3)


def student_case(df: float, scale: float) -> Case:
    observations = [0.3 * scale, 6 * scale, 30 * scale, -100 * scale]
    derivatives = partial(student, df=df, scale=scale)
    return Case(likelihoods.student_t(df, scale), derivatives, lambda y: y, observations, [0.0, 2.0, -50.0])


MEANS = [-50.0, -20.0, -5.0, 0.0, 0.7, 3.0, 20.0, 50.0]
log_count = lambda y: float(np.log(max(y, 1.0)))
CASES = {
    "logit": Case(likelihoods.Logit(), logit, lambda y: 0.0, [1.0, -1.0], [*MEANS, -1e3, 1e3]),
    "probit": Case(likelihoods.Probit(), probit, lambda y: 0.0, [1.0, -1.0], [*MEANS, -1e3, 1e3]),
    "poisson": Case(likelihoods.Poisson(), poisson, log_count, [0.0, 3.0, 1e3, 1e6], [*MEANS, 7.0, 13.8]),
    "gaussian": Case(likelihoods.gaussian_noise(0.3), gaussian, lambda y: y, [0.0, 1.0, 50.0], [0.0, -3.0, -50.0]),
    **{f"student {df} {s}": student_case(df, s) for df, s in [(1.5, 0.05), (4.0, 1.0), (30.0, 2.0), (1.5, 1.0)]},
}
POWERS = [1.0, 0.5, 0.1, 0.0]
VARIANCES = [1e-12, 1e-6, 1e-3, 0.03, 0.3, 1.0, 4.0, 25.0, 1e2, 1e4, 1e6]


def measurable(case: Case, y: float, mean: float, variance: float, power: float) -> bool:
    """Whether ℓ is within double precision, and l at the tilted mode not so large that its rounding is what counts."""
    if not isinstance(case.likelihood, likelihoods.Poisson):
        return True
    return mean + variance / 2 < 600 if power == 0 else power * variance * np.exp(mean) < 1e6 or variance > 1e-3


def worst(case: Case, grid: list[tuple[float, ...]], power: float, tilts: Any = None) -> str:
    """Empty, or what is wrong in which row."""
    grid = [row for row in grid if measurable(case, *row, power)]
    y, mean, variance = np.array(grid).T
    with np.errstate(all="raise"):  # nothing leaks
        ours = np.stack((tilts or case.likelihood.tilts)(y, mean, variance, power), -1)
    exact = np.array([brute_force(case.derivatives, y, case.center(y), m, v, power) for y, m, v in grid])
    found = errors(ours, exact, variance, power)
    return "; ".join(
        f"{what} {error[np.argmax(error)]:.1e} at {grid[np.argmax(error)]}"
        for what, error in found.items()
        if not np.max(error) < 1e-8
    )


def few(case: Case, seed: int, number: int = 30) -> list[tuple[float, ...]]:
    """Every observation, mean and variance at least once or twice, in changing company."""
    grid = list(product(case.observations, case.means, VARIANCES))
    return [grid[i] for i in np.random.default_rng(seed).choice(len(grid), min(number, len(grid)), replace=False)]


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("name", CASES)
def test_tilts(name: str, power: float) -> None:
    seed = 7 * list(CASES).index(name) + POWERS.index(power)
    assert not worst(CASES[name], few(CASES[name], seed), power)


@pytest.mark.slow
@pytest.mark.parametrize("power", [*POWERS, 0.01])
@pytest.mark.parametrize("name", CASES)
def test_tilts_everywhere(name: str, power: float) -> None:
    case = CASES[name]
    assert not worst(case, list(product(case.observations, case.means, VARIANCES)), power)


@pytest.mark.parametrize(("name", "power"), [("gaussian", 1.0), ("gaussian", 0.1), ("probit", 1.0), ("poisson", 0.0)])
def test_closed_forms_and_quadrature(name: str, power: float) -> None:
    """The quadrature, where a closed form stands in for it."""
    likelihood = CASES[name].likelihood
    y, mean, variance = np.array(few(CASES[name], 3, 300)).T
    keep = (power > 0) | ((mean + variance / 2 < 30) & (y < 1e4))
    y, mean, variance = y[keep], mean[keep], variance[keep]
    closed = likelihood.tilts(y, mean, variance, power)
    ours = quadrature.tilts(likelihood.rule(y, power), y, mean, variance, power)
    ours = ours._replace(log_mean=ours.log_mean + likelihood.log_base(y))
    for what, error in errors(np.stack(ours, -1), np.stack(closed, -1), variance, power).items():
        assert np.max(error) < 1e-8, what


HARD = {
    "mass behind an edge, thousands of sds away": ("logit", [(1.0, -4e3, 1.0), (1.0, -4e3, 9.0), (-1.0, 3e4, 25.0)]),
    "edges of a thousandth of the cavity": ("probit", [(1.0, -3e3, 1e6), (1.0, 8e3, 1e6), (-1.0, 5e3, 1e8)]),
    "huge counts": (
        "poisson",
        [(1e6, 0.0, 1.0), (1e6, 13.0, 1e6), (1e6, 14.5, 0.1), (1e6, -30.0, 1e2), (0.0, 50.0, 1.0)],
    ),
    "a spike in a wide cavity": ("student 1.5 0.05", [(3.0, 0.0, 1.0), (40.0, 0.0, 1e2), (0.0, 0.0, 1e8)]),
    "two modes": ("student 4.0 1.0", [(30.0, 0.0, v) for v in (10.0, 20.0, 30.0, 35.0, 40.0, 60.0)]),
    "two modes far apart": ("student 30.0 2.0", [(60.0, 0.0, v) for v in (5.0, 10.0, 15.0, 20.0, 25.0, 40.0)]),
}


@pytest.mark.parametrize("power", [1.0, 0.5])
@pytest.mark.parametrize("what", HARD)
def test_hard(what: str, power: float) -> None:
    name, rows = HARD[what]
    assert not worst(CASES[name], rows, power)


def test_two_modes_of_equal_mass() -> None:
    """Between a variance where the cavity has nearly all of the mass and one where the spike has."""
    likelihood, n = likelihoods.student_t(4.0, 1.0), 60
    variance = np.linspace(8.0, 150.0, n)
    tilt = likelihood.tilts(np.full(n, 30.0), np.zeros(n), variance, 1.0)
    share = variance * tilt.slope / 30.0  # of the way from the cavity's mean to the observation
    assert share[0] < 0.2
    assert share[-1] > 0.8
    middle = int(np.argmin(np.abs(share - 0.5)))
    assert not worst(CASES["student 4.0 1.0"], [(30.0, 0.0, float(variance[middle]))], 1.0)


def test_digits_of_narrow_cavities() -> None:
    """g and h relative to themselves, though v h is 1e-12 and less."""
    y, mean = np.array([1.0, -1.0, 1.0]), np.array([0.3, 3.0, 30.0])
    for v in [0.0, 1e-14, 1e-12, 1e-8]:
        tilt = likelihoods.Logit().tilts(y, mean, np.full(3, v), 1.0)
        for row in range(3):
            p = 1 / (1 + mpmath.exp(mpmath.mpf(y[row] * mean[row])))
            np.testing.assert_allclose(tilt.slope[row], float(y[row] * p), rtol=1e-7 if v > 1e-10 else 1e-11)
            exact = float(-p * (1 - p))
            np.testing.assert_allclose(tilt.curvature[row], exact, rtol=3e-7 if v > 1e-10 else 1e-10)


def test_rows_do_not_see_each_other() -> None:
    """Bit for bit, whatever else is asked, in whatever order; and improper rows harm nobody."""
    rng = np.random.default_rng(0)
    variance = 10 ** rng.uniform(-6, 6, 400)
    mean = rng.normal(size=400) * rng.choice([1.0, 30.0], 400)
    for likelihood, y in [
        (likelihoods.Logit(), rng.choice([-1.0, 1.0], 400)),
        (likelihoods.Poisson(), rng.poisson(3.0, 400).astype(float)),
        (likelihoods.student_t(4.0, 0.1), mean + 10 * rng.normal(size=400)),
    ]:
        together = np.stack(likelihood.tilts(y, mean, variance, 1.0))
        order = rng.permutation(400)
        bad_mean, bad = mean[order].copy(), variance[order].copy()
        bad[::7], bad[1::7], bad_mean[2::7] = -1.0, np.nan, np.inf
        with np.errstate(all="raise"):
            among_bad = np.stack(likelihood.tilts(y[order], bad_mean, bad, 1.0))
        fine = np.isfinite(bad_mean) & (bad >= 0)
        np.testing.assert_array_equal(among_bad[:, fine], together[:, order][:, fine])
        assert np.all(np.isnan(among_bad[:, ~fine]))
        alone = np.concatenate(
            [likelihood.tilts(y[i : i + 1], mean[i : i + 1], variance[i : i + 1], 1.0) for i in range(40)], 1
        )
        np.testing.assert_array_equal(alone, together[:, :40])


@pytest.mark.parametrize("name", ["logit", "probit", "poisson", "gaussian"])
@pytest.mark.parametrize("power", [1.0, 0.0])
def test_improper_variances_give_nan(name: str, power: float) -> None:
    tilt = CASES[name].likelihood.tilts(np.ones(4), np.zeros(4), np.array([-0.5, np.nan, np.inf, 1.0]), power)
    for part in tilt[:3]:
        assert np.all(np.isnan(part[:3]))
        assert np.isfinite(part[3])


# The traced definition


@partial(jax.jit, static_argnames=("likelihood", "power"))
def traced_tilts(likelihood: Any, y: Any, mean: Any, variance: Any, power: float) -> Any:
    return jax.vmap(lambda *row: likelihood.tilt(*row, power))(y, mean, variance)


@pytest.mark.parametrize(
    ("name", "power"), [("logit", 1.0), ("student 4.0 1.0", 0.5), ("probit", 1.0), ("poisson", 0.0)]
)
def test_equal_to_the_definition(name: str, power: float) -> None:
    case = CASES[name]
    rows = [row for row in few(case, 5, 60) if measurable(case, *row, power)]
    columns = np.array(rows).T
    with jax.enable_x64(True):
        exact = np.stack([np.asarray(part) for part in traced_tilts(case.likelihood, *columns, power)], -1)
    ours = np.stack(case.likelihood.tilts(*columns, power), -1)
    for what, error in errors(ours, exact, columns[2], power).items():
        assert np.max(error) < 1e-8, what


def test_the_last_resort() -> None:
    """The walk gives kernels, as the rules do, for any number of rows with one program."""
    likelihood = likelihoods.Poisson()
    rng = np.random.default_rng(1)
    y, mean, variance = rng.poisson(3.0, 19).astype(float), rng.normal(size=19), rng.exponential(size=19)
    walked = traced.walk(likelihood, y, mean, variance, 1.0)
    tilt = quadrature.tilts(likelihood.rule(y, 1.0), y, mean, variance, 1.0)
    np.testing.assert_allclose(np.stack(walked), np.stack(tilt), rtol=1e-9, atol=1e-12)
    refuse = likelihood.rule(y, 1.0)._replace(derivatives=lambda y, a: (np.nan * a, a, a))
    resort = lambda y, mean, variance: traced.walk(likelihood, y, mean, variance, 1.0)
    np.testing.assert_array_equal(quadrature.tilts(refuse, y, mean, variance, 1.0, resort), np.stack(walked))
    assert np.all(np.isnan(quadrature.tilts(refuse, y, mean, variance, 1.0)))


def test_asking_many_rows_is_asking_each() -> None:
    likelihood, rng = likelihoods.Probit(), np.random.default_rng(2)
    y, mean, variance = rng.choice([-1.0, 1.0], 12), 3 * rng.normal(size=12), 10 ** rng.uniform(-3, 3, 12)
    variance[3], variance[4] = -1.0, np.nan
    proper = np.arange(12) != 5
    tilts = lambda y, m, v: line.tilts_of(likelihood, y, m, v, 1.0)
    ask = lambda y, m, v, proper: line.ask_with_scales(tilts(y, m, v), m, v, proper, 1.0)
    with np.errstate(all="ignore"):
        asked = ask(y, mean, variance, proper)
    with jax.enable_x64(True):
        exact = jax.jit(ask)(y, mean, variance, proper)
    assert np.array_equal(asked.valid, ~np.isin(np.arange(12), [3, 4, 5]))
    for ours, reference in zip(jax.tree.leaves(asked), jax.tree.leaves(exact), strict=True):
        np.testing.assert_allclose(ours, np.asarray(reference), rtol=1e-9, atol=1e-12)
    present = np.linspace(0, 1, 12)
    for function in (line.log_replacement, lambda s, m, v, a, p: line.without(s, m, v, a * p)):
        args = asked.site, mean, np.abs(np.nan_to_num(variance)), 0.5, present
        with jax.enable_x64(True):
            exact = function(*jax.tree.map(jnp.asarray, args))
        for ours, reference in zip(jax.tree.leaves(function(*args)), jax.tree.leaves(exact), strict=True):
            assert isinstance(ours, np.ndarray)
            np.testing.assert_allclose(ours, np.asarray(reference), rtol=1e-12)


# Users' own


def binomial_numpy(y, a):
    count, total = y
    return count * a - total * np.logaddexp(0.0, a)


def binomial_jax(y, a):
    count, total = y
    return count * a - total * jax.nn.softplus(a)


def binomial_exact(total):
    def derivatives(count, a):
        value, slope, curve = logit(Wide(1), a)
        return count * a + total * (value - a), count - total * (1 - slope), total * curve

    return derivatives


def log_odds(xp):
    return lambda y: xp.log((y[0] + 0.5) / (y[1] - y[0] + 0.5))


@pytest.mark.parametrize(
    ("function", "center"),
    [(binomial_numpy, None), (binomial_numpy, log_odds(np)), (binomial_jax, None), (binomial_jax, log_odds(jnp))],
)
def test_columns_of_the_user(function: Any, center: Any) -> None:
    """Counts out of totals, by a function of NumPy or of JAX."""
    likelihood, total = likelihoods.user(function, center), 12.0
    exact = Case(likelihood, binomial_exact(total), lambda y: float(np.log((y + 0.5) / (12.5 - y))), [], [])
    tilts = lambda y, mean, variance, power: likelihood.tilts((y, np.full_like(y, total)), mean, variance, power)
    grid = [(y, m, v) for y in (0.0, 4.0, 12.0) for m in (0.0, -3.0, 9.0) for v in (1e-12, 1e-4, 0.1, 1.0, 1e2, 1e5)]
    for power in (1.0, 0.5, 0.0):
        assert not worst(exact, grid, power, tilts)


def test_users_functions_in_narrow_cavities() -> None:
    """A few points are enough, and are known to be: for any number of trials, from values alone or with derivatives."""
    rng = np.random.default_rng(5)
    for function in (binomial_numpy, binomial_jax):
        likelihood = likelihoods.user(function)
        for total in (1.0, 12.0, 150.0):
            exact = Case(
                likelihood, binomial_exact(total), lambda y, n=total: float(np.log((y + 0.5) / (n + 0.5 - y))), [], []
            )
            y, mean = np.floor(rng.uniform(0, total + 1, 60)), 2 * rng.normal(size=60)
            variance = 10 ** rng.uniform(-8, -2, 60)
            tilts = lambda y, m, v, power, n=total, of=likelihood: of.tilts((y, np.full_like(y, n)), m, v, power)
            assert not worst(exact, list(zip(y, mean, variance, strict=True)), 1.0, tilts), (function, total)


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_mirror_images(power: float) -> None:
    """Labels, means and their signs turned around: at zero too, which has a sign of its own."""
    likelihood, variance = likelihoods.Logit(), np.repeat([1e-4, 1e-2, 0.3, 1.0, 30.0], 5)
    mean = np.tile([0.0, -0.0, 0.4, -3.0, 20.0], 5)
    one, other = (likelihood.tilts(np.full(25, y), y * mean, variance, power) for y in (1.0, -1.0))
    for left, right in zip(one, (other[0], -other[1], *other[2:]), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-14)


def test_a_rule_that_all_rows_begin_with_and_some_go_on_from() -> None:
    """All are rough enough for five nodes and few need seven: as each row by itself, and the first rule is not kept."""
    likelihood, rng = likelihoods.Poisson(), np.random.default_rng(2)
    mean, scale = rng.normal(size=20_000), 10 ** rng.uniform(-2.5, -0.5, 20_000)
    y = rng.poisson(np.exp(mean)).astype(float)
    kernel, rows = likelihood.rule(y, 1.0), Rows(y, mean, scale)
    here = kernel.derivatives(y, mean)
    (_, too_smooth), (n_nodes, most) = hermite.LADDER[:2]
    rough = hermite.roughness(kernel, rows, here, 1.0)
    good = hermite.tilts_of(hermite.RULES[n_nodes], kernel, rows, here, 1.0)[1]
    for_it = (too_smooth < rough) & (rough <= most)
    chosen = np.concatenate([np.flatnonzero(for_it & ok)[:n] for ok, n in ((good, 200), (~good, 20))])
    assert np.sum(~good[chosen]) > 0
    y, mean, variance = y[chosen], mean[chosen], scale[chosen] ** 2
    together = likelihood.tilts(y, mean, variance, 1.0)
    each = [likelihood.tilts(y[i : i + 1], mean[i : i + 1], variance[i : i + 1], 1.0) for i in range(len(y))]
    for whole, parts in zip(together, zip(*each, strict=True), strict=True):
        np.testing.assert_array_equal(whole, np.concatenate(parts))


def test_rules_that_are_spread_are_exact() -> None:
    """Up to the degree that their last coefficients do not see, and two more."""
    moments = [1.0, 0.0, 1.0, 0.0, 3.0, 0.0, 15.0, 0.0, 105.0, 0.0, 945.0]
    for rule, _ in hermite.SPREAD_RULES:
        nodes, n = rule.nodes[:, 0], len(rule.nodes)
        for degree in range(n + 3 if n < 9 else n + 2):
            np.testing.assert_allclose(rule.weights @ nodes**degree, moments[degree], rtol=2e-5, atol=1e-7)
        values = nodes ** (n - 1) / math.sqrt(math.factorial(n - 1))
        np.testing.assert_allclose(rule.reads[1:] @ values, [0.0, 1.0], atol=1e-9)


def test_rows_of_all_kinds_take_few_steps() -> None:
    """What counts where rows are few is how often the likelihood is asked."""
    likelihood, rng, calls = likelihoods.Logit(), np.random.default_rng(0), []
    y, mean = rng.choice([-1.0, 1.0], 200), rng.normal(size=200)
    rule = likelihood.rule(y, 1.0)
    counted = lambda function: lambda y, a: (calls.append(a.size), function(y, a))[1]
    rule = rule._replace(derivatives=counted(rule.derivatives), level=counted(rule.level))
    variance = 10 ** rng.uniform(0, 2, 200)
    quadrature.tilts(rule, y, mean, variance, 1.0)
    assert len(calls) <= 20
    assert sum(calls) <= 100 * 200


def test_an_edge_that_nobody_named() -> None:
    """A likelihood without a mode, whose centre is not said."""
    case = Case(likelihoods.user(lambda y, a: -np.logaddexp(0.0, -y * a)), logit, lambda y: 0.0, [], [])
    assert not worst(
        case, [(s, m, v) for s in (1.0, -1.0) for m in (0.0, 3.0, 80.0) for v in (1e-8, 1.0, 1e2, 1e4)], 1.0
    )


def test_a_function_of_jax_is_compiled_once() -> None:
    calls = []

    def log_lik(y, a):
        calls.append(y)
        return -jnp.log1p((y - a) ** 2)

    likelihood = likelihoods.user(log_lik)
    for n in (3, 50, 1000):
        likelihood.tilts(np.zeros(n), np.linspace(-3, 3, n), np.linspace(1e-3, 9, n), 1.0)
        seen = len(calls)
        likelihood.tilts(np.zeros(n + 1), np.zeros(n + 1), np.ones(n + 1), 1.0)
        assert len(calls) == seen  # one trial with numbers and one trace, all in the first call
    assert len(calls) <= 4


@pytest.mark.parametrize(
    ("log_lik", "message"),
    [
        (lambda y, a: -a if a > 0 else a, "log_lik must be .*TracerBoolConversionError"),
        (lambda y, a: -0.5 * (y - jnp.array([a])) ** 2, "log_lik must return a scalar"),
        (lambda y, a: None, "log_lik must return a scalar"),
    ],
)
def test_functions_that_will_not_do_are_named(log_lik: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        likelihoods.user(log_lik).tilts(np.ones(3), np.zeros(3), np.ones(3), 1.0)


def test_columns_are_checked_and_fitted() -> None:
    rng = np.random.default_rng(3)
    features, total = rng.normal(size=(40, 2)), np.full(40, 9.0)
    count = rng.binomial(9, 0.4, 40).astype(float)
    factor, prior = cavity.factors.glm(binomial_jax), cavity.Gaussian.isotropic(2)
    result = cavity.fit(factor, prior, (features, (count, total)), cavity.ep())
    tall = np.repeat(features, 9, 0), np.concatenate([[1.0] * int(k) + [-1.0] * int(9 - k) for k in count])
    repeated = cavity.fit(cavity.factors.logit(), prior, tall, cavity.ep())
    np.testing.assert_allclose(result.posterior.mean, repeated.posterior.mean, atol=0.02)
    with pytest.raises(ValueError, match="y must have one entry per row of X"):
        cavity.fit(factor, prior, (features, (count, total[:3])), cavity.ep())
    with pytest.raises(ValueError, match="y must be finite"):
        cavity.fit(factor, prior, (features, (count, total * np.nan)), cavity.ep())


def test_offsets_nest() -> None:
    inner = likelihoods.user(binomial_numpy)
    y, first, second = (np.array([2.0, 3.0]), np.array([9.0, 4.0])), np.array([0.5, -1.0]), np.array([0.2, 0.1])
    nested = likelihoods.Offset(likelihoods.Offset(inner))
    checked = nested.check(((y, first), second))
    ours = nested.tilts(checked, np.zeros(2), np.ones(2), 1.0)
    np.testing.assert_array_equal(ours, inner.tilts(y, first + second, np.ones(2), 1.0))


def test_quadrature_runs_without_jax() -> None:
    """In a process that cannot import JAX; the package's own `__init__` is left out, which may."""
    code = f"""
import sys, types
sys.modules["jax"], package = None, types.ModuleType("cavity")
package.__path__ = {[*cavity.__path__]}
sys.modules["cavity"] = package
import numpy as np
from cavity.quadrature import Kernel, tilts
def noise(y, a):
    return -0.5 * (y - a) ** 2, y - a, 0 * a - 1
tilt = tilts(Kernel(noise, lambda y, mean: y, lambda y: np.inf), np.ones(2), np.zeros(2), np.array([0.01, 3.0]), 1.0)
print(*tilt.slope)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout, done.stderr
    np.testing.assert_allclose([float(part) for part in done.stdout.split()], [1 / 1.01, 1 / 4], rtol=1e-9)


OF_THE_WALK = {"quadrature/adaptive.py", "quadrature/traced_starts.py", "quadrature/traced_walk.py"}
TRACED = {"special/traced.py", "factors/glm/likelihoods/traced.py"} | OF_THE_WALK


def test_the_host_does_not_import_jax() -> None:
    """No module of the host imports JAX, or a module that is traced, before something is traced."""
    root = Path(cavity.__file__).parent
    places = [root / "special", root / "quadrature", root / "factors/glm/likelihoods"]
    files = [root / "factors/glm/line.py", *(path for place in places for path in place.glob("*.py"))]
    for path in files:
        if str(path.relative_to(root)) in TRACED:
            continue
        for node in ast.parse(path.read_text()).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            module = getattr(node, "module", None) or ""
            used = {*names, *module.split(".")}
            assert not used & {"jax", "adaptive", "traced", "traced_starts", "traced_walk"}, path
