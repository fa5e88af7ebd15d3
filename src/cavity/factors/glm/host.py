"""Generalised linear models with a full Gaussian on the host: NumPy on BLAS, chunks in threads, nothing compiled."""

from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np

from cavity.factors.glm import lines
from cavity.factors.glm.line import Line
from cavity.factors.glm.lines import Seen
from cavity.factors.glm.rows import SparseRows, chunk_size
from cavity.inference.contract import CHUNK, Found, Programs, Rows, Setting, Sums, Terms
from cavity.inference.order import Plan
from cavity.inference.update import Info, State

SMALL = 512  # columns: factorisations of larger matrices are worth several threads
FEW = 32  # batches in a sweep: more are worth a compiled program,
LARGEST_BY_SEARCH = 32  # but not large ones whose tilts are found by search there, row by row


quiet = np.errstate(all="ignore")  # NaN is an answer: rows that have one are skipped and counted


class View:
    """q and its cavity as rows see them, found when they are first needed."""

    def __init__(self, q: Any, cavity: Any, by_covariance: bool, remembered: bool) -> None:
        self.q, self.cavity, self.by_covariance, self.lock = q, cavity, by_covariance, Lock()
        self.remembered = remembered  # whether rows share a site

    @property
    def of_cavity(self) -> Seen:
        with self.lock:  # threads that wait for each other, instead of each doing the work
            return self._of_cavity

    @property
    def of_q(self) -> Seen:
        with self.lock:
            return self._of_q

    @cached_property
    def _of_cavity(self) -> Seen:
        return lines.seen(self.cavity, self.q, self.by_covariance)

    @cached_property
    def _of_q(self) -> Seen:
        return self._of_cavity if self.cavity is self.q else lines.seen(self.q, self.q, self.by_covariance)


class OnHost(Sums):
    """Rows of X whose sites lie along them."""

    def __init__(self, factor: Any, prior: Any, features: Any) -> None:
        self.factor, self.prior, self.chunk = factor, prior, chunk_size(features)
        self.features = features[:1]  # for what all rows have in common
        self.small_matrices = features.shape[1] <= SMALL
        # sparse rows of many columns: each thread would hold a matrix larger than its rows
        self.in_threads = self.small_matrices or not isinstance(features, SparseRows)

    def view(self, q: Any, site: Any, present: float, power: float, n_rows: int) -> View:
        by_covariance = lines.needs_covariance(self.features, n_rows)
        return View(q, lines.cavity_of(q, site, present, power), by_covariance, site is not None)

    def own_site(self) -> Line:
        return Line(np.zeros(()), np.zeros(()))

    @quiet
    def total(self, rows: Rows) -> Any:
        return lines.expand(self.prior, rows.data[0], rows.weight, rows.sites)

    @quiet
    def estimates(self, view: View, rows: Rows, setting: Setting) -> Found:
        likelihood, given = self.factor.likelihood, (rows.data, rows.weight, setting.power)
        if rows.sites is None:
            of_rows = lines.estimates if view.remembered else lines.estimates_with_scales
            return of_rows(likelihood, view.q, view.of_cavity, *given)
        return lines.own_estimates(likelihood, view.q, view.of_q, rows.sites, *given, values=setting.values)

    @quiet
    def terms(self, view: View, rows: Rows, setting: Setting) -> Terms:
        likelihood, given = self.factor.likelihood, (rows.data, rows.weight, setting.power)
        if rows.sites is None:
            return lines.terms(likelihood, view.q, view.of_cavity, view.of_q, *given)
        return lines.own_terms(likelihood, view.q, view.of_q, rows.sites, *given)

    @quiet
    def errors(self, view: View, rows: Rows, draws: Any, setting: Setting) -> np.ndarray:
        given = rows.data, rows.weight, np.asarray(draws), setting.power
        return lines.errors(self.factor.likelihood, view.of_cavity, view.of_q, *given)

    def visits(
        self, state: State, rows: Rows, plan: Plan, rates: np.ndarray, counts: np.ndarray, setting: Setting
    ) -> tuple[State, Info] | None:
        """One row after another by rank-one updates, and many small batches by a scan: compiled programs."""
        likelihood, (n_batches, size) = self.factor.likelihood, plan.rows.shape
        largest = CHUNK if likelihood.is_closed(setting.power) else LARGEST_BY_SEARCH
        if n_batches <= FEW or size > largest or not likelihood.can_be_traced(rows.data[1]):
            return None
        from cavity.factors.glm import rank_one
        from cavity.inference import scan

        if rank_one.is_exact(rows, counts, plan, rates):
            return rank_one.visits(self.factor.likelihood, state, rows, plan, rates, counts, setting.power)
        return scan.visits(self.programs(), state, rows, plan, rates, counts, setting.power)

    def programs(self) -> Programs:
        from cavity.factors.glm.programs import InLines

        return InLines(self.factor)

    def with_factor(self, factor: Any) -> "OnHost":
        return OnHost(factor, self.prior, self.features)
