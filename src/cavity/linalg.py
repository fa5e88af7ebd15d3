"""Cholesky-based reads of symmetric matrices: the only file that factorises or inverts one."""

import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import solve_triangular


def symmetric(matrix: Array) -> Array:
    """(M + Mᵀ)/2 over the last two axes."""
    return 0.5 * (matrix + jnp.swapaxes(matrix, -1, -2))


def cholesky(matrix: Array) -> Array:
    """L with L Lᵀ = M; NaN where M is not positive definite."""
    return jnp.linalg.cholesky(symmetric(matrix))


def solve(chol: Array, vector: Array) -> Array:
    """M⁻¹ b from M = L Lᵀ, for b a (batch of) vector(s)."""
    half = solve_triangular(chol, vector[..., None], lower=True)
    return solve_triangular(chol, half, lower=True, trans=1)[..., 0]


def inverse(chol: Array) -> Array:
    """M⁻¹ from M = L Lᵀ, symmetric by construction."""
    half = inverse_transpose(chol)
    return half @ jnp.swapaxes(half, -1, -2)


def inverse_transpose(chol: Array) -> Array:
    """L⁻ᵀ, a square root of M⁻¹."""
    eye = jnp.broadcast_to(jnp.eye(chol.shape[-1], dtype=chol.dtype), chol.shape)
    return solve_triangular(chol, eye, lower=True, trans=1)


def logdet(chol: Array) -> Array:
    """log |M| from M = L Lᵀ, one number per matrix."""
    return 2.0 * jnp.sum(jnp.log(jnp.diagonal(chol, axis1=-2, axis2=-1)), axis=-1)


def outer(vector: Array) -> Array:
    """v vᵀ over the last axis."""
    return vector[..., :, None] * vector[..., None, :]


def is_positive_definite(matrix: Array) -> Array:
    """Whether M is finite and positive definite, one truth value per matrix."""
    return jnp.all(jnp.isfinite(cholesky(matrix)), axis=(-2, -1))
