"""The shape of a Gamma from its moments, on the host; `cavity.families.inverse` has it for JAX, and tests hold both."""

from typing import Any

import numpy as np

from cavity.families.stirling import BERNOULLI, SERIES_FROM, log_minus_digamma

FARTHEST = 1.0  # of a step, in the logarithm of the shape
MOST_STEPS = 100


def gamma_shape(excess: Any) -> np.ndarray:
    """The a with log a − ψ(a) = s, NaN where there is none: Newton's method for log s, nearly a line in log a."""
    excess = np.asarray(excess, dtype=np.float64)
    feasible = (excess > 0) & np.isfinite(excess)
    wanted = np.where(feasible, excess, 1.0)
    a = (1 + 2 * wanted) / (2 * wanted * (1 + wanted))  # the sum of both asymptotes
    for _ in range(MOST_STEPS):
        value = log_minus_digamma(a)
        step = np.log(value / wanted) * value / (a * slope_of_excess(a))
        a = a * np.exp(-np.clip(step, -FARTHEST, FARTHEST))
        if np.all(np.abs(step) < 1e-13):
            break
    return np.where(feasible, a, np.nan)[()]


def slope_of_excess(a: np.ndarray) -> np.ndarray:
    """The derivative 1/a − ψ′(a) < 0 of log a − ψ(a), in which nothing cancels."""
    small = a < SERIES_FROM
    low, high = np.where(small, a, 1.0), np.where(small, a + SERIES_FROM, a)
    near = SERIES_FROM / (low * (low + SERIES_FROM)) - sum(1 / (low + k) ** 2 for k in range(int(SERIES_FROM)))
    series = sum(b / high ** (2 * k + 1) for k, b in enumerate(BERNOULLI, start=1))
    return np.where(small, near, 0.0) - 0.5 / high**2 - series
