"""Mean fields by products and in place equal the general engine, which asks row by row: sums, terms, errors, skips."""

import numpy as np
import pytest
from scipy import sparse

import cavity
from cavity.factors.glm import coordinates
from cavity.factors.glm.rows import SparseRows
from cavity.inference.contract import Rows, Setting
from cavity.inference.pull import Each
from cavity.inference.traced import Traced
from tests.registry import assert_trees_close, thinned

N, D = 60, 5
RNG = np.random.default_rng(8)
X = RNG.normal(size=(N, D)) * (RNG.uniform(size=(N, D)) < 0.7)
ACTIVATION = X @ RNG.normal(size=D)
SIGNS = np.where(ACTIVATION + RNG.normal(size=N) > 0, 1.0, -1.0)
COUNTS = RNG.poisson(np.exp(0.5 * ACTIVATION)).astype(float)
REALS = ACTIVATION + RNG.standard_t(2.0, size=N)
MODELS = {
    "probit": (cavity.factors.probit(), SIGNS),
    "logit": (cavity.factors.logit(), SIGNS),
    "poisson": (cavity.factors.poisson(), COUNTS),
    "student-t": (cavity.factors.student_t(4.0, 0.7), REALS),
    "gaussian": (cavity.factors.gaussian(0.5), REALS),
}
POWERS = (1.0, 0.5, 0)
WEIGHTS = {
    "alike": np.broadcast_to(1.0, N),
    "fractions": np.where(RNG.uniform(size=N) < 0.2, 0.0, RNG.choice([0.25, 1.0, 1.7], N)),
}
CASES = [(model, power, weights) for model in MODELS for power in POWERS for weights in WEIGHTS]
QUICK = [(model, power, "fractions") for model, power in (("probit", 1.0), ("logit", 0), ("student-t", 0.5))]
cases = pytest.mark.parametrize(("model", "power", "weights"), thinned(CASES, lambda *case: case in QUICK))

PRIOR = cavity.DiagonalGaussian.from_mean(RNG.normal(size=D), RNG.uniform(0.5, 2.0, D))
SITES = cavity.DiagonalGaussian(0.1 * RNG.normal(size=(N, D)), RNG.uniform(0.0, 0.2, (N, D)))
Q = PRIOR + cavity.DiagonalGaussian(SITES.shift.sum(0), SITES.precision.sum(0))
SHARED = cavity.DiagonalGaussian(SITES.shift.mean(0), SITES.precision.mean(0))
EXACT = {"rtol": 1e-10, "atol": 1e-11}
QUADRATURE = {"rtol": 2e-8, "atol": 2e-8}  # what two rules have in common, of numbers of size one


def close(model, power):
    """How nearly two ways of a tilt are equal."""
    closed = model == "gaussian" or MODELS[model][0].likelihood.is_closed(power)
    return EXACT if closed else QUADRATURE


def both(model, features=X):
    """The sums in question, and those of the general engine."""
    factor, y = MODELS[model]
    ours = factor.sums(PRIOR, (features, y), None)
    assert isinstance(ours, coordinates.InCoordinates)
    return ours, Traced(Each(factor), PRIOR)


def rows_of(model, weights, sites=None, features=X):
    return Rows((features, MODELS[model][1]), WEIGHTS[weights], sites)


def same(ours, theirs, tolerance=EXACT):
    """Hold what both found equal; whether a step is known to be safe, and scales that nobody reads, are left out."""
    assert_trees_close(
        ours._replace(safe=None, log_scale=None), theirs._replace(safe=None, log_scale=None), **tolerance
    )


def views(sums, site, power, present=1.0):
    return [each.view(Q, site, present, power, N) for each in sums]


@cases
def test_rows_that_share_a_site(model, power, weights):
    sums, rows, setting = both(model), rows_of(model, weights), Setting(power)
    ours, theirs = (
        each.estimates(view, rows, setting) for each, view in zip(sums, views(sums, SHARED, power), strict=True)
    )
    same(ours, theirs, close(model, power))
    asked = sums[0].with_scales(*in_shared_cavity(sums[0], rows, setting))
    assert_trees_close(ours.total, asked.total, rtol=1e-10, atol=1e-10)
    assert not ours.safe or np.all(ours.total.precision >= 0)


def in_shared_cavity(sums, rows, setting):
    chunk, cavity = sums.chunk_of(rows, setting), sums.view(Q, SHARED, 1.0, setting.power, N).cavity
    return chunk, cavity, chunk.tilts(cavity)


@cases
def test_rows_that_are_remembered_nowhere(model, power, weights):
    sums, rows, setting = both(model), rows_of(model, weights), Setting(power)
    ours, theirs = (
        each.estimates(view, rows, setting) for each, view in zip(sums, views(sums, None, power), strict=True)
    )
    same(ours, theirs, close(model, power))
    np.testing.assert_allclose(ours.log_scale, theirs.log_scale, **close(model, power))


@cases
def test_rows_with_sites_of_their_own(model, power, weights):
    sums, rows, setting = both(model), rows_of(model, weights, SITES), Setting(power)
    pairs = list(zip(sums, views(sums, None, power), strict=True))
    same(*(each.estimates(view, rows, setting) for each, view in pairs), close(model, power))
    assert_trees_close(*(each.terms(view, rows, setting) for each, view in pairs), **close(model, power))


@cases
def test_terms_and_errors_of_rows_that_share_a_site(model, power, weights):
    sums, rows, setting = both(model), rows_of(model, weights), Setting(power)
    pairs = list(zip(sums, views(sums, SHARED, power), strict=True))
    assert_trees_close(*(each.terms(view, rows, setting) for each, view in pairs), **close(model, power))
    draws = np.random.default_rng(0).normal(size=(4, D))
    assert_trees_close(*(each.errors(view, rows, draws, setting) for each, view in pairs), **close(model, power))


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("own", [False, True], ids=["shared", "own"])
def test_sparse_rows(own, power):
    spread = SparseRows.of(sparse.csr_array(X))
    sums, setting = both("probit", spread)[0], Setting(power)
    view = sums.view(Q, None if own else SHARED, 1.0, power, N)
    dense, thin = (rows_of("probit", "fractions", SITES if own else None, features) for features in (X, spread))
    same(*(sums.estimates(view, rows, setting) for rows in (dense, thin)))
    assert_trees_close(*(sums.terms(view, rows, setting) for rows in (dense, thin)), rtol=1e-12)


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("own", [False, True], ids=["shared", "own"])
def test_rows_that_must_be_skipped(own, weights, power):
    features, y, sites = X.copy(), SIGNS.copy(), SITES
    features[3, 1] = 1e200  # its square is no number any more
    features[7] = np.nan
    y[11] = np.nan
    if own:  # three rows with an improper cavity, but at power 0 there is no other than q
        sites = cavity.DiagonalGaussian(SITES.shift.copy(), SITES.precision.copy())
        sites.precision[20, 2], sites.precision[21] = 1e3, 1e3
        sites.precision[22, 0] = 1e3 if power == 0 else -np.inf
    sums, setting = both("probit"), Setting(power)
    rows = Rows((features, y), WEIGHTS[weights], sites if own else None)
    ours, theirs = (
        each.estimates(view, rows, setting)
        for each, view in zip(sums, views(sums, None if own else SHARED, power), strict=True)
    )
    same(ours, theirs, close("probit", power))
    counted = WEIGHTS[weights][[3, 7, 11] + [20, 21, 22] * (own and power != 0)] > 0
    assert ours.skipped == counted.sum()
    assert np.all(np.isfinite(ours.total.shift))


@pytest.mark.parametrize("power", POWERS)
def test_an_improper_cavity_of_all_rows(power):
    sums, rows, setting = both("logit")[0], rows_of("logit", "fractions"), Setting(power)
    found = sums.estimates(sums.view(Q, 2.0 * Q, 1.0, 1.0, N), rows, setting)
    assert found.skipped == np.sum(rows.weight > 0)
    assert not np.any(found.total.shift)
    assert not np.any(found.total.precision)


def test_arrays_to_work_in_are_not_handed_out():
    sums, setting = both("logit")[0], Setting(1.0)
    view, rows = sums.view(Q, None, 1.0, 1.0, N), rows_of("logit", "alike", SITES)
    first = sums.estimates(view, rows, setting).change
    kept = cavity.DiagonalGaussian(first.shift.copy(), first.precision.copy())
    sums.estimates(view, rows._replace(data=(2.0 * X, SIGNS)), setting)
    assert_trees_close(first, kept, rtol=0, atol=0)
