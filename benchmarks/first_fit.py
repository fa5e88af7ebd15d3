"""One fit of one estimator: `python -m benchmarks.first_fit cavity LogisticClassifier LogisticClassifier`.

Imports nothing that the estimator does not need, so that the time of the process is that of its first fit.
"""

import sys
import warnings
from collections.abc import Callable
from importlib import import_module

import numpy as np

SHAPE = (500, 5)


def fit(module: str, name: str, data: tuple[np.ndarray, np.ndarray | None]) -> None:
    """The estimator of that name with its defaults; whether it converges is not asked."""
    estimator = getattr(import_module(module), name)()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(*data)


def data_for(model: str, n: int, dim: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Gaussian inputs, and targets as one of our estimators takes them to arise, from activations of variance one.

    Mixtures have none.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, dim))
    activation = X @ rng.normal(size=dim) / np.sqrt(dim)
    targets: dict[str, Callable[[], np.ndarray | None]] = {
        "LogisticClassifier": lambda: activation + rng.logistic(size=n) > 0,
        "ProbitClassifier": lambda: activation + rng.normal(size=n) > 0,
        "PoissonRegressor": lambda: rng.poisson(np.exp(activation)),
        "GaussianRegressor": lambda: activation + rng.normal(size=n),
        "StudentTRegressor": lambda: activation + rng.standard_t(4, size=n),
        "GaussianMixture": lambda: None,
    }
    return X, targets[model]()


if __name__ == "__main__":
    fit(sys.argv[1], sys.argv[2], data_for(sys.argv[3], *SHAPE))
