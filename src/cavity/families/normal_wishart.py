"""The Normal–Wishart distribution over the mean and precision of a Gaussian."""

from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from cavity import linalg
from cavity._precision import in_float64, is_traced
from cavity.families.base import ExpFamily, check_alike, family
from cavity.families.gaussian import check_vector
from cavity.families.inverse import wishart_df
from cavity.families.stirling import gap
from cavity.families.wishart import mean_logdet, wishart_draw, wishart_kl, wishart_log_partition


@family
class NormalWishart(ExpFamily):
    """N(μ; m, (κW)⁻¹) Wishart(W; ν, V), θ = (μ, W), with T = (Wμ, −½ μᵀWμ, ½ log |W|, −½ W) and base |W|^{−D/2}.

    So η = (κm, κ, ν, V⁻¹ + κ m mᵀ). Build one with `from_parameters`; the constructor takes the natural parameters.

    >>> import numpy as np
    >>> from cavity.families import NormalWishart
    >>> NormalWishart.from_parameters([1.0, 2.0], 0.5, 4.0, np.eye(2)).mean.tolist()
    [1.0, 2.0]
    """

    shift: Any
    count: Any
    df: Any
    rate: Any

    def __post_init__(self) -> None:
        if is_traced(self.shift, self.count, self.df, self.rate):
            return
        shift = np.shape(self.shift)
        if not shift:
            raise ValueError("shift must be a vector on its last axis; got a scalar.")
        wanted = {"count": shift[:-1], "df": shift[:-1], "rate": (*shift, shift[-1])}
        for name, shape in wanted.items():
            if np.shape(getattr(self, name)) != shape:
                raise ValueError(
                    f"{name} must have shape {shape} to go with shift; got {np.shape(getattr(self, name))}."
                )

    @classmethod
    @in_float64
    def from_parameters(cls, mean: Any, count: Any, df: Any, scale: Any) -> Self:
        """m, κ, ν and V: E[μ] = m, E[W] = ν V, Cov[μ|W] = (κW)⁻¹."""
        if not is_traced(mean, scale):
            shape = np.shape(check_vector(mean))
            linalg.check_covariance("scale", scale, (*shape, shape[-1]))
        mean, count, df, scale = (jnp.asarray(part, dtype=float) for part in (mean, count, df, scale))
        inverse_scale = linalg.inverse(linalg.cholesky(scale))
        return cls(count[..., None] * mean, count, df, inverse_scale + count[..., None, None] * linalg.outer(mean))

    @property
    @in_float64
    def mean(self) -> Array:
        """E[μ] = m."""
        return self.shift / jnp.asarray(self.count)[..., None]

    @property
    @in_float64
    def covariance(self) -> Array:
        """Cov[μ] = V⁻¹/(κ(ν − D − 1)), for ν > D + 1."""
        chol = self._inverse_scale_cholesky()
        excess = jnp.asarray(self.count * (self.df - chol.shape[-1] - 1))
        return chol @ jnp.swapaxes(chol, -1, -2) / jnp.where(excess > 0, excess, jnp.nan)[..., None, None]

    @property
    @in_float64
    def mean_precision(self) -> Array:
        """E[W] = ν V."""
        return jnp.asarray(self.df)[..., None, None] * linalg.inverse(self._inverse_scale_cholesky())

    @in_float64
    def log_partition(self) -> Array:
        chol = self._inverse_scale_cholesky()
        normal = -0.5 * chol.shape[-1] * jnp.log(jnp.asarray(self.count) / (2 * jnp.pi))
        return jnp.sum(normal + wishart_log_partition(self.df, chol))

    @in_float64
    def moments(self) -> Self:
        mean, precision = self.mean, self.mean_precision
        shift = jnp.einsum("...ij,...j->...i", precision, mean)
        square = mean.shape[-1] / jnp.asarray(self.count) + jnp.sum(mean * shift, axis=-1)
        half_logdet = 0.5 * mean_logdet(self.df, self._inverse_scale_cholesky())
        return type(self)(shift, -0.5 * square, half_logdet, -0.5 * precision)

    @in_float64
    def from_moments(self) -> Self:
        chol = linalg.cholesky(-2.0 * self.rate)
        dim = chol.shape[-1]
        mean = linalg.solve(chol, jnp.asarray(self.shift))
        count = dim / (-2.0 * self.count - jnp.sum(mean * self.shift, axis=-1))
        df = wishart_df(linalg.logdet(chol) - 2.0 * self.df, dim)
        rate = df[..., None, None] * linalg.inverse(chol) + count[..., None, None] * linalg.outer(mean)
        return type(self)(count[..., None] * mean, count, df, rate)

    @in_float64
    def kl(self, other: Self) -> Array:
        # ½ [D gap(κ'/κ − 1) + κ' (m − m')ᵀ E[W] (m − m')], the mean's part, and that of W.
        check_alike(self, other)
        chol, step = self._inverse_scale_cholesky(), self.mean - other.mean
        half = linalg.solve_triangular(chol, step[..., None])[..., 0]
        spread = chol.shape[-1] * gap((other.count - self.count) / jnp.asarray(self.count))
        means = jnp.sum(spread + other.count * self.df * jnp.sum(half**2, axis=-1))
        return 0.5 * means + wishart_kl(self.df, chol, other.df, other._inverse_scale_cholesky())

    @in_float64
    def distance(self, other: Self) -> Array:
        return jnp.sqrt(jnp.maximum(self.kl(other) + other.kl(self), 0.0))  # ⟨Δη, Δμ⟩, whose raw moments would cancel

    @in_float64
    def is_proper(self) -> Array:
        count, df = jnp.asarray(self.count), jnp.asarray(self.df)
        scalars = (count > 0) & jnp.isfinite(count) & (df > np.shape(self.shift)[-1] - 1) & jnp.isfinite(df)
        matrices = jnp.all(jnp.isfinite(self._inverse_scale_cholesky()), axis=(-2, -1))
        return jnp.all(scalars & matrices & jnp.all(jnp.isfinite(self.shift), axis=-1))

    @in_float64
    def statistics(self, theta: tuple[Array, Array]) -> Self:
        mu, precision = theta
        shift = jnp.einsum("...ij,...j->...i", precision, mu)
        half_logdet = 0.5 * linalg.logdet(linalg.cholesky(precision))
        return type(self)(shift, -0.5 * jnp.sum(mu * shift, axis=-1), half_logdet, -0.5 * precision)

    @in_float64
    def log_base(self, theta: tuple[Array, Array]) -> Array:
        return -0.5 * theta[1].shape[-1] * jnp.sum(linalg.logdet(linalg.cholesky(theta[1])))

    @in_float64
    def log_weight(self, theta: tuple[Array, Array]) -> Array:
        inside = jnp.all(linalg.is_positive_definite(theta[1]))
        return jnp.where(inside, super().log_weight(theta), -jnp.inf)

    @in_float64
    def expected_log_base(self, moments: Self) -> Array:
        return -np.shape(self.shift)[-1] * jnp.sum(moments.df)

    def event_shape(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return tuple(np.shape(self.shift)), tuple(np.shape(self.rate))

    def draw(self, key: Array) -> tuple[Array, Array]:
        key_mean, key_precision = jax.random.split(key)
        precision = wishart_draw(key_precision, self.df, self._inverse_scale_cholesky())
        chol = linalg.cholesky(jnp.asarray(self.count)[..., None, None] * precision)
        noise = jax.random.normal(key_mean, np.shape(self.shift), dtype=float)[..., None]
        return self.mean + linalg.solve_triangular(chol, noise, transposed=True)[..., 0], precision

    def _inverse_scale_cholesky(self) -> Array:
        shift, count = jnp.asarray(self.shift), jnp.asarray(self.count)[..., None, None]
        return linalg.cholesky(self.rate - linalg.outer(shift) / count)
