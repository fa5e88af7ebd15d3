"""Generalised linear models: p(y | x, θ) = p(y | a) with activation a = xᵀθ.

All a factor needs of q is the marginal N(m, v) of the activation. With ℓ(m, v) = (1/α) log E[p(y|a)^α], its slope
g = ∂ℓ/∂m and curvature h = ∂²ℓ/∂m², the datum's site is exp(ν a − ½ τ a²) with

    τ = −h / (1 + α v h),   ν = τ m + g / (1 + α v h),

at every power, zero included (equation (37) of docs/mathematics.md).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from cavity import _tree as tree
from cavity import linalg
from cavity._array import Array
from cavity._checks import as_numbers
from cavity._pytree import pytree
from cavity.factors.base import Factor
from cavity.factors.glm.coordinates import InCoordinates
from cavity.factors.glm.host import OnHost
from cavity.factors.glm.line import line_site
from cavity.factors.glm.reduction import to_row_space
from cavity.factors.glm.rows import SparseRows, spread_out
from cavity.families import DiagonalGaussian, Gaussian
from cavity.quadrature import Tilt


@pytree
class GLM(Factor):
    """A factor whose data are `(X, y)` and whose likelihood sees xᵀθ only."""

    likelihood: Any

    def log_mean(self, q: Any, datum: Any, power: float) -> Array:
        x, y = datum
        return self.likelihood.log_mean(y, *activation(q, x), power)

    def site(self, cavity: Any, datum: Any, power: float) -> Any:
        return self.estimate(cavity, datum, power)[0]

    def estimate(self, cavity: Any, datum: Any, power: float) -> tuple[Any, Array]:
        x, y = spread_out(datum[0]), datum[1]
        tilt = self.likelihood.tilt(y, *activation(cavity, x), power)
        if isinstance(cavity, DiagonalGaussian):  # each coordinate is matched by itself: slope x g, curvature x² h
            curvature = x**2 * tilt.curvature
            shrinkage = 1 + power * cavity.variance * curvature
            precision = -curvature / shrinkage
            return type(cavity)(precision * cavity.mean + x * tilt.slope / shrinkage, precision), tilt.log_mean
        shift, precision = line_site(tilt, activation(cavity, x)[0])
        return type(cavity)(shift * x, precision * linalg.outer(x)), tilt.log_mean

    def check(self, prior: Any, data: Any) -> Any:
        if not isinstance(prior, Gaussian | DiagonalGaussian) or np.ndim(prior.shift) != 1:
            raise ValueError(
                "prior must be a Gaussian or DiagonalGaussian over one vector of coefficients; got "
                f"{type(prior).__name__} of shape {prior.event_shape()}. Use cavity.Gaussian.isotropic(X.shape[1])."
            )
        if not (isinstance(data, tuple | list) and len(data) == 2):
            raise ValueError("data must be a pair (X, y) of features and observations.")
        features = as_matrix(data[0], len(prior.shift))
        y = self.likelihood.check(data[1])
        for part in tree.leaves(y):
            if part.shape != features.shape[:1]:
                raise ValueError(f"y must have one entry per row of X, ({len(features)},); got shape {part.shape}.")
        return features, y

    def simplify(self, prior: Any, data: Any) -> tuple[Any, Any, Callable[[Any], Any] | None]:
        features, y = data
        if not isinstance(prior, Gaussian) or features.shape[0] >= features.shape[1]:
            return prior, data, None
        prior, features, lift = to_row_space(prior, features)
        return prior, (features, y), lift

    def smooth(self) -> "GLM":
        return GLM(ByDerivatives(self.likelihood))

    def sums(self, prior: Any, data: Any, algorithm: Any) -> Any:
        return OnHost(self, prior, data[0]) if isinstance(prior, Gaussian) else InCoordinates(self, prior, data[0])

    def log_lik(self, theta: Any, datum: Any) -> Array:
        x, y = datum
        return self.likelihood.log_lik(y, x @ theta)


@pytree
class ByDerivatives:
    """A likelihood whose tilt is read off the derivatives of its log-mean, and so can be differentiated again."""

    likelihood: Any

    def log_mean(self, y: Array, mean: Array, variance: Array, power: float) -> Array:
        return self.likelihood.log_mean(y, mean, variance, power)

    def tilt(self, y: Array, mean: Array, variance: Array, power: float) -> Tilt:
        import jax

        value = lambda m: self.log_mean(y, m, variance, power)
        slope = jax.grad(value)
        curvature = jax.grad(slope)(mean)
        return Tilt(value(mean), slope(mean), curvature, 1 + power * variance * curvature)


def activation(q: Any, x: Array) -> tuple[Array, Array]:
    """Mean and variance of xᵀθ."""
    x = spread_out(x)
    if isinstance(q, DiagonalGaussian):
        return x @ q.mean, x**2 @ q.variance
    return x @ q.mean, x @ q.covariance @ x


def as_matrix(features: Any, dim: int) -> Any:
    """X as finite float64 rows with `dim` columns, dense or sparse, or a ValueError that says what is wrong."""
    is_sparse = hasattr(features, "tocsr")  # SciPy's
    features = features.tocsr().astype(np.float64) if is_sparse else as_numbers("X", features)
    if features.ndim != 2:
        raise ValueError(f"X must have two dimensions (rows, features); got shape {features.shape}.")
    if features.shape[1] != dim:
        raise ValueError(
            f"X must have as many columns as the prior has coefficients, {dim}; got {features.shape[1]}. "
            f"Use a prior over {features.shape[1]} coefficients, or add the intercept column to X."
        )
    entries = features.data if is_sparse else features
    largest = float(max(np.max(entries, initial=0.0), -np.min(entries, initial=0.0)))  # with NaN it is NaN
    if not np.isfinite(largest):
        raise ValueError("X must be finite; got NaN or infinity. Remove or impute those rows.")
    if largest > LARGEST_FEATURE:
        raise ValueError(f"X must not exceed {LARGEST_FEATURE:g} in size, or its square overflows; got {largest:g}.")
    return SparseRows.of(features) if is_sparse else features


LARGEST_FEATURE = 1e140
