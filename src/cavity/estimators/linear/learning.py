"""One linear function learned from data: its coefficients by the engine, its hyper-parameters by the evidence.

The hyper-parameters are the logarithms of the prior variances and of what the likelihood has besides coefficients.
log Z times their own prior is climbed by quasi-Newton steps; its gradient in the prior is a posterior second moment, in
the noise a difference quotient with the sites held fixed, both exact where every datum has a site of its own and tied
sites are hardly different. Rows that weigh less than one need the engine's gradient, which costs a linear system. Each
fit starts from the sites of the last.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cavity import _tree as tree
from cavity._warnings import warn
from cavity.estimators.linear.climbing import Place, climb
from cavity.estimators.linear.noise import Noise
from cavity.estimators.linear.prior import Prior
from cavity.factors import GLM
from cavity.families import Gaussian
from cavity.inference.named import Algorithm
from cavity.inference.result import Result
from cavity.inference.run import Options, quiet_fit

STEP = 1e-3  # of the difference quotient, in the logarithm


class Hyper(NamedTuple):
    """Prior variances by group of features, and the likelihood's parameters."""

    variance: np.ndarray
    noise: np.ndarray


class Earlier(NamedTuple):
    """What earlier data said: added to the prior, and of the logarithms of the noise, with how much information."""

    added: Gaussian
    log_noise: np.ndarray
    information: np.ndarray


class Free(NamedTuple):
    """What is learned: the prior variances, and which parameters of the likelihood."""

    variance: bool
    noise: np.ndarray


@dataclass(frozen=True)
class Task:
    """All that is given."""

    noise: Noise
    data: Any
    weight: np.ndarray
    prior: Prior
    earlier: Earlier | None
    free: Free
    algorithms: list[Algorithm]  # the next where those before do not converge
    options: dict[str, Any]  # of `fit`


def learn(task: Task, start: Hyper) -> tuple[Hyper, Result]:
    """Coefficients at the hyper-parameters given, or at the best ones."""
    fits, best, last = _Fits(task), start, None
    if task.free.variance or np.any(task.free.noise):
        search = _Search(task, start, fits)
        best, last = search.best(), search.last
    result = fits.at(best, last, keep_data=False)
    for category, message in result.complaints:  # of the fit that is kept, which speaks for itself
        warn(message, category)
    return best, result


class _Fits:
    """Fits at given hyper-parameters, by the algorithms that still have a chance."""

    def __init__(self, task: Task) -> None:
        self.task, self.algorithms = task, list(task.algorithms)

    def at(self, hyper: Hyper, start: Result | None, keep_data: bool) -> Result:
        """The best one: an algorithm that was not as good as the next one is not asked again."""
        result = self.by(self.algorithms[0], hyper, start, keep_data)
        while len(self.algorithms) > 1 and not is_good(result):
            other = self.by(self.algorithms[1], hyper, None, keep_data)
            if not (is_good(other) or other.n_skipped < result.n_skipped):
                break
            result = other
            del self.algorithms[0]
        return result

    def by(self, algorithm: Algorithm, hyper: Hyper, start: Result | None, keep_data: bool) -> Result:
        task = self.task
        prior = task.prior(hyper.variance)
        prior = prior if task.earlier is None else prior + task.earlier.added
        options = Options(weights=task.weight, start=start, keep_data=keep_data, **task.options)
        result = quiet_fit(task.noise.factor(hyper.noise), prior, task.data, algorithm, options)
        if result.ending == "interrupted":  # it kept what it had, which is no model yet
            raise KeyboardInterrupt
        return result


def is_good(result: Result) -> bool:
    """Whether all rows have had their say, to the end."""
    return result.converged and result.n_skipped == 0


class _Search:
    """The climb over the free hyper-parameters: logarithms of variances first."""

    def __init__(self, task: Task, start: Hyper, fits: _Fits) -> None:
        self.task, self.start, self.fits = task, start, fits
        self.last: Result | None = None

    def best(self) -> Hyper:
        """Where log Z of all data so far, with what was thought of the hyper-parameters before, is highest."""
        task, free = self.task, self.task.free
        of_noise = float(task.weight.sum()) * task.noise.information(self.start.noise)[np.ix_(free.noise, free.noise)]
        of_variance = np.diag(0.5 * np.bincount(task.prior.groups)) if free.variance else np.zeros((0, 0))
        n = len(of_variance)
        curvature = np.pad(of_variance, (0, len(of_noise)))
        curvature[n:, n:] = of_noise
        bounds = task.noise.log_bounds[:, free.noise]
        if free.variance:
            bounds = np.hstack([task.prior.variance_bounds(), bounds])
        return self.unpack(climb(self.look, self.pack(self.start), curvature, bounds).point)

    def pack(self, hyper: Hyper) -> np.ndarray:
        free = self.task.free
        return np.log(np.append(hyper.variance[: None if free.variance else 0], hyper.noise[free.noise]))

    def unpack(self, point: np.ndarray) -> Hyper:
        free, (variance, noise) = self.task.free, self.start
        n = len(variance) if free.variance else 0
        learned = noise.copy()
        learned[free.noise] = np.exp(point[n:])
        return Hyper(np.exp(point[:n]) if free.variance else variance, learned)

    def look(self, point: np.ndarray) -> Place:
        """log Z of all data so far times the priors, up to a constant, and its gradient."""
        task, hyper = self.task, self.unpack(point)
        result = self.fits.at(hyper, self.last, keep_data=True)
        parts = self.by_evidence(hyper, result)
        value = result.log_evidence
        self.last = result.without_data()
        if task.free.variance:
            log_prior, slope = task.prior.log_prior(hyper.variance)
            value += log_prior + _log_evidence_before(task, hyper)
            parts[0] = parts[0] + slope
        log_prior, slope = task.noise.log_prior(hyper.noise)
        value, parts[-1] = value + log_prior, parts[-1] + slope[task.free.noise]
        if task.earlier is not None:
            step = np.log(hyper.noise) - task.earlier.log_noise
            pulled = task.earlier.information @ step
            value, parts[-1] = value - 0.5 * float(step @ pulled), parts[-1] - pulled[task.free.noise]
        return Place(point, value, np.concatenate(parts), result.converged)

    def by_evidence(self, hyper: Hyper, result: Result) -> list[np.ndarray]:
        """d log Z by the logarithms of the variances, where they are free, and of the free part of the noise."""
        task = self.task
        ends = [
            [self.moved(hyper, at, step) for step in (STEP, -STEP)] for at in np.flatnonzero(task.free.noise).tolist()
        ]
        if np.all(task.weight[task.weight > 0] >= 1):
            by_variance = task.prior.by_log_variance(result.posterior, hyper.variance)
            by_noise = [result.evidence_with(up) - result.evidence_with(down) for up, down in ends]
        else:
            by_factor, by_prior = result.evidence_gradient()
            by_variance = task.prior.from_gradient(by_prior, hyper.variance)
            by_noise = [
                sum(b * (u - d) for b, u, d in zip(*map(tree.leaves, (by_factor, up, down)), strict=True))
                for up, down in ends
            ]
        return [by_variance] * task.free.variance + [np.array(by_noise, dtype=float) / (2 * STEP)]

    def moved(self, hyper: Hyper, at: int, step: float) -> GLM:
        """The likelihood with the logarithm of one parameter moved."""
        noise = hyper.noise.copy()
        noise[at] *= np.exp(step)
        return self.task.noise.factor(noise)


def _log_evidence_before(task: Task, hyper: Hyper) -> float:
    """What earlier data said of the prior variance: A(λ₀ + Λ) − A(λ₀) with Λ all they added."""
    if task.earlier is None:
        return 0.0
    prior = task.prior(hyper.variance)
    return float((prior + task.earlier.added).log_partition() - prior.log_partition())
