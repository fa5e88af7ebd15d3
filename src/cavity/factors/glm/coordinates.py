"""Generalised linear models with independent coefficients on the host: every coordinate is matched by itself.

Rows that share a site, and all rows at power 0, see one cavity: what they ask for together is a few products of X with
vectors. Rows with sites of their own have two numbers for each coordinate. `fields` has the arithmetic of both.
"""

from typing import Any, NamedTuple

import numpy as np

from cavity import _tree as tree
from cavity.factors.glm import fields
from cavity.factors.glm.fields import Asked, Chunk, Field
from cavity.inference.contract import CHUNK, Found, Programs, Rows, Setting, Sums, Terms
from cavity.inference.order import Plan
from cavity.inference.update import Info, State
from cavity.quadrature import Tilt

FEW = 32  # batches in a sweep: more are worth a compiled program
NUMBERS = 2**18  # in a work array over a chunk: several of them stay in the cache,
MOST_AHEAD = 1000  # coefficients: of more, their products are dearer than sweeps
FEWEST = 256  # but so many rows are worth the steps of Python for a chunk
quiet = np.errstate(all="ignore")  # NaN is an answer: rows that have one are skipped and counted


class View(NamedTuple):
    """q, and what it is without the site that rows share."""

    q: Any
    cavity: Field  # q itself where they share none; NaN where it is improper
    remembered: bool  # whether they share one


class InCoordinates(Sums):
    """Rows of X whose sites are independent coordinates."""

    in_threads = small_matrices = True

    def __init__(self, factor: Any, prior: Any, features: Any) -> None:
        self.factor, self.prior, self.kind, self.features = factor, prior, type(prior), features
        self.looks_ahead = len(prior.shift) <= MOST_AHEAD
        self.first_look = fields.narrowed(prior, features) if self.looks_ahead else None
        self.chunk = int(np.clip(NUMBERS // len(prior.shift), FEWEST, 4 * CHUNK))

    @quiet
    def view(self, q: Any, site: Any, present: float, power: float, n_rows: int) -> View:
        cavity = q if site is None else q - (power * present) * site
        field = Field(cavity.shift / cavity.precision, 1 / cavity.precision)
        return View(q, field if cavity.is_proper() else Field(*(np.nan * part for part in field)), site is not None)

    def own_site(self) -> Any:
        return 0.0 * self.prior

    def total(self, rows: Rows) -> Any:
        return tree.map(lambda leaf: rows.weight @ leaf, rows.sites)

    @quiet
    def estimates(self, view: View, rows: Rows, setting: Setting) -> Found:
        chunk = self.chunk_of(rows, setting)
        if rows.sites is not None:
            cavity, tilt = self.in_own_cavities(chunk, view, rows.sites)
            change = fields.changes(chunk.sites(tilt, cavity), rows.sites)
            found = self.found(chunk, change)._replace(change=self.kind(change.shift, change.precision))
        else:
            tilt = chunk.tilts(view.cavity)
            by_products = self.by_products(chunk, view.cavity, tilt) if view.remembered else None
            found = self.with_scales(chunk, view.cavity, tilt) if by_products is None else by_products
        return found._replace(response=chunk.response(tilt.curvature)) if setting.responses else found

    def by_products(self, chunk: Chunk, cavity: Field, tilt: Tilt) -> Found | None:
        """Σ w λ̂ over rows that share a site; None where products do not tell which of them have none."""
        valid = fields.is_finite(tilt)
        used, tilt = np.where(valid, chunk.weight, 0.0), fields.without_gaps(tilt, valid)
        shift, precision, sound = chunk.total(tilt, used, cavity)
        safe = bool(np.all(used * tilt.curvature <= 0))
        found = Found(self.kind(shift, precision), np.sum(used), skipped(chunk, valid), 0.0, safe)
        return found if sound else None

    def with_scales(self, chunk: Chunk, cavity: Field, tilt: Tilt) -> Found:
        """Σ w λ̂ from the site of each, and Σ w log s of their scales."""
        asked = chunk.sites(tilt, cavity)
        scale = np.where(asked.valid, tilt.log_mean - chunk.log_means(cavity, asked), 0.0)
        return self.found(chunk, asked)._replace(
            log_scale=np.sum(chunk.weight * scale), safe=bool(np.all(asked.precision >= 0))
        )

    def found(self, chunk: Chunk, asked: Asked) -> Found:
        """What rows ask for together, from what each does."""
        used = np.where(asked.valid, chunk.weight, 0.0)
        return Found(self.summed(asked, used), np.sum(used), skipped(chunk, asked.valid), 0.0, False)

    def summed(self, sites: Any, weight: np.ndarray) -> Any:
        """Σ w λ, as natural parameters."""
        return self.kind(weight @ sites.shift, weight @ sites.precision)

    @quiet
    def terms(self, view: View, rows: Rows, setting: Setting) -> Terms:
        chunk, own, valid, moves = self.chunk_of(rows, setting), rows.sites, np.ones(len(rows.weight), bool), None
        if own is None:
            own = chunk.sites(chunk.tilts(view.cavity), view.cavity)
            valid = own.valid
        cavity, tilt = self.in_own_cavities(chunk, view, own)
        value = tilt.log_mean - chunk.log_means(cavity, own)
        if rows.sites is None:
            again = fields.changes(chunk.sites(tilt, cavity), own)
            moves = self.summed(again, np.where(valid & again.valid, chunk.weight, 0.0))
        usable = np.isfinite(value) & valid
        used, left_out = np.where(usable, chunk.weight, 0.0), float(skipped(chunk, usable))
        return Terms(self.summed(own, used), np.sum(used * np.where(usable, value, 0.0)), left_out, moves=moves)

    @quiet
    def errors(self, view: View, rows: Rows, draws: Any, setting: Setting) -> np.ndarray:
        chunk, theta = self.chunk_of(rows, setting), np.asarray(draws)
        asked = chunk.sites(chunk.tilts(view.cavity), view.cavity)
        cavity, tilt = self.in_own_cavities(chunk, view, asked)
        again = chunk.sites(tilt, cavity)
        change = fields.changes(again._replace(valid=again.valid & asked.valid), asked)
        return change.shift @ theta.T - 0.5 * change.precision @ (theta**2).T

    def chunk_of(self, rows: Rows, setting: Setting) -> Chunk:
        return Chunk(self.factor.likelihood, rows, setting.power)

    def in_own_cavities(self, chunk: Chunk, view: View, sites: Any) -> tuple[Field, Tilt]:
        """The cavities of rows without sites of their own, and what the likelihood says there."""
        cavity = view.cavity if chunk.power == 0 else chunk.cavities(view.q, sites)
        return cavity, chunk.tilts(cavity)

    def ahead(self, prior: Any, seen: Any, reached: Any, response: Any, share: float) -> Any:
        return fields.ahead(prior, seen, reached, response, share)

    def visits(
        self, state: State, rows: Rows, plan: Plan, rates: np.ndarray, counts: np.ndarray, setting: Setting
    ) -> tuple[State, Info] | None:
        """Many small batches by a scan, which is compiled."""
        many = len(plan.rows) > FEW and plan.rows.shape[1] <= CHUNK
        if not many or not self.factor.likelihood.can_be_traced(rows.data[1]):
            return None
        from cavity.inference import scan

        return scan.visits(self.programs(), state, rows, plan, rates, counts, setting.power)

    def programs(self) -> Programs:
        from cavity.inference.pull import Each

        return Each(self.factor)

    def with_factor(self, factor: Any) -> "InCoordinates":
        return InCoordinates(factor, self.prior, self.features)


def skipped(chunk: Chunk, valid: np.ndarray) -> Any:
    """How many rows that count are not valid."""
    return np.sum(~valid & (chunk.weight > 0))
