"""What the Bayesian linear models share: coefficients with a Gaussian posterior, learned at once or in chunks."""

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy import stats
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from cavity._checks import is_integer, is_number
from cavity._lazy import imported
from cavity.estimators import constraints
from cavity.estimators.algorithms import FOR_ANY, choose, listed
from cavity.estimators.base import Estimator
from cavity.estimators.linear.beginning import begun
from cavity.estimators.linear.by_engine import ByEngine
from cavity.estimators.linear.conjugate import Conjugate, Sums
from cavity.estimators.linear.learning import learn
from cavity.estimators.linear.noise import Noise
from cavity.estimators.linear.state import Function, Seen, Settings, State, is_centred
from cavity.estimators.linear.targets import Targets
from cavity.estimators.linear.task import Fits, Fitted, Free, Hyper, Task
from cavity.estimators.parameters import estimator, parameter
from cavity.estimators.units import Moments
from cavity.factors.glm.host import SMALL
from cavity.inference.threads import one_blas_thread

if TYPE_CHECKING:
    from pandas import DataFrame


@estimator
class LinearEstimator(Estimator):
    """Base of the generalised linear models."""

    algorithm: Any = parameter(
        "str or Algorithm",
        '"auto" is EP while its sites fit in memory or rows are few, by many at a time where that converges; or '
        f"{listed(FOR_ANY)}, or an object such as `cavity.sep(batch_size=100)`.",
        default="auto",
    )
    prior_variance: Any = parameter(
        'float, "auto" or None',
        "Variance of every coefficient before any data, for features and target in the units that `standardize` says; "
        '"auto" learns it by the evidence, for each of several classes. None is "auto" with standardize=True, and 1 '
        "without.",
        constraints.positive_auto_or_none,
        default=None,
    )
    feature_groups: Any = parameter(
        "array-like of shape (n_features,)",
        "Labels of features that share a prior variance; one for all by default.",
        default=None,
    )
    fit_intercept: bool = parameter("bool", "Whether there is an intercept.", constraints.flag, default=True)
    intercept_variance: float = parameter(
        "float",
        "Prior variance of the intercept: with standardize=True of the function where all features have their mean, "
        "around the mean of the target.",
        constraints.positive,
        default=100.0,
    )
    standardize: bool = parameter(
        "bool",
        "Whether priors are meant for features, and real targets, of mean zero and standard deviation one, whatever "
        "their units; or for those given. The posterior is in the units of the given ones either way.",
        constraints.flag,
        default=True,
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
        default=1e-6,
    )
    random_state: Any = parameter(
        "int, RandomState instance or None",
        "Seed of all that is random: the order in which rows are visited, random groups of rows, and which rows are "
        "looked at when there are several classes and many rows.",
        default=0,
    )

    # -- what a model says of itself -----------------------------------------------------------------------------

    _noise: ClassVar[Noise]  # its likelihood
    _usual: ClassVar[float]  # standard deviation that a function of standardised features has before any data
    _widest: ClassVar[float] = 1.0  # times as wide the search for it begins

    # -- learning ------------------------------------------------------------------------------------------------

    def _check_data(self, X: Any, y: Any, sample_weight: Any, first: bool) -> tuple[Any, np.ndarray, np.ndarray]:
        numeric = self.__sklearn_tags__().estimator_type == "regressor"
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=np.float64, reset=first, y_numeric=numeric, ensure_min_samples=1
        )
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not np.any(weight > 0):
            raise ValueError("sample_weight must be positive for at least one row; got none.")
        return X, y, weight

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.feature_groups is not None and np.shape(self.feature_groups) != (self.n_features_in_,):
            raise ValueError(
                f"feature_groups must have one label per feature, {self.n_features_in_}; got shape "
                f"{np.shape(self.feature_groups)}."
            )
        if self.feature_groups is not None and not self._learns_variance():
            raise ValueError(
                "feature_groups is for prior_variance='auto', which learns a variance for each group; got "
                f"prior_variance={self.prior_variance!r} and standardize={self.standardize!r}."
            )

    def _learns_variance(self) -> bool:
        return isinstance(self.prior_variance, str) or (self.prior_variance is None and self.standardize)

    def _learn(self, X: Any, targets: list[Any], seen: Targets, weight: np.ndarray, first: bool) -> None:
        """Learn one linear function per target, from the first rows or from further ones."""
        self._check_parameters()
        groups = None if self.feature_groups is None else tuple(np.asarray(self.feature_groups).tolist())
        settings = Settings(bool(self.standardize), bool(self.fit_intercept), groups)
        known: State | None = None if first else self._state
        all_seen = Seen(Moments.of(X, weight), seen)
        if known is not None:
            known.settings.check_same(settings)
            all_seen = all_seen.after(known.seen, 1 - self.forgetting)
        units = all_seen.units(settings.fit_intercept, is_centred(X))
        prior = all_seen.prior(settings, units, float(self.intercept_variance), self._usual)
        state = State(settings, all_seen, units, prior, (), 1 if known is None else known.n_chunks + 1)
        before: list[Function | None] = [None] * len(targets)
        if known is not None:
            before = [function.in_units(known.units, units, self._noise) for function in known.functions]
        design = units.design(X)
        functions = [
            self._learn_function(state, (design, self._in_units(state, target)), weight, function)
            for target, function in zip(targets, before, strict=True)
        ]
        self._state: State = state.with_functions(functions)
        self._publish()

    def _in_units(self, state: State, target: Any) -> Any:
        """A target in the units of learning."""
        return state.units.target(target)

    def _as_fitted(self, X: Any, y: Any, sample_weight: Any = None) -> tuple[Any, list[Any], np.ndarray]:
        """Rows as learning saw them, from what was given to `fit`: design, one target per function, and weights."""
        X, y, weight = self._check_data(X, y, sample_weight, first=False)
        return self._state.units.design(X), [self._in_units(self._state, y)], weight

    def _learn_function(self, state: State, data: Any, weight: np.ndarray, known: Function | None) -> Function:
        free, start = self._begin(state, known)
        options = {
            "max_sweeps": self.max_sweeps,
            "tol": self.tol,
            "seed": int(check_random_state(self.random_state).randint(2**31)),
        }
        algorithms, kept = choose(self.algorithm, data[0], self.batch_size), 1 - self.forgetting
        # EP of a conjugate likelihood is exact, and needs no sweeps; other algorithms run as they are asked for
        exact = self._noise.conjugate and isinstance(self.algorithm, str) and self.algorithm in ("auto", "ep")
        sums = known.sums if exact and known is not None else None
        earlier = known.earlier(kept) if known is not None and sums is None else None
        task = Task(self._noise, data, weight, state.prior, earlier, free, algorithms, options)
        # between fits too: on small matrices several threads of BLAS only wait for each other
        with one_blas_thread() if data[0].shape[1] <= SMALL else nullcontext():
            fits: Fits = Conjugate(task, sums, kept) if exact else ByEngine(task)
            search = fits
            if algorithms[0].n_sites == 0:  # without sites there is no evidence to climb
                search = ByEngine(replace(task, algorithms=choose("auto", data[0], None)))
            if isinstance(search, ByEngine):
                start, search.near = begun(search.task, start)
            hyper, fitted = learn(task, start, search, fits)
        all_sums = fits.sums if isinstance(fits, Conjugate) and earlier is None else None
        return self._function(state, task, hyper, fitted, known, all_sums)

    def _function(
        self, state: State, task: Task, hyper: Hyper, fitted: Fitted, known: Function | None, sums: Sums | None
    ) -> Function:
        """What is known after these data; of targets in the user's units where it is a density of them."""
        weight = float(task.weight.sum()) if sums is None else sums.weight
        log_evidence = 0.0 if known is None or sums is not None else known.log_evidence
        per_target = weight * float(np.log(state.units.spread))
        determined = float(state.prior.determined(fitted.posterior, hyper.variance).sum()) + state.units.intercept
        spared = max(0.0, 1 - determined / weight)  # rows that coefficients go through say nothing of the noise
        learned = np.outer(task.free.noise, task.free.noise)
        information = spared * weight * np.where(learned, self._noise.information(hyper.noise), 0.0)
        return Function(
            posterior=fitted.posterior,
            from_data=fitted.posterior - state.prior(hyper.variance),
            hyper=hyper,
            information=information if task.earlier is None else task.earlier.information + information,
            log_evidence=log_evidence + fitted.log_evidence - per_target,
            converged=fitted.converged,
            n_skipped=fitted.n_skipped,
            history=fitted.history._replace(
                log_evidence=fitted.history.log_evidence - per_target,
                entropy=fitted.history.entropy + state.units.to_given().log_volume(),
            ),
            sums=sums,
            algorithm=fitted.algorithm,
        )

    def _begin(self, state: State, known: Function | None) -> tuple[Free, Hyper]:
        """What is to be learned, as parameters say now; and where it begins, or is."""
        given = [getattr(self, name) for name in self._noise.names]
        free = Free(self._learns_variance(), np.array([isinstance(value, str) for value in given], dtype=bool))
        noise = np.array(self._noise.first if known is None else known.hyper.noise, dtype=float)
        numbers = np.array([1.0 if isinstance(value, str) else value for value in given])
        noise = np.where(free.noise, noise, self._noise.in_units(numbers, state.units.spread))
        if not free.variance:
            number = 1.0 if self.prior_variance is None else float(self.prior_variance)
            return free, Hyper(np.full(state.prior.n_groups, number), noise)
        start = state.prior.usual_variance * self._widest**2 if known is None else known.hyper.variance
        return free, Hyper(start, noise)

    def _publish(self) -> None:
        """The fitted attributes: of one function as they are, of several stacked or in a list."""
        state = self._state
        functions, several = state.functions, len(state.functions) > 1
        all_of = lambda name: [getattr(function, name) for function in functions]
        self.posterior_ = state.units.to_given().density(state.posterior())
        self.converged_ = all(all_of("converged"))
        self.n_skipped_ = sum(all_of("n_skipped"))
        self.log_evidence_ = sum(all_of("log_evidence"))
        self.history_ = all_of("history") if several else functions[0].history
        self.algorithm_ = all_of("algorithm") if several else functions[0].algorithm
        variance = np.stack([function.hyper.variance for function in functions])
        variance = variance if several else variance[0]
        self.prior_variance_ = variance if self.feature_groups is not None else variance[..., 0][()]
        learned = self._noise.in_units(functions[0].hyper.noise, 1 / state.units.spread)
        for name, value in zip(self._noise.names, learned, strict=True):
            given = getattr(self, name)
            setattr(self, f"{name}_", float(value if isinstance(given, str) else given))

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
        if not self._state.units.intercept:
            return np.zeros(self.posterior_.mean.shape[:-1])
        return self.posterior_.mean[..., -1]

    def _names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", [f"x{i}" for i in range(self.n_features_in_)])
        return [*names, "intercept"] if self._state.units.intercept else list(names)

    def summary(self, level: float = 0.9) -> "DataFrame":
        """Mean, standard deviation and central credible interval of every coefficient."""
        pd: Any = imported("pandas", "summary()")
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
        posterior = self._state.posterior()
        noise = check_random_state(random_state).standard_normal((n_samples, *posterior.mean.shape))
        root = np.linalg.cholesky(posterior.covariance)
        return self._state.units.to_given()(posterior.mean + np.einsum("...ij,s...j->s...i", root, noise))
