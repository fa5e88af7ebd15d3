"""What a fitted model answers depends on what it was fitted with, not on parameters that are set later."""

import numpy as np
import pytest

import cavity

RNG = np.random.default_rng(4)
X = RNG.normal(size=(60, 2)) + 4.0 * (np.arange(60) % 2)[:, None]
NUMBERS = X[:, 0] - np.abs(X[:, 1]) + 0.1 * RNG.normal(size=60)
WORDS = np.where(X[:, 0] + X[:, 1] > 4, "yes", "no")
THREE = np.digitize(X[:, 0], [1.0, 3.0])
NETWORK = {"hidden_layer_sizes": (3,), "n_epochs": 2, "warm_up": 1}
CASES = {
    "mixture": (cavity.GaussianMixture(2), None),
    "diagonal mixture": (cavity.GaussianMixture(3, covariance_type="diag", linear_response=False), None),
    "regressor": (cavity.NetworkRegressor(**NETWORK, n_networks=2), NUMBERS),
    "constant noise": (cavity.NetworkRegressor(**NETWORK, heteroscedastic=False), NUMBERS),
    "general engine": (cavity.NetworkRegressor(**NETWORK, activation="sin", unit_covariances=True), NUMBERS),
    "two classes": (cavity.NetworkClassifier(**NETWORK), WORDS),
    "three classes": (cavity.NetworkClassifier(**NETWORK), THREE),
}
READS = [
    *[lambda model, name=name: getattr(model, name)(X) for name in ("predict", "predict_proba", "predict_log_proba")],
    *[lambda model, name=name: getattr(model, name)(X) for name in ("decision_function", "score_samples")],
    lambda model: model.predict(X, return_std=True),
    lambda model: model.log_predictive(X, NUMBERS),
    lambda model: model.sample(5, random_state=0),
    lambda model: model.sample_posterior(X, 3, random_state=0),
    lambda model: model.summary(),
]
LATER = {  # what a first chunk has used up, with values it did not have
    "mixture": {
        "weight_concentration": 3.0, "mean_count": 1.0, "df": 9.0, "prior_scale": 0.1, "init": "random", "n_init": 3,
    },
    "network": {"weight_variance": 3.0, "prior_shape": 9.0, "prior_rate": 2.0, "warm_up": 7},
}  # fmt: skip
pytestmark = pytest.mark.filterwarnings("ignore::cavity.ConvergenceWarning", "ignore::cavity.CollapseWarning")


def fitted(name):
    model, y = CASES[name]
    return type(model)(**model.get_params()).fit(X, y)


def answers(model):
    """Of all that this kind of model can be asked."""
    y = NUMBERS if isinstance(model, cavity.NetworkRegressor) else None
    found = [] if hasattr(model, "classes_") else [model.score(X, y)]
    for read in READS:
        try:
            found.append(read(model))
        except (AttributeError, TypeError):  # of another kind
            continue
    return found


def assert_same(found, wanted):
    """Bit by bit."""
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        if isinstance(one, tuple):
            assert_same(one, other)
        else:
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", CASES)
def test_parameters_set_after_a_fit_change_no_answer(name):
    model = fitted(name)
    before = answers(model)
    assert len(before) >= 4
    for parameter, value in model.get_params().items():
        model.set_params(**{parameter: "set later" if value != "set later" else None})
    assert_same(answers(model), before)


@pytest.mark.parametrize("name", CASES)
def test_parameters_of_the_first_chunk_are_not_read_again(name):
    y = CASES[name][1]
    plain, changed = fitted(name), fitted(name)
    changed.set_params(**LATER["mixture" if "mixture" in name else "network"])
    for model in (plain, changed):
        model.partial_fit(X, *([] if y is None else [y]))
    assert_same(answers(changed), answers(plain))


@pytest.mark.parametrize(
    ("name", "parameter", "value"),
    [
        ("mixture", "n_components", 3),
        ("mixture", "covariance_type", "diag"),
        ("regressor", "hidden_layer_sizes", (4,)),
        ("regressor", "activation", "sin"),
        ("regressor", "n_networks", 1),
        ("regressor", "heteroscedastic", False),
        ("regressor", "unit_covariances", True),
        ("two classes", "unit_covariances", True),
    ],
)
def test_parameters_that_make_the_model_must_stay(name, parameter, value):
    model, y = fitted(name), CASES[name][1]
    before = answers(model)
    with pytest.raises(ValueError, match=rf"{parameter}.* must stay as they"):
        model.set_params(**{parameter: value}).partial_fit(X, *([] if y is None else [y]))
    assert_same(answers(model), before)
