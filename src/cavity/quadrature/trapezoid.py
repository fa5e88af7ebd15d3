"""The trapezoid rule for wide cavities: integrands are analytic and vanish at both ends, so it converges exponentially.

Each row has its own step and its own number of nodes; rows of similar numbers are worked on together, the shorter ones
filled up with nodes of weight zero. Every other node is a rule by itself, and every fourth one: halving the step
squares the error, so that three rules tell how large it is. Rows that are not resolved get twice as many nodes, as
often as `MAX_DOUBLINGS` allows.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from cavity.quadrature.kernel import BLOCK, Kernel, Rows
from cavity.quadrature.placing import Place, place
from cavity.quadrature.tilted import Tilt
from cavity.special.constants import LOG_SQRT_2PI

STEP = 0.4  # of x, to begin with
MOST = 1025  # nodes to begin with
MAX_DOUBLINGS = 6
FEW = 2**14  # numbers that are worked on together whatever the numbers of nodes,
ALIKE = 1.4  # and by how much these differ otherwise
TOLERANCE = 1e-10  # of the error that is expected
ROUGH = 1e-5  # of the difference between a rule and every other node of it
TINY = 1e-300
ROUNDING = 1e-13  # what rounding of a large l may claim
FLOOR = 1e-3  # √v g and v h are resolved relative to their own size or to this
NEGLIGIBLE = 1e-12  # share of the sum at both ends of the range
HIGHEST = 600.0  # of the log integrand above its value at the mode: what rounding may claim
SHALLOW = 0.1  # of α v l″: below it, expected scores lose fewer digits than tilted moments
DENSITIES = np.array([[4.0], [2.0], [1.0]])  # steps of the three rules in those of the last


def tilts(kernel: Kernel, rows: Rows, power: float) -> tuple[Tilt, np.ndarray]:
    """The tilts of all rows, and which of them are resolved."""
    placed = place(kernel, rows, power)
    around = rows._replace(mean=placed.activation)
    shallow = (power * placed.bend < SHALLOW) & kernel.exact
    found, good = np.full((4, len(rows.mean)), np.nan), np.zeros(len(rows.mean), bool)
    n_nodes = numbers(placed)
    todo = np.flatnonzero(n_nodes)
    for _ in range(MAX_DOUBLINGS + 1):
        for lot in lots(n_nodes, todo):
            rule = Rule(kernel, around.take(lot), placed.take(lot), power, shallow[lot], n_nodes[lot])
            found[:, lot], good[lot] = rule.tilts()
        todo = todo[~good[todo]]
        n_nodes[todo] = 2 * n_nodes[todo] - 1
        if not todo.size:
            break
    log_mean, slope, curvature, shrinkage = found
    return Tilt(log_mean, slope / rows.scale, curvature / rows.scale**2, shrinkage), good


def numbers(placed: Place) -> np.ndarray:
    """The number of nodes of each row, 4 k + 1 so that three rules lie inside each other; 0 without a range."""
    gaps = np.ceil((placed.end - placed.begin) / (4 * STEP))
    proper = (gaps > 0) & (4 * gaps < MOST)
    return np.where(proper, 4 * np.where(proper, gaps, 0.0) + 1, 0.0).astype(np.int64)


def lots(n_nodes: np.ndarray, rows: np.ndarray) -> Iterator[np.ndarray]:
    """Rows in lots that are worked on together; what a row gets does not depend on the others of its lot."""
    rows = rows[np.argsort(n_nodes[rows], kind="stable")]
    sizes = n_nodes[rows]
    begin = 0
    while begin < len(rows):
        few = len(rows) if sizes[-1] * (len(rows) - begin) <= FEW else 0
        end = max(few, np.searchsorted(sizes, ALIKE * sizes[begin], side="right"))
        end = min(end, begin + max(BLOCK // sizes[end - 1], 1))
        yield np.sort(rows[begin:end])
        begin = end


class Rule(NamedTuple):
    """What the sums over nodes of a lot of rows need."""

    kernel: Kernel
    rows: Rows  # with their modes in place of their means
    placed: Place
    power: float
    shallow: np.ndarray  # whether expected scores are read in place of the tilted moments
    n_nodes: np.ndarray

    def tilts(self) -> tuple[np.ndarray, np.ndarray]:
        """ℓ, √v g, v h and the shrinkage of each row, and whether they are resolved."""
        placed, number = self.placed, np.arange(self.n_nodes.max())[:, None]
        step = (placed.end - placed.begin) / (self.n_nodes - 1)
        own = number < self.n_nodes
        terms = self.terms(placed.begin + step * np.minimum(number, self.n_nodes - 1), own)
        sums = np.stack([nested_sums(term) for term in terms])
        values = self.read(sums, DENSITIES * step)
        last = np.take_along_axis(terms[0], self.n_nodes[None] - 1, 0)[0]
        inside = np.maximum(terms[0][0], last) <= NEGLIGIBLE * sums[0, 2]
        return values[:, 2], inside & converged(self, *np.moveaxis(values, 1, 0))

    def terms(self, x: np.ndarray, own: np.ndarray) -> list[np.ndarray]:
        """What is summed, relative to the mode: w (1, d, d²) and, for expected scores, w (u, u², l″).

        At power 0 w (1, r, u, l″, u d) with |l″| and |u d|. Here d = t − t₀, r = l − l₀, u = l′ − l₀′. Nodes that are
        not a row's `own` have no weight.
        """
        kernel, placed, mode = self.kernel, self.placed, self.placed.mode
        x = x / placed.spread
        d = (placed.pivot - mode.t) + (placed.step * placed.spread) * np.sinh(x)
        shift = self.rows.scale * d
        a = self.rows.mean + shift
        scored = kernel.exact and (self.power == 0 or bool(np.any(self.shallow)))
        if scored or (kernel.level is None and kernel.exact):
            value, slope, curve = kernel.derivatives(self.rows.y, a)
            lost = shift - (a - self.rows.mean)  # in rounding; it matters where l is steep
        level = kernel.level or kernel.values
        rise = (value + lost * slope if level is None else level(self.rows.y, a)) - mode.value
        w = np.exp(np.minimum(self.power * rise - d * (mode.t + 0.5 * d), HIGHEST)) * np.cosh(x)
        w = np.where(own & (w > 0), w, 0.0)  # not where l and its slope overflow together
        if self.power:
            first = w * d
            terms = [w, first, first * d]
            if scored:
                change = np.where(w > 0, self.rows.scale * (slope + lost * curve) - mode.slope, 0.0)
                terms += [w * change, w * change**2, w * np.where(w > 0, self.rows.scale**2 * curve, 0.0)]
        elif scored:
            change = self.rows.scale * (slope + lost * curve) - mode.slope
            terms = [w, w * rise, w * change, w * (self.rows.scale**2 * curve), w * change * d]
            terms += [np.abs(terms[3]), np.abs(terms[4])]
        else:
            terms = [w, w * rise, w * rise * d, w * rise * (d**2 - 1)]
        return terms

    def read(self, sums: np.ndarray, step: np.ndarray) -> np.ndarray:
        """ℓ, √v g, v h and the shrinkage by each of the three rules."""
        mode, power = self.placed.mode, self.power
        total, terms = sums[0], sums[1:] / sums[0]
        if power == 0:
            return self.read_at_zero(terms)
        first, spread = terms[0], terms[1] - terms[0] ** 2
        log_mean = (mode.height(power) + np.log(step * self.placed.step * total) - LOG_SQRT_2PI) / power
        direct = np.stack([log_mean, (mode.t + first) / power, (spread - 1) / power, spread])
        if len(terms) == 2:
            return direct
        curvature = terms[4] + power * (terms[3] - terms[2] ** 2)
        return np.where(
            self.shallow, np.stack([log_mean, mode.slope + terms[2], curvature, 1 + power * curvature]), direct
        )

    def read_at_zero(self, terms: np.ndarray) -> np.ndarray:
        mode, one = self.placed.mode, np.ones_like(terms[0])
        if not self.kernel.exact:
            return np.stack([mode.value + terms[0], terms[1], terms[2], one])
        curvature = np.where(terms[5] < terms[4], terms[3], terms[2])
        return np.stack([mode.value + terms[0], mode.slope + terms[1], curvature, one])


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


def nested_sums(terms: np.ndarray) -> np.ndarray:
    """Sums over every fourth node, every other node and all nodes."""
    fourth, second, odd = (column_sums(terms[first::step]) for first, step in ((0, 4), (2, 4), (1, 2)))
    return np.stack([fourth, fourth + second, fourth + second + odd])


def column_sums(terms: np.ndarray) -> np.ndarray:
    """Sums over nodes in their order; NumPy adds a single column in another one."""
    return terms.sum(0) if terms.shape[1] > 1 else np.add.accumulate(terms, 0)[-1]
