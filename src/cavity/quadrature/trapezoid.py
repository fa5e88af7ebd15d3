"""The trapezoid rule for wide cavities: integrands are analytic and vanish at both ends, so it converges exponentially.

Each row has its own step; rows are sorted into a few numbers of nodes. Every other node is a rule by itself, and every
fourth one: halving the step squares the error, so that three rules tell how large it is. Rows that are not resolved get
the midpoints as well, as often as `MAX_DOUBLINGS` allows.
"""

import functools
from typing import NamedTuple

import numpy as np

from cavity.quadrature.kernel import BLOCK, Kernel, Rows
from cavity.quadrature.placing import Place, fourth_power, place
from cavity.quadrature.tilted import Tilt
from cavity.special.constants import LOG_SQRT_2PI

STEP = 0.5  # of x, to begin with
COUNTS = (25, 33, 41, 49, 65, 81, 97, 129, 193, 257, 385, 513, 1025)  # 4 k + 1: three rules lie inside each other
MAX_DOUBLINGS = 5
PORTION = 128  # nodes at once
TOLERANCE = 1e-10  # of the error that is expected
ROUGH = 1e-5  # of the difference between a rule and every other node of it
TINY = 1e-300
ROUNDING = 1e-13  # what rounding of a large l may claim
FLOOR = 1e-3  # √v g and v h are resolved relative to their own size or to this
NEGLIGIBLE = 1e-12  # share of the sum at both ends of the range
HIGHEST = 600.0  # of the log integrand above its value at the mode: what rounding may claim
SHALLOW = 0.1  # of α v l″: below it, expected scores lose fewer digits than tilted moments


def tilts(kernel: Kernel, rows: Rows, power: float) -> tuple[Tilt, np.ndarray]:
    """The tilts of all rows, and which of them are resolved."""
    placed = place(kernel, rows, power)
    around = rows._replace(mean=placed.activation)
    shallow = power * placed.bend < SHALLOW
    found, good = np.full((4, len(rows.mean)), np.nan), np.zeros(len(rows.mean), bool)
    bucket = buckets(placed)
    for index, n_nodes in enumerate(COUNTS):
        for scores in (False, True):
            which = np.flatnonzero((bucket == index) & (shallow == scores))
            size = max(1, BLOCK // n_nodes)
            for block in (which[i : i + size] for i in range(0, len(which), size)):
                rule = Rule(kernel, around.take(block), placed.take(block), power, scores and kernel.exact)
                found[:, block], good[block] = refined(rule, n_nodes)
    log_mean, slope, curvature, shrinkage = found
    return Tilt(log_mean, slope / rows.scale, curvature / rows.scale**2, shrinkage), good


def buckets(placed: Place) -> np.ndarray:
    """The number of nodes of each row as an index into `COUNTS`; −1 where there is no range to put them in."""
    count = (placed.end - placed.begin) / STEP + 1
    proper = np.isfinite(count) & (count > 1) & (count <= COUNTS[-1])
    return np.where(proper, np.searchsorted(COUNTS, np.where(proper, count, 0.0)), -1)


class Rule(NamedTuple):
    """What the sums over nodes of a block of rows need."""

    kernel: Kernel
    rows: Rows  # with their modes in place of their means
    placed: Place
    power: float
    scores: bool  # expected scores beside the tilted moments

    def take(self, index: np.ndarray) -> "Rule":
        return self._replace(rows=self.rows.take(index), placed=self.placed.take(index))

    def sums(self, begin: np.ndarray, step: np.ndarray, n_nodes: int) -> np.ndarray:
        """Sums over equally spaced x, (term, row), in portions whose size does not depend on the number of rows."""
        parts = [
            self.portion(begin + step * np.arange(first, min(first + PORTION, n_nodes))[:, None])
            for first in range(0, n_nodes, PORTION)
        ]
        return functools.reduce(np.add, parts)

    def portion(self, x: np.ndarray) -> np.ndarray:
        """The sums over a few nodes, relative to the mode: of w (1, d, d²) and, as scores, of w (u, u², l″).

        At power 0 of w (1, r, u, l″, u d) with |l″| and |u d|. Here d = t − t₀, r = l − l₀, u = l′ − l₀′.
        """
        placed, mode = self.placed, self.placed.mode
        fourth = placed.growth * fourth_power(x)
        d = (placed.pivot - mode.t) + placed.step * (x * (1 + 0.2 * fourth))
        shift = self.rows.scale * d
        a = self.rows.mean + shift
        if self.kernel.values is None:
            value, slope, curve = self.kernel.derivatives(self.rows.y, a)
            lost = shift - (a - self.rows.mean)  # in rounding; it matters where l is steep
            rise = value + lost * slope - mode.value
        else:
            rise = self.kernel.values(self.rows.y, a) - mode.value
        w = np.exp(np.minimum(self.power * rise - d * (mode.t + 0.5 * d), HIGHEST)) * (1 + fourth)
        w = np.nan_to_num(w, copy=False, nan=0.0)  # l and its slope may overflow together
        if self.power:
            first = w * d
            terms = [w, first, first * d]
            if self.scores:
                change = np.where(w > 0, self.rows.scale * (slope + lost * curve) - mode.slope, 0.0)
                terms += [w * change, w * change**2, w * np.where(w > 0, self.rows.scale**2 * curve, 0.0)]
        elif self.kernel.exact:
            change = self.rows.scale * (slope + lost * curve) - mode.slope
            terms = [w, w * rise, w * change, w * (self.rows.scale**2 * curve), w * change * d]
            terms += [np.abs(terms[3]), np.abs(terms[4])]
        else:
            terms = [w, w * rise, w * rise * d, w * rise * (d**2 - 1)]
        return np.stack([column_sums(term) for term in terms])

    def read(self, sums: np.ndarray, step: np.ndarray) -> np.ndarray:
        """ℓ, √v g, v h and the shrinkage."""
        mode, power = self.placed.mode, self.power
        total, terms = sums[0], sums[1:] / sums[0]
        if power == 0:
            return self.read_at_zero(terms)
        first, spread = terms[0], terms[1] - terms[0] ** 2
        log_mean = (mode.height(power) + np.log(step * self.placed.step * total) - LOG_SQRT_2PI) / power
        if not self.scores:
            return np.stack([log_mean, (mode.t + first) / power, (spread - 1) / power, spread])
        curvature = terms[4] + power * (terms[3] - terms[2] ** 2)
        return np.stack([log_mean, mode.slope + terms[2], curvature, 1 + power * curvature])

    def read_at_zero(self, terms: np.ndarray) -> np.ndarray:
        mode, one = self.placed.mode, np.ones_like(terms[0])
        if not self.kernel.exact:
            return np.stack([mode.value + terms[0], terms[1], terms[2], one])
        curvature = np.where(terms[5] < terms[4], terms[3], terms[2])
        return np.stack([mode.value + terms[0], mode.slope + terms[1], curvature, one])


def refined(rule: Rule, n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """The tilts of a block with so many nodes, and with twice as many again and again where that is not enough."""
    n, placed = len(rule.rows.mean), rule.placed
    found, good, todo = np.empty((4, n)), np.zeros(n, bool), np.arange(n)
    ends = rule.portion(np.stack([placed.begin, placed.end]))[0]
    n_gaps = (n_nodes - 1) // 4
    step = (placed.end - placed.begin) / n_gaps
    sums = rule.sums(placed.begin, step, n_gaps + 1)
    before = coarse = rule.read(sums, step)
    for doubling in range(-1, MAX_DOUBLINGS + 1):
        sums = sums + rule.sums(rule.placed.begin + step / 2, step, n_gaps)
        step, n_gaps = step / 2, 2 * n_gaps
        after = rule.read(sums, step)
        found[:, todo] = after
        if doubling >= 0:
            good[todo] = converged(rule, coarse, before, after) & (ends <= NEGLIGIBLE * sums[0])
        stay = np.flatnonzero(~good[todo])
        if not stay.size:
            break
        rule, todo = rule.take(stay), todo[stay]
        sums, coarse, before, step, ends = sums[:, stay], before[:, stay], after[:, stay], step[stay], ends[stay]
    return found, good


def converged(rule: Rule, coarse: np.ndarray, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Whether the last of three rules, of double density each, is right: every number on its natural scale.

    Errors are c q, c q² and c q⁴ with a share c of the mass, which may be small: two differences tell c and q apart.
    """
    power, mode = rule.power, rule.placed.mode
    scale = np.abs(after)
    scale[0] = np.maximum(scale[0], 1.0)
    scale[1:3] += FLOOR
    if power:
        scale[1] = np.minimum(scale[1], np.sqrt(after[3]) / power)  # the tilted mean in tilted sds
    first, second = np.abs(before - coarse), np.abs(after - before)
    expected = second * np.minimum(second / np.maximum(first, TINY), 1.0) ** 2
    noise = ROUNDING * (1 + np.abs(power * mode.value))
    return np.all((expected <= (TOLERANCE + noise) * scale) & (second <= (ROUGH + noise) * scale), axis=0)


def column_sums(terms: np.ndarray) -> np.ndarray:
    """Sums over nodes in their order; NumPy adds a single column in another one."""
    return terms.sum(0) if terms.shape[1] > 1 else np.add.accumulate(terms, 0)[-1]
