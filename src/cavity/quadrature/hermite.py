"""Gauss–Hermite rules of 5 to 31 nodes on the cavity itself, for likelihoods that vary little across it.

Derivatives are read as expected scores, g = E[l′] and h = E[l″] + α Var[l′], which keep their digits however small v
is; where l′ and l″ are not known, by parts: E[t e] and E[(t² − 1) e] with e = exp(α(l − l(m))) − 1, whose digits do not
cancel either. A rule is believed where the last Hermite coefficients of the integrand are small: its error is about
their square.

Of a likelihood about which nothing is known, nodes must lie out to some six standard deviations, where it may yet have
an edge. In narrow cavities a few do, spread further than those of a Gauss rule.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cavity.quadrature.kernel import BLOCK, Kernel, Near, Rows, take, weighted_sum
from cavity.quadrature.tilted import Tilt

# nodes, and how rough a row they are tried on
LADDER = ((3, 0.03), (5, 0.12), (7, 0.22), (9, 0.32), (13, 0.45), (21, 0.65), (31, 0.75))
# positive nodes for likelihoods of which less is known, such that the rule is exact for two more degrees than by
# itself; the widest cavity they are tried on, beside 1 + |mean|; and how small the last coefficients must be
SPREAD = (
    ((1.674568, 5.8), 0.0025, 5e-5),
    ((1.402995, 3.0, 5.8), 0.008, 2e-6),
    ((1.150035, 2.4, 4.1, 5.8), 0.04, 2e-6),
)
LEAST_NODES = 13  # of a Gauss rule for these: with fewer, none may lie where the likelihood varies
TOLERANCE = 1e-4  # of the last coefficients,
OF_THREE = 2e-2  # of which the error of three nodes is the third power
STRICT = 1e-5  # and where less is known
FLOOR = 1e-3  # v h is resolved relative to its own size or to this
DIFFERENCE = 3e-5  # the narrowest cavity for which values of l still say what its curvature is


class Rule(NamedTuple):
    nodes: np.ndarray  # (node, 1), in order and symmetric
    weights: np.ndarray
    reads: np.ndarray  # (3, node): the weights, and functionals that read the two last coefficients
    tolerance: float  # how small these must be,
    strict: float  # and where less is known of the kernel

    def at_mean(self, terms: np.ndarray) -> np.ndarray:
        """Of terms at the nodes, those at the cavity's mean."""
        return terms[len(self.weights) // 2]

    def expected(self, terms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Expectations of terms at the nodes, and the squared size of their last coefficients."""
        expected, *last = weighted_sum(self.reads, terms)
        return expected, last[0] ** 2 + last[1] ** 2


Here = tuple[np.ndarray, ...]  # l, l′ and l″ at the cavity's mean


class Finder:
    """The tilts of some rows, and which of them are resolved."""

    def __init__(self, kernel: Kernel, rows: Rows, power: float) -> None:
        self.kernel, self.rows, self.power = kernel, rows, power
        self.found, self.good = Tilt(*np.empty((4, len(rows.mean)))), np.zeros(len(rows.mean), bool)
        self.value = np.empty(len(rows.mean))  # of l at the mean

    def try_on(self, rule: Rule, which: np.ndarray, here: Here | None) -> None:
        """A rule for some rows, in blocks."""
        some, n_rows = self.rows.take(which), len(self.good)
        if which.size == n_rows and n_rows * len(rule.weights) <= BLOCK:  # the usual case: nothing is copied
            self.found, self.good, value = tilts_of(rule, self.kernel, some, here, self.power)
            self.value = np.array(value)  # the kernel's own, and other rules may write to it
            return
        for block in some.blocks(len(rule.weights)):
            index = block if which.size == n_rows else which[block]
            part = Rows(take(some.y, block), some.mean[block], some.scale[block])
            at = None if here is None else take(here, block)
            tilt, self.good[index], self.value[index] = tilts_of(rule, self.kernel, part, at, self.power)
            for whole, values in zip(self.found, tilt, strict=True):
                whole[index] = values


def tilts(kernel: Kernel, rows: Rows, power: float) -> tuple[Tilt, np.ndarray]:
    """The tilts of all rows, and which of them are resolved; the others are not to be used."""
    wide = rows if kernel.exact else rows._replace(scale=np.maximum(rows.scale, DIFFERENCE))
    finder = Finder(kernel, wide, power)
    if kernel.length is None:
        for rule, widest in SPREAD_RULES:
            which = np.flatnonzero((wide.scale <= widest * (1 + np.abs(wide.mean))) & ~finder.good)
            if which.size:
                finder.try_on(rule, which, None)
    rest = np.flatnonzero(~finder.good)
    if rest.size:
        by_ladder(finder, rest)
    if kernel.exact:
        return finder.found, finder.good
    ratio = (rows.scale / wide.scale) ** 2
    return narrowed(finder.found, finder.value, ratio, rows.scale**2, power), finder.good


def by_ladder(finder: Finder, rest: np.ndarray) -> None:
    """Gauss rules of more and more nodes, tried on rows that are smooth enough for them."""
    some, kernel = finder.rows.take(rest), finder.kernel
    here = tuple(np.broadcast_to(part, len(rest)) for part in kernel.derivatives(some.y, some.mean))
    rough = roughness(kernel, some, here, finder.power)
    todo = np.arange(len(rest))
    for n_nodes, most in LADDER:
        if kernel.length is None and n_nodes < LEAST_NODES:
            continue
        which = todo[rough[todo] <= most] if len(todo) < len(rest) else np.flatnonzero(rough <= most)
        if which.size:
            finder.try_on(RULES[n_nodes], rest[which], take(here, which) if which.size < len(rest) else here)
            todo = todo[:0] if np.all(finder.good) else todo[~finder.good[rest[todo]]]
        if not todo.size:
            break


def roughness(kernel: Kernel, rows: Rows, here: tuple[np.ndarray, ...], power: float) -> np.ndarray:
    """How much the tilted density differs from the cavity, and the likelihood from a parabola, across one sd."""
    _, slope, curve = here
    rough = np.maximum(power * rows.scale * np.abs(slope), np.sqrt(power * np.abs(curve)) * rows.scale)
    if kernel.length is not None:
        rough = np.maximum(rough, rows.scale / kernel.length(rows.y))
    return rough


def tilts_of(
    rule: Rule, kernel: Kernel, rows: Rows, here: Here | None, power: float
) -> tuple[Tilt, np.ndarray, np.ndarray]:
    """One rule for a block of rows: tilts, which are good, and l at the mean."""
    if kernel.values is not None:
        value = kernel.values(rows.y, rows.mean + rows.scale * rule.nodes)
        at_mean = rule.at_mean(value)
        return *by_parts(rule, at_mean, value - at_mean, rows.scale, power), at_mean
    if kernel.near is not None and here is not None:
        found = by_ratio(rule, kernel.near, rows, here, power)
    else:
        found = by_derivatives(rule, kernel, rows, here, power)
    known, log_mean, total, ratio, change, curve, here = found
    curve, variance = ratio * curve, rows.scale**2
    expected, last = rule.expected(curve)
    size = np.abs(expected) if kernel.log_concave else weighted_sum(rule.weights, np.abs(curve))
    tolerance = rule.strict if kernel.length is None else rule.tolerance
    good = known & (last <= (tolerance * (size + FLOOR / variance)) ** 2)
    weighted = ratio * change
    first, curvature = weighted_sum(rule.weights, weighted) / total, expected / total
    if power:
        weighted *= change
        curvature += power * (weighted_sum(rule.weights, weighted) / total - first**2)
    return Tilt(log_mean, here[1] + first, curvature, 1 + power * variance * curvature), good, here[0]


def by_ratio(rule: Rule, near: Near, rows: Rows, here: Here, power: float) -> tuple[Any, ...]:
    """What `by_derivatives` gives, from the kernel's own form for narrow cavities."""
    ratio, change, curve = near(rows.y, rows.mean, rows.scale * rule.nodes)
    total = weighted_sum(rule.weights, ratio)
    log_mean = here[0] + np.log(total) / power
    return np.isfinite(log_mean), log_mean, total, ratio, change, curve, here


def by_derivatives(rule: Rule, kernel: Kernel, rows: Rows, here: Here | None, power: float) -> tuple[Any, ...]:
    """Whether l is resolved, ℓ, E[r], r = e^(α (l − l₀)), l′ − l₀′ and l″ at the nodes; and (l₀, l₀′, l₀″)."""
    value, slope, curve = kernel.derivatives(rows.y, rows.mean + rows.scale * rule.nodes)
    here = tuple(rule.at_mean(part) for part in (value, slope, curve)) if here is None else here
    rise = value - here[0]
    # l″ may vanish at all nodes and yet not between them; values show it
    known = True if kernel.length is not None else by_parts(rule, here[0], rise, rows.scale, power)[1]
    if power == 0:
        one = np.ones_like(rise)
        return known, here[0] + weighted_sum(rule.weights, rise), 1.0, one, slope - here[1], curve, here
    excess = weighted_sum(rule.weights, np.expm1(power * rise))
    log_mean = here[0] + np.log1p(excess) / power
    return known, log_mean, 1 + excess, np.exp(power * rise), slope - here[1], curve, here


def by_parts(
    rule: Rule, value: np.ndarray, rise: np.ndarray, scale: np.ndarray, power: float
) -> tuple[Tilt, np.ndarray]:
    """The tilt from values of l alone."""
    divisor = power if power else 1.0
    grown = np.expm1(power * rise) if power else rise
    nodes = rule.nodes[:, 0]
    excess, first, second = weighted_sum(rule.weights * np.stack([nodes**0, nodes, nodes**2 - 1]), grown)
    if power:
        first, second = first / (1 + excess), second / (1 + excess)
        second = second - first**2
    log_mean = value + (np.log1p(excess) / power if power else excess)
    size = divisor * FLOOR + np.abs(second)
    good = rule.expected(grown)[1] <= (rule.strict * size) ** 2
    tilt = Tilt(log_mean, first / (divisor * scale), second / (divisor * scale**2), 1 + power * second / divisor)
    return tilt, good


def narrowed(tilt: Tilt, value: np.ndarray, ratio: np.ndarray, variance: np.ndarray, power: float) -> Tilt:
    """From a cavity of the least width to a narrower one, across which l is a parabola."""
    log_mean = value + ratio * (tilt.log_mean - value)
    return tilt._replace(log_mean=log_mean, shrinkage=1 + power * variance * tilt.curvature)


def gauss_hermite(n_nodes: int) -> Rule:
    """The rule of a standard normal that is exact for the highest degree."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    weights = weights / weights.sum()
    tolerance = TOLERANCE if n_nodes > 3 else OF_THREE
    functionals = weights * polynomials(nodes)
    return Rule(nodes[:, None], weights, functionals[[0, -2, -1]], tolerance, STRICT)


def spread(positive: Sequence[float], strict: float) -> Rule:
    """The rule of a standard normal with these nodes, their mirror images and zero."""
    nodes = np.array([*(-t for t in reversed(positive)), 0.0, *positive])
    coefficients = np.linalg.inv(polynomials(nodes).T)  # of the polynomial through values at the nodes
    return Rule(nodes[:, None], coefficients[0], coefficients[[0, -2, -1]], strict, strict)


def polynomials(nodes: np.ndarray) -> np.ndarray:
    """Orthonormal Hermite polynomials at some nodes, (degree, node), as many as there are nodes."""
    before, polynomial, rows = np.zeros(len(nodes)), np.ones(len(nodes)), []
    for degree in range(len(nodes)):
        rows.append(polynomial)
        before, polynomial = polynomial, (nodes * polynomial - np.sqrt(degree) * before) / np.sqrt(degree + 1)
    return np.array(rows)


RULES = {n_nodes: gauss_hermite(n_nodes) for n_nodes, _ in LADDER}
SPREAD_RULES = [(spread(positive, strict), widest) for positive, widest, strict in SPREAD]
