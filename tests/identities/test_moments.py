"""∇A(η) = E_q[T], by automatic differentiation and by sampling."""

import jax
import numpy as np
import pytest

from tests.registry import FAMILIES, draws, member


@pytest.mark.parametrize("name", FAMILIES)
def test_moments_are_the_gradient_of_the_log_partition(name):
    q = member(name)
    with jax.enable_x64(True):
        gradient = jax.jit(jax.grad(lambda eta: eta.log_partition()))(q)
    for got, wanted in zip(jax.tree.leaves(q.moments()), jax.tree.leaves(gradient), strict=True):
        assert np.shape(got) == np.shape(wanted)
        np.testing.assert_allclose(got, wanted, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("name", FAMILIES)
def test_moments_are_the_mean_of_the_statistics(name):
    # Fixed key; a right family fails a fresh key with probability below 1e-4 (5 standard errors, about 60 numbers).
    q = member(name)
    with jax.enable_x64(True):
        statistics = jax.jit(jax.vmap(q.statistics))(draws(name))
    for sample, mean in zip(*map(jax.tree.leaves, (statistics, q.moments())), strict=True):
        error = np.std(np.asarray(sample), axis=0) / np.sqrt(len(sample))
        assert np.all(np.abs(np.mean(np.asarray(sample), axis=0) - mean) < 5 * error)
