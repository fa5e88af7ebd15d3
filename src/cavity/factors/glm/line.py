"""Sites of a generalised linear model: functions of the activation a = xᵀθ alone, two numbers each.

Everything here is for one row under JAX and for arrays of rows in NumPy alike.
"""

from typing import Any, NamedTuple

import numpy as np

from cavity._array import namespace


class Line(NamedTuple):
    """exp(shift · a − ½ precision · a²): a site along a = xᵀθ, or a stack of them."""

    shift: Any
    precision: Any


class Asked(NamedTuple):
    """What one row asks for, or each of many."""

    site: Line  # its own-site estimate λ̂, zero where it is not valid
    valid: Any
    log_scale: Any  # ℓ_α(c) + (A(c) − A(c + α λ̂))/α: what the site leaves out of the evidence


def line_site(tilt: Any, mean: Any) -> Line:
    """τ = −h/r and ν = τ m + g/r, with r the tilted variance over the cavity's: equation (37)."""
    with np.errstate(all="ignore"):
        precision = -tilt.curvature / tilt.shrinkage
        return Line(precision * mean + tilt.slope / tilt.shrinkage, precision)


def without(site: Line, mean: Any, variance: Any, power: Any) -> tuple[Any, Any, Any]:
    """Mean and variance of the activation without `power` of a site along it, and whether that is proper (39)."""
    remaining = 1 - power * site.precision * variance
    proper = remaining > 0
    remaining = namespace(remaining).where(proper, remaining, 1.0)
    return (mean - power * site.shift * variance) / remaining, variance / remaining, proper


def ask(likelihood: Any, y: Any, mean: Any, variance: Any, proper: Any, power: float) -> Asked:
    """A row's own-site estimate from the cavity's marginal along it, under JAX."""
    return answer(likelihood.tilt(y, mean, variance, power), mean, variance, proper, power)


def ask_rows(
    likelihood: Any, y: Any, mean: np.ndarray, variance: np.ndarray, proper: np.ndarray, power: float
) -> Asked:
    """The own-site estimates of many rows, each from its cavity's marginal along it, on the host."""
    return answer(likelihood.tilts(y, mean, variance, power), mean, variance, proper, power)


def answer(tilt: Any, mean: Any, variance: Any, proper: Any, power: float) -> Asked:
    """The site that a tilt defines, zero where something is not finite or not proper."""
    site = line_site(tilt, mean)
    xp = namespace(site.precision)
    finite = xp.isfinite(site.shift) & xp.isfinite(site.precision) & xp.isfinite(tilt.log_mean)
    valid = proper & finite & (variance >= 0) & (tilt.shrinkage > 0)
    clean = lambda leaf: xp.where(valid, leaf, 0.0)
    log_scale = tilt.log_mean + log_removal(site, mean, variance, -power)
    return Asked(Line(clean(site.shift), clean(site.precision)), valid, clean(log_scale))


def log_replacement(site: Line, mean: Any, variance: Any, power: float, present: Any) -> Any:
    """(A(c) − A(c + α site))/α for c = q − α · present · site, from the marginal of the activation under q."""
    removal = lambda part: log_removal(site, mean, variance, power * part)
    return present * removal(present) + (1 - present) * removal(present - 1)


def log_removal(site: Line, mean: Any, variance: Any, power: Any) -> Any:
    """(A(q − α site) − A(q))/α for a ~ N(mean, variance) under q, and its limit −E_q[log site] at power 0 (40).

    At power −α it is (A(q) − A(q + α site))/α. Written with the slope of the site at the mean, which does not cancel
    where the site says much more than what remains without it.
    """
    xp = namespace(site.precision, mean, power)
    with np.errstate(all="ignore"):
        slope = site.shift - site.precision * mean
        remaining = 1 - power * site.precision * variance
        value = -0.5 * site.precision * mean**2 - slope * mean
        spread = 0.5 * power * variance * slope**2 / remaining
        divisor = xp.where(power == 0, 1.0, power)
        log_ratio = xp.where(
            power == 0, site.precision * variance, -xp.log1p(-power * site.precision * variance) / divisor
        )
        return value + spread + 0.5 * log_ratio
