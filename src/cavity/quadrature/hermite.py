"""Gauss–Hermite rules of 5 to 31 nodes on the cavity itself, for likelihoods that vary little across it.

Derivatives are read as expected scores, g = E[l′] and h = E[l″] + α Var[l′], which keep their digits however small v
is; where l′ and l″ are not known, by parts: E[t e] and E[(t² − 1) e] with e = exp(α(l − l(m))) − 1, whose digits do not
cancel either. A rule is believed where the last Hermite coefficients of the integrand are small: its error is about
their square.
"""

from typing import NamedTuple

import numpy as np

from cavity.quadrature.kernel import Kernel, Rows, take, weighted_sum
from cavity.quadrature.tilted import Tilt

# nodes, and how rough a row they are tried on
LADDER = ((5, 0.12), (7, 0.22), (9, 0.32), (13, 0.45), (21, 0.65), (31, 0.75))
TOLERANCE = 1e-4  # of the last coefficients
STRICT = 1e-5  # where less is known of the kernel
LEAST_NODES = 13  # there too: with fewer, none may lie where the likelihood varies
FLOOR = 1e-3  # v h is resolved relative to its own size or to this
DIFFERENCE = 3e-5  # the narrowest cavity for which values of l still say what its curvature is


class Rule(NamedTuple):
    nodes: np.ndarray  # (node, 1)
    weights: np.ndarray
    last: np.ndarray  # (2, node): functionals that read the two last coefficients


def tilts(kernel: Kernel, rows: Rows, power: float) -> tuple[Tilt, np.ndarray]:
    """The tilts of all rows, and which of them are resolved; the others are not to be used."""
    n = len(rows.mean)
    found, good = Tilt(*np.empty((4, n))), np.zeros(n, bool)
    wide = rows if kernel.exact else rows._replace(scale=np.maximum(rows.scale, DIFFERENCE))
    here = tuple(part + np.zeros(n) for part in kernel.derivatives(rows.y, rows.mean))
    rough = roughness(kernel, wide, here, power)
    for n_nodes, most in LADDER:
        if kernel.length is None and n_nodes < LEAST_NODES:
            continue
        which = np.flatnonzero((rough <= most) & ~good)
        some, at = wide.take(which), take(here, which) if which.size < n else here
        for block in some.blocks(n_nodes):
            index = which[block]
            part = Rows(take(some.y, block), some.mean[block], some.scale[block])
            tilt, good[index] = tilts_of(RULES[n_nodes], kernel, part, take(at, block), power)
            for whole, values in zip(found, tilt, strict=True):
                whole[index] = values
    if not kernel.exact:
        found = narrowed(found, here[0], (rows.scale / wide.scale) ** 2, rows.scale**2, power)
    return found, good


def roughness(kernel: Kernel, rows: Rows, here: tuple[np.ndarray, ...], power: float) -> np.ndarray:
    """How much the tilted density differs from the cavity, and the likelihood from a parabola, across one sd."""
    _, slope, curve = here
    rough = np.maximum(power * rows.scale * np.abs(slope), np.sqrt(power * np.abs(curve)) * rows.scale)
    if kernel.length is not None:
        rough = np.maximum(rough, rows.scale / kernel.length(rows.y))
    return rough


def tilts_of(
    rule: Rule, kernel: Kernel, rows: Rows, here: tuple[np.ndarray, ...], power: float
) -> tuple[Tilt, np.ndarray]:
    """One rule for a block of rows."""
    scale = rows.scale
    a = rows.mean + scale * rule.nodes
    if kernel.values is not None:
        return by_parts(rule, here[0], kernel.values(rows.y, a) - here[0], scale, power)
    value, slope, curve = kernel.derivatives(rows.y, a)
    # l″ may vanish at all nodes and yet not between them; values show it
    known = True if kernel.length is not None else by_parts(rule, here[0], value - here[0], scale, power)[1]
    grown = np.expm1(power * (value - here[0])) if power else value - here[0]
    excess = weighted_sum(rule.weights, grown)
    log_mean = here[0] + (np.log1p(excess) / power if power else excess)
    total = 1 + excess if power else 1.0
    weight = 1 + grown if power else 1.0
    change, curve = slope - here[1], weight * curve
    expect = lambda terms: weighted_sum(rule.weights, terms) / total
    size = weighted_sum(rule.weights, np.abs(curve)) + FLOOR / scale**2
    last = np.hypot(weighted_sum(rule.last[0], curve), weighted_sum(rule.last[1], curve))
    good = known & (last <= (STRICT if kernel.length is None else TOLERANCE) * size)
    first = expect(weight * change)
    curvature = expect(curve)
    if power:
        curvature += power * (expect(weight * change**2) - first**2)
    return Tilt(log_mean, here[1] + first, curvature, 1 + power * scale**2 * curvature), good


def by_parts(
    rule: Rule, value: np.ndarray, rise: np.ndarray, scale: np.ndarray, power: float
) -> tuple[Tilt, np.ndarray]:
    """The tilt from values of l alone."""
    divisor = power if power else 1.0
    grown = np.expm1(power * rise) if power else rise
    excess = weighted_sum(rule.weights, grown)
    total = 1 + excess if power else 1.0
    first = weighted_sum(rule.weights * rule.nodes[:, 0], grown) / total
    second = weighted_sum(rule.weights * (rule.nodes[:, 0] ** 2 - 1), grown) / total
    if power:
        second = second - first**2
    log_mean = value + (np.log1p(excess) / power if power else excess)
    size = divisor * FLOOR + np.abs(second)
    good = np.hypot(weighted_sum(rule.last[0], grown), weighted_sum(rule.last[1], grown)) <= STRICT * size
    tilt = Tilt(log_mean, first / (divisor * scale), second / (divisor * scale**2), 1 + power * second / divisor)
    return tilt, good


def narrowed(tilt: Tilt, value: np.ndarray, ratio: np.ndarray, variance: np.ndarray, power: float) -> Tilt:
    """From a cavity of the least width to a narrower one, across which l is a parabola."""
    log_mean = value + ratio * (tilt.log_mean - value)
    return tilt._replace(log_mean=log_mean, shrinkage=1 + power * variance * tilt.curvature)


def gauss_hermite(n_nodes: int) -> Rule:
    """The rule of a standard normal; coefficients are those of orthonormal polynomials."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    weights = weights / weights.sum()
    before, polynomial, rows = np.zeros(n_nodes), np.ones(n_nodes), []
    for degree in range(n_nodes):
        rows.append(weights * polynomial)
        before, polynomial = polynomial, (nodes * polynomial - np.sqrt(degree) * before) / np.sqrt(degree + 1)
    return Rule(nodes[:, None], weights, np.array(rows[-2:]))


RULES = {n_nodes: gauss_hermite(n_nodes) for n_nodes, _ in LADDER}
