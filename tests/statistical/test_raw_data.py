"""Defaults on raw features against pipelines that standardise and choose a penalty: test log-likelihood over 20 splits.

Differences are paired by split; their standard error counts that training sets overlap (Nadeau and Bengio, 2003).
"""

import functools
import warnings

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm
from scipy.stats import t as student
from sklearn import datasets
from sklearn.linear_model import BayesianRidge, LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import cavity
from cavity.estimators.linear.predictive import activations
from tests.statistical.sources import dataset

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

SPLITS, SHARE = 20, 0.25
OF_CLASSES = ["australian", "breast", "crabs", "ionosphere", "pima", "sonar", "breast_cancer", "wine", "digits", "made"]
OF_NUMBERS = ["diabetes", "made"]
UNITS = np.array([1e9, 1e-6, 1.0, 1e-6, 1e9, 1.0])
NODES, MASS = np.polynomial.hermite_e.hermegauss(40)


def made():
    """Six columns, some at 1e9 and some at 1e-6, and a signal."""
    rng = np.random.default_rng(3)
    features = rng.normal(size=(300, 6)) @ (np.eye(6) + 0.4 * rng.normal(size=(6, 6)))
    return 2 * UNITS + UNITS * features, features @ [1.0, -0.7, 0.0, 0.4, 0.2, 0.0] + rng.logistic(size=300)


def classes(name):
    if name == "made":
        features, signal = made()
        return features, (signal > 0).astype(int)
    loader = getattr(datasets, f"load_{name}", None)
    return loader(return_X_y=True) if loader else dataset(name)


def numbers(name):
    return made() if name == "made" else datasets.load_diabetes(return_X_y=True, scaled=False)


def log_density(model, features, y):
    """Mean log predictive density."""
    mean, sd = model.predict(features, return_std=True)
    if not isinstance(model, cavity.StudentTRegressor):
        return float(np.mean(norm.logpdf(y, mean, sd)))
    parts = model.predict_components(features)
    places = parts.mean[:, None] + parts.model_std[:, None] * NODES
    logs = student.logpdf(y[:, None], model.df_, places, model.scale_)
    return float(np.mean(logsumexp(logs, b=MASS / MASS.sum(), axis=1)))


@functools.cache
def scores(make, name):
    """Of a model on the test rows of each split."""
    regresses = hasattr(make(), "predict") and not hasattr(make(), "predict_proba")
    features, y = numbers(name) if regresses else classes(name)
    splitter = ShuffleSplit if regresses else StratifiedShuffleSplit
    found = []
    for train, test in splitter(SPLITS, test_size=SHARE, random_state=0).split(features, y):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = make().fit(features[train], y[train])
        if regresses:
            found.append(log_density(model, features[test], y[test]))
        else:
            found.append(-log_loss(y[test], model.predict_proba(features[test]), labels=model.classes_))
    return np.array(found)


def compared(make, peer, name):
    """Mean difference, and its standard error."""
    found = scores(make, name) - scores(peer, name)
    error = np.sqrt(np.var(found, ddof=1) * (1 / SPLITS + SHARE / (1 - SHARE)))
    print(f"{make.__name__} {peer.__name__} {name}: {np.mean(found):+.4f} ± {error:.4f}", flush=True)
    return float(np.mean(found)), float(error)


def by_accuracy():
    return make_pipeline(StandardScaler(), LogisticRegressionCV(max_iter=1000))


def by_log_loss():
    return make_pipeline(StandardScaler(), LogisticRegressionCV(scoring="neg_log_loss", max_iter=1000))


class Ridge:
    """Standardised features, and predictions with standard deviations."""

    def fit(self, features, y):
        self.scaler, self.model = StandardScaler().fit(features), BayesianRidge()
        self.model.fit(self.scaler.transform(features), y)
        return self

    def predict(self, features, return_std):
        return self.model.predict(self.scaler.transform(features), return_std=return_std)


def check(found):
    worse = {name: each for name, each in found.items() if each[0] < -2 * each[1]}
    assert not worse, worse


@pytest.mark.parametrize("peer", [by_accuracy, by_log_loss])
@pytest.mark.parametrize("make", [cavity.ProbitClassifier, cavity.LogisticClassifier])
def test_classifiers(make, peer):
    found = {name: compared(make, peer, name) for name in OF_CLASSES}
    check(found)
    assert sum(mean > 0 for mean, _ in found.values()) >= (len(OF_CLASSES) + len(OF_NUMBERS)) / 3


@pytest.mark.parametrize("make", [cavity.GaussianRegressor, cavity.StudentTRegressor])
def test_regressors(make):
    check({name: compared(make, Ridge, name) for name in OF_NUMBERS})


def in_other_units(name, features):
    """Columns scaled by powers of ten and shifted by thousands of standard deviations."""
    if name == "made":  # whose columns are in such units already: back to ordinary ones
        return features / UNITS * 7 + 3
    rng, sd = np.random.default_rng(1), features.std(0)
    scale, shift = 10.0 ** rng.integers(-3, 4, features.shape[1]), 1e3 * rng.integers(-2, 3, features.shape[1])
    return scale * (features + shift * np.where(sd > 0, sd, 1.0))


def farthest(one, rows, two, other_rows, scale=1.0, shift=0.0):
    """The most that two models differ in the mean of a function at a row, in its standard deviations."""
    marginals = lambda model, at: [activations(at, model._state.units, f.posterior) for f in model._state.functions]
    pairs = zip(marginals(one, rows), marginals(two, other_rows), strict=True)
    return max(np.max(np.abs((m - shift) / scale - mean) / np.sqrt(v)) for (mean, v), (m, _) in pairs)


@pytest.mark.parametrize("make", [cavity.ProbitClassifier, cavity.LogisticClassifier])
@pytest.mark.parametrize("name", OF_CLASSES)
def test_units_of_columns_do_not_matter(name, make):
    features, y = classes(name)
    other = in_other_units(name, features)
    assert farthest(make().fit(features, y), features, make().fit(other, y), other) < 1e-6


@pytest.mark.parametrize("make", [cavity.GaussianRegressor, cavity.StudentTRegressor])
@pytest.mark.parametrize("name", OF_NUMBERS)
def test_units_of_columns_and_target_do_not_matter(name, make):
    features, y = numbers(name)
    other, model = in_other_units(name, features), make().fit(features, y)
    assert farthest(model, features, make().fit(other, y), other) < 1e-6
    assert farthest(model, features, make().fit(features, 1e3 * y + 1e6), features, 1e3, 1e6) < 1e-6
