"""What estimators by networks share: parameters, and how networks are fitted at the same time."""

import abc
import os
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from cavity._checks import is_integer
from cavity._warnings import warn
from cavity.estimators import constraints
from cavity.estimators.algorithms import FOR_NETWORKS, choose_for_network, listed
from cavity.estimators.base import Estimator
from cavity.estimators.network.parallel import in_parallel, jobs_of
from cavity.estimators.network.posterior import NetworkPosterior, RowsOfChunk
from cavity.estimators.network.training import Callback, Training
from cavity.estimators.parameters import estimator, parameter
from cavity.estimators.weights import check_weight, counted
from cavity.factors.networks.activations import ACTIVATIONS
from cavity.factors.networks.factor import Network
from cavity.factors.networks.loops import has_loops
from cavity.factors.networks.site_storage import bytes_of, check_room, how_many_fit
from cavity.families import Product
from cavity.inference.named import ALL, Algorithm
from cavity.inference.result import ConvergenceWarning

ROWS_LOOKED_AT = 1024
MANY, FEWEST_BATCHES = 0.01, 6  # steps that are cut, as a part; batches in an epoch
ALIKE = 0.05  # standard deviation over rows of what is predicted, in units of the target's: less says nothing
NOTHING_FOUND = (
    "The network says the same of all rows. Either there is nothing in X, or rows are too few: weights that are "
    "independent in the posterior keep to their prior until some tens of rows speak for each hidden unit that is used. "
    "Give it more rows, or algorithm='adf' with constant noise, which is too sure of itself but learns from fewer."
)


@estimator
class NetworkEstimator(Estimator, abc.ABC):
    """Base of the estimators by networks, which have the parameters that are read here."""

    hidden_layer_sizes: Any = parameter("tuple of int", "Units of each hidden layer.", default=(50,), kw_only=False)
    activation: str = parameter(
        '{"relu", "leaky_relu", "sin", "identity"}',
        "Their moments are known in closed form.",
        constraints.one_of(*ACTIVATIONS),
        default="relu",
    )
    algorithm: Any = parameter(
        "str or Algorithm",
        f"{listed(FOR_NETWORKS)}, or an object such as `cavity.sep(32, rate=1.0)`. "
        '"auto" is EP where its sites take no more than 200 MB, and SEP beyond or with a `batch_size`. ADF grows '
        "surer with every epoch, whatever the data, and learns the mean badly where the noise varies.",
        default="auto",
    )
    n_epochs: Any = parameter(
        'int or "auto"',
        'Passes over the data. "auto" goes on, for at most 100, while the log density of rows under their cavities '
        "rises: for EP nearly that of rows left out.",
        default=40,
    )
    warm_up: int = parameter(
        "int",
        "Passes by ADF before those of another algorithm, with constant noise. From random weights EP and SEP often "
        "settle where most hidden units say nothing, or take for noise what the mean could tell; ADF, which is too "
        "sure of itself, finds a better place to begin.",
        constraints.count,
        default=20,
    )
    n_networks: int = parameter(
        "int",
        "Networks that begin at different random weights, for each class of several; predictions are their mixture.",
        constraints.positive_integer,
        default=1,
    )
    batch_size: int | None = parameter(
        "int or None",
        "Rows per step; None for one. Batches of some 32 are quicker for SEP, ADF and DSEP, and as good where there "
        "are many of them in an epoch; a warning tells where they are too large. Compiled loops of EP take single "
        "rows only.",
        constraints.positive_integer_or_none,
        default=None,
    )
    unit_covariances: bool = parameter(
        "bool",
        "Whether covariances between the units of a layer are carried with their variances: of a second hidden layer "
        "and beyond, and of the two outputs where the noise varies. By the general engine, which takes many times as "
        "long.",
        constraints.flag,
        default=False,
    )
    weight_variance: float | None = parameter(
        "float or None",
        "Prior variance of the weights; None to learn it. Inputs of a layer are divided by the root of their number.",
        constraints.positive_or_none,
        default=None,
    )
    prior_shape: float = parameter(
        "float",
        "Of the Gamma prior of the weights' precision, and of that of the noise in units of the standardised target.",
        constraints.above_one,  # for a finite variance
        default=6.0,
    )
    prior_rate: float = parameter("float", "Of the same priors.", constraints.positive, default=6.0)
    site_dtype: str = parameter(
        '{"float64", "float32"}',
        "In which EP's sites are kept: one for each row, twice as many numbers as weights.",
        default="float64",
    )
    site_directory: str | None = parameter(
        "str or None",
        "A directory for a file of EP's sites, where they do not fit into memory; deleted after the fit.",
        default=None,
    )
    n_jobs: int | None = parameter(
        "int or None",
        "Networks fitted at the same time; None or -1 for as many as OMP_NUM_THREADS says, or as there are processors. "
        "Fewer, where EP's sites would not fit.",
        default=None,
    )
    random_state: Any = parameter(
        "int, RandomState instance or None", "Of the first weights and the order of rows.", default=0
    )

    def _fit_networks(
        self,
        factor: Network,
        priors: Sequence[Product],
        targets: Sequence[np.ndarray],
        rows: RowsOfChunk,
        first: bool,
        callback: Callback = None,
    ) -> list[Product]:
        """A network for each prior and target, several at a time; targets are standardised.

        Those of a first chunk are warmed up, and one that is interrupted is kept: later ones would hold half a chunk.
        """
        X = rows.units.x.to_fit(rows.X)
        in_memory = 0 if self.site_directory else bytes_of(priors[0], len(X), self.site_dtype)
        algorithm = choose_for_network(self.algorithm, in_memory, len(X), self.batch_size)
        self._check_loops(factor, algorithm, callback)
        at_once = min(len(priors), jobs_of(self.n_jobs))
        if algorithm.n_sites == ALL:  # before a warm-up, which may take long
            check_room(priors[0], len(X), self.site_dtype, self.site_directory)
            at_once = min(at_once, how_many_fit(in_memory))
        random = check_random_state(self.random_state)
        seeds = [int(random.randint(2**31)) for _ in priors]
        over = Event()
        alone = len(priors) == 1 and not self.__sklearn_is_fitted__()
        warm_up = self.warm_up if first else 0, self.batch_size or 1
        one = Training(factor, algorithm, rows, X, self.n_epochs, warm_up, callback, alone, over)
        results = in_parallel(one, range(len(priors)), priors, targets, seeds, at_once=at_once, over=over)
        self.history_ = [result.history for result in results]
        self.n_epochs_ = [result.n_sweeps for result in results]
        self.site_bytes_ = results[0].site_bytes
        self._warn_of_batches(algorithm.batch_size or len(X), len(X))
        return [result.posterior for result in results]

    def _warn_of_batches(self, batch_size: int, n_rows: int) -> None:
        """Of batches that are too large to be one step: they leave weights no proper distribution, or may soon."""
        n_batches = -(-n_rows // batch_size)
        cut = max(int(np.sum(history.backoffs)) / (n_batches * len(history.backoffs)) for history in self.history_)
        if batch_size > 1 and (cut > MANY or n_batches < FEWEST_BATCHES):
            why = f"{cut:.0%} of the steps were cut" if cut > MANY else f"they are only {n_batches} steps an epoch"
            message = (
                f"Batches of {batch_size} among {n_rows} rows are too large: {why}, and predictions may be far off. "
                f"Use at most {max(1, min(batch_size // 4, n_rows // FEWEST_BATCHES))} rows in a batch."
            )
            warn(message, ConvergenceWarning)

    def _check_loops(self, factor: Network, algorithm: Algorithm, callback: Callback) -> None:
        """What only compiled loops can do."""
        if callback is not None and not callable(callback):
            raise ValueError(f"callback must be a function of an Epoch, or None; got {callback!r}.")
        if has_loops(factor, algorithm):
            return
        why = (
            "they need Numba, activation='relu', an algorithm at power 1, with single rows at rate 1 where it is EP, "
            "and no unit_covariances but of one hidden layer with constant noise"
        )
        if self.n_epochs == "auto":
            raise ValueError(f"n_epochs must be a number where compiled loops do not run: {why}; got 'auto'.")
        for name, plain in (("site_dtype", "float64"), ("site_directory", None)):
            if algorithm.n_sites == ALL and getattr(self, name) != plain:
                raise ValueError(
                    f"{name} must be {plain!r} where compiled loops do not run: {why}; got {getattr(self, name)!r}."
                )

    def _warn_if_alike(self, posteriors: Sequence[NetworkPosterior], X: np.ndarray) -> None:
        """Of networks that have learned nothing, as happens with few rows."""
        rows = X[np.random.default_rng(0).permutation(len(X))[:ROWS_LOOKED_AT]]

        def are_alike(posterior: NetworkPosterior) -> bool:
            means, variances, _ = posterior.outputs(rows)
            said = means / np.sqrt(1 + variances) if posterior.factor.labels else means
            return bool(np.all(np.std(said, axis=1) < ALIKE))

        if len(rows) > 1 and all(map(are_alike, posteriors)):
            warn(NOTHING_FOUND, ConvergenceWarning)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        given = self.get_params()
        layers = np.atleast_1d(np.asarray(given["hidden_layer_sizes"], dtype=object))
        if layers.ndim != 1 or len(layers) == 0 or not all(is_integer(size) and size >= 1 for size in layers):
            raise ValueError(
                f"hidden_layer_sizes must be positive integers, such as (50,); got {given['hidden_layer_sizes']!r}."
            )
        if self.n_epochs != "auto" and not (is_integer(self.n_epochs) and self.n_epochs >= 1):
            raise ValueError(f"n_epochs must be a positive integer or 'auto'; got n_epochs={self.n_epochs!r}.")
        if self.n_jobs is not None and not (is_integer(self.n_jobs) and (self.n_jobs == -1 or self.n_jobs >= 1)):
            raise ValueError(
                f"n_jobs must be None or -1, for all processors, or a positive integer; got {self.n_jobs!r}."
            )
        directory = self.site_directory
        if not (directory is None or (isinstance(directory, str | os.PathLike) and Path(directory).is_dir())):
            raise ValueError(f"site_directory must be a directory that exists, or None; got {directory!r}.")

    def _check_unchanged(self, posterior: NetworkPosterior) -> None:
        """The posterior so far must still be one of this network."""
        describe = lambda factor, count: (
            f"{count} networks of sizes {factor.sizes} with {factor.activation!r}, "
            f"{'with' if factor.unit_covariances else 'without'} covariances of units"
        )
        fitted = describe(posterior.factor, len(posterior.networks))
        wanted = describe(self._factor(), self.get_params()["n_networks"])
        if fitted != wanted:
            raise ValueError(
                "hidden_layer_sizes, activation, heteroscedastic, unit_covariances and n_networks must stay as they "
                f"were in the first chunk, {fitted}; got {wanted}. Call fit to begin anew."
            )

    def _check_data(self, X: Any, y: Any, sample_weight: Any, first: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Features, targets and weights of the rows that count."""
        numeric = self.__sklearn_tags__().estimator_type == "regressor"
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=numeric, reset=first)
        self._check_parameters()
        weight, X, y = counted(check_weight(sample_weight, X), X, y)
        return X, np.asarray(y, dtype=float) if numeric else y, weight

    def _check_first_chunk(self, X: np.ndarray) -> None:
        """The first chunk sets the units of all that follow."""
        if len(X) < 2:
            raise ValueError(f"X must have at least two rows in the first chunk, which sets the units; got {len(X)}.")

    @abc.abstractmethod
    def _factor(self) -> Network:
        """The networks that are fitted."""
