"""One network fitted in this process, and what the process held: `python -m cavity.experiments.one_network '{…}'`."""

import json
import sys
from typing import Any

import numpy as np

import cavity
from cavity.datasets import DatasetError, load
from cavity.experiments.fig2_mnist import peak_memory

N_FEATURES = 90  # of Year


def measure(cell: dict[str, Any]) -> dict[str, Any]:
    """Bytes of sites and of the process; the words of the refusal where the sites do not fit."""
    X, y, what = rows_of(cell)
    options = {"algorithm": cell["algorithm"], "n_epochs": cell["n_epochs"], "warm_up": 1, "heteroscedastic": False}
    model = cavity.NetworkRegressor((cell["units"],), **options, random_state=cell["seed"])
    n_weights, done = (X.shape[1] + 1) * cell["units"] + cell["units"] + 1, []
    n_bytes, refusal = 8 * len(y) * (2 * n_weights + 4), None
    try:
        n_bytes = model.fit(X, y, callback=lambda epoch: done.append(epoch.number)).site_bytes_
    except MemoryError as error:
        refusal = str(error)
    return {
        "rows": len(y),
        "n_features": X.shape[1],
        "n_weights": n_weights,
        "data": what,
        "data_bytes": X.nbytes + y.nbytes,
        "site_bytes": n_bytes,
        "refusal": refusal,
        "epochs": len(done),
        "peak": peak_memory(),
    }


def rows_of(cell: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, str]:
    """Nine tenths of a set; of Year its training rows, or as many made up where the set is not to be had."""
    if cell["set"] != "year":
        data = load(cell["set"])
        n_train = round(0.9 * len(data.y))
        return data.X[:n_train], data.y[:n_train], cell["set"]
    try:
        data = load("year")
        return data.X[: cell["rows"]], data.y[: cell["rows"]], "the set itself"
    except DatasetError:
        rng = np.random.default_rng(cell["seed"])
        X = rng.standard_normal((cell["rows"], N_FEATURES))
        y = np.sin(X[:, 0]) + X[:, 1] + 0.5 * rng.standard_normal(cell["rows"])
        return X, y, "made up: as many rows and features, from a Gaussian"


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
