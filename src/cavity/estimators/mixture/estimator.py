"""Clustering and density estimation by a Bayesian mixture of Gaussians."""

import dataclasses
from typing import Any, Self

import numpy as np
from scipy.special import gammaln
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from cavity._checks import is_number
from cavity._warnings import warn
from cavity.estimators import constraints
from cavity.estimators.algorithms import FOR_ANY, choose_for_mixture, listed
from cavity.estimators.mixture.checks import check_first, check_init, check_spread, check_unchanged
from cavity.estimators.mixture.model import Prior, first_labels, given_labels, log_evidence_of, take
from cavity.estimators.mixture.posterior import MixturePosterior
from cavity.estimators.mixture.reads import MixtureReads
from cavity.estimators.mixture.response import correction_of
from cavity.estimators.parameters import estimator, parameter
from cavity.estimators.units import Units
from cavity.estimators.weights import check_weight, counted
from cavity.factors import gaussian_mixture
from cavity.families import Product
from cavity.inference.result import ConvergenceWarning, Result
from cavity.inference.run import fit

TOO_MUCH_OVERLAP = (
    "Clusters overlap so much that rows hardly tell them apart: credible intervals are too narrow. Fewer components, "
    "or linear_response=False if only predictions matter, avoid this."
)
LOST_IN_ROUNDING = (
    "What overlapping clusters add to credible intervals is lost in rounding, as where a component has one row far "
    "from all others: intervals are those of the posterior family. Remove such rows, or set linear_response=False."
)
NOT_AT_ITS_END = (
    "The fit has not converged: what overlapping clusters add to credible intervals is known only where it has, and "
    "intervals may be too narrow. Increase max_sweeps, or set linear_response=False if only predictions matter."
)


@estimator
class GaussianMixture(MixtureReads):
    """Mixture of Gaussians with a posterior over weights, means and covariances.

    Assignments of rows to components are summed out of every update and never stored. With the algorithms that share
    one site ("aep", "sep") memory does not grow with the rows.

    Attributes
    ----------
    weights_, means_, covariances_ : ndarray
        Posterior means, components in the order of their weights.
    posterior_ : MixturePosterior
        Over weights, means and covariances, in the units of the given features.
    converged_ : bool
    n_skipped_, n_sweeps_ : int
    history_ : History
    log_evidence_ : float
    site_bytes_ : int
        What the sites took.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GaussianMixture
    >>> X = np.random.default_rng(0).normal(size=(90, 2)) + np.repeat([[-4, 0], [4, 0], [0, 6]], 30, axis=0)
    >>> model = GaussianMixture(n_components=3, random_state=0).fit(X)
    >>> sorted(np.bincount(model.predict(X)).tolist())
    [30, 30, 30]
    """

    n_components: int = parameter(
        "int",
        "J, the number of components; those that no data want stay at the prior.",
        constraints.positive_integer,
        default=1,
        kw_only=False,
    )
    covariance_type: str = parameter(
        '{"full", "diag", "spherical"}',
        '"diag" for a variance in each direction, "spherical" for one in all.',
        constraints.one_of("full", "diag", "spherical"),
        default="full",
    )
    algorithm: Any = parameter(
        "str or Algorithm",
        '"auto" is EP for small problems, such as 2,000 rows of two features, and AEP beyond, or SEP with a '
        f"`batch_size`; or {listed(FOR_ANY)}, or an object such as `cavity.sep(batch_size=100)`.",
        default="auto",
    )
    weight_concentration: float = parameter(
        "float", "Of the Dirichlet prior of the weights; 1 is uniform.", constraints.positive, default=1.0
    )
    mean_count: float = parameter(
        "float",
        "Rows that the prior mean of a component, the middle of the data, is worth.",
        constraints.positive,
        default=0.01,
    )
    df: float | None = parameter(
        "float or None",
        "Degrees of freedom of the prior over a covariance, above n_features + 1; by default n_features + 2.",
        default=None,
    )
    prior_scale: float | None = parameter(
        "float or None",
        "Expected standard deviation of a component in units of the data's; by default J^(−1/n_features), so that J "
        "components fill the volume of the data.",
        constraints.positive_or_none,
        default=None,
    )
    init: Any = parameter(
        '{"kmeans", "random"} or array-like of shape (n_samples,)', "Labels to begin with.", default="kmeans"
    )
    n_init: int = parameter(
        "int",
        "Fits from different beginnings, of which that with the largest evidence is kept.",
        constraints.positive_integer,
        default=1,
    )
    linear_response: bool = parameter(
        "bool",
        "Whether credible intervals and draws take account of what overlapping clusters couple and the posterior "
        "family leaves out: without it they are too narrow there, and a warning says so where they are read. After "
        "later chunks of `partial_fit` they are too.",
        constraints.flag,
        default=True,
    )
    evidence: bool = parameter(
        "bool",
        "Whether `log_evidence_` is formed, by one more pass over the rows; without it it is NaN.",
        constraints.flag,
        default=True,
    )
    batch_size: int | None = parameter(
        "int or None",
        'Rows at a time, for "ep", "sep", "adf", "dsep", "power-ep", "vmp" and "svi".',
        constraints.positive_integer_or_none,
        default=None,
    )
    forgetting: float = parameter(
        "float", "Share of what is known that `partial_fit` forgets with every chunk.", constraints.share, default=0.0
    )
    max_sweeps: int | None = parameter(
        "int or None", 'Passes over the rows at most; None is one for "adf" and 500 otherwise.', default=None
    )
    tol: float = parameter(
        "float", "Stop when a sweep moves the posterior by less than this many standard deviations.", default=1e-3
    )
    random_state: Any = parameter(
        "int, RandomState instance or None", "For beginnings and the order of rows.", default=0
    )

    # -- learning ------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from X (n_samples, n_features) and, where given, weights that count rows; y is ignored."""
        X = validate_data(self, X, dtype=np.float64)
        self._check_parameters()
        check_init(self.init, self.n_components, len(X))
        weight, init = check_weight(sample_weight, X), self.init
        if not isinstance(init, str):
            _, init = counted(weight, np.asarray(init))
        weight, X = counted(weight, X)
        units, belief = Units.robust(X, weight, common=self.covariance_type == "spherical"), self._prior()
        self._from_prior(units, belief, units.to_fit(X), weight, init)
        if not self.linear_response or self.n_components == 1:
            return self
        if not self.converged_:
            warn(NOT_AT_ITS_END, ConvergenceWarning)
        else:
            correction = correction_of(self.posterior_, belief.flat(self.n_features_in_), X, weight)
            self.posterior_ = dataclasses.replace(self.posterior_, correction=correction)
            if correction is None or correction.too_small:
                message = LOST_IN_ROUNDING if correction is None else TOO_MUCH_OVERLAP
                warn(message, ConvergenceWarning)
        return self

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> np.ndarray:
        """Fit, and the most probable component of each row."""
        return self.fit(X, sample_weight=sample_weight).predict(X)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from further rows: the posterior so far is their prior.

        The first chunk sets the prior, the units and where components begin, and parameters of these stay as they were.
        """
        first, given = not hasattr(self, "posterior_"), X
        X = validate_data(self, X, dtype=np.float64, reset=first)
        self._check_parameters()
        weight, X = counted(check_weight(sample_weight, X), X)
        if first:
            check_first(len(X), self.n_components)
            return self.fit(given, sample_weight=sample_weight)  # which has the names of the features
        check_unchanged(self.posterior_, self.n_components, self.covariance_type)
        units, start = self.posterior_.units, self._belief.flat(self.n_features_in_)
        Z = units.to_fit(X)
        check_spread(Z, self.covariance_type)
        known = start + (1 - self.forgetting) * (self.posterior_.family - start)
        result = self._fit(known, Z, weight, None, self._belief, check_random_state(self.random_state))
        self._publish(result, units, self.log_evidence_ + log_evidence_of(result, units, weight))
        return self

    def _from_prior(self, units: Units, belief: Prior, Z: np.ndarray, weight: np.ndarray, init: Any) -> None:
        """The best of several fits, components in the order of their weights."""
        check_spread(Z, self.covariance_type)
        rng = check_random_state(self.random_state)
        prior, results = belief.flat(Z.shape[1]), []
        for _ in range(self.n_init):
            labels = first_labels(Z, weight, self.n_components, init, rng)
            results.append(self._fit(prior, Z, weight, labels, belief, rng))
        best = max(results, key=lambda result: (not result.history.skipped[-1], self._trust(result)))
        order = np.argsort(-best.posterior["weights"].concentration, kind="stable")
        evidence = log_evidence_of(best, units, weight) + self._log_orders(best.posterior)
        self._belief = belief
        self._publish(best, units, evidence, order)

    def _fit(
        self,
        prior: Product,
        Z: np.ndarray,
        weight: np.ndarray,
        labels: np.ndarray | None,
        belief: Prior,
        rng: np.random.RandomState,
    ) -> Result:
        """One fit; ADF has no sites to begin with, so that its prior means are moved instead."""
        algorithm = choose_for_mixture(self.algorithm, Z.shape, self.n_components, self.batch_size)
        start = None if labels is None else given_labels(prior, Z, weight, labels)
        if start is not None and algorithm.n_sites == 0:
            means = np.asarray(start["components"].mean).reshape(self.n_components, -1)
            prior, start = belief.family(means), None
        result = fit(
            gaussian_mixture(),
            prior,
            Z,
            algorithm,
            weights=weight,
            max_sweeps=self.max_sweeps,
            tol=self.tol,
            seed=int(rng.randint(2**31)),
            start=start,
            evidence=self.evidence,
        )
        if result.ending == "interrupted":  # it kept what it had, which is no model yet
            raise KeyboardInterrupt
        return result

    def _prior(self) -> Prior:
        """The prior in the units of the fit; by default that of Fraley and Raftery (2007) for means and covariances."""
        dim = self.n_features_in_
        scale = self.n_components ** (-1 / dim) if self.prior_scale is None else self.prior_scale
        df = dim + 2.0 if self.df is None else float(self.df)
        return Prior(
            self.n_components, self.covariance_type, self.weight_concentration, self.mean_count, df, float(scale) ** 2
        )

    def _log_orders(self, q: Product) -> float:
        """log of the number of ways to name the components: q holds one of as many equal parts of the posterior.

        Components without data are all alike, and naming them otherwise changes nothing.
        """
        empty = np.sum(q["weights"].concentration - self.weight_concentration < 0.5)
        return float(gammaln(self.n_components + 1) - gammaln(empty + 1))

    def _trust(self, result: Result) -> float:
        """What fits are compared by, apart from rows that they leave out, whose evidence is too high."""
        return float(np.nan_to_num(result.log_evidence + self._log_orders(result.posterior), nan=-np.inf))

    def _publish(
        self,
        result: Result,
        units: Units,
        log_evidence: float,
        order: np.ndarray | None = None,
    ) -> None:
        """The fitted attributes."""
        q = result.posterior if order is None else take(result.posterior, order)
        self.posterior_ = MixturePosterior.of(q, units)
        self.weights_, self.means_ = self.posterior_.weights, self.posterior_.means
        self.covariances_ = self.posterior_.covariances
        self.converged_ = result.converged
        self.n_skipped_ = result.n_skipped
        self.n_sweeps_, self.history_ = result.n_sweeps, result.history
        self.log_evidence_ = log_evidence
        self.site_bytes_ = result.site_bytes

    def _check_parameters(self) -> None:
        super()._check_parameters()
        least = self.n_features_in_ + 1
        if self.df is not None and not (is_number(self.df) and least < self.df < np.inf):
            raise ValueError(f"df must be a number above n_features + 1 = {least}; got df={self.df!r}.")
        if self.n_init > 1 and not isinstance(self.init, str):
            raise ValueError(f"n_init must be 1 with labels to begin with: fits would be alike; got {self.n_init}.")
        if self.n_init > 1 and not self.evidence:
            raise ValueError(f"n_init must be 1 with evidence=False: fits are compared by it; got {self.n_init}.")
