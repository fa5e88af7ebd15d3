"""log q, entropy, mean and variance against scipy."""

import numpy as np
import pytest
from scipy import stats

from cavity.families import NormalWishart
from tests.registry import FAMILIES, copy, draws, member

WITH_SCIPY = [name for name, case in FAMILIES.items() if case.scipy]


def scipy_log_prob(name, reference, theta):
    if hasattr(reference, "logpmf"):
        return reference.logpmf(theta)
    if name in ("dirichlet", "wishart"):
        theta = np.moveaxis(theta, 0, -1)  # scipy keeps the sample on the last axis there
    return reference.logpdf(theta)


@pytest.mark.parametrize("name", WITH_SCIPY)
def test_log_prob_and_entropy(name):
    q = copy(member(name), 0)
    reference = FAMILIES[name].scipy(q)
    theta = draws(name)[:8, 0]
    np.testing.assert_allclose(q.log_prob(theta), scipy_log_prob(name, reference, theta), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(q.entropy(), reference.entropy(), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", WITH_SCIPY)
def test_mean_and_variance(name):
    q = copy(member(name), 0)
    reference = FAMILIES[name].scipy(q)
    read = lambda moment: moment() if callable(moment) else moment
    if name == "categorical":
        np.testing.assert_allclose(q.probabilities, reference.pmf(np.arange(3)), rtol=1e-13)
        return
    np.testing.assert_allclose(q.mean, read(reference.mean), rtol=1e-12)
    if name in ("gaussian", "diagonal-gaussian", "dirichlet"):
        covariance = reference.cov if name != "dirichlet" else reference.cov()
        np.testing.assert_allclose(q.covariance, covariance, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(q.variance, np.diag(covariance), rtol=1e-12)
    else:
        np.testing.assert_allclose(q.variance, reference.var(), rtol=1e-12)


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
