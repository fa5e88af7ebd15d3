"""Sites of a generalised linear model: functions of the activation a = xᵀθ alone, two numbers each.

Everything here is for one row or for arrays of them, and for NumPy and JAX alike.
"""

from typing import Any, NamedTuple

import numpy as np

from cavity._array import Array, is_jax, namespace
from cavity.quadrature import Tilt


class Line(NamedTuple):
    """exp(shift · a − ½ precision · a²): a site along a = xᵀθ, or a stack of them."""

    shift: Any
    precision: Any


class Asked(NamedTuple):
    """What rows ask for."""

    site: Line  # own-site estimates λ̂, zero where they are not valid
    valid: Array


class Scaled(NamedTuple):
    """What rows ask for, with the scales of their sites."""

    site: Line
    valid: Array
    log_scale: Array  # ℓ_α(c) + (A(c) − A(c + α λ̂))/α: what the site leaves out of the evidence, zero if not valid


def tilts_of(likelihood: Any, y: Any, mean: Array, variance: Array, power: float) -> Tilt:
    """The tilts of many rows: by the host's rules, or row by row under JAX."""
    if not is_jax(mean, variance):
        return likelihood.tilts(y, mean, variance, power)
    import jax

    return jax.vmap(lambda *row: likelihood.tilt(*row, power))(y, mean, variance)


def line_site(tilt: Any, mean: Array) -> Line:
    """τ = −h/r and ν = τ m + g/r, with r the tilted variance over the cavity's: equation (37)."""
    precision = -tilt.curvature / tilt.shrinkage
    return Line(precision * mean + tilt.slope / tilt.shrinkage, precision)


def without(site: Line, mean: Array, variance: Array, power: Any) -> tuple[Array, Array, Array]:
    """Mean and variance of the activation without `power` of a site along it, and whether that is proper (39)."""
    remaining = 1 - power * site.precision * variance
    proper = remaining > 0
    remaining = namespace(remaining).where(proper, remaining, 1.0)
    return (mean - power * site.shift * variance) / remaining, variance / remaining, proper


def ask(tilt: Tilt, mean: Array, variance: Array, proper: Array) -> Asked:
    """Own-site estimates from the tilts of cavities with these marginals."""
    xp, site = namespace(mean, tilt.slope), line_site(tilt, mean)
    finite = xp.isfinite(site.shift + site.precision + tilt.log_mean)  # one that is not finite spoils the sum
    valid = proper & finite & (variance >= 0) & (tilt.shrinkage > 0)
    return Asked(Line(*(only(valid, part) for part in site)), valid)


def only(valid: Array, values: Array) -> Array:
    """Values where they are valid, and zero elsewhere; on the host the usual case, all of them, is not copied."""
    if not is_jax(valid, values) and np.all(valid):
        return values
    return namespace(valid, values).where(valid, values, 0.0)


def changes(asked: Asked, sites: Line) -> Line:
    """What new sites of rows differ by from those before; nothing where they are not valid."""
    return Line(*(only(asked.valid, new - old) for new, old in zip(asked.site, sites, strict=True)))


def ask_with_scales(tilt: Tilt, mean: Array, variance: Array, proper: Array, power: float) -> Scaled:
    """Own-site estimates with their scales, which only data that are remembered nowhere need."""
    asked = ask(tilt, mean, variance, proper)
    log_scale = tilt.log_mean + log_removal(asked.site, mean, variance, -power)
    return Scaled(*asked, namespace(mean).where(asked.valid, log_scale, 0.0))


def log_replacement(site: Line, mean: Array, variance: Array, power: float, present: Array) -> Array:
    """(A(c) − A(c + α site))/α for c = q − α · present · site, from the marginal of the activation under q."""
    removal = lambda part: log_removal(site, mean, variance, power * part)
    if not is_jax(present) and np.all(present == 1):
        return removal(1.0)
    return present * removal(present) + (1 - present) * removal(present - 1)


def log_removal(site: Line, mean: Array, variance: Array, power: Any) -> Array:
    """(A(q − α site) − A(q))/α for a ~ N(mean, variance) under q, and its limit −E_q[log site] at power 0 (40).

    At power −α it is (A(q) − A(q + α site))/α. Written with the slope of the site at the mean, which does not cancel
    where the site says much more than what remains without it.
    """
    xp = namespace(mean, site.shift)
    slope = site.shift - site.precision * mean
    remaining = 1 - power * site.precision * variance
    value = -0.5 * site.precision * mean**2 - slope * mean
    spread = 0.5 * power * variance * slope**2 / remaining
    divisor = xp.where(power == 0, 1.0, power)
    log_ratio = xp.where(power == 0, site.precision * variance, -xp.log1p(-power * site.precision * variance) / divisor)
    return value + spread + 0.5 * log_ratio
