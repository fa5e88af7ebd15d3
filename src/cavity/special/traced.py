"""The functions of `cavity.special` in JAX, with exact derivatives.

Below z = −`SWITCH` those of the normal come from Laplace's continued fraction e = 1/(x + 2/(x + 3/(x + …))) with
x = −z, whose terms are all positive, so that nothing cancels however far the tail; elsewhere from `erfc`.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import erfc, xlogy
from jax.scipy.special import gammaln as log_gamma

from cavity.special.constants import LOG_SQRT_2PI

__all__ = [
    "hazard",
    "hazard_excess",
    "log_gamma",
    "log_ndtr",
    "log_sigmoid",
    "sigmoid",
    "truncated_variance",
    "xlogy",
]

SWITCH = 5.0
DEPTH = 18  # of the continued fraction: exact to rounding at x = SWITCH


@jax.custom_jvp
def log_ndtr(z: Array) -> Array:
    """log Φ(z)."""
    z = jnp.asarray(z)
    far, upper, below = z < -SWITCH, _upper(z), jnp.minimum(z, 0.0)
    lower = jnp.log(jnp.where(far, 1 / hazard(below), upper))  # far out log Φ = log φ − log λ
    return jnp.where(z < 0, lower - jnp.where(far, 0.5 * below**2 + LOG_SQRT_2PI, 0.0), jnp.log1p(-upper))


@jax.custom_jvp
def hazard(z: Array) -> Array:
    """φ(z)/Φ(z)."""
    return _truncated(z)[0]


@jax.custom_jvp
def hazard_excess(z: Array) -> Array:
    """φ(z)/Φ(z) + z."""
    return _truncated(z)[1]


@jax.custom_jvp
def truncated_variance(z: Array) -> Array:
    """1 − λ(λ + z) with λ = φ(z)/Φ(z): the variance of a standard normal truncated to above −z."""
    return _truncated(z)[2]


@jax.custom_jvp
def sigmoid(z: Array) -> Array:
    """1 / (1 + e^−z)."""
    small = jnp.exp(-jnp.abs(z))
    return jnp.where(z < 0, small, 1.0) / (1 + small)


@jax.custom_jvp
def log_sigmoid(z: Array) -> Array:
    """log 1 / (1 + e^−z)."""
    return jnp.minimum(z, 0.0) - jnp.log1p(jnp.exp(-jnp.abs(z)))


log_ndtr.defjvps(lambda dz, _, z: hazard(z) * dz)
hazard.defjvps(lambda dz, value, z: -value * hazard_excess(z) * dz)
hazard_excess.defjvps(lambda dz, _, z: truncated_variance(z) * dz)
truncated_variance.defjvps(lambda dz, value, z: ((1 - value) * hazard_excess(z) - hazard(z) * value) * dz)
log_sigmoid.defjvps(lambda dz, _, z: sigmoid(-z) * dz)
sigmoid.defjvps(lambda dz, value, z: value * sigmoid(-z) * dz)


def _upper(z: Array) -> Array:
    """Φ(−|z|)."""
    return 0.5 * erfc(jnp.abs(z) * np.sqrt(0.5))


def _truncated(z: Array) -> tuple[Array, Array, Array]:
    """Hazard, excess and variance together; the compiler drops what is not used."""
    z, far, upper = jnp.asarray(z), z < -SWITCH, _upper(z)
    ndtr = jnp.where(z < 0, jnp.where(far, 1.0, upper), 1 - upper)
    near = jnp.exp(-0.5 * z**2 - LOG_SQRT_2PI) / ndtr
    inverse = 1 / jnp.maximum(-z, SWITCH)
    square = inverse**2
    top, bottom = _horner(TAIL_TOP, square), _horner(TAIL_BOTTOM, square)
    scale = 1 / (bottom + square * top)
    excess = jnp.where(far, inverse * bottom * scale, near + z)
    variance = jnp.where(far, square * scale * (top - bottom**2 * scale), 1 - near * excess)
    return jnp.where(far, excess - z, near), excess, variance


def _horner(coefficients: list[float], x: Array) -> Array:
    """A polynomial, highest power first; unrolled, unlike `jnp.polyval`, so that it fuses."""
    first, *rest = coefficients
    return functools.reduce(lambda total, c: total * x + c, rest, jnp.full_like(x, first))


def _tail_fraction(depth: int) -> tuple[list[float], list[float]]:
    """Polynomials in u = 1/x², highest power first, whose ratio is c₂ in c_k = k/(1 + u c_{k+1}), so that e x = c₁."""
    top, bottom = np.poly1d([depth]), np.poly1d([1.0])
    for k in range(depth - 1, 1, -1):
        top, bottom = k * bottom, bottom + np.poly1d([1.0, 0.0]) * top
    return top.coeffs.tolist(), bottom.coeffs.tolist()


TAIL_TOP, TAIL_BOTTOM = _tail_fraction(DEPTH)
