"""`NetworkClassifier`: what it promises, and what it does with data that are hard."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.datasets import load_iris, make_moons
from sklearn.utils.estimator_checks import check_estimator

import cavity
from cavity import NetworkClassifier
from tests.registry import thinned


def moons(n=200, seed=0):
    X, y = make_moons(n, noise=0.2, random_state=seed)
    return X, np.where(y == 1, "upper", "lower")


@pytest.fixture(scope="module")
def fitted():
    return NetworkClassifier((20,), random_state=2).fit(*moons())


def test_it_learns_a_border_that_is_no_line(fitted):
    X, y = moons(1000, seed=1)
    assert fitted.score(X, y) > 0.94
    probability = fitted.predict_proba(X)
    np.testing.assert_allclose(probability.sum(1), 1.0)
    chosen = probability[np.arange(len(y)), (y == "upper").astype(int)]
    assert np.mean(np.log(chosen)) > -0.2  # −0.69 would be a coin


def test_what_it_does_not_know_makes_it_less_sure(fitted):
    far = np.array([[30.0, 30.0], [-30.0, 30.0], [30.0, -30.0], [-30.0, -30.0]])
    (mean,), (variance,), noise = fitted.posterior_.outputs(far)
    assert np.all(noise == 0)
    sure = np.abs(fitted.predict_proba(far)[:, 1] - 0.5)
    assert np.all(sure < np.abs(norm.cdf(mean) - 0.5))  # than one network, that of the mean weights, would be
    np.testing.assert_allclose(fitted.predict_proba(far)[:, 1], norm.cdf(mean / np.sqrt(1 + variance)))
    np.testing.assert_allclose(fitted.decision_function(far), mean / np.sqrt(1 + variance))


def test_scores_and_predictions_agree():
    rows = np.random.default_rng(0).uniform(-10, 10, size=(2000, 2))
    two = NetworkClassifier((5,), n_networks=3, n_epochs=5).fit(*moons())
    np.testing.assert_array_equal(two.decision_function(rows) > 0, two.predict(rows) == "upper")
    np.testing.assert_allclose(norm.cdf(two.decision_function(rows)), two.predict_proba(rows)[:, 1])
    X, y = load_iris(return_X_y=True)
    three = NetworkClassifier((5,), n_epochs=5).fit(X, y)
    rows = 3 * np.random.default_rng(0).normal(size=(500, 4)) + X.mean(0)
    np.testing.assert_array_equal(three.decision_function(rows).argmax(1), three.predict(rows))


def test_a_fit_that_fails_leaves_the_classes_as_they_were():
    X, y = load_iris(return_X_y=True)
    model = NetworkClassifier((5,), n_epochs=2).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="two classes"):
        model.fit(X, np.zeros(150))
    np.testing.assert_array_equal(model.predict(X), before)


def test_probabilities_are_averages_over_the_posterior(fitted):
    X, _ = moons(5, seed=2)
    draws = fitted.posterior_.draw_functions(X, 4000, 0)
    np.testing.assert_allclose(fitted.predict_proba(X)[:, 1], norm.cdf(draws).mean(0), atol=0.03)


def test_three_classes():
    X, y = load_iris(return_X_y=True)
    model = NetworkClassifier((10,), n_epochs=20, n_networks=2).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.9
    assert model.decision_function(X).shape == (150, 3)
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1.0)
    assert [len(one.networks) for one in model.posterior_] == [2, 2, 2]
    assert len(model.n_epochs_) == 6


@pytest.mark.parametrize("algorithm", thinned(["adf", "sep", "ep", "power-ep"], lambda name: name != "power-ep"))
def test_every_algorithm_learns(algorithm):
    X, y = moons(100)
    assert NetworkClassifier((8,), algorithm=algorithm, n_epochs=10).fit(X, y).score(X, y) > 0.8


def test_more_rows_later_make_it_better():
    X, y = moons(400)
    stream = NetworkClassifier((15,), n_epochs=20).partial_fit(X[:100], y[:100], classes=["lower", "upper"])
    few = np.mean(stream.predict_log_proba(X)[np.arange(400), (y == "upper").astype(int)])
    for start in range(100, 400, 100):
        stream.partial_fit(X[start : start + 100], y[start : start + 100])
    assert np.mean(stream.predict_log_proba(X)[np.arange(400), (y == "upper").astype(int)]) > few


def test_labels_of_later_rows_are_checked():
    X, y = moons(20)
    with pytest.raises(ValueError, match="classes must list"):
        NetworkClassifier((4,)).partial_fit(X, y)
    stream = NetworkClassifier((4,), n_epochs=1).partial_fit(X, y, classes=["lower", "upper"])
    with pytest.raises(ValueError, match="among classes"):
        stream.partial_fit(X, np.full(20, "middle"))


@pytest.mark.filterwarnings("ignore:The network says the same of all rows")
def test_hard_data_give_probabilities():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.integers(2, size=40)
    cases = {
        "a constant feature": (np.column_stack([X, np.full(40, 7.0)]), y),
        "two rows": (X[:2], np.array([0, 1])),
        "separable": (X, (X[:, 0] > 0).astype(int)),
        "far features": (1e150 * X, y),
        "one of a class": (X, (np.arange(40) == 0).astype(int)),
    }
    for name, (features, labels) in cases.items():
        model = NetworkClassifier((8,), n_epochs=10).fit(features, labels)
        probability = model.predict_proba(features)
        assert np.all((probability > 0) & (probability < 1)), name


def test_labels_have_no_noise(fitted):
    with pytest.raises(ValueError, match="noise_std"):
        fitted.posterior_.noise_std  # noqa: B018


def test_labels_are_signs_for_the_factor():
    factor = cavity.factors.network([2, 3, 1], labels=True)
    with pytest.raises(ValueError, match="y must"):
        cavity.fit(factor, factor.prior(), (np.zeros((2, 2)), np.array([0.0, 1.0])), cavity.adf())
    with pytest.raises(ValueError, match="sizes"):
        cavity.factors.network([2, 3, 2], labels=True)
    wrong = cavity.factors.network([2, 3, 1]).prior()
    with pytest.raises(ValueError, match="'weights' and perhaps"):
        cavity.fit(factor, wrong, (np.zeros((2, 2)), np.array([-1.0, 1.0])), cavity.adf())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_s_own_checks():
    # rows are visited in a random order, which repeated and shuffled rows change
    drawn = {"check_sample_weight_equivalence_on_dense_data": "the order of rows is random"}
    results = check_estimator(NetworkClassifier(), on_fail=None, expected_failed_checks=drawn)
    assert len(results) > 50
    assert [r["check_name"] for r in results if r["status"] not in ("passed", "skipped", "xfail")] == []
    assert {r["check_name"] for r in results if r["status"] == "skipped"} <= {"check_array_api_input"}
