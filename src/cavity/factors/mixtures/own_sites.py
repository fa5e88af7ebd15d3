"""Rows of a Gaussian mixture with sites of their own, or of which nothing is remembered, on the host: many at once.

A site is natural parameters of all components and weights, on a first axis for the rows, as is each row's cavity. What
`cavity.inference.pull` says of one row is said here of all of them.
"""

from typing import Any, NamedTuple

import numpy as np

from cavity import _tree as tree
from cavity.factors.mixtures.cavity import Cavity
from cavity.factors.mixtures.weights import log_sum_exp
from cavity.families import NormalWishart, Product
from cavity.inference import memory
from cavity.inference.contract import Found, Terms
from cavity.inference.memory import lifted


class Pulls(NamedTuple):
    """What rows ask for."""

    move: Product  # λ̂ − λ, zero where it is not valid
    valid: np.ndarray
    log_scale: np.ndarray


def pulls(q: Product, sites: Product, x: np.ndarray, present: np.ndarray, power: float, scales: bool) -> Pulls:
    """What rows ask for in the cavities of their sites; `scales` says whether those of the sites are wanted."""
    cavities = tree.map(lambda leaf, site: leaf - lifted(power * present, site) * site, q, sites)
    proper = are_proper(cavities)
    cavities = tree.map(lambda cavity, leaf: np.where(lifted(proper, cavity), cavity, leaf), cavities, q)
    seen = Cavity.of(cavities, power, of_rows=True)
    rows = seen.match(x)
    asked = seen.each(rows)
    matched = cavities + power * asked
    valid = proper & np.isfinite(rows.log_means) & all_finite(asked) & are_proper(matched)
    move = tree.map(lambda new, old: np.where(lifted(valid, new), new - old, 0.0), asked, sites)
    if not scales:
        return Pulls(move, valid, np.zeros(len(x)))
    log_scale = rows.log_means - log_mean_of_sites(cavities, asked, power)
    return Pulls(move, valid, np.where(valid, log_scale, 0.0))


def estimates(q: Product, sites: Product, x: np.ndarray, weight: np.ndarray, power: float) -> Found:
    """Σ w (λ̂ − λ) over rows with sites of their own, and the change of each."""
    found = pulls(q, sites, x, memory.present(weight), power, scales=False)
    return summed(found, weight)._replace(change=found.move)


def estimates_without_sites(q: Product, x: np.ndarray, weight: np.ndarray, power: float) -> Found:
    """Σ w λ̂ over rows of which nothing is remembered, and the scales of their sites."""
    nothing = tree.map(lambda leaf: np.zeros((len(x), *leaf.shape)), q)
    return summed(pulls(q, nothing, x, np.ones(len(x)), power, scales=True), weight)


def summed(found: Pulls, weight: np.ndarray) -> Found:
    """The moves of rows added up with their weights, and what there is to say about them."""
    used = np.where(found.valid, weight, 0.0)
    skipped = np.sum(~found.valid & (weight > 0))
    log_scale = np.sum(used * found.log_scale)
    return Found(total(found.move, used), np.sum(used), skipped, log_scale, np.asarray(False))


def total(sites: Product, weight: np.ndarray) -> Product:
    """Σ w λ."""
    return tree.map(lambda leaf: np.tensordot(weight, leaf, 1), sites)


def terms(q: Product, sites: Product, x: np.ndarray, weight: np.ndarray, power: float) -> Terms:
    """What rows with sites of their own add to the closing evidence."""
    present = memory.present(weight)
    cavities = tree.map(lambda leaf, site: leaf - lifted(power * present, site) * site, q, sites)
    seen = Cavity.of(cavities, power, of_rows=True)
    log_means = log_sum_exp(seen.log_weights + seen.parts.log_mean(seen.parts.squares(seen.parts.from_mean(x))))
    if power == 0:
        removed = sum(flat(leaf) @ np.ravel(part) for leaf, part in pairs(sites, q.moments()))
    elif np.all((weight >= 1) | (weight == 0)):  # q again, with the site put back
        removed = (q.log_partition() - log_partitions(cavities)) / power
    else:
        removed = log_mean_of_sites(cavities, sites, power)
    values = log_means - removed
    usable = np.isfinite(values)
    own = total(sites, np.where(usable, weight, 0.0))
    value = np.sum(np.where(usable, weight * values, 0.0))
    return Terms(own, value, np.sum(~usable & (weight > 0), dtype=float))


def log_mean_of_sites(cavities: Product, sites: Product, power: float) -> np.ndarray:
    """(1/α) log E_c[site^α], and its limit ⟨λ, ∇A(c)⟩ at power 0, of every row."""
    if power == 0:
        return np.sum([np.sum(flat(a) * flat(b), axis=1) for a, b in pairs(sites, cavities.moments())], axis=0)
    return (log_partitions(cavities + power * sites) - log_partitions(cavities)) / power


def log_partitions(cavities: Product) -> np.ndarray:
    """A of every row's mixture."""
    return cavities["weights"].log_partitions() + flat(cavities["components"].log_partitions()).sum(1)


def are_proper(cavities: Product) -> np.ndarray:
    """Whether each row's mixture is proper: all of its components, and its weights."""
    components = cavities["components"]
    if isinstance(components, NormalWishart):
        least = components.shift.shape[-1] - 1
        positive = [components.count, components.df - least, components.inverse_scale_cholesky()[..., 0, 0]]
    else:
        positive = [components.count, components.shape, components.rate_of_precision()]
    positive = [cavities["weights"].concentration, *positive]
    proper = np.all(np.isfinite(flat(components.shift)), axis=1)
    for values in positive:
        proper &= np.all((flat(values) > 0) & np.isfinite(flat(values)), axis=1)
    return proper


def all_finite(sites: Product) -> np.ndarray:
    """Whether all numbers of each site are finite."""
    return np.all([np.all(np.isfinite(flat(leaf)), axis=1) for leaf in tree.leaves(sites)], axis=0)


def pairs(left: Any, right: Any) -> Any:
    return zip(tree.leaves(left), tree.leaves(right), strict=True)


def flat(leaf: np.ndarray) -> np.ndarray:
    """The numbers of each row, side by side."""
    return leaf.reshape(len(leaf), -1)
