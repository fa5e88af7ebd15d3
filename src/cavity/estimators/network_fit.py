"""What estimators by networks share: parameters, and how networks are fitted at the same time."""

import abc
import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from cavity._checks import check_positive, is_integer, is_number
from cavity.estimators.algorithms import choose_for_network
from cavity.estimators.epochs import Epoch, Stopping
from cavity.estimators.network_posterior import NetworkPosterior, Units
from cavity.factors.activations import ACTIVATIONS
from cavity.factors.network import Network
from cavity.factors.network_driver import has_loops
from cavity.factors.site_storage import check_room
from cavity.families import Product
from cavity.inference.named import ALL, Algorithm, adf
from cavity.inference.result import CollapseWarning, ConvergenceWarning, Result, Sweep
from cavity.inference.run import fit

MOST_SWEEPS = 10**9  # a callback stops before
Callback = Callable[[Epoch], Any] | None
ROWS_LOOKED_AT = 1024
ALIKE = 0.05  # standard deviation over rows of what is predicted, in units of the target's: less says nothing
NOTHING_FOUND = (
    "The network says the same of all rows. Either there is nothing in X, or rows are too few: weights that are "
    "independent in the posterior keep to their prior until some tens of rows speak for each hidden unit that is used. "
    "Give it more rows, or algorithm='adf' with some ten epochs, which is too sure of itself but learns from fewer."
)


class NetworkEstimator(BaseEstimator, abc.ABC):
    """Base of the estimators by networks, which have the parameters that are read here."""

    algorithm: Any
    n_epochs: Any
    batch_size: Any
    random_state: Any
    n_jobs: Any
    site_dtype: str
    site_directory: str | None

    def _fit_networks(
        self,
        factor: Network,
        priors: Sequence[Product],
        X: np.ndarray,
        targets: Sequence[np.ndarray],
        units: Units,
        warm_up: int,
        callback: Callback = None,
    ) -> list[Product]:
        """A network for each prior and target, several at a time; X and targets are standardised."""
        n_rows = len(X)
        algorithm = choose_for_network(self.algorithm, n_rows, factor.n_weights, self.batch_size)
        self._check_loops(factor, algorithm, callback)
        if algorithm.n_sites == ALL:  # before a warm-up, which may take long
            check_room(priors[0], n_rows, self.site_dtype, self.site_directory)
        random = check_random_state(self.random_state)
        seeds = [int(random.randint(2**31)) for _ in priors]

        def one(number: int, prior: Product, target: np.ndarray, seed: int) -> Result:
            start, last = None, Stopping(self.n_epochs)

            def passes(algorithm: Algorithm, stop: Any, start: Any) -> Result:
                options: dict[str, Any] = {"tol": 0.0, "evidence": False, "max_sweeps": MOST_SWEEPS}
                data = X, target
                return fit(factor, prior, data, algorithm, seed=seed, callback=stop, start=start, **options)

            def stop(sweep: Sweep) -> bool:
                posterior = lambda: NetworkPosterior(factor, [sweep.posterior], units)
                wanted = callback is not None and callback(Epoch(number, sweep.number, sweep.score, posterior))
                return last(sweep.number, sweep.score) or bool(wanted)

            if warm_up and algorithm.n_sites != 0:
                q = passes(adf(self.batch_size or 1), lambda sweep: sweep.number == warm_up, None).posterior
                start = Product({**prior.parts, **without_precision(q).parts})
            return passes(algorithm, stop, start)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CollapseWarning)  # of ADF, whose epochs are the user's choice
            results = in_parallel(one, range(len(priors)), priors, targets, seeds, n_jobs=self.n_jobs)
        self.history_ = [result.history for result in results]
        self.n_epochs_ = [result.n_sweeps for result in results]
        self.site_bytes_ = results[0].site_bytes
        self.n_skipped_ = sum(result.n_skipped for result in results)
        self._warn_if_alike(NetworkPosterior(factor, [result.posterior for result in results], units), X)
        return [result.posterior for result in results]

    def _check_loops(self, factor: Network, algorithm: Algorithm, callback: Callback) -> None:
        """What only compiled loops can do."""
        if callback is not None and not callable(callback):
            raise ValueError(f"callback must be a function of an Epoch, or None; got {callback!r}.")
        if has_loops(factor, algorithm):
            return
        why = (
            "they need Numba, activation='relu', an algorithm at power 1 with single rows where it is EP, and no "
            "unit_covariances but of one hidden layer with constant noise"
        )
        if self.n_epochs == "auto":
            raise ValueError(f"n_epochs must be a number where compiled loops do not run: {why}; got 'auto'.")
        for name, plain in (("site_dtype", "float64"), ("site_directory", None)):
            if algorithm.n_sites == ALL and getattr(self, name) != plain:
                raise ValueError(
                    f"{name} must be {plain!r} where compiled loops do not run: {why}; got {getattr(self, name)!r}."
                )

    def _warn_if_alike(self, posterior: NetworkPosterior, X: np.ndarray) -> None:
        """Of networks that have learned nothing, as happens with few rows."""
        rows = posterior.units.x_center + posterior.units.x_scale * X[:ROWS_LOOKED_AT]
        means, variances, _ = posterior.outputs(rows)
        said = means / np.sqrt(1 + variances) if posterior.factor.labels else means
        if len(rows) > 1 and np.all(np.std(said, axis=1) < ALIKE):
            warnings.warn(NOTHING_FOUND, ConvergenceWarning, stacklevel=5)

    def _check_parameters(self) -> None:
        given = self.get_params()
        layers = np.atleast_1d(np.asarray(given["hidden_layer_sizes"], dtype=object))
        if layers.ndim != 1 or len(layers) == 0 or not all(is_integer(size) and size >= 1 for size in layers):
            raise ValueError(
                f"hidden_layer_sizes must be positive integers, such as (50,); got {given['hidden_layer_sizes']!r}."
            )
        if given["activation"] not in ACTIVATIONS:
            listed = ", ".join(map(repr, ACTIVATIONS))
            raise ValueError(f"activation must be one of {listed}; got {given['activation']!r}.")
        if self.n_epochs != "auto" and not (is_integer(self.n_epochs) and self.n_epochs >= 1):
            raise ValueError(f"n_epochs must be a positive integer or 'auto'; got n_epochs={self.n_epochs!r}.")
        if not (is_integer(given["n_networks"]) and given["n_networks"] >= 1):
            raise ValueError(f"n_networks must be a positive integer; got n_networks={given['n_networks']!r}.")
        if not (is_integer(given["warm_up"]) and given["warm_up"] >= 0):
            raise ValueError(f"warm_up must be a non-negative integer; got warm_up={given['warm_up']!r}.")
        if self.batch_size is not None and not (is_integer(self.batch_size) and self.batch_size >= 1):
            raise ValueError(f"batch_size must be a positive integer or None; got batch_size={self.batch_size!r}.")
        if not (is_number(given["prior_shape"]) and 1 < given["prior_shape"] < np.inf):
            raise ValueError(f"prior_shape must be above 1, for a finite variance; got {given['prior_shape']!r}.")
        check_positive("prior_rate", given["prior_rate"])
        if self.n_jobs is not None and not (is_integer(self.n_jobs) and (self.n_jobs == -1 or self.n_jobs >= 1)):
            raise ValueError(
                f"n_jobs must be None or -1, for all processors, or a positive integer; got {self.n_jobs!r}."
            )
        if not (self.site_directory is None or isinstance(self.site_directory, str | os.PathLike)):
            raise ValueError(f"site_directory must be a path or None; got {self.site_directory!r}.")
        for name in ("heteroscedastic", "unit_covariances"):
            if not isinstance(given.get(name, False), bool | np.bool_):
                raise ValueError(f"{name} must be True or False; got {given[name]!r}.")
        if given["weight_variance"] is not None:
            check_positive("weight_variance", given["weight_variance"])

    def _check_unchanged(self, posterior: NetworkPosterior) -> None:
        """The posterior so far must still be one of this network."""
        fitted, wanted = posterior.factor.sizes, self._factor().sizes
        if fitted != wanted or len(posterior.networks) != self.get_params()["n_networks"]:
            raise ValueError(
                "hidden_layer_sizes, heteroscedastic and n_networks must stay as they were in the first chunk, with "
                f"{len(posterior.networks)} networks of {fitted}; got {wanted}. Call fit, or begin anew."
            )

    def _check_first_chunk(self, X: np.ndarray) -> None:
        """The first chunk sets the units of all that follow."""
        if len(X) < 2:
            raise ValueError(f"X must have at least two rows in the first chunk, which sets the units; got {len(X)}.")

    @abc.abstractmethod
    def _factor(self) -> Network:
        """The networks that are fitted."""

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "posterior_")


def without_precision(q: Product) -> Product:
    """A posterior as the next prior: what was believed of the weights' precision is in it."""
    return Product({key: part for key, part in q.parts.items() if key != "precision"})


def in_parallel(function: Any, *arguments: Any, n_jobs: int | None) -> list[Any]:
    """Calls at the same time: compiled loops do not hold Python's lock."""
    count = len(arguments[0])
    if count == 1 or n_jobs == 1:
        return [function(*each) for each in zip(*arguments, strict=True)]
    with ThreadPoolExecutor(os.cpu_count() if n_jobs in (None, -1) else n_jobs) as pool:
        return list(pool.map(function, *arguments))
