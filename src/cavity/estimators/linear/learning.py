"""One linear function learned from data: its coefficients at the best hyper-parameters.

These are the logarithms of the prior variances and of what the likelihood has besides coefficients. log Z times their
own prior is climbed by quasi-Newton steps.
"""

from functools import partial

import numpy as np

from cavity._warnings import warn
from cavity.estimators.linear.climbing import Place, climb, held, uphill
from cavity.estimators.linear.prior import Prior
from cavity.estimators.linear.task import Fits, Fitted, Hyper, Task
from cavity.families import Gaussian
from cavity.inference.result import ConvergenceWarning

ROUGH, MOST_OF_IT = 1e-3, 1e-3  # tolerance of fits on most of the way, and the gain, in nats, that ends it
NO_GAIN, MOST_LEFT = 1e-12, 0.01  # nats: what is none, and what a search that has come to its end may leave
ROUGHLY = 0.03  # tolerance of fits where variances move at each, or that only say where others begin
MOST_ROUNDS, NEARLY_STILL = 20, 0.03  # of sites and variances in turn, and the step of a logarithm that ends them
SLOWEST, LONGEST = 0.8, 2.0  # factor of steps that is believed, and the longest of them
LEAST = 0.1  # information about the logarithm of a variance, at the least

NOT_FOUND = (
    "The best prior variance and noise were not found: the search ended where the evidence still rises, or where fits "
    "do not converge. Give prior_variance, or the noise, a number; or raise max_sweeps."
)
EXACT = (
    "The target is fitted to three digits or more, with so little noise that it is not looked for: what is told of "
    "noise and coefficients is too wide. Give the noise a number if it is known."
)


def learn(task: Task, start: Hyper, search: Fits, fits: Fits) -> tuple[Hyper, Fitted]:
    """Coefficients at the hyper-parameters given, or at the best ones; the search for these may use other fits."""
    learned = task.free.variance or np.any(task.free.noise)
    if not learned:
        return start, fits.fit(start)
    best, found = Search(task, start, search).best()
    fitted = fits.fit(best)
    if not found:
        warn(NOT_FOUND, ConvergenceWarning)
    return best, fitted._replace(converged=fitted.converged and found)


class Search:
    """The climb over the free hyper-parameters: logarithms of variances first."""

    def __init__(self, task: Task, start: Hyper, fits: Fits) -> None:
        self.task, self.start, self.fits = task, start, fits
        self.determined = np.zeros(0)  # coefficients of each group, at the last place
        self.reach = np.inf  # standard deviations that means move there, for one of the logarithm of a variance

    def best(self) -> tuple[Hyper, bool]:
        """Where log Z of all data so far, with what was thought of the hyper-parameters before, is highest; and whether
        the search has come to its end.

        Most of the way is gone by fits that have nearly converged: places there need not be known to many digits.
        """
        task, fine, bounds = self.task, self.task.options["tol"], self.bounds()
        exactly = partial(self.look, tol=fine)
        if np.any(task.free.noise):
            here, inverse = self.most_of_the_way()
            here = exactly(here.point)
        else:
            hyper, longer = self.settled(max(fine, ROUGHLY), bounds)
            here = exactly(self.pack(hyper))
            inverse = longer * np.linalg.inv(self.curvature())
        here, inverse = climb(exactly, here, inverse, bounds, self.no_gain())
        lowest = held(here, bounds) & (here.point == bounds[0])
        if np.any(lowest[len(here.point) - int(np.sum(task.free.noise)) :] & task.noise.vanishing[task.free.noise]):
            warn(EXACT, ConvergenceWarning)
        left = 0.5 * float(here.gradient @ uphill(here, inverse, bounds))
        return self.unpack(here.point), here.trusted and left < MOST_LEFT

    def roughly(self) -> Hyper:
        """A place from which the search goes on with more rows: those given, where nothing is learned."""
        if np.any(self.task.free.noise):
            return self.unpack(self.most_of_the_way()[0].point)
        return self.settled(ROUGHLY, self.bounds())[0] if self.task.free.variance else self.start

    def bounds(self) -> np.ndarray:
        """Lowest and highest of all that is free, variances first."""
        bounds = self.task.noise.log_bounds[:, self.task.free.noise]
        return np.hstack([self.task.prior.variance_bounds(), bounds]) if self.task.free.variance else bounds

    def most_of_the_way(self) -> tuple[Place, np.ndarray]:
        """The climb by rough fits."""
        rough, bounds = partial(self.look, tol=max(self.task.options["tol"], ROUGH)), self.bounds()
        here = rough(np.clip(self.pack(self.start), *bounds))
        return climb(rough, here, np.linalg.inv(self.curvature()), bounds, MOST_OF_IT)

    def no_gain(self) -> float:
        """Nats of a step that is not worth another fit: by which no mean would move farther than the tolerance.

        Of prior variances it is known how far they move means; where a noise is learned digits are few.
        """
        if np.any(self.task.free.noise) or not self.reach > 0:
            return NO_GAIN
        step = self.task.options["tol"] / self.reach
        return max(NO_GAIN, 0.25 * float(np.min(np.maximum(self.determined, LEAST))) * step**2)

    def settled(self, tol: float, bounds: np.ndarray) -> tuple[Hyper, float]:
        """Prior variances that are nearly the best ones: in turn, sites given the variances and these given the sites.

        And how much longer steps are than with sites as they are.

        With sites as they are log Z is that of a Gaussian, and rows are not asked; its slope is the right one.
        """
        point, before, factor = np.clip(np.log(self.start.variance), *bounds), None, np.zeros(1)
        for _ in range(MOST_ROUNDS):
            hyper = self.start._replace(variance=np.exp(point))
            prior, posterior = self.task.prior, self.fits.posterior(hyper, tol)
            step = best_variances(prior, posterior - prior(hyper.variance), point, bounds) - point
            left = float(np.max(np.abs(step)))
            if left < NEARLY_STILL or left * prior.reach(posterior, hyper.variance) < tol:  # or q hardly moves with it
                break
            # sites follow slowly where classes are nearly separable: steps shrink by a factor, and add up to more
            factor = np.zeros_like(step) if before is None else np.clip(step / before, 0.0, SLOWEST)
            point, before = np.clip(point + np.clip(step / (1 - factor), -LONGEST, LONGEST), *bounds), step
        return self.start._replace(variance=np.exp(point + step)), float(np.max(1 / (1 - factor)))

    def curvature(self) -> np.ndarray:
        """A first guess, where the search begins: what coefficients that are determined say, and Fisher's of noise."""
        task, free = self.task, self.task.free
        of_noise = float(task.weight.sum()) * task.noise.information(self.start.noise)[np.ix_(free.noise, free.noise)]
        of_variance = np.maximum(0.5 * self.determined, LEAST) if free.variance else np.zeros(0)
        return np.block(
            [
                [np.diag(of_variance), np.zeros((len(of_variance), len(of_noise)))],
                [np.zeros((len(of_noise), len(of_variance))), of_noise],
            ]
        )

    def pack(self, hyper: Hyper) -> np.ndarray:
        free = self.task.free
        return np.log(np.append(hyper.variance[: None if free.variance else 0], hyper.noise[free.noise]))

    def unpack(self, point: np.ndarray) -> Hyper:
        free, (variance, noise) = self.task.free, self.start
        n = len(variance) if free.variance else 0
        learned = noise.copy()
        learned[free.noise] = np.exp(point[n:])
        return Hyper(np.exp(point[:n]) if free.variance else variance, learned)

    def look(self, point: np.ndarray, tol: float) -> Place:
        """log Z of all data so far times the priors, up to a constant, and its gradient."""
        task, hyper = self.task, self.unpack(point)
        seen = self.fits.look(hyper, tol)
        self.determined, self.reach = seen.determined, seen.reach
        log_prior, by_noise = task.noise.log_prior(hyper.noise)
        value, slope = seen.log_evidence + log_prior, seen.by_noise + by_noise[task.free.noise]
        if task.earlier is not None:
            step = np.log(hyper.noise) - task.earlier.log_noise
            pulled = task.earlier.information @ step
            value, slope = value - 0.5 * float(step @ pulled), slope - pulled[task.free.noise]
        if not task.free.variance:
            return Place(point, value, slope, seen.trusted)
        log_prior, by_variance = task.prior.log_prior(hyper.variance)
        value += log_prior + _log_evidence_before(task, hyper)
        return Place(point, value, np.append(seen.by_variance + by_variance, slope), seen.trusted)


def best_variances(prior: Prior, added: Gaussian, start: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """The logarithms for the highest A(λ₀ + Λ) − A(λ₀), times their own prior, where data have added Λ to the prior."""

    def look(point: np.ndarray) -> Place:
        variance = np.exp(point)
        before = prior(variance)
        posterior = before + added
        told, slope = prior.log_prior(variance)
        value = float(posterior.log_partition() - before.log_partition()) + told
        return Place(point, value, prior.by_log_variance(posterior, variance) + slope, trusted=True)

    here = look(np.clip(start, *bounds))
    determined = prior.determined(prior(np.exp(here.point)) + added, np.exp(here.point))
    inverse = np.diag(1 / np.maximum(0.5 * determined, LEAST))
    return climb(look, here, inverse, bounds, NO_GAIN)[0].point


def _log_evidence_before(task: Task, hyper: Hyper) -> float:
    """What earlier data said of the prior variance: A(λ₀ + Λ) − A(λ₀) with Λ all they added."""
    if task.earlier is None:
        return 0.0
    return float(task.before(hyper).log_partition() - task.prior(hyper.variance).log_partition())
