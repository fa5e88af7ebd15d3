"""How many epochs a network is given."""

import numpy as np
import pytest

from cavity import NetworkRegressor
from cavity.estimators.network import epochs, training
from cavity.estimators.network.epochs import GAIN, MOST, WINDOW, Stopping
from cavity.factors.networks import site_storage
from tests.estimators.test_network import sine


def epochs_until_stop(scores):
    stops = Stopping("auto")
    return next(number for number, score in enumerate(scores, 1) if stops(number, score))


def test_a_number_of_epochs_is_just_that():
    stops = Stopping(3)
    assert [stops(number, np.nan) for number in (1, 2, 3)] == [False, False, True]


def test_scores_that_do_not_rise_stop_as_soon_as_two_windows_can_be_compared():
    assert epochs_until_stop([0.0] * MOST) == 3 * WINDOW


def test_scores_that_rise_go_on_to_the_limit():
    assert epochs_until_stop(1.1 * GAIN / WINDOW * np.arange(2 * MOST)) == MOST


def test_the_first_window_does_not_count():
    """After a warm-up the first epochs score high: cavities still know their rows."""
    rising = np.minimum(0.01 * np.arange(MOST), 0.4)
    assert epochs_until_stop(rising) == epochs_until_stop(np.where(np.arange(MOST) < WINDOW, 5.0, rising))


def test_a_rise_that_ends_stops_a_window_and_a_half_later_at_most():
    rising = np.minimum(0.01 * np.arange(MOST), 0.4)  # until epoch 41
    assert 41 < epochs_until_stop(rising) <= 41 + 2 * WINDOW


def test_noise_is_averaged():
    noise = 0.002 * np.random.default_rng(0).normal(size=2 * MOST)
    assert epochs_until_stop(2 * GAIN / WINDOW * np.arange(2 * MOST) + noise) == MOST


@pytest.mark.parametrize("algorithm", ["ep", "sep", "adf"])
def test_auto_stops_a_fit(algorithm):
    X, y = sine()
    model = NetworkRegressor((5,), algorithm=algorithm, n_epochs="auto").fit(X, y)
    assert 3 * WINDOW <= model.n_epochs_[0] <= MOST
    (history,) = model.history_
    assert len(history.score) == model.n_epochs_[0]
    assert np.all(np.isfinite(history.score))
    same = NetworkRegressor((5,), algorithm=algorithm, n_epochs=model.n_epochs_[0]).fit(X, y)
    np.testing.assert_array_equal(same.predict(X), model.predict(X))


def test_the_score_of_ep_is_near_that_of_rows_left_out():
    X, y = sine(300)
    model = NetworkRegressor((10,), algorithm="ep").fit(X, y)
    fresh = np.mean(model.log_predictive(*sine(2000, seed=1))) + np.log(y.std())
    assert abs(model.history_[0].score[-1] - fresh) < 0.1


@pytest.mark.parametrize("options", [{"activation": "sin"}, {"algorithm": "vmp"}])
def test_auto_is_refused_where_there_is_no_score(options):
    with pytest.raises(ValueError, match=r"n_epochs must be a number.*relu"):
        NetworkRegressor((3,), n_epochs="auto", **options).fit(*sine(20))


@pytest.mark.parametrize("n_epochs", [0, 2.5, "some"])
def test_other_values_are_refused(n_epochs):
    with pytest.raises(ValueError, match="n_epochs must be a positive integer or 'auto'"):
        NetworkRegressor(n_epochs=n_epochs).fit(*sine(10))


def test_a_callback_sees_every_epoch_and_may_end_the_fit():
    X, y = sine(50)
    seen = []

    def look(epoch: epochs.Epoch) -> bool:
        seen.append((epoch.network, epoch.number, epoch.posterior.log_predictive(X, y).mean()))
        return epoch.number == 3

    model = NetworkRegressor((5,), n_networks=2, n_jobs=1, warm_up=4).fit(X, y, callback=look)
    assert [each[:2] for each in seen] == [(n, e) for n in (0, 1) for e in (1, 2, 3)]
    assert model.n_epochs_ == [3, 3]
    densities = [model.posterior_.log_predictive(X, y).mean(), seen[2][2], seen[5][2]]
    assert min(densities[1:]) <= densities[0] <= max(densities[1:]) + np.log(2)


def test_sites_that_do_not_fit_are_refused_before_the_warm_up(monkeypatch):
    monkeypatch.setattr(site_storage, "free_memory", lambda: 1e5)
    monkeypatch.setattr(training, "fit", lambda *_, **__: pytest.fail("a pass was made"))
    with pytest.raises(MemoryError, match="site_directory"):
        NetworkRegressor((20,), algorithm="ep").fit(*sine(1000))
