"""q(θ) = 0 where θ is outside the support; on its edge the density is its limit, and inside ∂ log q/∂θ is finite."""

import jax
import numpy as np
import pytest
from scipy import stats

from cavity.families import Bernoulli, Beta, Categorical, Dirichlet, Gamma, NormalGamma, NormalWishart, Product, Wishart

INF = np.inf
NORMAL_WISHART = NormalWishart.from_parameters([0.0, 0.0], 1.0, 4.0, np.eye(2))


@pytest.mark.parametrize(
    ("q", "outside"),
    [
        (Gamma(2.0, 1.0), -1.0),
        (Gamma(2.0, 1.0), INF),
        (Gamma([0.5, 2.0], [1.0, 1.0]), [0.0, -1.0]),
        (Beta(2.0, 1.0), 2.0),
        (Beta(2.0, 1.0), -0.5),
        (Dirichlet([2.0, 1.0]), [0.5, 0.6]),
        (Dirichlet([2.0, 1.0]), [-0.5, 1.5]),
        (Bernoulli(0.3), 2),
        (Bernoulli(0.3), 0.5),
        (Categorical([0.3, 0.1]), 3),
        (Categorical([0.3, 0.1]), -1),
        (Categorical([0.3, 0.1]), 0.5),
        (Wishart(4.0, np.eye(2)), -np.eye(2)),
        (Wishart(4.0, np.eye(2)), np.ones((2, 2))),
        (NORMAL_WISHART, (np.zeros(2), -np.eye(2))),
        (NormalGamma(np.zeros(2), 1.0, 2.0, 1.0), (np.zeros(2), -1.0)),
        (NormalGamma(np.zeros(2), 1.0, 2.0, 1.0), (np.zeros(2), INF)),
        (Product({"a": Gamma(0.5, 1.0), "b": Beta(2.0, 2.0)}), {"a": 0.0, "b": 3.0}),
    ],
)
def test_nothing_lies_outside(q, outside):
    assert q.log_prob(outside) == -INF


@pytest.mark.parametrize(
    ("q", "edge", "wanted"),
    [
        (Gamma(1.0, 3.0), 0.0, np.log(3.0)),
        (Gamma(2.0, 3.0), 0.0, -INF),
        (Gamma(0.5, 3.0), 0.0, INF),
        (Beta(1.0, 1.0), 0.0, 0.0),
        (Beta(2.0, 1.0), 1.0, np.log(2.0)),
        (Beta(0.5, 2.0), 0.0, INF),
        (Beta(0.5, 2.0), 1.0, -INF),
        (Dirichlet([1.0, 1.0, 1.0]), [0.0, 0.3, 0.7], np.log(2.0)),
        (Dirichlet([2.0, 1.0, 1.0]), [0.0, 0.3, 0.7], -INF),
        (Dirichlet([0.5, 1.0, 1.0]), [0.0, 0.3, 0.7], INF),
    ],
)
def test_the_edge_has_the_limit(q, edge, wanted):
    np.testing.assert_allclose(q.log_prob(edge), wanted, atol=1e-14)


@pytest.mark.parametrize(
    ("q", "theta", "reference"),
    [
        (Gamma(2.5, 1.5), 0.7, stats.gamma(2.5, scale=1 / 1.5).logpdf),
        (Beta(2.5, 0.5), 0.2, stats.beta(2.5, 0.5).logpdf),
    ],
)
def test_the_inside_is_differentiable(q, theta, reference):
    with jax.enable_x64(True):
        slope = jax.grad(q.log_prob)(theta)
        curvature = jax.grad(jax.grad(q.log_prob))(theta)
    h = 1e-4
    low, mid, high = (reference(theta + step) for step in (-h, 0.0, h))
    np.testing.assert_allclose(slope, (high - low) / (2 * h), rtol=1e-5)
    np.testing.assert_allclose(curvature, (high - 2 * mid + low) / h**2, rtol=1e-4)


def test_the_inside_of_the_simplex_and_of_the_cone_is_differentiable():
    theta, shape = np.array([0.2, 0.3, 0.5]), np.array([[1.0, 0.3], [0.3, 0.8]])
    with jax.enable_x64(True):
        np.testing.assert_allclose(jax.grad(Dirichlet([2.0, 1.0, 0.5]).log_prob)(theta), [5.0, 0.0, -1.0], atol=1e-14)
        slope = jax.grad(Wishart(5.0, 2 * np.eye(2)).log_prob)(shape)
    np.testing.assert_allclose(slope, np.linalg.inv(shape) - np.eye(2), rtol=1e-12)
