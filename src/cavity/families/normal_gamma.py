"""The Normal–Gamma distribution over the mean of a Gaussian and one precision that its coordinates share."""

from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import gammaln

from cavity._precision import in_float64, is_traced
from cavity.families.base import ExpFamily, check_alike, family
from cavity.families.gaussian import check_vector
from cavity.families.inverse import gamma_shape
from cavity.families.stirling import gap, log_minus_digamma, stirling_bregman


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
    @in_float64
    def from_parameters(cls, mean: Any, count: Any, shape: Any, rate: Any) -> Self:
        """m, κ, a and b: E[μ] = m, E[w] = a/b, Cov[μ|w] = (κw)⁻¹ I."""
        if not is_traced(mean):
            check_vector(mean)
        mean, count, shape, rate = (jnp.asarray(part, dtype=float) for part in (mean, count, shape, rate))
        return cls(count[..., None] * mean, count, shape, rate + 0.5 * count * jnp.sum(mean**2, axis=-1))

    @property
    @in_float64
    def mean(self) -> Array:
        """E[μ] = m."""
        return self.shift / jnp.asarray(self.count)[..., None]

    @property
    @in_float64
    def covariance(self) -> Array:
        """Cov[μ] = b/(κ(a − 1)) I, for a > 1."""
        excess = jnp.asarray(self.count * (self.shape - 1))
        variance = self._rate_of_precision() / jnp.where(excess > 0, excess, jnp.nan)
        return variance[..., None, None] * jnp.eye(np.shape(self.shift)[-1])

    @property
    @in_float64
    def mean_precision(self) -> Array:
        """E[w] = a/b."""
        return self.shape / self._rate_of_precision()

    @in_float64
    def log_partition(self) -> Array:
        normal = -0.5 * np.shape(self.shift)[-1] * jnp.log(jnp.asarray(self.count) / (2 * jnp.pi))
        return jnp.sum(normal + gammaln(self.shape) - self.shape * jnp.log(self._rate_of_precision()))

    @in_float64
    def moments(self) -> Self:
        mean, precision = self.mean, jnp.asarray(self.mean_precision)
        shift = precision[..., None] * mean
        square = mean.shape[-1] / jnp.asarray(self.count) + jnp.sum(mean * shift, axis=-1)
        mean_log = jnp.log(precision) - log_minus_digamma(jnp.asarray(self.shape))
        return type(self)(shift, -0.5 * square, mean_log, -precision)

    @in_float64
    def from_moments(self) -> Self:
        precision = -jnp.asarray(self.rate)
        mean = self.shift / precision[..., None]
        count = mean.shape[-1] / (-2.0 * self.count - jnp.sum(mean * self.shift, axis=-1))
        shape = gamma_shape(jnp.log(precision) - self.shape)
        rate = shape / precision + 0.5 * count * jnp.sum(mean**2, axis=-1)
        return type(self)(count[..., None] * mean, count, shape, rate)

    @in_float64
    def kl(self, other: Self) -> Array:
        # ½ [D gap(κ'/κ − 1) + κ' E[w] ‖m − m'‖²], the mean's part, and that of w.
        check_alike(self, other)
        precision, shape = self.mean_precision, jnp.asarray(self.shape)
        spread = np.shape(self.shift)[-1] * gap((other.count - self.count) / jnp.asarray(self.count))
        step = other.count * precision * jnp.sum((self.mean - other.mean) ** 2, axis=-1)
        ratio = gap((precision - other.mean_precision) / other.mean_precision)
        return jnp.sum(0.5 * (spread + step) + other.shape * ratio + stirling_bregman(shape, jnp.asarray(other.shape)))

    @in_float64
    def distance(self, other: Self) -> Array:
        return jnp.sqrt(jnp.maximum(self.kl(other) + other.kl(self), 0.0))  # ⟨Δη, Δμ⟩, whose raw moments would cancel

    @in_float64
    def is_proper(self) -> Array:
        positive = jnp.stack([jnp.asarray(self.count), jnp.asarray(self.shape), self._rate_of_precision()])
        return jnp.all((positive > 0) & jnp.isfinite(positive)) & jnp.all(jnp.isfinite(self.shift))

    @in_float64
    def statistics(self, theta: tuple[Array, Array]) -> Self:
        mu, w = (jnp.asarray(part) for part in theta)
        return type(self)(w[..., None] * mu, -0.5 * w * jnp.sum(mu**2, axis=-1), jnp.log(w), -w)

    @in_float64
    def log_base(self, theta: tuple[Array, Array]) -> Array:
        return (0.5 * theta[0].shape[-1] - 1) * jnp.sum(jnp.log(theta[1]))

    @in_float64
    def log_weight(self, theta: tuple[Array, Array]) -> Array:
        w = jnp.asarray(theta[1])
        inside = jnp.all((w > 0) & jnp.isfinite(w))
        return jnp.where(inside, super().log_weight((theta[0], jnp.where(w > 0, w, 1.0))), -jnp.inf)

    @in_float64
    def expected_log_base(self, moments: Self) -> Array:
        return (0.5 * np.shape(self.shift)[-1] - 1) * jnp.sum(moments.shape)

    def event_shape(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return tuple(np.shape(self.shift)), tuple(np.shape(self.count))

    def draw(self, key: Array) -> tuple[Array, Array]:
        key_mean, key_precision = jax.random.split(key)
        log_draw = jax.random.loggamma(key_precision, self.shape, dtype=float) - jnp.log(self._rate_of_precision())
        precision = jnp.maximum(jnp.exp(log_draw), jnp.finfo(float).tiny)
        noise = jax.random.normal(key_mean, np.shape(self.shift), dtype=float)
        return self.mean + noise / jnp.sqrt(self.count * precision)[..., None], precision

    def _rate_of_precision(self) -> Array:
        """b."""
        return self.rate - 0.5 * jnp.sum(jnp.asarray(self.shift) ** 2, axis=-1) / self.count
