"""Control of the sweeps: how much of each move is made, when sweeps are combined, and when q has settled.

A `Control` is a frozen value, and everything here is a function from one to the next: what a fit decides after a sweep
depends on nothing else, and a fit that goes on where another stopped decides the same.
"""

from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise

SMALLEST_SHARE = 2.0**-10
SLOW = 0.7  # a change that keeps more than this share of the last one is falling slowly
LONGEST_PATIENCE = 8  # sweeps
ROUNDING, STALLED = 1e-7, 10  # a change below this that does not fall in so many sweeps is rounding
WORTH = 0.3  # a change that keeps less than this share of the last one is falling fast enough
NEAR, LONGEST_WAIT = 1.0, 64  # a change, in standard deviations, from which on sweeps are combined
NEARLY = 0.1  # standard deviations: from a smaller change the next one is foreseen
QUICK = 0.1  # changes that keep less than this share of the last one, twice, say how large the next would be
RUNAWAY = 2.0  # one that grows by more than this is not falling at all, whichever way it points


class Act(Enum):
    """What to do before the next sweep, besides changing the share."""

    GO_ON = "sweep from here"
    FORGET = "sweep from here, and combine no sweep so far with later ones"
    LEAP = "move ahead to a combination of the last sweeps, if there is one"
    RETREAT = "go back to where q was before it was moved ahead"


@dataclass(frozen=True)
class Control:
    """What the sweeps so far say about the next."""

    share: float = 1.0  # of the asked move that is made: halved when the change stops falling
    patience: int = 1  # sweeps that must agree before the share is doubled
    calm: int = 0  # sweeps that have agreed so far
    turned: bool = False  # whether the last two moves are opposed
    travelled: float = 0.0  # how much of a unit of rate is gone since q was last compared
    ahead: bool = False  # whether q was moved ahead since changes last grew
    leapt: bool = False  # whether it was moved ahead before the last sweep
    falling: int = 0  # changes that fell in a row
    in_a_row: int = 2  # changes that must fall before q is moved ahead
    changes: tuple[float, ...] = ()  # of the last sweeps, newest last
    pace: float = 1.0  # share of its change that a sweep kept before the prior was another

    @property
    def last_two(self) -> tuple[float, float]:
        """The change of the sweep before the last, and of the last."""
        *_, before, now = (float("inf"), float("inf"), *self.changes)
        return before, now


def with_change(control: Control, change: float, turned: bool) -> Control:
    """Append how far the last sweep moved q."""
    return replace(control, changes=(*control.changes[1 - 2 * STALLED :], change), turned=turned)


def decided(control: Control, damps: bool, ahead: bool = False) -> tuple[Control, Act]:
    """What the last sweep says about the next: how much of its move to make, and where to begin it.

    `damps` is whether the rate is the library's to choose, `ahead` whether rows are judged ahead of q.
    """
    before, now = control.last_two
    if now > before and control.leapt:  # a combination of sweeps went too far, not the sweeps
        return waiting_longer(control), Act.RETREAT
    control = with_share(control, ahead) if damps else control
    if now > before:
        return waiting_longer(control), Act.FORGET
    control = replace(control, leapt=False, falling=control.falling + 1)
    if control.falling < control.in_a_row or not NEAR > now > max(WORTH * before, ROUNDING):
        return control, Act.FORGET if control.share < 1 else Act.GO_ON
    return control, Act.FORGET if control.share < 1 else Act.LEAP


def with_share(control: Control, ahead: bool) -> Control:
    """Change the share of each move that is made when the change falls slowly or not at all.

    If successive moves point against each other, the iteration overshoots and may go on for ever: the share is halved.
    If they point the same way, q is far from home and a small share only delays it: the share is doubled, after one
    such sweep the first time and twice as many after each halving, or the two could alternate for ever.

    Judged `ahead` of it, q swings although the places where rows are judged settle: only growth says that these go too
    far, and moves that fall at all that they do not.
    """
    before, now = control.last_two
    if len(control.changes) < 2 or now < ROUNDING:  # opposed moves are then the work of rounding
        return control
    ratio = now / max(before, 1e-300)
    if ratio > RUNAWAY or (control.turned and ratio > SLOW and not ahead):
        share, patience = max(0.5 * control.share, SMALLEST_SHARE), min(2 * control.patience, LONGEST_PATIENCE)
        return replace(control, share=share, calm=0, patience=patience)
    if not ratio > SLOW and not ahead:
        return control
    if control.calm + 1 >= control.patience:
        return replace(control, share=min(2 * control.share, 1.0), calm=0)
    return replace(control, calm=control.calm + 1)


def waiting_longer(control: Control) -> Control:
    """Combinations of sweeps are drawn to any fixed point, also to one that sweeps by themselves leave.

    So each time that changes grow again after one was made, more sweeps must fall in a row before the next.
    """
    in_a_row = min((2 if control.ahead else 1) * control.in_a_row, LONGEST_WAIT)
    return replace(control, in_a_row=in_a_row, leapt=False, ahead=False, falling=0)


def next_change(control: Control) -> float:
    """How far another sweep would move q: no farther than the last one where changes do not fall quickly."""
    _, now = control.last_two
    return now * pace(control) if now < NEARLY else now


def pace(control: Control) -> float:
    """The share of its change that a sweep keeps: one, unless the last two kept little of theirs."""
    shares = [control.pace, *(now / max(before, 1e-300) for before, now in pairwise(control.changes[-3:]))]
    return shares[-1] if max(shares[-2:]) < QUICK else 1.0


def is_rounding(control: Control) -> bool:
    """Whether what still moves is the last digits only."""
    recent = control.changes
    if len(recent) < 2 * STALLED or max(recent) > ROUNDING:
        return False
    return min(recent[STALLED:]) > 0.9 * min(recent[:STALLED])
