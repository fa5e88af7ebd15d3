"""Groups found in data: what sharing a site costs, which groups take that cost away, and when one site is enough."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity.datasets import synthetic_probit
from cavity.inference import grouping
from cavity.inference.contract import Setting
from cavity.inference.pull import pull
from tests.registry import FACTORS, thinned
from tests.statistical.sources import dataset, needs_data
from tests.steps import general, walk_of

CLUSTERED = synthetic_probit(300, 10, n_components=5, seed=1)
AUTO = cavity.daep(groups="auto")


def probit(data, algorithm, **options):
    prior = cavity.Gaussian.isotropic(data[0].shape[1])
    options = {"evidence": False} | options
    return cavity.fit(cavity.factors.probit(), prior, data[:2], algorithm, **options)


def shared(factor, prior, data, weights=None):
    """A walk with one site, and the state near its fixed point."""
    result = cavity.fit(factor, prior, data, cavity.aep(), weights=weights, evidence=False)
    return walk_of(factor, prior, data, cavity.aep(), weights), result.progress.state


def errors_at(walk, state, draws):
    """r_n at draws, less its mean."""
    return grouping.centred(walk.errors(state, draws, Setting(1.0)))


@pytest.mark.parametrize("name", ["mixture", "categorical-dirichlet"])
def test_lengths_at_draws_are_fishers(name):
    # ⟨r, F r⟩ with F the Hessian of the log-partition, against the variance of ⟨r, T(θ)⟩ over many draws
    case = FACTORS[name]
    with jax.enable_x64(True):
        prior = jax.tree.map(jnp.asarray, case.prior)
        datum = jax.tree.map(lambda leaf: jnp.asarray(leaf)[0], case.data)
        change = pull(case.factor, prior, 0.0 * prior, datum, 1.0, 1.0).move
        exact = jax.jvp(lambda eta: eta.moments(), (prior,), (change,))[1]
        exact = sum(jnp.sum(a * b) for a, b in zip(jax.tree.leaves(change), jax.tree.leaves(exact), strict=True))
        change = jax.tree.map(np.asarray, change)
    values = grouping.values_at(grouping.draws_of(case.prior, 0, 20_000), change)
    np.testing.assert_allclose(grouping.length(grouping.centred(values)) ** 2, exact, rtol=0.1)


@pytest.mark.parametrize("name", thinned(["probit", "mixture", "clutter"], lambda name: name == "probit"))
def test_errors_of_sharing_are_those_of_two_pulls(name):
    weights = np.random.default_rng(0).uniform(0.3, 2.0, 12)
    case = FACTORS[name]
    walk, state = shared(case.factor, case.prior, case.data, weights)
    q, site = state.q, jax.tree.map(lambda leaf: leaf[0], state.sites)
    draws = grouping.draws_of(q, 0, 7)
    fast, slow = (errors_at(each, state, draws) for each in (walk, general(walk)))
    with jax.enable_x64(True):
        for row in (0, 5, 11):
            datum = jax.tree.map(lambda leaf, row=row: jnp.asarray(leaf)[row], case.data)
            estimate = case.factor.site(q - site, datum, 1.0)
            again = case.factor.site(q - min(1.0, weights[row]) * estimate, datum, 1.0)
            values = grouping.values_at(draws, jax.tree.map(np.asarray, again - estimate))
            np.testing.assert_allclose(fast[row], values - values.mean(), rtol=1e-6, atol=1e-10)
    np.testing.assert_allclose(fast, slow, rtol=1e-6, atol=1e-10)


def test_groups_of_one_row_take_the_whole_error_away():
    # With a site for each row but one, what the groups do to q is what own sites would: Σ w r.
    X, y = CLUSTERED[0][:40, :3], CLUSTERED[1][:40]
    walk, state = shared(cavity.factors.probit(), cavity.Gaussian.isotropic(3), (X, y))
    draws = grouping.draws_of(state.q, 0, 50)
    total = errors_at(walk, state, draws).sum(0)
    one = grouping.effect(walk, state, np.zeros(40, int), draws, 1.0)
    pairs = grouping.effect(walk, state, np.minimum(np.arange(40), 38), draws, 1.0)
    assert grouping.length(one) < 1e-4
    assert grouping.length(total - pairs) < 0.1 * grouping.length(total)


def test_k_means_separates_what_is_apart_and_weighs_points():
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], 20)
    points = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])[truth] + 0.1 * rng.normal(size=(60, 2))
    _, labels = grouping.k_means(rng, points, np.ones(60), 3)
    assert len(np.unique(labels)) == 3
    assert all(len(np.unique(labels[truth == k])) == 1 for k in range(3))
    line = np.array([[0.0], [1.0], [3.0]])
    assert grouping.k_means(rng, line, np.array([1e6, 1e6, 1.0]), 2)[1].tolist() in ([0, 1, 1], [1, 0, 0])
    cost, labels = grouping.k_means(rng, np.ones((5, 2)), np.ones(5), 3)  # fewer different points than groups
    assert cost == 0
    assert labels.tolist() == [0] * 5


def test_one_site_is_enough_for_plenty_of_similar_data():
    data = synthetic_probit(5000, 4)
    result = probit(data, AUTO, evidence=True)
    assert result.n_sites == 1
    assert not result.groups.any()
    assert result.sharing_error < 0.01
    assert abs(result.posterior.kl(probit(data, cavity.aep()).posterior)) < 1e-8


def test_groups_cut_the_error_of_tying():
    exact, tied = (probit(CLUSTERED, algorithm).posterior for algorithm in (cavity.parallel_ep(), cavity.aep()))
    result = probit(CLUSTERED, AUTO, evidence=True)
    assert exact.kl(tied) > 0.02
    assert exact.kl(result.posterior) < 0.4 * exact.kl(tied)
    assert 1 < result.n_sites <= 10
    gap = np.max(np.abs(exact.mean - result.posterior.mean) / np.sqrt(exact.variance))
    assert gap < result.sharing_error < 2.5 * gap
    assert set(result.groups) == set(range(result.n_sites))
    stochastic = probit(CLUSTERED, cavity.dsep(groups="auto", batch_size=20))
    np.testing.assert_array_equal(stochastic.groups, result.groups)
    assert abs(result.posterior.kl(stochastic.posterior)) < 1e-4


@pytest.mark.slow
@needs_data
def test_groups_cut_the_error_of_tying_on_ionosphere():
    X, labels = dataset("ionosphere")
    scale = X.std(axis=0)
    X = np.c_[(X - X.mean(axis=0)) / np.where(scale > 0, scale, 1.0), np.ones(len(X))]
    data = X, np.where(labels > 0, 1.0, -1.0)
    exact, tied, auto = (probit(data, a).posterior for a in (cavity.parallel_ep(), cavity.aep(), AUTO))
    assert exact.kl(tied) > 0.2
    assert exact.kl(auto) < 0.7 * exact.kl(tied)


def test_the_same_seed_finds_the_same_groups():
    first, second = (probit(CLUSTERED, AUTO, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first.groups, second.groups)
    np.testing.assert_array_equal(first.posterior.precision, second.posterior.precision)
    given = probit(CLUSTERED, cavity.daep(groups=first.groups), tol=1e-8)
    assert abs(given.posterior.kl(probit(CLUSTERED, AUTO, seed=3, tol=1e-8).posterior)) < 1e-10


@pytest.mark.slow
def test_weights_are_counts():
    weights = np.random.default_rng(0).choice([0.0, 1.0, 2.0], 300)
    rows = np.repeat(np.arange(300), weights.astype(int))
    X, y = CLUSTERED[:2]
    weighted = probit((X, y), AUTO, weights=weights)
    assert weighted.n_sites > 1
    assert weighted.groups.shape == (300,)
    assert not weighted.groups[weights == 0].any()
    same = probit((X[rows], y[rows]), cavity.daep(groups=weighted.groups[rows]))
    assert abs(weighted.posterior.kl(same.posterior)) < 1e-7
    repeated = probit((X[rows], y[rows]), AUTO)
    assert repeated.n_sites > 1
    exact, tied = (probit((X[rows], y[rows]), a).posterior for a in (cavity.parallel_ep(), cavity.aep()))
    assert exact.kl(weighted.posterior) < 0.5 * exact.kl(tied)


def test_limits_are_kept():
    assert probit(CLUSTERED, cavity.daep(3, groups="auto")).n_sites in (2, 3)
    one = probit(CLUSTERED, cavity.daep(1, groups="auto"))
    assert one.n_sites == 1
    assert probit((CLUSTERED.X[:2], CLUSTERED.y[:2]), AUTO).n_sites == 1
    with pytest.raises(ValueError, match=r"n_sites must be a positive integer; got n_sites=0"):
        cavity.daep(0, groups="auto")
    with pytest.raises(ValueError, match=r"groups must be an integer array of labels, 'random' or 'auto'"):
        cavity.daep(3, groups="automatic")


def test_a_fit_goes_on_with_the_groups_it_found():
    first = probit(CLUSTERED, AUTO, tol=1e-3)
    further = probit(CLUSTERED, AUTO, tol=1e-8, start=first, seed=9)
    np.testing.assert_array_equal(first.groups, further.groups)
    assert further.n_sweeps > 1
    fewer = CLUSTERED.X[:100], CLUSTERED.y[:100]
    with pytest.raises(ValueError, match="start must be a result for the same data and algorithm"):
        probit(fewer, AUTO, start=first)
    with pytest.raises(ValueError, match="start must be a result for the same data and algorithm"):
        probit(CLUSTERED, AUTO, start=probit(CLUSTERED, cavity.aep()))


@pytest.mark.parametrize("name", thinned(["clutter", "bernoulli-beta"], lambda name: name == "bernoulli-beta"))
def test_any_family_and_factor(name):
    case = FACTORS[name]
    result = cavity.fit(case.factor, case.prior, case.data, AUTO)
    assert 1 <= result.n_sites <= 10
    assert result.posterior.is_proper()


def test_power_zero_needs_no_groups():
    case = FACTORS["clutter"]
    assert cavity.fit(case.factor, case.prior, case.data, cavity.daep(groups="auto", power=0)).n_sites == 1


def test_through_an_estimator():
    X, y = CLUSTERED[:2]
    fitted = cavity.ProbitClassifier(algorithm=AUTO, fit_intercept=False, standardize=False).fit(X, y)
    exact, tied = (probit(CLUSTERED, algorithm).posterior for algorithm in (cavity.parallel_ep(), cavity.aep()))
    assert exact.kl(fitted.posterior_) < 0.4 * exact.kl(tied)
    learned = cavity.ProbitClassifier(algorithm=AUTO, fit_intercept=False).fit(X, y)
    assert np.isfinite(learned.log_evidence_)
