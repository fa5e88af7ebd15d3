"""The scikit-learn contract: its own checks, and what people do with estimators."""

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import cavity
from tests.registry import thinned

ESTIMATORS = [
    cavity.ProbitClassifier(),
    cavity.GaussianRegressor(),
    cavity.LogisticClassifier(),
    cavity.PoissonRegressor(),
    cavity.StudentTRegressor(),
]
FEW = (cavity.ProbitClassifier, cavity.GaussianRegressor, cavity.PoissonRegressor)
X, LABELS = load_iris(return_X_y=True)
NOISY = X[:, 0] + 0.3 * np.random.default_rng(1).normal(size=len(X))
TARGETS = {
    "ProbitClassifier": LABELS,
    "LogisticClassifier": LABELS,
    "GaussianRegressor": NOISY,
    "StudentTRegressor": NOISY,
    "PoissonRegressor": np.round(X[:, 0]),
}
name_of = lambda estimator: type(estimator).__name__


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=name_of)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_s_own_checks(estimator):
    results = check_estimator(estimator, on_fail=None)
    assert len(results) > 50
    assert [r["check_name"] for r in results if r["status"] not in ("passed", "skipped")] == []
    # only what scikit-learn itself leaves out unless the environment asks for it
    assert {r["check_name"] for r in results if r["status"] == "skipped"} <= {"check_array_api_input"}


@pytest.mark.parametrize("estimator", thinned(ESTIMATORS, lambda e: isinstance(e, FEW)), ids=map(name_of, ESTIMATORS))
def test_copies_predict_the_same(estimator, tmp_path):
    y = TARGETS[name_of(estimator)]
    fitted = clone(estimator).fit(X, y)
    joblib.dump(fitted, tmp_path / "fitted.joblib")
    for copy in (pickle.loads(pickle.dumps(fitted)), joblib.load(tmp_path / "fitted.joblib")):
        np.testing.assert_array_equal(copy.predict(X), fitted.predict(X))
        assert copy.posterior_.kl(fitted.posterior_) == pytest.approx(0.0, abs=1e-9)
    assert not hasattr(clone(fitted), "posterior_")


@pytest.mark.parametrize("estimator", thinned(ESTIMATORS, lambda e: isinstance(e, FEW)), ids=map(name_of, ESTIMATORS))
def test_sparse_and_dense_agree(estimator):
    y = TARGETS[name_of(estimator)]
    dense, thin = clone(estimator).fit(X, y), clone(estimator).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(thin.posterior_.mean, dense.posterior_.mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(thin.predict(sparse.csr_array(X)), dense.predict(X), rtol=1e-6)


def test_pipelines_searches_and_calibration():
    pipeline = make_pipeline(StandardScaler(), cavity.ProbitClassifier())
    assert cross_val_score(pipeline, X, LABELS, cv=3).mean() > 0.9
    search = GridSearchCV(pipeline, {"probitclassifier__prior_variance": [0.1, 10.0]}, cv=3).fit(X, LABELS)
    assert search.best_score_ > 0.9
    calibrated = CalibratedClassifierCV(cavity.ProbitClassifier(), cv=3).fit(X, LABELS)
    np.testing.assert_allclose(calibrated.predict_proba(X).sum(1), 1.0)


def test_feature_names_and_frames():
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    model = cavity.GaussianRegressor().fit(frame[["b", "c", "d"]], frame["a"])
    assert list(model.feature_names_in_) == ["b", "c", "d"]
    summary = model.summary(level=0.5)
    assert list(summary.index) == ["b", "c", "d", "intercept"]
    np.testing.assert_allclose(summary["upper"] - summary["mean"], 0.6744897501960817 * summary["sd"])
    assert list(cavity.ProbitClassifier().fit(frame, LABELS).summary().index.names) == ["class", "coefficient"]
    assert "GaussianRegressor" in model._repr_html_()


def test_draws_have_the_posterior_s_moments():
    model = cavity.ProbitClassifier().fit(X, LABELS)
    draws = model.sample_posterior(20_000, random_state=0)
    assert draws.shape == (20_000, 3, 5)
    sd = np.sqrt(model.posterior_.variance)
    np.testing.assert_allclose(draws.mean(0) / sd, model.posterior_.mean / sd, atol=0.04)
    np.testing.assert_allclose(draws.std(0), sd, rtol=0.04)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "laplace"}, "algorithm must be one of 'auto', 'ep'"),
        ({"algorithm": ["ep"]}, "algorithm must be one of 'auto', 'ep'"),
        ({"prior_variance": -1.0}, "prior_variance must be a positive finite number"),
        ({"prior_variance": "learn"}, "prior_variance must be a positive number or 'auto'"),
        ({"intercept_variance": 0.0}, "intercept_variance must be a positive finite number"),
        ({"forgetting": 1.0}, r"forgetting must lie in \[0, 1\)"),
        ({"batch_size": 0}, "batch_size must be a positive integer or None"),
        ({"feature_groups": [0, 1]}, "feature_groups must have one label per feature, 4"),
        ({"feature_groups": [0, 0, 1, 1], "prior_variance": 1.0}, "feature_groups is for prior_variance='auto'"),
        ({"feature_groups": [0, 0, 1, 1], "standardize": False}, "feature_groups is for prior_variance='auto'"),
        ({"standardize": "no"}, "standardize must be True or False"),
        ({"algorithm": "aep", "batch_size": 10}, "batch_size must be None with algorithm='aep'"),
    ],
)
def test_parameters_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        cavity.ProbitClassifier(**options).fit(X, LABELS)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cavity.StudentTRegressor(df="a").fit(X, X[:, 0]), "df must be a positive number or 'auto'"),
        (lambda: cavity.PoissonRegressor().fit(X, LABELS, offset="a"), "offset must be numeric"),
        (lambda: cavity.GaussianRegressor().fit(X, NOISY).summary("a"), "level must lie"),
        (lambda: cavity.GaussianRegressor().fit(X, NOISY).sample_posterior(-1), "n_samples must be a positive"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
