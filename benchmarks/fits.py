"""Whole fits by estimators against scikit-learn's counterparts: the first in a new process, and later ones.

There is no limit. The ratios are for two versions of the library, run one after the other on one machine.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.first_fit import SHAPE, data_for, fit
from benchmarks.timing import in_turn, of_call

THEIRS = {
    "LogisticClassifier": "LogisticRegression",
    "ProbitClassifier": "LogisticRegression",
    "PoissonRegressor": "PoissonRegressor",
    "GaussianRegressor": "BayesianRidge",
    "StudentTRegressor": "HuberRegressor",
}
WARM = {"LogisticClassifier": (100_000, 20), "PoissonRegressor": (20_000, 20)}


def lines() -> Iterator[str]:
    """First fits, then warm ones; all estimators with their defaults."""
    for ours in THEIRS:
        yield compare("first fit in a new process", ours, SHAPE, partial(in_new_process, model=ours))
    for ours, shape in WARM.items():
        yield compare("warm fit", ours, shape, partial(fit, data=data_for(ours, *shape)))


def compare(what: str, ours: str, shape: tuple[int, int], run: Callable[[str, str], None]) -> str:
    """The best of four, in turn: where fits share a process the first, which compiles, is never that."""
    theirs = THEIRS[ours]
    calls = {"ours": lambda: run("cavity", ours), "theirs": lambda: run("sklearn.linear_model", theirs)}
    times = in_turn({key: of_call(call, count=1) for key, call in calls.items()}, rounds=4)
    return (
        f"fits {what}, {shape[0]:,} × {shape[1]}: {ours} / scikit-learn's {theirs} "
        f"{times['ours'] / times['theirs']:.2f}; {times['ours']:.3g} s against {times['theirs']:.3g} s"
    )


def in_new_process(module: str, name: str, model: str) -> None:
    """Import what is needed, make data of our model and fit once."""
    run = [sys.executable, "-m", "benchmarks.first_fit", module, name, model]
    subprocess.run(run, capture_output=True, check=True)
