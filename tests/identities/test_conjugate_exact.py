"""On a conjugate model every algorithm is exact: λ̂_n is the likelihood itself, whatever the cavity (11)."""

import jax
import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import multivariate_normal

import cavity
from tests.registry import ALGORITHMS, DETERMINISTIC, FACTORS, assert_trees_close, thinned

CONJUGATE = [name for name, case in FACTORS.items() if case.exact is not None]
PAIRS = thinned([(m, a) for m in CONJUGATE for a in ALGORITHMS], lambda m, a: m == "gaussian" or a == "sep")


@pytest.mark.parametrize(("model", "name"), PAIRS)
def test_every_algorithm_finds_the_exact_posterior(model, name):
    case = FACTORS[model]
    weight = np.ones(len(jax.tree.leaves(case.data)[0]))
    exact = case.exact(case.prior, case.data, weight)
    result = cavity.fit(case.factor, case.prior, case.data, ALGORITHMS[name])
    tolerance = 1e-10 if name in DETERMINISTIC else 1e-6
    assert result.converged
    assert result.posterior.distance(exact) < tolerance
    assert_trees_close(result.posterior, exact, rtol=tolerance)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_evidence_is_exact(name):
    # the marginal likelihood of linear regression: y ~ N(X μ₀, X Σ₀ Xᵀ + σ² I)
    case = FACTORS["gaussian"]
    features, y = case.data
    covariance = features @ case.prior.covariance @ features.T + 0.5 * np.eye(len(y))
    exact = multivariate_normal(features @ case.prior.mean, covariance).logpdf(y)
    result = cavity.fit(case.factor, case.prior, case.data, ALGORITHMS[name])
    np.testing.assert_allclose(result.log_evidence, exact, atol=1e-6)


@pytest.mark.parametrize(
    "algorithm", [cavity.adf(batch_size=4), cavity.Algorithm(0, 5, power=0.5), cavity.Algorithm(0, 1, power=0)]
)
def test_evidence_without_sites_is_exact_for_batches_and_powers(algorithm):
    case = FACTORS["poisson-gamma"]
    posterior = case.exact(case.prior, case.data, np.ones(12))
    exact = posterior.log_partition() - case.prior.log_partition() - gammaln(case.data + 1).sum()
    result = cavity.fit(case.factor, case.prior, case.data, algorithm)
    np.testing.assert_allclose(result.log_evidence, exact, atol=1e-9)


@pytest.mark.parametrize("noise", [1e-4, 1e-8])
@pytest.mark.parametrize("algorithm", [cavity.ep(), cavity.aep()])
def test_evidence_keeps_its_digits_where_data_say_much_more_than_the_prior(algorithm, noise):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(5, 8))
    y = features @ rng.normal(size=8) + np.sqrt(noise) * rng.normal(size=5)
    exact = multivariate_normal(np.zeros(5), features @ features.T + noise * np.eye(5)).logpdf(y)
    result = cavity.fit(cavity.factors.gaussian(noise), cavity.Gaussian.isotropic(8), (features, y), algorithm)
    np.testing.assert_allclose(result.log_evidence, exact, atol=1e-6)
