"""Linear response, equation (50): exact for a Gaussian q and likelihood, whatever q takes for independent."""

import jax.numpy as jnp
import numpy as np
import pytest

import cavity

RNG = np.random.default_rng(2)
X = RNG.normal(size=(40, 3)) @ np.array([[1.0, 0.8, 0.0], [0.0, 0.6, 0.5], [0.0, 0.0, 1.0]])
Y = X @ np.array([0.5, -1.0, 0.3]) + 0.7 * RNG.normal(size=40)
EXACT = np.linalg.inv(np.eye(3) + X.T @ X / 0.49)


def means(q):
    return q.shift / jnp.asarray(q.precision)


def test_a_mean_field_recovers_the_covariances_of_a_linear_model():
    prior = cavity.DiagonalGaussian.isotropic(3)
    result = cavity.fit(cavity.factors.gaussian(0.49), prior, (X, Y), cavity.averaged_vmp(), tol=1e-8, keep_data=True)
    response = result.linear_response(means)
    np.testing.assert_allclose(response.own, np.diag(result.posterior.variance), rtol=1e-10, atol=1e-14)
    assert np.max(np.diag(response.own) / np.diag(EXACT)) < 0.8  # the mean field itself is too narrow
    np.testing.assert_allclose(response.own + response.added, EXACT, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(response.mean, result.posterior.mean, rtol=1e-12)


def test_nothing_is_added_to_an_exact_posterior():
    prior, counts = cavity.Gamma(2.0, 1.5), [1.0, 0.0, 3.0]
    result = cavity.fit(cavity.factors.poisson_rate(), prior, counts, cavity.ep(), keep_data=True)
    response = result.linear_response(lambda q: q.shape / jnp.asarray(q.rate))
    np.testing.assert_allclose(response.added, 0.0, atol=1e-12)
    # the mean is a sufficient statistic, so that q's own variance is known exactly
    np.testing.assert_allclose(response.own, [[result.posterior.variance]], rtol=1e-10)


def test_what_cannot_be_asked_is_refused():
    rate = cavity.factors.poisson_rate()
    one_pass = cavity.fit(rate, cavity.Gamma(2.0, 1.5), [1.0, 0.0], cavity.adf(), keep_data=True)
    with pytest.raises(ValueError, match="ADF remembers no sites"):
        one_pass.linear_response(lambda q: q.mean)
    prior, data = cavity.Gaussian.isotropic(40), (np.eye(40), np.ones(40))
    wide = cavity.fit(cavity.factors.probit(), prior, data, cavity.aep(), keep_data=True)
    with pytest.raises(ValueError, match="q must have at most 1500 numbers"):
        wide.linear_response(lambda q: q.shift)
