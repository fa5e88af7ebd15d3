"""What a mixture cannot be fitted to, or begin at."""

from typing import Any

import numpy as np

from cavity.estimators.mixture.posterior import MixturePosterior

# from the middle, in units of the data's spread: half of the digits are left in squares; squares of squares are numbers
SPREADS = {"full": 1e7, "diag": 1e60, "spherical": 1e60}


def check_spread(Z: np.ndarray, covariance_type: str) -> None:
    """Covariances of rows near and very far have more than the sixteen digits of float64."""
    row, farthest = int(np.argmax(np.max(np.abs(Z), axis=1))), float(np.max(np.abs(Z)))
    if farthest > SPREADS[covariance_type]:
        way_out = ", or use covariance_type='diag'" if farthest <= SPREADS["diag"] else ""
        raise ValueError(
            f"X must not hold rows as far from the others as row {row}, {farthest:.0e} times their spread: a "
            f"covariance matrix of both cannot be held in float64. Remove such rows{way_out}."
        )


def check_init(init: Any, n_components: int, n_rows: int) -> None:
    """Where components begin: a word, or a label for each row."""
    if isinstance(init, str):
        if init not in ("kmeans", "random"):
            raise ValueError(f"init must be 'kmeans', 'random' or an array of labels; got {init!r}.")
        return
    labels = np.asarray(init)
    whole = labels.dtype.kind in "iu" and labels.shape == (n_rows,)
    if not whole or labels.min() < 0 or labels.max() >= n_components:
        raise ValueError(
            f"init must have a label from 0 to {n_components - 1} for each of {n_rows} rows; got an array of "
            f"shape {labels.shape} and type {labels.dtype}"
            + (f" with labels from {labels.min()} to {labels.max()}." if whole else ".")
        )


def check_first(n_rows: int, n_components: int) -> None:
    """The first chunk sets the units of all that follow."""
    least = max(2, n_components)
    if n_rows < least:
        raise ValueError(
            f"X must have at least {least} rows in the first chunk, which sets units and clusters; got {n_rows}."
        )


def check_unchanged(posterior: MixturePosterior, n_components: int, covariance_type: str) -> None:
    """The posterior so far must still be one of this model."""
    fitted, wanted = (len(posterior.mean), posterior.kind), (n_components, covariance_type)
    if fitted != wanted:
        raise ValueError(
            f"n_components and covariance_type must stay as they were in the first chunk, {fitted}; got {wanted}. Call "
            "fit, or begin with a new estimator."
        )
