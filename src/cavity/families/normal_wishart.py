"""The Normal–Wishart distribution over the mean and precision of a Gaussian."""

from typing import Any, Self

import numpy as np

from cavity import linalg
from cavity._array import Array, namespace
from cavity._precision import in_float64, is_traced
from cavity.families.base import ExpFamily, as_array, as_float64, check_alike, family
from cavity.families.gaussian import check_vector, times
from cavity.families.inverse import wishart_df
from cavity.families.precision_reads import kept, read_once
from cavity.families.stirling import gap
from cavity.families.wishart_reads import (
    mean_logdet,
    mean_logdet_slope,
    wishart_draw,
    wishart_kls,
    wishart_log_partition,
)


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
    def from_parameters(cls, mean: Any, count: Any, df: Any, scale: Any) -> Self:
        """m, κ, ν and V: E[μ] = m, E[W] = ν V, Cov[μ|W] = (κW)⁻¹."""
        if not is_traced(mean, scale):
            shape = np.shape(check_vector(mean))
            linalg.check_covariance("scale", scale, (*shape, shape[-1]))
        mean, count, df, scale = (as_float64(part) for part in (mean, count, df, scale))
        inverse_scale = linalg.inverse(linalg.cholesky(scale))
        return cls(count[..., None] * mean, count, df, inverse_scale + count[..., None, None] * linalg.outer(mean))

    def has_host_form(self) -> bool:
        return True

    @property
    @in_float64
    def mean(self) -> Array:
        """E[μ] = m."""
        return self.shift / self.count[..., None]

    @property
    @in_float64
    def covariance(self) -> Array:
        """Cov[μ] = V⁻¹/(κ(ν − D − 1)), for ν > D + 1."""
        chol = self.inverse_scale_cholesky()
        excess = self.count * (self.df - chol.shape[-1] - 1)
        wide = namespace(excess).where(excess > 0, excess, np.nan)
        return chol @ chol.swapaxes(-1, -2) / wide[..., None, None]

    @property
    @in_float64
    def mean_precision(self) -> Array:
        """E[W] = ν V."""
        return self.df[..., None, None] * linalg.inverse(self.inverse_scale_cholesky())

    @in_float64
    def log_partition(self) -> Array:
        return self.log_partitions().sum()

    def log_partitions(self) -> Array:
        """A of each independent copy."""
        chol = self.inverse_scale_cholesky()
        normal = -0.5 * chol.shape[-1] * namespace(self.count).log(self.count / (2 * np.pi))
        return normal + wishart_log_partition(self.df, chol)

    @in_float64
    def moments(self) -> Self:
        return read_once(self, "_moments", self._moments_now)

    def _moments_now(self) -> Self:
        mean, precision = self.mean, self.mean_precision
        shift = times(precision, mean)
        square = mean.shape[-1] / self.count + (mean * shift).sum(-1)
        half_logdet = 0.5 * mean_logdet(self.df, self.inverse_scale_cholesky())
        return type(self)(shift, -0.5 * square, half_logdet, -0.5 * precision)

    @in_float64
    def moments_along(self, direction: Self) -> Self:
        mean, scale = self.mean, linalg.inverse(self.inverse_scale_cholesky())
        both = direction.shift[..., :, None] * mean[..., None, :]
        by_rate = direction.rate - both - both.swapaxes(-1, -2)
        by_rate = by_rate + direction.count[..., None, None] * linalg.outer(mean)  # of V⁻¹
        moved = (direction.shift - direction.count[..., None] * mean) / self.count[..., None]
        precision = direction.df[..., None, None] * scale - self.df[..., None, None] * (scale @ by_rate @ scale)
        shift = times(precision, mean) + self.df[..., None] * times(scale, moved)
        square = (mean * shift).sum(-1) + self.df * (moved * times(scale, mean)).sum(-1)
        square = square - mean.shape[-1] * direction.count / self.count**2
        logdet = mean_logdet_slope(self.df, mean.shape[-1]) * direction.df - (scale * by_rate).sum((-2, -1))
        return type(self)(shift, -0.5 * square, 0.5 * logdet, -0.5 * precision)

    @in_float64
    def from_moments(self) -> Self:
        chol = linalg.cholesky(-2.0 * self.rate)
        dim = chol.shape[-1]
        mean = linalg.solve(chol, self.shift)
        count = dim / (-2.0 * self.count - (mean * self.shift).sum(-1))
        df = wishart_df(linalg.logdet(chol) - 2.0 * self.df, dim)
        rate = df[..., None, None] * linalg.inverse(chol) + count[..., None, None] * linalg.outer(mean)
        return type(self)(count[..., None] * mean, count, df, rate)

    @in_float64
    def kl(self, other: Self) -> Array:
        # ½ [D gap(κ'/κ − 1) + κ' (m − m')ᵀ E[W] (m − m')], the mean's part, and that of W.
        check_alike(self, other)
        chol, step = self.inverse_scale_cholesky(), self.mean - other.mean
        half = linalg.solve_triangular(chol, step[..., None])[..., 0]
        spread = chol.shape[-1] * gap((other.count - self.count) / self.count)
        means = (spread + other.count * self.df * (half**2).sum(-1)).sum()
        return 0.5 * means + wishart_kls(self.df, chol, other.df, other.inverse_scale_cholesky()).sum()

    @in_float64
    def distance(self, other: Self) -> Array:
        square = self.kl(other) + other.kl(self)  # ⟨Δη, Δμ⟩, whose raw moments would cancel
        return namespace(square).sqrt(namespace(square).maximum(square, 0.0))

    @in_float64
    def is_proper(self) -> Array:
        xp = namespace(self.count, self.df, self.rate)
        scalars = (self.count > 0) & xp.isfinite(self.count) & (self.df > np.shape(self.shift)[-1] - 1)
        matrices = xp.all(xp.isfinite(self.inverse_scale_cholesky()), axis=(-2, -1))
        return xp.all(scalars & xp.isfinite(self.df) & matrices & xp.all(xp.isfinite(self.shift), axis=-1))

    @in_float64
    def statistics(self, theta: tuple[Array, Array]) -> Self:
        mu, precision = map(as_array, theta)
        shift = times(precision, mu)
        half_logdet = 0.5 * linalg.logdet(linalg.cholesky(precision))
        return type(self)(shift, -0.5 * (mu * shift).sum(-1), half_logdet, -0.5 * precision)

    @in_float64
    def log_base(self, theta: tuple[Array, Array]) -> Array:
        precision = as_array(theta[1])
        return -0.5 * precision.shape[-1] * linalg.logdet(linalg.cholesky(precision)).sum()

    @in_float64
    def log_weight(self, theta: tuple[Array, Array]) -> Array:
        xp = namespace(theta[1], self.shift)
        inside = xp.all(linalg.is_positive_definite(as_array(theta[1])))
        return xp.where(inside, super().log_weight(theta), -np.inf)[()]

    @in_float64
    def expected_log_base(self, moments: Self) -> Array:
        return -np.shape(self.shift)[-1] * moments.df.sum()

    def event_shape(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return tuple(np.shape(self.shift)), tuple(np.shape(self.rate))

    def draw(self, key: Array) -> tuple[Array, Array]:
        import jax

        key_mean, key_precision = jax.random.split(key)
        precision = wishart_draw(key_precision, self.df, self.inverse_scale_cholesky())
        chol = linalg.cholesky(self.count[..., None, None] * precision)
        noise = jax.random.normal(key_mean, np.shape(self.shift), dtype=float)[..., None]
        return self.mean + linalg.solve_triangular(chol, noise, transposed=True)[..., 0], precision

    def inverse_scale_cholesky(self) -> Array:
        """L with L Lᵀ = V⁻¹."""
        inverse = lambda: self.rate - linalg.outer(self.shift) / self.count[..., None, None]
        return read_once(self, "_chol", lambda: kept(linalg.cholesky(inverse())))
