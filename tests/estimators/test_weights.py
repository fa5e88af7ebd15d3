"""Weights of rows in mixtures and networks: two is the row twice, and zero no row."""

import numpy as np
import pytest

import cavity
from cavity.estimators.mixture.model import first_labels
from tests.registry import thinned

RNG = np.random.default_rng(9)
N = 60
X = RNG.normal(size=(N, 2)) + 3.0 * (np.arange(N) % 3 > 0)[:, None]
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=N)
WORDS = np.where(X[:, 0] + X[:, 1] > 3.0, "yes", "no")
THREE = np.digitize(X[:, 0], [0.5, 2.5])
COUNTS = RNG.integers(0, 4, size=N)
NEW = RNG.normal(1.5, size=(15, 2))
KINDS = ["full", "diag", "spherical"]
AT_ONCE = {"hidden_layer_sizes": (5,), "algorithm": cavity.aep(rate=1.0), "warm_up": 0, "n_epochs": 6}
NETWORKS = {
    "regressor": (cavity.NetworkRegressor, {}, Y),
    "constant noise": (cavity.NetworkRegressor, {"heteroscedastic": False, "n_networks": 2}, Y),
    "two classes": (cavity.NetworkClassifier, {}, WORDS),
    "three classes": (cavity.NetworkClassifier, {}, THREE),
}
ESTIMATORS = {
    "mixture": (cavity.GaussianMixture(2), None),
    "regressor": (cavity.NetworkRegressor((3,), n_epochs=2, warm_up=1), Y),
    "classifier": (cavity.NetworkClassifier((3,), n_epochs=2, warm_up=1), WORDS),
}
quiet = pytest.mark.filterwarnings("ignore::cavity.ConvergenceWarning", "ignore::cavity.CollapseWarning")
again = lambda values: np.repeat(values, COUNTS, axis=0)


def with_nonsense(values):
    """Rows that weigh nothing are anything."""
    values = np.array(values)
    values[COUNTS == 0] = {"f": -1e12, "U": "no", "i": 1}[values.dtype.kind]
    return values


def answers(model):
    """Predictions of any estimator."""
    if hasattr(model, "predict_proba"):
        return model.predict_proba(NEW)
    return np.array(model.predict(NEW, return_std=True))


# -- mixtures ----------------------------------------------------------------------------------------------------


def mixture(kind="full", **options):
    return cavity.GaussianMixture(2, covariance_type=kind, tol=1e-10, max_sweeps=5000, **options)


def assert_alike(one, other, rtol):
    np.testing.assert_allclose(one.posterior_.units.center, other.posterior_.units.center, rtol=rtol)
    np.testing.assert_allclose(one.posterior_.units.scale, other.posterior_.units.scale, rtol=rtol)
    np.testing.assert_allclose(one.score_samples(NEW), other.score_samples(NEW), rtol=rtol)
    np.testing.assert_allclose(one.log_evidence_, other.log_evidence_, rtol=rtol)
    np.testing.assert_allclose(one.summary(), other.summary(), rtol=rtol)  # with what the linear response adds


@pytest.mark.parametrize(
    ("kind", "algorithm"),
    thinned([(kind, name) for name in ("ep", "aep", "vmp") for kind in KINDS], lambda kind, _: kind == "full"),
)
def test_weight_two_is_the_row_twice_at_fixed_points(kind, algorithm):
    weighted = mixture(kind, algorithm=algorithm).fit(X, None, COUNTS)
    assert weighted.converged_
    assert_alike(weighted, mixture(kind, algorithm=algorithm).fit(again(X)), rtol=1e-6)


def test_rows_of_weight_zero_are_no_rows():
    kept, init = COUNTS > 0, (np.arange(N) % 3 > 0).astype(int)
    for options in ({}, {"init": init}):
        wanted = {"init": init[kept]} if options else {}
        weighted = mixture(**options).fit(with_nonsense(X), sample_weight=COUNTS > 0)
        assert_alike(weighted, mixture(**wanted).fit(X[kept]), rtol=0)


def test_a_weight_for_all_alike_is_as_many_rows():
    assert_alike(mixture().fit(X, sample_weight=np.full(N, 3)), mixture().fit(np.tile(X, (3, 1))), rtol=1e-6)
    assert_alike(mixture().fit(X, sample_weight=np.ones(N)), mixture().fit(X), rtol=0)


def test_later_chunks_have_weights_too():
    begin = lambda: mixture(linear_response=False).partial_fit(X[:30])
    weighted = begin().partial_fit(with_nonsense(X)[30:], sample_weight=COUNTS[30:])
    repeated = begin().partial_fit(np.repeat(X[30:], COUNTS[30:], axis=0))
    np.testing.assert_allclose(weighted.score_samples(NEW), repeated.score_samples(NEW), rtol=1e-6)
    np.testing.assert_allclose(weighted.log_evidence_, repeated.log_evidence_, rtol=1e-6)
    first = mixture().partial_fit(with_nonsense(X), sample_weight=COUNTS)
    assert_alike(first, mixture().fit(again(X)), rtol=1e-6)
    with pytest.raises(ValueError, match="X must have at least 2 rows in the first chunk"):
        mixture().partial_fit(X, sample_weight=np.arange(N) == 3)


def test_densities_are_averaged_by_weight():
    model = mixture().fit(X)
    assert model.score(X, sample_weight=COUNTS) == pytest.approx(model.score(again(X)), rel=1e-12)
    assert model.score(X, None, np.ones(N)) == pytest.approx(model.score(X), rel=1e-14)


def test_labels_to_begin_with_are_those_of_weighted_k_means():
    """Of three groups the two that are closest are one, unless the third hardly weighs anything."""
    groups = np.repeat([0, 1, 2], 40)
    points = np.array([0.0, 4.5, 10.0])[groups, None] + 0.01 * RNG.normal(size=(120, 1))
    for weight, together in ((np.ones(120), [0, 1]), (np.where(groups == 2, 0.01, 1.0), [1, 2])):
        labels = first_labels(points, weight, 2, "kmeans", np.random.RandomState(0))
        alike = labels == labels[groups == 1][0]
        np.testing.assert_array_equal(alike, np.isin(groups, together))


# -- networks ----------------------------------------------------------------------------------------------------


@quiet
@pytest.mark.parametrize("name", thinned([*NETWORKS], lambda name: name in ("regressor", "three classes")))
def test_weight_two_is_the_row_twice_where_all_rows_are_seen_at_once(name):
    kind, options, y = NETWORKS[name]
    fit = lambda *rows: kind(**AT_ONCE, **options).fit(*rows)
    weighted, repeated = fit(with_nonsense(X), with_nonsense(y), COUNTS), fit(again(X), again(y))
    np.testing.assert_allclose(answers(weighted), answers(repeated), rtol=1e-8)
    assert weighted.score(X, y, COUNTS) == pytest.approx(repeated.score(again(X), again(y)), rel=1e-8)
    weighted = fit(X, y).partial_fit(with_nonsense(X), with_nonsense(y), sample_weight=COUNTS)
    np.testing.assert_allclose(answers(weighted), answers(fit(X, y).partial_fit(again(X), again(y))), rtol=1e-8)


@quiet
@pytest.mark.parametrize("algorithm", ["ep", "sep", "adf"])
@pytest.mark.parametrize("name", ["regressor", "classifier"])
def test_rows_of_weight_zero_are_no_rows_for_any_algorithm(name, algorithm):
    model, y = ESTIMATORS[name]
    fit = lambda *rows: type(model)(**{**model.get_params(), "algorithm": algorithm}).fit(*rows)
    kept = COUNTS > 0
    weighted = fit(with_nonsense(X), with_nonsense(y), np.where(kept, 1.0, 0.0))
    np.testing.assert_array_equal(answers(weighted), answers(fit(X[kept], y[kept])))
    np.testing.assert_array_equal(answers(fit(X, y, np.ones(N))), answers(fit(X, y)))


@quiet
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_sites_of_weighted_rows_may_be_in_a_file(dtype, tmp_path):
    fit = lambda **options: cavity.NetworkRegressor((4,), n_epochs=5, algorithm="ep", **options).fit(X, Y, COUNTS)
    wanted = answers(fit(site_dtype=dtype))
    np.testing.assert_array_equal(answers(fit(site_dtype=dtype, site_directory=str(tmp_path))), wanted)
    np.testing.assert_allclose(answers(fit()), wanted, rtol=1e-3 if dtype == "float32" else 0)


@quiet
def test_epochs_until_nothing_is_gained_know_weights():
    model = cavity.NetworkRegressor((4,), n_epochs="auto", algorithm="ep").fit(X, Y, COUNTS)
    assert 30 <= model.n_epochs_[0] <= 100
    assert np.all(np.isfinite(model.history_[0].score))


@quiet
@pytest.mark.parametrize("model", [ESTIMATORS["classifier"][0], cavity.ProbitClassifier()], ids=["network", "linear"])
def test_classes_are_those_of_rows_that_weigh_something(model):
    weight = (THREE < 2).astype(float)
    two = type(model)(**model.get_params()).fit(X, THREE, weight)
    assert two.classes_.tolist() == [0, 1]
    two.partial_fit(X, THREE, sample_weight=weight)  # a label of no weight is not looked at
    with pytest.raises(ValueError, match="among classes"):
        two.partial_fit(X, THREE)
    with pytest.raises(ValueError, match=r"at least two classes; got one class, .* among rows of positive weight"):
        two.fit(X, THREE, (THREE == 0).astype(float))


# -- what is refused ---------------------------------------------------------------------------------------------


REFUSED = {
    "one is negative": (
        np.where(np.arange(N) == 7, -0.5, 1.0),
        "sample_weight must not be negative; got -0.5 for row 7",
    ),
    "all are zero": (np.zeros(N), "weight.*zero"),
    "too few": (np.ones(N - 1), "sample_weight"),
    "not numbers": (np.where(np.arange(N) == 7, np.nan, 1.0), "sample_weight contains NaN"),
}


@quiet
@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_weights_are_checked(name, case):
    (model, y), (weight, message) = ESTIMATORS[name], REFUSED[case]
    fresh = lambda: type(model)(**model.get_params())
    first = {"classes": ["no", "yes"]} if name == "classifier" else {}
    for call in (
        lambda: fresh().fit(X, y, weight),
        lambda: fresh().partial_fit(X, y, sample_weight=weight, **first),
        lambda: fresh().fit(X, y).partial_fit(X, y, sample_weight=weight),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    if name == "mixture":
        with pytest.raises(ValueError, match=message):
            fresh().fit(X).score(X, None, weight)
