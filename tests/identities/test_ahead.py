"""Mean fields of correlated features: rows are judged ahead of q, and the end is that of plain sweeps."""

import pickle

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_ndtr

import cavity
from cavity.factors.glm import fields
from cavity.inference.contract import Rows, Setting

N, D, MANY = 600, 6, 2000
FEW_SWEEPS = 60


def features(kind, n, dim):
    """Columns that are independent, share half of their variance, or are random combinations."""
    rng = np.random.default_rng(1)
    white = rng.normal(size=(n, dim))
    if kind == "halves":
        return np.sqrt(0.5) * (white + rng.normal(size=(n, 1)))
    return white if kind == "white" else white @ rng.normal(size=(dim, dim)) / np.sqrt(dim)


def problem(name, kind, n=N, dim=D):
    """A factor, and data from its model."""
    rng, x = np.random.default_rng(2), features(kind, n, dim)
    activation = x @ rng.normal(size=dim)
    activation /= np.std(activation)
    noise = {"probit": rng.normal, "logit": rng.logistic}.get(name)
    if noise is None:
        return cavity.factors.poisson(), (x, rng.poisson(np.exp(0.5 * activation)).astype(float))
    return getattr(cavity.factors, name)(), (x, np.where(activation + noise(size=n) > 0, 1.0, -1.0))


NAMES, KINDS = ("probit", "logit", "poisson"), ("white", "halves", "random")
every = pytest.mark.parametrize(("name", "kind"), [(name, kind) for name in NAMES for kind in KINDS])
ALL_AT_ONCE = {
    "EP": cavity.parallel_ep(),
    "AEP": cavity.aep(),
    "averaged VMP": cavity.averaged_vmp(),
    "VMP": cavity.vmp(batch_size=MANY),
    "power EP": cavity.parallel_ep(power=0.5),
    "groups": cavity.daep(3),
}


def same(q, other, tolerance):
    """Means and variances, in the standard deviations of the other."""
    assert np.max(np.abs(q.mean - other.mean) / np.sqrt(other.variance)) < tolerance
    np.testing.assert_allclose(q.variance, other.variance, rtol=tolerance)


@every
@pytest.mark.parametrize("algorithm", list(ALL_AT_ONCE))
def test_all_rows_at_once_converge(name, kind, algorithm):
    factor, data = problem(name, kind, MANY, 20)
    prior = cavity.DiagonalGaussian.isotropic(20)
    result = cavity.fit(factor, prior, data, ALL_AT_ONCE[algorithm], max_sweeps=FEW_SWEEPS, evidence=False)
    assert result.converged
    assert result.n_skipped == 0


@every
def test_the_end_is_that_of_small_steps(name, kind):
    """A rate of the user's is taken as it is: so plain sweeps that are damped are the reference."""
    factor, data = problem(name, kind)
    prior = cavity.DiagonalGaussian.isotropic(D, 0.5)
    for damped, ahead in ((cavity.parallel_ep(rate=0.1), cavity.parallel_ep()), (cavity.aep(rate=0.1), cavity.aep())):
        plain = cavity.fit(factor, prior, data, damped, max_sweeps=20_000, tol=1e-9, evidence=False)
        result = cavity.fit(factor, prior, data, ahead, max_sweeps=FEW_SWEEPS, tol=1e-9, evidence=False)
        assert plain.converged
        assert result.converged
        same(result.posterior, plain.posterior, 1e-5)


def test_the_end_is_that_of_one_row_at_a_time():
    factor, data = problem("probit", "halves")
    prior = cavity.DiagonalGaussian.isotropic(D)
    one = cavity.fit(factor, prior, data, cavity.ep(), tol=1e-9, evidence=False)
    result = cavity.fit(factor, prior, data, cavity.parallel_ep(), tol=1e-9, evidence=False)
    same(result.posterior, one.posterior, 1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["probit", "poisson"])
def test_the_end_of_averaged_vmp_is_the_best_bound(name, kind):
    """By SciPy, from log p(y|a) and derivatives of its expectation under independent coefficients."""
    factor, (x, y) = problem(name, kind)
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()

    def expected(mean, variance):
        sd = np.sqrt(variance)
        if name == "poisson":
            rate = np.exp(mean + variance / 2)
            return y * mean - rate, y - rate, -rate / 2
        s = y[:, None] * (mean[:, None] + sd[:, None] * nodes)
        slope = y[:, None] * np.exp(-(s**2) / 2 - log_ndtr(s)) / np.sqrt(2 * np.pi)
        return log_ndtr(s) @ weights, slope @ weights, (slope * nodes) @ weights / (2 * sd)

    def loss(parameters):
        mean, log_sd = np.split(parameters, 2)
        variance = np.exp(2 * log_sd)
        value, by_mean, by_variance = expected(x @ mean, x**2 @ variance)
        bound = value.sum() - 0.5 * np.sum(mean**2 + variance) + log_sd.sum()
        gradient = np.concatenate([x.T @ by_mean - mean, 2 * variance * ((x**2).T @ by_variance - 0.5) + 1])
        return -bound, -gradient

    begin = np.concatenate([np.zeros(D), np.full(D, -2.0)])
    best = minimize(loss, begin, jac=True, method="BFGS", options={"gtol": 1e-7, "maxiter": 5000}).x
    result = cavity.fit(factor, cavity.DiagonalGaussian.isotropic(D), (x, y), cavity.averaged_vmp(), evidence=False)
    assert result.converged
    same(result.posterior, cavity.DiagonalGaussian.from_mean(best[:D], np.exp(2 * best[D:])), 1e-4)


def test_the_response_is_that_of_what_rows_ask_for():
    """What VMP's rows ask for together, at two means: the shift answers by τ − R to first order."""
    factor, data = problem("logit", "halves")
    prior = cavity.DiagonalGaussian.isotropic(D, 0.01)
    sums, rows, step = factor.sums(prior, data, None), Rows(data, np.ones(N)), 1e-5 * np.arange(1.0, D + 1)
    ask = lambda q: sums.estimates(sums.view(q, 0.0 * q, 1.0, 0, N), rows, Setting(0, responses=True))
    here, there = ask(prior), ask(cavity.DiagonalGaussian.from_mean(step, prior.variance))
    answer = there.total.shift - here.total.shift
    np.testing.assert_allclose(answer, here.total.precision * step - here.response @ step, rtol=1e-4)


def test_a_place_that_stays():
    """With a response that is exact, a Gaussian likelihood's mean is found at once."""
    factor, x = cavity.factors.gaussian(0.5), features("halves", N, D)
    y, prior = x.sum(1), cavity.DiagonalGaussian.isotropic(D)
    result = cavity.fit(factor, prior, (x, y), cavity.averaged_vmp(), tol=1e-10, evidence=False)
    exact = np.linalg.solve(np.eye(D) + 2.0 * x.T @ x, 2.0 * x.T @ y)
    np.testing.assert_allclose(result.posterior.mean, exact, rtol=1e-10)
    assert result.n_sweeps <= 4


def test_a_response_that_is_no_number_leads_nowhere():
    q = cavity.DiagonalGaussian.isotropic(D)
    assert fields.ahead(q, q, q, np.full((D, D), np.nan), 1.0) is None


@pytest.mark.parametrize("algorithm", [cavity.parallel_ep(), cavity.averaged_vmp()], ids=["EP", "averaged VMP"])
def test_going_on_is_never_having_stopped(algorithm):
    factor, data = problem("poisson", "halves")
    fit = lambda **more: cavity.fit(factor, cavity.DiagonalGaussian.isotropic(D), data, algorithm, **more)
    with pytest.warns(cavity.ConvergenceWarning):
        begun = fit(max_sweeps=3)
    whole, rest = fit(), fit(start=pickle.loads(pickle.dumps(begun)))
    assert rest.n_sweeps == whole.n_sweeps - 3
    np.testing.assert_array_equal(rest.posterior.shift, whole.posterior.shift)
