"""Cholesky-based reads of symmetric matrices in JAX: the traced twin of `cavity.linalg.host`.

Each is one program: operation by operation, a read of a large matrix would hold half a dozen copies of it.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

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


@jax.jit
def is_positive_definite(matrix: Array) -> Array:
    """Whether M is finite and positive definite, one truth value per matrix."""
    return jnp.all(jnp.isfinite(cholesky(matrix)), axis=(-2, -1))
