"""Cholesky-based reads of symmetric matrices."""

from cavity.linalg.reads import (
    ASYMMETRY,
    check_covariance,
    cholesky,
    diagonalise,
    half_solve,
    inverse,
    inverse_transpose,
    is_positive_definite,
    logdet,
    outer,
    solve,
    solve_triangular,
    symmetric,
)

__all__ = [
    "ASYMMETRY",
    "check_covariance",
    "cholesky",
    "diagonalise",
    "half_solve",
    "inverse",
    "inverse_transpose",
    "is_positive_definite",
    "logdet",
    "outer",
    "solve",
    "solve_triangular",
    "symmetric",
]
