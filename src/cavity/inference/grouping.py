"""Groups of data that may share a site, found from what sharing does to q.

With one site λ for all data, a datum's cavity q − αλ removes an average datum. Were its own estimate λ̂_n removed, it
would ask for another site; the difference r_n is the datum's part in the error of sharing, and Σ_n w_n r_n, measured
by Fisher's information at q, says how many posterior standard deviations sharing moves q. Where that is little, one
site is enough. Otherwise data are grouped by r_n, whose size grows with a datum's influence: the few that carry most
of the error come to stand alone or among their like. What a grouping leaves of the error is read off one more pass.

A change r of natural parameters is known here by its values ⟨r, T(θ)⟩ at draws of θ from q, less their mean. Their
variance is the squared length of r in Fisher's metric, for any family and with no matrix of that size.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from cavity.families.base import dot
from cavity.inference import memory
from cavity.inference.chunks import CHUNK
from cavity.inference.driver import on_device
from cavity.inference.evidence import average_of_estimates
from cavity.inference.kernel import Kernel, Model
from cavity.inference.memory import Plan
from cavity.inference.problem import Problem

ENOUGH = 0.05  # posterior standard deviations that nobody misses: a KL divergence of about 0.001
WORTH = 0.9  # groups must leave less than this part of the squared error of one site
DRAWS, FEWEST_DRAWS, NUMBERS = 128, 16, 2**24  # of θ; fewer where rows times draws would be more numbers than this
RESTARTS, LLOYD = 5, 50  # of k-means, and the most steps of each


class Grouping(NamedTuple):
    """What was found."""

    labels: np.ndarray  # (N,)
    error: float  # posterior standard deviations by which sharing sites within groups is predicted to move q


def find(problem: Problem, q: Any, site: Any, most: int, power: float, seed: int) -> Grouping:
    """A label for each row, for at most `most` groups; all zero where one shared site is enough, or none helps.

    q is the approximation with one shared site, near its fixed point.
    """
    n = len(problem.weight)
    most = min(most, n - 1)
    labels = np.zeros(n, dtype=int)
    rng = np.random.default_rng([seed, 2])
    draws = draws_of(q, jax.random.key(int(rng.integers(2**31))), int(np.clip(NUMBERS // n, FEWEST_DRAWS, DRAWS)))
    errors = np.asarray(errors_of_sharing(problem.kernel, q, site, problem.model, draws, power))
    total = problem.weight @ errors
    error = remains = length(total)
    least = WORTH**0.5 * error
    for n_groups in ladder(most):
        if remains < ENOUGH:
            break
        found = clusters(rng, errors, problem.weight, n_groups)
        remains = length(total - effect(problem, site, found, most, draws, power))
        if remains < least:  # and not where it is not a number
            labels, error, least = found, remains, remains
    return Grouping(labels, error)


def ladder(most: int) -> list[int]:
    """Numbers of groups to try: 2, 4, 8, … and the largest allowed."""
    return [2**i for i in range(1, most.bit_length()) if 2**i < most] + [most]


@partial(jax.jit, static_argnames="number")
def draws_of(q: Any, key: Array, number: int) -> Any:
    """Draws of θ, stacked."""
    return jax.vmap(q.draw)(jax.random.split(key, number))


@partial(jax.jit, static_argnames=("kernel", "power"))
def errors_of_sharing(kernel: Kernel, q: Any, site: Any, model: Model, draws: Any, power: float) -> Array:
    """r_n at the draws, a line for each row of the data."""
    values = kernel.errors_of_sharing(q, site, model, draws, power=power)
    return values - jnp.mean(values, axis=1, keepdims=True)


def length(values: np.ndarray) -> float:
    """The length in Fisher's metric of what has these values at the draws."""
    return float(np.sqrt(values @ values / (len(values) - 1)))


def effect(problem: Problem, site: Any, labels: np.ndarray, most: int, draws: Any, power: float) -> np.ndarray:
    """How q would move if these groups had their own sites: the part of Σ w_n r_n that they take care of, at the draws.

    Every grouping is laid out in arrays of the same shape, so that the program is compiled once.
    """
    slots = memory.assign(labels, most, problem.weight)
    plan = memory.plan(np.random.default_rng(0), slots, min(CHUNK, len(labels)), replace=False)
    n_batches = -(-len(labels) // CHUNK) + most
    rows = np.full((n_batches, plan.rows.shape[1]), len(labels))
    rows[: len(plan.rows)] = plan.rows
    plan = on_device(Plan(rows, np.pad(plan.slot, (0, n_batches - len(plan.slot)))))
    kernel, model = problem.kernel, problem.with_slots(slots).model
    sites = jax.tree.map(lambda leaf: jnp.multiply.outer(slots.counts > 0, leaf), site)  # none in empty slots
    sites = averages(kernel, model, sites, plan, power)  # of the same estimates, within each group
    move = kernel.total(averages(kernel, model, sites, plan, power) - sites, model)
    values = np.asarray(values_at(draws, move))
    return values - values.mean()


averages = jax.jit(average_of_estimates, static_argnames=("kernel", "power"))


@jax.jit
def values_at(draws: Any, move: Any) -> Array:
    """⟨move, T(θ)⟩ at each draw."""
    return jax.lax.map(lambda theta: dot(move, move.statistics(theta)), draws)


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
    labels = np.full(len(points), -1)
    for _ in range(LLOYD):
        distances = squared_distances(points, centres)
        old, labels = labels, distances.argmin(axis=1)
        if np.array_equal(old, labels):
            break
        share = np.zeros((len(centres), len(points)))
        share[labels, np.arange(len(points))] = weight
        mass = share.sum(axis=1, keepdims=True)
        centres = np.where(mass > 0, share @ points / np.where(mass > 0, mass, 1.0), centres)
    return float(weight @ distances.min(axis=1)), labels


def squared_distances(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Between every point and every centre; rounding below zero is cut off."""
    square = np.sum(points**2, axis=1)[:, None] - 2 * points @ centres.T + np.sum(centres**2, axis=1)
    return np.maximum(square, 0.0)
