"""L Lᵀ = M, column by column as by LAPACK; NaN throughout where M has no factor."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cavity import linalg


def matrices(dim: int) -> np.ndarray:
    root = np.random.default_rng(dim).normal(size=(50, dim, dim + 2))
    return root @ np.swapaxes(root, -1, -2)


@pytest.mark.parametrize("dim", [1, 2, 4, 5, 16, 17])
def test_factor_is_that_of_lapack(dim: int) -> None:
    with jax.enable_x64(True):
        ours = linalg.cholesky(matrices(dim))
    np.testing.assert_allclose(ours, np.linalg.cholesky(matrices(dim)), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dim", [3, 6])
def test_gradient_of_logdet_is_the_inverse(dim: int) -> None:
    with jax.enable_x64(True):
        slope = jax.grad(lambda m: jnp.sum(linalg.logdet(linalg.cholesky(m))))(jnp.asarray(matrices(dim)))
    np.testing.assert_allclose(slope, np.linalg.inv(matrices(dim)), rtol=1e-8)


@pytest.mark.parametrize("bad", [-np.eye(3), np.zeros((3, 3)), np.diag([1.0, 1.0, -1e-3]), np.full((6, 6), np.nan)])
def test_no_factor_is_nan_throughout(bad: np.ndarray) -> None:
    with jax.enable_x64(True):
        assert np.all(np.isnan(linalg.cholesky(bad)))
