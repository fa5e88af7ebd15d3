"""Groups of data that may share a site, found from what sharing does to q.

With one site λ for all data, a datum's cavity q − αλ removes an average datum. Were its own estimate λ̂_n removed, it
would ask for another site; the difference r_n is the datum's part in the error of sharing, and Σ_n w_n r_n, measured
by Fisher's information at q, says how many posterior standard deviations sharing moves q. Where that is little, one
site is enough. Otherwise data are grouped by r_n, whose size grows with a datum's influence: the few that carry most
of the error come to stand alone or among their like. What a grouping leaves of the error is read off one more pass.

A change r of natural parameters is known here by its values ⟨r, T(θ)⟩ at draws of θ from q, less their mean. Their
variance is the squared length of r in Fisher's metric, for any family and with no matrix of that size.
"""

from typing import Any

import numpy as np

from cavity import _tree as tree
from cavity.families.base import dot
from cavity.families.product import as_family
from cavity.inference import memory
from cavity.inference.contract import Family, Setting, Sites, Tree
from cavity.inference.lloyd import lloyd, nearest
from cavity.inference.loop import Limits, Loop
from cavity.inference.named import Algorithm, aep
from cavity.inference.result import Progress, Result
from cavity.inference.resume import begun_at
from cavity.inference.sweep import first_state
from cavity.inference.update import State
from cavity.inference.walk import Walk, joined

ENOUGH = 0.05  # posterior standard deviations that nobody misses: a KL divergence of about 0.001
WORTH = 0.9  # groups must leave less than this part of the squared error of one site
DRAWS, FEWEST_DRAWS, NUMBERS = 128, 16, 2**24  # of θ; fewer where rows times draws would be more numbers than this
RESTARTS = 5  # of k-means
SWEEPS_WITH_ONE_SITE, TOL_WITH_ONE_SITE = 50, 1e-3  # before groups are found; at most, and how still q must be


def grouped(walk: Walk, algorithm: Algorithm, limits: Limits, start: Any) -> tuple[Walk, Progress | None]:
    """The walk with groups: those of a result to go on from, or groups found after some sweeps with one shared site.

    Also where to begin, with that site in each group; None to begin as any other fit.
    """
    problem = walk.problem
    if isinstance(start, Result):
        expected = problem.n_rows if problem.kept is None else len(problem.kept)
        if start.groups is None or len(start.groups) != expected:
            raise ValueError("start must be a result for the same data and algorithm; its groups are of other rows.")
        labels = start.groups if problem.kept is None else start.groups[problem.kept]
        return Walk(problem.with_groups(labels, start.n_sites), walk.threads), None
    walk.sums.programs()  # a ValueError for data in blocks
    if min(int(algorithm.n_sites), problem.n_rows - 1) <= 1:
        return walk, None
    few = limits._replace(
        max_sweeps=min(limits.max_sweeps, SWEEPS_WITH_ONE_SITE), tol=TOL_WITH_ONE_SITE, evidence=False
    )
    begun = Progress.at(first_state(walk, limits.seed))
    if start is not None:
        begun = begun_at(walk, aep(algorithm.power), begun.state, as_family(start), limits.seed)
    loop = Loop(walk, aep(algorithm.power), few, begun)
    loop.settle()
    state = loop.progress.state
    labels = find(walk, state, int(algorithm.n_sites), algorithm.power, limits.seed)
    walk = Walk(problem.with_groups(labels, int(labels.max()) + 1), walk.threads)
    sites = tree.map(lambda leaf: np.repeat(leaf, len(walk.slots.counts), axis=0), state.sites)
    return walk, Progress.at(walk.at(first_state(walk, limits.seed), sites))


def find(walk: Walk, state: State, most: int, power: float, seed: int) -> np.ndarray:
    """A label for each row, for at most `most` groups; all zero where one shared site is enough, or none helps.

    The state is that with one shared site, near its fixed point.
    """
    weight = walk.problem.every_weight
    n, labels = len(weight), np.zeros(len(weight), dtype=int)
    most = min(most, n - 1)
    rng = np.random.default_rng([seed, 2])
    number = int(np.clip(NUMBERS // n, FEWEST_DRAWS, DRAWS))
    draws = draws_of(state.q, int(rng.integers(2**31)), number)
    errors = centred(walk.errors(state, draws, Setting(power)))
    total = weight @ errors
    remains = length(total)
    least = WORTH**0.5 * remains
    for n_groups in ladder(most):
        if remains < ENOUGH:
            break
        found = clusters(rng, errors, weight, n_groups)
        remains = length(total - effect(walk, state, found, draws, power))
        if remains < least:  # and not where it is not a number
            labels, least = found, remains
    return labels


def ladder(most: int) -> list[int]:
    """Numbers of groups to try: 2, 4, 8, … and the largest allowed."""
    return [2**i for i in range(1, most.bit_length()) if 2**i < most] + [most]


def draws_of(q: Family, seed: int, number: int) -> Any:
    """Draws of θ, stacked."""
    return q.sample(seed, (number,))


def centred(values: np.ndarray) -> np.ndarray:
    """Values at draws, less their mean over the draws."""
    return values - values.mean(axis=-1, keepdims=True)


def length(values: np.ndarray) -> float:
    """The length in Fisher's metric of what has these values at the draws."""
    return float(np.sqrt(values @ values / (len(values) - 1)))


def effect(walk: Walk, state: State, labels: np.ndarray, draws: Tree, power: float) -> np.ndarray:
    """How q would move if these groups had their own sites: the part of Σ w r that they take care of, at the draws."""
    walk = Walk(walk.problem.with_groups(labels, int(labels.max()) + 1), walk.threads)
    slots, site = walk.slots, tree.map(lambda leaf: leaf[0], state.sites)
    sites = tree.map(lambda leaf: np.multiply.outer(np.ones(len(slots.counts)), leaf), site)
    sites = averages(walk, state, sites, power)  # of the same estimates, within each group
    move = memory.total(averages(walk, state, sites, power) - sites, slots.counts)
    return centred(values_at(draws, move))


def averages(walk: Walk, state: State, sites: Sites, power: float) -> Any:
    """The mean own-site estimate in each slot, which is what averaged EP puts there."""
    state, found = walk.at(state, sites), []
    for slot in range(len(walk.slots.counts)):
        view = walk.view(state, slot, power)
        total = joined(walk.of_parts(state, slot, view, Setting(power)))
        found.append((1 / total.weight if total.weight > 0 else 0.0) * total.total)
    return tree.map(lambda *leaves: np.stack(leaves), *found)


def values_at(draws: Tree, move: Family) -> np.ndarray:
    """⟨move, T(θ)⟩ at each draw."""
    n = len(tree.leaves(draws)[0])
    at = lambda i: tree.map(lambda leaf: leaf[i], draws)
    return np.array([float(dot(move, move.statistics(at(i)))) for i in range(n)])


def clusters(rng: np.random.Generator, errors: np.ndarray, weight: np.ndarray, n_groups: int) -> np.ndarray:
    """Labels 0, 1, … by k-means of r_n, each weighed by w_n |r_n|: at most so many groups, and none empty."""
    size = np.sqrt(np.sum(errors**2, axis=1))
    runs = [k_means(rng, errors, weight * size, n_groups) for _ in range(RESTARTS)]
    return np.unique(min(runs, key=lambda run: run[0])[1], return_inverse=True)[1]


def k_means(
    rng: np.random.Generator, points: np.ndarray, weight: np.ndarray, n_groups: int
) -> tuple[float, np.ndarray]:
    """Lloyd's algorithm from centres drawn far apart (k-means++): its cost and the labels."""
    centres = points[[rng.choice(len(points), p=weight / weight.sum())]]
    for _ in range(n_groups - 1):
        chance = weight * squared_distances(points, centres).min(axis=1)
        if not chance.sum() > 0:  # fewer different points than groups
            break
        centres = np.vstack([centres, points[rng.choice(len(points), p=chance / chance.sum())]])
    centres = lloyd(points, weight, centres)
    labels = nearest(points, centres)
    return float(weight @ np.sum((points - centres[labels]) ** 2, axis=1)), labels


def squared_distances(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Between every point and every centre; rounding below zero is cut off."""
    square = np.sum(points**2, axis=1)[:, None] - 2 * points @ centres.T + np.sum(centres**2, axis=1)
    return np.maximum(square, 0.0)
