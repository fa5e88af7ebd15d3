"""The best place of a smooth function in a box, by quasi-Newton steps of bounded length."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

LONGEST = 1.5  # step that is allowed
MAX_STEPS, MAX_CUTS = 50, 8


class Place(NamedTuple):
    """A point, and what is seen there."""

    point: np.ndarray
    value: float
    gradient: np.ndarray
    trusted: bool

    def is_above(self, other: "Place") -> bool:
        """Whether to prefer this one; where values are level, by the gradient."""
        if not (np.isfinite(self.value) and np.all(np.isfinite(self.gradient))) or self.trusted < other.trusted:
            return False
        level = abs(self.value - other.value) <= 1e-10 * (1 + abs(other.value))
        return self.value > other.value or (level and np.linalg.norm(self.gradient) < np.linalg.norm(other.gradient))


def climb(
    look: Callable[[np.ndarray], Place], here: Place, inverse: np.ndarray, bounds: np.ndarray, least: float
) -> tuple[Place, np.ndarray]:
    """Steps uphill within bounds (lowest, highest), while they gain, and promise, so much at least; and the inverse
    curvature.

    A step is shortened while the value falls by more than rounding or the place there is not to be trusted; the last
    steps, too small for the value to tell, go by the gradient.
    """
    for _ in range(MAX_STEPS):
        there = ahead(look, here, no_longer(uphill(here, inverse, bounds)), bounds, least)
        if there is None:
            break
        moved, bent = there.point - here.point, here.gradient - there.gradient
        if moved @ bent > 0:
            inverse = bfgs(inverse, moved, bent)
        gain, here = there.value - here.value, there
        if gain < least:
            break
    return here, inverse


def held(here: Place, bounds: np.ndarray) -> np.ndarray:
    """Which coordinates are at an edge, with a gradient that points outwards."""
    return np.where(here.gradient > 0, here.point >= bounds[1], here.point <= bounds[0])


def uphill(here: Place, inverse: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """The quasi-Newton step of coordinates that are not held, where those that are stay."""
    stays = held(here, bounds)
    goes, step = ~stays, np.zeros_like(here.point)
    across = inverse[np.ix_(goes, stays)]
    left = inverse[np.ix_(goes, goes)] - across @ np.linalg.solve(inverse[np.ix_(stays, stays)], across.T)
    step[goes] = left @ here.gradient[goes]
    return step


def no_longer(step: np.ndarray) -> np.ndarray:
    """A step in the same direction, which keeps it uphill, no longer than allowed in any coordinate."""
    return step * min(1.0, LONGEST / max(float(np.max(np.abs(step), initial=0.0)), LONGEST))


def ahead(
    look: Callable[[np.ndarray], Place], here: Place, step: np.ndarray, bounds: np.ndarray, least: float
) -> Place | None:
    """A better place along a step, or None if there is none to be found."""
    for _ in range(MAX_CUTS):
        point = np.clip(here.point + step, *bounds)
        if here.gradient @ (point - here.point) < least:
            return None
        there = look(point)
        if there.is_above(here):
            return there
        step = 0.3 * step
    return None


def bfgs(inverse: np.ndarray, moved: np.ndarray, bent: np.ndarray) -> np.ndarray:
    """The update of an inverse Hessian of Broyden, Fletcher, Goldfarb and Shanno."""
    left = np.eye(len(moved)) - np.outer(moved, bent) / (moved @ bent)
    return left @ inverse @ left.T + np.outer(moved, moved) / (moved @ bent)
