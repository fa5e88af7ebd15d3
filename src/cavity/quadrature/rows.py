"""Tilts of many rows at once, in NumPy: the rule is chosen for each row by itself.

For a ~ N(m, v) and a log-likelihood l(a), the tilted density is proportional to N(a; m, v) exp(α l(a)). Where the
cavity is narrow beside the likelihood a few Gauss–Hermite nodes are enough (`hermite`); elsewhere the trapezoid rule,
on nodes graded towards the point where the likelihood varies most, converges exponentially (`trapezoid`). Both estimate
their own error. Rows that fail get more nodes, and in the end the caller's last resort; without one they get NaN.

Arrays of nodes are (node, row). Sums run over the first axis in order, so that what a row gets does not depend on the
rows beside it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from cavity.quadrature import hermite, trapezoid
from cavity.quadrature.kernel import Kernel, Rows, take
from cavity.quadrature.tilted import Tilt

LastResort = Callable[[Any, np.ndarray, np.ndarray], Tilt]  # (y, mean, variance) of some rows
SMALLEST = 1e-200  # stands for a variance of zero, so that every quotient stays finite


def tilts(
    kernel: Kernel, y: Any, mean: np.ndarray, variance: np.ndarray, power: float, last_resort: LastResort | None = None
) -> Tilt:
    """The tilt of every row; `y` is an array or a nest of tuples of arrays with one entry per row.

    A row whose variance is negative, or that has a number which is not finite, gets NaN. `log_mean` is relative to the
    kernel: what the likelihood leaves out of it is for the caller to add.

    >>> logistic = lambda y, a: (-np.logaddexp(0, -a), 1 / (1 + np.exp(a)), -0.25 / np.cosh(a / 2) ** 2)
    >>> kernel = Kernel(logistic, lambda y, mean: 0 * mean, lambda y: 1.0, log_concave=True)
    >>> tilt = tilts(kernel, np.ones(2), np.zeros(2), np.array([1e-3, 1e4]), 1.0)
    >>> np.round(np.exp(tilt.log_mean), 9)
    array([0.5, 0.5])
    """
    mean, variance = np.broadcast_arrays(np.asarray(mean, np.float64), np.asarray(variance, np.float64))
    with np.errstate(all="ignore"):
        usable = np.isfinite(mean) & np.isfinite(variance) & (variance >= 0)
        todo = np.flatnonzero(usable)
        if todo.size < len(mean):
            variance = np.where(usable, variance, 1.0)
        rows, found = Rows(y, mean, np.sqrt(np.maximum(variance, SMALLEST))), None
        for rule in (hermite.tilts, trapezoid.tilts):
            if todo.size:
                part, good = rule(kernel, rows.take(todo), power)
                if todo.size == len(mean) and np.all(good):
                    return part
                found = nothing(len(mean)) if found is None else found
                write(found, todo, part, good)
                todo = todo[~good]
    found = nothing(len(mean)) if found is None else found
    if todo.size and last_resort is not None:
        part = last_resort(take(y, todo), mean[todo], variance[todo])
        write(found, todo, part, np.ones(len(todo), bool))
    return found


def nothing(n_rows: int) -> Tilt:
    """The tilts of rows that have none."""
    return Tilt(*(np.full(n_rows, np.nan) for _ in Tilt._fields))


def write(found: Tilt, rows: np.ndarray, part: Tilt, good: np.ndarray) -> None:
    """Put the good ones of a part into their places."""
    for whole, values in zip(found, part, strict=True):
        whole[rows[good]] = np.asarray(values)[good]
