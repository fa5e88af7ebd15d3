"""Families that compute on the host give the numbers of their traced form."""

import jax
import numpy as np
import pytest

from cavity.families import DiagonalGaussian, Gamma, Gaussian, Product
from tests.registry import assert_trees_close, member

RNG = np.random.default_rng(0)


def product(seed, lead):
    return Product({"b": member("gaussian", seed, lead), "a": (member("diagonal-gaussian", seed, lead),)})


def mixture(seed, lead):
    return Product({"weights": member("dirichlet", seed, lead), "components": member("normal-wishart", seed, lead)})


CONJUGATE = ("dirichlet", "beta", "normal-gamma", "normal-wishart")  # whose draws are JAX's
BUILD = {
    "gaussian": lambda seed, lead: member("gaussian", seed, lead),
    "diagonal-gaussian": lambda seed, lead: member("diagonal-gaussian", seed, lead),
    "gamma": lambda seed, lead: member("gamma", seed, lead),
    "product": product,
    **{name: lambda seed, lead, name=name: member(name, seed, lead) for name in CONJUGATE},
    "mixture": mixture,
    "network": lambda seed, lead: Product(
        {"a": member("diagonal-gaussian", seed, lead), "b": member("gamma", seed, lead)}
    ),
}
READS = {
    "log_partition": lambda q, p, theta: q.log_partition(),
    "moments": lambda q, p, theta: q.moments(),
    "from_moments": lambda q, p, theta: q.moments().from_moments(),
    "entropy": lambda q, p, theta: q.entropy(),
    "kl": lambda q, p, theta: q.kl(p),
    "distance": lambda q, p, theta: q.distance(p),
    "log_prob": lambda q, p, theta: q.log_prob(theta),
    "log_weight": lambda q, p, theta: q.log_weight(jax.tree.map(lambda leaf: leaf[0], theta)),
    "statistics": lambda q, p, theta: q.statistics(jax.tree.map(lambda leaf: leaf[0], theta)),
    "is_proper": lambda q, p, theta: q.is_proper(),
    "arithmetic": lambda q, p, theta: q + 0.5 * p - q,
    "moments_along": lambda q, p, theta: q.moments_along(p),
    "expected": lambda q, p, theta: q.expected(p),
    "means": lambda q, p, theta: [getattr(q, name) for name in ("mean", "variance", "covariance") if hasattr(q, name)],
}


@pytest.mark.parametrize("lead", [(), (3,), (2, 2)])
@pytest.mark.parametrize("name", BUILD)
def test_reads_are_those_of_the_traced_form(name, lead):
    q, p = BUILD[name](1, lead), BUILD[name](2, lead)
    theta = q.sample(0, (5,))
    every = lambda q, p, theta: {read: f(q, p, theta) for read, f in READS.items()}
    with jax.enable_x64(True):
        traced = jax.jit(every)(q, p, theta)
    ours = every(q, p, theta)
    assert_trees_close(ours, traced, rtol=1e-12)
    for read in ("log_partition", "entropy", "kl", "distance", "log_weight"):
        assert type(ours[read]) is np.float64, read
    assert type(ours["is_proper"]) is np.bool_
    assert ours["log_prob"].shape == (5,)


@pytest.mark.parametrize("name", BUILD)
def test_numbers_of_jax_are_read_in_double_precision(name):
    q, p = BUILD[name](1, (2,)), BUILD[name](2, (2,))
    with jax.enable_x64(True):
        of_jax = jax.jit(lambda q: 1.0 * q)(q)
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(of_jax))
    for read in ("log_partition", "moments", "entropy", "kl", "distance", "log_prob"):
        got, wanted = (READS[read](family, p, q.sample(0, (3,))) for family in (of_jax, q))
        assert all(isinstance(leaf, np.ndarray | np.generic) for leaf in jax.tree.leaves(got)), read
        assert_trees_close(got, wanted, rtol=1e-12)


def test_lists_of_traced_numbers_are_arrays():
    q, spread = Gaussian.isotropic(2, 2.0), np.array([2.0, 3.0])
    with jax.enable_x64(True):
        for p, values in ((q, [[2.0, 0.0], [0.0, 3.0]]), (DiagonalGaussian.isotropic(2, 2.0), [2.0, 3.0])):
            log_prob = jax.jit(lambda a, p=p: p.log_prob([a, 2 * a]))(0.7)
            np.testing.assert_allclose(log_prob, p.log_prob([0.7, 1.4]), rtol=1e-12)
            mean = jax.jit(lambda a, p=p, values=values: type(p).from_mean([a, 2 * a], values).mean)(0.7)
            np.testing.assert_allclose(mean, [0.7, 1.4], rtol=1e-12)
    np.testing.assert_allclose(DiagonalGaussian.from_mean([0, 1], spread).variance, spread)


@pytest.mark.parametrize(
    "bad",
    [
        Gaussian(np.zeros(2), -np.eye(2)),
        Gaussian(np.zeros(2), np.full((2, 2), np.nan)),
        DiagonalGaussian(np.ones(2), np.array([1.0, -1.0])),
        DiagonalGaussian(np.ones(2), np.zeros(2)),
        Product([DiagonalGaussian(np.ones(2), np.array([1.0, np.nan])), Gaussian.isotropic(2)]),
        Gamma(-1.0, 2.0),
        Gamma(np.array([1.0, 2.0]), np.array([1.0, -2.0])),
    ],
)
def test_what_is_improper_is_data_not_a_warning(bad):
    good = jax.tree.map(np.ones_like, bad)
    assert not bad.is_proper()
    assert not np.isfinite(bad.log_partition())
    bad.moments().from_moments(), bad.entropy(), bad.kl(good), good.kl(bad), bad.distance(good)


@pytest.mark.parametrize("name", BUILD)
@pytest.mark.parametrize("lead", [(), (2,)])
def test_slopes_of_moments_are_those_of_jax(name, lead):
    q, p = BUILD[name](1, lead), BUILD[name](2, lead)
    with jax.enable_x64(True):
        slope = jax.jvp(lambda at: at.moments(), (1.0 * q,), (1.0 * p,))[1]
    assert_trees_close(q.moments_along(p), slope, rtol=1e-11)


@pytest.mark.parametrize("name", [name for name in BUILD if name not in (*CONJUGATE, "mixture")])
@pytest.mark.parametrize("lead", [(), (2,)])
def test_draws_of_numpy_have_the_right_moments(name, lead):
    q = BUILD[name](3, lead)
    draws = q.sample(np.random.default_rng(4), (40_000,))
    statistics = jax.vmap(q.statistics)(draws)
    for got, wanted in zip(jax.tree.leaves(statistics), jax.tree.leaves(q.moments()), strict=True):
        error = np.std(got, axis=0) / np.sqrt(len(got))
        assert np.all(np.abs(np.mean(got, axis=0) - wanted) < 5 * error + 1e-4)
    assert_trees_close(q.sample(5, (3, 2)), q.sample(np.random.default_rng(5), (3, 2)), rtol=0)


def test_a_seed_draws_from_every_family():
    for name in ("gamma", "categorical"):
        np.testing.assert_array_equal(member(name).sample(3, (4,)), member(name).sample(3, (4,)))


def test_density_far_from_the_origin():
    # ⟨η, T(θ)⟩ and A(η) are about 1e20 here, and their difference would be lost
    for q in (Gaussian.from_mean([1e8, -1e8], 1e-4 * np.eye(2)), DiagonalGaussian.from_mean([1e8, -1e8], [1e-4, 1e-4])):
        wanted = -0.5 * 1.0 - np.log(2 * np.pi) - np.log(1e-4)
        np.testing.assert_allclose(q.log_prob([1e8 + 0.01, -1e8]), wanted, rtol=1e-4)
