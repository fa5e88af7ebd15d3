"""Cholesky-based reads of symmetric matrices: of NumPy's arrays by LAPACK, of JAX's by programs that can be traced.

No other file factorises or inverts a matrix of a family. Each function goes by the kind of its arrays.
"""

from typing import Any

import numpy as np

from cavity._array import is_jax
from cavity._checks import as_numbers
from cavity.linalg import host


def twin(*arrays: Any) -> Any:
    """The module that computes with arrays of this kind."""
    if not is_jax(*arrays):
        return host
    import cavity.linalg.traced as traced  # not before an array is JAX's: importing JAX takes half a second

    return traced


def symmetric(matrix: Any) -> Any:
    """(M + Mᵀ)/2 over the last two axes."""
    return twin(matrix).symmetric(matrix)


def cholesky(matrix: Any) -> Any:
    """L with L Lᵀ = M; NaN where M is not positive definite."""
    return twin(matrix).cholesky(matrix)


def solve_triangular(chol: Any, columns: Any, transposed: bool = False) -> Any:
    """L⁻¹ B, or L⁻ᵀ B."""
    return twin(chol, columns).solve_triangular(chol, columns, transposed)


def solve(chol: Any, vector: Any) -> Any:
    """M⁻¹ b from M = L Lᵀ, for b a (batch of) vector(s)."""
    return twin(chol, vector).solve(chol, vector)


def half_solve(chol: Any, rows: Any) -> Any:
    """(L⁻¹ bᵀ)ᵀ for the rows b of a matrix: their squares sum to bᵀ M⁻¹ b."""
    return twin(chol, rows).half_solve(chol, rows)


def inverse(chol: Any) -> Any:
    """M⁻¹ from M = L Lᵀ, symmetric by construction."""
    return twin(chol).inverse(chol)


def inverse_transpose(chol: Any) -> Any:
    """L⁻ᵀ, a square root of M⁻¹."""
    return twin(chol).inverse_transpose(chol)


def diagonalise(chol: Any, matrix: Any) -> tuple[Any, Any]:
    """B and g with B L Lᵀ Bᵀ = I and B M Bᵀ = diag(g): a basis in which two symmetric matrices are diagonal."""
    return twin(chol, matrix).diagonalise(chol, matrix)


def logdet(chol: Any) -> Any:
    """log |M| from M = L Lᵀ, one number per matrix."""
    return twin(chol).logdet(chol)


def outer(vector: Any) -> Any:
    """v vᵀ over the last axis."""
    return vector[..., :, None] * vector[..., None, :]


def is_positive_definite(matrix: Any) -> Any:
    """Whether M is finite and positive definite, one truth value per matrix."""
    return twin(matrix).is_positive_definite(matrix)


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
