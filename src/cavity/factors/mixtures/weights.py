"""The weights of a mixture: a Dirichlet, and how the responsibilities of rows change it.

Components are on the first axis of arrays, and rows on the last. Written for NumPy and for JAX alike.
"""

from typing import Any

import numpy as np

from cavity import _tree as tree
from cavity._array import Array, held, namespace
from cavity.families import Dirichlet
from cavity.families.base import describe
from cavity.families.inverse import dirichlet_step
from cavity.families.stirling import log_gamma_ratio, log_minus_digamma


def log_mean_weights(concentration: Array, power: float) -> Array:
    """(1/α) log E[π_j^α], and E[log π_j] at power 0."""
    total = concentration.sum(0)
    if power == 0:
        return namespace(concentration).log(concentration / total) - (
            log_minus_digamma(concentration) - log_minus_digamma(total)
        )
    return (log_gamma_ratio(concentration, power) - log_gamma_ratio(total, power)) / power


def all_but(taken: Array) -> Array:
    """1 − r_j, exact also where r_j is nearly one."""
    return (1 - np.eye(len(taken))) @ taken


def log_sum_exp(logs: Array) -> Array:
    """log Σ_j exp of each row; NaN or infinite where its logarithms are."""
    return shares(logs)[0]


def shares(logs: Array) -> tuple[Array, Array]:
    """log Σ_j exp of each row, and the share that each component has in the sum."""
    xp = namespace(logs)
    top = held(logs).max(0)  # it cancels; and a program may round its terms twice, and find none that is the largest
    top = xp.where(xp.isfinite(top), top, 0.0)
    parts = xp.exp(logs - top)
    total = parts.sum(0)
    return xp.log(total) + top, parts / total


def rises(concentration: Array, power: float) -> tuple[Array, Array]:
    """ψ(a + α) − ψ(a) of each concentration and of their sum."""
    xp = namespace(concentration)
    rise = lambda a: xp.log1p(power / a) - (log_minus_digamma(a + power) - log_minus_digamma(a))
    return rise(concentration), rise(concentration.sum(0, keepdims=True))


def change_of_weights(concentration: Array, taken: Array, power: float, rise: Any = None, near: Any = None) -> Array:
    """What matching E[log π] adds to the concentrations, (J, n) or (J, 1), for responsibilities (J, n).

    `rise` and `near` are what many rows need alike.
    """
    if power == 0 or len(concentration) == 1:
        return taken * (power or 1)
    each, of_total = rises(concentration, power) if rise is None else rise
    return dirichlet_step(concentration, taken * each - of_total, near)


def check_parts(prior: Any) -> None:
    """Raise unless this is a product of a Dirichlet and as many components."""
    parts = getattr(prior, "parts", None)
    if not isinstance(parts, dict) or set(parts) != {"weights", "components"}:
        raise ValueError(f"prior must be a dict with 'weights' and 'components'; got {describe(prior)}.")
    weights, components = parts["weights"], parts["components"]
    if not isinstance(weights, Dirichlet) or np.ndim(weights.concentration) != 1:
        raise ValueError(f"prior['weights'] must be a Dirichlet over the components; got {describe(weights)}.")
    count = len(weights.concentration)
    if any(np.ndim(leaf) == 0 or len(leaf) != count for leaf in tree.leaves(components)):
        raise ValueError(
            f"prior['components'] must have {count} members on its first axis, one for each weight; got "
            f"{describe(components)}."
        )
