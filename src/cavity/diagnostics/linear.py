"""Whether a linear model's posterior can be believed: its importance weights, and EP's evidence to second order."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from cavity import _tree as tree
from cavity.diagnostics.importance import importance_check
from cavity.diagnostics.second_order import correction, tilted_cumulants
from cavity.estimators.linear.base import LinearEstimator
from cavity.estimators.linear.leave_one_out import own_cavities
from cavity.estimators.linear.state import Function

DRAWS_AT_ONCE = 256
MOST_ROWS = 4000  # in the pairs of the second-order term; of more, so many are drawn


class PosteriorCheck(NamedTuple):
    """What can be said of a posterior without knowing the exact one."""

    khat: float  # tail of the importance weights: below 0.5 good, above 0.7 do not trust the posterior
    effective_share: float  # of draws from the posterior, as draws from the exact one
    log_evidence: float  # by importance sampling; as good as khat
    correction: float  # second-order estimate of log Z − log Z_EP; not small where EP is poor

    @property
    def reliable(self) -> bool:
        """Whether both say so: khat below 0.7 and a correction below a tenth of a nat."""
        return self.khat < 0.7 and abs(self.correction) < 0.1


def check_posterior(
    model: LinearEstimator, X: Any, y: Any, *, n_draws: int = 20_000, random_state: Any = 0, **fit_arguments: Any
) -> Any:
    """Check a fitted linear model against the data it was fitted to; a list where it has one function per class.

    What `fit` was given besides X and y is given here too: `sample_weight`, `offset`, `exposure`. Prior variances and
    noise that were learned are taken as known: it is the posterior at their best values that is checked.

    >>> import numpy as np
    >>> from cavity import ProbitClassifier
    >>> from cavity.diagnostics import check_posterior
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = X @ [1.0, -1.0] > 0.3
    >>> check_posterior(ProbitClassifier().fit(X, y), X, y).reliable
    True
    """
    check_is_fitted(model)
    if model._state.n_chunks > 1:
        raise ValueError("model must have been fitted at once: the rows of earlier chunks are not in X.")
    design, targets, weight = model._as_fitted(X, y, **fit_arguments)
    rng = check_random_state(random_state)
    checks = [
        _check(model, function, design, target, weight, n_draws, rng)
        for function, target in zip(model._state.functions, targets, strict=True)
    ]
    return checks if len(checks) > 1 else checks[0]


def _check(
    model: LinearEstimator,
    function: Function,
    design: Any,
    target: Any,
    weight: np.ndarray,
    n_draws: int,
    rng: np.random.RandomState,
) -> PosteriorCheck:
    state = model._state
    likelihood = model._noise.factor(function.hyper.noise).likelihood
    prior, posterior = state.prior(function.hyper.variance), function.posterior
    root = np.linalg.cholesky(posterior.covariance)
    draws = np.asarray(posterior.mean) + rng.standard_normal((n_draws, len(root))) @ root.T
    log_joint = np.empty(n_draws)
    for start in range(0, n_draws, DRAWS_AT_ONCE):
        part = draws[start : start + DRAWS_AT_ONCE]
        log_lik = _log_lik(likelihood, target, np.asarray((design @ part.T).T))
        log_joint[start : start + DRAWS_AT_ONCE] = log_lik @ weight + prior.log_prob(part)
    log_joint -= weight.sum() * np.log(state.units.spread)  # a density of targets in the user's units
    weights = importance_check(log_joint - posterior.log_prob(draws))
    share = weights.effective_size / n_draws
    return PosteriorCheck(
        weights.khat, share, weights.log_evidence, _second_order(likelihood, posterior, design, target, weight, rng)
    )


def _second_order(
    likelihood: Any, posterior: Any, design: Any, target: Any, weight: np.ndarray, rng: np.random.RandomState
) -> float:
    """The correction; from a sample of the rows, each standing for several, where there are many."""
    known = np.asarray(abs(design).sum(1)).ravel() == 0  # rows without features, whatever the coefficients
    kept = np.flatnonzero((weight > 0) & ~known)
    if len(kept) > MOST_ROWS:
        kept = rng.choice(kept, MOST_ROWS, replace=False)
    copies = weight[kept] * (weight[~known].sum() / weight[kept].sum())
    rows = design[kept].toarray() if hasattr(design, "toarray") else design[kept]
    target = tree.map(lambda leaf: leaf[kept], target)
    covariance = rows @ posterior.covariance @ rows.T
    mean, variance = rows @ posterior.mean, np.diag(covariance)
    cavity = own_cavities(likelihood, target, mean, variance, weight[kept])
    tilted = _tilted(likelihood, target, *cavity)
    cumulants = tilted_cumulants(lambda grid: _log_lik(likelihood, target, grid.T).T, cavity[0], cavity[1], tilted)
    return correction(*cumulants, covariance, copies)


def _tilted(likelihood: Any, y: Any, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of every row's tilted distribution, from those of its cavity."""
    tilt = likelihood.tilts(y, mean, variance, 1.0)
    return mean + variance * tilt.slope, variance * tilt.shrinkage


def _log_lik(likelihood: Any, y: Any, activation: np.ndarray) -> np.ndarray:
    """log p(y|a) for activations (…, row)."""
    return likelihood.log_lik(y, activation)
