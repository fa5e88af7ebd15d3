"""Guards: an improper cavity or tilted distribution is skipped and counted, q stays proper, nothing is NaN."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity.inference.contract import Setting
from cavity.inference.guard import MAX_HALVINGS, advance
from cavity.inference.pull import pull
from cavity.inference.sweep import private
from tests.registry import FACTORS, assert_trees_close
from tests.steps import WAYS

CASE = FACTORS["probit"]


def test_an_improper_cavity_gives_no_move():
    datum = jax.tree.map(lambda leaf: leaf[0], CASE.data)
    with jax.enable_x64(True):
        pulled = pull(CASE.factor, CASE.prior, 2.0 * CASE.prior, datum, present=1.0, power=1.0)
    assert not bool(pulled.valid)
    assert all(not np.any(leaf) for leaf in jax.tree.leaves(pulled.move))


def test_a_likelihood_that_is_not_a_number_is_skipped_and_counted():
    def log_mean(q, x, power):
        total = 1 + q.variance
        return jnp.where(x[0] > 0, jnp.nan, -0.5 * jnp.sum((x - q.mean) ** 2 / total + jnp.log(total)))

    data = np.random.default_rng(0).normal(size=(10, 2))
    prior = cavity.DiagonalGaussian(np.zeros(2), np.ones(2))
    with pytest.warns(cavity.ConvergenceWarning) as complaints:
        result = cavity.fit(cavity.factors.custom(log_mean), prior, data, cavity.ep(), max_sweeps=3)
    assert any("were skipped in the last sweep" in str(complaint.message) for complaint in complaints)
    assert any("it leaves out 4 data" in str(complaint.message) for complaint in complaints)
    assert np.all(result.history.skipped == np.sum(data[:, 0] > 0))
    assert np.all(np.isfinite(result.posterior.mean))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("algorithm", [cavity.ep(), cavity.aep()], ids=["own", "shared"])
def test_a_batch_with_an_improper_cavity_is_skipped_and_counted(way, algorithm):
    steps = WAYS[way].begin(CASE.factor, CASE.prior, CASE.data, algorithm)
    wide = steps.walk.slots.own and "general" not in way  # sites of two numbers, along the rows
    bad = jax.tree.map(np.array, steps.state.sites)
    stack = bad[0] if steps.walk.slots.own else bad
    each = 1e3 * np.ones(12) if wide else np.broadcast_to(2.0 * CASE.prior.precision, stack.precision.shape)
    stack.precision[...] = each
    steps.state = steps.state._replace(sites=bad)
    q = steps.state.q
    info = steps.visit([0, 3, 4])
    assert info.skipped == 3
    assert info.backoffs == 0
    assert_trees_close(steps.state.q, q, rtol=0, atol=0)
    assert_trees_close(steps.state.sites, bad, rtol=0, atol=0)


def at_rate(q, move, rate, traced):
    """Where q is after a step, at which rate, and whether that was cut: on the host, or in a compiled program."""
    if not traced:
        return advance(q, move, rate)
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, jax.jit(advance)(q, move, jnp.asarray(rate)))


@pytest.mark.parametrize("traced", [False, True], ids=["host", "traced"])
def test_the_rate_is_halved_until_q_is_proper(traced):
    q, rate, cut = at_rate(CASE.prior, -3.0 * CASE.prior, 1.0, traced)
    assert float(rate) == 0.25
    assert bool(cut)
    assert_trees_close(q, 0.25 * CASE.prior, rtol=1e-15)
    q, rate, cut = at_rate(CASE.prior, CASE.prior, 1.0, traced)
    assert float(rate) == 1.0
    assert not bool(cut)
    assert_trees_close(q, 2.0 * CASE.prior, rtol=1e-15)
    _, rate, cut = at_rate(CASE.prior, -(1.5 * 2.0**MAX_HALVINGS) * CASE.prior, 1.0, traced)
    assert float(rate) == 0.0
    assert bool(cut)
    _, rate, _ = at_rate(CASE.prior, -(0.75 * 2.0**MAX_HALVINGS) * CASE.prior, 1.0, traced)
    assert float(rate) == 2.0**-MAX_HALVINGS


@pytest.mark.parametrize("traced", [False, True], ids=["host", "traced"])
def test_no_step_is_made_towards_what_is_not_a_number(traced):
    nan = jax.tree.map(lambda leaf: np.full_like(leaf, np.nan), CASE.prior)
    q, rate, cut = at_rate(CASE.prior, nan, 1.0, traced)
    assert float(rate) == 0.0
    assert bool(cut)
    assert_trees_close(q, CASE.prior, rtol=0, atol=0)


@pytest.mark.parametrize("algorithm", [cavity.ep(), cavity.sep(), cavity.aep(), cavity.sep(rate=1.0)])
def test_outliers_under_a_student_t_leave_q_proper(algorithm):
    # sites of outliers have negative precision, larger in sum than the prior's at the start
    rng = np.random.default_rng(1)
    features = rng.normal(size=(40, 2))
    y = features @ np.array([1.0, -1.0]) + 30 * rng.standard_t(1.0, size=40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cavity.ConvergenceWarning)
        warnings.simplefilter("ignore", cavity.SharingWarning)
        result = cavity.fit(
            cavity.factors.student_t(1.0, 0.5),
            cavity.Gaussian.isotropic(2, 100.0),
            (features, y),
            algorithm,
            max_sweeps=30,
        )
    assert bool(result.posterior.is_proper())
    assert np.isfinite(result.log_evidence)


@pytest.mark.parametrize("at_once", [True, False])
def test_sites_go_as_far_as_q_where_a_step_is_cut(at_once):
    # far outliers have sites of negative precision: a long step along them loses q
    features = np.random.default_rng(1).normal(size=(40, 2))
    given = (
        cavity.factors.student_t(1.0, 0.5),
        cavity.DiagonalGaussian.isotropic(2, 0.01),
        (features, np.full(40, 30.0)),
    )
    steps = WAYS["chunks"].begin(*given, cavity.ep())
    if at_once:
        state = private(steps.walk, steps.state, but_sites=True)
        steps.state, info = steps.walk.all_at_once(state, 1e5, Setting(1.0))
    else:
        info = steps.visit(range(40), rate=1e5)
    assert info.backoffs == 1
    assert bool(steps.state.q.is_proper())
    assert np.any(steps.state.q.precision < 100.0)
    assert_trees_close(steps.state.q, steps.rebuilt(), rtol=1e-12)


def test_averaged_ep_that_cycles_is_damped_until_it_settles():
    # clustered inputs with N = 300: with the share held at one the iteration cycles for ever
    rng = np.random.default_rng(0)
    features = 3 * rng.normal(size=(5, 8))[rng.integers(5, size=300)] + 0.3 * rng.normal(size=(300, 8))
    y = np.where(features @ rng.normal(size=8) + rng.normal(size=300) > 0, 1.0, -1.0)
    prior = cavity.Gaussian.isotropic(8)
    with pytest.warns(cavity.ConvergenceWarning):
        undamped = cavity.fit(cavity.factors.probit(), prior, (features, y), cavity.aep(rate=1.0))
    result = cavity.fit(cavity.factors.probit(), prior, (features, y), cavity.aep())
    assert undamped.history.change[-1] > 1e-3
    assert result.converged
    assert result.history.rate.min() < 1
