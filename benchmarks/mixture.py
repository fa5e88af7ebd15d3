"""`GaussianMixture` against scikit-learn's `BayesianGaussianMixture`: held-out densities, and seconds of a fit."""

import os
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.mixture import BayesianGaussianMixture
from sklearn.model_selection import train_test_split

import cavity
from benchmarks import mixture_first, mixture_memory

SPLITS = int(os.environ.get("CAVITY_SPLITS", "10"))
OURS = {"auto": {}, "lean": {"evidence": False, "linear_response": False}}
SHORT = 0.001
LIMIT = 1.5  # of the time of a whole fit by "auto", over that of theirs
THEIRS = ("dirichlet_process", "dirichlet_distribution")  # the first is their default
CENTRES = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [4.0, 4.0]])
ROOTS = np.array([[[1.0, 0.0], [0.5, 0.9]], [[1.2, 0.0], [-0.4, 0.8]], [[0.8, 0.0], [0.3, 1.1]], np.eye(2)])


class Fitted(NamedTuple):
    """What is known of one fit."""

    score: float  # held-out mean log density as `score` gives it
    predictive: float  # the same with all parameters integrated out
    wall: float
    cpu: float  # of all threads
    evidence: float  # seconds of the wall that log Z adds, which scikit-learn does not have
    passes: int


def clusters(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Four clusters in the plane that overlap at their edges: 100,000 rows to learn from, 20,000 held out."""
    rng = np.random.default_rng(seed)
    label = rng.integers(4, size=120_000)
    X = CENTRES[label] + np.einsum("nij,nj->ni", ROOTS[label], rng.normal(size=(len(label), 2)))
    return X[:100_000], X[100_000:]


def digits(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pictures of digits in the ten directions in which those to learn from vary most."""
    train, test = train_test_split(load_digits().data, random_state=seed)
    directions = PCA(10, svd_solver="full").fit(train)
    return directions.transform(train), directions.transform(test)


CASES: dict[str, tuple[Callable[[int], Any], int]] = {"clusters": (clusters, 4), "digits": (digits, 10)}


def lines() -> Iterator[str]:
    """The first fit of a process, both cases, then memory."""
    yield from (f"mixture {line}" for line in mixture_first.lines())
    for name, (split, n_components) in CASES.items():
        yield from compare(name, split, n_components)
    yield from mixture_memory.lines()


def estimators(n_components: int, seed: int) -> dict[str, Any]:
    """Starts by k-means, defaults else; theirs may take as many iterations as they need."""
    ours = {name: cavity.GaussianMixture(n_components, random_state=seed, **options) for name, options in OURS.items()}
    theirs = {
        name: BayesianGaussianMixture(
            n_components=n_components, weight_concentration_prior_type=name, max_iter=5000, random_state=seed
        )
        for name in THEIRS
    }
    return {**ours, **theirs}


def compare(name: str, split: Callable[[int], Any], n_components: int) -> Iterator[str]:
    """All estimators on the same splits, in turn; a first fit, for which things are loaded, is not counted."""
    fits: dict[str, list[Fitted]] = {}
    for estimator in estimators(n_components, 0).values():
        fitted(estimator, *split(0))
    for seed in range(SPLITS):
        train, test = split(seed)
        for key, estimator in estimators(n_components, seed).items():
            fits.setdefault(key, []).append(fitted(estimator, train, test))
    shape = f"{name} {len(train):,} × {train.shape[1]}, J = {n_components}, {SPLITS} splits"
    for key in fits:
        yield f"{shape}: {key}: {described(fits[key])}"
    for ours in OURS:
        for theirs in THEIRS:
            limit = f" (limit of the time {LIMIT})" if ours == "auto" else ""
            yield f"mixture {name}: {ours} against {theirs}: {compared(fits[ours], fits[theirs])}{limit}"
    yield from (f"{name}: {line}" for line in reach(split, n_components))


def fitted(estimator: Any, train: np.ndarray, test: np.ndarray) -> Fitted:
    """Fit, and look at what was held out."""
    wall, cpu = seconds_of_fit(estimator, train)
    score = estimator.score(test)
    if isinstance(estimator, cavity.GaussianMixture):
        return Fitted(score, score, wall, cpu, added_by_evidence(estimator, wall, train), estimator.n_sweeps_)
    return Fitted(score, float(np.mean(their_predictive(estimator, test))), wall, cpu, 0.0, estimator.n_iter_)


def seconds_of_fit(estimator: Any, train: np.ndarray) -> tuple[float, float]:
    """By the clock, and of all threads together."""
    wall, cpu = time.perf_counter(), time.process_time()
    estimator.fit(train)
    return time.perf_counter() - wall, time.process_time() - cpu


def added_by_evidence(estimator: Any, wall: float, train: np.ndarray) -> float:
    """How much longer a fit took than the same without log Z."""
    return wall - seconds_of_fit(clone(estimator).set_params(evidence=False), train)[0] if estimator.evidence else 0.0


def their_predictive(model: BayesianGaussianMixture, X: np.ndarray) -> np.ndarray:
    """log p(x | data) from the posterior that scikit-learn has found; its `score` takes means of logarithms instead."""
    dim, logs = X.shape[1], []
    for j, weight in enumerate(model.weights_):
        df, count = model.degrees_of_freedom_[j] - dim + 1, model.mean_precision_[j]
        shape = model.covariances_[j] * model.degrees_of_freedom_[j] * (count + 1) / (count * df)
        logs.append(np.log(weight) + stats.multivariate_t(model.means_[j], shape, df).logpdf(X))
    return logsumexp(logs, axis=0)


def described(fits: list[Fitted]) -> str:
    """Means over splits; medians of times."""
    score, predictive, wall, cpu, evidence, passes = np.array(fits).T
    return (
        f"held-out {score.mean():.4f} (predictive {predictive.mean():.4f}), {np.median(passes):.0f} passes, "
        f"{np.median(wall):.2f} s, {np.median(evidence):.2f} s of it for the evidence; {np.median(cpu):.2f} s of "
        "processor time"
    )


def compared(ours: list[Fitted], theirs: list[Fitted]) -> str:
    """Differences within splits with their standard errors, and ratios of times."""
    said = []
    for column, name in enumerate(("score", "predictive")):
        difference = np.array([a[column] - b[column] for a, b in zip(ours, theirs, strict=True)])
        error = difference.std(ddof=1) / np.sqrt(len(difference)) if len(difference) > 1 else np.nan
        said.append(f"{name} {difference.mean():+.5f} ± {error:.5f}")
    ratio = lambda of: np.median([of(fit) for fit in ours]) / np.median([of(fit) for fit in theirs])
    return f"{', '.join(said)}, time {ratio(lambda fit: fit.wall):.2f}, processor {ratio(lambda fit: fit.cpu):.2f}"


def reach(split: Callable[[int], Any], n_components: int) -> Iterator[str]:
    """The shortest fits, stopped after some passes, that come within SHORT nats of what scikit-learn's ends with."""
    lean = {"evidence": False, "linear_response": False}
    ours = lambda options: (
        lambda seed, passes: cavity.GaussianMixture(n_components, max_sweeps=passes, random_state=seed, **options)
    )
    theirs = lambda seed, passes: BayesianGaussianMixture(n_components=n_components, max_iter=passes, random_state=seed)
    makers = {"ours": ours({}), "ours without evidence": ours(lean), "theirs": theirs}
    found: dict[str, list[tuple[int, float]]] = {name: [] for name in makers}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # none has converged
        for seed in range(SPLITS):
            train, test = split(seed)
            aim = theirs(seed, 5000).fit(train).score(test) - SHORT
            for name, make in makers.items():
                found[name].append(first_to(aim, lambda passes, make=make, seed=seed: make(seed, passes), train, test))
    for name, runs in found.items():
        passes, seconds = np.median(runs, axis=0)
        ratio = seconds / np.median(found["theirs"], axis=0)[1]
        yield (
            f"within {SHORT} nats of scikit-learn's held-out density: {name} after {passes:.0f} passes and "
            f"{seconds:.3f} s, ratio {ratio:.2f}"
        )


def first_to(aim: float, make: Callable[[int], Any], train: np.ndarray, test: np.ndarray) -> tuple[int, float]:
    """How many passes it takes, and how long the whole fit that stops there takes, the best of three."""
    for passes in range(1, 200):
        if make(passes).fit(train).score(test) >= aim:
            return passes, min(seconds_of_fit(make(passes), train)[0] for _ in range(3))
    return 200, np.inf
