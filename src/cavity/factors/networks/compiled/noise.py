"""What a datum says of a network's outputs and of its noise, for compiled loops.

The equations are those of `gamma_noise`, `varying_noise` and, of labels, `likelihoods.Probit`. Slopes of log Z in the
outputs' means and variances are left in `room`, for layer `last`, as the way back needs them.
"""

import math

import numpy as np

from cavity.factors.networks import varying_noise
from cavity.factors.networks.compiled.arrays import Noise, Room, signals_in
from cavity.factors.networks.compiled.decorators import compiled, inlined

NODES, LOG_WEIGHTS, LIMIT = varying_noise.NODES, np.log(varying_noise.WEIGHTS), varying_noise.LIMIT
COUNT = len(NODES)
CONSTANT, CHANGING, LABELS = 0, 1, 2  # noise, or none
ROOT_2 = math.sqrt(2.0)
FAR = -30.0  # standard deviations below which Φ is known by its series


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


@inlined
def constant_noise(room: Room, last: int, y: float, shape: float, rate: float) -> tuple[float, float, float]:
    """log Z, with its slopes in the output's moments left in `room`, and what the datum says of the noise."""
    signals = signals_in(room)
    residual, variance = y - signals.total[last, 0], signals.spread[last, 0]
    total = variance + rate / (shape - 1.0)
    ratio = residual / total
    signals.by_mean[last, 0], signals.by_variance[last, 0] = ratio, 0.5 * (ratio * ratio - 1.0 / total)
    first, second = rises(residual * residual, variance, shape, rate)
    more, scale = site_of_rises(shape, rate, first, second)
    return -0.5 * (math.log(2.0 * math.pi * total) + residual * ratio), more, scale


@compiled
def changing_noise(room: Room, last: int, y: float, shape: float, rate: float) -> tuple[float, float, float]:
    """log Z and what the datum says of the noise where a second output is its logarithm: see `varying_noise`."""
    signals = signals_in(room)
    residual, variance = y - signals.total[last, 0], signals.spread[last, 0]
    middle, width = signals.total[last, 1], signals.spread[last, 1]
    square, reach, top = residual * residual, math.sqrt(width), -math.inf
    work = np.empty((5, COUNT))
    share, size, bent, first, second = work[0], work[1], work[2], work[3], work[4]
    for k in range(COUNT):
        bounded = math.tanh((middle + reach * NODES[k]) / LIMIT)
        size[k], bent[k] = math.exp(LIMIT * bounded), 1.0 - bounded * bounded
        total = variance + size[k] * rate / (shape - 1.0)
        share[k] = LOG_WEIGHTS[k] - 0.5 * (math.log(2.0 * math.pi * total) + square / total)
        top = max(top, share[k])
    whole = 0.0
    for k in range(COUNT):
        share[k] = math.exp(share[k] - top)
        whole += share[k]
    by_mean, by_variance, by_middle, by_width, once = 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(COUNT):
        share[k] /= whole
        spread = size[k] * rate / (shape - 1.0)
        total = variance + spread
        slope = 0.5 * (square / total - 1.0) / total
        by_mean += share[k] * residual / total
        by_variance += share[k] * slope
        by_middle += share[k] * slope * spread * bent[k]
        by_width += share[k] * slope * spread * bent[k] * NODES[k] / (2.0 * reach)
        first[k], second[k] = rises(square, variance, shape, rate * size[k])
        once += share[k] * math.expm1(first[k])
    once, twice = math.log1p(once), 0.0
    for k in range(COUNT):
        twice += share[k] * math.exp(first[k] - once) * math.expm1(second[k])
    signals.by_mean[last, 0], signals.by_variance[last, 0] = by_mean, by_variance
    signals.by_mean[last, 1], signals.by_variance[last, 1] = by_middle, by_width
    more, scale = site_of_rises(shape, rate, once, math.log1p(twice))
    return top + math.log(whole), more, scale


@compiled
def label(room: Room, last: int, y: float) -> float:
    """log Φ(y f), with its slopes left in `room`."""
    signals = signals_in(room)
    total = 1.0 + signals.spread[last, 0]
    root = math.sqrt(total)
    z = y * signals.total[last, 0] / root
    log_density = -0.5 * (z * z + math.log(2.0 * math.pi))
    if z > FAR:
        log_mean = math.log1p(-0.5 * math.erfc(z / ROOT_2)) if z > 0.0 else math.log(0.5 * math.erfc(-z / ROOT_2))
        hazard = math.exp(log_density - log_mean)
    else:
        u = 1.0 / (z * z)
        tail = 1.0 - u * (1.0 - u * (3.0 - u * (15.0 - 105.0 * u)))  # Φ(z) / φ(z) times −z
        log_mean, hazard = log_density + math.log(-tail / z), -z / tail
    signals.by_mean[last, 0], signals.by_variance[last, 0] = y * hazard / root, -0.5 * z * hazard / total
    return log_mean


@inlined
def log_evidence_and_noise(
    output: int, room: Room, last: int, y: float, shape: float, rate: float
) -> tuple[float, float, float]:
    """log Z of a datum, with its slopes left in `room`, and what the datum says of the noise, if there is any."""
    if output == LABELS:
        return label(room, last, y), 0.0, 0.0
    if output == CHANGING:
        return changing_noise(room, last, y, shape, rate)
    return constant_noise(room, last, y, shape, rate)


@inlined
def noise_cavity(noise: Noise, site: Noise, part: float) -> tuple[float, float, bool]:
    """Shape and rate without a part of a site's, and whether this is a cavity; if it is none, they are as they were."""
    shape, rate = noise[0] - part * site[0], noise[1] - part * site[1]
    known = shape > 1.0 and rate > 0.0
    return (shape, rate, True) if known else (noise[0], noise[1], False)
