"""Filters of warnings belong to the process: the library never changes them, and fits in threads leave them alone."""

import ast
import contextlib
import types
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import sklearn.utils.multiclass
import sklearn.utils.validation

import cavity

ROOT = Path(cavity.__file__).parent
CHANGE_FILTERS = {"catch_warnings", "simplefilter", "filterwarnings", "resetwarnings"}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
TWICE = np.repeat(RNG.integers(0, 2, size=(6, 2)), 20, axis=0).astype(float)  # four places at most, five components
FITS = {
    "mixture": lambda: cavity.GaussianMixture(5, max_sweeps=2, evidence=False, linear_response=False).fit(TWICE),
    "linear": lambda: cavity.LogisticClassifier().fit(X, X[:, 0] > 0),
    "network": lambda: cavity.NetworkRegressor((3,), n_epochs=1).fit(X, X[:, 0]),
}


def names_in(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        yield from (
            getattr(node, field) for field in ("id", "attr", "name") if isinstance(getattr(node, field, 0), str)
        )


def test_no_module_changes_filters():
    files = [path for path in ROOT.rglob("*.py") if "experiments" not in path.parts]  # which are scripts
    assert len(files) > 100
    for path in files:
        assert not {*names_in(path)} & CHANGE_FILTERS, path.name


@pytest.fixture
def apart_from_scikit_learn(monkeypatch):
    """Its own checks of arrays change filters for an instant, and put them back: that is not what is tested here."""
    own = {**vars(warnings), "catch_warnings": contextlib.nullcontext, "simplefilter": lambda *args, **options: None}
    for module in (sklearn.utils.validation, sklearn.utils.multiclass):
        monkeypatch.setattr(module, "warnings", types.SimpleNamespace(**own))


@pytest.mark.filterwarnings("ignore::cavity.ConvergenceWarning", "ignore::cavity.CollapseWarning")
@pytest.mark.usefixtures("apart_from_scikit_learn")
@pytest.mark.parametrize("name", FITS)
def test_fits_in_threads_leave_filters_alone(name):
    fit = FITS[name]
    fit()  # compiles
    filters, contents = warnings.filters, list(warnings.filters)
    with ThreadPoolExecutor(2) as pool:
        for call in [pool.submit(fit) for _ in range(20)]:
            call.result()
    assert warnings.filters is filters
    assert warnings.filters == contents
