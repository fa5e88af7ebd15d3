"""Where the tilted density of each row has its mass, and a map that spreads nodes over it.

Work is in units t = (a − m)/√v, in which the cavity is a standard normal. The mode of the tilted density is found by
guarded Newton steps from the cavity's mean and from the likelihood's centre. Nodes are equal steps of x in

    t = t_p + κ (x + ε x⁵/5),

close together around a pivot t_p, where the integrand changes over the distance κ, and further apart where only the
cavity's own width counts. The quintic stays flat up to several κ, so that it does not spoil the pivot's neighbourhood,
and needs no more than some 30 steps of κ to a side however much wider the cavity is.
"""

from typing import NamedTuple

import numpy as np

from cavity.quadrature.kernel import Kernel, Rows, take

FADED = 34.0  # nats below the peak at which the tilted density ends
BEYOND = 9.0  # a likelihood's centre this far outside the range does not matter, in its own widths
MAX_CLIMB = 60
HALVINGS = 24  # for the edge of a likelihood that does not say its centre
LARGEST = 1e100
FARTHEST = 64.0  # a Newton step outside of a bracket, in those that double
CLOSE = 0.05  # of the width at a mode: near enough to place nodes
FLAT, WIDEST = 5.0, 1.0  # steps have the cavity's width at this distance, and this is that width
TRIALS = (0.1, 0.1, 0.1, 0.3, 0.5, 0.8)  # of the reach on one side: where tangents are laid on the log density


class Points(NamedTuple):
    """The kernel in units of t at some points: (point, row) or (row,)."""

    t: np.ndarray
    value: np.ndarray
    slope: np.ndarray
    curve: np.ndarray

    def height(self, power: float) -> np.ndarray:
        """log of the tilted density, unnormalised."""
        return power * self.value - 0.5 * self.t**2

    def width(self, power: float) -> np.ndarray:
        return 1 / np.sqrt(1 + power * np.abs(self.curve))


class Place(NamedTuple):
    """The nodes of each row: pivot, κ, ε, where x begins and ends; and the mode about which sums are taken.

    `bend` is the largest |l″| seen in the range. `activation` is a at the mode: far out, rounding of a moves t, so that
    the two are kept together.
    """

    pivot: np.ndarray
    step: np.ndarray
    growth: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    bend: np.ndarray
    activation: np.ndarray
    mode: Points

    def take(self, index: np.ndarray) -> "Place":
        return Place(*take(tuple(self), index))


def place(kernel: Kernel, rows: Rows, power: float) -> Place:
    """Nodes for every row; those of a row without a finite mode are NaN."""
    center = kernel.center(rows.y, rows.mean) if kernel.center is not None else own_mode(kernel, rows)
    center = (center - rows.mean) / rows.scale
    has_center = np.isfinite(center)
    center = np.where(has_center, center, 0.0)
    ends = at(kernel, rows, np.stack([np.zeros_like(center), center]))
    if power == 0:
        modes = Points(*(part[:1] for part in ends))
    elif kernel.log_concave:
        modes = climb_from_the_higher(kernel, rows, ends, power)
    else:
        modes = climb_from_both(kernel, rows, ends, power)
    height = modes.height(power)
    best = np.argmax(np.where(np.isfinite(height), height, -np.inf), 0)
    activation = rows.mean + rows.scale * np.take_along_axis(modes.t, best[None], 0)[0]
    mode = at(kernel, rows._replace(mean=activation), np.zeros_like(center))
    mode = mode._replace(t=(activation - rows.mean) / rows.scale)
    low, high = reach(kernel, rows, ends, modes, mode, power)
    middle = Points(*take(tuple(ends), 1))
    if kernel.center is None:
        middle = choose(has_center, middle, edge(kernel, rows, mode, power))
    return mapped(kernel, rows, middle, mode, low, high, power)._replace(activation=activation)


def at(kernel: Kernel, rows: Rows, t: np.ndarray) -> Points:
    """The kernel at t; what rounding of a = m + √v t loses is put back: it matters where l is steep."""
    shift = rows.scale * t
    a = rows.mean + shift
    value, slope, curve = kernel.derivatives(rows.y, a)
    lost = np.where(np.isfinite(curve), shift - (a - rows.mean), 0.0)
    put_back = lambda number, rate: number + np.where(lost == 0, 0.0, lost * rate)
    return Points(t, put_back(value, slope), rows.scale * put_back(slope, curve), rows.scale**2 * curve + 0 * t)


def climb_from_the_higher(kernel: Kernel, rows: Rows, ends: Points, power: float) -> Points:
    """The one mode, from the better of the cavity's mean and the centre, and between what both say."""
    force = power * ends.slope - ends.t
    low = np.max(np.where(force >= 0, ends.t, -np.inf), 0)
    high = np.min(np.where(force <= 0, ends.t, np.inf), 0)
    height = ends.height(power)
    start = np.where(height[1] > height[0], ends.t[1], ends.t[0])
    t = climb(kernel, rows, start, low, high, power)
    return Points(*(part[None] for part in at(kernel, rows, t)))


def climb_from_both(kernel: Kernel, rows: Rows, ends: Points, power: float) -> Points:
    """Modes uphill from the cavity's mean and from the centre: the tilted density may have two."""
    free = np.full_like(rows.mean, np.inf)
    tops = [climb(kernel, rows, start, -free, free, power) for start in ends.t]
    return at(kernel, rows, np.stack(tops))


def climb(
    kernel: Kernel,
    rows: Rows,
    t: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    power: float,
    cavity: float = 1.0,
) -> np.ndarray:
    """A mode uphill from t, in all rows at once: Newton steps, doubled ones outside of a bracket, halving inside.

    Rows leave when their Newton step is short; a fixed number of rounds ends it for all. With `cavity` zero it is a
    mode of the likelihood alone.
    """
    result, active, step = np.array(t), np.arange(len(t)), np.ones_like(t)
    for n in range(MAX_CLIMB):
        point = at(kernel, rows, t)
        force, stiffness = power * point.slope - cavity * t, cavity - power * point.curve
        low, high = np.where(force >= 0, t, low), np.where(force <= 0, t, high)
        bracketed = np.isfinite(low) & np.isfinite(high)
        newton = force / np.where(stiffness > 0, stiffness, 1 + np.abs(stiffness))
        short = (stiffness > 0) & (np.abs(newton) * np.sqrt(cavity + np.abs(stiffness)) <= CLOSE)
        newton = np.where(bracketed, newton, np.clip(newton, -FARTHEST * step, FARTHEST * step))
        close = short | (force == 0) | np.isnan(force) | (bracketed & (high - low <= 1e-13 * np.abs(low)))
        inside = (t + newton > low) & (t + newton < high) & (stiffness > 0) & ((n % 3 != 2) | ~bracketed)
        step = np.maximum(2 * step, np.where(np.isfinite(newton), np.abs(newton), 0.0))
        onward = np.where(inside, t + newton, t + np.sign(force) * step)
        onward = np.where(inside | ~bracketed, onward, 0.5 * (low + high))
        result[active] = np.where(close, t, onward)
        stay = np.flatnonzero(~close)
        if not stay.size:
            break
        active, t, low, high, step = take((active, onward, low, high, step), stay)
        rows = rows.take(stay)
    return result


def own_mode(kernel: Kernel, rows: Rows) -> np.ndarray:
    """The mode of a likelihood that does not say its centre, uphill from the cavity's mean; NaN where it has none."""
    free = np.full_like(rows.mean, np.inf)
    mode = climb(kernel, rows, np.zeros_like(free), -free, free, 1.0, cavity=0.0)
    width = 1 / np.sqrt(np.abs(at(kernel, rows, mode).curve))
    before, after = at(kernel, rows, np.stack([mode - width, mode + width])).slope
    return np.where((before > 0) & (after < 0), rows.mean + rows.scale * mode, np.nan)


def edge(kernel: Kernel, rows: Rows, mode: Points, power: float) -> Points:
    """Where a likelihood without a mode varies most: half-way between its curvatures on both sides of the mass.

    Where these are alike, as those of a logistic function, half-way between its slopes.
    """
    low, high = (mode.t + side * tangents(kernel, rows, mode, side, power) for side in (-1, 1))
    left, right = (at(kernel, rows, t) for t in (low, high))
    bends = np.abs(left.curve - right.curve) > np.abs(left.slope - right.slope) / (high - low)
    of = lambda point: np.where(bends, point.curve, point.slope)
    middle, falling = 0.5 * (of(left) + of(right)), of(left) > of(right)
    for _ in range(HALVINGS):
        t = 0.5 * (low + high)
        ahead = (of(at(kernel, rows, t)) > middle) == falling
        low, high = np.where(ahead, t, low), np.where(ahead, high, t)
    return at(kernel, rows, 0.5 * (low + high))


def choose(which: np.ndarray, one: Points, other: Points) -> Points:
    return Points(*(np.where(which, *pair) for pair in zip(one, other, strict=True)))


def reach(
    kernel: Kernel, rows: Rows, ends: Points, modes: Points, mode: Points, power: float
) -> tuple[np.ndarray, np.ndarray]:
    """The range of t outside of which the tilted density is `FADED` nats below its peak."""
    if kernel.log_concave and power:
        return mode.t - tangents(kernel, rows, mode, -1, power), mode.t + tangents(kernel, rows, mode, 1, power)
    around = np.sqrt(2 * FADED)
    if power == 0:  # there l itself is what is integrated, and may grow
        for _ in range(3):
            growth = np.abs(at(kernel, rows, np.stack([mode.t - around, mode.t + around])).value - mode.value)
            around = np.sqrt(2 * (FADED + np.log1p(np.minimum(np.max(growth, 0), LARGEST))))
        return -around, around
    # away from its modes the density falls at least as the cavity does; a broad one counts far below a sharp one
    t, height = (np.concatenate(pair) for pair in ((ends.t, modes.t), (ends.height(power), modes.height(power))))
    counts = height > mode.height(power) - 2 * FADED
    low, high = np.min(np.where(counts, t, np.inf), 0), np.max(np.where(counts, t, -np.inf), 0)
    return low - around, high + around


def tangents(kernel: Kernel, rows: Rows, mode: Points, side: int, power: float) -> np.ndarray:
    """How far a concave log density reaches to one side: no further than any tangent falls."""
    distance = np.full_like(mode.t, np.sqrt(2 * FADED))
    peak = mode.height(power) - FADED
    for share in TRIALS:
        trial = share * distance
        point = at(kernel, rows, mode.t + side * trial)
        fall, above = side * (power * point.slope - point.t), point.height(power) - peak
        cut = trial - above / fall
        distance = np.where(above > 0, distance, np.where(np.isnan(above), distance, trial))
        distance = np.where((fall < 0) & (cut > 0), np.minimum(distance, cut), distance)
    return distance


def mapped(
    kernel: Kernel, rows: Rows, center: Points, mode: Points, low: np.ndarray, high: np.ndarray, power: float
) -> Place:
    """The graded nodes over a range: about the centre where it matters, otherwise about the mode."""
    length = 0.7 / np.sqrt(np.abs(center.curve)) if kernel.length is None else kernel.length(rows.y) / rows.scale
    fine = np.minimum(length, center.width(power))
    matters = (center.t > low - BEYOND * fine) & (center.t < high + BEYOND * fine) & np.isfinite(fine)
    at_mode = mode.width(power)
    pivot = np.where(matters, center.t, mode.t)
    step = np.where(matters, np.minimum(fine, WIDEST), at_mode)
    growth = quintic(step, np.full_like(step, WIDEST))
    x = inverse(growth, np.abs(mode.t - pivot) / step)
    coarse = step * (1 + growth * fourth_power(x)) > 1.3 * at_mode
    growth = np.where(coarse, quintic(step, np.maximum(step, at_mode)), growth)
    begin, end = (inverse(growth, (edge - pivot) / step) for edge in (low, high))
    bend = np.maximum(np.abs(mode.curve), np.where(matters, np.abs(center.curve), 0.0))
    return Place(pivot, step, growth, begin, end, bend, rows.mean, mode)


def quintic(step: np.ndarray, widest: np.ndarray) -> np.ndarray:
    """ε such that steps have grown to the widest at `FLAT` times that distance from the pivot."""
    ratio = np.maximum(widest / step, 1.0)
    x = 5 * FLAT * ratio / (ratio + 4)
    return (ratio - 1) / fourth_power(x)


def inverse(growth: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """x with x + ε x⁵/5 = distance: Newton's steps from above, where they are monotone."""
    size = np.abs(distance)
    x = np.minimum(size, (5 * size / np.maximum(growth, 1e-300)) ** 0.2)
    for _ in range(6):
        fourth = growth * fourth_power(x)
        x = x - (x * (1 + 0.2 * fourth) - size) / (1 + fourth)
    return np.copysign(x, distance)


def fourth_power(x: np.ndarray) -> np.ndarray:
    """x⁴ by two squares, which NumPy's power does not see."""
    square = x * x
    return square * square
