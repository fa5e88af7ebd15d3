"""A fit that begins near its end ends where a fit from the prior does."""

import numpy as np
import pytest

import cavity
from cavity.inference.problem import Problem
from cavity.inference.run import Options, made

N = 6000
RNG = np.random.default_rng(8)
X = RNG.normal(size=(N, 4)) @ RNG.normal(size=(4, 4))
A = X @ [0.5, -0.4, 0.3, 0.2]
COUNTS = RNG.poisson(np.exp(0.4 * A)).astype(float)
SIGNS = np.where(A + RNG.logistic(size=N) > 0, 1.0, -1.0)
PRIOR = cavity.Gaussian.isotropic(4, 2.0)
MODELS = {
    "logit": (cavity.factors.logit(), SIGNS, cavity.LogisticClassifier),
    "probit": (cavity.factors.probit(), SIGNS, cavity.ProbitClassifier),
    "poisson": (cavity.factors.poisson(), COUNTS, cavity.PoissonRegressor),
}


def apart(q: cavity.Gaussian, other: cavity.Gaussian) -> float:
    """Standard deviations between means at most, or what standard deviations differ by."""
    sd = np.sqrt(other.variance)
    return float(max(np.max(np.abs(q.mean - other.mean) / sd), np.max(np.abs(np.sqrt(q.variance) / sd - 1))))


@pytest.mark.parametrize("name", list(MODELS))
def test_a_q_to_begin_near(name):
    """All rows see it once; (1) holds from the first update on, and the end is that of EP by some rows at a time."""
    factor, y, _ = MODELS[name]
    some = cavity.fit(factor, PRIOR, (X[:300], y[:300]), cavity.ep(30), tol=1e-2).posterior
    near = PRIOR + 20.0 * (some - PRIOR)
    result = cavity.fit(factor, PRIOR, (X, y), cavity.parallel_ep(), start=near, tol=1e-9)
    exact = cavity.fit(factor, PRIOR, (X, y), cavity.ep(300), tol=1e-10)
    assert result.converged
    assert result.n_sweeps <= 7
    assert apart(result.posterior, exact.posterior) < 1e-8
    np.testing.assert_allclose(result.log_evidence, exact.log_evidence, rtol=1e-10)


def test_one_sweep_from_near_keeps_equation_1():
    factor, y, _ = MODELS["logit"]
    near = cavity.Gaussian.from_mean(np.array([0.5, -0.4, 0.3, 0.2]), 1e-3 * np.eye(4))
    with pytest.warns(cavity.ConvergenceWarning):
        result = cavity.fit(factor, PRIOR, (X, y), cavity.parallel_ep(), start=near, max_sweeps=1)
    shift, precision = result.progress.state.sites[0]
    np.testing.assert_allclose(result.posterior.precision, PRIOR.precision + X.T @ (precision[:, None] * X), rtol=1e-10)
    np.testing.assert_allclose(result.posterior.shift, PRIOR.shift + X.T @ shift, rtol=1e-9, atol=1e-9)


def test_another_prior_over_the_same_rows():
    """Rows that were checked once, and sites of an earlier prior: as a fit from scratch, also from far away."""
    factor, y, _ = MODELS["logit"]
    weights, algorithm = RNG.uniform(0.5, 2.0, N), cavity.ep(300)
    problem = Problem.of(factor, PRIOR, (X, y), algorithm, weights, 0)
    last = made(problem, algorithm, Options(tol=1e-10)).progress
    for variance in (0.5, 1e-12, 3.0):
        prior = cavity.Gaussian.isotropic(4, variance)
        moved = made(problem.with_model(factor, prior, algorithm), algorithm, Options(start=last, tol=1e-10))
        anew = cavity.fit(factor, prior, (X, y), algorithm, weights=weights, tol=1e-10)
        assert apart(moved.posterior, anew.posterior) < 1e-8
        np.testing.assert_allclose(moved.log_evidence, anew.log_evidence, rtol=1e-10)
        last = moved.progress


@pytest.mark.parametrize("more", [{}, {"prior_variance": 1.0}], ids=["learned", "given"])
@pytest.mark.parametrize("name", list(MODELS))
def test_auto_ends_where_ep_does(name, more):
    """All rows at once, from some of them: within 1e-6 sd at a tight tolerance, and 1e-4 at the usual one."""
    *_, model = MODELS[name]
    y = MODELS[name][1]
    by_rows = model(algorithm=cavity.ep(10), tol=1e-9, **more).fit(X, y)
    tight, usual = model(tol=1e-9, **more).fit(X, y), model(**more).fit(X, y)
    assert tight.algorithm_.batch_size is None
    assert apart(tight.posterior_, by_rows.posterior_) < 1e-6
    assert apart(usual.posterior_, by_rows.posterior_) < 1e-4
    np.testing.assert_allclose(usual.log_evidence_, by_rows.log_evidence_, atol=1e-5)


def test_auto_turns_to_batches_where_all_rows_at_once_do_not_settle(monkeypatch):
    """And says what it came to."""
    from cavity.estimators.linear import by_engine

    monkeypatch.setattr(by_engine, "PATIENCE", 1)  # too few sweeps for anything to settle
    _, y, model = MODELS["logit"]
    fitted = model(prior_variance=1.0).fit(X, y)
    assert fitted.converged_
    assert fitted.algorithm_.batch_size is not None


def test_rows_of_weight_zero_are_nobodys_beginning():
    """Few of many rows count: the fit is that of these."""
    _, y, model = MODELS["logit"]
    weight = np.zeros(N)
    weight[::40] = 1.0
    few = model().fit(X[::40], y[::40])
    many = model().fit(X, y, sample_weight=weight)
    assert apart(many.posterior_, few.posterior_) < 1e-4


def test_a_rare_class_that_some_rows_may_lack():
    """Three rows of six thousand."""
    _, _, model = MODELS["logit"]
    y = np.zeros(N, int)
    y[[5, 1000, 4000]] = 1
    usual, by_rows = model().fit(X, y), model(algorithm=cavity.ep(300), tol=1e-9).fit(X, y)
    assert usual.converged_
    assert apart(usual.posterior_, by_rows.posterior_) < 1e-4


def test_other_algorithms_of_many_rows_begin_there_too():
    """AEP's shared site makes up that q; ADF learns its prior variance by EP, and makes its pass from the prior."""
    _, y, model = MODELS["probit"]
    ep, aep, adf = (model(algorithm=name).fit(X, y) for name in ("ep", "aep", "adf"))
    assert apart(aep.posterior_, ep.posterior_) < 0.05
    np.testing.assert_allclose(adf.prior_variance_, ep.prior_variance_, rtol=1e-5)
