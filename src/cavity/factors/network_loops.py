"""Probabilistic backpropagation with its gradient by hand, one datum at a time, compiled by Numba.

The same arithmetic as `cavity.factors.network` under automatic differentiation, to which tests hold it. All weights
are in one row, layer after layer, each layer as (n_in + 1, n_out): loops over a layer's units run over neighbours.

A step is three passes: signals forward, slopes of log Z back to every unit, and the update of the weights. q is held as
means and variances, which the first two passes need and which change without a division.
"""

import math
from typing import Any

import numpy as np
from numba import njit

from cavity.factors import varying_noise

NODES, LOG_WEIGHTS, LIMIT = varying_noise.NODES, np.log(varying_noise.WEIGHTS), varying_noise.LIMIT
NOWHERE, IMPLIED, OWN = 0, 1, 2  # where a datum's site is: not kept; (q − prior)/N, never formed; in its own row
SQRT_HALF = math.sqrt(0.5)
DENSITY_AT_ZERO = 1 / math.sqrt(2 * math.pi)
FAST = {"contract", "reassoc", "nsz", "arcp"}  # sums in any order; NaN and infinity keep their meaning
compiled = njit(fastmath=FAST, nogil=True, cache=True)


@compiled
def rectify(n: int, mean: Any, variance: Any, out_mean: Any, out_variance: Any, above: Any, density: Any) -> None:
    """Mean and variance of max(a, 0) of each unit, P(a > 0), and the density of a at zero.

    With r = m/s, u = φ(r) + r Φ(r) is the mean over s, d = u − r that of max(−a, 0), and the variance over s² is
    Φ(r) − u d. The smaller of u and d is formed first.
    """
    for j in range(n):
        scale = math.sqrt(variance[j])
        ratio = mean[j] / scale
        size = abs(ratio)
        at_zero = DENSITY_AT_ZERO * math.exp(-0.5 * ratio * ratio)
        tail = 0.5 * math.erfc(SQRT_HALF * size)
        smaller = at_zero - size * tail
        positive = ratio > 0
        up = smaller + ratio if positive else smaller
        down = smaller if positive else smaller - ratio
        inside = 1.0 - tail if positive else tail
        out_mean[j] = scale * up
        out_variance[j] = variance[j] * max(inside - up * down, 0.0)
        above[j] = inside
        density[j] = at_zero / scale


@compiled
def forward(sizes: Any, starts: Any, mean: Any, variance: Any, x: Any, work: Any) -> None:
    """Mean and variance of every layer's sums, its inputs, and what the way back needs, all left in `work`."""
    in_mean, in_variance, total, spread, above, density = work[0], work[1], work[2], work[3], work[4], work[5]
    depth = len(sizes) - 1
    for i in range(sizes[0]):
        in_mean[0, i] = x[i]
        in_variance[0, i] = 0.0
    for layer in range(depth):
        n_in, n_out, start = sizes[layer] + 1, sizes[layer + 1], starts[layer]
        scale = 1.0 / math.sqrt(n_in)
        in_mean[layer, n_in - 1] = 1.0  # for the bias
        in_variance[layer, n_in - 1] = 0.0
        for j in range(n_out):
            total[layer, j] = 0.0
            spread[layer, j] = 0.0
        if n_out == 1:
            first, second = 0.0, 0.0
            for i in range(n_in):
                w, z, s = mean[start + i], in_mean[layer, i], in_variance[layer, i]
                first += w * z
                second += w * w * s + variance[start + i] * (z * z + s)
            total[layer, 0], spread[layer, 0] = scale * first, scale * scale * second
        else:
            for i in range(n_in):
                z, s, here = scale * in_mean[layer, i], scale * scale * in_variance[layer, i], start + i * n_out
                both = z * z + s
                if layer == 0:
                    for j in range(n_out):
                        total[layer, j] += mean[here + j] * z
                        spread[layer, j] += variance[here + j] * both
                else:
                    for j in range(n_out):
                        w = mean[here + j]
                        total[layer, j] += w * z
                        spread[layer, j] += w * w * s + variance[here + j] * both
        if layer < depth - 1:
            rectify(
                n_out,
                total[layer],
                spread[layer],
                in_mean[layer + 1],
                in_variance[layer + 1],
                above[layer],
                density[layer],
            )


@compiled
def backward(sizes: Any, starts: Any, mean: Any, variance: Any, work: Any) -> None:
    """From the outputs' slopes of log Z those of every unit's sum, scaled as the weights below it need them."""
    in_mean, above, density, by_mean, by_variance = work[0], work[4], work[5], work[6], work[7]
    for layer in range(len(sizes) - 2, -1, -1):
        n_in, n_out, start = sizes[layer] + 1, sizes[layer + 1], starts[layer]
        scale = 1.0 / math.sqrt(n_in)
        for j in range(n_out):
            by_mean[layer, j] *= scale
            by_variance[layer, j] *= scale * scale
        if layer == 0:
            break
        for i in range(n_in - 1):
            first, second, third, here = 0.0, 0.0, 0.0, start + i * n_out
            for j in range(n_out):
                w, v, g = mean[here + j], variance[here + j], by_variance[layer, j]
                first += w * by_mean[layer, j]
                second += v * g
                third += (w * w + v) * g
            to_mean = first + 2.0 * in_mean[layer, i] * second
            p, f, m = above[layer - 1, i], density[layer - 1, i], in_mean[layer, i]
            by_mean[layer - 1, i] = to_mean * p + third * 2.0 * m * (1.0 - p)
            by_variance[layer - 1, i] = 0.5 * to_mean * f + third * (p - m * f)


@njit(fastmath=FAST, nogil=True, inline="always")
def tilt(w: float, v: float, z: float, s: float, by_mean: float, by_variance: float) -> tuple[float, float, float]:
    """For a weight N(w, v) on an input of mean z and variance s: ∂log Z, its curvature h, and 1 − v h."""
    slope = by_mean * z + 2.0 * w * by_variance * s
    bend = slope * slope - 2.0 * by_variance * (z * z + s)
    return slope, bend, 1.0 - v * bend


@compiled
def update(sizes: Any, starts: Any, work: Any, from_mean: Any, from_variance: Any, mean: Any, variance: Any) -> None:
    """Moments of every weight's tilted distribution, from its cavity's; a weight that has none keeps the cavity's."""
    in_mean, in_variance, by_mean, by_variance = work[0], work[1], work[6], work[7]
    for layer in range(len(sizes) - 1):
        n_in, n_out, start = sizes[layer] + 1, sizes[layer + 1], starts[layer]
        if n_out == 1:
            g, c = by_mean[layer, 0], by_variance[layer, 0]
            for i in range(n_in):
                w, v = from_mean[start + i], from_variance[start + i]
                slope, _, left = tilt(w, v, in_mean[layer, i], in_variance[layer, i], g, c)
                mean[start + i] = w + v * slope if left > 0.0 else w
                variance[start + i] = v * left if left > 0.0 else v
            continue
        for i in range(n_in):
            z, s, here = in_mean[layer, i], in_variance[layer, i], start + i * n_out
            for j in range(n_out):
                w, v = from_mean[here + j], from_variance[here + j]
                slope, _, left = tilt(w, v, z, s, by_mean[layer, j], by_variance[layer, j])
                mean[here + j] = w + v * slope if left > 0.0 else w
                variance[here + j] = v * left if left > 0.0 else v


@compiled
def update_own(
    sizes: Any, starts: Any, work: Any, from_mean: Any, from_variance: Any, free: Any, mean: Any, variance: Any,
    site_shift: Any, site_precision: Any,
) -> None:  # fmt: skip
    """The same, and the site of every weight; one that has no cavity keeps its site and moments."""
    in_mean, in_variance, by_mean, by_variance = work[0], work[1], work[6], work[7]
    for layer in range(len(sizes) - 1):
        n_in, n_out, start = sizes[layer] + 1, sizes[layer + 1], starts[layer]
        for i in range(n_in):
            z, s, here = in_mean[layer, i], in_variance[layer, i], start + i * n_out
            for j in range(n_out):
                at = here + j
                w, v = from_mean[at], from_variance[at]
                slope, bend, left = tilt(w, v, z, s, by_mean[layer, j], by_variance[layer, j])
                good = left > 0.0
                over = 1.0 / left if good else 0.0
                keep = free[at] == 0
                site_precision[at] = site_precision[at] if keep else bend * over
                site_shift[at] = site_shift[at] if keep else (slope + w * bend) * over
                mean[at] = mean[at] if keep else (w + v * slope if good else w)
                variance[at] = variance[at] if keep else (v * left if good else v)


@compiled
def add_sites(
    sizes: Any, starts: Any, work: Any, from_mean: Any, from_variance: Any, weight: float, shift: Any, precision: Any
) -> None:
    """Add the site of every weight, times the weight of the datum, to sums over a batch."""
    in_mean, in_variance, by_mean, by_variance = work[0], work[1], work[6], work[7]
    for layer in range(len(sizes) - 1):
        n_in, n_out, start = sizes[layer] + 1, sizes[layer + 1], starts[layer]
        for i in range(n_in):
            z, s, here = in_mean[layer, i], in_variance[layer, i], start + i * n_out
            for j in range(n_out):
                w, v = from_mean[here + j], from_variance[here + j]
                slope, bend, left = tilt(w, v, z, s, by_mean[layer, j], by_variance[layer, j])
                over = weight / left if left > 0.0 else 0.0
                precision[here + j] += bend * over
                shift[here + j] += (slope + w * bend) * over


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


@compiled
def look(
    sizes: Any, starts: Any, mean: Any, variance: Any, x: Any, y: float, shape: float, rate: float, work: Any
) -> tuple[float, float, float]:
    """log Z of a datum, with the slopes of all units left in `work`; and what it says of the noise."""
    forward(sizes, starts, mean, variance, x, work)
    last = len(sizes) - 2
    if sizes[last + 1] == 1:
        log_mean, more, scale = constant_noise(work, last, y, shape, rate)
    else:
        log_mean, more, scale = changing_noise(work, last, y, shape, rate)
    backward(sizes, starts, mean, variance, work)
    return log_mean, more, scale


@compiled
def one_by_one(
    kind: int, order: Any, X: Any, y: Any, sizes: Any, starts: Any, mean: Any, variance: Any, noise: Any,
    prior_shift: Any, prior_precision: Any, prior_noise: Any, site_shift: Any, site_precision: Any, site_noise: Any,
    work: Any, from_mean: Any, from_variance: Any, free: Any,
) -> float:  # fmt: skip
    """A sweep of steps of size one, a datum each, in place; returned is the sum of log Z from the data's cavities."""
    total, share = 0.0, 1.0 / len(order)
    rest = 1.0 - share
    for n in order:
        shape, rate = noise[0], noise[1]
        if kind == NOWHERE:
            log_mean, more, scale = look(sizes, starts, mean, variance, X[n], y[n], shape, rate, work)
            update(sizes, starts, work, mean, variance, mean, variance)
        elif kind == IMPLIED:
            for i in range(len(mean)):
                over = 1.0 / (rest + share * variance[i] * prior_precision[i])
                from_mean[i] = (rest * mean[i] + share * variance[i] * prior_shift[i]) * over
                from_variance[i] = variance[i] * over
            shape, rate = rest * shape + share * prior_noise[0], rest * rate + share * prior_noise[1]
            log_mean, more, scale = look(sizes, starts, from_mean, from_variance, X[n], y[n], shape, rate, work)
            update(sizes, starts, work, from_mean, from_variance, mean, variance)
        else:
            for i in range(len(mean)):
                left = 1.0 - variance[i] * site_precision[n, i]
                good = left > 0.0
                over = 1.0 / left if good else 1.0
                from_mean[i] = (mean[i] - variance[i] * site_shift[n, i]) * over if good else mean[i]
                from_variance[i] = variance[i] * over
                free[i] = good
            known = shape - site_noise[n, 0] > 1.0 and rate - site_noise[n, 1] > 0.0
            if known:
                shape, rate = shape - site_noise[n, 0], rate - site_noise[n, 1]
            log_mean, more, scale = look(sizes, starts, from_mean, from_variance, X[n], y[n], shape, rate, work)
            update_own(
                sizes, starts, work, from_mean, from_variance, free, mean, variance, site_shift[n], site_precision[n]
            )
            if known:
                site_noise[n, 0], site_noise[n, 1] = more, scale
            else:
                more, scale = 0.0, 0.0
        noise[0], noise[1] = shape + more, rate + scale
        total += log_mean
    return total


@compiled
def in_batches(
    rows: Any, slots: Any, rates: Any, weight: Any, counts: Any, X: Any, y: Any, sizes: Any, starts: Any,
    shift: Any, precision: Any, noise: Any, site_shift: Any, site_precision: Any, site_noise: Any,
    filed_shift: Any, filed_precision: Any, filed_noise: Any, filed_weight: Any,
    work: Any, from_mean: Any, from_variance: Any, free: Any, sum_shift: Any, sum_precision: Any,
) -> tuple[float, int]:  # fmt: skip
    """A sweep in batches whose rows share a slot, equation (5) in natural parameters, in place.

    A slot past the last is remembered nowhere. Returned: the sum of log Z, and how many batches had their rate cut.
    """
    total, cuts, size = 0.0, 0, len(shift)
    for b in range(len(rows)):
        k = slots[b]
        kept = k < len(site_shift)
        for i in range(size):
            left = precision[i] - (site_precision[k, i] if kept else 0.0)
            good = left > 0.0
            free[i] = good
            from_variance[i] = 1.0 / left if good else 1.0 / precision[i]
            from_mean[i] = from_variance[i] * (shift[i] - (site_shift[k, i] if kept and good else 0.0))
            sum_shift[i], sum_precision[i] = 0.0, 0.0
        shape, rate = noise[0], noise[1]
        known = kept and shape - site_noise[k, 0] > 1.0 and rate - site_noise[k, 1] > 0.0
        if known:
            shape, rate = shape - site_noise[k, 0], rate - site_noise[k, 1]
        used, more, scale = 0.0, 0.0, 0.0
        for n in rows[b]:
            if n >= len(y):
                continue
            log_mean, one_more, one_scale = look(sizes, starts, from_mean, from_variance, X[n], y[n], shape, rate, work)
            add_sites(sizes, starts, work, from_mean, from_variance, weight[n], sum_shift, sum_precision)
            total += weight[n] * log_mean
            used += weight[n]
            more += weight[n] * one_more
            scale += weight[n] * one_scale
        for i in range(size):  # from sums of sites to moves
            if kept:
                filed_shift[k, i] += sum_shift[i] if free[i] else used * site_shift[k, i]
                filed_precision[k, i] += sum_precision[i] if free[i] else used * site_precision[k, i]
                sum_shift[i] = sum_shift[i] - used * site_shift[k, i] if free[i] else 0.0
                sum_precision[i] = sum_precision[i] - used * site_precision[k, i] if free[i] else 0.0
        if kept:
            filed_noise[k, 0] += more if known else used * site_noise[k, 0]
            filed_noise[k, 1] += scale if known else used * site_noise[k, 1]
            filed_weight[k] += used
            more = more - used * site_noise[k, 0] if known else 0.0
            scale = scale - used * site_noise[k, 1] if known else 0.0
        step, tries = rates[b], 0
        while tries < 40:
            good = noise[0] + step * more > 1.0 and noise[1] + step * scale > 0.0
            for i in range(size):
                good = good and precision[i] + step * sum_precision[i] > 0.0
            if good:
                break
            step *= 0.5
            tries += 1
        cuts += tries > 0
        if tries == 40:
            continue
        over = step / counts[k] if kept else 0.0
        for i in range(size):
            shift[i] += step * sum_shift[i]
            precision[i] += step * sum_precision[i]
            if kept:
                site_shift[k, i] += over * sum_shift[i]
                site_precision[k, i] += over * sum_precision[i]
        noise[0] += step * more
        noise[1] += step * scale
        if kept:
            site_noise[k, 0] += over * more
            site_noise[k, 1] += over * scale
    return total, cuts
