"""Sums over the rows of a mixture that share a site: closed forms for many rows at once, from one cavity."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from cavity._pytree import pytree
from cavity.factors.mixtures import evidence
from cavity.factors.mixtures.matching import parts_of
from cavity.families import Product
from cavity.families.base import dot
from cavity.families.concentrations import near_concentrations
from cavity.inference.blocks import over_blocks
from cavity.inference.contract import CHUNK, Found, Terms
from cavity.inference.pull import Each, all_finite, select

FEWEST_ROWS, MOST_ROWS = 128, 512  # of a chunk at a time
NUMBERS, MOST = 2**16, 8  # in a chunk, and how many times `CHUNK` it may be: rows take less time than a call


@pytree
class InSums(Each):
    """Programs of a mixture of Gaussians; rows with sites of their own, or with none, are taken one by one."""

    def estimates(self, q: Product, site: Any, present: Any, data: Array, weight: Array, power: float) -> Found:
        if site is None:  # nothing is remembered, and the scales of sites are wanted: those are of each row
            return super().estimates(q, site, present, data, weight, power)
        cavity, proper = cavity_of(q, site, present, power)
        parts, near = for_many(cavity, power)

        def block(weight: Array, x: Array) -> tuple[Any, None]:
            _, x, matched, weights, log_means = self.factor.match(cavity, x, power, parts, near)
            finite = jnp.isfinite(log_means)
            used = jnp.where(finite, weight, 0.0)
            total = self.factor.total(parts, x, matched, weights, used, power)
            usable = proper & all_finite(total)
            total = jax.tree.map(lambda leaf: jnp.where(usable, leaf, 0.0), total)
            lost = jnp.where(usable, jnp.sum(~finite & (weight > 0)), jnp.sum(weight > 0))
            return (total, jnp.where(usable, jnp.sum(used), 0.0), lost), None

        (total, used, skipped), _ = over_blocks(block, weight, data, size=block_size(q, data))
        return Found(total, used, skipped, jnp.zeros(()), jnp.asarray(False))

    def terms(self, q: Product, site: Any, present: Any, data: Array, weight: Array, power: float) -> Terms:
        if self.factor.row_by_row:
            return super().terms(q, site, present, data, weight, power)
        cavity, proper = cavity_of(q, site, present, power)
        (parts, near), moments = for_many(cavity, power), q.moments()
        beside = None if power == 0 else evidence.beside(parts, q["components"])

        def block(weight: Array, x: Array) -> tuple[Terms, None]:
            _, x, matched, weights, log_means = self.factor.match(cavity, x, power, parts, near)
            # at power 0 the cavity is q itself, and Σ ⟨λ̂, E[T]⟩ is taken of the sum
            values = log_means if power == 0 else evidence.terms(q, beside, x, (matched, weights), weight, power)
            usable = proper & jnp.isfinite(log_means) & jnp.isfinite(values)
            own = self.factor.total(parts, x, matched, weights, jnp.where(usable, weight, 0.0), power)
            value = jnp.sum(jnp.where(usable, weight * values, 0.0)) - (dot(own, moments) if power == 0 else 0.0)
            return Terms(own, value, jnp.sum(~usable & (weight > 0), dtype=float)), None

        return over_blocks(block, weight, data, size=block_size(q, data))[0]


def for_many(cavity: Product, power: float) -> tuple[Any, Any]:
    """What all rows need alike of a cavity's components and weights, found once."""
    parts = parts_of(cavity["components"])
    return (parts, None) if power == 0 else (parts.for_many(), near_concentrations(cavity["weights"].concentration))


def cavity_of(q: Product, site: Product, present: Any, power: float) -> tuple[Product, Array]:
    """The cavity of a shared site, or q where that is improper, and whether it was proper."""
    cavity = q - (power * present) * site
    proper = cavity.is_proper()
    return select(proper, cavity, q), proper


def block_size(q: Product, data: Array) -> int:
    """Rows of a chunk at a time: as many as keep what is formed of them in the cache, a power of two."""
    numbers = q["weights"].concentration.shape[-1] * data.shape[-1]
    return min(max(2 ** ((NUMBERS // numbers).bit_length() - 1), FEWEST_ROWS), MOST_ROWS)


def chunk_size(dim: int) -> int:
    """Rows of a chunk; it depends on the features alone."""
    return CHUNK * min(max(NUMBERS // (dim * CHUNK), 1), MOST)
