"""The step ε: a number, a function of the step, or one of the schedules below.

Steps count batches from 0. A plain function is called with the step alone. A schedule that needs to know more has a
method `at(step, per_sweep, part)`, with the number of batches in a sweep and the part of its site's weight that each
batch holds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cavity._checks import check_positive

Rate = float | Callable[[Any], Any] | Any


@dataclass(frozen=True)
class RobbinsMonro:
    """ε_t = scale · (1 + t / (sweeps · steps per sweep))^−decay: Σ ε diverges and Σ ε² does not, for ½ < decay ≤ 1."""

    decay: float = 1.0
    sweeps: float = 1.0
    scale: float = 1.0

    def at(self, step: np.ndarray, per_sweep: int, part: Any = None) -> np.ndarray:
        return self.scale * (1 + step / (self.sweeps * per_sweep)) ** -self.decay


@dataclass(frozen=True)
class NaturalGradient:
    """ε_t = ρ_t W / Σ_{n∈B} w_n, which is ρ_t N/M: the step for which K = 1, α = 0 is SVI with step size ρ_t."""

    rho: Rate

    def at(self, step: np.ndarray, per_sweep: int, part: Any) -> np.ndarray:
        return evaluate(self.rho, step, per_sweep, part) / part


def robbins_monro(decay: float = 1.0, sweeps: float = 1.0, scale: float = 1.0) -> RobbinsMonro:
    """A decreasing rate under which SEP goes to averaged EP's fixed point.

    >>> import cavity
    >>> cavity.sep(rate=cavity.robbins_monro()).rate.at(0, per_sweep=100)
    1.0
    """
    for name, value in (("decay", decay), ("sweeps", sweeps), ("scale", scale)):
        check_positive(name, value)
    if not 0.5 < decay <= 1:
        raise ValueError(f"decay must lie in (0.5, 1] for the rate to settle and still reach anywhere; got {decay=}.")
    return RobbinsMonro(decay, sweeps, scale)


def evaluate(rate: Rate, step: np.ndarray, per_sweep: int, part: Any = None) -> np.ndarray:
    """ε for an array of step numbers."""
    if hasattr(rate, "at"):
        values = rate.at(step, per_sweep, part)
    elif callable(rate):
        values = [rate(int(t)) for t in step]
    else:
        values = rate
    try:
        values = np.broadcast_to(np.asarray(values, dtype=np.float64), step.shape)
    except (TypeError, ValueError):
        raise ValueError(f"rate must give one number for each step; got {values!r:.60} from {rate!r}.") from None
    good = np.isfinite(values) & (values >= 0)
    if not np.all(good):
        raise ValueError(f"rate must give finite non-negative numbers; got {values[~good][0]} from {rate!r}.")
    return values


def check(rate: Rate | None) -> None:
    """Raise a ValueError unless `rate` is None, a positive number, a function or a schedule."""
    if rate is robbins_monro or isinstance(rate, type):
        raise ValueError(f"rate must be a schedule, not what makes one; got {rate!r}. Call it: cavity.robbins_monro().")
    if rate is None or callable(rate) or hasattr(rate, "at"):
        return
    if isinstance(rate, bool) or not isinstance(rate, int | float | np.number) or not (0 < rate < np.inf):
        raise ValueError(f"rate must be a positive number, a function of the step, or None; got {rate=}.")
