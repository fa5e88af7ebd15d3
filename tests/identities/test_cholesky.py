"""L Lᵀ = M and L⁻¹ B by JAX, of one matrix and of many in step, as by LAPACK; NaN throughout where M has no factor."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import solve_triangular

from cavity.linalg import traced as linalg

SIZES = [1, 2, 4, 5, 16, 17, 40, 130]  # written out, column by column, of two and three blocks, one after the other


def matrices(dim: int, count: int = 5) -> np.ndarray:
    root = np.random.default_rng(dim).normal(size=(count, dim, dim + 2))
    return root @ np.swapaxes(root, -1, -2)


@pytest.mark.parametrize("dim", SIZES)
def test_factor_is_that_of_lapack(dim: int) -> None:
    expected = np.linalg.cholesky(matrices(dim))
    with jax.enable_x64(True):
        for ours in (linalg.cholesky(matrices(dim)), jax.vmap(linalg.cholesky)(matrices(dim))):
            np.testing.assert_allclose(ours, expected, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(linalg.cholesky(matrices(dim)[0]), expected[0], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dim", SIZES)
def test_triangular_solve_is_that_of_lapack(dim: int, transposed: bool) -> None:
    roots = np.linalg.cholesky(matrices(dim)) + np.eye(dim)
    columns = np.random.default_rng(0).normal(size=(len(roots), dim, 3))
    one = lambda root, right: solve_triangular(root, right, lower=True, trans=int(transposed))
    expected = np.stack(list(map(one, roots, columns)))
    ours = lambda root, columns: linalg.solve_triangular(root, columns, transposed)
    with jax.enable_x64(True):
        for solved in (ours(roots, columns), jax.vmap(ours)(roots, columns)):
            np.testing.assert_allclose(solved, expected, rtol=1e-8, atol=1e-10)
        shared = jax.vmap(ours, (None, 0))(roots[0], columns)  # one matrix, many right-hand sides
    np.testing.assert_allclose(shared[0], expected[0], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("dim", [3, 6, 20])
def test_gradient_of_logdet_is_the_inverse(dim: int) -> None:
    with jax.enable_x64(True):
        slope = jax.grad(lambda m: jnp.sum(linalg.logdet(linalg.cholesky(m))))(jnp.asarray(matrices(dim)))
    np.testing.assert_allclose(slope, np.linalg.inv(matrices(dim)), rtol=1e-8, atol=1e-10)


def by_lapack(matrix):
    root = jnp.linalg.cholesky(linalg.symmetric(matrix))
    return jnp.sum(jnp.sin(jax.scipy.linalg.solve_triangular(root, matrix[:, :2], lower=True)))


def by_ours(matrix):
    return jnp.sum(jnp.sin(linalg.solve_triangular(linalg.cholesky(matrix), matrix[:, :2])))


def test_two_matrices_in_a_basis_in_which_both_are_diagonal() -> None:
    first, second = matrices(4), matrices(4)[::-1]
    with jax.enable_x64(True):
        basis, values = map(np.asarray, linalg.diagonalise(np.linalg.cholesky(first), second))
    turn = lambda matrix: basis @ matrix @ np.swapaxes(basis, -1, -2)
    np.testing.assert_allclose(turn(first), np.broadcast_to(np.eye(4), first.shape), atol=1e-9)
    np.testing.assert_allclose(turn(second), values[..., None] * np.eye(4), atol=1e-7)


DERIVATIVES = {
    "reverse": lambda f: jax.vmap(jax.grad(f)),
    "of a batch": lambda f: jax.grad(lambda m: jnp.sum(jax.vmap(f)(m))),
    "forward": lambda f: jax.vmap(jax.jacfwd(f)),
    "second": lambda f: jax.vmap(jax.hessian(f)),
}


@pytest.mark.parametrize("kind", DERIVATIVES)
def test_derivatives_are_those_of_lapack(kind: str) -> None:
    with jax.enable_x64(True):
        ours, theirs = (DERIVATIVES[kind](f)(jnp.asarray(matrices(6))) for f in (by_ours, by_lapack))
    np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("bad", [-np.eye(3), np.zeros((3, 3)), np.diag([1.0] * 19 + [-1e-3]), np.full((6, 6), np.nan)])
def test_no_factor_is_nan_throughout(bad: np.ndarray) -> None:
    with jax.enable_x64(True):
        assert np.all(np.isnan(np.asarray(linalg.cholesky(bad))[np.tril_indices(len(bad))]))
        assert np.all(np.isnan(linalg.cholesky(bad[None])))


SEVERAL_BATCHES = """
import jax, jax.numpy as jnp, numpy as np
from cavity import linalg
with jax.enable_x64(True):
    many = jnp.asarray(np.stack([np.eye(30)] * 2048))
    one = lambda m: sum(jnp.sum(linalg.inverse(linalg.cholesky(m + k * jnp.eye(30)))) for k in range(3))
    batches = jax.jit(jax.vmap(one))
    for _ in range(3):
        print(float(batches(many)[0]))
"""


def test_several_batches_in_one_program_come_to_an_end() -> None:
    """With LAPACK for each matrix, all threads of jaxlib 0.10 wait for each other on two cores."""
    done = subprocess.run([sys.executable, "-c", SEVERAL_BATCHES], capture_output=True, text=True, timeout=120)
    np.testing.assert_allclose(np.array(done.stdout.split(), float), 3 * [30 * (1 + 1 / 2 + 1 / 3)], rtol=1e-12)
