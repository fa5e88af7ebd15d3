"""Programs of a mixture of Gaussians: for gradients, linear response, and many small batches by a scan."""

from typing import Any

import jax
from jax import Array

from cavity._pytree import pytree
from cavity.factors.mixtures import sums
from cavity.factors.mixtures.cavity import Cavity
from cavity.factors.mixtures.sums import Seen, block_size
from cavity.families import Product
from cavity.inference.blocks import over_blocks
from cavity.inference.contract import Found, Terms
from cavity.inference.pull import Each, select


@pytree
class InSums(Each):
    """Rows that share a site are summed at once; rows with sites of their own, or with none, are taken one by one."""

    def estimates(self, q: Product, site: Any, present: Any, data: Array, weight: Array, power: float) -> Found:
        if site is None:  # nothing is remembered, and the scales of sites are wanted: those are of each row
            return super().estimates(q, site, present, data, weight, power)
        seen = self._seen(q, site, present, power)
        block = lambda weight, x: (tuple(sums.estimates(seen, x, weight)[:3]), None)
        (total, used, skipped), _ = over_blocks(block, weight, data, size=size_of(q, data))
        return Found(total, used, skipped, jax.numpy.zeros(()), jax.numpy.asarray(False))

    def terms(self, q: Product, site: Any, present: Any, data: Array, weight: Array, power: float) -> Terms:
        if self.factor.row_by_row:
            return super().terms(q, site, present, data, weight, power)
        seen = self._seen(q, site, present, power).for_terms()
        block = lambda weight, x: (sums.terms(seen, x, weight), None)
        return over_blocks(block, weight, data, size=size_of(q, data))[0]

    def _seen(self, q: Product, site: Product, present: Any, power: float) -> Seen:
        cavity = q - (power * present) * site
        proper = cavity.is_proper()
        return Seen(q, Cavity.of(select(proper, cavity, q), power, many=True), proper)


def size_of(q: Product, data: Array) -> int:
    return block_size(q["weights"].concentration.shape[-1], data.shape[-1])
