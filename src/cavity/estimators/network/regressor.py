"""Bayesian neural networks for regression, on the scikit-learn contract."""

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from cavity._checks import is_integer
from cavity.estimators import constraints
from cavity.estimators.linear.regressors import Components
from cavity.estimators.network.base import Callback, NetworkEstimator
from cavity.estimators.network.posterior import DataUnits, NetworkPosterior, RowsOfChunk
from cavity.estimators.network.warm_up import without_precision
from cavity.estimators.parameters import estimator, parameter
from cavity.factors.networks.factor import Network, network
from cavity.families import Product


@estimator
class NetworkRegressor(RegressorMixin, NetworkEstimator):
    """A neural network with error bars: probabilistic backpropagation by ADF, SEP or EP.

    Every weight has a Gaussian posterior, and the precisions of the noise and of the weights' prior are learned. There
    is no learning rate, no regularisation and no validation set. Features and target are standardised inside.

    Attributes
    ----------
    posterior_ : NetworkPosterior
        Means and variances of weights and noise, of every network.
    history_ : list of History
        Of every network: how much each epoch moved q, and its score, the mean log density of rows under their cavities.
    n_epochs_ : list of int
        Passes made, without the warm-up's.
    site_bytes_ : int
        What the sites of one network took.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import NetworkRegressor
    >>> X = np.linspace(-3, 3, 200)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=200)
    >>> mean, sd = NetworkRegressor((20,)).fit(X, y).predict([[0.0], [30.0]], return_std=True)
    >>> bool(sd[1] > 3 * sd[0])
    True
    """

    heteroscedastic: bool = parameter(
        "bool",
        "Whether the noise depends on the input: a second output of the network is the logarithm of its variance. It "
        "mostly foresees rows better, in log density; with constant noise the mean is often learned better.",
        constraints.flag,
        default=True,
    )

    # -- learning ------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None, callback: Callback = None) -> Self:
        """Learn from X (n_samples, n_features), targets y and, where given, weights that count rows.

        `callback` is called after every epoch of every network, but for those of the warm-up, with an `Epoch`: its
        number, score and posterior. A true return value ends the network's epochs.
        """
        X, y, weight = self._check_data(X, y, sample_weight, first=True)
        factor, rows = self._factor(), RowsOfChunk(X, y, weight, DataUnits.of(X, y, weight))
        prior = factor.prior(self.prior_shape, self.prior_rate, self.weight_variance)
        self._learn(factor, [prior] * self.n_networks, rows, True, callback)
        self._warn_if_alike([self.posterior_], X)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from further rows: the posterior so far is their prior. The first chunk sets the units."""
        if not hasattr(self, "posterior_"):
            self._check_first_chunk(self._check_data(X, y, sample_weight, first=True)[0])
            return self.fit(X, y, sample_weight)
        rows = RowsOfChunk(*self._check_data(X, y, sample_weight, first=False), self.posterior_.units)
        self._check_unchanged(self.posterior_)
        priors = [without_precision(q) for q in self.posterior_.networks]
        self._learn(self._factor(), priors, rows, False)
        return self

    def _learn(
        self, factor: Network, priors: list[Product], rows: RowsOfChunk, first: bool, callback: Callback = None
    ) -> None:
        targets = [rows.units.y.to_fit(rows.y)] * len(priors)
        found = self._fit_networks(factor, priors, targets, rows, first, callback)
        self.posterior_ = NetworkPosterior(factor, found, rows.units)

    def _factor(self) -> Network:
        sizes = (self.n_features_in_, *np.atleast_1d(self.hidden_layer_sizes).tolist(), 1 + self.heteroscedastic)
        return network(sizes, self.activation, self.site_dtype, self.site_directory, self.unit_covariances)

    # -- predictions ---------------------------------------------------------------------------------------------

    def _outputs(self, X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        check_is_fitted(self)
        return self.posterior_.outputs(validate_data(self, X, dtype=np.float64, reset=False))

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Posterior predictive mean of each row and, where wanted, its total standard deviation."""
        mean, noise, model = self.predict_components(X)
        return (mean, np.hypot(noise, model)) if return_std else mean

    def predict_components(self, X: Any) -> Components:
        """Mean of a new observation, and its standard deviation by source: noise, and unknown weights."""
        means, variances, noises = self._outputs(X)
        model, scale = np.mean(variances, axis=0) + np.var(means, axis=0), self.posterior_.units.y.scale
        mean = self.posterior_.units.y.center + scale * np.mean(means, axis=0)
        return Components(mean, scale * np.sqrt(np.mean(noises, axis=0)), scale * np.sqrt(model))

    def log_predictive(self, X: Any, y: Any) -> np.ndarray:
        """log p(y | x, data) of each row: the mean over networks of their densities."""
        check_is_fitted(self)
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, reset=False)
        return self.posterior_.log_predictive(X, np.asarray(y, dtype=float))

    def sample_posterior(self, X: Any, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Draws of the function at the rows of X, without noise: (n_samples, n_rows).

        Of several networks one is drawn, and further draws are of all in turn.
        """
        check_is_fitted(self)
        if not (is_integer(n_samples) and n_samples >= 1):
            raise ValueError(f"n_samples must be a positive integer; got {n_samples=}.")
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return self.posterior_.draw_functions(X, n_samples, check_random_state(random_state).randint(2**31))
