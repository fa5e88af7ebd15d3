"""The Dirichlet and Beta distributions."""

from typing import Any, Self

import numpy as np

from cavity._array import Array, namespace
from cavity._precision import in_float64, is_traced
from cavity.families.base import ExpFamily, as_array, check_alike, family, total_of_logs
from cavity.families.inverse import dirichlet_concentration
from cavity.families.stirling import gap, log_minus_digamma, stirling_bregman, trigamma
from cavity.special import log_gamma, xlog1py, xlogy

OFF_SIMPLEX = 1e-6  # how far from one a point may sum: what single precision leaves of many categories


@family
class Dirichlet(ExpFamily):
    """∏ x_j^{α_j − 1} Γ(Σα)/∏Γ(α_j) on the simplex, with T(x) = log x and base ∏ dx_j/x_j, so that η = α.

    The last axis runs over the categories. One category alone is certain, and its concentration says nothing.

    >>> import numpy as np
    >>> from cavity.families import Dirichlet
    >>> Dirichlet(np.array([1.0, 1.0, 2.0])).mean.tolist()
    [0.25, 0.25, 0.5]
    """

    concentration: Any

    def __post_init__(self) -> None:
        shape = np.shape(self.concentration)
        if not is_traced(self.concentration) and (not shape or shape[-1] < 1):
            raise ValueError(f"concentration must have one or more categories on its last axis; got shape {shape}.")

    def has_host_form(self) -> bool:
        return True

    @property
    @in_float64
    def mean(self) -> Array:
        """E[x] = α/Σα."""
        return self.concentration / self.concentration.sum(-1, keepdims=True)

    @property
    @in_float64
    def variance(self) -> Array:
        """Var[x_j] = m_j (1 − m_j)/(Σα + 1)."""
        mean = self.mean
        return mean * (1 - mean) / (1 + self.concentration.sum(-1, keepdims=True))

    @property
    @in_float64
    def covariance(self) -> Array:
        """Cov[x] = (diag m − m mᵀ)/(Σα + 1)."""
        mean = self.mean
        spread = mean[..., None] * (np.eye(mean.shape[-1]) - mean[..., None, :])
        return spread / (1 + self.concentration.sum(-1))[..., None, None]

    @in_float64
    def log_partition(self) -> Array:
        return self.log_partitions().sum()

    def log_partitions(self) -> Array:
        """A of each independent copy."""
        return log_gamma(self.concentration).sum(-1) - log_gamma(self.concentration.sum(-1))

    @in_float64
    def moments(self) -> Self:
        return type(self)(_mean_log(self.concentration))

    @in_float64
    def moments_along(self, direction: Self) -> Self:
        rise = trigamma(self.concentration) * direction.concentration
        of_total = trigamma(self.concentration.sum(-1)) * direction.concentration.sum(-1)
        return type(self)(rise - of_total[..., None])

    @in_float64
    def from_moments(self) -> Self:
        if self.concentration.shape[-1] == 1:  # a category that is certain, whatever its concentration
            return type(self)(namespace(self.concentration).ones_like(self.concentration))
        return type(self)(dirichlet_concentration(self.concentration))

    @in_float64
    def kl(self, other: Self) -> Array:
        check_alike(self, other)
        return _kl(self.concentration, other.concentration)

    @in_float64
    def is_proper(self) -> Array:
        xp = namespace(self.concentration)
        return xp.all((self.concentration > 0) & xp.isfinite(self.concentration))

    @in_float64
    def statistics(self, theta: Array) -> Self:
        theta = as_array(theta)
        return type(self)(namespace(theta).log(theta))

    @in_float64
    def log_base(self, theta: Array) -> Array:
        theta = as_array(theta)
        return -namespace(theta).log(theta).sum()

    @in_float64
    def log_weight(self, theta: Array) -> Array:
        theta = as_array(theta)
        xp = namespace(theta, self.concentration)
        outside = xp.any(theta < 0) | xp.any(xp.abs(xp.sum(theta, axis=-1) - 1) > OFF_SIMPLEX)
        logs = xlogy(self.concentration - 1, xp.where(theta < 0, 1.0, theta))
        return xp.where(outside, -np.inf, total_of_logs(logs))[()]

    @in_float64
    def expected_log_base(self, moments: Self) -> Array:
        return -moments.concentration.sum()

    def event_shape(self) -> tuple[int, ...]:
        return tuple(np.shape(self.concentration))

    def draw(self, key: Array) -> Array:
        import jax.numpy as jnp

        return jnp.exp(_log_draw(key, self.concentration))


@family
class Beta(ExpFamily):
    """x^{α−1} (1−x)^{β−1}/B(α, β), with T(x) = (log x, log(1 − x)) and base dx/(x(1 − x)), so that η = (α, β).

    >>> from cavity.families import Beta
    >>> Beta(1.0, 3.0).mean.item()
    0.25
    """

    alpha: Array
    beta: Array

    def __post_init__(self) -> None:
        alpha, beta = np.shape(self.alpha), np.shape(self.beta)
        if not is_traced(self.alpha, self.beta) and alpha != beta:
            raise ValueError(f"beta must have the shape of alpha, {alpha}; got {beta}.")

    def has_host_form(self) -> bool:
        return True

    @property
    @in_float64
    def mean(self) -> Array:
        """E[x] = α/(α + β)."""
        return self.alpha / (self.alpha + self.beta)

    @property
    @in_float64
    def variance(self) -> Array:
        """Var[x] = αβ/((α + β)² (α + β + 1))."""
        total = self.alpha + self.beta
        return self.mean * (self.beta / total) / (1 + total)

    @in_float64
    def log_partition(self) -> Array:
        return (log_gamma(self.alpha) + log_gamma(self.beta) - log_gamma(self.alpha + self.beta)).sum()

    @in_float64
    def moments(self) -> Self:
        pair = _mean_log(self._pair())
        return type(self)(pair[..., 0], pair[..., 1])

    @in_float64
    def moments_along(self, direction: Self) -> Self:
        of_total = trigamma(self.alpha + self.beta) * (direction.alpha + direction.beta)
        rise = lambda a, step: trigamma(a) * step - of_total
        return type(self)(rise(self.alpha, direction.alpha), rise(self.beta, direction.beta))

    @in_float64
    def from_moments(self) -> Self:
        pair = dirichlet_concentration(self._pair())
        return type(self)(pair[..., 0], pair[..., 1])

    @in_float64
    def kl(self, other: Self) -> Array:
        check_alike(self, other)
        return _kl(self._pair(), other._pair())

    @in_float64
    def is_proper(self) -> Array:
        pair = self._pair()
        xp = namespace(pair)
        return xp.all((pair > 0) & xp.isfinite(pair))

    @in_float64
    def statistics(self, theta: Array) -> Self:
        theta = as_array(theta)
        xp = namespace(theta)
        return type(self)(xp.log(theta), xp.log1p(-theta))

    @in_float64
    def log_base(self, theta: Array) -> Array:
        theta = as_array(theta)
        xp = namespace(theta)
        return -(xp.log(theta) + xp.log1p(-theta)).sum()

    @in_float64
    def log_weight(self, theta: Array) -> Array:
        theta = as_array(theta)
        xp = namespace(theta, self.alpha)
        outside = (theta < 0) | (theta > 1)
        safe = xp.where(outside, 0.5, theta)
        logs = xp.stack([xlogy(self.alpha - 1, safe), xlog1py(self.beta - 1, -safe)])
        return total_of_logs(xp.where(outside, -np.inf, logs))

    @in_float64
    def expected_log_base(self, moments: Self) -> Array:
        return -(moments.alpha + moments.beta).sum()

    def event_shape(self) -> tuple[int, ...]:
        return tuple(np.shape(self.alpha))

    def draw(self, key: Array) -> Array:
        import jax.numpy as jnp

        # The nearest number below one keeps log(1 − x) finite.
        return jnp.minimum(jnp.exp(_log_draw(key, self._pair())[..., 0]), 1 - jnp.finfo(float).epsneg)

    def _pair(self) -> Array:
        return namespace(self.alpha, self.beta).stack([self.alpha, self.beta], axis=-1)


def _mean_log(alpha: Array) -> Array:
    """ψ(α_j) − ψ(Σα), relative to log α_j/Σα: large concentrations leave only small terms."""
    total = alpha.sum(-1, keepdims=True)
    return namespace(alpha).log(alpha / total) - log_minus_digamma(alpha) + log_minus_digamma(total)


def _kl(alpha: Array, other: Array) -> Array:
    """Σα' KL(m'‖m) + Σ_j B(α_j, α'_j) − B(Σα, Σα'), B the Bregman divergence of Stirling's remainder.

    The same as the difference of log-partitions, which would cancel for large concentrations.
    """
    total, total_other = alpha.sum(-1, keepdims=True), other.sum(-1, keepdims=True)
    step = (alpha * total_other - other * total) / (other * total)  # m/m' − 1
    parts = other * gap(step) + stirling_bregman(alpha, other)
    return parts.sum() - stirling_bregman(total, total_other).sum()


def _log_draw(key: Array, alpha: Array) -> Array:
    """log of a Dirichlet draw, floored so that its exponential is a positive number."""
    import jax
    import jax.numpy as jnp

    logs = jax.nn.log_softmax(jax.random.loggamma(key, alpha, dtype=float), axis=-1)
    return jnp.maximum(logs, jnp.log(jnp.finfo(float).tiny))
