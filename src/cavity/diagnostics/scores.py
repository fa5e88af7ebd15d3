"""Predictive scores of class probabilities, and how far they can be believed."""

from typing import Any, NamedTuple

import numpy as np


class Calibration(NamedTuple):
    """Rows sorted into bins by predicted probability."""

    predicted: np.ndarray  # mean prediction in each bin
    observed: np.ndarray  # share of positives in it
    size: np.ndarray  # rows in it
    error: float  # expected calibration error: the mean gap, weighted by size


def calibration_curve(y: Any, probability: Any, n_bins: int = 10) -> Calibration:
    """Predicted against observed frequencies of y ∈ {0, 1}, in bins between quantiles of the prediction.

    Equal predictions share a bin, so the order of the rows does not matter.

    >>> calibration_curve([0, 1, 1, 1], [0.1, 0.9, 0.9, 0.9], n_bins=2).predicted
    array([0.1, 0.9])
    """
    y, probability = check_binary(y, probability)
    edges = np.quantile(probability, np.linspace(0, 1, n_bins + 1)[1:-1])
    place = np.searchsorted(edges, probability, side="right")
    _, bins, size = np.unique(place, return_inverse=True, return_counts=True)
    predicted = np.bincount(bins, weights=probability) / size
    observed = np.bincount(bins, weights=y) / size
    return Calibration(predicted, observed, size, float(np.sum(size * np.abs(predicted - observed)) / len(y)))


class Scores(NamedTuple):
    """Averages over rows; lower is better for all."""

    log_loss: float
    brier: float
    calibration_error: float
    error: float  # share of rows whose likelier class was not theirs


def score(y: Any, probability: Any) -> Scores:
    """Log-loss, Brier score, expected calibration error and error rate of P(y = 1)."""
    y, probability = check_binary(y, probability)
    given = np.where(y == 1, probability, 1 - probability)
    return Scores(
        float(-np.mean(np.log(np.maximum(given, 1e-300)))),
        float(np.mean((y - probability) ** 2)),
        calibration_curve(y, probability).error,
        float(np.mean(given < 0.5)),
    )


def check_binary(y: Any, probability: Any) -> tuple[np.ndarray, np.ndarray]:
    """Labels 0 and 1 with their probabilities of 1."""
    y, probability = np.asarray(y, dtype=float), np.asarray(probability, dtype=float)
    if y.ndim != 1 or y.shape != probability.shape or y.size == 0:
        raise ValueError(f"y and probability must be arrays of one length; got shapes {y.shape}, {probability.shape}.")
    if not np.all((y == 0) | (y == 1)):
        raise ValueError("y must hold 0 and 1 only; for other labels give y == positive_label.")
    if not np.all((probability >= 0) & (probability <= 1)):
        raise ValueError("probability must lie between 0 and 1.")
    return y, probability
