"""The structured sweeps of a GLM with a full Gaussian equal the general engine with automatic differentiation."""

import warnings

import numpy as np
import pytest

import cavity
from tests.registry import assert_trees_close, thinned

N, D = 40, 3
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, D))
ACTIVATION = X @ np.array([1.0, -0.7, 0.4])
SIGNS = np.where(ACTIVATION + RNG.normal(size=N) > 0, 1.0, -1.0)
OUTLIERS = ACTIVATION + RNG.standard_t(2.0, size=N)
PRIOR = cavity.Gaussian.from_mean([0.2, -0.1, 0.3], [[1.0, 0.3, 0.0], [0.3, 0.8, 0.1], [0.0, 0.1, 1.5]])
WEIGHTS = RNG.uniform(0.5, 2.0, N)

POINTS = {
    "adf": cavity.adf(),
    "adf-batch": cavity.adf(batch_size=7),
    "ep": cavity.ep(),
    "ep-damped-power": cavity.power_ep(0.5, rate=0.7),
    "parallel-ep": cavity.parallel_ep(),
    "aep": cavity.aep(),
    "sep": cavity.sep(),
    "sep-literal": cavity.sep(rate=1.0),
    "sep-batch": cavity.sep(batch_size=7),
    "sep-replace": cavity.sep(replace=True, rate=cavity.robbins_monro()),
    "dsep": cavity.dsep(groups=np.arange(N) % 4),
    "daep": cavity.daep(groups=np.arange(N) % 4),
    "vmp": cavity.vmp(),
}
PROBIT = [name for name in POINTS if name not in ("vmp", "ep-damped-power")]


def both(factor, y, algorithm, sweeps=3, prior=PRIOR, features=X, weights=WEIGHTS):
    """The same few sweeps by the structured and by the general path."""
    options = {"weights": weights, "max_sweeps": sweeps, "tol": 0.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cavity.ConvergenceWarning)  # a few sweeps to tol 0 never converge,
        warnings.simplefilter("ignore", cavity.CollapseWarning)  # and ADF is not meant for several
        warnings.simplefilter("ignore", cavity.SharingWarning)  # and few rows are not meant to share a site
        fast = cavity.fit(factor, prior, (features, y), algorithm, **options)
        slow = cavity.fit(cavity.factors.autodiff(factor), prior, (features, y), algorithm, **options)
    return fast, slow


@pytest.mark.parametrize("name", thinned(PROBIT, lambda name: name in ("ep", "aep", "sep", "adf")))
def test_probit(name):
    fast, slow = both(cavity.factors.probit(), SIGNS, POINTS[name])
    assert_trees_close(fast.posterior, slow.posterior, rtol=1e-9)
    np.testing.assert_allclose(fast.log_evidence, slow.log_evidence, rtol=1e-10)
    np.testing.assert_allclose(fast.history.change, slow.history.change, rtol=1e-6)
    assert fast.n_skipped == slow.n_skipped == 0


@pytest.mark.parametrize("name", thinned(["vmp", "aep"], lambda name: name == "vmp"))
def test_poisson(name):
    counts = np.round(np.exp(np.minimum(ACTIVATION, 2.0)))
    fast, slow = both(cavity.factors.poisson(), counts, POINTS[name])
    assert_trees_close(fast.posterior, slow.posterior, rtol=1e-8)
    np.testing.assert_allclose(fast.log_evidence, slow.log_evidence, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ep-damped-power", "sep"])
def test_student_t_with_negative_site_precisions(name):
    fast, slow = both(cavity.factors.student_t(3.0, 0.5), OUTLIERS, POINTS[name])
    assert_trees_close(fast.posterior, slow.posterior, rtol=1e-8)
    np.testing.assert_allclose(fast.log_evidence, slow.log_evidence, rtol=1e-9)


def test_sequential_sep_over_many_blocks_and_sweeps():
    # N = 400 makes the scale drift through 25 blocks; the batch form of the same visits factorises at every datum
    rng = np.random.default_rng(4)
    features = rng.normal(size=(400, 5))
    y = np.where(features @ rng.normal(size=5) + rng.normal(size=400) > 0, 1.0, -1.0)
    prior = cavity.Gaussian.from_mean(rng.normal(size=5), np.diag(rng.uniform(0.5, 2.0, 5)))
    fast, slow = both(
        cavity.factors.probit(),
        y,
        cavity.sep(rate=1.0),
        prior=prior,
        features=features,
        weights=rng.uniform(0.5, 2, 400),
    )
    assert_trees_close(fast.posterior, slow.posterior, rtol=1e-10)


@pytest.mark.parametrize("name", thinned(["ep", "aep", "sep", "adf"], lambda name: name == "ep"))
def test_fewer_rows_than_features(name):
    # the N × N form against the general engine in all D dimensions
    rng = np.random.default_rng(7)
    features = rng.normal(size=(6, 9))
    root = rng.normal(size=(9, 9))
    prior = cavity.Gaussian.from_mean(rng.normal(size=9), root @ root.T / 9 + np.eye(9))
    y = np.where(features @ rng.normal(size=9) > 0, 1.0, -1.0)
    fast, slow = both(
        cavity.factors.probit(), y, POINTS[name], prior=prior, features=features, weights=rng.uniform(0.5, 2.0, 6)
    )
    assert_trees_close(fast.posterior, slow.posterior, rtol=1e-9)
    np.testing.assert_allclose(fast.log_evidence, slow.log_evidence, rtol=1e-10)


@pytest.mark.parametrize(
    "algorithm", thinned([cavity.ep(2), cavity.sep(2)], lambda a: a.n_sites == 1), ids=["ep", "sep"]
)
def test_batches_that_are_few_beside_the_features(algorithm):
    features = RNG.normal(size=(N, 6))  # read by solves instead of by the covariance
    fast, slow = both(
        cavity.factors.probit(), SIGNS, algorithm, prior=cavity.Gaussian.isotropic(6), features=features, sweeps=2
    )
    assert_trees_close(fast.posterior, slow.posterior, rtol=1e-9)
    np.testing.assert_allclose(fast.history.change, slow.history.change, rtol=1e-6)


@pytest.mark.parametrize("algorithm", [cavity.sep(7, rate=1.0), cavity.sep(N, rate=2.5)], ids=["sure", "searched"])
def test_a_shared_site_is_kept_proper_with_and_without_a_factorisation(algorithm):
    # a rate of 2.5 takes out more copies of the site than there are: then q is looked at, and the rate cut
    fast, slow = both(cavity.factors.probit(), SIGNS, algorithm, sweeps=4, weights=None)
    assert_trees_close(fast.posterior, slow.posterior, rtol=1e-9)
    np.testing.assert_array_equal(fast.history.backoffs, slow.history.backoffs)
    assert (algorithm.rate > 1) == bool(np.any(fast.history.backoffs))


def test_negative_precisions_are_looked_at_before_a_shared_site_moves():
    # far outliers of a heavy tail under a wide prior ask for so much negative precision that full steps lose q
    rng = np.random.default_rng(2)
    far = ACTIVATION + 5 * rng.standard_t(1.0, size=N)
    prior = cavity.Gaussian.isotropic(D, 100.0)
    fast, slow = both(
        cavity.factors.student_t(1.0, 0.1), far, cavity.aep(rate=1.0), sweeps=4, prior=prior, weights=None
    )
    assert_trees_close(fast.posterior, slow.posterior, rtol=1e-8)
    np.testing.assert_array_equal(fast.history.backoffs, slow.history.backoffs)
    assert np.any(fast.history.backoffs)
