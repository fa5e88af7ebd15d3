"""Where the tilted density of each row has its mass, and a map that spreads nodes over it.

Work is in units t = (a − m)/√v, in which the cavity is a standard normal. Nodes are equal steps of x in

    t = t_p + κ c sinh(x/c),

close together around a pivot t_p, where the integrand changes over the distance κ, and further apart where only the
cavity's own width counts: at a distance d from the pivot, steps are √(κ² + (d/c)²) as long. The sine has no poles, so
that a strip in which the integrand is analytic remains one, and the nodes grow with the logarithm of the width.
"""

from typing import NamedTuple

import numpy as np

from cavity.quadrature.climbing import FADED, Points, at, edge, ends_of, modes_of, own_mode
from cavity.quadrature.kernel import Kernel, Rows, take

BEYOND = 9.0  # a likelihood's centre this far outside the range does not matter, in its own widths
COARSEST = 1.28  # steps at the ends of the range, in widths of the cavity,
AT_MODE = 1.3  # and at the mode, in widths of the tilted density
EVEN = 0.01  # by how much steps grow where they are to be equal
LARGEST = 1e100  # of l, where it grows


class Place(NamedTuple):
    """The nodes of each row: pivot, κ, c, where x begins and ends; and the mode about which sums are taken.

    `bend` is the largest |l″| seen in the range. `activation` is a at the mode: far out, rounding of a moves t, so that
    the two are kept together.
    """

    pivot: np.ndarray
    step: np.ndarray
    spread: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    bend: np.ndarray
    activation: np.ndarray
    mode: Points

    def take(self, index: np.ndarray) -> "Place":
        return Place(*take(tuple(self), index))


def place(kernel: Kernel, rows: Rows, power: float) -> Place:
    """Nodes for every row; those of a row without a finite mode are NaN."""
    center, has_center = center_of(kernel, rows)
    ends = at(kernel, rows, np.stack([np.zeros_like(center), center]))
    modes = modes_of(kernel, rows, ends, power)
    height = modes.height(power)
    best = np.argmax(np.where(np.isfinite(height), height, -np.inf), 0)
    activation = rows.mean + rows.scale * np.take_along_axis(modes.t, best[None], 0)[0]
    mode = at(kernel, rows._replace(mean=activation), np.zeros_like(center))
    mode = mode._replace(t=(activation - rows.mean) / rows.scale)
    low, high = reach(kernel, rows, ends, modes, mode, power)
    middle = Points(*take(tuple(ends), 1))
    if not np.all(has_center):
        found = edge(kernel, rows, mode, power)
        middle = Points(*(np.where(has_center, *pair) for pair in zip(middle, found, strict=True)))
    return mapped(kernel, rows, middle, mode, low, high, power)._replace(activation=activation)


def center_of(kernel: Kernel, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Where the likelihood varies most, in units of t, and whether that is known; zero where it is not."""
    center = kernel.center(rows.y, rows.mean) if kernel.center is not None else own_mode(kernel, rows)
    center = (center - rows.mean) / rows.scale
    known = np.isfinite(center)
    return np.where(known, center, 0.0), known


def reach(
    kernel: Kernel, rows: Rows, ends: Points, modes: Points, mode: Points, power: float
) -> tuple[np.ndarray, np.ndarray]:
    """The range of t outside of which the tilted density is `FADED` nats below its peak."""
    if kernel.log_concave and power:
        low, high = ends_of(kernel, rows, mode, power)
        return low, high
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


def mapped(
    kernel: Kernel, rows: Rows, center: Points, mode: Points, low: np.ndarray, high: np.ndarray, power: float
) -> Place:
    """The graded nodes over a range: about the centre where it matters, otherwise about the mode."""
    length = 0.7 / np.sqrt(np.abs(center.curve)) if kernel.length is None else kernel.length(rows.y) / rows.scale
    fine = np.minimum(length, center.width(power))
    matters = (center.t > low - BEYOND * fine) & (center.t < high + BEYOND * fine) & np.isfinite(fine)
    at_mode = mode.width(power)
    pivot = np.where(matters, center.t, mode.t)
    step = np.where(matters, np.minimum(fine, 1.0), at_mode)
    far, away = np.maximum(np.abs(low - pivot), np.abs(high - pivot)), np.abs(mode.t - pivot)
    slack = np.sqrt(np.maximum((AT_MODE * at_mode) ** 2 - step**2, (EVEN * step) ** 2))
    spread = np.maximum(far / COARSEST, away / slack)
    begin, end = (spread * np.arcsinh((edge - pivot) / (step * spread)) for edge in (low, high))
    bend = np.maximum(np.abs(mode.curve), np.where(matters, np.abs(center.curve), 0.0))
    return Place(pivot, step, spread, begin, end, bend, rows.mean, mode)
