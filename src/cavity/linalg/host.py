"""Cholesky-based reads of symmetric matrices in NumPy and LAPACK: the host's twin of `cavity.linalg.traced`.

Arrays are in C order and LAPACK's in Fortran order, so what it is given is the transpose: Lᵀ is its upper factor, and
no array is copied to be turned around. One matrix, or many over leading axes, one after the other.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import ndarray as Array


@functools.cache
def lapack() -> Any:
    """LAPACK by SciPy, whose linear algebra takes a tenth of a second to import: only who factorises waits for it."""
    from scipy.linalg import lapack

    return lapack


@functools.cache
def blas() -> Any:
    """BLAS by SciPy, imported when it is first needed."""
    from scipy.linalg import blas

    return blas


def symmetric(matrix: Array) -> Array:
    """(M + Mᵀ)/2 over the last two axes."""
    twice = matrix + np.swapaxes(matrix, -1, -2)
    twice *= 0.5
    return twice


def cholesky(matrix: Array) -> Array:
    """L with L Lᵀ = M; NaN where M is not positive definite."""
    matrix = np.ascontiguousarray(symmetric(matrix), dtype=np.float64)
    if matrix.ndim == 2:
        return one_cholesky(matrix)
    try:
        roots = np.linalg.cholesky(matrix)  # one call for all matrices, which refuses all where it refuses one
    except np.linalg.LinAlgError:
        return over_matrices(one_cholesky, matrix)
    return roots if np.all(np.isfinite(np.trace(roots, axis1=-2, axis2=-1))) else over_matrices(one_cholesky, matrix)


def one_cholesky(matrix: Array) -> Array:
    """L of one symmetric matrix, in its place; NaN throughout where it has none."""
    upper, info = lapack().dpotrf(matrix.T, lower=0, clean=1, overwrite_a=1)
    if info or not math.isfinite(upper.trace()):  # some builds of LAPACK take NaN or infinity for any other pivot
        return np.full_like(matrix, np.nan)
    return upper.T


def solve_triangular(chol: Array, columns: Array, transposed: bool = False) -> Array:
    """L⁻¹ B, or L⁻ᵀ B."""
    if chol.ndim > 2:
        return over_matrices(lambda root, right: solve_triangular(root, right, transposed), chol, columns)
    if columns.ndim > 2:  # right-hand sides of one matrix, side by side
        beside = np.moveaxis(columns, -2, 0)
        solved = solve_triangular(chol, beside.reshape(len(chol), -1), transposed)
        return np.moveaxis(solved.reshape(beside.shape), 0, -2)
    if columns.flags.f_contiguous:
        return blas().dtrsm(1.0, chol.T, columns, side=0, lower=0, trans_a=not transposed)
    # (L⁻¹ B)ᵀ = Bᵀ (Lᵀ)⁻¹, and Bᵀ is in the order of Fortran
    return blas().dtrsm(1.0, chol.T, columns.T, side=1, lower=0, trans_a=transposed).T


def solve(chol: Array, vector: Array) -> Array:
    """M⁻¹ b from M = L Lᵀ, for b a (batch of) vector(s)."""
    return solve_triangular(chol, solve_triangular(chol, vector[..., None]), transposed=True)[..., 0]


def half_solve(chol: Array, rows: Array) -> Array:
    """(L⁻¹ bᵀ)ᵀ for the rows b of a matrix: their squares sum to bᵀ M⁻¹ b."""
    return solve_triangular(chol, rows.T).T


def inverse(chol: Array) -> Array:
    """M⁻¹ from M = L Lᵀ, symmetric by construction."""
    if chol.ndim > 2:
        return over_matrices(inverse, chol)
    upper, _ = lapack().dpotri(chol.T, lower=0)
    both = upper + upper.T  # L has zeros above its diagonal, and LAPACK leaves them
    both.flat[:: len(both) + 1] *= 0.5
    return both


def inverse_transpose(chol: Array) -> Array:
    """L⁻ᵀ, a square root of M⁻¹."""
    return over_matrices(inverse_transpose, chol) if chol.ndim > 2 else lapack().dtrtri(chol.T, lower=0)[0]


def diagonalise(chol: Array, matrix: Array) -> tuple[Array, Array]:
    """B and g with B L Lᵀ Bᵀ = I and B M Bᵀ = diag(g): a basis in which two symmetric matrices are diagonal."""
    half = solve_triangular(chol, matrix)
    middle = symmetric(solve_triangular(chol, np.swapaxes(half, -1, -2)))
    good = np.all(np.isfinite(middle), axis=(-2, -1))[..., None, None]  # LAPACK fails on NaN, or does not return
    values, vectors = np.linalg.eigh(np.where(good, middle, 0.0))
    basis = np.swapaxes(solve_triangular(chol, vectors, transposed=True), -1, -2)
    return np.where(good, basis, np.nan), np.where(good[..., 0], values, np.nan)


def logdet(chol: Array) -> Array:
    """log |M| from M = L Lᵀ, one number per matrix."""
    return 2.0 * np.sum(np.log(np.diagonal(chol, axis1=-2, axis2=-1)), axis=-1)


def is_positive_definite(matrix: Array) -> Array:
    """Whether M is finite and positive definite, one truth value per matrix."""
    return np.isfinite(cholesky(matrix)[..., 0, 0])


def over_matrices(function: Callable[..., Array], *arrays: Array) -> Array:
    """A function of single matrices, of one after the other over the leading axes that the arrays share."""
    lead = arrays[0].shape[:-2]
    flat = [array.reshape(-1, *array.shape[-2:]) for array in arrays]
    values = [function(*parts) for parts in zip(*flat, strict=True)]
    shape = values[0].shape if values else arrays[-1].shape[-2:]
    return np.array(values).reshape(*lead, *shape)
