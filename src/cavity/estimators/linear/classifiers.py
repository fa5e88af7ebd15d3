"""Bayesian linear classifiers."""

from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import log_ndtr
from sklearn.utils import check_random_state

from cavity.estimators.labels import Classifier
from cavity.estimators.linear.base import LinearEstimator
from cavity.estimators.linear.leave_one_out import own_cavities
from cavity.estimators.linear.noise import outright
from cavity.estimators.linear.predictive import activations, log_mean
from cavity.estimators.linear.targets import Labels
from cavity.estimators.odds import Link, LogitLink, ProbitLink, Sharpened, Sharpness, learn_sharpness, log_shares
from cavity.estimators.parameters import estimator, parameter
from cavity.factors import logit, probit
from cavity.factors.glm.likelihoods import Logit

ROWS_FOR_SHARPNESS = 1000


@estimator
class LinearClassifier(Classifier, LinearEstimator):
    """Base of the linear classifiers.

    More than two classes are told apart by one linear function for each, which says whether a row belongs to it. A row
    belongs to exactly one: given that and the coefficients, class c has probability proportional to the odds of its own
    function, raised to a power that all share and that makes each row most probable given the others
    (`cavity.estimators.odds`). Predictions are the average over the posterior.

    Attributes
    ----------
    posterior_ : Gaussian
        Over the coefficients in the units of the given features, intercept last; one row per class of several.
    coef_, intercept_ : ndarray
        Posterior means.
    log_evidence_ : float
    prior_variance_ : float or ndarray
        As given or learned.
    converged_ : bool
    n_skipped_ : int
    history_ : History, or a list of them
    algorithm_ : Algorithm, or a list of them
        What "auto" has come to.
    sharpness_ : float
        Of several classes only: the power to which the odds of each are raised.
    """

    class_weight: Any = parameter(
        'dict, "balanced" or None', "Weights of the classes; they count rows, as sample weights do.", default=None
    )

    _link: ClassVar[Link]

    def _log_probability(self, y: float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """log E[p(y|a)] for y = ±1."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from X (n_samples, n_features), labels y and, where given, weights that count rows."""
        X, y, weight = self._check_data(X, y, sample_weight, first=True)
        self._learn_classes(y, weight)
        if len(np.unique(y[self._targets(y, weight)[1] > 0])) < 2:
            raise ValueError(f"class_weight must leave weight to two classes or more; got {self.class_weight!r}.")
        return self._update(X, y, weight, first=True)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from further rows: the posterior so far is their prior.

        `classes` lists all labels that will ever come, and is needed in the first call only.
        """
        first = not hasattr(self, "posterior_")
        X, y, weight = self._check_data(X, y, sample_weight, first)
        self._check_classes(y, weight, classes, first)
        if self.class_weight == "balanced":
            raise ValueError("class_weight='balanced' needs all data at once; give partial_fit a dict of weights.")
        return self._update(X, y, weight, first)

    def _update(self, X: Any, y: np.ndarray, weight: np.ndarray, first: bool) -> Self:
        targets, weight = self._targets(y, weight)
        self._learn(X, targets, Labels(), weight, first)
        if len(targets) > 1:
            self._sharpen(X, targets, weight, first)
        return self

    def _sharpen(self, X: Any, targets: list[np.ndarray], weight: np.ndarray, first: bool) -> None:
        """Learn how sharp the odds of all classes are together, from rows that are left out one by one."""
        rng = check_random_state(self.random_state)
        rows = np.flatnonzero(weight > 0)
        rows = rng.choice(rows, ROWS_FOR_SHARPNESS, replace=False) if len(rows) > ROWS_FOR_SHARPNESS else rows
        likelihood, left = self._noise.factor(np.zeros(0)).likelihood, []
        for function, target in zip(self._state.functions, targets, strict=True):
            marginals = activations(X[rows], self._state.units, function.posterior)
            left.append(own_cavities(likelihood, target[rows], *marginals, weight[rows]))
        mean, variance = (np.column_stack(column) for column in zip(*left, strict=True))
        chosen = np.argmax(np.column_stack(targets)[rows], axis=1)
        stands_for = weight[rows] * (weight.sum() / weight[rows].sum())
        before = Sharpness()
        if not first:
            before = Sharpness(self._sharpness.log_value, (1 - self.forgetting) * self._sharpness.information)
        sd = np.sqrt(np.maximum(variance, 0.0))
        self._sharpness: Sharpness = learn_sharpness(self._link, before, mean, sd, chosen, stands_for)
        self.sharpness_ = float(np.exp(self._sharpness.log_value))

    def _targets(self, y: np.ndarray, weight: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """±1 for each linear function, and the weights with those of the classes."""
        if self.class_weight is not None:
            weight = weight * self._weights_of_classes(weight, y)[self._place_of(y)]
        return self._signs(y), weight

    def _place_of(self, y: np.ndarray) -> np.ndarray:
        """Where labels are in `classes_`; anywhere for one that only rows without weight have."""
        return np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)

    def _weights_of_classes(self, weight: np.ndarray, y: np.ndarray) -> np.ndarray:
        """One weight per class; "balanced" makes what rows of each class weigh together the same."""
        if isinstance(self.class_weight, str):
            if self.class_weight != "balanced":
                raise ValueError(f"class_weight must be a dict, 'balanced' or None; got {self.class_weight!r}.")
            total = np.bincount(self._place_of(y), weight, len(self.classes_))
            return np.where(total > 0, total.sum() / (len(total) * np.where(total > 0, total, 1.0)), 1.0)
        unknown = [label for label in self.class_weight if label not in self.classes_]
        if unknown:
            raise ValueError(f"class_weight must name classes among {self.classes_}; got {unknown[0]!r}.")
        return np.array([float(self.class_weight.get(label, 1.0)) for label in self.classes_])

    def _as_fitted(self, X: Any, y: Any, sample_weight: Any = None) -> tuple[Any, list[Any], np.ndarray]:
        X, y, weight = self._check_data(X, y, sample_weight, first=False)
        return self._state.units.design(X), *self._targets(y, weight)

    def _activations(self, X: Any) -> list[tuple[np.ndarray, np.ndarray]]:
        X = self._check_features(X)
        state = self._state
        return [activations(X, state.units, function.posterior) for function in state.functions]

    def decision_function(self, X: Any) -> np.ndarray:
        """Of two classes, the activation whose probability is the predictive one, which ranks rows as `predict_proba`.

        Of several, the posterior mean of each class's function, (n_samples, n_classes): the class with the largest is
        not always the most probable, which `predict` gives, as some functions may be known better than others.
        """
        marginals = self._activations(X)
        if len(marginals) > 1:
            return np.column_stack([mean for mean, _ in marginals])
        below, above = (self._log_probability(y, *marginals[0]) for y in (-1.0, 1.0))
        return self._link.activation(above - below)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the posterior predictive class probabilities: of two classes right far in the tails.

        Of several classes they are never below about −685.
        """
        marginals = self._activations(X)
        if len(marginals) == 1:
            return np.column_stack([self._log_probability(y, *marginals[0]) for y in (-1.0, 1.0)])
        mean, variance = (np.column_stack(column) for column in zip(*marginals, strict=True))
        return log_shares(Sharpened(self._link, self.sharpness_), mean, np.sqrt(variance))


@estimator
class ProbitClassifier(LinearClassifier):
    """Bayesian probit regression: p(y = ±1 | x, θ) = Φ(y (xᵀβ + b)).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from cavity import ProbitClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> classifier = ProbitClassifier().fit(X, y)
    >>> bool(classifier.score(X, y) > 0.97)
    True
    """

    _link = ProbitLink()
    _noise = outright(probit)
    _usual = 2.0

    def _log_probability(self, y: float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        return log_ndtr(y * mean / np.sqrt(1 + variance))


@estimator
class LogisticClassifier(LinearClassifier):
    """Bayesian logistic regression: p(y = ±1 | x, θ) = 1/(1 + exp(−y (xᵀβ + b))).

    Predictions integrate over the posterior by quadrature.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from cavity import LogisticClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> classifier = LogisticClassifier().fit(X, y)
    >>> bool(classifier.score(X, y) > 0.97)
    True
    """

    _link = LogitLink()
    _noise = outright(logit)
    _usual = 3.2

    def _log_probability(self, y: float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        return log_mean(Logit(), np.full(len(mean), y), mean, variance)
