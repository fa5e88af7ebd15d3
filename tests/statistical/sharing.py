"""Random small data sets on which sites are shared, and how far that puts means from those of EP.

`python -m tests.statistical.sharing 1500` prints what `Result.sharing_error` foretells beside what is found.
"""

import sys
import warnings
from typing import Any, NamedTuple

import numpy as np

import cavity
from cavity import factors

LIKELIHOODS = ["probit", "logit", "poisson", "student-t", "gaussian"]
ROWS = ["white", "correlated", "leverage", "heavy", "clustered", "binary"]
OFF, FINE = 0.15, 0.03  # standard deviations: a mean that must be warned of, and one that must not


class Case(NamedTuple):
    """A problem of few rows."""

    likelihood: str
    rows: str
    factor: Any
    prior: Any
    data: Any
    weights: Any


class Judged(NamedTuple):
    """What sharing sites did, and what the fit said of it."""

    error: float  # of the mean that is farthest from EP's, in standard deviations
    foretold: float
    warned: bool
    settled: bool  # whether both fits did


def case(seed: int) -> Case:
    """A random problem: 20 to 400 rows of 1 to 41 columns."""
    rng = np.random.default_rng([24, seed])
    likelihood, rows = LIKELIHOODS[seed % len(LIKELIHOODS)], ROWS[seed // len(LIKELIHOODS) % len(ROWS)]
    n, dim = (int(np.exp(rng.uniform(*np.log(ends)))) for ends in ((20, 400), (1, 41)))
    X = features(rng, rows, n, dim)
    if likelihood == "poisson":
        X = np.clip(X, -6.0, 6.0)  # counts are exponential in these
    few = rng.random() < 0.2  # successes
    theta = rng.normal(size=dim) * rng.choice([0.5, 1.0, 2.0]) / np.sqrt(dim)
    if few or rng.random() < 0.4:
        X, theta = np.c_[X, np.ones(n)], np.append(theta, -2.0 if few else 0.5)
    y, factor = observations(rng, likelihood, X @ theta)
    prior = cavity.Gaussian.isotropic(len(theta), float(rng.choice([1.0, 10.0])))
    draw = [lambda: rng.uniform(0.3, 3.0, n), lambda: rng.integers(0, 4, n).astype(float), *[lambda: None] * 6]
    return Case(likelihood, rows, factor, prior, (X, y), draw[rng.integers(len(draw))]())


def features(rng: np.random.Generator, kind: str, n: int, dim: int) -> np.ndarray:
    """Rows of a kind."""
    X = rng.normal(size=(n, dim))
    if kind == "correlated":
        return X @ (0.3 * np.eye(dim) + 0.7 * rng.normal(size=(dim, dim)) / np.sqrt(dim)) + 0.7 * rng.normal(
            size=(n, 1)
        )
    if kind == "leverage":  # of a row or a few
        X[: rng.integers(1, 4)] *= rng.uniform(4, 12)
    if kind == "heavy":
        return rng.standard_t(2.0, size=(n, dim))
    if kind == "clustered":
        return X + 4 * rng.normal(size=(4, dim))[rng.integers(4, size=n)]
    if kind == "binary":
        return (rng.random((n, dim)) < rng.uniform(0.05, 0.5, size=dim)).astype(float)
    return X


def observations(rng: np.random.Generator, likelihood: str, activation: np.ndarray) -> tuple[np.ndarray, Any]:
    """What is observed at some activations, and the factor that says so."""
    n = len(activation)
    if likelihood == "probit":
        return np.where(activation + rng.normal(size=n) > 0, 1.0, -1.0), factors.probit()
    if likelihood == "logit":
        return np.where(activation + rng.logistic(size=n) > 0, 1.0, -1.0), factors.logit()
    if likelihood == "poisson":
        return rng.poisson(np.exp(np.clip(activation, -5.0, 4.0))).astype(float), factors.poisson()
    if likelihood == "gaussian":
        return activation + 0.5 * rng.normal(size=n), factors.gaussian(0.25)
    return activation + 0.5 * rng.standard_t(4.0, size=n), factors.student_t(4.0, 0.5)


def judge(given: Case, algorithm: Any = None) -> Judged:
    """Fits with shared sites and by EP, compared."""
    batch = -(-len(given.data[1]) // 10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tied, own = (
            cavity.fit(given.factor, given.prior, given.data, each, weights=given.weights, tol=1e-7, max_sweeps=300)
            for each in (algorithm or cavity.aep(), cavity.ep(batch_size=batch))
        )
    gaps = np.abs(tied.posterior.mean - own.posterior.mean) / np.sqrt(own.posterior.variance)
    warned = any(category is cavity.SharingWarning for category, _ in tied.complaints)
    return Judged(float(gaps.max()), tied.sharing_error, warned, tied.converged and own.converged)


def table(n_cases: int) -> str:
    """By likelihood: how many were off and fine, the least that was foretold of those and the most of these."""
    found: dict[str, list[Judged]] = {name: [] for name in LIKELIHOODS}
    for seed in range(n_cases):
        given = case(seed)
        found[given.likelihood].append(judge(given))
    lines = [f"{'':10} settled   off: n, least foretold, warned   fine: n, most foretold, warned   largest error"]
    for name, judged in found.items():
        settled = [each for each in judged if each.settled]
        off, fine = [e for e in settled if e.error > OFF], [e for e in settled if e.error < FINE]
        least, most = min((e.foretold for e in off), default=np.nan), max((e.foretold for e in fine), default=np.nan)
        warned = [sum(e.warned for e in each) for each in (off, fine)]
        largest = max(e.error for e in settled)
        lines.append(
            f"{name:10} {len(settled):7} {len(off):8} {least:14.3f} {warned[0]:8} {len(fine):10} {most:13.3f} "
            f"{warned[1]:8} {largest:15.2f}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(int(sys.argv[1])))
