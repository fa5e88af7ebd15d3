"""What a fitted mixture is asked: densities, assignments, new rows, and a table of its parameters."""

from typing import Any

import numpy as np
from scipy.special import logsumexp, softmax
from sklearn.base import DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from cavity._checks import is_integer
from cavity.estimators.base import Estimator
from cavity.estimators.mixture.posterior import MixturePosterior
from cavity.estimators.weights import check_weight, counted


class MixtureReads(DensityMixin, Estimator):
    """A mixture with a posterior."""

    posterior_: MixturePosterior
    converged_: bool
    log_evidence_: float

    def _log_joint(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return self.posterior_.log_predictive(X)

    def score_samples(self, X: Any) -> np.ndarray:
        """log p(x | data) of each row: a mixture of Student-t distributions, with all parameters integrated out."""
        return logsumexp(self._log_joint(X), axis=1)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The mean of `score_samples`, weighted where weights are given."""
        logs = self.score_samples(X)
        weight, logs = counted(check_weight(sample_weight, logs), logs)
        return float(np.average(logs, weights=weight))

    def predict_proba(self, X: Any) -> np.ndarray:
        """The posterior probability of each component for each row, (n, J)."""
        return softmax(self._log_joint(X), axis=1)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable component of each row."""
        return np.argmax(self._log_joint(X), axis=1)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """New rows from the density of `score_samples`, each by itself, and the components that they come from."""
        check_is_fitted(self)
        if not (is_integer(n_samples) and n_samples >= 1):
            raise ValueError(f"n_samples must be a positive integer; got {n_samples=}.")
        seed = check_random_state(random_state).randint(2**31)
        return self.posterior_.sample_rows(n_samples, np.random.default_rng(seed))

    def summary(self, level: float = 0.9) -> Any:
        """Mean, standard deviation and central credible interval of every weight, mean and variance."""
        check_is_fitted(self)
        return self.posterior_.summary(level)
