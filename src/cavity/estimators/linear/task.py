"""What is given and what is found when one linear function is learned."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from cavity.estimators.linear.noise import Noise
from cavity.estimators.linear.prior import Prior
from cavity.families import Gaussian
from cavity.inference.named import Algorithm
from cavity.inference.result import History


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

    def before(self, hyper: Hyper) -> Gaussian:
        """What is known before these data."""
        prior = self.prior(hyper.variance)
        return prior if self.earlier is None else prior + self.earlier.added


class Evidence(NamedTuple):
    """The evidence at some hyper-parameters, its gradient in their logarithms, and whether it is to be trusted.

    `determined` is how many coefficients of each group the data determine, rather than the prior, and `reach` how many
    standard deviations means move at most for one of the logarithm of a variance.
    """

    log_evidence: float
    by_variance: np.ndarray
    by_noise: np.ndarray
    trusted: bool
    determined: np.ndarray
    reach: float


class Fitted(NamedTuple):
    """What is kept of a fit."""

    posterior: Gaussian
    log_evidence: float
    converged: bool
    n_skipped: int
    history: History
    algorithm: Algorithm | None  # None where no sweeps were needed


class Fits(Protocol):
    """How coefficients are found at given hyper-parameters."""

    def posterior(self, hyper: Hyper, tol: float) -> Gaussian: ...

    def look(self, hyper: Hyper, tol: float) -> Evidence: ...

    def fit(self, hyper: Hyper) -> Fitted: ...
