"""One linear function learned from data: its coefficients by the engine, its hyper-parameters by the evidence.

The hyper-parameters are the logarithms of the prior variances and of the noise. log Z is climbed by quasi-Newton steps;
its gradient in the prior is a posterior second moment, in the noise a difference quotient with the sites held fixed,
both exact where every datum has a site of its own and tied sites are hardly different. Rows that weigh less than one
need the engine's gradient, which costs a linear system. Each fit starts from the sites of the last.

A few coefficients leave their prior variance uncertain. The posterior is therefore its average over log v, under a flat
prior, matched in mean and covariance: at the best value of the evidence alone, predictions would be overconfident.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cavity import _tree as tree
from cavity import linalg
from cavity._warnings import warn
from cavity.estimators.linear.coefficients import Coefficients
from cavity.families import Gaussian
from cavity.inference.named import Algorithm
from cavity.inference.result import ConvergenceWarning, Result
from cavity.inference.run import Options, quiet_fit

VARIANCE_BOUNDS = (-18.0, 25.0)  # of log v
STEP = 1e-3  # of the difference quotient, in the logarithm of the noise
LONGEST, STILL = 1.5, 1e-10  # steps in the logarithms: the longest allowed, and one that is none
MAX_STEPS, MAX_CUTS = 50, 8
UNBOUNDED = (
    "prior_variance='auto' found no best value: the evidence rises with the prior variance up to the largest allowed. "
    "The classes may be separable, or features on very different scales; give prior_variance a number, or try "
    "standardize=True."
)


class Hyper(NamedTuple):
    """Prior variances by group of features, and the likelihood's noise (None where it has none)."""

    variance: np.ndarray
    noise: Any


class Noise(NamedTuple):
    """What earlier data said of the noise: where it was, and with how much information about its logarithm."""

    log_value: float
    information: float


@dataclass(frozen=True)
class Task:
    """All that is given."""

    make_factor: Callable[[Any], Any]
    data: Any
    weight: np.ndarray
    coefficients: Coefficients
    before: Gaussian | None  # what earlier data have added to the prior
    noise_before: Noise | None
    noise_information: float  # of these data, about the logarithm of the noise
    noise_bounds: tuple[float, float]  # of that logarithm
    algorithm: Algorithm
    options: dict[str, Any]  # of `fit`


class Learned(NamedTuple):
    """What is found."""

    hyper: Hyper
    result: Result  # at these hyper-parameters
    posterior: Gaussian  # averaged over what is uncertain in the prior variances


def learn(task: Task, start: Hyper, learn_variance: bool, learn_noise: bool) -> Learned:
    """Coefficients at the hyper-parameters given, or at the best ones."""
    if not (learn_variance or learn_noise):
        result = _fit(task, start)
        return Learned(start, result, result.posterior)
    search = _Search(task, start, learn_variance, learn_noise)
    best = search.climb()
    if learn_variance and np.log(best.variance.max()) > VARIANCE_BOUNDS[1] - 1:
        warn(UNBOUNDED, ConvergenceWarning)
    result = search.last = _fit(task, best, search.last)
    posterior = search.average(best, result.posterior) if learn_variance else result.posterior
    return Learned(best, result, posterior)


def _fit(task: Task, hyper: Hyper, start: Result | None = None) -> Result:
    """The fit at the hyper-parameters that are kept, which speaks for itself."""
    result = _quiet_fit(task, hyper, start, keep_data=False)
    for category, message in result.complaints:
        warn(message, category)
    return result


def _quiet_fit(task: Task, hyper: Hyper, start: Result | None, keep_data: bool) -> Result:
    prior = task.coefficients.prior(hyper.variance)
    prior = prior if task.before is None else prior + task.before
    options = Options(weights=task.weight, start=start, keep_data=keep_data, **task.options)
    result = quiet_fit(task.make_factor(hyper.noise), prior, task.data, task.algorithm, options)
    if result.ending == "interrupted":  # it kept what it had, which is no model yet
        raise KeyboardInterrupt
    return result


class _Place(NamedTuple):
    """A point in the space of hyper-parameters, and what is seen there."""

    point: np.ndarray
    value: float
    gradient: np.ndarray
    converged: bool

    def is_above(self, other: "_Place") -> bool:
        """Whether to prefer this one."""
        if not (np.isfinite(self.value) and np.all(np.isfinite(self.gradient))) or self.converged < other.converged:
            return False
        level = abs(self.value - other.value) <= 1e-10 * (1 + abs(other.value))
        return self.value > other.value or (level and np.linalg.norm(self.gradient) < np.linalg.norm(other.gradient))


class _Search:
    """The climb of log Z over the free hyper-parameters."""

    def __init__(self, task: Task, start: Hyper, learn_variance: bool, learn_noise: bool) -> None:
        self.task, self.start, self.learn_variance, self.learn_noise = task, start, learn_variance, learn_noise
        self.last: Result | None = None
        n_free = len(self.pack(start))
        self.bounds = np.full(n_free, VARIANCE_BOUNDS[0]), np.full(n_free, VARIANCE_BOUNDS[1])
        if learn_noise:
            self.bounds[0][-1], self.bounds[1][-1] = task.noise_bounds

    def climb(self) -> Hyper:
        """Quasi-Newton steps of bounded length, from Fisher's information as a first guess of the curvature.

        A step is shortened while the evidence falls by more than rounding or the fit there does not converge; the last
        steps, too small for the evidence to tell, go by the gradient.
        """
        here = self.look(self.pack(self.start))
        inverse = np.diag(1 / self.information())
        for _ in range(MAX_STEPS):
            step = np.clip(inverse @ here.gradient, -LONGEST, LONGEST)
            there = self.look_ahead(here, step)
            if there is None:
                break
            moved, bent = there.point - here.point, here.gradient - there.gradient
            if moved @ bent > 0:
                inverse = bfgs(inverse, moved, bent)
            here = there
        return self.unpack(here.point)

    def look_ahead(self, here: "_Place", step: np.ndarray) -> "_Place | None":
        """A better place along a step, or None if there is none to be found."""
        for _ in range(MAX_CUTS):
            point = np.clip(here.point + step, *self.bounds)
            if np.max(np.abs(point - here.point)) < STILL:
                return None
            there = self.look(point)
            if there.is_above(here):
                return there
            step = 0.3 * step
        return None

    def average(self, best: Hyper, posterior: Gaussian) -> Gaussian:
        """The posterior averaged over log v of each group, to second order around the best place.

        E[f] ≈ f + b f′ + ½ s² f″ with s² = −1/ℓ″ and b = ½ s⁴ ℓ‴ for ℓ = log Z, by differences over one place on either
        side, as far away as the nodes of a three-point rule.
        """
        place, parts = self.pack(best), []
        for group, reach in enumerate(np.sqrt(6 / np.bincount(self.task.coefficients.groups))):
            if not self.bounds[0][group] < place[group] - reach < place[group] + reach < self.bounds[1][group]:
                continue
            step = reach * (np.arange(len(place)) == group)
            up, above = self.look(place + step), self.last.posterior  # type: ignore[union-attr]
            down, below = self.look(place - step), self.last.posterior  # type: ignore[union-attr]
            bent = (down.gradient[group] - up.gradient[group]) / (2 * reach)
            if not (up.converged and down.converged and bent > 0):
                continue  # the evidence has no peak that could be averaged over
            spread = min(1 / bent, reach**2)
            aside = 0.5 * spread**2 * (up.gradient[group] + down.gradient[group]) / reach**2
            even, odd = 0.5 * spread / reach**2, 0.5 * aside / reach
            parts += [(max(even + odd, 0.0), above), (max(even - odd, 0.0), below)]
        crowded = max(1.0, sum(weight for weight, _ in parts))  # with many groups, weights must still be shares
        parts = [(weight / crowded, part) for weight, part in parts]
        averaged = mixture([(1 - sum(weight for weight, _ in parts), posterior), *parts]) if parts else posterior
        return averaged if bool(averaged.is_proper()) else posterior

    def information(self) -> np.ndarray:
        """Fisher's, about the logarithm of each free hyper-parameter."""
        groups = self.task.coefficients.groups
        parts = [0.5 * np.bincount(groups)] if self.learn_variance else []
        return np.concatenate([*parts, [self.task.noise_information] if self.learn_noise else []])

    def look(self, point: np.ndarray) -> "_Place":
        """log Z of all data so far, up to a constant, and its gradient."""
        task, hyper = self.task, self.unpack(point)
        result = _quiet_fit(task, hyper, self.last, keep_data=True)
        value, gradient = result.log_evidence, self.gradient(point, hyper, result)
        self.last = result.without_data()
        if self.learn_variance:
            value += _log_evidence_before(task, hyper)
        if self.learn_noise and task.noise_before is not None:
            step = point[-1] - task.noise_before.log_value
            value -= 0.5 * task.noise_before.information * step**2
            gradient[-1] -= task.noise_before.information * step
        return _Place(point, value, gradient, result.converged)

    def gradient(self, point: np.ndarray, hyper: Hyper, result: Result) -> np.ndarray:
        """d log Z by the logarithms of the free hyper-parameters."""
        task = self.task
        parts: list[Any] = []
        factor_at = lambda shift: task.make_factor(float(np.exp(point[-1] + shift)))
        if np.all(task.weight[task.weight > 0] >= 1):
            if self.learn_variance:
                parts.append(task.coefficients.by_log_variance(result.posterior, hyper.variance))
            if self.learn_noise:
                rise = result.evidence_with(factor_at(STEP)) - result.evidence_with(factor_at(-STEP))
                parts.append([rise / (2 * STEP)])
        else:
            by_factor, by_prior = result.evidence_gradient()
            if self.learn_variance:
                parts.append(task.coefficients.from_gradient(by_prior, hyper.variance))
            if self.learn_noise:
                up, down, by = (tree.leaves(each) for each in (factor_at(STEP), factor_at(-STEP), by_factor))
                parts.append([sum(b * (u - d) / (2 * STEP) for b, u, d in zip(by, up, down, strict=True))])
        return np.concatenate(parts)

    def pack(self, hyper: Hyper) -> np.ndarray:
        parts = [np.log(hyper.variance)] if self.learn_variance else []
        return np.concatenate([*parts, [np.log(hyper.noise)] if self.learn_noise else []])

    def unpack(self, point: np.ndarray) -> Hyper:
        n_groups = len(self.start.variance)
        variance = np.exp(point[:n_groups]) if self.learn_variance else self.start.variance
        return Hyper(variance, float(np.exp(point[-1])) if self.learn_noise else self.start.noise)


def mixture(parts: list[tuple[float, Gaussian]]) -> Gaussian:
    """The Gaussian with the mean and covariance of a weighted sum of Gaussians."""
    mean = np.sum([weight * part.mean for weight, part in parts], axis=0)
    covariance = np.sum([weight * (part.covariance + linalg.outer(part.mean - mean)) for weight, part in parts], axis=0)
    inverse = np.linalg.inv(covariance)
    precision = 0.5 * (inverse + inverse.T)
    return Gaussian(precision @ mean, precision)


def bfgs(inverse: np.ndarray, moved: np.ndarray, bent: np.ndarray) -> np.ndarray:
    """The update of an inverse Hessian of Broyden, Fletcher, Goldfarb and Shanno."""
    left = np.eye(len(moved)) - np.outer(moved, bent) / (moved @ bent)
    return left @ inverse @ left.T + np.outer(moved, moved) / (moved @ bent)


def _log_evidence_before(task: Task, hyper: Hyper) -> float:
    """What earlier data said of the prior variance: A(λ₀ + Λ) − A(λ₀) with Λ all they added."""
    if task.before is None:
        return 0.0
    prior = task.coefficients.prior(hyper.variance)
    return float((prior + task.before).log_partition() - prior.log_partition())
