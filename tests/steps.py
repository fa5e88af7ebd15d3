"""The engine's pieces, for tests that look at single batches: one batch by every way there is to take it.

A batch goes through chunks on the host or in compiled programs, or is scanned inside one; and what a chunk gives is
summed by the factor's own forms, or by the general programs from what the factor says of each row. `WAYS` names the
four, and identities run over all of them.
"""

from typing import Any, NamedTuple

import numpy as np

from cavity.inference import scan
from cavity.inference.contract import Setting
from cavity.inference.order import Plan
from cavity.inference.problem import Problem, derived
from cavity.inference.sweep import first_state, private
from cavity.inference.threads import Threads
from cavity.inference.update import Info, State
from cavity.inference.walk import Walk


def walk_of(factor, prior, data, algorithm, weights=None, seed=0) -> Walk:
    """A walk over rows in memory, in one thread."""
    return Walk(Problem.of(factor, prior, data, algorithm, weights, seed), Threads(1))


def general(walk: Walk) -> Walk:
    """The same walk by the general programs, whatever the factor has of its own."""
    problem = walk.problem
    return Walk(problem._replace(sums=derived(problem.factor, problem.prior)), walk.threads)


def first(walk: Walk, seed: int = 0) -> State:
    """The state before the first sweep."""
    return first_state(walk, seed)


def visit(walk: Walk, state: State, rows, rate=1.0, power=1.0, slot=None) -> tuple[State, Info]:
    """One batch in chunks, from a state that is left as it is; `slot` is the one that its rows share."""
    state = private(walk, state)
    step = walk.own_step if walk.slots.own else walk.shared_step
    slot = walk.slots.first if slot is None else slot
    return step(state, 0, walk.rows(0, state), np.asarray(rows), int(slot), float(rate), Setting(power))


def scanned(walk: Walk, state: State, rows, rate=1.0, power=1.0, slot=None) -> tuple[State, Info]:
    """The same inside a compiled scan."""
    state = private(walk, state)
    slot = walk.slots.first if slot is None else slot
    plan, rates = Plan(np.asarray(rows)[None], np.array([slot])), np.array([float(rate)])
    return scan.visits(walk.sums.programs(), state, walk.rows(0, state), plan, rates, walk.slots.counts, power)


class Way(NamedTuple):
    """How a batch is taken."""

    walk: Any  # from a walk to one that sums this way
    visit: Any  # as `visit` above

    def begin(self, *given, weights=None) -> "Steps":
        """Before the first batch of a problem: factor, prior, data, algorithm."""
        return Steps(self.walk(walk_of(*given, weights=weights)), self.visit)


class Steps:
    """Batches one after another."""

    def __init__(self, walk: Walk, take) -> None:
        self.walk, self.take, self.state = walk, take, first(walk)

    def visit(self, rows, rate=1.0, power=1.0, slot=None) -> Info:
        """Take one more batch."""
        self.state, info = self.take(self.walk, self.state, rows, rate, power, slot)
        return info

    def rebuilt(self):
        """λ₀ + Σ_k W_k λ_k, the right-hand side of (1)."""
        return self.state.prior + self.walk.total(self.state.sites)


WAYS = {
    "chunks": Way(lambda walk: walk, visit),
    "scan": Way(lambda walk: walk, scanned),
    "general chunks": Way(general, visit),
    "general scan": Way(general, scanned),
}
