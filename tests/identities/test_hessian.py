"""∇²A(η) = Cov_q[T]: symmetric, positive definite in a minimal family."""

import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from tests.registry import FAMILIES, draws, member


@pytest.mark.parametrize("name", FAMILIES)
def test_hessian_is_the_covariance_of_the_statistics(name):
    q = member(name)
    with jax.enable_x64(True):
        flat, unravel = ravel_pytree(q)
        hessian = np.asarray(jax.jit(jax.hessian(lambda eta: unravel(eta).log_partition()))(flat))
        flatten = lambda theta: ravel_pytree(q.statistics(theta))[0]
        statistics = np.asarray(jax.jit(jax.vmap(flatten))(draws(name)))
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-11, atol=1e-12)
    values = np.linalg.eigvalsh(hessian)
    redundant = 2 * FAMILIES[name].redundant
    np.testing.assert_allclose(values[:redundant], 0.0, atol=1e-12)
    assert np.all(values[redundant:] > 1e-3)

    # Entry by entry within five standard errors, at a fixed key.
    centred = statistics - statistics.mean(0)
    products = centred[:, :, None] * centred[:, None, :]
    error = products.std(0) / np.sqrt(len(products))
    assert np.all(np.abs(products.mean(0) - hessian) < 5 * error + 1e-9)


@pytest.mark.parametrize("name", FAMILIES)
def test_moments_change_along_a_direction_by_the_hessian(name):
    q, other = member(name), member(name, seed=1)
    with jax.enable_x64(True):
        wanted = jax.jit(lambda q, d: jax.jvp(lambda eta: eta.moments(), (q,), (d,))[1])(q, other)
        got = q.moments_along(other)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10 * np.abs(b).max())
