"""Generalised linear models with independent coefficients on the host: every coordinate is matched by itself.

The likelihood's slope g and curvature h along a row x act on coordinate d as x_d g and x_d² h, so that its site has
precision τ_d = −x_d² h/r_d and shift ν_d = τ_d m_d + x_d g/r_d, with r_d = 1 + α v_d x_d² h the tilted variance over
the cavity's. Arrays have a line for each row and a column for each coordinate.
"""

from typing import Any, NamedTuple

import numpy as np

from cavity import _tree as tree
from cavity.factors.glm.line import tilts_of
from cavity.factors.glm.rows import spread_out
from cavity.inference import memory
from cavity.inference.contract import CHUNK, Found, Programs, Rows, Setting, Sums, Terms, View
from cavity.inference.order import Plan
from cavity.inference.update import Info, State

FEW = 32  # batches in a sweep: more are worth a compiled program
quiet = np.errstate(all="ignore")  # NaN is an answer: rows that have one are skipped and counted


class Asked(NamedTuple):
    """What rows ask for, a site each."""

    site: Any
    valid: np.ndarray
    log_scale: np.ndarray


class InCoordinates(Sums):
    """Rows of X whose sites are independent coordinates."""

    in_threads = small_matrices = True

    def __init__(self, factor: Any, prior: Any) -> None:
        self.factor, self.prior, self.kind = factor, prior, type(prior)
        self.chunk = int(np.clip(4_000_000 // len(prior.shift), 1, CHUNK))

    def own_site(self) -> Any:
        return 0.0 * self.prior

    def total(self, rows: Rows) -> Any:
        return tree.map(lambda leaf: rows.weight @ leaf, rows.sites)

    @quiet
    def estimates(self, view: View, rows: Rows, setting: Setting) -> Found:
        sites, present = memory.sites_seen(view, rows)
        asked = self.ask(without(view.q, sites, setting.power * present), view.q, rows, setting.power)
        used = np.where(asked.valid, rows.weight, 0.0)
        changes = rows.sites is not None
        site = memory.times(asked.valid * 1.0, asked.site - sites) if changes else asked.site
        return Found(
            tree.map(lambda leaf: used @ leaf, site),
            np.sum(used),
            np.sum(~asked.valid & (rows.weight > 0)),
            np.sum(used * asked.log_scale),
            not np.any(used @ np.minimum(site.precision, 0.0)),
            site if changes else None,
        )

    @quiet
    def terms(self, view: View, rows: Rows, setting: Setting) -> Terms:
        own, valid, power, moves = rows.sites, np.ones(len(rows.weight), bool), setting.power, None
        if own is None:
            own, valid, change = self.asked_twice(view, rows, power)
            moves = tree.map(lambda leaf: rows.weight @ leaf, change)
        cavity = without(view.q, own, power * memory.present(rows.weight))
        value = self.tilts(cavity, rows, power).log_mean - log_means_of_sites(cavity, own, power)
        usable = np.isfinite(value) & valid
        left_out = float(np.sum(~usable & (rows.weight > 0)))
        used = np.where(usable, rows.weight, 0.0)
        total = tree.map(lambda leaf: used @ leaf, own)
        return Terms(total, np.sum(used * np.where(usable, value, 0.0)), left_out, moves=moves)

    @quiet
    def errors(self, view: View, rows: Rows, draws: Any, setting: Setting) -> np.ndarray:
        _, _, change = self.asked_twice(view, rows, setting.power)
        theta = np.asarray(draws)
        return change.shift @ theta.T - 0.5 * change.precision @ (theta**2).T

    def asked_twice(self, view: View, rows: Rows, power: float) -> tuple[Any, np.ndarray, Any]:
        """λ̂ of rows that share a site, whether it is valid, and by how much it changes once it is what is removed."""
        sites, present = memory.sites_seen(view, rows)
        asked = self.ask(without(view.q, sites, power * present), view.q, rows, power)
        cavity = without(view.q, asked.site, power * memory.present(rows.weight))
        again = self.ask(cavity, view.q, rows, power)
        return asked.site, asked.valid, memory.times((asked.valid & again.valid) * 1.0, again.site - asked.site)

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
        return InCoordinates(factor, self.prior)

    def tilts(self, cavity: Any, rows: Rows, power: float) -> Any:
        """What the likelihood says of every row's activation in its cavity."""
        features = spread_out(rows.data[0])
        variance = 1 / cavity.precision
        mean = np.sum(features * cavity.shift * variance, axis=1)
        return tilts_of(self.factor.likelihood, rows.data[1], mean, np.sum(features**2 * variance, axis=1), power)

    def ask(self, cavity: Any, q: Any, rows: Rows, power: float) -> Asked:
        """Own-site estimates of rows, each from a cavity of its own; zero where they are not valid."""
        proper = np.all((cavity.precision > 0) & np.isfinite(cavity.precision) & np.isfinite(cavity.shift), axis=1)
        cavity = self.kind(*(np.where(proper[:, None], own, of_q) for own, of_q in pairs(cavity, q)))
        features, tilt = spread_out(rows.data[0]), self.tilts(cavity, rows, power)
        variance = 1 / cavity.precision
        curvature = features**2 * tilt.curvature[:, None]
        shrinkage = 1 + power * variance * curvature
        precision = -curvature / shrinkage
        site = self.kind(precision * cavity.shift * variance + features * tilt.slope[:, None] / shrinkage, precision)
        finite = np.isfinite(tilt.log_mean) & np.all(np.isfinite(site.shift) & np.isfinite(precision), axis=1)
        valid = proper & finite & np.all(shrinkage > 0, axis=1)
        log_scale = np.where(valid, tilt.log_mean - log_means_of_sites(cavity, site, power), 0.0)
        return Asked(
            self.kind(*(np.where(valid[:, None], leaf, 0.0) for leaf in (site.shift, precision))), valid, log_scale
        )


def pairs(one: Any, other: Any) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """The shifts of two, and their precisions."""
    return (one.shift, other.shift), (one.precision, other.precision)


def without(q: Any, sites: Any, part: np.ndarray) -> Any:
    """q less a part of a site, a line for each row."""
    return type(q)(*(of_q - part[:, None] * of_rows for of_q, of_rows in pairs(q, sites)))


def log_means_of_sites(cavity: Any, site: Any, power: float) -> np.ndarray:
    """(1/α) log E_c[site^α] of every row, and its limit ⟨λ, E_c[T]⟩ at power 0."""
    mean, variance = cavity.shift / cavity.precision, 1 / cavity.precision
    slope = site.shift - site.precision * mean
    value = site.shift * mean - 0.5 * site.precision * mean**2
    if power == 0:
        return np.sum(value - 0.5 * site.precision * variance, axis=1)
    ratio = 1 + power * site.precision * variance
    return np.sum(value + 0.5 * power * variance * slope**2 / ratio - 0.5 * np.log(ratio) / power, axis=1)
