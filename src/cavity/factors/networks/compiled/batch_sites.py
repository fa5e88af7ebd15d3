"""Sums over a batch of the sites of every weight.

A site depends on the row and on the weight's variance, with a division for every weight and row: in the first layer,
where most weights are, one division serves four rows.
"""

import numpy as np

from cavity.factors.networks.compiled.arrays import (
    Cavity,
    Layers,
    Moments,
    Room,
    Site,
    Slopes,
    Vector,
    matrix,
    signals_in,
)
from cavity.factors.networks.compiled.decorators import compiled, inlined
from cavity.factors.networks.compiled.updates import MOST, tilt


@compiled
def add_sites(layers: Layers, room: Room, cavity: Cavity, weight: Vector, sums: Site) -> None:
    """Add the sites of every weight, times the weights of the rows, to sums over a batch."""
    (sizes, starts, _), (mean, variance, _), (shift, precision) = layers, cavity, sums
    in_mean, in_variance, _, _, _, _, by_mean, by_variance = signals_in(room)
    plain = np.all((weight == 1.0) | (weight == 0.0))  # rows that weigh nothing have no slopes
    for layer in range(len(sizes) - 1):
        n_in, n_out, start = sizes[layer] + 1, sizes[layer + 1], starts[layer]
        z, s = in_mean[layer], in_variance[layer]
        slopes = Slopes(by_mean[layer], by_variance[layer])
        weights = Moments(matrix(mean, start, n_in, n_out), matrix(variance, start, n_in, n_out))
        out = Site(matrix(shift, start, n_in, n_out), matrix(precision, start, n_in, n_out))
        for i in range(n_in):
            if layer > 0:
                add_row(i, weights, z, s, slopes, weight, out)
            elif not (plain and add_row_by_fours(i, weights, z, slopes, out)):
                add_row(i, weights, z, None, slopes, weight, out)


@compiled
def add_row(i: int, weights: Moments, z: Vector, s: Vector | None, slopes: Slopes, weight: Vector, sums: Site) -> None:
    """Of the weights of one input, but for rows that leave a weight no proper distribution."""
    (mean, variance), (by_mean, by_variance), (shift, precision) = weights, slopes, sums
    for j in range(mean.shape[1]):
        w, v, first, second = mean[i, j], variance[i, j], 0.0, 0.0
        for n in range(len(weight)):
            if s is None:
                slope, bend = z[i, n] * by_mean[j, n], z[i, n] * z[i, n] * by_variance[j, n]
            else:
                slope, bend = tilt(w, z[i, n], s[i, n], by_mean[j, n], by_variance[j, n])
            left = 1.0 - v * bend
            good = 0.0 < left < MOST
            over = (weight[n] if good else 0.0) / (left if good else 1.0)
            first += slope * over
            second += bend * over
        precision[i, j] += second
        shift[i, j] += first + w * second


@compiled
def add_row_by_fours(i: int, weights: Moments, z: Vector, slopes: Slopes, sums: Site) -> bool:
    """What `add_row` adds, for known inputs and rows that weigh one; False if some row leaves a weight nothing proper.

    Nothing is added then. Rows are a quarter of them apart, and what is counted is a sum: the loop becomes vector
    instructions.
    """
    (mean, variance), (by_mean, by_variance), (shift, precision) = weights, slopes, sums
    n_out, part, bad = mean.shape[1], z.shape[1] // 4, 0.0
    found = np.empty((2, n_out))
    for j in range(n_out):
        v, first, second = variance[i, j], 0.0, 0.0
        for n in range(part):
            k, m, o = n + part, n + 2 * part, n + 3 * part
            slope0, bend0, left0 = tilt_known(v, z[i, n], by_mean[j, n], by_variance[j, n])
            slope1, bend1, left1 = tilt_known(v, z[i, k], by_mean[j, k], by_variance[j, k])
            slope2, bend2, left2 = tilt_known(v, z[i, m], by_mean[j, m], by_variance[j, m])
            slope3, bend3, left3 = tilt_known(v, z[i, o], by_mean[j, o], by_variance[j, o])
            low, high = left0 * left1, left2 * left3
            over = 1.0 / (low * high)
            first += ((slope0 * left1 + slope1 * left0) * high + (slope2 * left3 + slope3 * left2) * low) * over
            second += ((bend0 * left1 + bend1 * left0) * high + (bend2 * left3 + bend3 * left2) * low) * over
            least = min(min(left0, left1), min(left2, left3))
            most = max(max(left0, left1), max(left2, left3))
            bad += 0.0 if least > 0.0 and most < MOST else 1.0
        found[0, j], found[1, j] = first, second
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
