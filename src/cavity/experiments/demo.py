"""The demonstration: five algorithms on scikit-learn's breast-cancer data, one table and one figure."""

import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import cavity

PRIOR_VARIANCE = 1.0

ALGORITHMS = {
    "ADF": cavity.adf(),
    "SEP": cavity.sep(batch_size=10),
    "AEP": cavity.aep(),
    "EP": cavity.ep(),
    "VI": cavity.vmp(),
}
ADF_PASSES = 20  # for the figure: ADF is meant for one pass, and more of them show why


class Split(NamedTuple):
    """Standardised features with an intercept column, and labels −1 and +1."""

    train: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    names: list[str]


class Outcome(NamedTuple):
    """What one algorithm gave."""

    result: cavity.Result
    path: list[Any]  # the posterior after every sweep
    log_likelihood: float
    error: float
    seconds: float


def run(seed: int, output: Path) -> str:
    """Fit, draw the figure to `output`, and return the table."""
    split = load(seed)
    outcomes = {name: evaluate(algorithm, split, seed) for name, algorithm in ALGORITHMS.items()}
    draw(outcomes, split, output)
    return table(outcomes)


def load(seed: int) -> Split:
    """Breast cancer, four fifths for training."""
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    order = np.random.default_rng(seed).permutation(len(bunch.target))
    train, test = np.split(order, [4 * len(order) // 5])
    centre, scale = bunch.data[train].mean(0), bunch.data[train].std(0)
    features = np.column_stack([(bunch.data - centre) / scale, np.ones(len(order))])
    labels = 2.0 * bunch.target - 1
    return Split((features[train], labels[train]), (features[test], labels[test]), [*bunch.feature_names, "intercept"])


def evaluate(algorithm: cavity.Algorithm, split: Split, seed: int) -> Outcome:
    """Fit once to compile and record the path, once more against the clock."""
    factor, prior = cavity.factors.probit(), cavity.Gaussian.isotropic(split.train[0].shape[1], PRIOR_VARIANCE)
    path: list[Any] = []
    record = lambda sweep: path.append(sweep.posterior)
    passes = ADF_PASSES if algorithm.n_sites == 0 else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cavity.CollapseWarning)  # the figure is there to show it
        warnings.simplefilter("ignore", cavity.SharingWarning)  # and the table
        cavity.fit(factor, prior, split.train, algorithm, seed=seed, max_sweeps=passes, callback=record)
        start = time.perf_counter()
        result = cavity.fit(factor, prior, split.train, algorithm, seed=seed)
        seconds = time.perf_counter() - start
    features, labels = split.test
    log_predictive = log_probability(result.posterior, features, labels)
    return Outcome(
        result,
        path,
        float(log_predictive.mean()),
        float(np.mean(log_predictive < np.log(0.5))),
        seconds,
    )


def log_probability(posterior: Any, features: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """log p(y | x) with θ integrated out: log Φ(y m / √(1 + v))."""
    from scipy.special import log_ndtr

    mean, variance = features @ posterior.mean, np.einsum("ni,ij,nj->n", features, posterior.covariance, features)
    return log_ndtr(labels * mean / np.sqrt(1 + variance))


def table(outcomes: dict[str, Outcome]) -> str:
    """One line per algorithm."""
    reference = outcomes["EP"].result.posterior
    lines = [f"{'':5}{'test log-lik':>13}{'test error':>12}{'KL from EP':>12}{'seconds':>9}{'site bytes':>12}"]
    for name, outcome in outcomes.items():
        divergence = reference.kl(outcome.result.posterior)
        lines.append(
            f"{name:5}{outcome.log_likelihood:13.4f}{outcome.error:12.4f}{max(divergence, 0.0):12.2g}"
            f"{outcome.seconds:9.3f}{outcome.result.site_bytes:12,}"
        )
    return "\n".join(lines)


def draw(outcomes: dict[str, Outcome], split: Split, output: Path) -> None:
    """Left: distance from EP's posterior over sweeps. Right: coefficients with two standard deviations."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    reference = outcomes["EP"].result.posterior
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5.5), width_ratios=[1, 1.4], layout="constrained")
    for name, outcome in outcomes.items():
        divergence = [max(reference.kl(q), 1e-9) for q in outcome.path]
        label = f"{name}, repeated passes" if name == "ADF" else name
        left.semilogy(range(1, len(divergence) + 1), divergence, marker="o", markersize=3, label=label)
    left.set_xticks(range(0, ADF_PASSES + 1, 5))
    left.set_xlim(0, ADF_PASSES + 1)
    left.set(xlabel="sweep over the data", ylabel="KL(EP ‖ q), nats", title="Convergence")
    left.legend(frameon=False)
    order = np.argsort(-np.abs(reference.mean))[:12]
    for shift, name in zip((-0.27, -0.09, 0.09, 0.27), ("ADF", "SEP", "EP", "VI"), strict=True):
        posterior = outcomes[name].result.posterior
        where = np.arange(len(order)) + shift
        deviation = 2 * np.sqrt(posterior.variance[order])
        colour = f"C{list(outcomes).index(name)}"
        right.errorbar(posterior.mean[order], where, xerr=deviation, fmt="o", ms=3, lw=1.2, color=colour, label=name)
    right.axvline(0, color="0.8", zorder=0)
    right.set_yticks(np.arange(len(order)), [split.names[i] for i in order])
    right.invert_yaxis()
    right.set(xlabel="coefficient, mean ± 2 sd", title="Posterior: the twelve largest coefficients")
    right.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(output, dpi=130)
    plt.close(figure)
