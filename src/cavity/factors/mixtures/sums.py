"""Sums over the rows of a Gaussian mixture that share a site, from one cavity: closed forms for many rows at once.

Written for NumPy and for JAX alike; `cavity.factors.mixtures.host` and `cavity.factors.mixtures.traced` walk over rows.
"""

from typing import Any, NamedTuple

import numpy as np

from cavity._array import Array, namespace
from cavity.factors.mixtures import evidence
from cavity.factors.mixtures.cavity import Cavity
from cavity.families import Product
from cavity.families.base import dot
from cavity.inference.contract import CHUNK, Found, Terms

FEWEST_ROWS, MOST_ROWS = 128, 2048  # of a chunk at a time
NUMBERS = 2**14  # of rows and features for all components: what is formed of them stays in the cache
IN_CHUNK, MOST = 2**16, 8  # numbers in a chunk, and how many times `CHUNK` it may be: rows take less time than a call


class Seen(NamedTuple):
    """q and the cavity of a shared site."""

    q: Product
    cavity: Cavity
    proper: Any  # whether the cavity was proper: q is in its place otherwise
    beside: Any = None  # q's components as seen from the cavity's, for the evidence
    moments: Any = None  # of q, for that at power 0

    def for_terms(self) -> "Seen":
        """With what the evidence needs."""
        if self.cavity.power == 0:
            return self._replace(moments=self.q.moments())
        return self._replace(beside=evidence.beside(self.cavity.parts, self.q["components"]))


def estimates(seen: Seen, x: Array, weight: Array) -> Found:
    """Σ w λ̂ of some rows; those for which it cannot be formed are left out and counted."""
    xp, rows = namespace(x, weight, seen.cavity.concentration), seen.cavity.match(x)
    finite = xp.isfinite(rows.log_means)
    used = xp.where(finite, weight, 0.0)
    total = seen.cavity.total(rows, used)
    usable = seen.proper & all_finite(total)
    total = where(usable, total, 0.0)
    lost = xp.where(usable, xp.sum(~finite & (weight > 0)), xp.sum(weight > 0))
    return Found(total, xp.where(usable, xp.sum(used), 0.0), lost, xp.zeros(()), xp.asarray(False))


def terms(seen: Seen, x: Array, weight: Array) -> Terms:
    """What some rows add to the closing evidence."""
    xp, cavity = namespace(x, weight, seen.cavity.concentration), seen.cavity
    rows = cavity.match(x)
    values = rows.log_means  # at power 0 the cavity is q itself, and Σ ⟨λ̂, E[T]⟩ is taken of the sum
    if cavity.power:
        changes = rows.components, rows.weights
        values = evidence.terms(seen.q, seen.beside, rows.d, changes, weight, cavity.power)
    usable = seen.proper & xp.isfinite(rows.log_means) & xp.isfinite(values)
    own = cavity.total(rows, xp.where(usable, weight, 0.0))
    value = xp.sum(xp.where(usable, weight * values, 0.0))
    value = value if cavity.power else value - dot(own, seen.moments)
    return Terms(own, value, xp.sum(~usable & (weight > 0), dtype=float))


def all_finite(site: Product) -> Any:
    """Whether every number of a site is finite."""
    weights, components = site["weights"].concentration, site["components"]
    leaves = [weights, components.shift, components.count, components.rate, shape_of(components)]
    xp = namespace(*leaves)
    return xp.all(xp.stack([xp.all(xp.isfinite(leaf)) for leaf in leaves]))


def shape_of(components: Any) -> Any:
    """Degrees of freedom, or the shape of a Gamma."""
    return components.df if hasattr(components, "df") else components.shape


def where(condition: Any, site: Any, other: float) -> Any:
    """The site, or the same number throughout."""
    if namespace(condition) is np and condition:
        return site
    from cavity import _tree as tree

    return tree.map(lambda leaf: namespace(condition, leaf).where(condition, leaf, other), site)


def block_size(n_components: int, dim: int) -> int:
    """Rows of a chunk at a time: as many as keep what is formed of them in the cache, a power of two."""
    most = NUMBERS // (n_components * max(dim // 4, 1))
    return min(max(2 ** (most.bit_length() - 1) if most else 0, FEWEST_ROWS), MOST_ROWS)


def chunk_size(dim: int) -> int:
    """Rows of a chunk; it depends on the features alone."""
    return CHUNK * min(max(IN_CHUNK // (dim * CHUNK), 1), MOST)
