"""Going on: whether a fit is the one that a result is of, and where it begins.

A fit of the same problem goes on where the other stopped, as if it had never stopped. One with other hyper-parameters
begins at the other's sites, from which q is rebuilt.
"""

from typing import Any, NamedTuple

import numpy as np

from cavity import _tree as tree
from cavity.families.base import are_alike, describe
from cavity.inference.contract import Factor, Family, Sites
from cavity.inference.control import Control, pace
from cavity.inference.measure import reads_of
from cavity.inference.named import Algorithm
from cavity.inference.problem import Problem
from cavity.inference.result import Progress, Result
from cavity.inference.sweep import is_one_batch
from cavity.inference.update import State
from cavity.inference.walk import Walk

NEARBY = 0.1  # standard deviations that another prior moves q, and sweeps fall as quickly as before
DIGITS = 100.0  # times as large a prior may be as q, and two digits of q are lost


class Origin(NamedTuple):
    """What was fitted, as far as it can be compared without the data."""

    factor: Factor
    prior: Family
    algorithm: Algorithm
    n_rows: int
    total_weight: float
    seed_of_groups: int | None  # where groups of rows were drawn

    @classmethod
    def of(cls, problem: Problem, algorithm: Algorithm, seed: int) -> "Origin":
        drawn = seed if isinstance(algorithm.groups, str) and algorithm.groups == "random" else None
        return cls(problem.factor, problem.given[0], algorithm, problem.n_rows, problem.total_weight, drawn)

    def is_of(self, other: "Origin") -> bool:
        """Whether both are of the same problem, as far as can be told."""
        alike = tree.structure((self.factor, self.prior)) == tree.structure((other.factor, other.prior))
        sizes = lambda origin: (origin.n_rows, origin.total_weight, origin.seed_of_groups)
        if not alike or sizes(self) != sizes(other):
            return False
        mine, theirs = (tree.leaves((origin.factor, origin.prior)) for origin in (self, other))
        return same_algorithm(self.algorithm, other.algorithm) and all(map(np.array_equal, mine, theirs))


def same_algorithm(one: Algorithm, other: Algorithm) -> bool:
    """Whether two algorithms have the same knobs; groups may be arrays."""
    knobs = lambda algorithm: (
        algorithm.n_sites, algorithm.batch_size, algorithm.power, algorithm.rate, algorithm.replace
    )  # fmt: skip
    return knobs(one) == knobs(other) and np.array_equal(np.asarray(one.groups), np.asarray(other.groups))


def begun_at(walk: Walk, algorithm: Algorithm, state: State, start: Any, seed: int) -> Progress:
    """Where the user wants the fit to begin: at a result, or at a member of the prior's family."""
    if not isinstance(start, Result):
        check_start(walk, start)
        if is_near_only(walk, algorithm, state):
            return Progress.at(state, near=start)
        return Progress.at(begun_with(walk, state, start))
    if start.progress is None:
        raise ValueError(
            "start must be a result that still holds its sites. Those in a file (site_directory) are not kept when a "
            "result is pickled or copied, and those that change in place not when a sweep is interrupted."
        )
    check_signed(start.progress)
    sites = start.progress.state.sites
    if not have_form_of(sites, state.sites):
        raise ValueError("start must be a result for the same data and algorithm; its sites have other shapes.")
    if start.origin.is_of(Origin.of(walk.problem, algorithm, seed)):
        return start.progress if walk.sums.copies_sites else start.progress._replace(state=copied(start.progress.state))
    taken = None if walk.slots.nowhere else at_sites(walk, state, sites)
    if taken is None:
        return Progress.at(state)
    taken = taken if walk.sums.copies_sites else copied(taken)
    return Progress.at(taken)._replace(n_sweeps=start.progress.n_sweeps)


def copied(state: State) -> State:
    """A state whose sites may change in place; those in a file have no other place."""
    return state if in_files(state.sites) else state._replace(sites=tree.map(np.array, state.sites))


def sign(state: State, n_sweeps: int) -> None:
    """Note on sites in a file how many sweeps have changed them: several results may share the file."""
    for leaf in in_files(state.sites):
        leaf.n_sweeps = n_sweeps


def check_signed(progress: Progress) -> None:
    """Refuse sites in a file that a later fit has changed."""
    if any(
        getattr(leaf, "n_sweeps", progress.n_sweeps) != progress.n_sweeps for leaf in in_files(progress.state.sites)
    ):
        raise ValueError(
            "start must be the last result whose sites are in this file (site_directory): a later fit has changed them."
        )


def in_files(sites: Sites) -> list[Any]:
    """The arrays of sites that are in files."""
    return [leaf for leaf in tree.leaves(sites) if isinstance(leaf, np.memmap)]


def at_sites(walk: Walk, state: State, sites: Sites) -> State | None:
    """The state with q rebuilt from sites, unless that is improper."""
    there = walk.at(state, sites)
    return there if bool(reads_of(there.q).is_proper(there.q)) else None


def with_prior(walk: Walk, progress: Progress) -> Progress:
    """Progress of this very problem but for its prior: the sites stay, and q is made up of them and the new prior.

    What they add up to is q without the old prior, unless that drowned it.
    """
    state, prior = progress.state, walk.problem.prior
    moved = state._replace(q=prior + (state.q - state.prior), prior=prior)
    if walk.problem.lift is not None or drowned(state.prior, moved.q):
        moved = walk.at(moved, state.sites)
    if not bool(reads_of(moved.q).is_proper(moved.q)):
        return Progress.at(moved._replace(q=prior, sites=tree.map(np.zeros_like, state.sites)))
    near = float(reads_of(moved.q).distance(moved.q, state.q)) < NEARBY
    now = Control(pace=pace(progress.control) if near else 1.0)
    return Progress.at(moved)._replace(n_sweeps=progress.n_sweeps, control=now)


def drowned(prior: Family, q: Family) -> bool:
    """Whether digits of q are lost if a prior was added to it and taken away."""
    sizes = lambda member: np.array([np.max(np.abs(leaf), initial=0.0) for leaf in tree.leaves(member)])
    return bool(np.any(sizes(prior) > DIGITS * sizes(q)))


def check_start(walk: Walk, q: Family) -> None:
    """Raise unless a member of a family may be begun at."""
    if walk.slots.nowhere:
        raise ValueError("start must be None for ADF, which has no sites to begin with: give it as the prior.")
    prior = walk.problem.given[0]
    if not are_alike(q, prior):
        raise ValueError(
            f"start must be a Result, or of the prior's family and shape, {describe(prior)}; got {describe(q)}."
        )
    if not bool(q.is_proper()):
        raise ValueError("start must be a proper distribution; got parameters that are not finite or out of range.")


def is_near_only(walk: Walk, algorithm: Algorithm, state: State) -> bool:
    """Whether a q can be seen by all rows at once, and is not made up of sites: these have fewer numbers."""
    whole = walk.slots.own and is_one_batch(algorithm, walk.problem) and walk.problem.lift is None
    return whole and tree.structure(state.sites) != tree.structure([state.prior for _ in state.sites])


def begun_with(walk: Walk, state: State, q: Family) -> State:
    """Equal sites that make up q: a place to begin where the prior is a trap, as for alike parts of a mixture."""
    problem, slots = walk.problem, walk.slots
    share, move = 1 / problem.total_weight, q - problem.given[0]
    spread = lambda size: tree.map(lambda leaf: np.broadcast_to(share * leaf, (size, *np.shape(leaf))), move)
    sizes = [part.n_rows for part in problem.source.parts]
    sites = [spread(size) for size in sizes] if slots.own else spread(len(slots.counts))
    if problem.lift is not None or not have_form_of(sites, state.sites):
        raise ValueError(
            "start must be a Result here: the sites of this fit have fewer numbers than the prior, and do not make "
            "up any distribution. A shared site, as of cavity.aep(), does."
        )
    taken = walk.sums.with_sites(state, sites)
    there = at_sites(walk, taken, taken.sites)
    return state if there is None else there


def have_form_of(sites: Sites, example: Any) -> bool:
    """Whether sites have the structure and the shapes of others."""
    if tree.structure(sites) != tree.structure(example):
        return False
    return all(np.shape(a) == np.shape(b) for a, b in zip(tree.leaves(sites), tree.leaves(example), strict=True))
