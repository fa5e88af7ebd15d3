"""The posterior of a Gaussian mixture's parameters, in the units of the data.

In every direction a mean is Student-t and a variance inverse Gamma, whatever the kind of the components: their four
numbers are kept for each component and feature, with the rates as matrices.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special, stats

from cavity._checks import is_integer, is_number
from cavity._lazy import imported
from cavity._warnings import warn
from cavity.estimators.mixture.correction import Correction
from cavity.estimators.units import Units
from cavity.families import NormalWishart, Product
from cavity.inference.result import ConvergenceWarning

if TYPE_CHECKING:
    from pandas import DataFrame

DRAWS_FOR_COVARIANCES = 4000  # intervals of covariances between two features have no closed form
SMALLEST_COUNT = 1e-3  # of a Beta distribution: one that is wider has all its weight at both ends
LARGE = 1e200  # squares beyond it are not formed
TOO_NARROW = (
    "Credible intervals, regions and draws are those of the posterior family alone, which takes the parameters of "
    "different clusters for independent: where clusters overlap they are too narrow. They are as wide as they should "
    "be after a fit of all rows at once with linear_response=True."
)
PARAMETERS = ("weights", "means", "variances", "covariances")


@dataclass(frozen=True)
class MixturePosterior:
    """q over weights, means and covariances; arrays have an axis for the components first."""

    family: Product  # the exponential family itself, in the units of the fit: z = (x − center)/scale
    units: Units
    kind: str  # "full", "diag" or "spherical"
    mean: np.ndarray  # m (J, D), in the units of the fit like all that follows
    count: np.ndarray  # κ (J, D)
    shape: np.ndarray  # a (J, D): variances are InvGamma(a, b)
    rate: np.ndarray  # b on the diagonal of (J, D, D)
    correction: Correction | None = None  # what overlap adds to the spread that q itself has, where that is known

    @classmethod
    def of(cls, family: Product, units: Units) -> "MixturePosterior":
        """From q in the units of the fit."""
        q = family["components"]
        mean = np.asarray(q.mean)
        mean = mean.reshape(len(mean), -1)
        each = lambda values: np.broadcast_to(np.reshape(values, (len(mean), -1)), mean.shape)
        count = each(q.count)
        if isinstance(q, NormalWishart):
            rate = 0.5 * (q.rate - count[:, :, None] * mean[:, :, None] * mean[:, None])
            shape = each(0.5 * (q.df - mean.shape[1] + 1))
            return cls(family, units, "full", mean, count, shape, rate)
        rate = each(q.rate - 0.5 * q.count * np.sum(np.asarray(q.mean) ** 2, axis=-1))
        kind = "diag" if q.shift.ndim == 3 else "spherical"
        rate = rate[:, :, None] * np.eye(mean.shape[1])
        return cls(family, units, kind, mean, count, each(q.shape), rate)

    @property
    def weights(self) -> np.ndarray:
        """E[π], (J,)."""
        return self.family["weights"].mean

    @property
    def means(self) -> np.ndarray:
        """E[μ], (J, D)."""
        return self.units.center + self.units.scale * self.mean

    @property
    def covariances(self) -> np.ndarray:
        """E[Σ], (J, D, D); NaN where the posterior is too wide to have it."""
        return self._squared_units() * self.rate / np.where(self.shape > 1, self.shape - 1, np.nan)[:, :, None]

    def _squared_units(self) -> np.ndarray:
        return np.outer(self.units.scale, self.units.scale)

    def _variance_rates(self) -> np.ndarray:
        """b of every variance, (J, D), in the units of the data."""
        return np.einsum("jdd->jd", self.rate) * self.units.scale**2

    def _mean_scales(self) -> np.ndarray:
        """The scale of every mean's t distribution, (J, D), in the units of the data."""
        return np.sqrt(self._variance_rates() / (self.shape * self.count))

    def log_predictive(self, X: np.ndarray) -> np.ndarray:
        """log of E[π_j] times the density that a new row has in component j, a Student-t: (n, J)."""
        Z = self.units.to_fit(X)
        log_t = np.stack([self._log_t(Z, j) for j in range(len(self.mean))], axis=1)
        return log_t + np.log(self.weights) - np.sum(np.log(self.units.scale))

    def _log_t(self, Z: np.ndarray, j: int) -> np.ndarray:
        """Scale b (1 + 1/κ)/a, 2a degrees of freedom: of the row as a whole, or of each feature for itself."""
        widened = 2 * (1 + 1 / self.count[j]) * self.rate[j]
        half, dim = self.shape[j], 1 if self.kind == "diag" else len(self.mean[j])
        chol = np.linalg.cholesky(widened)
        white = (Z - self.mean[j]) @ np.linalg.inv(chol).T
        half = half if self.kind == "diag" else half[:1]
        constant = special.gammaln(half + 0.5 * dim) - special.gammaln(half) - 0.5 * dim * np.log(np.pi)
        logs = constant - (half + 0.5 * dim) * log1p_square(white, each=self.kind == "diag")
        return np.sum(logs, axis=1) - np.sum(np.log(np.diag(chol)))

    def shares(self, X: np.ndarray) -> np.ndarray:
        """The probability of each component for each row, (n, J)."""
        return special.softmax(self.log_predictive(X), axis=1)

    def sample_rows(self, n_samples: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """New rows from the density of `log_predictive`, and the components that they come from."""
        chosen = rng.choice(len(self.mean), size=n_samples, p=self.weights / self.weights.sum())
        rows = np.empty((n_samples, self.mean.shape[1]))
        for j in np.unique(chosen):
            at = np.flatnonzero(chosen == j)
            root = np.linalg.cholesky(2 * (1 + 1 / self.count[j]) * self.rate[j])
            shape = self.shape[j] if self.kind == "diag" else self.shape[j, :1]
            chi2 = 2 * rng.gamma(shape, size=(len(at), len(shape)))
            rows[at] = self.mean[j] + (rng.standard_normal((len(at), len(root))) / np.sqrt(chi2)) @ root.T
        return self.units.center + self.units.scale * rows, chosen

    # -- credible regions ----------------------------------------------------------------------------------------

    def interval(self, parameter: str, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of central credible intervals of "weights", "means", "variances" or "covariances"."""
        self._warn_if_narrow()
        return self._interval(parameter, level)

    def _warn_if_narrow(self) -> None:
        """Where the linear response is missing, and clusters may overlap."""
        if self.correction is None and len(self.mean) > 1:
            warn(TOO_NARROW, ConvergenceWarning)

    def _interval(self, parameter: str, level: float) -> tuple[np.ndarray, np.ndarray]:
        check_level(level)
        tails = 0.5 - 0.5 * level, 0.5 + 0.5 * level
        if parameter == "weights" and len(self.mean) == 1:  # a single component has all the weight
            return np.ones(1), np.ones(1)
        if parameter in ("weights", "means", "variances"):
            law = self._law(parameter)
        elif parameter == "covariances":
            draws = self._sample(DRAWS_FOR_COVARIANCES, 0)["covariances"]
            return np.quantile(draws, tails[0], axis=0), np.quantile(draws, tails[1], axis=0)
        else:
            raise ValueError(f"parameter must be one of {', '.join(map(repr, PARAMETERS))}; got {parameter=}.")
        return law.ppf(tails[0]), law.ppf(tails[1])

    def _inflation(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The posterior's variances over q's, for weights, means and variances."""
        if self.correction is None:
            return np.ones(len(self.mean)), np.ones_like(self.mean), np.ones_like(self.mean)
        return self.correction.inflation()

    def _law(self, parameter: str) -> Any:
        """The marginal distributions of a kind of parameter: q's, as much wider as the correction says."""
        weights, means, variances = self._inflation()
        if parameter == "weights":
            share = self.weights
            count = np.maximum(share * (1 - share) / (weights * self.family["weights"].variance) - 1, SMALLEST_COUNT)
            return stats.beta(count * share, count * (1 - share))
        if parameter == "means":
            return stats.t(2 * self.shape, self.means, np.sqrt(means) * self._mean_scales())
        shape = inverse_trigamma(variances * special.polygamma(1, self.shape))
        scale = self._variance_rates() * np.exp(special.digamma(shape) - special.digamma(self.shape))
        return stats.invgamma(shape, scale=scale)

    def region(self, component: int, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Centre m and matrix S of the credible region (μ − m)ᵀ S⁻¹ (μ − m) ≤ 1 of a component's mean.

        With a precision for each feature the means are not elliptical, and the ellipse is that of a Gaussian with their
        variances.
        """
        self._warn_if_narrow()
        check_level(level)
        if not (is_integer(component) and 0 <= component < len(self.mean)):
            raise ValueError(f"component must be a number from 0 to {len(self.mean) - 1}; got {component=}.")
        dim, shape = self.mean.shape[1], self.shape[component]
        matrix = self.rate[component] / (shape * self.count[component]) * self._squared_units()
        wider = shape / np.where(shape > 1, shape - 1, np.nan)  # a covariance is so much larger than its t's matrix
        added = np.zeros_like(matrix)
        if self.correction is not None and np.all(shape > 1):
            added = self.correction.added_to_mean(component) * self._squared_units()
        if self.kind == "diag":
            return self.means[component], stats.chi2(dim).ppf(level) * (matrix * wider + added)
        scale = 1.0 if np.all(added == 0) else wider[0]
        return self.means[component], dim * stats.f(dim, 2 * shape[0]).ppf(level) * (matrix + added / scale)

    def summary(self, level: float = 0.9) -> "DataFrame":
        """Mean, standard deviation and central credible interval of every weight, mean and variance, by pandas."""
        pd: Any = imported("pandas", "summary()")

        self._warn_if_narrow()
        variances = np.einsum("jdd->jd", self.covariances)
        values = {"weights": self.weights[:, None], "means": self.means, "variances": variances}
        spreads = self._standard_deviations()
        tables = []
        for parameter, value in values.items():
            lower, upper = (end.reshape(value.shape) for end in self._interval(parameter, level))
            component, feature = (index.ravel() for index in np.indices(value.shape))
            columns = {"parameter": parameter[:-1], "component": component, "feature": feature}
            columns |= {"mean": value.ravel(), "sd": spreads[parameter].ravel()}
            tables.append(pd.DataFrame({**columns, "lower": lower.ravel(), "upper": upper.ravel()}))
        return pd.concat(tables).set_index(["parameter", "component", "feature"]).sort_index()

    def _standard_deviations(self) -> dict[str, np.ndarray]:
        """Of every weight, mean and variance; NaN where the posterior is too wide to have one."""
        over = lambda least: np.where(self.shape > least, self.shape - least, np.nan)
        weights, means, variances = map(np.sqrt, self._inflation())
        return {
            "weights": weights * np.sqrt(self.family["weights"].variance),
            "means": means * self._mean_scales() * np.sqrt(self.shape / over(1)),
            "variances": variances * self._variance_rates() / over(1) / np.sqrt(over(2)),
        }

    def sample(self, n_samples: int = 1, random_state: Any = None) -> dict[str, np.ndarray]:
        """Draws of "weights", "means" and "covariances", with a leading axis for the draws."""
        self._warn_if_narrow()
        return self._sample(n_samples, random_state)

    def _sample(self, n_samples: int, random_state: Any) -> dict[str, np.ndarray]:
        if not (is_integer(n_samples) and n_samples >= 1):
            raise ValueError(f"n_samples must be a positive integer; got {n_samples=}.")
        rng = np.random.default_rng(random_state)
        covariances = self._draw_covariances(n_samples, rng)
        noise = rng.standard_normal((n_samples, *self.mean.shape)) / np.sqrt(self.count)
        means = self.mean + np.einsum("sjde,sje->sjd", np.linalg.cholesky(covariances), noise)
        weights = rng.dirichlet(self.family["weights"].concentration, n_samples)
        if self.correction is not None:
            weights, means, covariances = self._recoloured(weights, means, covariances)
        return {
            "weights": weights,
            "means": self.units.center + self.units.scale * means,
            "covariances": covariances * self._squared_units(),
        }

    def _recoloured(
        self, weights: np.ndarray, means: np.ndarray, covariances: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draws of q with the spread and the correlations that it leaves out; correlations of features as drawn."""
        assert self.correction is not None
        variances = np.einsum("sjdd->sjd", covariances)
        flat = lambda values: values.reshape(len(weights), -1)
        logs = np.log(np.maximum(weights, np.finfo(float).tiny))
        drawn = np.concatenate([logs, flat(means), flat(np.log(variances))], axis=1)
        logs, means, log_variances = self.correction.parts(self.correction.recolour(drawn))
        stretch = np.sqrt(np.exp(log_variances) / variances)
        return special.softmax(logs, axis=1), means, covariances * stretch[..., :, None] * stretch[..., None, :]

    def _draw_covariances(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        dim = self.mean.shape[1]
        if self.kind == "full":
            df = 2 * self.shape[:, 0] + dim - 1
            laws = [stats.invwishart(each, 2 * rate, seed=rng) for each, rate in zip(df, self.rate, strict=True)]
            return np.stack([np.reshape(law.rvs(n_samples), (n_samples, dim, dim)) for law in laws], axis=1)
        shape = self.shape if self.kind == "diag" else self.shape[:, :1]
        return self.rate / rng.gamma(shape, size=(n_samples, *shape.shape))[..., None]


def log1p_square(white: np.ndarray, each: bool) -> np.ndarray:
    """log(1 + ‖w‖²) of every row, or of each of its numbers, also where the square is beyond the largest number."""
    with np.errstate(over="ignore"):
        square = white**2 if each else np.einsum("nd,nd->n", white, white)[:, None]
    logs, far = np.log1p(square), square > LARGE
    if np.any(far):
        size = np.abs(white) if each else np.hypot.reduce(white, axis=1, keepdims=True)
        logs[far] = 2 * np.log(size[far])
    return logs


def inverse_trigamma(values: np.ndarray) -> np.ndarray:
    """The a with ψ′(a) = v, by Newton's method in 1/ψ′, which is nearly a straight line."""
    a = 0.5 + 1 / values
    for _ in range(12):
        trigamma = special.polygamma(1, a)
        a = a + trigamma * (1 - trigamma / values) / special.polygamma(2, a)
    return a


def check_level(level: Any) -> None:
    """Raise unless this is a probability strictly inside (0, 1)."""
    if not (is_number(level) and 0 < level < 1):
        raise ValueError(f"level must lie strictly between 0 and 1; got {level=}.")
