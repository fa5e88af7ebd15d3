"""What the Bayesian linear models share: coefficients with a Gaussian posterior, learned at once or in chunks."""

from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse, stats
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from cavity._checks import is_integer, is_number
from cavity.estimators import constraints
from cavity.estimators.algorithms import choose
from cavity.estimators.base import Estimator
from cavity.estimators.linear.coefficients import Coefficients
from cavity.estimators.linear.learning import Hyper, Learned, Noise, Task, learn
from cavity.estimators.parameters import estimator, parameter
from cavity.families import Gaussian
from cavity.inference.result import History

LARGEST_NOISE = 10.0  # in the logarithm, above the first guess


class Function(NamedTuple):
    """One linear function of the features, as far as it is known."""

    posterior: Gaussian
    from_data: Gaussian  # what all data so far have added to the prior
    hyper: Hyper
    information: float  # of all data so far, about the logarithm of the noise
    log_evidence: float
    converged: bool
    n_skipped: int
    history: History


@estimator
class LinearEstimator(Estimator):
    """Base of the generalised linear models."""

    algorithm: Any = parameter(
        "str or Algorithm",
        '"auto" is EP while its sites fit in memory, or rows are few; or "ep", "sep", "aep", "adf", "dsep", "daep", '
        '"power-ep", "vmp", "svi", or an object such as `cavity.sep(batch_size=100)`.',
        default="auto",
    )
    prior_variance: Any = parameter(
        'float or "auto"',
        'Variance of every coefficient before any data; "auto" learns it by the evidence, for each of several classes.',
        constraints.positive_or_auto,
        default=1.0,
    )
    feature_groups: Any = parameter(
        "array-like of shape (n_features,)",
        "Labels of features that share a prior variance; one for all by default.",
        default=None,
    )
    fit_intercept: bool = parameter("bool", "Whether there is an intercept.", constraints.flag, default=True)
    intercept_variance: float = parameter(
        "float", "Prior variance of the intercept.", constraints.positive, default=100.0
    )
    standardize: bool = parameter(
        "bool",
        "Whether the prior is meant for standardised features. The posterior is in the units of the given ones anyway.",
        constraints.flag,
        default=False,
    )
    batch_size: int | None = parameter(
        "int or None", "Rows that are visited at once.", constraints.positive_integer_or_none, default=None
    )
    forgetting: float = parameter(
        "float",
        "Share of what was learned that each further `partial_fit` forgets; for data that drift.",
        constraints.share,
        default=0.0,
    )
    max_sweeps: int | None = parameter(
        "int or None", 'Passes over the data at most; None is one for "adf" and 500 otherwise.', default=None
    )
    tol: float = parameter(
        "float",
        "Passes end when another would move no mean by more than this share of its posterior standard deviation, nor "
        "any standard deviation.",
        default=1e-8,
    )
    random_state: Any = parameter(
        "int, RandomState instance or None",
        "Seed of all that is random: the order in which rows are visited, random groups of rows, and which rows are "
        "looked at when there are several classes and many rows.",
        default=0,
    )

    # -- what a model says of itself -----------------------------------------------------------------------------

    _noise_name: ClassVar[str | None] = None  # the parameter that may be "auto" and is learned from the evidence
    _least_noise: ClassVar[float] = 1e-6  # of the first guess: data that can be fitted exactly would have none at all

    def _factor(self, noise: Any) -> Any:
        """The likelihood factor."""
        raise NotImplementedError

    def _information_per_row(self) -> float:
        """Fisher's, about the logarithm of the noise."""
        return 0.0

    def _first_noise(self, y: np.ndarray, weight: np.ndarray) -> float:
        """Where the search for the noise begins."""
        raise NotImplementedError

    # -- learning ------------------------------------------------------------------------------------------------

    def _check_data(self, X: Any, y: Any, sample_weight: Any, first: bool) -> tuple[Any, np.ndarray, np.ndarray]:
        numeric = self.__sklearn_tags__().estimator_type == "regressor"
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=np.float64, reset=first, y_numeric=numeric, ensure_min_samples=1
        )
        return X, y, _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.feature_groups is not None and np.shape(self.feature_groups) != (self.n_features_in_,):
            raise ValueError(
                f"feature_groups must have one label per feature, {self.n_features_in_}; got shape "
                f"{np.shape(self.feature_groups)}."
            )
        if self.feature_groups is not None and not isinstance(self.prior_variance, str):
            raise ValueError(
                "feature_groups is for prior_variance='auto', which learns a variance for each group; got "
                f"prior_variance={self.prior_variance!r}."
            )

    def _learn(
        self, X: Any, targets: list[Any], y: np.ndarray, weight: np.ndarray, functions: list[Function] | None
    ) -> None:
        """Learn one linear function per target; `functions` are what earlier data said of them."""
        self._check_parameters()
        if functions is None:
            intercept = float(self.intercept_variance) if self.fit_intercept else None
            self._coefficients = Coefficients.of(X, weight, self.standardize, self.feature_groups, intercept)
        design = with_ones(X) if self.fit_intercept else X
        before: list[Function | None] = [None] * len(targets) if functions is None else list(functions)
        self._functions = [
            self._learn_function(design, target, y, weight, known)
            for target, known in zip(targets, before, strict=True)
        ]
        self._n_chunks: int = 1 if functions is None else self._n_chunks + 1
        self._publish()

    def _as_fitted(self, X: Any, y: Any, sample_weight: Any = None) -> tuple[Any, list[Any], np.ndarray]:
        """Rows as learning saw them, from what was given to `fit`: features, one target per function, and weights."""
        X, y, weight = self._check_data(X, y, sample_weight, first=False)
        return X, [y], weight

    def _learn_function(
        self, design: Any, target: Any, y: np.ndarray, weight: np.ndarray, known: Function | None
    ) -> Function:
        given = getattr(self, self._noise_name) if self._noise_name else None
        learn_noise, learn_variance = isinstance(given, str), isinstance(self.prior_variance, str)
        keep = 1 - self.forgetting
        if known is None:
            noise = given
            if learn_noise:
                noise = self._first_noise(y, weight)
                self._noise_bounds = np.log(noise) + np.log(self._least_noise), np.log(noise) + LARGEST_NOISE
            start = Hyper(np.full(self._coefficients.n_groups, 1.0 if learn_variance else self.prior_variance), noise)
            before, noise_before, evidence = None, None, 0.0
        else:
            start, before, evidence = known.hyper, keep * known.from_data, known.log_evidence
            noise_before = Noise(np.log(start.noise), keep * known.information) if learn_noise else None
        task = Task(
            self._factor,
            (design, target),
            weight,
            self._coefficients,
            before,
            noise_before,
            self._information_per_row() * float(weight.sum()),
            getattr(self, "_noise_bounds", (0.0, 0.0)),
            choose(self.algorithm, design, self.batch_size),
            {
                "max_sweeps": self.max_sweeps,
                "tol": self.tol,
                "seed": int(check_random_state(self.random_state).randint(2**31)),
            },
        )
        learned = learn(task, start, learn_variance, learn_noise)
        earlier = 0.0 if noise_before is None else noise_before.information
        return self._function(learned, evidence, earlier + task.noise_information)

    def _function(self, learned: Learned, evidence: float, information: float) -> Function:
        result = learned.result
        return Function(
            posterior=learned.posterior,
            from_data=result.posterior - self._coefficients.prior(learned.hyper.variance),
            hyper=learned.hyper,
            information=information,
            log_evidence=evidence + result.log_evidence,
            converged=result.converged,
            n_skipped=result.n_skipped,
            history=result.history,
        )

    def _publish(self) -> None:
        """The fitted attributes: of one function as they are, of several stacked or in a list."""
        functions, several = self._functions, len(self._functions) > 1
        all_of = lambda name: [getattr(function, name) for function in functions]
        stack = lambda values: np.stack(values) if several else values[0]
        self.posterior_ = Gaussian(
            stack([function.posterior.shift for function in functions]),
            stack([function.posterior.precision for function in functions]),
        )
        self.converged_ = all(all_of("converged"))
        self.n_skipped_ = sum(all_of("n_skipped"))
        self.log_evidence_ = sum(all_of("log_evidence"))
        self.history_ = all_of("history") if several else functions[0].history
        variance = stack([function.hyper.variance for function in functions])
        self.prior_variance_ = variance if self.feature_groups is not None else variance[..., 0][()]
        if self._noise_name:
            setattr(self, f"{self._noise_name}_", functions[0].hyper.noise)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # -- reading the posterior -----------------------------------------------------------------------------------

    def _check_features(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)

    @property
    def coef_(self) -> np.ndarray:
        """Posterior means of the coefficients, without the intercept."""
        check_is_fitted(self)
        return np.asarray(self.posterior_.mean)[..., : self.n_features_in_]

    @property
    def intercept_(self) -> Any:
        """Posterior mean of the intercept; zero if there is none."""
        check_is_fitted(self)
        if not self.fit_intercept:
            return np.zeros(self.posterior_.mean.shape[:-1])
        return self.posterior_.mean[..., -1]

    def _names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", [f"x{i}" for i in range(self.n_features_in_)])
        return [*names, "intercept"] if self.fit_intercept else list(names)

    def summary(self, level: float = 0.9) -> pd.DataFrame:
        """Mean, standard deviation and central credible interval of every coefficient."""
        check_is_fitted(self)
        if not (is_number(level) and 0 < level < 1):
            raise ValueError(f"level must lie strictly between 0 and 1; got {level=}.")
        mean, sd = self.posterior_.mean, np.sqrt(self.posterior_.variance)
        reach = stats.norm.ppf(0.5 + 0.5 * level) * sd
        columns = {"mean": mean, "sd": sd, "lower": mean - reach, "upper": mean + reach}
        index: Any = pd.Index(self._names(), name="coefficient")
        if mean.ndim == 2:
            index = pd.MultiIndex.from_product([self.classes_, self._names()], names=["class", "coefficient"])
        return pd.DataFrame({name: column.ravel() for name, column in columns.items()}, index=index)

    def sample_posterior(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Draws of the coefficients, intercept last: (n_samples, [class,] coefficient)."""
        check_is_fitted(self)
        if not (is_integer(n_samples) and n_samples >= 1):
            raise ValueError(f"n_samples must be a positive integer; got {n_samples=}.")
        noise = check_random_state(random_state).standard_normal((n_samples, *self.posterior_.mean.shape))
        root = np.linalg.cholesky(self.posterior_.covariance)
        return self.posterior_.mean + np.einsum("...ij,s...j->s...i", root, noise)


def with_ones(X: Any) -> Any:
    """X with a last column of ones."""
    ones = np.ones((X.shape[0], 1))
    return sparse.hstack([X, sparse.csr_array(ones)], format="csr") if sparse.issparse(X) else np.hstack([X, ones])
