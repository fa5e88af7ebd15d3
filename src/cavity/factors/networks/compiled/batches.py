"""Batches of rows that share a site: equation (5) in natural parameters, for compiled loops.

All rows of a batch start from the same cavity, so means and variances go through the layers as matrix products, a
column for each row of the data. What is left for every weight and row is its site, v-dependent, with a division: in the
first layer, where most weights are, one division serves four rows.
"""

import math
from typing import Any

import numpy as np

from cavity.factors.networks.compiled.noise import compiled, say
from cavity.factors.networks.compiled.rectified import rectify
from cavity.factors.networks.compiled.rows import LEAST, MOST, inlined, matrix, through, tilt

WIDEST = 32  # columns at a time: larger batches come in parts, so that signals stay in the cache


@compiled
def forward(sizes: Any, starts: Any, mean: Any, variance: Any, work: Any) -> None:
    """Mean and variance of every layer's sums, its inputs, and what the way back needs, from the inputs in `work`."""
    in_mean, in_variance, total, spread, above, density = work[0], work[1], work[2], work[3], work[4], work[5]
    depth, width = len(sizes) - 1, work.shape[3]
    for layer in range(depth):
        n_in, n_out, start = sizes[layer] + 1, sizes[layer + 1], starts[layer]
        in_mean[layer, n_in - 1], in_variance[layer, n_in - 1] = 1.0, 0.0  # for the bias
        z, s = in_mean[layer, :n_in], in_variance[layer, :n_in]
        w, v = matrix(mean, start, n_in, n_out), matrix(variance, start, n_in, n_out)
        scale = 1.0 / math.sqrt(n_in)
        total[layer, :n_out] = scale * np.dot(w.T, z)
        if layer == 0:
            spread[0, :n_out] = scale * scale * np.dot(v.T, z * z)
        else:
            spread[layer, :n_out] = scale * scale * (np.dot((w * w).T, s) + np.dot(v.T, z * z + s))
        if layer < depth - 1:
            rectify(
                n_out * width,
                total[layer].reshape(-1),
                spread[layer].reshape(-1),
                in_mean[layer + 1].reshape(-1),
                in_variance[layer + 1].reshape(-1),
                above[layer].reshape(-1),
                density[layer].reshape(-1),
            )


@compiled
def backward(sizes: Any, starts: Any, mean: Any, variance: Any, work: Any) -> None:
    """From the outputs' slopes of log Z those of every unit's sum, as `network_loops.backward` leaves them."""
    in_mean, above, density, by_mean, by_variance = work[0], work[4], work[5], work[6], work[7]
    for layer in range(len(sizes) - 2, -1, -1):
        n_in, n_out, start = sizes[layer] + 1, sizes[layer + 1], starts[layer]
        scale = 1.0 / math.sqrt(n_in)
        g, c = by_mean[layer, :n_out], by_variance[layer, :n_out]
        g *= scale
        c *= scale * scale
        if layer == 0:
            c[:] = g * g - 2.0 * c
            break
        w, v = matrix(mean, start, n_in, n_out), matrix(variance, start, n_in, n_out)
        first, second = np.dot(w, g), np.dot(v, c)
        third = np.dot(w * w, c) + second
        for i in range(n_in - 1):
            z, p, f = in_mean[layer, i], above[layer - 1, i], density[layer - 1, i]
            to_mean, to_variance, a, b, d = (
                by_mean[layer - 1, i],
                by_variance[layer - 1, i],
                first[i],
                second[i],
                third[i],
            )
            for n in range(len(z)):
                to_mean[n], to_variance[n] = through(a[n], b[n], d[n], z[n], p[n], f[n])


@compiled
def look(
    output: int, sizes: Any, starts: Any, mean: Any, variance: Any, y: Any, weight: Any, shape: float, rate: float,
    work: Any,
) -> tuple[float, float, float]:  # fmt: skip
    """Sums over the rows of log Z and of what they say of the noise; slopes are left in `work`, none of padding."""
    forward(sizes, starts, mean, variance, work)
    last, total, more, scale = len(sizes) - 2, 0.0, 0.0, 0.0
    for n in range(len(y)):
        column = work[:, :, :, n]
        log_mean, one_more, one_scale = say(output, column, last, y[n], shape, rate)
        total += weight[n] * log_mean
        more += weight[n] * one_more
        scale += weight[n] * one_scale
    work[6:, last, :, len(y) :] = 0.0
    backward(sizes, starts, mean, variance, work)
    return total, more, scale


@compiled
def add_sites(
    sizes: Any, starts: Any, work: Any, mean: Any, variance: Any, weight: Any, shift: Any, precision: Any
) -> None:
    """Add the sites of every weight, times the weights of the rows, to sums over a batch."""
    plain = np.all((weight == 1.0) | (weight == 0.0))  # rows that weigh nothing have no slopes
    for layer in range(len(sizes) - 1):
        n_in, n_out, start = sizes[layer] + 1, sizes[layer + 1], starts[layer]
        z, s, g, c = work[0, layer], work[1, layer], work[6, layer], work[7, layer]
        w, v = matrix(mean, start, n_in, n_out), matrix(variance, start, n_in, n_out)
        out = matrix(shift, start, n_in, n_out), matrix(precision, start, n_in, n_out)
        for i in range(n_in):
            if layer > 0:
                add_row(i, w, v, z, s, g, c, weight, out[0], out[1])
            elif not (plain and add_row_by_fours(i, w, v, z, g, c, out[0], out[1])):
                add_row(i, w, v, z, None, g, c, weight, out[0], out[1])


@compiled
def add_row(
    i: int, mean: Any, variance: Any, z: Any, s: Any, by_mean: Any, by_variance: Any, weight: Any, shift: Any,
    precision: Any,
) -> None:  # fmt: skip
    """Of the weights of one input, but for rows that leave a weight no proper distribution."""
    for j in range(mean.shape[1]):
        w, v, slopes, bends = mean[i, j], variance[i, j], 0.0, 0.0
        for n in range(len(weight)):
            if s is None:
                slope, bend = z[i, n] * by_mean[j, n], z[i, n] * z[i, n] * by_variance[j, n]
            else:
                slope, bend = tilt(w, z[i, n], s[i, n], by_mean[j, n], by_variance[j, n])
            left = 1.0 - v * bend
            good = 0.0 < left < MOST
            over = (weight[n] if good else 0.0) / (left if good else 1.0)
            slopes += slope * over
            bends += bend * over
        precision[i, j] += bends
        shift[i, j] += slopes + w * bends


@compiled
def add_row_by_fours(
    i: int, mean: Any, variance: Any, z: Any, by_mean: Any, by_variance: Any, shift: Any, precision: Any
) -> bool:
    """The same for known inputs and rows that weigh one, or nothing if some row leaves a weight nothing proper.

    Rows are a quarter of them apart, and what is counted is a sum: the loop becomes vector instructions.
    """
    n_out, part, bad = mean.shape[1], z.shape[1] // 4, 0.0
    found = np.empty((2, n_out))
    for j in range(n_out):
        v, slopes, bends = variance[i, j], 0.0, 0.0
        for n in range(part):
            k, m, o = n + part, n + 2 * part, n + 3 * part
            slope0, bend0, left0 = tilt_known(v, z[i, n], by_mean[j, n], by_variance[j, n])
            slope1, bend1, left1 = tilt_known(v, z[i, k], by_mean[j, k], by_variance[j, k])
            slope2, bend2, left2 = tilt_known(v, z[i, m], by_mean[j, m], by_variance[j, m])
            slope3, bend3, left3 = tilt_known(v, z[i, o], by_mean[j, o], by_variance[j, o])
            low, high = left0 * left1, left2 * left3
            over = 1.0 / (low * high)
            slopes += ((slope0 * left1 + slope1 * left0) * high + (slope2 * left3 + slope3 * left2) * low) * over
            bends += ((bend0 * left1 + bend1 * left0) * high + (bend2 * left3 + bend3 * left2) * low) * over
            least = min(min(left0, left1), min(left2, left3))
            most = max(max(left0, left1), max(left2, left3))
            bad += 0.0 if least > 0.0 and most < MOST else 1.0
        found[0, j], found[1, j] = slopes, bends
    if bad > 0.0:
        return False
    for j in range(n_out):
        precision[i, j] += found[1, j]
        shift[i, j] += found[0, j] + mean[i, j] * found[1, j]
    return True


@inlined
def tilt_known(v: float, z: float, by_mean: float, curvature: float) -> tuple[float, float, float]:
    """For a weight on a known input: ∂log Z, its curvature h, and 1 − v h."""
    bend = z * z * curvature
    return z * by_mean, bend, 1.0 - v * bend


@compiled
def fill(rows: Any, X: Any, y: Any, weight: Any, work: Any, targets: Any, weights: Any) -> int:
    """Put rows into the columns of `work`, and return how many there are; what is left over repeats one of them."""
    count = 0
    for n in rows:
        if n < len(y):
            work[0, 0, : X.shape[1], count] = X[n]
            targets[count], weights[count] = y[n], weight[n]
            count += 1
    for column in range(count, work.shape[3]):
        work[0, 0, :, column] = work[0, 0, :, 0]
        weights[column] = 0.0
    return count


@compiled
def in_batches(
    output: int, rows: Any, slots: Any, rates: Any, weight: Any, counts: Any, X: Any, y: Any, sizes: Any, starts: Any,
    shift: Any, precision: Any, noise: Any, site_shift: Any, site_precision: Any, site_noise: Any,
    filed_shift: Any, filed_precision: Any, filed_noise: Any, filed_weight: Any, work: Any,
) -> tuple[float, int]:  # fmt: skip
    """A sweep in batches whose rows share a slot, in place.

    A slot past the last is remembered nowhere. Returned: the sum of log Z, and how many batches had their rate cut.
    """
    total, cuts, size, width = 0.0, 0, len(shift), work.shape[3]
    mean, variance, free = np.zeros(size), np.zeros(size), np.zeros(size)
    sum_shift, sum_precision = np.zeros(size), np.zeros(size)
    nowhere = np.zeros((4, size))
    targets, weights = np.zeros(width), np.zeros(width)
    for b in range(len(rows)):
        k = slots[b]
        kept = k < len(site_shift)
        if kept:
            site = site_shift[k], site_precision[k], filed_shift[k], filed_precision[k]
        else:
            site = nowhere[0], nowhere[1], nowhere[2], nowhere[3]
        take_out(shift, precision, site[0], site[1], mean, variance, free)
        sum_shift[:] = 0.0
        sum_precision[:] = 0.0
        shape, rate = noise[0], noise[1]
        known = kept and shape - site_noise[k, 0] > 1.0 and rate - site_noise[k, 1] > 0.0
        if known:
            shape, rate = shape - site_noise[k, 0], rate - site_noise[k, 1]
        used, more, scale = 0.0, 0.0, 0.0
        for first in range(0, rows.shape[1], width):
            count = fill(rows[b, first : first + width], X, y, weight, work, targets, weights)
            if count == 0:
                continue
            score, some_more, some_scale = look(
                output, sizes, starts, mean, variance, targets[:count], weights, shape, rate, work
            )
            add_sites(sizes, starts, work, mean, variance, weights, sum_shift, sum_precision)
            total, more, scale = total + score, more + some_more, scale + some_scale
            used += np.sum(weights)
        as_moves(used, free, site[0], site[1], site[2], site[3], sum_shift, sum_precision)
        if kept:
            filed_noise[k, 0] += more if known else used * site_noise[k, 0]
            filed_noise[k, 1] += scale if known else used * site_noise[k, 1]
            filed_weight[k] += used
            more = more - used * site_noise[k, 0] if known else 0.0
            scale = scale - used * site_noise[k, 1] if known else 0.0
        step, tries = rates[b], 0
        while tries < 40 and not stays_proper(noise, precision, step, more, scale, sum_precision):
            step *= 0.5
            tries += 1
        cuts += tries > 0
        if tries == 40:
            continue
        over = step / counts[k] if kept else 0.0
        for i in range(size):
            shift[i] += step * sum_shift[i]
            precision[i] += step * sum_precision[i]
        for i in range(size):
            site[0][i] += over * sum_shift[i]
            site[1][i] += over * sum_precision[i]
        noise[0] += step * more
        noise[1] += step * scale
        if kept:
            site_noise[k, 0] += over * more
            site_noise[k, 1] += over * scale
    return total, cuts


@compiled
def take_out(
    shift: Any, precision: Any, site_shift: Any, site_precision: Any, mean: Any, variance: Any, free: Any
) -> None:
    """Mean and variance of the cavity of every weight; of q where there is none, which is marked."""
    for i in range(len(shift)):
        left = precision[i] - site_precision[i]
        good = left > LEAST * precision[i]
        v = 1.0 / (left if good else precision[i])
        variance[i] = v
        mean[i] = v * (shift[i] - (site_shift[i] if good else 0.0))
        free[i] = 1.0 if good else 0.0


@compiled
def as_moves(
    used: float, free: Any, site_shift: Any, site_precision: Any, filed_shift: Any, filed_precision: Any,
    sum_shift: Any, sum_precision: Any,
) -> None:  # fmt: skip
    """From sums of sites to moves, after the sums are filed; weights without a cavity keep their site."""
    for i in range(len(free)):
        old, new = used * site_shift[i], sum_shift[i]
        filed_shift[i] += new if free[i] > 0.0 else old
        sum_shift[i] = free[i] * (new - old)
    for i in range(len(free)):
        old, new = used * site_precision[i], sum_precision[i]
        filed_precision[i] += new if free[i] > 0.0 else old
        sum_precision[i] = free[i] * (new - old)


@compiled
def stays_proper(noise: Any, precision: Any, step: float, more: float, scale: float, moves: Any) -> bool:
    """Whether q is proper after a step."""
    lowest = math.inf
    for i in range(len(moves)):
        lowest = min(lowest, precision[i] + step * moves[i])
    return lowest > 0.0 and noise[0] + step * more > 1.0 and noise[1] + step * scale > 0.0
