"""Pictures show the numbers they are said to show."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from matplotlib import pyplot as plt
from scipy.stats import chi2

import cavity
from cavity.diagnostics import calibration_curve, plot_calibration, plot_coefficients, plot_convergence, plot_pairs

RNG = np.random.default_rng(1)
X = RNG.normal(size=(60, 3)) * [1.0, 10.0, 0.1]
LABELS = RNG.integers(0, 3, 60)
MODEL = cavity.GaussianRegressor(noise_variance=1.0).fit(X, X @ [1.0, 0.2, 3.0])


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_convergence():
    axes = plot_convergence({"one": MODEL, "other": MODEL.history_})
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), MODEL.history_.change)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["one", "other"]


def test_coefficients_are_drawn_per_standard_deviation():
    axes = plot_coefficients(MODEL, largest=2)
    means = np.asarray(axes.containers[0].lines[0].get_xdata(), dtype=float)
    np.testing.assert_allclose(means, (MODEL.coef_ * X.std(0))[:2], rtol=1e-9)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["x0", "x1"]


def test_each_class_has_its_coefficients():
    axes = plot_coefficients(cavity.ProbitClassifier().fit(X, LABELS), intercept=True)
    assert len(axes.containers) == 3
    assert len(axes.get_yticklabels()) == 4


def test_ellipses_hold_their_level():
    grid = plot_pairs(MODEL, ["x0", -1], levels=[0.8], draws=MODEL.sample_posterior(50))
    assert grid.shape == (2, 2)
    points = np.stack(grid[1, 0].lines[0].get_data()) - MODEL.posterior_.mean[[0, 3]][:, None]
    covariance = MODEL.posterior_.covariance[np.ix_([0, 3], [0, 3])]
    squared = np.sum(points * np.linalg.solve(covariance, points), 0)
    np.testing.assert_allclose(squared, chi2(2).ppf(0.8))


def test_calibration():
    y, probability = RNG.integers(0, 2, 100), RNG.uniform(size=100)
    axes = plot_calibration(y, {"guess": probability}, n_bins=4)
    np.testing.assert_allclose(axes.containers[0].lines[0].get_ydata(), calibration_curve(y, probability, 4).observed)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plot_convergence(3), "fits must be results"),
        (lambda: plot_pairs(MODEL, ["height"]), "coefficients must be names or positions"),
        (lambda: plot_pairs(cavity.ProbitClassifier().fit(X, LABELS)), "models must have one Gaussian posterior"),
        (lambda: plot_pairs(MODEL.posterior_, names=["a"]), "names must have one entry per coefficient"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
