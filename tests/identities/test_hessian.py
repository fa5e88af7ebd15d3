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
