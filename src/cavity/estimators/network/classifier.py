"""Bayesian neural networks for classification, on the scikit-learn contract."""

from typing import Any, Self

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtri_exp
from sklearn.utils.validation import check_is_fitted, validate_data

from cavity.estimators.labels import Classifier
from cavity.estimators.network.base import Callback, NetworkEstimator
from cavity.estimators.network.posterior import DataUnits, NetworkPosterior, RowsOfChunk
from cavity.estimators.network.warm_up import without_precision
from cavity.estimators.odds import ProbitLink, log_shares
from cavity.estimators.parameters import estimator
from cavity.factors.networks.factor import Network, network


@estimator
class NetworkClassifier(Classifier, NetworkEstimator):
    """A neural network for labels: p(y = ±1 | x) = Φ(y f(x)), by ADF, SEP or EP.

    Every weight has a Gaussian posterior, and the precision of their prior is learned. Probabilities are averages over
    the posterior, less extreme than those of its mean. Features are standardised inside. Far from all data mean and
    standard deviation of f grow alike: probabilities tend to a constant in every direction, which may be near one.

    Of more than two classes each has a network of its own, which says whether a row belongs to it; a row belongs to
    exactly one, so that class c has a probability proportional to the odds of its network
    (`cavity.estimators.odds`).

    Attributes
    ----------
    classes_ : ndarray
    posterior_ : NetworkPosterior, or a list of them
        Means and variances of weights; one for each class of several.
    history_ : list of History
    n_epochs_ : list of int
        Of every network, those of the first class first.
    site_bytes_ : int
        What the sites of one network took.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from cavity import NetworkClassifier
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> model = NetworkClassifier((20,)).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None, callback: Callback = None) -> Self:
        """Learn from X (n_samples, n_features), labels y and, where given, weights that count rows.

        `callback` is as for `NetworkRegressor.fit`.
        """
        X, y, weight = self._check_data(X, y, sample_weight, first=True)
        self._learn_classes(y, weight)
        return self._begin(X, y, weight, callback)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from further rows: the posterior so far is their prior. The first chunk sets the units of the features.

        `classes` lists all labels that will ever come, and is needed in the first call only.
        """
        first = not hasattr(self, "posterior_")
        X, y, weight = self._check_data(X, y, sample_weight, first)
        self._check_classes(y, weight, classes, first)
        if first:
            self._check_first_chunk(X)
            return self._begin(X, y, weight, None)
        self._check_unchanged(self._of_classes()[0])
        priors = [[without_precision(q) for q in one.networks] for one in self._of_classes()]
        rows = RowsOfChunk(X, y, weight, self._of_classes()[0].units)
        self._learn(self._factor(), priors, rows, False, None)
        return self

    def _begin(self, X: np.ndarray, y: np.ndarray, weight: np.ndarray, callback: Callback) -> Self:
        factor, rows = self._factor(), RowsOfChunk(X, y, weight, DataUnits.of(X, np.zeros(len(X)), weight))
        prior = factor.prior(self.prior_shape, self.prior_rate, self.weight_variance)
        priors = [[prior] * self.n_networks for _ in self._signs(y)]
        self._learn(factor, priors, rows, True, callback)
        self._warn_if_alike(self._of_classes(), X)
        return self

    def _learn(
        self, factor: Network, priors: list[list[Any]], rows: RowsOfChunk, first: bool, callback: Callback
    ) -> None:
        """One network for each prior, by classes."""
        flat = [prior for of_class in priors for prior in of_class]
        targets = [sign for sign, of_class in zip(self._signs(rows.y), priors, strict=True) for _ in of_class]
        found = self._fit_networks(factor, flat, targets, rows, first, callback)
        size = len(priors[0])
        each = [NetworkPosterior(factor, found[i : i + size], rows.units) for i in range(0, len(found), size)]
        self.posterior_ = each if len(each) > 1 else each[0]

    def _of_classes(self) -> list[NetworkPosterior]:
        return self.posterior_ if isinstance(self.posterior_, list) else [self.posterior_]

    def _factor(self) -> Network:
        sizes = (self.n_features_in_, *np.atleast_1d(self.hidden_layer_sizes).tolist(), 1)
        options = self.site_dtype, self.site_directory, self.unit_covariances
        return network(sizes, self.activation, *options, labels=True)

    def _moments(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of f: (networks, rows, classes that have one)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        moments = [one.outputs(X)[:2] for one in self._of_classes()]
        mean, variance = (np.stack(column, axis=-1) for column in zip(*moments, strict=True))
        return mean, variance

    def decision_function(self, X: Any) -> np.ndarray:
        """What `predict` goes by: Φ⁻¹ of the second class's probability, (n_samples,).

        Of more than two classes logarithms of their probabilities, (n_samples, n_classes).
        """
        log_probability = self.predict_log_proba(X)
        if log_probability.shape[1] > 2:
            return log_probability
        side = np.where(log_probability[:, 1] > log_probability[:, 0], 1.0, -1.0)
        return -side * ndtri_exp(log_probability.min(axis=1))  # the logarithm of the rarer one has more digits

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the posterior predictive class probabilities."""
        means, variances = self._moments(X)
        if means.shape[2] == 1:
            z = means[..., 0] / np.sqrt(1 + variances[..., 0])
            each = np.stack([log_ndtr(-z), log_ndtr(z)], axis=-1)
        else:
            pairs = zip(means, variances, strict=True)
            each = np.stack([log_shares(ProbitLink(), mean, np.sqrt(variance)) for mean, variance in pairs])
        return logsumexp(each, axis=0) - np.log(len(each))
