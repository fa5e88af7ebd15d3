"""Bayesian linear regressors."""

from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.special import xlogy
from sklearn.base import RegressorMixin

from cavity._checks import as_numbers
from cavity.estimators import constraints
from cavity.estimators.linear.base import LinearEstimator
from cavity.estimators.linear.noise import heavy_tailed, normal, outright
from cavity.estimators.linear.predictive import activations
from cavity.estimators.linear.state import State
from cavity.estimators.linear.targets import Averages, Counts, Medians
from cavity.estimators.parameters import estimator, parameter
from cavity.factors import offset_of, poisson


class Components(NamedTuple):
    """A prediction and where its uncertainty comes from; variances of the two add up to the total."""

    mean: np.ndarray
    noise_std: np.ndarray  # of an observation whose coefficients are known
    model_std: np.ndarray  # because the coefficients are not known


@estimator
class LinearRegressor(RegressorMixin, LinearEstimator):
    """Base of the linear regressors.

    Attributes
    ----------
    posterior_ : Gaussian
        Over the coefficients in the units of the given features, intercept last.
    coef_, intercept_ : ndarray
        Posterior means.
    log_evidence_ : float
    prior_variance_ : float or ndarray
        As given or learned.
    converged_ : bool
    n_skipped_ : int
    history_ : History
    algorithm_ : Algorithm or None
        What "auto" has come to; None where no sweeps are needed.
    """

    _usual = 1.0
    _widest = 20.0  # with collinear features the evidence has a peak of large noise, which is not to be met first
    _seen: ClassVar[type[Averages] | type[Medians]]

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from X (n_samples, n_features), targets y and, where given, weights that count rows."""
        X, y, weight = self._check_data(X, y, sample_weight, first=True)
        self._learn(X, [y], self._seen.of(y, weight), weight, first=True)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from further rows: the posterior so far is their prior."""
        first = not hasattr(self, "posterior_")
        X, y, weight = self._check_data(X, y, sample_weight, first)
        self._learn(X, [y], self._seen.of(y, weight), weight, first)
        return self

    def _activations(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        return activations(self._check_features(X), self._state.units, self._state.functions[0].posterior)

    def predict_components(self, X: Any) -> Components:
        """Mean of a new observation, and its standard deviation by source: noise, and unknown coefficients."""
        mean, variance = self._activations(X)
        state = self._state
        noise = state.units.spread * np.sqrt(self._noise.variance(state.functions[0].hyper.noise))
        return Components(mean, np.full_like(mean, noise), np.sqrt(variance))

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Posterior predictive mean of each row and, where wanted, its total standard deviation."""
        mean, noise, model = self.predict_components(X)
        return (mean, np.hypot(noise, model)) if return_std else mean


@estimator
class GaussianRegressor(LinearRegressor):
    """Bayesian linear regression: y = xᵀβ + b + noise, noise ~ N(0, noise_variance).

    The posterior is exact.

    Attributes
    ----------
    noise_variance_ : float
        As given or learned.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GaussianRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> y = X @ [1.0, -2.0] + 3.0 + 0.5 * rng.normal(size=200)
    >>> mean, sd = GaussianRegressor().fit(X, y).predict([[0.0, 0.0]], return_std=True)
    >>> print(mean.round(1), sd.round(1))
    [3.] [0.5]
    """

    noise_variance: Any = parameter(
        'float or "auto"',
        '"auto" learns it by the evidence, together with the prior variance where that is "auto" too.',
        constraints.positive_or_auto,
        default="auto",
    )

    _noise = normal()
    _seen = Averages


@estimator
class StudentTRegressor(LinearRegressor):
    """Bayesian linear regression that forgives outliers: y = xᵀβ + b + scale · t with `df` degrees of freedom.

    Attributes
    ----------
    scale_, df_ : float
        As given or learned.
    """

    df: Any = parameter(
        'float or "auto"',
        "Degrees of freedom; the smaller, the heavier the tails. The noise has a variance only above 2. "
        '"auto" learns them by the evidence and a Gamma(2, 0.02) prior.',
        constraints.positive_or_auto,
        default="auto",
    )
    scale: Any = parameter(
        'float or "auto"', '"auto" learns it by the evidence.', constraints.positive_or_auto, default="auto"
    )

    _noise = heavy_tailed()
    _seen = Medians


@estimator
class PoissonRegressor(LinearRegressor):
    """Bayesian Poisson regression of counts with a log link: y ~ Poisson(exp(xᵀβ + b + offset)).

    The offset is the logarithm of the exposure: of the time, area or population in which y was counted. `score` is D²,
    the share of deviance explained.

    """

    _noise = outright(lambda: offset_of(poisson()))
    _widest = 1.0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None, exposure: Any = None) -> Self:
        """Learn from counts y and, where given, an offset or an exposure for each row."""
        X, y, weight = self._check_data(X, y, sample_weight, first=True)
        return self._count(X, y, as_offset(offset, exposure, len(y)), weight, first=True)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None, exposure: Any = None) -> Self:
        """Learn from further rows: the posterior so far is their prior."""
        first = not hasattr(self, "posterior_")
        X, y, weight = self._check_data(X, y, sample_weight, first)
        return self._count(X, y, as_offset(offset, exposure, len(y)), weight, first)

    def _count(self, X: Any, y: np.ndarray, offset: np.ndarray, weight: np.ndarray, first: bool) -> Self:
        self._learn(X, [(y, offset)], Counts.of(y, offset, weight), weight, first)
        return self

    def _in_units(self, state: State, target: Any) -> Any:
        y, offset = target
        return y, offset + state.units.middle

    def _as_fitted(
        self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None, exposure: Any = None
    ) -> tuple[Any, list[Any], np.ndarray]:
        X, y, weight = self._check_data(X, y, sample_weight, first=False)
        target = y, as_offset(offset, exposure, len(y))
        return self._state.units.design(X), [self._in_units(self._state, target)], weight

    def predict_components(self, X: Any, offset: Any = None, exposure: Any = None) -> Components:
        """Mean count of each row, and its standard deviation by source: counting, and unknown coefficients."""
        mean, variance = self._activations(X)
        rate = np.exp(mean + as_offset(offset, exposure, len(mean)) + 0.5 * variance)  # E of a log-normal
        return Components(rate, np.sqrt(rate), rate * np.sqrt(np.expm1(variance)))

    def predict(self, X: Any, return_std: bool = False, offset: Any = None, exposure: Any = None) -> Any:
        """Posterior predictive mean of each count and, where wanted, its total standard deviation."""
        mean, noise, model = self.predict_components(X, offset, exposure)
        return (mean, np.hypot(noise, model)) if return_std else mean

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None, exposure: Any = None) -> float:
        """D²: 1 − deviance of the predicted means / deviance of one rate for all, times each row's exposure.

        As for R², the score of counts that one rate predicts perfectly is 1 or 0.
        """
        X, y, weight = self._check_data(X, y, sample_weight, first=False)
        exposures = np.exp(as_offset(offset, exposure, len(y)))
        deviance = lambda mean: float(np.average(xlogy(y, y / mean) - y + mean, weights=weight))
        rate = np.average(y, weights=weight) / np.average(exposures, weights=weight)
        left, all_of_it = deviance(self.predict(X, offset=offset, exposure=exposure)), deviance(rate * exposures)
        return 1 - left / all_of_it if all_of_it > 0 else float(left == 0)


def as_offset(offset: Any, exposure: Any, n_rows: int) -> np.ndarray:
    """What is added to the activation: the offset, or the logarithm of the exposure."""
    if offset is not None and exposure is not None:
        raise ValueError("offset and exposure must not both be given: an offset is the logarithm of an exposure.")
    name, value = ("exposure", exposure) if exposure is not None else ("offset", 0.0 if offset is None else offset)
    value = as_numbers(name, value)
    if value.shape not in [(), (n_rows,)]:
        raise ValueError(f"{name} must be a number or have one entry per row, ({n_rows},); got shape {value.shape}.")
    if not np.all(np.isfinite(value)) or (name == "exposure" and np.any(value <= 0)):
        raise ValueError(f"{name} must be finite{' and positive' if name == 'exposure' else ''}.")
    return np.broadcast_to(np.log(value) if name == "exposure" else value, (n_rows,)).astype(float)
