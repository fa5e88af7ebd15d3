"""Covariances between the units of a layer: against quadrature in the plane, and draws of whole networks."""

import jax
import numpy as np
import pytest

import cavity
from cavity import NetworkRegressor
from cavity.factors.networks import unit_covariances, varying_noise
from cavity.factors.networks.activations import ACTIVATIONS, LEAK
from cavity.families import Gamma
from tests.estimators.test_network import sine
from tests.registry import thinned

FUNCTIONS = {
    "relu": lambda a: np.maximum(a, 0),
    "leaky_relu": lambda a: np.where(a > 0, a, LEAK * a),
    "sin": np.sin,
    "identity": lambda a: a,
}


def run(function, *args):
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, function(*args))


def covariance_on_a_grid(function, mean, covariance):
    """By the trapezoid rule in the two independent directions; its error at a kink is of second order."""
    u = np.linspace(-8, 8, 1601)
    density = np.exp(-0.5 * (u[:, None] ** 2 + u**2))
    density /= density.sum()
    root = np.linalg.cholesky(covariance)
    a, b = mean[0] + root[0, 0] * u[:, None] + 0 * u, mean[1] + root[1, 0] * u[:, None] + root[1, 1] * u
    f, g = function(a), function(b)
    return np.sum(density * f * g) - np.sum(density * f) * np.sum(density * g)


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("mean", [(0.3, -0.5), (-1.5, -1.0), (2.0, 0.1)])
@pytest.mark.parametrize("correlation", [-0.7, 0.2, 0.6])
def test_covariance_of_two_units_by_quadrature(name, mean, correlation):
    scale = np.array([0.8, 1.3])
    covariance = np.outer(scale, scale) * np.array([[1, correlation], [correlation, 1]])
    found = run(unit_covariances.activate, name, np.array(mean), covariance)
    wanted = covariance_on_a_grid(FUNCTIONS[name], mean, covariance)
    np.testing.assert_allclose(found[1][0, 1], wanted, rtol=1e-3, atol=2e-4)
    np.testing.assert_array_equal(found[1], found[1].T)
    plain = run(ACTIVATIONS[name], np.array(mean), np.diagonal(covariance))
    np.testing.assert_allclose([found[0], np.diagonal(found[1])], plain, rtol=1e-12)


def test_what_the_series_leaves_out_of_equal_units():
    for ratio in (-2.0, -1.0, 0.0, 0.5, 3.0):
        mean, covariance = np.array([ratio, ratio]), np.ones((2, 2))
        series = run(unit_covariances.relu, mean, covariance)[0, 1]
        exact = run(ACTIVATIONS["relu"], mean, np.ones(2))[1][0]
        assert 0 <= exact - series < 0.002


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_covariances_of_many_units_are_positive(name):
    rng = np.random.default_rng(0)
    root = rng.normal(size=(12, 4))
    mean, covariance = rng.normal(size=12), root @ root.T + 1e-3 * np.eye(12)
    assert np.linalg.eigvalsh(run(unit_covariances.activate, name, mean, covariance)[1]).min() > -1e-12


def random_network(sizes, **options):
    factor = cavity.factors.network(sizes, **options)
    rng = np.random.default_rng(0)
    mean, variance = rng.normal(size=factor.n_weights), rng.uniform(0.02, 0.2, size=factor.n_weights)
    return factor, mean, variance, rng.normal(size=sizes[0])


def test_one_hidden_layer_has_independent_units():
    factor, *at = random_network((3, 5, 1), unit_covariances=True)
    plain, *_ = random_network((3, 5, 1))
    assert factor.units_are_independent
    for a, b in zip(run(factor.output, *at), run(plain.output, *at), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize(
    "sizes", thinned([((3, 20, 20, 1),), ((3, 20, 2),), ((3, 20, 20, 2),)], lambda sizes: sizes[-1] == 1)
)
def test_moments_of_outputs_are_nearer_to_those_of_draws(sizes):
    factor, mean, variance, x = random_network(sizes, unit_covariances=True)
    assert not factor.units_are_independent
    plain, *_ = random_network(sizes)
    rng = np.random.default_rng(1)
    with jax.enable_x64(True):
        weights = mean + np.sqrt(variance) * rng.normal(size=(100_000, len(mean)))
        draws = np.asarray(jax.jit(jax.vmap(lambda w: factor.evaluate(w, x)))(weights))
    found, without = run(factor.output, mean, variance, x), run(plain.output, mean, variance, x)
    wanted = np.atleast_2d(np.cov(draws.T))
    np.testing.assert_allclose(found.variance, np.diagonal(wanted), rtol=0.06)
    if len(sizes) == 4:
        off = lambda output: np.abs(output.variance / np.diagonal(wanted) - 1)
        assert np.all(off(found) < off(without))
    if sizes[-1] == 2:
        assert abs(found.shared - wanted[0, 1]) < 0.1 * np.sqrt(wanted[0, 0] * wanted[1, 1])


@pytest.mark.parametrize("power", [1.0, 0.5, 0.0])
def test_noise_that_goes_with_the_function_by_quadrature(power):
    # without γ's own averaging: given s, N(y; f, v + e^c(s) b/(a − 1)), whose f is Gaussian with a mean that moves
    residual, variance, size = 0.9, 0.2, varying_noise.LogSize(0.4, 0.3, 0.15)
    noise = Gamma(np.float64(30.0), np.float64(12.0))
    found = run(lambda: varying_noise.log_mean(np.float64(residual), np.float64(variance), size, noise, power))
    grid = np.linspace(-7, 7, 4001)
    share = np.exp(-0.5 * grid**2) / np.sum(np.exp(-0.5 * grid**2))
    s = size.mean + np.sqrt(size.variance) * grid
    at = residual - size.shared / np.sqrt(size.variance) * grid
    left = variance - size.shared**2 / size.variance
    rate = 12.0 * np.exp(varying_noise.LIMIT * np.tanh(s / varying_noise.LIMIT))
    each = run(
        lambda: jax.vmap(
            lambda r, b: cavity.factors.networks.gamma_noise.log_mean(r, left, Gamma(np.float64(30.0), b), power)
        )(at, rate)
    )
    wanted = share @ each if power == 0 else np.log(share @ np.exp(power * each)) / power
    np.testing.assert_allclose(found, wanted, rtol=2e-5)  # what nine nodes give


def test_a_network_with_covariances_learns():
    X, y = sine(60)
    options = {"algorithm": "sep", "n_epochs": 5, "warm_up": 10}
    model = NetworkRegressor((6, 6), unit_covariances=True, **options).fit(X, y)
    plain = NetworkRegressor((6, 6), **options).fit(X, y)
    assert model.score(X, y) > 0.5
    assert np.max(np.abs(model.predict(X) - plain.predict(X))) > 1e-6
