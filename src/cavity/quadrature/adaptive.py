"""One-dimensional Gaussian expectations of a likelihood, by adaptive quadrature on the tilted integrand itself.

For a ~ N(m, v) and a log-likelihood l(a), the tilted density is proportional to N(a; m, v) exp(α l(a)). Its mass may
lie thousands of standard deviations from m, on both sides of a gap, or behind an edge much sharper than the Gaussian,
so no fixed set of nodes will do. Here the modes of the tilted density are found first; then, from each of them and from
the point where the likelihood varies most, Gauss–Legendre panels walk outwards until nothing is left, each as long as
the integrand's highest Legendre coefficients allow. Work is in units t = (a − m)/√v.

Errors are near rounding: about 1e-16 · max(1, α |l|) at the tilted mode, and a few 1e-11 at worst behind sharp edges.
"""

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from cavity.quadrature.tilted import Tilt
from cavity.quadrature.traced_starts import LogLik, Walk, climb, derivatives_at, scale_of
from cavity.quadrature.traced_walk import HIGHEST, NODES, WEIGHTS, walk_outwards
from cavity.special import LOG_SQRT_2PI

MAX_PANELS = 96


def tilt(log_lik: LogLik, mean: Array, variance: Array, power: float, center: Array) -> Tilt:
    """The tilt of a smooth scalar log-likelihood; `center` is where it varies most, and need not be exact.

    Where v is small the derivatives are read as expected scores, g = E[l′] and h = E[l″] + α Var[l′]; where the
    likelihood is the sharper, by parts: from the tilted mean and variance, or E[l t] and E[l′ t] at power 0. Each loses
    digits where the other does not. A variance that is negative or not finite gives NaN.
    """
    walk, scale = walk_outwards(log_lik, mean, variance, power, center), scale_of(variance)
    total, size = walk.total / walk.total[0], walk.size / walk.total[0]
    if power == 0:
        _, score, curve, value, value_t, score_t = total
        slope = jnp.where(size[4] + jnp.abs(walk.value) < size[1], value_t, walk.slope + score)
        curvature = jnp.where(size[5] < size[2], score_t, curve)
        return Tilt(walk.value + value, slope / scale, curvature / scale**2, jnp.ones_like(curve))
    _, first, second, score, score2, curve = total
    spread = second - first**2
    curvature = curve + power * (score2 - score**2)
    direct = _direct(walk, power)
    log_mean = (walk.peak + jnp.log(walk.total[0]) - LOG_SQRT_2PI) / power
    slope = jnp.where(direct, (walk.origin + first) / power, walk.slope + score)
    shrinkage = jnp.where(direct, spread, 1 + power * curvature)
    curvature = jnp.where(direct, (spread - 1) / power, curvature)
    return Tilt(log_mean, slope / scale, curvature / scale**2, shrinkage)


def log_mean(log_lik: LogLik, mean: Array, variance: Array, power: float, center: Array) -> Array:
    """ℓ(m, v) alone, differentiable to any order in m, v and whatever `log_lik` closes over.

    The nodes are held fixed, in a or in t by the same rule as in `tilt`, and the integrand is differentiated.
    """
    closed, constants = jax.closure_convert(log_lik, mean)
    frozen = lambda a: closed(a, *stop_gradient(constants))
    at_mean, at_variance, scale = stop_gradient(mean), stop_gradient(variance), scale_of(variance)
    walk = walk_outwards(frozen, at_mean, at_variance, power, stop_gradient(center), MAX_PANELS)
    direct = _direct(walk, power)
    middle, half = walk.panels.T[..., None]
    step, weight = (middle + half * NODES).ravel(), (half * WEIGHTS).ravel()

    here = at_mean + stop_gradient(scale) * (walk.origin + step)
    usable = jnp.isfinite(jax.vmap(frozen)(here))
    here = jnp.where(usable, here, at_mean + stop_gradient(scale) * walk.origin)
    moving_a = _zero(mean + scale * (walk.origin + step))  # as m and v move, either a moves and t is fixed,
    moving_t = _zero((here - mean) / scale)  # or the other way round
    value = jax.vmap(log_lik)(here + jnp.where(direct, 0.0, moving_a))
    step = step + jnp.where(direct, moving_t, 0.0)
    weight = jnp.where(usable, weight, 0.0) * jnp.where(direct, stop_gradient(scale) / scale, 1.0)
    log_gaussian = -step * (walk.origin + 0.5 * step)
    if power == 0:
        weight = weight * jnp.exp(log_gaussian)
        return jnp.sum(weight * value) / jnp.sum(weight)
    log_tilted = jnp.minimum(log_gaussian + power * (value - walk.value), HIGHEST)
    total = jnp.sum(weight * jnp.exp(log_tilted))
    return (walk.peak + jnp.log(total) - LOG_SQRT_2PI) / power


def mode(log_lik: LogLik, start: Array) -> Array:
    """A local maximum of l, uphill from `start`; far away where there is none."""

    def derivatives(a: Array) -> tuple[Array, Array]:
        _, slope, curve = derivatives_at(log_lik, a, jnp.ones_like(a), jnp.zeros((1,)))
        return slope[0], curve[0]

    return climb(derivatives, start)


def _direct(walk: Walk, power: float) -> Array:
    """Whether rounding harms the tilted moments less than it harms the expected scores."""
    if power == 0:
        return jnp.zeros((), bool)
    _, first, second, score, score2, _ = walk.total / walk.total[0]
    curve = walk.size[5] / walk.total[0]
    return power * (curve + power * (score2 - score**2)) > second - first**2


def _zero(x: Array) -> Array:
    """Zero in value, x in every derivative."""
    return x - stop_gradient(x)
