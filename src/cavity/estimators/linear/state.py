"""What a linear model knows: its linear functions, and the units in which they were learned."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from cavity._warnings import warn
from cavity.estimators.linear.conjugate import Sums
from cavity.estimators.linear.noise import Noise
from cavity.estimators.linear.prior import Prior
from cavity.estimators.linear.targets import Targets
from cavity.estimators.linear.task import Earlier, Hyper
from cavity.estimators.linear.units import Units
from cavity.estimators.units import Moments
from cavity.families import Gaussian
from cavity.inference.named import Algorithm
from cavity.inference.result import History

FARTHEST = 1e5  # means from zero, in standard deviations: half the digits of float64 are left in squares


class Function(NamedTuple):
    """One linear function of the features, as far as it is known."""

    posterior: Gaussian
    from_data: Gaussian  # what all data so far have added to the prior
    hyper: Hyper
    information: np.ndarray  # of all data so far, about the logarithms of the likelihood's parameters
    log_evidence: float  # of targets in the user's units
    converged: bool
    n_skipped: int
    history: History
    sums: Sums | None  # of all data so far, where these are sufficient
    algorithm: Algorithm | None  # what found it; None where that took no sweeps

    def in_units(self, before: Units, now: Units, noise: Noise) -> "Function":
        """What is known of it, in other units; its posterior is not moved."""
        ratio, affine = now.spread / before.spread, before.to(now)
        return self._replace(
            from_data=affine.natural(self.from_data),
            hyper=self.hyper._replace(noise=noise.in_units(self.hyper.noise, ratio)),
            sums=None if self.sums is None else self.sums.moved(affine, ratio),
        )

    def earlier(self, kept: float) -> Earlier:
        """What it says to further data; a share of it is forgotten."""
        return Earlier(kept * self.from_data, np.log(self.hyper.noise), kept * self.information)


@dataclass(frozen=True)
class Settings:
    """What all chunks of a model have in common, as its parameters say."""

    standardize: bool
    fit_intercept: bool
    groups: tuple[Any, ...] | None

    def labels(self, n_features: int) -> np.ndarray:
        """The group of each feature, by number."""
        if self.groups is None:
            return np.zeros(n_features, dtype=int)
        return np.unique(np.array(self.groups), return_inverse=True)[1]

    def check_same(self, now: "Settings") -> None:
        """Raise a ValueError that names the first one that is another now."""
        for name, title in (("standardize",) * 2, ("fit_intercept",) * 2, ("groups", "feature_groups")):
            if getattr(self, name) != getattr(now, name):
                raise ValueError(
                    f"{title} must be as in earlier calls of partial_fit, {getattr(self, name)!r}; got "
                    f"{getattr(now, name)!r}. Call fit to begin anew."
                )


@dataclass(frozen=True)
class Seen:
    """What features and targets are like, in all data so far."""

    columns: Moments
    targets: Targets

    def after(self, earlier: "Seen", kept: float) -> "Seen":
        """With earlier data, of which a share is forgotten."""
        columns = replace(earlier.columns, weight=kept * earlier.columns.weight)
        return Seen(columns.merge(self.columns), earlier.targets.forget(kept).merge(self.targets))

    def units(self, fit_intercept: bool, centred: bool) -> Units:
        """Units in which features and targets are of size one, and centred where an intercept takes the rest."""
        middle = self.targets.middle() if fit_intercept else 0.0
        mean = self.columns.mean
        center = mean if fit_intercept and centred else np.zeros_like(mean)
        size = np.where(mean == 0, 1.0, np.abs(mean))
        scale = np.where(self.columns.constant, size, self.columns.scale)
        return Units(center, scale, middle, self.targets.spread(middle), fit_intercept)

    def prior(self, settings: Settings, units: Units, intercept_variance: float, usual: float) -> Prior:
        """On the scale of these data, or in the user's units."""
        mean, scale = self.columns.mean, units.scale
        groups = settings.labels(len(mean))
        tied = np.abs(mean - (units.center if settings.standardize else 0.0)) > FARTHEST * scale
        if settings.fit_intercept and np.any(tied):
            warn(
                f"X has columns, such as {np.flatnonzero(tied)[0]}, whose mean is more than {FARTHEST:.0e} standard "
                f"deviations from zero: {LOST[settings.standardize]}",
                RuntimeWarning,
            )
        if settings.standardize:
            return Prior.on_scale_of_data(units, mean, groups, intercept_variance, usual)
        return Prior.in_given_units(units, groups, intercept_variance, usual)


LOST = {
    True: "sparse columns are not centred, and lose digits. Subtract the mean from such columns first.",
    False: "a prior of the intercept in the units of such columns loses digits. Subtract the mean, or use "
    "standardize=True.",
}


@dataclass(frozen=True)
class State:
    """All that a model was fitted with, and what came of it."""

    settings: Settings
    seen: Seen
    units: Units
    prior: Prior
    functions: tuple[Function, ...]
    n_chunks: int

    def with_functions(self, functions: list[Function]) -> "State":
        """The state after learning."""
        return replace(self, functions=tuple(functions))

    def posterior(self) -> Gaussian:
        """Over the coefficients of all functions in these units: of one as it is, of several stacked."""
        if len(self.functions) == 1:
            return self.functions[0].posterior
        parts = [function.posterior for function in self.functions]
        return Gaussian(np.stack([part.shift for part in parts]), np.stack([part.precision for part in parts]))


def is_centred(X: Any) -> bool:
    """Whether centring does not fill the matrix."""
    return not sparse.issparse(X)
