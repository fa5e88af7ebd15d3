"""Whether a linear model's posterior can be believed: reweighted draws from it, and EP's evidence to second order."""

from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from cavity import _tree as tree
from cavity._checks import is_integer
from cavity.diagnostics.reweighting import MOST, reweighted
from cavity.diagnostics.second_order import correction, tilted_cumulants
from cavity.diagnostics.verdict import PosteriorCheck
from cavity.estimators.linear.base import LinearEstimator
from cavity.estimators.linear.leave_one_out import own_cavities
from cavity.estimators.linear.state import Function

FEWEST_DRAWS = 100
MOST_WORK = 3e9  # draws times rows, beyond which no more are drawn: a minute or so
MOST_ROWS = 4000  # in the pairs of the second-order term; of more, so many are drawn


def check_posterior(
    model: LinearEstimator, X: Any, y: Any, *, n_draws: int = 20_000, random_state: Any = 0, **fit_arguments: Any
) -> Any:
    """Check a fitted linear model against the data it was fitted to; a list where it has one function per class.

    What `fit` was given besides X and y is given here too: `sample_weight`, `offset`, `exposure`. Prior variances and
    noise that were learned are taken as known: it is the posterior at their best values that is checked.

    `n_draws` are drawn from the posterior and as many from a wider distribution, and up to 16 times as many where fewer
    would leave the verdict to chance.

    >>> import numpy as np
    >>> from cavity import ProbitClassifier
    >>> from cavity.diagnostics import check_posterior
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> y = X @ [1.0, -1.0] + rng.normal(size=200) > 0.3
    >>> check_posterior(ProbitClassifier().fit(X, y), X, y).reliable
    True
    """
    check_is_fitted(model)
    if model._state.n_chunks > 1:
        raise ValueError("model must have been fitted at once: the rows of earlier chunks are not in X.")
    design, targets, weight = model._as_fitted(X, y, **fit_arguments)
    if not (is_integer(n_draws) and n_draws >= FEWEST_DRAWS):
        raise ValueError(f"n_draws must be an integer of at least {FEWEST_DRAWS}; got {n_draws!r}.")
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
    in_given_units = float(weight.sum() * np.log(state.units.spread))  # of the density of targets

    def log_joint(draws: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):  # of a rate, far from all that is likely
            log_lik = _log_lik(likelihood, target, np.asarray((design @ draws.T).T))
        return log_lik @ weight + prior.log_prob(draws) - in_given_units

    seed, most = int(rng.randint(2**31)), min(MOST * n_draws, MOST_WORK / len(weight))
    found = reweighted(posterior, log_joint, n_draws, most, seed)
    correction = _second_order(likelihood, posterior, design, target, weight, rng)
    return PosteriorCheck.of(found, correction, function.converged)


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
