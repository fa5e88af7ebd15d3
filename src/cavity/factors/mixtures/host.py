"""Mixtures of Gaussians on the host: NumPy on BLAS, chunks in threads, nothing compiled."""

from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np

from cavity import _tree as tree
from cavity.factors.mixtures import own_sites, sums
from cavity.factors.mixtures.cavity import Cavity
from cavity.factors.mixtures.sums import Seen
from cavity.families import Product
from cavity.inference.contract import CHUNK, Found, Programs, Rows, Setting, Sums, Terms
from cavity.inference.contract import View as Given
from cavity.inference.named import ALL
from cavity.inference.order import Plan
from cavity.inference.update import Info, State
from cavity.inference.walk import joined, summed

FEW = 32  # batches in a sweep: more are worth a compiled program

quiet = np.errstate(all="ignore")  # NaN is an answer: rows that have one are skipped and counted


class View:
    """q and the cavity of the site that rows share, found when it is first needed."""

    def __init__(self, q: Product, site: Any, present: float, power: float) -> None:
        self.q, self.site, self.present, self.power, self.lock = q, site, present, power, Lock()

    @property
    def seen(self) -> Seen:
        with self.lock:  # threads that wait for each other, instead of each doing the work
            return self._seen

    @property
    def for_terms(self) -> Seen:
        with self.lock:
            return self._for_terms

    @cached_property
    def _seen(self) -> Seen:
        cavity = self.q - (self.power * self.present) * self.site
        proper = bool(cavity.is_proper())
        return Seen(self.q, Cavity.of(cavity if proper else self.q, self.power, many=True), proper)

    @cached_property
    def _for_terms(self) -> Seen:
        return self._seen.for_terms()


class OnHost(Sums):
    """Rows of a mixture of Gaussians."""

    in_threads = True
    small_matrices = True

    def __init__(self, factor: Any, prior: Product, dim: int, algorithm: Any) -> None:
        self.factor, self.prior, self.dim, self.algorithm = factor, prior, dim, algorithm
        own = algorithm.n_sites == ALL  # sites of a row are many more numbers than its features
        self.chunk = CHUNK if own else sums.chunk_size(dim)
        self.block = sums.block_size(len(prior["weights"].concentration), dim)

    def view(self, q: Product, site: Any, present: float, power: float, n_rows: int) -> View:
        return View(q, site, present, power)

    def own_site(self) -> Product:
        return tree.map(np.zeros_like, self.prior)

    @quiet
    def total(self, rows: Rows) -> Product:
        return own_sites.total(rows.sites, rows.weight)

    @quiet
    def estimates(self, view: View, rows: Rows, setting: Setting) -> Found:
        x, weight, power = rows.data, rows.weight, setting.power
        if rows.sites is not None:
            return own_sites.estimates(view.q, rows.sites, x, weight, power)
        if view.site is None:
            return joined(own_sites.estimates_without_sites(view.q, x, w, power) for x, w in self.blocks(rows))
        return joined(sums.estimates(view.seen, *block) for block in self.blocks(rows))

    @quiet
    def terms(self, view: View, rows: Rows, setting: Setting) -> Terms:
        if rows.sites is not None:
            return own_sites.terms(view.q, rows.sites, rows.data, rows.weight, setting.power)
        return summed(sums.terms(view.for_terms, *block) for block in self.blocks(rows))

    def blocks(self, rows: Rows) -> Any:
        """Rows of a chunk with their weights, so many at a time that what is formed of them stays in the cache."""
        for begin in range(0, len(rows.weight), self.block):
            at = slice(begin, begin + self.block)
            yield rows.data[at], rows.weight[at]

    def errors(self, view: View, rows: Rows, draws: Any, setting: Setting) -> np.ndarray:
        return self.traced().errors(Given(view.q, view.site, view.present), rows, draws, setting)

    def visits(
        self, state: State, rows: Rows, plan: Plan, rates: np.ndarray, counts: np.ndarray, setting: Setting
    ) -> tuple[State, Info] | None:
        """Many small batches by a scan: a compiled program."""
        if len(plan.rows) <= FEW or plan.rows.shape[1] > CHUNK:
            return None
        return self.traced().visits(state, rows, plan, rates, counts, setting)

    def traced(self) -> Any:
        """These sums by compiled programs."""
        from cavity.inference.traced import Traced

        return Traced(self.programs(), self.prior, FEW, self.chunk)

    def programs(self) -> Programs:
        from cavity.factors.mixtures.traced import InSums

        return InSums(self.factor)

    def with_factor(self, factor: Any) -> "OnHost":
        return OnHost(factor, self.prior, self.dim, self.algorithm)
