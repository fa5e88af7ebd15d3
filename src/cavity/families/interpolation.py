"""Interpolation of inverse functions around places that many numbers share."""

import functools
import threading
from typing import NamedTuple

import numpy as np


@functools.cache
def chebyshev(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Chebyshev's nodes in (−1, 1), and matrices from values there to the coefficients of their polynomial, in powers
    and in Chebyshev's polynomials: the last of these say how exact it is.
    """
    order = np.arange(count)
    angles = (order + 0.5) * np.pi / count
    to_chebyshev = np.cos(np.outer(order, angles)) * np.where(order == 0, 1.0, 2.0)[:, None] / count
    return np.cos(angles), powers_of_chebyshev(count) @ to_chebyshev, to_chebyshev


@functools.cache
def powers_of_chebyshev(count: int) -> np.ndarray:
    """The matrix from coefficients of Chebyshev's polynomials to those of powers."""
    of_each = [np.polynomial.chebyshev.cheb2poly(row) for row in np.eye(count)]
    return np.stack([np.pad(p, (0, count - len(p))) for p in of_each], axis=1)


# as many nodes as make interpolation exact to rounding, for most functions as smooth as these and intervals as wide
NODES, TO_POWERS, TO_CHEBYSHEV = chebyshev(20)
COVERED = 0.9  # of an interval, by the places where values are known
EXACT = 1e-12  # share of the last coefficients from which on interpolation is not exact to rounding


class Table(NamedTuple):
    """The inverse of a function, over its argument, within reach of a place."""

    powers: np.ndarray  # of values over `reach`, on the first axis
    reach: float
    exact: bool


class Tables:
    """The inverse v ↦ u(v)/v of functions v(u) with v(0) = 0, one for each place, in polynomials within some reaches.

    Made when first asked for, whichever thread it is that asks: with the narrowest reach that is far enough.
    """

    reaches: dict[float, int]  # and with how many nodes
    slope: np.ndarray  # of v in u, at each place

    def __init__(self) -> None:
        self._made: dict[float, Table] = {}
        self._lock = threading.Lock()

    def values(self, steps: np.ndarray) -> np.ndarray:
        """v at some u, on a first axis, of each place."""
        raise NotImplementedError

    def near(self, farthest: float) -> Table:
        """Polynomials for |v| up to `farthest`, which is at most the longest reach."""
        reach = min((reach for reach in self.reaches if reach >= farthest), default=max(self.reaches))
        with self._lock:
            if reach not in self._made:
                self._made[reach] = self._table(reach)
            return self._made[reach]

    def _table(self, reach: float) -> Table:
        """From values at nodes that are nearly Chebyshev's, as the functions are nearly straight lines."""
        nodes = chebyshev(self.reaches[reach])[0].reshape(-1, *[1] * self.slope.ndim)
        steps = reach * nodes / self.slope
        at = self.values(steps) / reach
        covered = np.all((at.min(0) < -COVERED) & (at.max(0) > COVERED))
        powers, left_out = fitted(at, steps / (reach * at))
        return Table(powers, reach, bool(covered and left_out < EXACT))


def fitted(at: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, float]:
    """Coefficients in powers of the polynomials through some values, on the first axis, and what share is left out.

    That is the next of Chebyshev's coefficients, if they go on to fall as they have done so far.
    """
    count = len(at)
    rows = lambda array: np.moveaxis(array, 0, -1)
    by_chebyshev = np.linalg.solve(np.polynomial.chebyshev.chebvander(rows(at), count - 1), rows(values)[..., None])
    size = np.abs(by_chebyshev[..., 0])
    share = size[..., -2:] / size.max(-1, keepdims=True)
    left_out = float(np.max(share ** (count / np.arange(count - 2, count))))
    return np.moveaxis((powers_of_chebyshev(count) @ by_chebyshev)[..., 0], -1, 0), left_out
