"""Modes and edges of the tilted densities of many rows, by guarded steps that all rows take at once.

Work is in units t = (a − m)/√v, in which the cavity is a standard normal.
"""

from typing import NamedTuple

import numpy as np

from cavity.quadrature.kernel import Kernel, Rows, take

FADED = 34.0  # nats below the peak at which the tilted density ends
MAX_CLIMB = 60
FARTHEST = 64.0  # a Newton step outside of a bracket, in those that double
CLOSE = 0.05  # of the width at a mode: near enough to place nodes
TRIALS = (0.1, 0.1, 0.3, 0.6)  # of the reach on one side: where tangents are laid on the log density
HALVINGS = 24  # for the edge of a likelihood that does not say its centre


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


def at(kernel: Kernel, rows: Rows, t: np.ndarray) -> Points:
    """The kernel at t; what rounding of a = m + √v t loses is put back: it matters where l is steep."""
    shift = rows.scale * t
    a = rows.mean + shift
    value, slope, curve = kernel.derivatives(rows.y, a)
    if kernel.level is None:
        lost = np.where(np.isfinite(curve), shift - (a - rows.mean), 0.0)
        put_back = lambda number, rate: number + np.where(lost == 0, 0.0, lost * rate)
        value, slope = put_back(value, slope), put_back(slope, curve)
    return Points(t, value, rows.scale * slope, rows.scale**2 * curve + 0 * t)


def modes_of(kernel: Kernel, rows: Rows, ends: Points, power: float) -> Points:
    """Modes of the tilted density, (mode, row), from the cavity's mean and the likelihood's centre, `ends`."""
    if power == 0:
        return Points(*(part[:1] for part in ends))
    if kernel.log_concave:
        return climb_from_the_higher(kernel, rows, ends, power)
    return climb_from_both(kernel, rows, ends, power)


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
    low, high = ends_of(kernel, rows, mode, power)
    left, right = (at(kernel, rows, t) for t in (low, high))
    bends = np.abs(left.curve - right.curve) > np.abs(left.slope - right.slope) / (high - low)
    of = lambda point: np.where(bends, point.curve, point.slope)
    middle, falling = 0.5 * (of(left) + of(right)), of(left) > of(right)
    for _ in range(HALVINGS):
        t = 0.5 * (low + high)
        ahead = (of(at(kernel, rows, t)) > middle) == falling
        low, high = np.where(ahead, t, low), np.where(ahead, high, t)
    return at(kernel, rows, 0.5 * (low + high))


def ends_of(kernel: Kernel, rows: Rows, mode: Points, power: float) -> np.ndarray:
    """Where a concave log density has faded, (side, row): no further from its mode than any tangent falls."""
    side = np.array([[-1.0], [1.0]])
    distance = np.full((2, len(mode.t)), np.sqrt(2 * FADED))
    peak = mode.height(power) - FADED
    for share in TRIALS:
        trial = share * distance
        point = at(kernel, rows, mode.t + side * trial)
        fall, above = side * (power * point.slope - point.t), point.height(power) - peak
        cut = np.where(fall < 0, trial - above / fall, distance)
        nearest = np.where(above <= 0, trial, distance)
        distance = np.where(cut > 0, np.minimum(nearest, cut), nearest)
    return mode.t + side * distance
