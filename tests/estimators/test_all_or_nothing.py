"""A model that was fitted answers as before, whatever became of a later fit."""

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest

import cavity
from cavity.estimators.linear import conjugate
from cavity.inference import loop
from tests.registry import thinned

RNG = np.random.default_rng(21)
X = pd.DataFrame(RNG.normal(size=(60, 2)), columns=["a", "b"])
ACTIVATION = X.to_numpy() @ [1.0, -0.7] + 0.3
WORDS = np.where(ACTIVATION + RNG.logistic(size=60) > 0, "yes", "no")
THREE = np.digitize(ACTIVATION + 0.3 * RNG.normal(size=60), [-0.5, 0.8])
NUMBERS = ACTIVATION + 0.5 * RNG.normal(size=60)
COUNTS = RNG.poisson(np.exp(0.5 * ACTIVATION)).astype(float)
NETWORK = {"hidden_layer_sizes": (3,), "n_epochs": 2, "warm_up": 1}

CASES = {
    "probit": (cavity.ProbitClassifier(), WORDS),
    "logistic": (cavity.LogisticClassifier(), WORDS),
    "three classes": (cavity.LogisticClassifier(), THREE),
    "learned prior": (cavity.LogisticClassifier(prior_variance="auto"), WORDS),
    "gaussian": (cavity.GaussianRegressor(), NUMBERS),
    "student-t": (cavity.StudentTRegressor(), NUMBERS),
    "poisson": (cavity.PoissonRegressor(), COUNTS),
    "mixture": (cavity.GaussianMixture(2, linear_response=False), None),
    "network": (cavity.NetworkRegressor(**NETWORK), NUMBERS),
    "networks": (cavity.NetworkRegressor(**NETWORK, n_networks=2), NUMBERS),
    "network classifier": (cavity.NetworkClassifier(**NETWORK), WORDS),
}
QUICK = ["probit", "three classes", "gaussian", "learned prior", "poisson", "mixture", "network"]
every_case = pytest.mark.parametrize("name", thinned([*CASES], lambda name: name in QUICK))
pytestmark = pytest.mark.filterwarnings("ignore::cavity.ConvergenceWarning", "ignore::cavity.CollapseWarning")


def fitted(name):
    model, y = CASES[name]
    return type(model)(**model.get_params()).fit(X, y)


def answers(model):
    """Everything that a fitted model is asked for in daily use."""
    found = [model.predict(X), model.n_features_in_, model.feature_names_in_]
    if hasattr(model, "predict_proba"):
        found.append(model.predict_proba(X))
    if isinstance(model, cavity.GaussianRegressor | cavity.StudentTRegressor | cavity.PoissonRegressor):
        found += [*model.predict(X, return_std=True), model.coef_, model.intercept_, model.log_evidence_]
    return [*found, getattr(model, "classes_", None)]


def assert_unchanged(model, before, calls, error):
    for call in calls:
        with pytest.raises(error):
            call()
        for one, other in zip(answers(model), before, strict=True):
            np.testing.assert_array_equal(one, other)


def calls_with(model, features, y):
    return [lambda: model.fit(features, y), lambda: model.partial_fit(features, y)]


@every_case
def test_after_rows_that_are_refused(name):
    model, y = fitted(name), CASES[name][1]
    before, bad = answers(model), X.copy()
    bad.loc[3, "b"] = np.nan
    assert_unchanged(model, before, calls_with(model, bad, y), ValueError)
    assert_unchanged(model, before, calls_with(model, X[:0], None if y is None else y[:0]), ValueError)
    other = X.rename(columns={"b": "c"}).assign(d=1.0)
    assert_unchanged(model, before, [lambda: model.partial_fit(other, y)], ValueError)
    if y is not None:
        assert_unchanged(model, before, calls_with(model, X, y[:-1]), ValueError)


@every_case
def test_after_weights_that_are_refused(name):
    model, y = fitted(name), CASES[name][1]
    before = answers(model)
    for weight in (np.where(np.arange(60) == 7, -1.0, 1.0), np.zeros(60), np.ones(59), np.full(60, np.nan)):
        calls = [partial(call, X, y, sample_weight=weight) for call in (model.fit, model.partial_fit)]
        assert_unchanged(model, before, calls, ValueError)


@every_case
def test_after_labels_that_are_refused(name):
    model, y = fitted(name), CASES[name][1]
    if not hasattr(model, "classes_"):
        pytest.skip("has no labels")
    before, others = answers(model), np.full(60, "perhaps")
    others[::2] = "never"
    refused = [lambda: model.partial_fit(X, others), lambda: model.partial_fit(X, y, classes=["perhaps", "never"])]
    assert_unchanged(model, before, [*refused, lambda: model.fit(X, np.full(60, "yes"))], ValueError)


@every_case
def test_after_parameters_that_are_refused(name):
    model, y = fitted(name), CASES[name][1]
    before = answers(model)
    for refused in ({"algorithm": "laplace"}, {"batch_size": -1}):
        model.set_params(**refused)
        assert_unchanged(model, before, calls_with(model, X, y), ValueError)
        model.set_params(**{key: CASES[name][0].get_params()[key] for key in refused})


@every_case
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_after_an_end_in_the_middle(name, error, monkeypatch):
    """The second sweep of a later fit, or the only sum over its rows, does not come to its end."""
    model, y = fitted(name), CASES[name][1]
    module, step, which = (conjugate, "of_chunk", 1) if name == "gaussian" else (loop, "sweep", 2)
    before, whole, made = answers(model), getattr(module, step), []

    def failing(*args):
        made.append(1)
        if len(made) % which == 0:
            raise error
        return whole(*args)

    monkeypatch.setattr(module, step, failing)
    other = X.iloc[::-1].reset_index(drop=True)
    assert_unchanged(model, before, calls_with(model, other, y), error)
    assert len(made) >= 2 * which


@every_case
def test_after_a_warning_that_is_an_error(name):
    model, y = fitted(name), CASES[name][1]
    before = answers(model)
    if "network" in name:
        model.set_params(batch_size=30)
    elif name == "gaussian":  # whose one sweep is exact
        model.set_params(algorithm="adf", max_sweeps=9, noise_variance=0.25)
    else:
        model.set_params(max_sweeps=1, tol=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_unchanged(model, before, calls_with(model, X.iloc[::-1].reset_index(drop=True), y), UserWarning)
