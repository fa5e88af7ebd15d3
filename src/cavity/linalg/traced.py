"""Cholesky-based reads of symmetric matrices: the only file that factorises or inverts one.

Each is one program: operation by operation, a read of a large matrix would hold half a dozen copies of it.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from cavity._checks import as_numbers
from cavity.linalg import in_step as batches


def symmetric(matrix: Array) -> Array:
    """(M + Mᵀ)/2 over the last two axes."""
    return 0.5 * (matrix + jnp.swapaxes(matrix, -1, -2))


@jax.jit
def cholesky(matrix: Array) -> Array:
    """L with L Lᵀ = M; NaN where M is not positive definite."""
    return batches.cholesky(symmetric(matrix))


@partial(jax.jit, static_argnames="transposed")
def solve_triangular(chol: Array, columns: Array, transposed: bool = False) -> Array:
    """L⁻¹ B, or L⁻ᵀ B."""
    return batches.solve(chol, columns, transposed)


@jax.jit
def solve(chol: Array, vector: Array) -> Array:
    """M⁻¹ b from M = L Lᵀ, for b a (batch of) vector(s)."""
    return solve_triangular(chol, solve_triangular(chol, vector[..., None]), transposed=True)[..., 0]


@jax.jit
def half_solve(chol: Array, rows: Array) -> Array:
    """(L⁻¹ bᵀ)ᵀ for the rows b of a matrix: their squares sum to bᵀ M⁻¹ b."""
    return solve_triangular(chol, rows.T).T


@jax.jit
def inverse(chol: Array) -> Array:
    """M⁻¹ from M = L Lᵀ, symmetric by construction."""
    half = inverse_transpose(chol)
    return half @ jnp.swapaxes(half, -1, -2)


@jax.jit
def inverse_transpose(chol: Array) -> Array:
    """L⁻ᵀ, a square root of M⁻¹."""
    eye = jnp.broadcast_to(jnp.eye(chol.shape[-1], dtype=chol.dtype), chol.shape)
    return solve_triangular(chol, eye, transposed=True)


@jax.jit
def diagonalise(chol: Array, matrix: Array) -> tuple[Array, Array]:
    """B and g with B L Lᵀ Bᵀ = I and B M Bᵀ = diag(g): a basis in which two symmetric matrices are diagonal."""
    half = solve_triangular(chol, matrix)
    values, vectors = jnp.linalg.eigh(symmetric(solve_triangular(chol, jnp.swapaxes(half, -1, -2))))
    return jnp.swapaxes(solve_triangular(chol, vectors, transposed=True), -1, -2), values


def logdet(chol: Array) -> Array:
    """log |M| from M = L Lᵀ, one number per matrix."""
    return 2.0 * jnp.sum(jnp.log(jnp.diagonal(chol, axis1=-2, axis2=-1)), axis=-1)


def outer(vector: Array) -> Array:
    """v vᵀ over the last axis."""
    return vector[..., :, None] * vector[..., None, :]


@jax.jit
def is_positive_definite(matrix: Array) -> Array:
    """Whether M is finite and positive definite, one truth value per matrix."""
    return jnp.all(jnp.isfinite(cholesky(matrix)), axis=(-2, -1))


def check_covariance(name: str, matrix: Any, shape: tuple[int, ...]) -> None:
    """Raise a ValueError unless a user's matrices have this shape and are symmetric and positive definite."""
    matrix = as_numbers(name, matrix)  # NumPy throughout: inside someone's trace JAX would not say yes or no
    if matrix.shape != shape:
        raise ValueError(f"{name} must have shape {shape} to go with the mean; got {matrix.shape}.")
    if not np.all(np.isfinite(matrix)):
        raise ValueError(f"{name} must be finite; got NaN or infinity.")
    asymmetry = np.max(np.abs(matrix - np.swapaxes(matrix, -1, -2)), initial=0.0)
    if asymmetry > ASYMMETRY * np.max(np.abs(matrix), initial=0.0):
        raise ValueError(f"{name} must be symmetric; got entries that differ by {asymmetry:g} across the diagonal.")
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        smallest = np.linalg.eigvalsh(matrix).min()
        raise ValueError(f"{name} must be positive definite; got an eigenvalue of {smallest:g}.") from None


ASYMMETRY = 1e-6  # relative: what single precision leaves of a symmetric matrix
