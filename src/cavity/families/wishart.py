"""The Wishart distribution over precision matrices."""

from typing import Self

import jax.numpy as jnp
import numpy as np
from jax import Array

from cavity import linalg
from cavity._precision import in_float64, is_traced
from cavity.families.base import ExpFamily, check_alike, family
from cavity.families.inverse import wishart_df
from cavity.families.wishart_reads import mean_logdet, wishart_draw, wishart_kls, wishart_log_partition


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
        chols = linalg.cholesky(self.rate), linalg.cholesky(other.rate)
        return jnp.sum(wishart_kls(jnp.asarray(self.df), chols[0], jnp.asarray(other.df), chols[1]))

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
