"""Bayesian neural networks for regression, on the scikit-learn contract."""

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from cavity._checks import is_integer
from cavity.estimators import constraints
from cavity.estimators.linear.regressors import Components
from cavity.estimators.network.base import Callback, NetworkEstimator, without_precision
from cavity.estimators.network.posterior import NetworkPosterior, Units
from cavity.factors.networks.factor import Network, network
from cavity.families import Product


class NetworkRegressor(RegressorMixin, NetworkEstimator):
    """A neural network with error bars: probabilistic backpropagation by ADF, SEP or EP.

    Every weight has a Gaussian posterior, and the precisions of the noise and of the weights' prior are learned. There
    is no learning rate, no regularisation and no validation set. Features and target are standardised inside.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int, default=(50,)
        Units of each hidden layer.
    activation : {"relu", "leaky_relu", "sin", "identity"}, default="relu"
        Their moments are known in closed form.
    algorithm : str or Algorithm, default="auto"
        "ep", "sep", "adf", "dsep", "power-ep", "vmp", "svi", or an object such as `cavity.sep(32, rate=1.0)`.
        "auto" is EP where its sites take no more than 200 MB, and SEP beyond or with a `batch_size`. ADF grows surer
        with every epoch, whatever the data, and learns the mean badly where the noise varies.
    n_epochs : int or "auto", default=40
        Passes over the data. "auto" goes on, for at most 100, while the log density of rows under their cavities rises:
        for EP nearly that of rows left out.
    warm_up : int, default=20
        Passes by ADF before those of another algorithm, with constant noise. From random weights EP and SEP often
        settle where most hidden units say nothing, or take for noise what the mean could tell; ADF, which is too sure
        of itself, finds a better place to begin.
    n_networks : int, default=1
        Networks that begin at different random weights; predictions are their mixture.
    batch_size : int or None, default=None
        Rows per step; None for one. Batches of some 32 are quicker for SEP, ADF and DSEP, and as good where there are
        many of them in an epoch; a warning tells where they are too large. Compiled loops of EP take single rows only.
    heteroscedastic : bool, default=True
        Whether the noise depends on the input: a second output of the network is the logarithm of its variance. It
        mostly foresees rows better, in log density; with constant noise the mean is often learned better.
    unit_covariances : bool, default=False
        Whether covariances between the units of a layer are carried with their variances: of a second hidden layer and
        beyond, and of the two outputs where the noise varies. By the general engine, which takes many times as long.
    weight_variance : float or None, default=None
        Prior variance of the weights; None to learn it. Inputs of a layer are divided by the root of their number.
    prior_shape, prior_rate : float, default=6.0
        Of the Gamma prior of the noise's precision, in units of the standardised target, and of the weights'.
    site_dtype : {"float64", "float32"}, default="float64"
        In which EP's sites are kept: one for each row, twice as many numbers as weights.
    site_directory : str or None, default=None
        A directory for a file of EP's sites, where they do not fit into memory; deleted after the fit.
    n_jobs : int or None, default=None
        Networks fitted at the same time; None for all processors. Fewer, where EP's sites would not fit.
    random_state : int, RandomState or None, default=0

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

    def __init__(
        self,
        hidden_layer_sizes: Any = (50,),
        *,
        activation: str = "relu",
        algorithm: Any = "auto",
        n_epochs: int | str = 40,
        warm_up: int = 20,
        n_networks: int = 1,
        batch_size: int | None = None,
        heteroscedastic: bool = True,
        unit_covariances: bool = False,
        weight_variance: float | None = None,
        prior_shape: float = 6.0,
        prior_rate: float = 6.0,
        site_dtype: str = "float64",
        site_directory: str | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.algorithm = algorithm
        self.n_epochs = n_epochs
        self.warm_up = warm_up
        self.n_networks = n_networks
        self.batch_size = batch_size
        self.heteroscedastic = heteroscedastic
        self.unit_covariances = unit_covariances
        self.weight_variance = weight_variance
        self.prior_shape = prior_shape
        self.prior_rate = prior_rate
        self.site_dtype = site_dtype
        self.site_directory = site_directory
        self.n_jobs = n_jobs
        self.random_state = random_state

    _constraints = constraints.table(NetworkEstimator._constraints, heteroscedastic=constraints.flag)

    # -- learning ------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, callback: Callback = None) -> Self:
        """Learn from X (n_samples, n_features) and targets y.

        `callback` is called after every epoch of every network, but for those of the warm-up, with an `Epoch`: its
        number, score and posterior. A true return value ends the network's epochs.
        """
        X, y = self._check_data(X, y, first=True)
        factor = self._factor()
        prior = factor.prior(self.prior_shape, self.prior_rate, self.weight_variance)
        self._learn(factor, [prior] * self.n_networks, X, y, Units.of(X, y), True, callback)
        self._warn_if_alike([self.posterior_], X)
        return self

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Learn from further rows: the posterior so far is their prior. The first chunk sets the units."""
        if not hasattr(self, "posterior_"):
            self._check_first_chunk(self._check_data(X, y, first=True)[0])
            return self.fit(X, y)
        X, y = self._check_data(X, y, first=False)
        self._check_unchanged(self.posterior_)
        priors = [without_precision(q) for q in self.posterior_.networks]
        self._learn(self._factor(), priors, X, y, self.posterior_.units, False)
        return self

    def _learn(
        self,
        factor: Network,
        priors: list[Product],
        X: np.ndarray,
        y: np.ndarray,
        units: Units,
        first: bool,
        callback: Callback = None,
    ) -> None:
        targets = [units.target(y)] * len(priors)
        found = self._fit_networks(factor, priors, units.features(X), targets, units, first, callback)
        self.posterior_ = NetworkPosterior(factor, found, units)

    def _factor(self) -> Network:
        sizes = (self.n_features_in_, *np.atleast_1d(self.hidden_layer_sizes).tolist(), 1 + self.heteroscedastic)
        return network(sizes, self.activation, self.site_dtype, self.site_directory, self.unit_covariances)

    def _check_data(self, X: Any, y: Any, first: bool) -> tuple[np.ndarray, np.ndarray]:
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, reset=first)
        self._check_parameters()
        return X, np.asarray(y, dtype=float)

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
        model, scale = np.mean(variances, axis=0) + np.var(means, axis=0), self.posterior_.units.y_scale
        mean = self.posterior_.units.y_center + scale * np.mean(means, axis=0)
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
