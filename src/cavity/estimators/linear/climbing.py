"""The best place of a smooth function in a box, by quasi-Newton steps of bounded length."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

LONGEST, STILL = 1.5, 1e-7  # the longest step allowed, and one that is none
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


def climb(look: Callable[[np.ndarray], Place], start: np.ndarray, curvature: np.ndarray, bounds: np.ndarray) -> Place:
    """Steps uphill, from a first guess of the curvature, within bounds (lowest, highest).

    A step is shortened while the value falls by more than rounding or the place there is not to be trusted; the last
    steps, too small for the value to tell, go by the gradient.
    """
    here = look(np.clip(start, *bounds))
    inverse = np.linalg.inv(curvature)
    for _ in range(MAX_STEPS):
        # at an edge, what points outwards has no say in the others
        outwards = np.where(here.gradient > 0, here.point >= bounds[1], here.point <= bounds[0])
        gradient = np.where(outwards, 0.0, here.gradient)
        there = ahead(look, here, np.clip(inverse @ gradient, -LONGEST, LONGEST), bounds)
        if there is None:
            break
        moved, bent = there.point - here.point, here.gradient - there.gradient
        if moved @ bent > 0:
            inverse = bfgs(inverse, moved, bent)
        here = there
    return here


def ahead(look: Callable[[np.ndarray], Place], here: Place, step: np.ndarray, bounds: np.ndarray) -> Place | None:
    """A better place along a step, or None if there is none to be found."""
    for _ in range(MAX_CUTS):
        point = np.clip(here.point + step, *bounds)
        if np.max(np.abs(point - here.point), initial=0.0) < STILL:
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
