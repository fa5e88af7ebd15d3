"""The Normal–Gamma distribution over the mean of a Gaussian and one precision that its coordinates share."""

from typing import Any, Self

import numpy as np

from cavity._array import Array, namespace
from cavity._precision import in_float64, is_traced
from cavity.families.base import ExpFamily, as_array, as_float64, check_alike, family
from cavity.families.gaussian import check_vector
from cavity.families.inverse import gamma_shape
from cavity.families.stirling import gap, log_minus_digamma, stirling_bregman, trigamma
from cavity.special import log_gamma


@family
class NormalGamma(ExpFamily):
    """N(μ; m, (κw)⁻¹ I) Gamma(w; a, b), θ = (μ, w), with T = (wμ, −½ w‖μ‖², log w, −w) and base w^{D/2 − 1}.

    So η = (κm, κ, a, b + ½ κ‖m‖²). μ is a vector on the last axis and w one number: with one coordinate, and a leading
    axis for the coordinates, each has a precision of its own. Build one with `from_parameters`; the constructor takes
    the natural parameters.

    >>> from cavity.families import NormalGamma
    >>> NormalGamma.from_parameters([1.0, 2.0], 0.5, 4.0, 2.0).mean_precision.item()
    2.0
    """

    shift: Any
    count: Any
    shape: Any
    rate: Any

    def __post_init__(self) -> None:
        if is_traced(self.shift, self.count, self.shape, self.rate):
            return
        if not np.shape(self.shift):
            raise ValueError("shift must be a vector on its last axis; got a scalar.")
        lead = np.shape(self.shift)[:-1]
        for name in ("count", "shape", "rate"):
            if np.shape(getattr(self, name)) != lead:
                raise ValueError(
                    f"{name} must have shape {lead} to go with shift; got {np.shape(getattr(self, name))}."
                )

    @classmethod
    def from_parameters(cls, mean: Any, count: Any, shape: Any, rate: Any) -> Self:
        """m, κ, a and b: E[μ] = m, E[w] = a/b, Cov[μ|w] = (κw)⁻¹ I."""
        if not is_traced(mean):
            check_vector(mean)
        mean, count, shape, rate = (as_float64(part) for part in (mean, count, shape, rate))
        return cls(count[..., None] * mean, count, shape, rate + 0.5 * count * (mean**2).sum(-1))

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
        """Cov[μ] = b/(κ(a − 1)) I, for a > 1."""
        excess = self.count * (self.shape - 1)
        variance = self.rate_of_precision() / namespace(excess).where(excess > 0, excess, np.nan)
        return variance[..., None, None] * np.eye(np.shape(self.shift)[-1])

    @property
    @in_float64
    def mean_precision(self) -> Array:
        """E[w] = a/b."""
        return self.shape / self.rate_of_precision()

    @in_float64
    def log_partition(self) -> Array:
        return self.log_partitions().sum()

    def log_partitions(self) -> Array:
        """A of each independent copy."""
        xp = namespace(self.count, self.shape)
        normal = -0.5 * np.shape(self.shift)[-1] * xp.log(self.count / (2 * np.pi))
        return normal + log_gamma(self.shape) - self.shape * xp.log(self.rate_of_precision())

    @in_float64
    def moments(self) -> Self:
        mean, precision = self.mean, self.mean_precision
        shift = precision[..., None] * mean
        square = mean.shape[-1] / self.count + (mean * shift).sum(-1)
        mean_log = namespace(precision).log(precision) - log_minus_digamma(self.shape)
        return type(self)(shift, -0.5 * square, mean_log, -precision)

    @in_float64
    def moments_along(self, direction: Self) -> Self:
        mean, rate, precision = self.mean, self.rate_of_precision(), self.mean_precision
        moved = (direction.shift - direction.count[..., None] * mean) / self.count[..., None]
        by_rate = direction.rate - (mean * direction.shift).sum(-1) + 0.5 * direction.count * (mean**2).sum(-1)
        by_precision = (direction.shape - precision * by_rate) / rate
        shift = by_precision[..., None] * mean + precision[..., None] * moved
        square = by_precision * (mean**2).sum(-1) + 2 * precision * (mean * moved).sum(-1)
        square -= mean.shape[-1] * direction.count / self.count**2
        mean_log = trigamma(self.shape) * direction.shape - by_rate / rate
        return type(self)(shift, -0.5 * square, mean_log, -by_precision)

    @in_float64
    def from_moments(self) -> Self:
        precision = -self.rate
        mean = self.shift / precision[..., None]
        count = mean.shape[-1] / (-2.0 * self.count - (mean * self.shift).sum(-1))
        shape = gamma_shape(namespace(precision).log(precision) - self.shape)
        rate = shape / precision + 0.5 * count * (mean**2).sum(-1)
        return type(self)(count[..., None] * mean, count, shape, rate)

    @in_float64
    def kl(self, other: Self) -> Array:
        # ½ [D gap(κ'/κ − 1) + κ' E[w] ‖m − m'‖²], the mean's part, and that of w.
        check_alike(self, other)
        precision, of_other = self.mean_precision, other.mean_precision
        spread = np.shape(self.shift)[-1] * gap((other.count - self.count) / self.count)
        step = other.count * precision * ((self.mean - other.mean) ** 2).sum(-1)
        ratio = gap((precision - of_other) / of_other)
        return (0.5 * (spread + step) + other.shape * ratio + stirling_bregman(self.shape, other.shape)).sum()

    @in_float64
    def distance(self, other: Self) -> Array:
        square = self.kl(other) + other.kl(self)  # ⟨Δη, Δμ⟩, whose raw moments would cancel
        return namespace(square).sqrt(namespace(square).maximum(square, 0.0))

    @in_float64
    def is_proper(self) -> Array:
        rate = self.rate_of_precision()
        xp = namespace(rate)
        positive = xp.stack([self.count, self.shape, rate])
        return xp.all((positive > 0) & xp.isfinite(positive)) & xp.all(xp.isfinite(self.shift))

    @in_float64
    def statistics(self, theta: tuple[Array, Array]) -> Self:
        mu, w = map(as_array, theta)
        return type(self)(w[..., None] * mu, -0.5 * w * (mu**2).sum(-1), namespace(w).log(w), -w)

    @in_float64
    def log_base(self, theta: tuple[Array, Array]) -> Array:
        w = as_array(theta[1])
        return (0.5 * np.shape(theta[0])[-1] - 1) * namespace(w).log(w).sum()

    @in_float64
    def log_weight(self, theta: tuple[Array, Array]) -> Array:
        w = as_array(theta[1])
        xp = namespace(w, self.shift)
        inside = xp.all((w > 0) & xp.isfinite(w))
        return xp.where(inside, super().log_weight((theta[0], xp.where(w > 0, w, 1.0))), -np.inf)[()]

    @in_float64
    def expected_log_base(self, moments: Self) -> Array:
        return (0.5 * np.shape(self.shift)[-1] - 1) * moments.shape.sum()

    def event_shape(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return tuple(np.shape(self.shift)), tuple(np.shape(self.count))

    def draw(self, key: Array) -> tuple[Array, Array]:
        import jax
        import jax.numpy as jnp

        key_mean, key_precision = jax.random.split(key)
        log_draw = jax.random.loggamma(key_precision, self.shape, dtype=float) - jnp.log(self.rate_of_precision())
        precision = jnp.maximum(jnp.exp(log_draw), jnp.finfo(float).tiny)
        noise = jax.random.normal(key_mean, np.shape(self.shift), dtype=float)
        return self.mean + noise / jnp.sqrt(self.count * precision)[..., None], precision

    def rate_of_precision(self) -> Array:
        """b."""
        return self.rate - 0.5 * (self.shift**2).sum(-1) / self.count
