"""Fits of one linear function by the engine, at given hyper-parameters: what is seen there, and what is kept."""

from dataclasses import replace
from typing import Any

import numpy as np

from cavity._warnings import warn
from cavity.estimators.linear.task import Evidence, Fitted, Hyper, Task
from cavity.factors import GLM
from cavity.families import Gaussian
from cavity.inference.named import Algorithm
from cavity.inference.problem import Problem
from cavity.inference.result import Result
from cavity.inference.run import Options, made

PATIENCE = 20  # sweeps over all rows at once, where another algorithm may do better
STEP = 1e-3  # of the difference quotient, in the logarithm


class ByEngine:
    """Fits by the algorithms that still have a chance, each from the sites of the last.

    Rows are checked once. Where all of them are visited at once the first time, they may see a q that is `near`.
    """

    def __init__(self, task: Task, near: Gaussian | None = None) -> None:
        self.task, self.algorithms, self.near = task, list(task.algorithms), near
        self.problem: Problem | None = None
        self.last: Result | None = None
        self.seen: tuple[Hyper, float] | None = None  # where that was looked at, and how closely

    def posterior(self, hyper: Hyper, tol: float) -> Gaussian:
        """What coefficients nearly are; the evidence is not asked for."""
        self.last, self.seen = self.at(hyper, {"tol": tol, "evidence": False}), None
        return self.last.posterior

    def look(self, hyper: Hyper, tol: float) -> Evidence:
        """The evidence, and its gradient in the logarithms of all that is free."""
        try:
            result = self.at(hyper, {"keep_data": True, "tol": tol})
        except ValueError:  # of numbers that float64 cannot hold, far from the best place
            if self.last is None:
                raise
            nothing, of_noise = np.full(len(hyper.variance), np.nan), np.full(int(np.sum(self.task.free.noise)), np.nan)
            return Evidence(-np.inf, nothing, of_noise, False, nothing, np.inf)
        by_variance, by_noise = self.gradient(hyper, result)
        self.last, self.seen = result.without_data(), (hyper, tol)
        prior, at = self.task.prior, (result.posterior, hyper.variance)
        determined, reach = prior.determined(*at), prior.reach(*at)
        return Evidence(result.log_evidence, by_variance, by_noise, result.converged, determined, reach)

    def fit(self, hyper: Hyper) -> Fitted:
        """The fit that is kept, which speaks for itself."""
        result = self.last
        if result is None or not self.was_seen(hyper):
            result = self.at(hyper, {})
        for category, message in result.complaints:
            warn(message, category)
        return Fitted(
            result.posterior,
            result.log_evidence,
            result.converged,
            result.n_skipped,
            result.history,
            self.algorithms[0],
        )

    def was_seen(self, hyper: Hyper) -> bool:
        """Whether the last look was there, to the end."""
        if self.seen is None or self.seen[1] != self.task.options["tol"]:
            return False
        return all(np.array_equal(old, new) for old, new in zip(self.seen[0], hyper, strict=True))

    def at(self, hyper: Hyper, more: dict[str, Any]) -> Result:
        """The best fit: an algorithm that was not as good as the next one is not asked again."""
        result = self.by(self.algorithms[0], hyper, self.beginning(), more)
        while len(self.algorithms) > 1 and not is_good(result):
            other = self.by(self.algorithms[1], hyper, None, more)
            if not (is_good(other) or other.n_skipped < result.n_skipped):
                break
            result = other
            del self.algorithms[0]
        return result

    def beginning(self) -> Any:
        """What the next fit goes on from: the sites of the last, with its groups where these were found."""
        if self.last is None:
            return self.near
        return self.last if self.algorithms[0].finds_groups else self.last.progress

    def by(self, algorithm: Algorithm, hyper: Hyper, start: Any, more: dict[str, Any]) -> Result:
        options = Options(start=start, **{**self.task.options, **more})
        if algorithm.batch_size is None and len(self.algorithms) > 1:
            options = replace(options, max_sweeps=min(options.max_sweeps or PATIENCE, PATIENCE))
        result = made(self.problem_of(algorithm, hyper), algorithm, options)
        if result.ending == "interrupted":  # it kept what it had, which is no model yet
            raise KeyboardInterrupt
        return result

    def problem_of(self, algorithm: Algorithm, hyper: Hyper) -> Problem:
        """The rows under the model of some hyper-parameters: all algorithms have sites for the same of them."""
        task = self.task
        factor, prior = task.noise.factor(hyper.noise), task.before(hyper)
        if self.problem is None:
            self.problem = Problem.of(factor, prior, task.data, algorithm, task.weight, task.options["seed"])
        else:
            self.problem = self.problem.with_model(factor, prior, algorithm)
        return self.problem

    def gradient(self, hyper: Hyper, result: Result) -> tuple[np.ndarray, np.ndarray]:
        """d log Z by the logarithms of the variances and of the free part of the noise.

        In the prior it is a posterior second moment, in the noise a difference quotient with the sites held fixed: it
        is exact where every datum has a site of its own and weighs one or more. Tied sites, and rows that weigh less,
        are hardly different: by a thousandth of the curvature.
        """
        task = self.task
        learned = np.flatnonzero(task.free.noise).tolist()
        ends = [[self.moved(hyper, at, step) for step in (STEP, -STEP)] for at in learned]
        by_variance = task.prior.by_log_variance(result.posterior, hyper.variance)
        by_noise = [result.evidence_with(up) - result.evidence_with(down) for up, down in ends]
        return by_variance, np.array(by_noise, dtype=float) / (2 * STEP)

    def moved(self, hyper: Hyper, at: int, step: float) -> GLM:
        """The likelihood with the logarithm of one parameter moved."""
        noise = hyper.noise.copy()
        noise[at] *= np.exp(step)
        return self.task.noise.factor(noise)


def is_good(result: Result) -> bool:
    """Whether all rows have had their say, to the end."""
    return result.converged and result.n_skipped == 0
