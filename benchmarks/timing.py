"""Seconds of a sweep as `fit` makes it, or of a call: the best of several rounds in which all take turns."""

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import cavity

Data = tuple[np.ndarray, np.ndarray]


def in_turn(measures: dict[str, Callable[[], float]], rounds: int = 7) -> dict[str, float]:
    """The least that each measure gives; what it computes first, and may compile, is in one of the rounds only."""
    best = dict.fromkeys(measures, float("inf"))
    for _ in range(rounds):
        for name, measure in measures.items():
            best[name] = min(best[name], measure())
    return best


def seconds_of(function: Callable[[], Any]) -> float:
    """How long a call takes, which must not return before all is computed."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def of_call(function: Callable[[], Any], *, count: int = 3) -> Callable[[], float]:
    """A measure: seconds of the quickest of `count` calls."""
    return lambda: min(seconds_of(function) for _ in range(count))


def of_sweep(factor: Any, data: Data, algorithm: cavity.Algorithm, *, prior: Any = None, count: int = 3) -> Any:
    """A measure: seconds of the quickest of `count` sweeps within a fit, the first of which is not among them.

    Each is timed from the end of the one before, with all that `fit` does in between. The prior is N(0, I) if not
    given.
    """
    prior = cavity.Gaussian.isotropic(data[0].shape[1]) if prior is None else prior

    def measure() -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cavity.ConvergenceWarning)  # so few sweeps are not meant to converge,
            warnings.simplefilter("ignore", cavity.CollapseWarning)  # nor ADF to be right after more than one
            result = cavity.fit(factor, prior, data, algorithm, tol=0.0, evidence=False, max_sweeps=1 + count)
        return float(np.min(np.diff(result.history.seconds)))

    return measure


def of_products(features: np.ndarray) -> Callable[[], float]:
    """A measure: seconds of NumPy's `X.T @ X` and `X @ S`, the least that a full covariance needs of all rows."""
    matrix = np.eye(features.shape[1])
    return of_call(lambda: (features.T @ features, features @ matrix))


def probit_data(n: int, dim: int) -> Data:
    """Gaussian inputs and labels from the model."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(n, dim))
    return features, np.where(features @ rng.normal(size=dim) / np.sqrt(dim) + rng.normal(size=n) > 0, 1.0, -1.0)
