"""Mixture of Gaussians with unknown means: p(x|θ) = Σ_j w_j N(x; θ_j, R_j), the assignment h = j summed out.

q is a `Gaussian` whose leading axis is the component. At any power, ℓ_α = log Σ_j exp ℓ_α(j) with
ℓ_α(j) = (1/α) log E_q[(w_j N(x; θ_j, R_j))^α] (22), whose softmax are the responsibilities r_j. The moments (23) are
then those of a mixture: with probability r_j the mean θ_j is tilted by N(x; θ_j, R_j)^α, otherwise it is left alone.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from cavity import linalg
from cavity._checks import as_numbers
from cavity._precision import in_float64, is_traced
from cavity._pytree import pytree
from cavity.factors.base import Factor, as_rows
from cavity.families import Gaussian


@pytree
class Mixture(Factor):
    """Known weights (component,) and noise: a variance, a covariance, or one of them per component."""

    weights: Array
    noise: Array

    def log_mean(self, q: Gaussian, datum: Array, power: float) -> Array:
        return jax.nn.logsumexp(self._log_joint(q, datum, power))

    def site(self, cavity: Gaussian, datum: Array, power: float) -> Gaussian:
        taken = self.responsibilities(cavity, datum, power)
        left = (1 - jnp.eye(len(taken))) @ taken  # 1 − r_j, exact also where r_j is nearly one
        noise = as_covariances(self.noise, cavity.shift.shape)
        one = lambda part, cov, r, rest: mixed_site(part, cov, datum, r, rest, power)
        return jax.vmap(one)(cavity, noise, taken, left)

    @in_float64
    def responsibilities(self, q: Gaussian, datum: Array, power: float = 1.0) -> Array:
        """The posterior of the assignment, softmax_j ℓ_α(j)."""
        return jax.nn.softmax(self._log_joint(q, jnp.asarray(datum), power))

    def _log_joint(self, q: Gaussian, datum: Array, power: float) -> Array:
        noise = as_covariances(self.noise, q.shift.shape)
        logs = jax.vmap(lambda part, cov: log_mean_normal(part, cov, datum, power))(q, noise)
        return jnp.log(self.weights) + logs

    def check(self, prior: Any, data: Any) -> np.ndarray:
        if not isinstance(prior, Gaussian) or np.ndim(prior.shift) != 2 or len(prior.shift) != len(self.weights):
            raise ValueError(
                f"prior must be a Gaussian with {len(self.weights)} rows, one unknown mean per component; got "
                f"{describe(prior)}. Build one with Gaussian.from_mean(means, covariances)."
            )
        as_covariances(self.noise, prior.shift.shape)
        return check_points(data, prior.shift.shape[1])


def mixture(weights: Any, noise: Any) -> Mixture:
    """A mixture with known weights; `noise` is a variance, a covariance (D, D), or one of them per component.

    >>> import numpy as np
    >>> from cavity.factors.mixtures.known import mixture
    >>> from cavity.families import Gaussian
    >>> q = Gaussian.from_mean(np.array([[-2.0], [2.0]]), np.ones((2, 1, 1)))
    >>> mixture([0.5, 0.5], 1.0).responsibilities(q, np.zeros(1)).tolist()
    [0.5, 0.5]
    """
    if is_traced(weights, noise):
        return Mixture(weights, noise)
    weights, noise = as_numbers("weights", weights), as_numbers("noise", noise)
    if weights.ndim != 1 or not np.all(weights > 0) or abs(weights.sum() - 1) > 1e-8:
        raise ValueError(f"weights must be positive numbers that sum to one; got {weights}.")
    check_noise("noise", noise)
    return Mixture(weights, noise)


# -- one unknown mean, seen through Gaussian noise: shared with the clutter problem ------------------------------


def log_mean_normal(q: Gaussian, noise: Array, x: Array, power: float) -> Array:
    """(1/α) log E_q[N(x; θ, R)^α], and E_q[log N(x; θ, R)] at power 0."""
    chol_q, chol = linalg.cholesky(q.precision), linalg.cholesky(noise)
    covariance, dim = linalg.inverse(chol_q), noise.shape[-1]
    step = x - linalg.solve(chol_q, jnp.asarray(q.shift))
    half = linalg.solve_triangular(chol, covariance)
    ratio = linalg.solve_triangular(chol, half.T)  # R^−½ Σ R^−½
    total = linalg.cholesky(jnp.eye(dim) + power * ratio)
    white = linalg.solve_triangular(chol, step[:, None])
    square = jnp.sum(linalg.solve_triangular(total, white) ** 2)
    spread = jnp.trace(ratio) if power == 0 else linalg.logdet(total) / power
    return -0.5 * (linalg.logdet(chol) + dim * jnp.log(2 * jnp.pi) + spread + square)


def mixed_site(cavity: Gaussian, noise: Array, x: Array, taken: Array, left: Array, power: float) -> Gaussian:
    """The site of a mean that N(x; θ, R)^α tilts with probability `taken` and leaves alone with probability `left`.

    With gain K = Σ (R + αΣ)⁻¹ and step k = K (x − μ), the matched moments are μ + α r k and
    Ĉ = r K R + (1 − r) Σ + α² r (1 − r) k kᵀ, and the site has precision Ĉ⁻¹ (r K − α r (1 − r) k (Λk)ᵀ): differences
    from the cavity's mean only, every power alike, zero included.
    """
    chol = linalg.cholesky(cavity.precision)
    covariance, mean = linalg.inverse(chol), linalg.solve(chol, jnp.asarray(cavity.shift))
    gain = covariance @ linalg.inverse(linalg.cholesky(noise + power * covariance))
    step = gain @ (x - mean)
    both = power * taken * left
    matched = taken * gain @ noise + left * covariance + power * both * linalg.outer(step)
    matched_chol = linalg.cholesky(matched)
    pull = taken * gain - both * jnp.outer(step, cavity.precision @ step)
    precision = linalg.symmetric(linalg.inverse(matched_chol) @ pull)
    return Gaussian(precision @ mean + taken * linalg.solve(matched_chol, step), precision)


def as_covariances(noise: Array, shape: tuple[int, ...]) -> Array:
    """Noise as covariances (component, D, D) for means of the given shape (component, D)."""
    count, dim = shape
    noise = noise if is_traced(noise) else jnp.asarray(noise, dtype=float)
    if noise.shape in [(), (count,)]:
        return jnp.broadcast_to(noise, (count,))[:, None, None] * jnp.eye(dim)
    if noise.shape in [(dim, dim), (count, dim, dim)]:
        return jnp.broadcast_to(noise, (count, dim, dim))
    raise ValueError(
        f"noise must be a variance, a covariance {(dim, dim)}, or one of them for each of {count} components; got "
        f"shape {noise.shape}."
    )


def check_noise(name: str, noise: np.ndarray) -> None:
    """Raise unless these are positive variances or positive definite covariances."""
    matrices = noise.reshape(-1, 1, 1) if noise.ndim < 2 else noise
    square = noise.ndim <= 3 and matrices.shape[-1] == matrices.shape[-2]
    if not (square and np.all(np.isfinite(noise)) and np.all(np.linalg.eigvalsh(matrices) > 0)):
        raise ValueError(f"{name} must be positive variances or positive definite covariances; got {noise.tolist()}.")


def check_points(data: Any, dim: int) -> np.ndarray:
    """The data as a matrix with `dim` columns."""
    data = as_rows(data)
    if not isinstance(data, np.ndarray) or data.ndim != 2 or data.shape[1] != dim:
        got = f"shape {data.shape}" if isinstance(data, np.ndarray) else type(data).__name__
        raise ValueError(f"data must be a matrix with one row per datum and {dim} columns; got {got}.")
    return data


def describe(prior: Any) -> str:
    """A family and its shape, for messages."""
    return f"{type(prior).__name__} of shape {np.shape(prior.shift)}" if hasattr(prior, "shift") else repr(prior)
