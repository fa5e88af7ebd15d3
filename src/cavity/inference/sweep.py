"""One sweep: the rates of its batches, the walk, and what ends it."""

from typing import Any, NamedTuple

import numpy as np

from cavity import _tree as tree
from cavity.inference import order, rates
from cavity.inference.contract import Family, Setting
from cavity.inference.memory import Slots
from cavity.inference.named import Algorithm
from cavity.inference.order import Plan
from cavity.inference.problem import Problem
from cavity.inference.update import NOTHING, Info, State, settle, zeros_like
from cavity.inference.walk import Walk


class Swept(NamedTuple):
    """What a sweep ended with."""

    state: State
    info: Info
    rate: float  # the share of the asked move that was made, or the mean of the steps the user chose
    is_a_map: bool  # whether the end depends on nothing but the sites at the beginning


class Course(NamedTuple):
    """What decides how one sweep is made, apart from the state."""

    algorithm: Algorithm
    seed: int
    number: int  # counted from the first sweep of the fit that this one goes on from
    share: float
    values: bool = False  # whether to sum what the evidence is made of, with the sites as they were
    near: Any = None  # a q for rows to see instead of that of the state
    responses: bool = False  # whether to sum how what rows ask for answers to where they are judged


def first_state(walk: Walk, seed: int) -> State:
    """The state before the first sweep."""
    problem, slots = walk.problem, walk.slots
    sizes = [part.n_rows for part in problem.source.parts]
    given = walk.sums.begin(problem.prior, slots, sizes, seed)
    return empty_state(problem.prior, slots, sizes, walk.sums.own_site()) if given is None else given


def empty_state(prior: Family, slots: Slots, sizes: list[int], own_site: Any) -> State:
    """q equal to the prior, and sites that say nothing."""
    stack = lambda like, size: tree.map(lambda leaf: np.zeros((size, *np.shape(leaf))), like)
    if slots.own:
        return State(prior, [stack(own_site, size) for size in sizes], None, None, prior)
    sites = stack(prior, len(slots.counts))
    return State(prior, sites, zeros_like(sites), np.zeros(len(slots.counts)), prior)


def sweep(walk: Walk, state: State, course: Course) -> Swept:
    """One pass over the data from a state, which is left as it is."""
    algorithm, start = course.algorithm, state
    setting = Setting(algorithm.power, course.seed, course.number, course.values, course.responses)
    whole = is_one_batch(algorithm, walk.problem)
    at_once = whole and not walk.sums.in_batches_only
    state = private(walk, state, but_sites=at_once and walk.slots.own)
    if at_once:
        used = float(rates_of_one_batch(course)[0])
        state, info = walk.all_at_once(state, used, setting, course.near)
    else:
        state, info, used = in_parts(walk, state, course, setting)
    state, cut = settle(start, state, walk.slots.counts, course.share, average=algorithm.settles)
    score = info.score / walk.problem.total_weight if walk.sums.scores else float("nan")
    info = info._replace(score=score, backoffs=info.backoffs + int(cut))
    state = walk.sums.end_sweep(state, info)
    is_a_map = whole and algorithm.settles and not walk.slots.own and course.share == 1
    return Swept(state, info, course.share if algorithm.settles else used, is_a_map)


def private(walk: Walk, state: State, but_sites: bool = False) -> State:
    """A state whose stacks may be written to, but for sites that a sweep makes anew."""
    if not walk.sums.copies_sites:
        return state
    copied = tree.map(np.array, (state.filed, state.filed_weight, state.beside))
    sites = state.sites if but_sites else tree.map(np.array, state.sites)
    return state._replace(sites=sites, filed=copied[0], filed_weight=copied[1], beside=copied[2])


def is_one_batch(algorithm: Algorithm, problem: Problem) -> bool:
    """Whether all rows are judged from one q."""
    size, slots = algorithm.batch_size, problem.slots
    return size is None or (slots.of_row is None and not algorithm.replace and size >= problem.n_rows)


def in_parts(walk: Walk, state: State, course: Course, setting: Setting) -> tuple[State, Info, float]:
    """Batches of one part after another, in an order drawn for this sweep; also the mean of their rates."""
    algorithm, problem, total, used = course.algorithm, walk.problem, NOTHING, []
    parts = problem.source.parts
    size = int(algorithm.batch_size or problem.n_rows)
    per_sweep = number_of_batches(problem, size)
    begin = (course.number - 1) * per_sweep
    of_parts = order.generator(course.seed, course.number, len(parts))
    for number in of_parts.permutation(len(parts)):
        rng = order.generator(course.seed, course.number, int(number))
        plan = order.plan(rng, walk.slots, int(number), parts[number].n_rows, size, algorithm.replace)
        step_rates = rates_of(course, walk.problem, int(number), plan, begin, per_sweep)
        state, info = walk.in_batches(state, int(number), plan, step_rates, setting)
        total, begin = total + info, begin + len(plan.rows)
        used.append(step_rates)
    return state, total, float(np.concatenate(used).mean())


def number_of_batches(problem: Problem, batch_size: int) -> int:
    """Batches in a sweep, known before any row is read."""
    count = lambda n: -(-n // batch_size)
    if problem.slots.of_row is None:
        return sum(count(part.n_rows) for part in problem.source.parts)
    return int(sum(count(n) for rows in problem.slots.of_row for n in np.bincount(rows)))


def rates_of(course: Course, problem: Problem, part: int, plan: Plan, begin: int, per_sweep: int) -> np.ndarray:
    """ε of every batch of a part in this sweep.

    Sites that are averaged at the end of a sweep let q wander within it at a rate that halves each sweep: the first is
    as quick as the literal algorithm, later ones turn into averaged EP, whose fixed point they reach.
    """
    algorithm, slots, n_batches = course.algorithm, problem.slots, len(plan.rows)
    if algorithm.rate is not None:
        weight = None if problem.weight is None else problem.weight[part]
        n_rows = problem.source.parts[part].n_rows
        shares = order.part_of_site(slots, weight, plan, n_rows, problem.total_weight)
        return rates.evaluate(algorithm.rate, begin + np.arange(n_batches), per_sweep, shares)
    stochastic = algorithm.settles and not slots.own and per_sweep > len(slots.visited())
    return np.full(n_batches, course.share * (0.5 ** (course.number - 1) if stochastic else 1.0))


def rates_of_one_batch(course: Course) -> np.ndarray:
    """ε of a batch that holds all rows."""
    if course.algorithm.rate is None:
        return np.array([course.share])
    return rates.evaluate(course.algorithm.rate, np.array([course.number - 1]), 1, np.ones(1))
