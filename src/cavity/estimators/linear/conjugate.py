"""Gaussian noise: every fit from sums over the rows that are formed once.

With G = Wᵀ diag(w) W, b = Wᵀ diag(w) y and y² = Σ w y², coefficients before these data N(m₀, P₀⁻¹) and a noise of
variance σ², the posterior has the precision P = P₀ + G/σ² and the shift P₀ m₀ + b/σ². With μ its mean

    log Z = −½ Σw log 2πσ² − ½ (y² − 2 bᵀμ + μᵀGμ)/σ² − ½ (μ − m₀)ᵀP₀(μ − m₀) + ½ log |P₀|/|P|.
"""

import time
from typing import Any, NamedTuple

import numpy as np

from cavity.estimators.linear.affine import Affine
from cavity.estimators.linear.task import Evidence, Fitted, Hyper, Task
from cavity.families import Gaussian
from cavity.inference.result import History, Sweep
from cavity.inference.source import Arrays, chunks
from cavity.inference.threads import Threads, available, one_blas_thread

LOG_2_PI = float(np.log(2 * np.pi))


class Sums(NamedTuple):
    """G, b, y² and Σw."""

    gram: np.ndarray
    cross: np.ndarray
    square: float
    weight: float

    def plus(self, other: "Sums", kept: float = 1.0) -> "Sums":
        """With a share of others."""
        return Sums(
            self.gram + kept * other.gram,
            self.cross + kept * other.cross,
            self.square + kept * other.square,
            self.weight + kept * other.weight,
        )

    def moved(self, affine: Affine, ratio: float) -> "Sums":
        """In other coordinates of the function, of the same rows; targets are in units that are `ratio` times larger.

        Σ w (y − wᵀφ)² is a quadratic function of φ, and so of θ = A φ + (0, e).
        """
        moved, e = affine.natural(Gaussian(self.cross, self.gram)), affine.offset
        square = self.square
        if e:
            square += 2 * e * affine.pull(self.cross)[-1] + e**2 * moved.precision[-1, -1]
        by = ratio**-2
        return Sums(by * moved.precision, by * moved.shift, float(by * square), self.weight)


def sums_of(design: Any, y: np.ndarray, weight: np.ndarray) -> Sums:
    """Over all rows, in one pass of chunks over threads."""
    dim = design.shape[1]
    gram, cross, square = np.zeros((dim, dim)), np.zeros(dim), 0.0
    with Threads(available()) as threads, one_blas_thread():
        for part in threads.map(of_chunk, chunks(Arrays.of((design, y, weight)))):
            gram += part.gram
            cross += part.cross
            square += part.square
    return Sums(gram, cross, square, float(weight.sum()))


def of_chunk(rows: tuple[Any, np.ndarray, np.ndarray]) -> Sums:
    design, y, weight = rows
    root = np.sqrt(weight)
    half = design.multiply(root[:, None]).tocsr() if hasattr(design, "multiply") else design * root[:, None]
    gram = half.T @ half
    gram = gram.toarray() if hasattr(gram, "toarray") else gram
    return Sums(gram, half.T @ (root * y), float(weight @ y**2), float(weight.sum()))


class Conjugate:
    """Fits from the sums, those of earlier rows among them where they are known."""

    def __init__(self, task: Task, earlier: Sums | None, kept: float) -> None:
        self.task, self.began = task, time.perf_counter()
        design, y = task.data
        self.sums = sums_of(design, y, task.weight)
        if earlier is not None:
            self.sums = self.sums.plus(earlier, kept)

    def posterior(self, hyper: Hyper, tol: float) -> Gaussian:
        """The posterior, exact."""
        return self.at(hyper)[0]

    def at(self, hyper: Hyper) -> tuple[Gaussian, float]:
        """The posterior and Σ w (y − wᵀμ)²."""
        before, noise = self.task.before(hyper), hyper.noise[0]
        posterior = before + Gaussian(self.sums.cross / noise, self.sums.gram / noise)
        mean = posterior.mean
        rest = self.sums.square - 2 * (self.sums.cross @ mean) + mean @ self.sums.gram @ mean
        return posterior, max(float(rest), 0.0)

    def log_evidence(self, hyper: Hyper, posterior: Gaussian, rest: float) -> float:
        before, noise = self.task.before(hyper), hyper.noise[0]
        moved = posterior.mean - before.mean
        volumes = before.reads().logdet - posterior.reads().logdet
        told = self.sums.weight * (LOG_2_PI + np.log(noise)) + rest / noise
        return float(0.5 * (volumes - told - moved @ before.precision @ moved))

    def look(self, hyper: Hyper, tol: float) -> Evidence:
        """The evidence, and its gradient in the logarithms of all that is free."""
        posterior, rest = self.at(hyper)
        expected = rest + float(np.vdot(self.sums.gram, posterior.covariance))
        by_noise = np.array([0.5 * (expected / hyper.noise[0] - self.sums.weight)])[self.task.free.noise]
        by_variance = self.task.prior.by_log_variance(posterior, hyper.variance)
        prior = self.task.prior
        determined, reach = prior.determined(posterior, hyper.variance), prior.reach(posterior, hyper.variance)
        return Evidence(self.log_evidence(hyper, posterior, rest), by_variance, by_noise, True, determined, reach)

    def fit(self, hyper: Hyper) -> Fitted:
        """The posterior, exact."""
        posterior, rest = self.at(hyper)
        log_evidence, seconds = self.log_evidence(hyper, posterior, rest), time.perf_counter() - self.began
        only = Sweep(1, 0.0, 0, 0, 1.0, float(posterior.entropy()), log_evidence, seconds, lambda: posterior)
        return Fitted(posterior, log_evidence, True, 0, History.of([only]), None)
