"""∫ q(θ) dθ = 1 for the one-dimensional member of each family, base measure included."""

import numpy as np
import pytest

from cavity.families import (
    Bernoulli,
    Beta,
    Categorical,
    DiagonalGaussian,
    Dirichlet,
    Gamma,
    Gaussian,
    NormalWishart,
    Wishart,
)

STEP = 0.02
LINE = np.arange(-40.0, 20.0, STEP)  # the trapezoid rule on the line converges exponentially
POSITIVE = np.exp(LINE), np.exp(LINE) * STEP
LOGISTIC = 1 / (1 + np.exp(-np.arange(-30.0, 30.0, STEP)))
INTERVAL = LOGISTIC, LOGISTIC * (1 - LOGISTIC) * STEP


def simplex():
    nodes, weights = INTERVAL
    return np.stack([nodes, 1 - nodes], axis=-1), weights


def normal_wishart_grid():
    step = 0.1
    t, u = (part.ravel() for part in np.meshgrid(np.arange(-16, 6, step), np.arange(-9, 9, step)))
    sd = np.exp(-0.5 * t)  # μ = 0.5 + u/√W, so that the grid covers the funnel
    return (0.5 + u * sd)[:, None], np.exp(t)[:, None, None], np.exp(t) * sd * step**2


CASES = {
    "gaussian": (Gaussian([0.7] * np.ones(1), 0.5 * np.eye(1)), (LINE[:, None], STEP)),
    "diagonal-gaussian": (DiagonalGaussian(np.array([0.7]), np.array([0.5])), (LINE[:, None], STEP)),
    "gamma": (Gamma(0.8, 1.7), POSITIVE),
    "beta": (Beta(0.9, 2.4), INTERVAL),
    "dirichlet": (Dirichlet(np.array([0.9, 2.4])), simplex()),
    "wishart": (Wishart(1.4, 1.7 * np.eye(1)), (POSITIVE[0][:, None, None], POSITIVE[1])),
    "bernoulli": (Bernoulli(0.6), (np.arange(2), 1.0)),
    "categorical": (Categorical(np.array([0.6, -1.0])), (np.arange(3), 1.0)),
}


@pytest.mark.parametrize("name", CASES)
def test_density_integrates_to_one(name):
    q, (nodes, weights) = CASES[name]
    np.testing.assert_allclose(np.sum(np.exp(q.log_prob(nodes)) * weights), 1.0, rtol=1e-9)


def test_normal_wishart_integrates_to_one():
    q = NormalWishart.from_parameters(np.array([0.4]), 2.0, 3.0, 0.6 * np.eye(1))
    mu, precision, weights = normal_wishart_grid()
    np.testing.assert_allclose(np.sum(np.exp(q.log_prob((mu, precision))) * weights), 1.0, rtol=1e-8)
