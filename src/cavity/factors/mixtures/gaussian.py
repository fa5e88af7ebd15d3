"""Mixture of Gaussians, weights, means and precisions unknown: `cavity.factors.mixtures.conjugate` in closed form."""

from dataclasses import field, replace
from typing import Any

import numpy as np

from cavity._array import Array, namespace
from cavity._precision import in_float64
from cavity._pytree import pytree
from cavity.factors.base import Factor, as_rows
from cavity.factors.mixtures.cavity import Cavity
from cavity.factors.mixtures.host import OnHost
from cavity.factors.mixtures.weights import check_parts, log_sum_exp, shares
from cavity.families import NormalGamma, NormalWishart, Product
from cavity.families.base import describe
from cavity.inference.contract import Sums


@pytree
class GaussianMixture(Factor):
    """A mixture of Gaussians; its components are `NormalWishart` or `NormalGamma`."""

    row_by_row: bool = field(default=False, metadata={"static": True})  # its evidence

    def smooth(self) -> "GaussianMixture":
        """Eigenvectors, which the evidence of many rows at once needs, have no derivative where eigenvalues agree."""
        return replace(self, row_by_row=True)

    def log_mean(self, q: Product, datum: Array, power: float) -> Array:
        return log_sum_exp(self.log_joint(q, datum, power)[:, None])[0]

    def log_joint(self, q: Product, datum: Array, power: float) -> Array:
        """ℓ_α(j) for each component, (22)."""
        cavity = Cavity.of(q, power)
        squares = cavity.parts.squares(cavity.parts.from_mean(datum[None]))
        return (cavity.log_weights + cavity.parts.log_mean(squares))[:, 0]

    @in_float64
    def responsibilities(self, q: Product, datum: Any, power: float = 1.0) -> Array:
        """The posterior of the assignment, softmax_j ℓ_α(j)."""
        datum = datum if hasattr(datum, "ndim") else np.asarray(datum, dtype=float)
        return shares(self.log_joint(q, datum, power)[:, None])[1][:, 0]

    def has_host_form(self) -> bool:
        """Whether reads compute with NumPy where all numbers are NumPy's."""
        return True

    def estimate(self, cavity: Product, datum: Array, power: float) -> tuple[Product, Array]:
        seen = Cavity.of(cavity, power)
        rows = seen.match(datum[None])
        return seen.total(rows, namespace(rows.log_means).isfinite(rows.log_means).astype(float)), rows.log_means[0]

    def site(self, cavity: Product, datum: Array, power: float) -> Product:
        return self.estimate(cavity, datum, power)[0]

    def sums(self, prior: Any, data: Any, algorithm: Any) -> Sums:
        return OnHost(self, prior, np.shape(data)[1], algorithm)

    def check(self, prior: Any, data: Any) -> np.ndarray:
        check_parts(prior)
        components, data = prior["components"], as_rows(data)
        shape = np.shape(getattr(components, "shift", 0.0))
        diagonal = isinstance(components, NormalGamma) and len(shape) == 3 and shape[2] == 1
        if not isinstance(components, NormalWishart | NormalGamma) or not (len(shape) == 2 or diagonal):
            raise ValueError(
                "prior['components'] must be a NormalWishart or NormalGamma with means of shape (components, features),"
                " or for a precision of each feature a NormalGamma with means of shape (components, features, 1); got "
                f"{describe(components)}."
            )
        if not isinstance(data, np.ndarray) or data.ndim != 2 or data.shape[1] != shape[1]:
            got = f"shape {data.shape}" if isinstance(data, np.ndarray) else type(data).__name__
            raise ValueError(f"data must be a matrix with one row per datum and {shape[1]} columns; got {got}.")
        return data


def gaussian_mixture() -> GaussianMixture:
    """A mixture of Gaussians whose weights, means and precisions are unknown together.

    The prior is a dict of "weights", a Dirichlet, and "components" with a leading axis for them: a `NormalWishart` for
    full precision matrices, a `NormalGamma` with means (J, D) for one precision each, or with means (J, D, 1) for one
    in each direction. Components that are alike in the prior stay alike: begin elsewhere, `fit(start=…)`.

    >>> import cavity, numpy as np
    >>> from cavity.factors.mixtures.gaussian import gaussian_mixture
    >>> x = np.concatenate([np.linspace(-3, -2, 20), np.linspace(2, 3, 20)])[:, None]
    >>> apart = cavity.NormalGamma.from_parameters([[-1.0], [1.0]], np.full(2, 0.1), np.ones(2), np.ones(2))
    >>> prior = {"weights": cavity.Dirichlet([1.0, 1.0]), "components": apart}
    >>> cavity.fit(gaussian_mixture(), prior, x, cavity.aep()).posterior["components"].mean.round(2)
    array([[-2.49],
           [ 2.49]])
    """
    return GaussianMixture()
