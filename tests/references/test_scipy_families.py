"""log q, entropy, mean and variance against scipy."""

import numpy as np
import pytest
from scipy import stats

from cavity.families import NormalGamma, NormalWishart
from tests.registry import FAMILIES, copy, draws, member

WITH_SCIPY = [name for name, case in FAMILIES.items() if case.scipy]


def scipy_log_prob(name, reference, theta):
    if hasattr(reference, "logpmf"):
        return reference.logpmf(theta)
    if name in ("dirichlet", "wishart"):
        theta = np.moveaxis(theta, 0, -1)  # scipy keeps the sample on the last axis there
    return reference.logpdf(theta)


def copies(name):
    """A member and the scipy distributions of its two independent copies."""
    q = member(name)
    return q, [FAMILIES[name].scipy(copy(q, i)) for i in range(2)]


@pytest.mark.parametrize("name", WITH_SCIPY)
def test_log_prob_and_entropy(name):
    q, references = copies(name)
    theta = draws(name)
    wanted = sum(scipy_log_prob(name, reference, theta[:50, i]) for i, reference in enumerate(references))
    np.testing.assert_allclose(q.log_prob(theta)[:50], wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(q.entropy(), sum(reference.entropy() for reference in references), rtol=1e-12)


@pytest.mark.parametrize("name", WITH_SCIPY)
def test_mean_and_variance(name):
    q, references = copies(name)
    read = lambda moment: moment() if callable(moment) else moment
    for i, reference in enumerate(references):
        if name == "categorical":
            np.testing.assert_allclose(q.probabilities[i], reference.pmf(np.arange(3)), rtol=1e-13)
            continue
        np.testing.assert_allclose(q.mean[i], read(reference.mean), rtol=1e-12)
        if hasattr(reference, "cov"):
            np.testing.assert_allclose(q.covariance[i], read(reference.cov), rtol=1e-12, atol=1e-14)
            np.testing.assert_allclose(q.variance[i], np.diag(read(reference.cov)), rtol=1e-12)
        else:
            np.testing.assert_allclose(q.variance[i], reference.var(), rtol=1e-12)


def test_normal_wishart_is_a_gaussian_given_a_wishart():
    mean, count, df, scale = np.array([0.3, -1.0]), 1.7, 4.5, np.array([[0.8, 0.2], [0.2, 0.5]])
    q = NormalWishart.from_parameters(mean, count, df, scale)
    mu, precision = (part[:5, 0] for part in draws("normal-wishart"))
    wanted = [
        stats.multivariate_normal(mean, np.linalg.inv(count * w)).logpdf(m) + stats.wishart(df, scale).logpdf(w)
        for m, w in zip(mu, precision, strict=True)
    ]
    np.testing.assert_allclose(q.log_prob((mu, precision)), wanted, rtol=1e-11)
    np.testing.assert_allclose(q.mean, mean, rtol=1e-13)
    np.testing.assert_allclose(q.mean_precision, df * scale, rtol=1e-12)
    # μ is Student-t with ν − D + 1 degrees of freedom
    student = stats.multivariate_t(mean, np.linalg.inv(scale) / (count * (df - 1)), df - 1)
    np.testing.assert_allclose(q.covariance, student.shape * (df - 1) / (df - 3), rtol=1e-12)


def test_normal_gamma_is_a_gaussian_given_a_gamma():
    mean, count, shape, rate = np.array([0.3, -1.0]), 1.7, 2.5, 0.8
    q = NormalGamma.from_parameters(mean, count, shape, rate)
    mu, precision = (part[:5, 0] for part in draws("normal-gamma"))
    wanted = [
        stats.multivariate_normal(mean, np.eye(2) / (count * w)).logpdf(m) + stats.gamma(shape, 0, 1 / rate).logpdf(w)
        for m, w in zip(mu, precision, strict=True)
    ]
    np.testing.assert_allclose(q.log_prob((mu, precision)), wanted, rtol=1e-11)
    np.testing.assert_allclose(q.mean, mean, rtol=1e-13)
    np.testing.assert_allclose(q.mean_precision, shape / rate, rtol=1e-12)
    # μ is Student-t with 2a degrees of freedom
    np.testing.assert_allclose(q.covariance, rate / (count * (shape - 1)) * np.eye(2), rtol=1e-12)


def test_normal_gamma_of_one_coordinate_is_normal_wishart():
    parameters = [(np.array([0.3]), 1.7, 2.5, 0.8), (np.array([-0.4]), 0.9, 3.5, 1.8)]
    gammas = [NormalGamma.from_parameters(*p) for p in parameters]
    wisharts = [NormalWishart.from_parameters(m, k, 2 * a, np.eye(1) / (2 * b)) for m, k, a, b in parameters]
    np.testing.assert_allclose(gammas[0].kl(gammas[1]), wisharts[0].kl(wisharts[1]), rtol=1e-12)
    np.testing.assert_allclose(gammas[0].distance(gammas[1]), wisharts[0].distance(wisharts[1]), rtol=1e-12)
