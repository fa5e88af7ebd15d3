"""Looking ahead: where rows are judged when all of them move at once, and what each asks for overshoots together.

Sites made at a place z make up q = G(z), and z = G(z) is the fixed point. Independent coordinates are each matched as
if the others stood still, so G overshoots by as much as they are correlated. A factor that knows how the sum of what
rows ask for answers to z can solve z = G(z) to first order: rows are then judged there, and q is made up of what they
say, as ever. The fixed point is that of plain sweeps.
"""

from typing import Any, NamedTuple

import numpy as np

from cavity.inference.contract import Family, Sums
from cavity.inference.control import NEARLY, WORTH, Control
from cavity.inference.measure import reads_of
from cavity.inference.named import Algorithm
from cavity.inference.sweep import Course, Swept, is_one_batch
from cavity.inference.walk import Walk


class Outlook(NamedTuple):
    """What a sweep leaves for the next place to be found from."""

    seen: Family  # the q that rows were judged by
    response: Any  # how the sum of what they ask for answers to it, when that was last summed


def looks_ahead(walk: Walk, algorithm: Algorithm) -> bool:
    """Whether rows are judged ahead of q: where the library chooses the steps, and all rows are one batch."""
    return walk.sums.looks_ahead and algorithm.settles and is_one_batch(algorithm, walk.problem)


def course_ahead(course: Course, sums: Sums, progress: Any) -> Course:
    """A sweep that makes all of its moves, from a place a share of the way ahead of q."""
    near = course.near if progress.outlook is None else place(sums, progress, course.share)
    is_new = progress.outlook is None or is_stale(progress.control)
    return course._replace(share=1.0, near=near, responses=is_new, values=course.values and near is None)


def place(sums: Sums, progress: Any, share: float) -> Family | None:
    """Where rows are to be judged next; None for by q itself."""
    (seen, response), state = progress.outlook, progress.state
    with np.errstate(all="ignore"):
        there = sums.ahead(state.prior, seen, state.q, response, share)
    return there if there is not None and bool(reads_of(there).is_proper(there)) else None


def is_stale(control: Control) -> bool:
    """Whether q has moved so far, or comes near so slowly, that a response found before is not the one here."""
    before, now = control.last_two
    return not now < min(NEARLY, WORTH * before)


def outlook(course: Course, made: Swept, progress: Any) -> Outlook:
    """What this sweep leaves."""
    seen = progress.state.q if course.near is None else course.near
    return Outlook(seen, made.info.response if course.responses else progress.outlook.response)
