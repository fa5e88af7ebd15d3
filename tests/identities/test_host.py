"""Every Cholesky read on the host equals its traced twin: one matrix and many, also where there is no factor."""

import jax
import numpy as np
import pytest

from cavity import linalg
from cavity.linalg import host, traced

SIZES = [1, 2, 5, 17, 40, 130]
LEADS = [(), (3,), (2, 2)]
CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def matrices(lead, dim):
    """Symmetric and well conditioned."""
    root = np.random.default_rng(dim).normal(size=(*lead, dim, dim))
    return root @ np.swapaxes(root, -1, -2) / dim + np.eye(dim)


def both(name, *arrays, **options):
    """The read of NumPy's arrays, and of JAX's, both as NumPy."""
    ours = getattr(linalg, name)(*arrays, **options)
    assert all(isinstance(part, np.ndarray | np.generic) for part in jax.tree.leaves(ours))
    with jax.enable_x64(True):
        theirs = getattr(linalg, name)(*map(jax.numpy.asarray, arrays), **options)
        assert all(isinstance(part, jax.Array) for part in jax.tree.leaves(theirs))
        return ours, jax.tree.map(np.asarray, theirs)


@pytest.mark.parametrize("lead", LEADS)
@pytest.mark.parametrize("dim", SIZES)
def test_reads_of_a_matrix(dim, lead):
    matrix = matrices(lead, dim)
    chol = np.linalg.cholesky(matrix)
    np.testing.assert_allclose(*both("cholesky", matrix), **CLOSE)
    assert np.all(np.triu(host.cholesky(matrix), 1) == 0)
    for name in ("inverse", "inverse_transpose", "logdet"):
        np.testing.assert_allclose(*both(name, chol), **CLOSE)
    inverse = linalg.inverse(chol)
    np.testing.assert_array_equal(inverse, np.swapaxes(inverse, -1, -2))
    skew = matrix + np.random.default_rng(0).normal(size=matrix.shape)
    np.testing.assert_array_equal(*both("symmetric", skew))
    assert np.all(both("is_positive_definite", matrix))


@pytest.mark.parametrize("lead", LEADS)
@pytest.mark.parametrize("dim", SIZES)
def test_solutions(dim, lead):
    chol = np.linalg.cholesky(matrices(lead, dim))
    vector = np.random.default_rng(1).normal(size=(*lead, dim))
    columns = np.random.default_rng(2).normal(size=(*lead, dim, 3))
    np.testing.assert_allclose(*both("solve", chol, vector), **CLOSE)
    np.testing.assert_array_equal(*both("outer", vector))
    for right in (columns, np.asfortranarray(columns), columns[..., ::-1]):
        for transposed in (False, True):
            np.testing.assert_allclose(*both("solve_triangular", chol, right, transposed=transposed), **CLOSE)
    if not lead:
        many = np.random.default_rng(3).normal(size=(4, 2, dim))
        np.testing.assert_allclose(*both("solve", chol, many), **CLOSE)
        np.testing.assert_allclose(*both("half_solve", chol, columns.T.copy()), **CLOSE)


@pytest.mark.parametrize("lead", LEADS)
@pytest.mark.parametrize("dim", [1, 5, 17])
def test_basis_in_which_two_matrices_are_diagonal(dim, lead):
    chol, matrix = np.linalg.cholesky(matrices(lead, dim)), matrices(lead, dim) @ matrices(lead, dim)
    (basis, values), (basis_of_jax, values_of_jax) = both("diagonalise", chol, matrix)
    np.testing.assert_allclose(values, values_of_jax, rtol=1e-11)
    signs = np.sign(np.sum(basis * basis_of_jax, axis=-1, keepdims=True))  # an eigenvector has no sign of its own
    np.testing.assert_allclose(signs * basis, basis_of_jax, rtol=1e-8, atol=1e-10)


NO_FACTOR = {
    "negative": -np.eye(3),
    "zero": np.zeros((3, 3)),
    "last pivot": np.diag([1.0] * 19 + [-1e-3]),
    "NaN": np.full((6, 6), np.nan),
    "one NaN": np.eye(18) + np.where(np.arange(18 * 18).reshape(18, 18) == 5 * 18, np.nan, 0.0),
    "infinite": np.diag([1.0, np.inf, 1.0]),
    "one by one": np.array([[-2.0]]),
    "one NaN by one": np.array([[np.nan]]),
}


@pytest.mark.parametrize("name", NO_FACTOR)
def test_no_factor_is_nan(name):
    bad, good = NO_FACTOR[name], np.eye(len(NO_FACTOR[name]))
    ours, theirs = both("cholesky", bad)
    assert np.all(np.isnan(ours))
    assert np.any(np.isnan(theirs))  # throughout as well, unless a number of the matrix is itself not finite
    for many in (np.stack([bad, good]), np.stack([good, bad])):
        ours, theirs = both("cholesky", many)
        proper = np.all(many == good, axis=(-2, -1))
        assert np.all(np.isnan(ours[~proper]))
        assert np.any(np.isnan(theirs[~proper]))
        np.testing.assert_array_equal(ours[proper], theirs[proper])
    for many in (bad, np.stack([bad, good]), np.stack([good, bad])[None]):
        np.testing.assert_array_equal(*both("is_positive_definite", many))


def test_what_follows_from_no_factor_is_nan():
    for shape in ((3, 3), (2, 3, 3)):
        chol, vector = np.full(shape, np.nan), np.ones(shape[:-1])
        reads = {
            "inverse": linalg.inverse(chol),
            "inverse_transpose": linalg.inverse_transpose(chol)[..., *np.triu_indices(3)],
            "solve": linalg.solve(chol, vector),
            "logdet": linalg.logdet(chol),
            "diagonalise": linalg.diagonalise(chol, np.broadcast_to(np.eye(3), shape).copy())[1],
        }
        for name, value in reads.items():
            assert np.all(np.isnan(value)), name


def test_the_argument_is_left_as_it_is():
    matrix = matrices((), 5)
    chol, columns = np.linalg.cholesky(matrix), np.ones((5, 2), order="F")
    copies = matrix.copy(), chol.copy(), columns.copy()
    host.cholesky(matrix), host.inverse(chol), host.inverse_transpose(chol), host.solve_triangular(chol, columns)
    for array, copy in zip((matrix, chol, columns), copies, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_twins_have_the_same_reads():
    public = [name for name in linalg.__all__ if name not in ("ASYMMETRY", "check_covariance", "outer")]
    for name in public:
        assert callable(getattr(host, name))
        assert callable(getattr(traced, name))
