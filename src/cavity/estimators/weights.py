"""Weights of rows, which count them: two is the row twice, zero no row."""

from typing import Any

import numpy as np
from sklearn.utils.validation import _check_sample_weight


def check_weight(sample_weight: Any, X: Any) -> np.ndarray:
    """A weight for every row of X: one where none are given."""
    if sample_weight is None:
        return np.ones(len(X))
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if np.any(weight < 0):
        row = int(np.argmin(weight))
        raise ValueError(f"sample_weight must not be negative; got {weight[row]} for row {row}. Zero leaves a row out.")
    if not np.any(weight > 0):
        raise ValueError("sample_weight must be above zero for at least one row; got zeros only.")
    return weight


def counted(weight: np.ndarray, *columns: Any) -> tuple[Any, ...]:
    """The weights above zero, and their rows of all columns."""
    kept = weight > 0
    return (weight, *columns) if np.all(kept) else (weight[kept], *[column[kept] for column in columns])
