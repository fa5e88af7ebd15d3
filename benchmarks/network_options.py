"""What the options of `NetworkRegressor` are worth: held-out log density and error on 1,500 rows of three sets."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from cavity import NetworkRegressor
from cavity.datasets import load, random_splits

SETS, N_SPLITS, N_ROWS = ("kin8nm", "power", "wine_red"), 5, 1500
OPTIONS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "constant noise": {"heteroscedastic": False},
    "SEP": {"algorithm": "sep"},
    "five networks": {"n_networks": 5},
    "leaky ReLU": {"activation": "leaky_relu"},
    "sine": {"activation": "sin"},
    "outputs with covariance": {"unit_covariances": True},
    "two layers": {"hidden_layer_sizes": (50, 50)},
    "two layers of 20": {"hidden_layer_sizes": (20, 20)},
    "two layers of 20 with covariances": {"hidden_layer_sizes": (20, 20), "unit_covariances": True},
}


def lines() -> Iterator[str]:
    """One for each set and option: means over splits, and the difference from the defaults with its standard error."""
    for name in SETS:
        found: dict[str, np.ndarray] = {}
        for option, given in OPTIONS.items():
            start = time.perf_counter()
            found[option] = np.array([scores(name, number, given) for number in range(N_SPLITS)])
            seconds = (time.perf_counter() - start) / N_SPLITS
            log_density, rmse, covered = found[option].mean(0)
            gain = found[option][:, 0] - found["defaults"][:, 0]
            yield (
                f"network_options {name}, {option}: log density {log_density:.3f} ({gain.mean():+.3f} ± "
                f"{gain.std(ddof=1) / np.sqrt(N_SPLITS):.3f}), RMSE {rmse:.4g}, coverage of 90 % {covered:.3f}; "
                f"{seconds:.1f} s a fit, some of it compilation"
            )


def scores(name: str, number: int, options: dict[str, Any]) -> tuple[float, float, float]:
    """Of the rows held out in one split."""
    data = load(name)
    train, test = list(random_splits(len(data.y), N_SPLITS))[number]
    model = NetworkRegressor(**{"hidden_layer_sizes": (50,), "random_state": number, **options})
    model.fit(data.X[train[:N_ROWS]], data.y[train[:N_ROWS]])
    mean, sd = model.predict(data.X[test], return_std=True)
    error = data.y[test] - mean
    log_density = float(np.mean(model.log_predictive(data.X[test], data.y[test])))
    return log_density, float(np.sqrt(np.mean(error**2))), float(np.mean(np.abs(error) < 1.645 * sd))
