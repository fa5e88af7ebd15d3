"""Whole fits with their defaults beside what a user would take instead: time, and how well new rows are foreseen.

Ours learn prior variance and noise, and give covariances and evidence; theirs give a point. Both sides run in turn on
the same threads. X is white, or white times a random matrix. A quick wrong answer does not count: beside each time is
the mean log density of 20,000 further rows (of classes, the log-loss; of regressors, under a normal with the residual's
variance where a peer has no other).
"""

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, gammaln

from benchmarks.others import OTHERS
from benchmarks.timing import in_turn, of_call, of_products

NEW_ROWS = 20_000
Data = tuple[np.ndarray, np.ndarray]


class Case(NamedTuple):
    """A pair of models, the shape of the data, and the ratio beyond which we would call it a fault."""

    ours: str
    theirs: str
    rows: int
    features: int
    correlated: bool
    limit: float | None


WARM = [
    Case("LogisticClassifier", "sklearn.linear_model.LogisticRegression", 100_000, 20, False, 2.0),
    Case("LogisticClassifier", "sklearn.linear_model.LogisticRegression", 100_000, 20, True, 0.5),
    Case("LogisticClassifier", "sklearn.linear_model.LogisticRegression", 1_000_000, 20, False, 3.0),
    Case("LogisticClassifier", "sklearn.linear_model.LogisticRegression", 1_000_000, 20, True, 0.5),
    Case("LogisticClassifier", "sklearn.linear_model.LogisticRegression", 100_000, 200, True, 1.0),
    Case("LogisticClassifier", "statsmodels.GLM", 100_000, 20, False, 1.0),
    Case("LogisticClassifier", "statsmodels.GLM", 100_000, 20, True, 1.0),
    Case("PoissonRegressor", "statsmodels.GLM", 100_000, 20, False, 1.0),
    Case("LogisticClassifier", "glum.GeneralizedLinearRegressor", 100_000, 20, False, None),
    Case("LogisticClassifier", "numpyro.Laplace", 100_000, 20, False, None),
    Case("PoissonRegressor", "sklearn.linear_model.PoissonRegressor", 100_000, 20, False, 2.0),
    Case("PoissonRegressor", "sklearn.linear_model.PoissonRegressor", 100_000, 20, True, 0.5),
    Case("PoissonRegressor", "glum.GeneralizedLinearRegressor", 100_000, 20, False, None),
    Case("GaussianRegressor", "sklearn.linear_model.BayesianRidge", 100_000, 20, False, 1.0),
    Case("GaussianRegressor", "sklearn.linear_model.BayesianRidge", 100_000, 20, True, 1.0),
    Case("StudentTRegressor", "sklearn.linear_model.HuberRegressor", 100_000, 20, False, None),
]


def lines() -> Iterator[str]:
    """Warm fits, many columns, ten classes, and a learned prior variance beside a given one."""
    for case in WARM:
        if find_spec(case.theirs.partition(".")[0]) is None:
            yield f"peers {case.theirs} is not installed"
            continue
        yield beside(case)
    yield beside_products()
    yield ten_classes()
    yield learned_variance()


def told(what: str, theirs: str, times: dict[str, float], limit: float | None, scores: str = "") -> str:
    ratio, bound = times["ours"] / times["theirs"], "" if limit is None else f" (limit {limit})"
    return (
        f"peers {what} / {theirs.rpartition('.')[2]} {ratio:.2f}{bound}; {times['ours']:.3g} s against "
        f"{times['theirs']:.3g} s{scores}"
    )


def draw(case: Case) -> tuple[Data, Data]:
    """Rows to learn from, and new ones."""
    rng = np.random.default_rng(0)
    n, dim = case.rows + NEW_ROWS, case.features
    X = rng.normal(size=(n, dim))
    if case.correlated:
        X = X @ rng.normal(size=(dim, dim))
    signal = X @ rng.normal(size=dim)
    signal /= signal.std()
    targets: dict[str, Callable[[], np.ndarray]] = {
        "LogisticClassifier": lambda: (rng.uniform(size=n) < expit(signal)).astype(int),
        "PoissonRegressor": lambda: rng.poisson(np.exp(signal)),
        "GaussianRegressor": lambda: signal + rng.normal(size=n),
        "StudentTRegressor": lambda: signal + rng.standard_t(4, size=n),
    }
    y = targets[case.ours]()
    return (X[: case.rows], y[: case.rows]), (X[case.rows :], y[case.rows :])


def beside(case: Case) -> str:
    """One pair: times of the quicker of three fits in turn, and what both say of new rows."""
    train, new = draw(case)
    fits = {"ours": partial(fitted, "cavity", case.ours, train), "theirs": partial(of_peer, case, train)}
    times = in_turn({name: of_call(fit, count=1) for name, fit in fits.items()}, rounds=3)
    score = {name: log_density(fit(), case.ours, *new) for name, fit in fits.items()}
    kind = "correlated" if case.correlated else "white"
    what = f"{case.rows:,} × {case.features} {kind}: {case.ours}"
    return told(what, case.theirs, times, case.limit, f"; new rows {score['ours']:.4f} against {score['theirs']:.4f}")


def fitted(module: str, name: str, data: Data, **options: Any) -> Any:
    """A model of that name, fitted; whether it converges is not asked."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(import_module(module), name)(**options).fit(*data)


def of_peer(case: Case, data: Data) -> Any:
    """Theirs, fitted."""
    if case.theirs in OTHERS:
        return OTHERS[case.theirs](case.ours).fit(*data)
    module, _, name = case.theirs.rpartition(".")
    return fitted(module, name, data)


def log_density(model: Any, ours: str, X: np.ndarray, y: np.ndarray) -> float:
    """Mean log density of new rows, in what is predicted of them."""
    if ours.endswith("Classifier"):
        return float(np.mean(np.log(model.predict_proba(X)[np.arange(len(y)), y])))
    mean = model.predict(X)
    if ours == "PoissonRegressor":
        return float(np.mean(y * np.log(mean) - mean - gammaln(y + 1)))
    return float(-0.5 * np.log(2 * np.pi * np.mean((y - mean) ** 2)) - 0.5)


def ten_classes() -> str:
    """Scikit-learn's digits."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    X, y = load_digits(return_X_y=True)
    fits = {
        "ours": partial(fitted, "cavity", "LogisticClassifier", (X, y)),
        "theirs": lambda: LogisticRegression(max_iter=10_000).fit(X, y),
    }
    times = in_turn({name: of_call(fit, count=1) for name, fit in fits.items()}, rounds=2)
    return told("ten classes, 1,797 × 64: LogisticClassifier", ".LogisticRegression", times, 10.0)


def beside_products() -> str:
    """Many columns that scikit-learn needs three iterations for: beside the two matrix products of one sweep."""
    train, _ = draw(Case("LogisticClassifier", "", 100_000, 200, False, None))
    fit = of_call(partial(fitted, "cavity", "LogisticClassifier", train), count=1)
    times = in_turn({"ours": fit, "theirs": of_products(train[0])}, rounds=3)
    return told("100,000 × 200 white: LogisticClassifier", ".NumPy's two products", times, 6.0)


def learned_variance() -> str:
    """A learned prior variance beside a number."""
    train, _ = draw(Case("LogisticClassifier", "", 100_000, 20, False, None))
    fit = lambda value: partial(fitted, "cavity", "LogisticClassifier", train, prior_variance=value)
    times = in_turn({"ours": of_call(fit("auto"), count=1), "theirs": of_call(fit(1.0), count=1)}, rounds=3)
    return told("100,000 × 20: prior_variance='auto'", ".a number", times, 3.0)
