"""What people wait for: first uses in a new process, cross-validation, many small fits, and searches in parallel.

Each line is the time of whole processes, imports included, unless it says otherwise; sides take turns.
"""

import os
import pickle
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import cavity
from benchmarks.new_process import SHAPE, data_for, estimator
from benchmarks.timing import in_turn, of_call, seconds_of

LINEAR = "sklearn.linear_model."
LOGISTIC = LINEAR + "LogisticRegression"
FIRST = {
    "LogisticClassifier": LOGISTIC,
    "ProbitClassifier": LOGISTIC,
    "PoissonRegressor": LINEAR + "PoissonRegressor",
    "GaussianRegressor": LINEAR + "BayesianRidge",
    "StudentTRegressor": LINEAR + "HuberRegressor",
}
STREAMED = {name: LINEAR + ("SGDClassifier" if name.endswith("Classifier") else "SGDRegressor") for name in FIRST}
COUNTERPART, CROSS_VALIDATED = 1.5, 2.0  # times theirs
NETWORK = {"cold": 6.0, "warm": 2.5}  # seconds, without and with programs of an earlier process
OWN_FACTOR = 8.0  # seconds
SMALL_FIT = 0.05  # seconds, of the median
IN_PARALLEL = 1.0  # times the same search with n_jobs=1


def lines() -> Iterator[str]:
    """All lines; where programs are kept, each side has a place of its own that begins empty."""
    for name, theirs in FIRST.items():
        yield beside("fit", f"first fit, {SHAPE[0]} × {SHAPE[1]}: {name}", (f"cavity.{name}", name), (theirs, name))
    for name, theirs in STREAMED.items():
        yield beside("partial_fit", f"first partial_fit: {name}", (f"cavity.{name}", name), (theirs, name))
    yield from loads()
    for theirs in (LOGISTIC, "scaled." + LOGISTIC):
        sides = ("cavity.LogisticClassifier", ""), (theirs, "")
        yield beside("cross_validate", "five folds of breast cancer: LogisticClassifier", *sides, CROSS_VALIDATED)
    yield from networks()
    for which in ("log_mean", "log_lik"):
        seconds = of_process("own_factor", which, "", CAVITY_CACHE="off")
        yield f"latency first fit of a factor from {which}: {seconds:.2f} s (limit {OWN_FACTOR})"
    yield small_fits()
    yield search()


def of_process(*words: str, **variables: str) -> float:
    """Seconds of a new process that does one task."""
    run = [sys.executable, "-m", "benchmarks.new_process", *words]
    start = partial(subprocess.run, run, capture_output=True, check=True, env=os.environ | variables)
    return seconds_of(start)


def beside(
    task: str, what: str, ours: tuple[str, str], theirs: tuple[str, str], limit: float = COUNTERPART, rounds: int = 4
) -> str:
    """The same task by ours and by theirs."""
    times = in_turn({"ours": partial(of_process, task, *ours), "theirs": partial(of_process, task, *theirs)}, rounds)
    peer = Path(theirs[0]).stem if task == "predict" else theirs[0].removeprefix(LINEAR).replace(LINEAR, "")
    ratio = times["ours"] / times["theirs"]
    return f"latency {what} / {peer} {ratio:.2f} (limit {limit}); {times['ours']:.2f} s against {times['theirs']:.2f} s"


def loads() -> Iterator[str]:
    """Models from files, and predictions."""
    import joblib

    with tempfile.TemporaryDirectory() as place:
        for name, theirs in FIRST.items():
            for kind in ("pickle", "joblib") if name == "LogisticClassifier" else ("pickle",):
                files = {path: str(Path(place) / f"{path.rpartition('.')[2]}.{kind}") for path in (theirs,)}
                files |= {f"cavity.{name}": str(Path(place) / f"ours.{kind}")}
                for path, file in files.items():
                    model = learned(path, name)
                    content = pickle.dumps(model)
                    joblib.dump(model, file) if kind == "joblib" else Path(file).write_bytes(content)
                sides = (files[f"cavity.{name}"], name), (files[theirs], name)
                yield beside("predict", f"load by {kind} and predict: {name}", *sides)


def learned(path: str, name: str) -> Any:
    """Fitted here; whether it converges is not asked."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator(path).fit(*data_for(name))


def networks() -> Iterator[str]:
    """First fits of networks with their defaults: nothing compiled before, and everything."""
    for name in ("NetworkRegressor", "NetworkClassifier"):
        with tempfile.TemporaryDirectory() as place:
            fit = partial(of_process, "fit", f"cavity.{name}", name, CAVITY_CACHE=place)
            times = {"cold": fit(), "warm": min(fit(), fit())}
        for which, limit in NETWORK.items():
            yield f"latency first fit of {name}, {which}: {times[which]:.2f} s (limit {limit})"


def small_fits() -> str:
    """In this process, fits of as many numbers of rows."""
    X, y = data_for("LogisticClassifier", 1000)
    fits = [partial(cavity.LogisticClassifier().fit, X[:n], y[:n]) for n in range(100, 1000, 37)][:24]
    fits[0]()
    seconds = [of_call(fit, count=1)() for fit in fits]
    return (
        f"latency {len(fits)} fits of as many numbers of rows: median {1e3 * np.median(seconds):.1f} ms "
        f"(limit {1e3 * SMALL_FIT:.0f}), at most {1e3 * max(seconds):.1f} ms"
    )


def search() -> str:
    """A grid search with two workers, and with none; a worker's threads are as many as joblib allows it."""
    from sklearn.model_selection import GridSearchCV

    X, y = data_for("LogisticClassifier", 100_000, 20)
    grid = {"prior_variance": np.geomspace(0.01, 100.0, 20).tolist()}
    fit = lambda n: GridSearchCV(cavity.LogisticClassifier(), grid, n_jobs=n).fit(X, y)
    times = {n: seconds_of(partial(fit, n)) for n in (1, 2)}
    return (
        f"latency GridSearchCV of 100 fits, n_jobs=2 / 1 {times[2] / times[1]:.2f} (limit {IN_PARALLEL}); "
        f"{times[2]:.1f} s against {times[1]:.1f} s"
    )
