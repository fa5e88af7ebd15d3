"""Sums of chunks by compiled programs: for any factor and family, by automatic differentiation if need be."""

from functools import partial
from typing import Any

import jax
import numpy as np
from jax import Array

from cavity.inference import scan
from cavity.inference.boundary import call, filled_up, first
from cavity.inference.contract import CHUNK, Found, Member, Programs, Rows, Setting, Sites, Sums, Terms, Tree, View
from cavity.inference.order import Plan
from cavity.inference.update import Info, State

FEW = 32  # batches in a sweep that are not worth a program of their own


class Traced(Sums):
    """Chunks that are summed by compiled programs."""

    def __init__(self, programs: Programs, prior: Member, few: int = FEW, chunk: int = CHUNK) -> None:
        self.compiled, self.prior, self.few, self.chunk = programs, prior, few, chunk

    def own_site(self) -> Any:
        return self.compiled.own_site(self.prior)

    def total(self, rows: Rows) -> Any:
        rows = filled_up(rows, self.chunk)
        return call(total, self.compiled, self.prior, rows.sites, rows.data, rows.weight)

    def estimates(self, view: View, rows: Rows, setting: Setting) -> Found:
        n, rows = len(rows.weight), filled_up(rows, self.chunk)
        found = call(estimates, self.compiled, view, rows.data, rows.weight, rows.sites, power=setting.power)
        return found._replace(change=first(found.change, n))

    def terms(self, view: View, rows: Rows, setting: Setting) -> Terms:
        rows = filled_up(rows, self.chunk)
        return call(terms, self.compiled, view, rows.data, rows.weight, rows.sites, power=setting.power)

    def errors(self, view: View, rows: Rows, draws: Tree, setting: Setting) -> np.ndarray:
        n, rows = len(rows.weight), filled_up(rows, self.chunk)
        return call(errors, self.compiled, view, rows.data, rows.weight, draws, power=setting.power)[:n]

    def visits(
        self, state: State, rows: Rows, plan: Plan, rates: np.ndarray, counts: np.ndarray, setting: Setting
    ) -> tuple[State, Info] | None:
        """Many small batches, scanned inside a compiled program."""
        if len(plan.rows) <= self.few or plan.rows.shape[1] > CHUNK:
            return None
        return scan.visits(self.compiled, state, rows, plan, rates, counts, setting.power)

    def programs(self) -> Programs:
        return self.compiled

    def with_factor(self, factor: Any) -> "Traced":
        return Traced(self.compiled.with_factor(factor), self.prior, self.few, self.chunk)


@jax.jit
def total(programs: Programs, prior: Member, sites: Sites, data: Tree, weight: Array) -> Any:
    """Σ w λ of the rows of a chunk."""
    return programs.own_total(prior, sites, data, weight)


@partial(jax.jit, static_argnames="power")
def estimates(programs: Programs, view: View, data: Tree, weight: Array, sites: Sites, power: float) -> Found:
    """What the rows of a chunk ask for."""
    if sites is None:
        return programs.estimates(*view, data, weight, power)
    return programs.own_estimates(view.q, sites, data, weight, power)


@partial(jax.jit, static_argnames="power")
def terms(programs: Programs, view: View, data: Tree, weight: Array, sites: Sites, power: float) -> Terms:
    """What the rows of a chunk add to the closing evidence."""
    if sites is None:
        return programs.terms(*view, data, weight, power)
    return programs.own_terms(view.q, sites, data, weight, power)


@partial(jax.jit, static_argnames="power")
def errors(programs: Programs, view: View, data: Tree, weight: Array, draws: Tree, power: float) -> Array:
    """What sharing a site costs each row, at draws of θ."""
    return programs.errors(*view, data, weight, draws, power)
