"""Predictions against scikit-learn's logistic regression, paired over splits: log-loss, Brier score, calibration.

The verdict depends on the share of test rows. With the prior variance of highest evidence alone, the calibration
error of LogisticClassifier on pima was worse by 0.0035 ± 0.0010 with 10 % of them, not with 20 or 25 %; all scores of
ProbitClassifier there were worse with 10 %, its Brier score with 25 %, none with 20 %.
"""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import cavity
from cavity.diagnostics import score
from tests.statistical.sources import dataset

pytestmark = pytest.mark.slow

MODELS = [cavity.LogisticClassifier, cavity.ProbitClassifier]
baseline = lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))


def paired(features, labels, make, score_of, n_splits):
    """Scores of both, split by split; a quarter of the rows is for the test, as scikit-learn has it by default."""
    ours, theirs = [], []
    for train, test in StratifiedShuffleSplit(n_splits, test_size=0.25, random_state=0).split(features, labels):
        for model, scores in ((make(), ours), (baseline(), theirs)):
            model.fit(features[train], labels[train])
            scores.append(score_of(labels[test], model.predict_proba(features[test])))
    return np.array(ours), np.array(theirs)


# probit regression's Brier score on pima: +0.0003 ± 0.0001, and +0.0001 ± 0.0001 at fixed prior variances of 0.3 to 3
OPEN = pytest.mark.xfail(reason="worse than logistic regression", strict=True)
PAIRS = [
    pytest.param("pima", cavity.LogisticClassifier),
    pytest.param("pima", cavity.ProbitClassifier, marks=OPEN),
    pytest.param("breast", cavity.LogisticClassifier),
    pytest.param("breast", cavity.ProbitClassifier),
]


@pytest.mark.parametrize(("name", "make"), PAIRS)
def test_two_classes(name, make):
    features, labels = dataset(name)
    score_of = lambda y, probability: score(y, probability[:, 1])[:3]
    ours, theirs = paired(features, labels, make, score_of, 50)
    difference, error = (ours - theirs).mean(0), (ours - theirs).std(0, ddof=1) / np.sqrt(50)
    for i, what in enumerate(["log-loss", "Brier score", "calibration error"]):
        print(
            f"{name}, {make.__name__}, {what}: {ours[:, i].mean():.4f} against {theirs[:, i].mean():.4f}, "
            f"difference {difference[i]:+.4f} ± {error[i]:.4f}"
        )
    assert np.all(difference <= error)


# logistic +0.0021 ± 0.0041, probit +0.0028 ± 0.0044; with sharpness one +0.0018 and +0.0025
@pytest.mark.parametrize("make", [pytest.param(make, marks=OPEN) for make in MODELS])
def test_ten_classes(make):
    ours, theirs = paired(*load_digits(return_X_y=True), make, log_loss, 10)
    difference, error = (ours - theirs).mean(), (ours - theirs).std(ddof=1) / np.sqrt(10)
    print(
        f"digits, {make.__name__}: {ours.mean():.4f} against {theirs.mean():.4f}, "
        f"difference {difference:+.4f} ± {error:.4f}"
    )
    assert ours.mean() <= theirs.mean()
