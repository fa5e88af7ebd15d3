"""Simulation-based calibration of `ProbitClassifier`: are its credible intervals right on average over the prior?

Coefficients drawn from the prior, data drawn from them, a posterior from the data: if it were the exact one,
the true coefficient would lie anywhere in it with equal probability. Talts, Betancourt, Simpson, Vehtari & Gelman
(2018), "Validating Bayesian inference algorithms with simulation-based calibration".
"""

import json
import warnings
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from scipy import stats

import cavity

REPETITIONS, N, DIM, BINS = 300, 200, 5, 20
ALGORITHMS = {"ep": "EP", "sep": "SEP", "adf": "ADF, one pass", "vmp": "VI"}


def ranks(algorithm: str, repetitions: int = REPETITIONS) -> np.ndarray:
    """Where each true coefficient lies in its posterior, from 0 to 1: (repetition, coefficient)."""
    places = []
    for seed in range(repetitions):
        rng = np.random.default_rng([seed, 11])
        theta, features = rng.normal(size=DIM), rng.normal(size=(N, DIM))
        labels = np.where(features @ theta + rng.normal(size=N) > 0, 1, 0)
        model = cavity.ProbitClassifier(algorithm=algorithm, fit_intercept=False, standardize=False, tol=1e-5)
        model.partial_fit(features, labels, classes=[0, 1])
        places.append(stats.norm.cdf(theta, model.posterior_.mean, np.sqrt(model.posterior_.variance)))
    return np.array(places)


def p_values(places: np.ndarray) -> np.ndarray:
    """Of a χ² test that the histogram of each coefficient is flat."""
    return np.array([stats.chisquare(np.histogram(column, BINS, (0, 1))[0]).pvalue for column in places.T])


def draw(output: Path) -> None:
    """One histogram for each algorithm, all coefficients together, and the p-values beside them."""
    figure, panels = plt.subplots(1, len(ALGORITHMS), figsize=(12, 3.2), sharey=True, layout="constrained")
    numbers = {}
    expected = REPETITIONS * DIM / BINS
    band = stats.binom.ppf([0.005, 0.995], REPETITIONS * DIM, 1 / BINS)
    for axes, (algorithm, label) in zip(panels, ALGORITHMS.items(), strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cavity.ConvergenceWarning)
            places = ranks(algorithm)
        counts = np.histogram(places, BINS, (0, 1))[0]
        pooled = stats.chisquare(counts).pvalue
        numbers[algorithm] = {
            "counts": counts.tolist(),
            "p, each coefficient": p_values(places).round(6).tolist(),
            "p, together": float(f"{pooled:.3g}"),
            "share in central 90 %": float(np.mean(np.abs(places - 0.5) < 0.45)),
        }
        axes.axhspan(*band, color="0.9", zorder=0)
        axes.axhline(expected, color="0.6", lw=1, zorder=1)
        axes.stairs(counts, np.linspace(0, 1, BINS + 1), fill=True, color="#1f6fb2", alpha=0.75)
        axes.set(title=f"{label}: p = {pooled:.2g}", xlabel="place of the truth in its posterior", xlim=(0, 1))
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("coefficients")
    output.with_suffix(".json").write_text(json.dumps(numbers, indent=1) + "\n")
    figure.savefig(output, dpi=130)
    plt.close(figure)
