"""The reference of a mixture: its density, draws with their labels put back, and measures of error."""

import numpy as np
import pytest

import cavity
from cavity.experiments.reference import MixtureReference, aligned, averaged_norm, mixture_potential

ANCHOR = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0], [3.0, 3.0]])


def draws_around(anchor, shape=(4, 500), seed=0):
    return anchor + 0.3 * np.random.default_rng(seed).normal(size=(*shape, *anchor.shape))


def test_permuted_draws_have_the_moments_of_those_before():
    rng = np.random.default_rng(1)
    draws = draws_around(ANCHOR)
    shuffled = np.array([[draw[rng.permutation(4)] for draw in chain] for chain in draws])
    back, permuted = aligned(shuffled, ANCHOR)
    np.testing.assert_array_equal(back, draws)
    assert permuted == np.mean(np.any(shuffled != draws, axis=(2, 3)))
    assert permuted > 0.9
    untouched, none = aligned(draws, ANCHOR)
    np.testing.assert_array_equal(untouched, draws)
    assert none == 0.0


def test_the_order_is_the_best_of_all_and_not_the_nearest_one_by_one():
    anchor, draw = np.array([[0.0], [1.0]]), np.array([[0.9], [2.0]])  # both are nearest to the second
    np.testing.assert_array_equal(aligned(draw, anchor)[0], draw)
    np.testing.assert_array_equal(aligned(draw[::-1], anchor)[0], draw)
    cycle = ANCHOR[[1, 2, 0, 3]]  # not its own inverse: an order and its inverse must not be confused
    np.testing.assert_array_equal(aligned(cycle, ANCHOR)[0], ANCHOR)


def test_measures_by_hand():
    q = cavity.Gaussian.from_mean(
        np.array([[3.0, 4.0], [0.0, 1.0]]), np.array([[[4.0, 1.0], [1.0, 1.0]], [[3.0, 0.0], [0.0, 2.0]]])
    )
    covariance = np.array([[[4.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]])
    errors = MixtureReference(np.zeros((2, 2)), covariance, 1e4, 1.0, 0.0, 0.01, 0.01).errors(q)
    np.testing.assert_allclose(errors["mean"], (5.0 + 1.0) / 2)
    np.testing.assert_allclose(errors["covariance"], (np.sqrt(2) + np.sqrt(5)) / 2)
    np.testing.assert_allclose(errors["average"], (3 / 2 + 4 + 0 + 1) / 4)
    np.testing.assert_allclose(errors["worst"], 4.0)
    assert averaged_norm(np.array([[[3.0, 0.0], [0.0, 4.0]], [[0.0, 0.0], [0.0, 1.0]]])) == 3.0


def test_moments_of_each_mean_and_their_standard_errors():
    pytest.importorskip("numpyro", reason="install cavity[nuts]")
    from cavity.experiments.reference import summarise_mixture

    spread = np.array([1.0, 2.0, 3.0, 4.0])[:, None]
    draws = ANCHOR + spread * np.random.default_rng(0).normal(size=(4, 5000, 4, 2))
    found = summarise_mixture(draws)
    flat = draws.reshape(-1, 4, 2)
    np.testing.assert_allclose(found["mean"], flat.mean(0))
    np.testing.assert_allclose(found["covariance"][2], np.cov(flat[:, 2].T))
    np.testing.assert_allclose(found["mean_floor"], np.mean(np.sqrt(2) * spread / np.sqrt(20_000)), rtol=0.1)
    of_products = np.sqrt(2 + 2 + 1 + 1) * spread**2 / np.sqrt(20_000)  # two variances, a covariance twice
    np.testing.assert_allclose(found["covariance_floor"], np.mean(of_products), rtol=0.1)


def test_the_sampler_has_the_density_of_the_mixture():
    import jax
    from scipy.stats import multivariate_normal as normal

    rng = np.random.default_rng(0)
    points, one, other = rng.normal(size=(7, 2)), rng.normal(size=(3, 2)), rng.normal(size=(3, 2))

    def log_joint(means):
        likelihood = sum(normal.pdf(points, mean, 0.3 * np.eye(2)) / 3 for mean in means)
        return np.log(likelihood).sum() + sum(normal.logpdf(mean, np.zeros(2)) for mean in means)

    with jax.enable_x64(True):
        potential = mixture_potential(points, 0.3, (3, 2))
        difference = potential(one.ravel()) - potential(other.ravel())
    np.testing.assert_allclose(difference, log_joint(other) - log_joint(one))
