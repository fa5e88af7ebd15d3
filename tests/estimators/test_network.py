"""`NetworkRegressor`: what it promises, and what it does with data that are hard."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

import cavity
from cavity import NetworkRegressor
from cavity.estimators import algorithms
from cavity.estimators.network import base, training
from cavity.factors.networks import site_storage


def sine(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, size=(n, 1))
    return X, 10 + 5 * np.sin(X[:, 0]) + 0.5 * rng.normal(size=n)


@pytest.fixture(scope="module")
def fitted():
    return NetworkRegressor((20,)).fit(*sine())


@pytest.fixture(scope="module")
def constant():
    return NetworkRegressor((20,), heteroscedastic=False).fit(*sine())


@pytest.mark.parametrize("name", ["fitted", "constant"])
def test_it_learns_a_curve_and_its_noise(name, request):
    model = request.getfixturevalue(name)
    X, y = sine(500, seed=1)
    mean, sd = model.predict(X, return_std=True)
    assert np.sqrt(np.mean((y - mean) ** 2)) < 0.7
    assert np.mean(np.abs(y - mean) < 1.645 * sd) > 0.85
    noise = model.predict_components(X).noise_std
    assert np.all((noise > 0.3) & (noise < 1.5))  # factorised weights leave much to noise where rows are few
    assert model.score(X, y) > 0.95


def test_without_a_warm_up_few_rows_teach_little(constant):
    X, y = sine()
    cold = NetworkRegressor((20,), heteroscedastic=False, warm_up=0).fit(X, y)
    assert cold.score(X, y) < constant.score(X, y) - 0.1


def test_components_add_up(fitted):
    X, _ = sine(20)
    mean, noise, model = fitted.predict_components(X)
    total = fitted.predict(X, return_std=True)
    np.testing.assert_allclose(total[0], mean)
    np.testing.assert_allclose(total[1] ** 2, noise**2 + model**2)


def test_it_is_less_sure_where_there_are_no_data(fitted):
    _, _, model = fitted.predict_components([[0.0], [20.0]])
    assert model[1] > 5 * model[0]


def test_draws_have_the_moments_of_the_prediction(fitted):
    X, _ = sine(5)
    draws = fitted.sample_posterior(X, 2000, random_state=0)
    mean, _, model = fitted.predict_components(X)
    assert draws.shape == (2000, 5)
    np.testing.assert_allclose(draws.mean(0), mean, atol=0.1 * model.max())
    np.testing.assert_allclose(draws.std(0), model, rtol=0.1)


def test_single_draws_are_of_any_network():
    X, y = sine(60)
    model = NetworkRegressor((5,), n_networks=4, n_epochs=5).fit(X, y)
    far = [[8.0]]
    draws = [model.sample_posterior(far, random_state=seed).item() for seed in range(300)]
    mean, _, spread = model.predict_components(far)
    means = model.posterior_.outputs(np.array(far))[0]
    assert np.std(means) * y.std() > 0.5 * spread  # networks differ, and one alone would be too sure
    assert np.mean(draws) == pytest.approx(mean[0], abs=0.25 * spread[0])
    assert np.std(draws) == pytest.approx(spread[0], rel=0.15)


def test_the_density_is_that_of_the_predictive_gaussian(constant):
    X, y = sine(10)
    mean, sd = constant.predict(X, return_std=True)
    wanted = -0.5 * (np.log(2 * np.pi * sd**2) + ((y - mean) / sd) ** 2)
    np.testing.assert_allclose(constant.log_predictive(X, y), wanted)


def test_densities_are_normalised_and_have_the_moments_of_the_prediction(fitted):
    (mean,), (sd,) = fitted.predict([[1.0]], return_std=True)
    grid = np.linspace(mean - 15 * sd, mean + 15 * sd, 3001)
    density = np.exp(fitted.log_predictive(np.ones((len(grid), 1)), grid))
    moment = lambda values: np.trapezoid(values * density, grid)
    assert moment(1.0) == pytest.approx(1.0, rel=1e-6)
    assert moment(grid) == pytest.approx(mean, rel=1e-6)
    assert moment((grid - mean) ** 2) == pytest.approx(sd**2, rel=1e-4)


@pytest.mark.parametrize("algorithm", ["adf", "sep", "ep", "dsep"])
def test_every_algorithm_learns(algorithm):
    X, y = sine(400)
    model = NetworkRegressor((10,), algorithm=algorithm, n_epochs=30, warm_up=0, heteroscedastic=False).fit(X, y)
    assert model.score(X, y) > 0.8


def test_sep_keeps_one_site_and_ep_one_for_each_row():
    X, y = sine(50)
    sizes = {name: NetworkRegressor((5,), algorithm=name, n_epochs=1).fit(X, y).site_bytes_ for name in ("sep", "ep")}
    numbers = 2 * (2 * 5 + 6 * 2) + 4  # weights to two outputs, noise, precision
    assert sizes == {"sep": 8 * numbers, "ep": 50 * 8 * numbers}


def test_several_networks_are_a_mixture():
    X, y = sine(60)
    several = NetworkRegressor((5,), n_networks=3, n_epochs=5).fit(X, y)
    alone = NetworkRegressor((5,), n_networks=3, n_epochs=5, n_jobs=1).fit(X, y)
    means, variances, noises = several.posterior_.outputs(X)
    assert means.shape == (3, 60)
    assert np.ptp(means, axis=0).max() > 1e-3
    mean, sd = several.predict(X, return_std=True)
    np.testing.assert_allclose(mean, y.mean() + y.std() * means.mean(0))
    wanted = (variances + noises + means**2).mean(0) - means.mean(0) ** 2
    np.testing.assert_allclose((sd / y.std()) ** 2, wanted, rtol=1e-8)
    np.testing.assert_array_equal(alone.predict(X), several.predict(X))  # threads change nothing


def test_more_rows_later_make_it_surer():
    X, y = sine(400)
    stream = NetworkRegressor((10,), n_epochs=20).partial_fit(X[:200], y[:200])
    before = stream.predict_components(X).model_std.mean()
    stream.partial_fit(X[200:], y[200:])
    assert stream.predict_components(X).model_std.mean() < before
    assert stream.score(X, y) > 0.95


def test_a_stream_keeps_its_networks():
    X, y = sine(60)
    with pytest.raises(ValueError, match="two rows in the first chunk"):
        NetworkRegressor((4,)).partial_fit(X[:1], y[:1])
    stream = NetworkRegressor((8,), n_epochs=2).partial_fit(X, y)
    for changed in ({"hidden_layer_sizes": (5,)}, {"heteroscedastic": False}, {"activation": "sin"}, {"n_networks": 2}):
        copy = pickle.loads(pickle.dumps(stream)).set_params(**changed)
        with pytest.raises(ValueError, match=next(iter(changed))):
            copy.partial_fit(X, y)


@pytest.mark.parametrize("algorithm", ["ep", "sep"])
def test_noise_does_not_account_for_what_the_mean_can_tell(algorithm):
    """From weights at random and varying noise at once, R² is anything from 0.4 to 0.9, by the seed."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(1200, 1))
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=1200)
    fit = lambda seed: NetworkRegressor((20,), algorithm=algorithm, random_state=seed).fit(X[:1000], y[:1000])
    assert min(fit(seed).score(X[1000:], y[1000:]) for seed in range(4)) > 0.9


def test_a_fit_that_fails_leaves_the_model_as_it_was():
    X, y = sine(60)
    model = NetworkRegressor((5,), n_epochs=3).fit(X, y)
    before, attributes = model.predict(X), set(vars(model))

    def fail(epoch):
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        model.fit(np.ones((20, 3)) + X[:20], 1000 * y[:20] + 5000, callback=fail)
    with pytest.raises(ValueError, match="algorithm"):
        model.set_params(algorithm="sgd").fit(X, 1000 * y + 5000)
    np.testing.assert_array_equal(model.predict(X), before)
    assert set(vars(model)) == attributes


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_what_ends_one_network_ends_all(n_jobs):
    X, y = sine(40)
    seen = []

    def interrupt(epoch):
        seen.append(epoch.number)
        if epoch.network == 0 and epoch.number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), pytest.warns(cavity.ConvergenceWarning, match="Interrupted"):
        NetworkRegressor((4,), n_networks=4, n_epochs=10_000, n_jobs=n_jobs).fit(X, y, callback=interrupt)
    assert len(seen) < 9_000


def test_an_interrupted_warm_up_is_no_fit(monkeypatch):
    X, y = sine(40)
    original = training.fit

    def interrupted(*args, callback, **options):
        def interrupt(sweep):
            raise KeyboardInterrupt

        return original(*args, callback=interrupt, **options)

    monkeypatch.setattr(training, "fit", interrupted)
    model = NetworkRegressor((4,))
    with pytest.raises(KeyboardInterrupt), pytest.warns(cavity.ConvergenceWarning, match="Interrupted"):
        model.fit(X, y)
    assert not hasattr(model, "posterior_")


def test_a_stream_keeps_the_names_of_its_features():
    X, y = sine(60)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 0] ** 2})
    stream = NetworkRegressor((5,), n_epochs=2).partial_fit(frame, y).partial_fit(frame, y)
    assert list(stream.feature_names_in_) == ["a", "b"]
    with pytest.raises(ValueError, match="feature names"):
        stream.partial_fit(frame[["b", "a"]], y)


def test_sites_of_networks_at_once_are_counted_together(monkeypatch):
    X, y = sine(100)
    site = NetworkRegressor((5,), n_epochs=1, algorithm="ep").fit(X, y).site_bytes_
    monkeypatch.setattr(site_storage, "free_memory", lambda: 3 * site)
    seen = []
    original = base.in_parallel
    monkeypatch.setattr(base, "in_parallel", lambda *a, **k: seen.append(k["at_once"]) or original(*a, **k))
    for algorithm, n_jobs in (("ep", 1), ("ep", 3), ("auto", 3), ("sep", 3)):
        NetworkRegressor((5,), n_epochs=1, algorithm=algorithm, n_networks=3, n_jobs=n_jobs).fit(X, y)
    assert seen == [1, 2, 2, 3]  # a fifth of the memory is left


def test_ep_is_not_the_choice_where_its_sites_do_not_fit(monkeypatch):
    X, y = sine(100)
    site = NetworkRegressor((5,), n_epochs=1).fit(X, y).site_bytes_
    monkeypatch.setattr(site_storage, "free_memory", lambda: site)
    assert NetworkRegressor((5,), n_epochs=1).fit(X, y).site_bytes_ < site / 50


def test_a_place_for_sites_is_a_wish_for_ep(monkeypatch, tmp_path):
    X, y = sine(50)
    monkeypatch.setattr(algorithms, "BYTES_FOR_EP", 1000)
    n_sites = lambda **options: NetworkRegressor((5,), n_epochs=1, **options).fit(X, y).site_bytes_
    assert n_sites() < 1000 < n_sites(site_directory=str(tmp_path))


@pytest.mark.parametrize(
    ("n_rows", "batch_size", "message"),
    [
        (400, 400, "Batches of 400 among 400 rows.* of the steps were cut.* at most 66 rows"),
        (100, 32, "Batches of 32 among 100 rows.* at most 8 rows"),
    ],
)
def test_batches_that_are_too_large_are_told_of(n_rows, batch_size, message):
    X, y = sine(n_rows)
    with pytest.warns(cavity.ConvergenceWarning, match=message) as caught:
        NetworkRegressor((20,), algorithm="sep", batch_size=batch_size, n_epochs=5).fit(X, y)
    assert caught[0].filename == __file__


def test_batches_that_were_too_large_in_any_epoch_are_told_of():
    """A few cuts on the way may spoil a fit that ends without."""
    X, y = sine(300)
    model = NetworkRegressor((5,), algorithm="sep", batch_size=20, n_epochs=4).fit(X, y)
    history = model.history_[0]._replace(backoffs=np.array([0, 3, 0, 0]))
    model.history_ = [history]
    with pytest.warns(cavity.ConvergenceWarning, match="5% of the steps were cut.* at most 5 rows"):
        model._warn_of_batches(20, 300)


def test_an_interrupted_chunk_is_not_half_learned():
    X, y = sine(60)
    model = NetworkRegressor((5,), n_epochs=3).partial_fit(X, y)
    before = model.predict(X)
    original = training.fit

    def interrupted(*args, callback, **options):
        def interrupt(sweep):
            raise KeyboardInterrupt

        return original(*args, callback=interrupt, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "fit", interrupted)
        with pytest.raises(KeyboardInterrupt), pytest.warns(cavity.ConvergenceWarning, match="Interrupted"):
            model.partial_fit(X, y + 1)
    np.testing.assert_array_equal(model.predict(X), before)


def test_columns_far_from_zero_are_standardised():
    X, y = sine(200)
    plain = NetworkRegressor((5,), n_epochs=5).fit(X, y).score(X, y)
    far, high = 2.0**60 + 2.0**18 * np.round(1000 * X), 1e15 + 1000 * y
    assert NetworkRegressor((5,), n_epochs=5).fit(far, high).score(far, high) == pytest.approx(plain, abs=0.02)


def test_rows_beyond_all_bounds_have_predictions(fitted):
    mean, sd = fitted.predict([[1e160], [-1e300]], return_std=True)
    assert np.all(np.isfinite(mean) & np.isfinite(sd))


def test_sorted_rows_are_looked_at_all_over():
    X = np.linspace(-3, 1, 3000)[:, None]
    y = 3 * np.maximum(X[:, 0], 0) + 0.01 * np.random.default_rng(0).normal(size=3000)  # a third is not flat
    NetworkRegressor((10,), n_epochs=2, warm_up=5).fit(X, y)  # a warning would be an error


def test_a_network_that_says_the_same_of_all_rows_is_told_of():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(30, 1))
    y = np.sin(1.5 * X[:, 0]) + 0.1 * rng.normal(size=30)
    with pytest.warns(cavity.ConvergenceWarning, match="the same of all rows.*adf") as caught:
        NetworkRegressor().fit(X, y)
    assert caught[0].filename == __file__


def test_rows_and_targets_must_go_together(fitted):
    X, y = sine(5)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        fitted.log_predictive(X, y[:4])


# -- data that are hard ------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:The network says the same of all rows")
@pytest.mark.parametrize("algorithm", ["adf", "sep", "ep"])
def test_hard_data_give_finite_predictions(algorithm):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    cases = {
        "a constant feature": (np.column_stack([X, np.full(40, 7.0)]), y),
        "one row": (X[:1], y[:1]),
        "huge targets": (X, 1e200 * y),
        "tiny targets": (X, 1e-200 * y),
        "a constant target": (X, np.full(40, 3.0)),
        "an outlier": (X, np.where(np.arange(40) == 0, 1e12, y)),
        "far features": (1e150 * X, y),
    }
    for name, (features, target) in cases.items():
        model = NetworkRegressor((8,), algorithm=algorithm, n_epochs=10).fit(features, target)
        mean, sd = model.predict(features, return_std=True)
        assert np.all(np.isfinite(mean)), name
        assert np.all((sd > 0) & np.isfinite(sd)), name


def test_a_dead_layer_comes_out_finite():
    factor = cavity.factors.network([1, 4, 1])
    prior = factor.prior()
    dead = np.concatenate([np.zeros(4), np.full(4, -1e4), np.ones(5)])  # every unit far below zero
    weights = cavity.DiagonalGaussian.from_mean(dead, np.full(13, 1e-3))
    prior = cavity.Product({**prior.parts, "weights": weights})
    X, y = sine(30)
    for algorithm in (cavity.adf(), cavity.sep(rate=1.0), cavity.ep(rate=1.0)):
        result = cavity.fit(factor, prior, (X, y), algorithm, evidence=False, callback=lambda _: True)
        assert result.posterior.is_proper()


def test_nan_is_refused():
    X, y = sine(10)
    with pytest.raises(ValueError, match="NaN"):
        NetworkRegressor().fit(np.where(X > 0, np.nan, X), y)


@pytest.mark.parametrize(
    "options",
    [
        {"hidden_layer_sizes": (0,)},
        {"hidden_layer_sizes": ()},
        {"activation": "tanh"},
        {"algorithm": "sgd"},
        {"n_epochs": 0},
        {"warm_up": -1},
        {"n_networks": 1.5},
        {"batch_size": 0},
        {"weight_variance": -1.0},
        {"prior_shape": 1.0},
        {"prior_rate": 0.0},
        {"site_dtype": "float16"},
        {"site_directory": 3},
        {"n_jobs": 0},
        {"n_epochs": "auto", "activation": "sin"},
        {"n_epochs": "auto", "algorithm": cavity.ep(rate=0.5)},
        {"site_directory": "no such place"},
        {"site_dtype": "float32", "algorithm": "ep", "activation": "leaky_relu"},
        {"site_directory": ".", "algorithm": "power-ep"},
        {"heteroscedastic": "yes"},
        {"unit_covariances": 1},
    ],
)
def test_errors_name_the_argument(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        NetworkRegressor(**options).fit(*sine(10))


# -- where EP's sites are kept -----------------------------------------------------------------------------------


def test_sites_in_a_file_change_nothing(tmp_path):
    X, y = sine(40)
    fit = lambda **options: NetworkRegressor((5,), algorithm="ep", n_epochs=5, **options).fit(X, y).predict(X)
    np.testing.assert_array_equal(fit(), fit(site_directory=str(tmp_path)))
    np.testing.assert_allclose(fit(), fit(site_dtype="float32"), rtol=1e-4)
    assert not list(tmp_path.iterdir())


def test_sites_that_do_not_fit_are_refused_before_the_fit(monkeypatch):
    monkeypatch.setattr(site_storage, "free_memory", lambda: 1e5)
    with pytest.raises(MemoryError, match=r"1,000 rows: 1\.3 MB, and 0\.1 MB are free.*site_dtype.*site_directory"):
        NetworkRegressor((20,), algorithm="ep", n_epochs=1).fit(*sine(1000))


def test_a_directory_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match="site_directory"):
        NetworkRegressor((5,), algorithm="ep", site_directory=str(tmp_path / "no")).fit(*sine(10))


def test_free_memory_is_a_sensible_number():
    assert site_storage.free_memory() > 1e6


# -- the scikit-learn contract -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_s_own_checks():
    # rows are visited in a random order, which repeated and shuffled rows change
    drawn = {"check_sample_weight_equivalence_on_dense_data": "the order of rows is random"}
    results = check_estimator(NetworkRegressor(), on_fail=None, expected_failed_checks=drawn)
    assert len(results) > 50
    assert [r["check_name"] for r in results if r["status"] not in ("passed", "skipped", "xfail")] == []
    assert {r["check_name"] for r in results if r["status"] == "skipped"} <= {"check_array_api_input"}


def test_copies_predict_the_same(fitted):
    X, _ = sine(10)
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.predict(X), fitted.predict(X))
    assert not hasattr(clone(fitted), "posterior_")
