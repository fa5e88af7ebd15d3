"""What a datum says of a network's outputs and of its noise, for compiled loops: `gamma_noise` and `varying_noise`.

Slopes of log Z in the outputs' means and variances are left in the last rows of `work`, as the way back needs them.
"""

import math
from typing import Any

import numpy as np
from numba import njit

from cavity.factors import varying_noise

NODES, LOG_WEIGHTS, LIMIT = varying_noise.NODES, np.log(varying_noise.WEIGHTS), varying_noise.LIMIT
FAST = {"contract", "reassoc", "nsz", "arcp"}  # sums in any order; NaN and infinity keep their meaning
compiled = njit(fastmath=FAST, error_model="numpy", nogil=True, cache=True)


@compiled
def rises(square: float, variance: float, shape: float, rate: float) -> tuple[float, float]:
    """`gamma_noise.rises` at power one, from the square of the residual."""
    step0, step1 = rate / ((shape - 1.0) * shape), rate / (shape * (shape + 1.0))
    total0, total1, total2 = variance + rate / (shape - 1.0), variance + rate / shape, variance + rate / (shape + 1.0)
    first = -0.5 * math.log1p(-step0 / total0) - 0.5 * square * step0 / (total0 * total1)
    second = -0.5 * math.log1p(-step1 / total1) - 0.5 * square * step1 / (total1 * total2)
    return first, second


@compiled
def site_of_rises(shape: float, rate: float, first: float, second: float) -> tuple[float, float]:
    """`gamma_noise.site_of_rises` at power one."""
    bend = math.expm1(second - first)
    spread = bend + (1.0 + bend) / shape
    more = -(shape + 1.0) * bend / spread
    scale = more / shape * math.exp(-first) + math.expm1(-first)
    if shape > 1.0 and spread > 0.0 and 1.0 < shape + more < math.inf and 0.0 < 1.0 + scale < math.inf:
        return more, rate * scale
    return 0.0, 0.0


@compiled
def constant_noise(work: Any, last: int, y: float, shape: float, rate: float) -> tuple[float, float, float]:
    """log Z, with its slopes in the output's moments left in `work`, and what it says of the noise."""
    residual, variance = y - work[2, last, 0], work[3, last, 0]
    total = variance + rate / (shape - 1.0)
    ratio = residual / total
    work[6, last, 0], work[7, last, 0] = ratio, 0.5 * (ratio * ratio - 1.0 / total)
    first, second = rises(residual * residual, variance, shape, rate)
    more, scale = site_of_rises(shape, rate, first, second)
    return -0.5 * (math.log(2.0 * math.pi * total) + residual * ratio), more, scale


@compiled
def changing_noise(work: Any, last: int, y: float, shape: float, rate: float) -> tuple[float, float, float]:
    """The same where a second output is the logarithm of the noise's size: see `varying_noise`."""
    residual, variance, middle, width = y - work[2, last, 0], work[3, last, 0], work[2, last, 1], work[3, last, 1]
    square, reach, top = residual * residual, math.sqrt(width), -math.inf
    logs, size, bent = np.empty(len(NODES)), np.empty(len(NODES)), np.empty(len(NODES))
    for k in range(len(NODES)):
        bounded = math.tanh((middle + reach * NODES[k]) / LIMIT)
        size[k], bent[k] = math.exp(LIMIT * bounded), 1.0 - bounded * bounded
        total = variance + size[k] * rate / (shape - 1.0)
        logs[k] = LOG_WEIGHTS[k] - 0.5 * (math.log(2.0 * math.pi * total) + square / total)
        top = max(top, logs[k])
    whole = 0.0
    for k in range(len(NODES)):
        whole += math.exp(logs[k] - top)
    by_mean, by_variance, by_middle, by_width, once = 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(len(NODES)):
        share = math.exp(logs[k] - top) / whole
        spread = size[k] * rate / (shape - 1.0)
        total = variance + spread
        slope = 0.5 * (square / total - 1.0) / total
        by_mean += share * residual / total
        by_variance += share * slope
        by_middle += share * slope * spread * bent[k]
        by_width += share * slope * spread * bent[k] * NODES[k] / (2.0 * reach)
        once += share * math.expm1(rises(square, variance, shape, rate * size[k])[0])
    once, twice = math.log1p(once), 0.0
    for k in range(len(NODES)):
        first, second = rises(square, variance, shape, rate * size[k])
        twice += math.exp(logs[k] - top + first - once) / whole * math.expm1(second)
    work[6, last, 0], work[7, last, 0], work[6, last, 1], work[7, last, 1] = by_mean, by_variance, by_middle, by_width
    more, scale = site_of_rises(shape, rate, once, math.log1p(twice))
    return top + math.log(whole), more, scale
