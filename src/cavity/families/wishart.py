"""The Wishart distribution over precision matrices."""

from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import gammaln

from cavity import linalg
from cavity._precision import in_float64, is_traced
from cavity.families.base import ExpFamily, check_alike, family
from cavity.families.inverse import wishart_df
from cavity.families.stirling import stirling_bregman, triangle_gap, wishart_bregman, wishart_excess


@family
class Wishart(ExpFamily):
    """|W|^{(ν−D−1)/2} e^{−½ tr RW} / Z, with T(W) = (½ log |W|, −½ W) and base |W|^{−(D+1)/2} dW, so that η = (ν, R).

    R = `rate` is the inverse of the scale matrix: E[W] = ν R⁻¹.

    >>> import numpy as np
    >>> from cavity.families import Wishart
    >>> Wishart(4.0, 4.0 * np.eye(2)).mean.tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    df: Array
    rate: Array

    def __post_init__(self) -> None:
        df, rate = np.shape(self.df), np.shape(self.rate)
        if not is_traced(self.df, self.rate) and (len(rate) < 2 or rate != (*df, rate[-1], rate[-1])):
            raise ValueError(f"rate must be square matrices with the leading axes of df, {df}; got shape {rate}.")

    @property
    @in_float64
    def mean(self) -> Array:
        """E[W] = ν R⁻¹."""
        return jnp.asarray(self.df)[..., None, None] * linalg.inverse(linalg.cholesky(self.rate))

    @property
    @in_float64
    def variance(self) -> Array:
        """Var[W_ij] = (M_ij² + M_ii M_jj)/ν with M = E[W]."""
        mean = self.mean
        diagonal = jnp.diagonal(mean, axis1=-2, axis2=-1)
        return (mean**2 + linalg.outer(jnp.asarray(diagonal))) / jnp.asarray(self.df)[..., None, None]

    @in_float64
    def log_partition(self) -> Array:
        return jnp.sum(wishart_log_partition(self.df, linalg.cholesky(self.rate)))

    @in_float64
    def moments(self) -> Self:
        return type(self)(0.5 * mean_logdet(self.df, linalg.cholesky(self.rate)), -0.5 * self.mean)

    @in_float64
    def from_moments(self) -> Self:
        chol = linalg.cholesky(-2.0 * self.rate)
        df = wishart_df(linalg.logdet(chol) - 2.0 * self.df, chol.shape[-1])
        return type(self)(df, df[..., None, None] * linalg.inverse(chol))

    @in_float64
    def kl(self, other: Self) -> Array:
        check_alike(self, other)
        return wishart_kl(self.df, linalg.cholesky(self.rate), other.df, linalg.cholesky(other.rate))

    @in_float64
    def is_proper(self) -> Array:
        enough = (jnp.asarray(self.df) > np.shape(self.rate)[-1] - 1) & jnp.isfinite(self.df)
        return jnp.all(enough & linalg.is_positive_definite(self.rate))

    @in_float64
    def statistics(self, theta: Array) -> Self:
        return type(self)(0.5 * linalg.logdet(linalg.cholesky(theta)), -0.5 * theta)

    @in_float64
    def log_base(self, theta: Array) -> Array:
        return -0.5 * (theta.shape[-1] + 1) * jnp.sum(linalg.logdet(linalg.cholesky(theta)))

    @in_float64
    def log_weight(self, theta: Array) -> Array:
        inside = jnp.all(linalg.is_positive_definite(theta))
        return jnp.where(inside, super().log_weight(theta), -jnp.inf)

    @in_float64
    def expected_log_base(self, moments: Self) -> Array:
        return -(np.shape(self.rate)[-1] + 1) * jnp.sum(moments.df)

    def event_shape(self) -> tuple[int, ...]:
        return tuple(np.shape(self.rate))

    def draw(self, key: Array) -> Array:
        return wishart_draw(key, self.df, linalg.cholesky(self.rate))


def wishart_log_partition(df: Array, chol: Array) -> Array:
    """(νD/2) log 2 + log Γ_D(ν/2) − (ν/2) log |R|, one number per copy, from R = L Lᵀ."""
    dim = chol.shape[-1]
    log_gamma = jnp.sum(gammaln(_halves(df, dim)), axis=-1) + dim * (dim - 1) / 4 * jnp.log(jnp.pi)
    return log_gamma + 0.5 * df * (dim * jnp.log(2.0) - linalg.logdet(chol))


def mean_logdet(df: Array, chol: Array) -> Array:
    """E[log |W|] = Σ_{i<D} ψ((ν − i)/2) + D log 2 − log |R|, relative to log |E[W]| = D log ν − log |R|."""
    dim = chol.shape[-1]
    return dim * jnp.log(df) - linalg.logdet(chol) - wishart_excess(0.5 * (jnp.asarray(df) - dim + 1), dim)


def wishart_kl(df: Array, chol: Array, df_other: Array, chol_other: Array) -> Array:
    """KL between Wisharts with rates R = L Lᵀ, summed over copies.

    ½ν' [tr M − D − log |M|] with M = (ν/ν') L⁻¹R'L⁻ᵀ, the ratio of their means, and what the log-gammas leave: no term
    is of the order of ν, as those of A(η) are.
    """
    df, df_other, dim = jnp.asarray(df), jnp.asarray(df_other), chol.shape[-1]
    ratio = jnp.sqrt(df / df_other)[..., None, None] * linalg.solve_triangular(chol, chol_other)
    rest = stirling_bregman(_halves(df, dim), _halves(df_other, dim))
    return jnp.sum(0.5 * df_other * triangle_gap(ratio)) + wishart_bregman(df, df_other, dim) + jnp.sum(rest)


def wishart_draw(key: Array, df: Array, chol: Array) -> Array:
    """L⁻ᵀ B Bᵀ L⁻¹, with B lower triangular by Bartlett: χ on the diagonal, normal below."""
    dim = chol.shape[-1]
    key_diagonal, key_below = jax.random.split(key)
    log_chi2 = jnp.log(2.0) + jax.random.loggamma(key_diagonal, _halves(df, dim), dtype=float)
    below = jnp.tril(jax.random.normal(key_below, chol.shape, dtype=float), -1)
    bartlett = below + jnp.exp(0.5 * log_chi2)[..., None] * jnp.eye(dim)
    root = linalg.solve_triangular(chol, bartlett, transposed=True)
    return root @ jnp.swapaxes(root, -1, -2)


def _halves(df: Array, dim: int) -> Array:
    return 0.5 * (jnp.asarray(df)[..., None] - jnp.arange(dim))
