"""By every way to take a batch: K = N is textbook EP step by step, K = 1 and M = N averaged EP, K = 0 ADF.

The references are written out for the probit in NumPy with means and covariances, after Rasmussen and Williams (2006),
section 3.6, and Barthelmé and Dehaene's averaged EP.
"""

import numpy as np
import pytest
from scipy.stats import norm

import cavity
from tests.registry import FACTORS, leaves
from tests.steps import WAYS

CASE = FACTORS["probit"]
X, Y = CASE.data
N = len(Y)


def tilted_site(mean, covariance, x, y):
    """The Gaussian site that matches the moments of N(θ; mean, covariance) Φ(y xᵀθ)."""
    v = x @ covariance @ x
    z = y * x @ mean / np.sqrt(1 + v)
    ratio = norm.pdf(z) / norm.cdf(z)
    direction = covariance @ x
    new_mean = mean + y * ratio / np.sqrt(1 + v) * direction
    new_covariance = covariance - ratio * (z + ratio) / (1 + v) * np.outer(direction, direction)
    precision, new_precision = inverse(covariance), inverse(new_covariance)
    return new_precision @ new_mean - precision @ mean, new_precision - precision


def inverse(matrix):
    """Made symmetric: asymmetry of rounding size grows from step to step until EP breaks."""
    inverse = np.linalg.inv(matrix)
    return (inverse + inverse.T) / 2


def moments(shift, precision):
    covariance = inverse(precision)
    return covariance @ shift, covariance


@pytest.fixture(params=WAYS)
def engine(request):
    """A walk over the data of the case, by each way to take a batch."""
    return lambda algorithm: WAYS[request.param].begin(CASE.factor, CASE.prior, CASE.data, algorithm)


def assert_close(q, shift, precision):
    np.testing.assert_allclose(q.shift, shift, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(q.precision, precision, rtol=1e-10, atol=1e-12)


def test_own_sites_are_ep(engine):
    shift, precision = CASE.prior.shift, CASE.prior.precision
    sites = [(np.zeros(2), np.zeros((2, 2))) for _ in range(N)]
    steps = engine(cavity.ep())
    for n in np.random.default_rng(0).integers(N, size=3 * N):
        cavity_shift, cavity_precision = shift - sites[n][0], precision - sites[n][1]
        sites[n] = tilted_site(*moments(cavity_shift, cavity_precision), X[n], Y[n])
        shift, precision = cavity_shift + sites[n][0], cavity_precision + sites[n][1]
        steps.visit([n])
        assert_close(steps.state.q, shift, precision)


def test_no_sites_are_adf(engine):
    shift, precision = CASE.prior.shift, CASE.prior.precision
    steps = engine(cavity.adf())
    for n in range(N):
        site = tilted_site(*moments(shift, precision), X[n], Y[n])
        shift, precision = shift + site[0], precision + site[1]
        steps.visit([n])
        assert_close(steps.state.q, shift, precision)
    assert all(not np.any(leaf) for leaf in leaves(steps.state.sites))


def test_one_site_is_sep_as_the_paper_writes_it(engine):
    # Algorithm 3: cavity q^(1−1/N) p₀^(1/N), moment matching, and the site is implied by q
    prior = CASE.prior
    shift, precision = prior.shift, prior.precision
    steps = engine(cavity.sep())
    for n in np.random.default_rng(1).integers(N, size=2 * N):
        cavity_shift = (1 - 1 / N) * shift + prior.shift / N
        cavity_precision = (1 - 1 / N) * precision + prior.precision / N
        site = tilted_site(*moments(cavity_shift, cavity_precision), X[n], Y[n])
        shift, precision = cavity_shift + site[0], cavity_precision + site[1]
        steps.visit([n])
        assert_close(steps.state.q, shift, precision)


def test_one_site_and_all_data_are_averaged_ep(engine):
    prior = CASE.prior
    average = np.zeros(2), np.zeros((2, 2))
    steps = engine(cavity.aep())
    for _ in range(4):
        cavity_moments = moments(prior.shift + (N - 1) * average[0], prior.precision + (N - 1) * average[1])
        sites = [tilted_site(*cavity_moments, x, y) for x, y in zip(X, Y, strict=True)]
        average = sum(s for s, _ in sites) / N, sum(p for _, p in sites) / N
        steps.visit(np.arange(N))
        assert_close(steps.state.q, prior.shift + N * average[0], prior.precision + N * average[1])


@pytest.mark.parametrize("algorithm", [cavity.ep(), cavity.parallel_ep()])
def test_fit_reaches_textbook_eps_fixed_point(algorithm):
    shift, precision = CASE.prior.shift, CASE.prior.precision
    sites = [(np.zeros(2), np.zeros((2, 2))) for _ in range(N)]
    for n in list(range(N)) * 30:
        cavity_shift, cavity_precision = shift - sites[n][0], precision - sites[n][1]
        sites[n] = tilted_site(*moments(cavity_shift, cavity_precision), X[n], Y[n])
        shift, precision = cavity_shift + sites[n][0], cavity_precision + sites[n][1]
    result = cavity.fit(CASE.factor, CASE.prior, CASE.data, algorithm, tol=1e-11)
    np.testing.assert_allclose(result.posterior.shift, shift, rtol=1e-9)
    np.testing.assert_allclose(result.posterior.precision, precision, rtol=1e-9)
