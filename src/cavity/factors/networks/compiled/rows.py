"""Probabilistic backpropagation with its gradient by hand, one datum at a time, compiled by Numba.

The arithmetic is that of `cavity.factors.networks.factor` under automatic differentiation, to which tests hold it. All
weights are in one row, layer after layer, each as (n_in + 1, n_out): loops over a layer's units run over neighbours.

A step is two passes over the weights: signals forward, and their update, before which slopes of log Z go back to every
unit. q is held as means and variances, which both passes need and which change without a division; a datum's cavity
takes its place while the datum is looked at. Loops have no branches but selections, and write where they read, so that
they become vector instructions.
"""

import math
from typing import Any

import numpy as np
from numba import njit

from cavity.factors.networks.compiled.noise import FAST, compiled, say
from cavity.factors.networks.compiled.rectified import rectify
from cavity.factors.networks.weight_prior import LEAST_SHARE

NOWHERE, IMPLIED, OWN = 0, 1, 2  # where a datum's site is: not kept; (q − prior)/N, never formed; in its own row
LEAST, MOST = LEAST_SHARE, 1.0 / LEAST_SHARE
inlined = njit(fastmath=FAST, error_model="numpy", nogil=True, inline="always")


@compiled
def forward(sizes: Any, starts: Any, mean: Any, variance: Any, x: Any, work: Any) -> None:
    """Mean and variance of every layer's sums, its inputs, and what the way back needs, all left in `work`."""
    in_mean, in_variance, total, spread, above, density = work[0], work[1], work[2], work[3], work[4], work[5]
    depth = len(sizes) - 1
    in_mean[0, : sizes[0]] = x
    for layer in range(depth):
        n_in, n_out, start = sizes[layer] + 1, sizes[layer + 1], starts[layer]
        in_mean[layer, n_in - 1], in_variance[layer, n_in - 1] = 1.0, 0.0  # for the bias
        w, v = matrix(mean, start, n_in, n_out), matrix(variance, start, n_in, n_out)
        if layer == 0:
            known_sums(w, v, in_mean[0], total[0], spread[0])
        else:
            sums(w, v, in_mean[layer], in_variance[layer], total[layer], spread[layer])
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


@inlined
def matrix(row: Any, start: int, n_in: int, n_out: int) -> Any:
    """A layer's part of a row of all weights."""
    return row[start : start + n_in * n_out].reshape(n_in, n_out)


@compiled
def known_sums(mean: Any, variance: Any, z: Any, total: Any, spread: Any) -> None:
    """Of inputs without variance, two at a time: sums are written half as often."""
    n_in, n_out = mean.shape
    scale = 1.0 / math.sqrt(n_in)
    odd = n_in % 2
    a, b = (scale * z[0], scale * scale * z[0] * z[0]) if odd else (0.0, 0.0)
    for j in range(n_out):
        total[j] = a * mean[0, j]
        spread[j] = b * variance[0, j]
    for pair in range(n_in // 2):
        i = 2 * pair + odd
        w, x, v, u = mean[i], mean[i + 1], variance[i], variance[i + 1]
        a, b = scale * z[i], scale * z[i + 1]
        c, d = a * a, b * b
        for j in range(n_out):
            total[j] += a * w[j] + b * x[j]
            spread[j] += c * v[j] + d * u[j]


@compiled
def sums(mean: Any, variance: Any, z: Any, s: Any, total: Any, spread: Any) -> None:
    """Of inputs of mean z and variance s."""
    n_in, n_out = mean.shape
    scale = 1.0 / math.sqrt(n_in)
    if n_out == 1:
        first, second = 0.0, 0.0
        for i in range(n_in):
            w = mean[i, 0]
            first += w * z[i]
            second += w * w * s[i] + variance[i, 0] * (z[i] * z[i] + s[i])
        total[0], spread[0] = scale * first, scale * scale * second
        return
    for j in range(n_out):
        total[j], spread[j] = 0.0, 0.0
    for i in range(n_in):
        a, b = scale * z[i], scale * scale * s[i]
        both = a * a + b
        for j in range(n_out):
            w = mean[i, j]
            total[j] += w * a
            spread[j] += w * w * b + variance[i, j] * both


@compiled
def backward(sizes: Any, starts: Any, mean: Any, variance: Any, work: Any) -> None:
    """From the outputs' slopes of log Z those of every unit's sum, scaled as the weights below it need them.

    In the first layer the curvature takes the place of the slope in the variance.
    """
    in_mean, above, density, by_mean, by_variance = work[0], work[4], work[5], work[6], work[7]
    for layer in range(len(sizes) - 2, -1, -1):
        n_in, n_out, start = sizes[layer] + 1, sizes[layer + 1], starts[layer]
        scale = 1.0 / math.sqrt(n_in)
        for j in range(n_out):
            by_mean[layer, j] *= scale
            by_variance[layer, j] *= scale * scale
        if layer == 0:  # inputs are known: a weight's curvature is that of a weight on an input of one, times z²
            for j in range(n_out):
                by_variance[0, j] = by_mean[0, j] * by_mean[0, j] - 2.0 * by_variance[0, j]
        else:
            below = in_mean[layer], above[layer - 1], density[layer - 1], by_mean[layer - 1], by_variance[layer - 1]
            w, v = matrix(mean, start, n_in, n_out), matrix(variance, start, n_in, n_out)
            slopes(w, v, by_mean[layer], by_variance[layer], below[0], below[1], below[2], below[3], below[4])


@compiled
def slopes(
    mean: Any, variance: Any, by_mean: Any, by_variance: Any, z: Any, above: Any, density: Any, out_mean: Any,
    out_variance: Any,
) -> None:  # fmt: skip
    """Through a layer and the rectifiers below it."""
    n_in, n_out = mean.shape
    if n_out == 1:
        g, c = by_mean[0], by_variance[0]
        for i in range(n_in - 1):
            w, v = mean[i, 0], variance[i, 0]
            out_mean[i], out_variance[i] = through(w * g, v * c, (w * w + v) * c, z[i], above[i], density[i])
        return
    for i in range(n_in - 1):
        first, second, third = 0.0, 0.0, 0.0
        for j in range(n_out):
            w, v, c = mean[i, j], variance[i, j], by_variance[j]
            first += w * by_mean[j]
            second += v * c
            third += (w * w + v) * c
        out_mean[i], out_variance[i] = through(first, second, third, z[i], above[i], density[i])


@inlined
def through(first: float, second: float, third: float, z: float, p: float, f: float) -> tuple[float, float]:
    """Slopes in mean and variance of a sum, from those in a rectified one."""
    to_mean = first + 2.0 * z * second
    return to_mean * p + third * 2.0 * z * (1.0 - p), 0.5 * to_mean * f + third * (p - z * f)


@inlined
def tilt(w: float, z: float, s: float, by_mean: float, by_variance: float) -> tuple[float, float]:
    """For a weight of mean w on an input of mean z and variance s: ∂log Z and its curvature h."""
    slope = by_mean * z + 2.0 * w * by_variance * s
    return slope, slope * slope - 2.0 * by_variance * (z * z + s)


@inlined
def moved(w: float, v: float, slope: float, bend: float) -> tuple[float, float]:
    """Mean and variance of the tilted distribution, or the cavity's where it has none."""
    left = 1.0 - v * bend
    good = 0.0 < left < MOST
    return w + v * (slope if good else 0.0), v * (left if good else 1.0)  # factors are selected, lest stores be


@compiled
def update(sizes: Any, starts: Any, work: Any, mean: Any, variance: Any) -> None:
    """Moments of every weight's tilted distribution, from its cavity's; a weight that has none keeps the cavity's."""
    for layer in range(len(sizes) - 1):
        n_in, n_out, start = sizes[layer] + 1, sizes[layer + 1], starts[layer]
        z, s, g, c = work[0, layer], work[1, layer], work[6, layer], work[7, layer]
        w, v = matrix(mean, start, n_in, n_out), matrix(variance, start, n_in, n_out)
        if layer == 0:
            move(z, None, g, c, w, v)
        else:
            move(z, s, g, c, w, v)


@compiled
def move(z: Any, s: Any, by_mean: Any, by_variance: Any, mean: Any, variance: Any) -> None:
    """The part of one layer in `update`; `s` is None where the inputs are known."""
    n_in, n_out = mean.shape
    if s is not None and n_out == 1:
        g, c = by_mean[0], by_variance[0]
        for i in range(n_in):
            slope, bend = tilt(mean[i, 0], z[i], s[i], g, c)
            mean[i, 0], variance[i, 0] = moved(mean[i, 0], variance[i, 0], slope, bend)
        return
    for i in range(n_in):
        for j in range(n_out):
            if s is None:
                slope, bend = z[i] * by_mean[j], z[i] * z[i] * by_variance[j]
            else:
                slope, bend = tilt(mean[i, j], z[i], s[i], by_mean[j], by_variance[j])
            mean[i, j], variance[i, j] = moved(mean[i, j], variance[i, j], slope, bend)


@compiled
def update_tied(
    sizes: Any, starts: Any, work: Any, mean: Any, variance: Any, rest: float, shift: Any, precision: Any
) -> None:
    """As `update`, and at once the next datum's cavity, rest · q + (shift, precision): a pass of its own takes longer.

    A shift that is zero everywhere, as it is unless the prior is an earlier posterior, is None, and not read.
    """
    for layer in range(len(sizes) - 1):
        n_in, n_out, start = sizes[layer] + 1, sizes[layer + 1], starts[layer]
        z, s, g, c = work[0, layer], work[1, layer], work[6, layer], work[7, layer]
        w, v = matrix(mean, start, n_in, n_out), matrix(variance, start, n_in, n_out)
        p, part = matrix(precision, start, n_in, n_out), None
        if shift is not None:
            part = matrix(shift, start, n_in, n_out)
        if layer == 0:
            move_tied(z, None, g, c, w, v, rest, part, p)
        else:
            move_tied(z, s, g, c, w, v, rest, part, p)


@compiled
def move_tied(
    z: Any, s: Any, by_mean: Any, by_variance: Any, mean: Any, variance: Any, rest: float, shift: Any, precision: Any
) -> None:
    """The part of one layer in `update_tied`."""
    n_in, n_out = mean.shape
    if s is not None and n_out == 1:
        g, c = by_mean[0], by_variance[0]
        for i in range(n_in):
            slope, bend = tilt(mean[i, 0], z[i], s[i], g, c)
            w, v = moved(mean[i, 0], variance[i, 0], slope, bend)
            over, w = 1.0 / (rest + v * precision[i, 0]), rest * w
            if shift is not None:
                w += v * shift[i, 0]
            mean[i, 0], variance[i, 0] = w * over, v * over
        return
    for i in range(n_in):
        for j in range(n_out):
            if s is None:
                slope, bend = z[i] * by_mean[j], z[i] * z[i] * by_variance[j]
            else:
                slope, bend = tilt(mean[i, j], z[i], s[i], by_mean[j], by_variance[j])
            w, v = moved(mean[i, j], variance[i, j], slope, bend)
            over, w = 1.0 / (rest + v * precision[i, j]), rest * w
            if shift is not None:
                w += v * shift[i, j]
            mean[i, j], variance[i, j] = w * over, v * over


@compiled
def decay(mean: Any, variance: Any, rest: float, shift: Any, precision: Any) -> None:
    """The first datum's cavity, rest · q + (shift, precision)."""
    for i in range(len(mean)):
        over, w = 1.0 / (rest + variance[i] * precision[i]), rest * mean[i]
        if shift is not None:
            w += variance[i] * shift[i]
        mean[i], variance[i] = w * over, variance[i] * over


@compiled
def remove(mean: Any, variance: Any, site_shift: Any, site_precision: Any, free: Any) -> None:
    """The cavity of a datum with its own site; weights that have none stay as they are, and are marked."""
    for i in range(len(mean)):
        w, v = mean[i], variance[i]
        left = 1.0 - v * site_precision[i]
        good = left > LEAST
        over = 1.0 / (left if good else 1.0)
        mean[i] = (w - v * site_shift[i]) * over if good else w
        variance[i] = v * over
        free[i] = 1.0 if good else 0.0


@compiled
def update_own(
    sizes: Any, starts: Any, work: Any, free: Any, mean: Any, variance: Any, site_shift: Any, site_precision: Any,
    next_shift: Any, next_precision: Any,
) -> None:  # fmt: skip
    """As `update`, the site of every weight, and at once the cavity of the next datum, whose site is given too.

    A weight that has no cavity keeps its site and moments. Together the site and the next cavity need one division.
    """
    for layer in range(len(sizes) - 1):
        n_in, n_out, start = sizes[layer] + 1, sizes[layer + 1], starts[layer]
        z, s, g, c = work[0, layer], work[1, layer], work[6, layer], work[7, layer]
        w, v = matrix(mean, start, n_in, n_out), matrix(variance, start, n_in, n_out)
        shift, precision = matrix(site_shift, start, n_in, n_out), matrix(site_precision, start, n_in, n_out)
        later, taken = matrix(next_shift, start, n_in, n_out), matrix(next_precision, start, n_in, n_out)
        if layer == 0:
            move_own(z, None, g, c, matrix(free, start, n_in, n_out), w, v, shift, precision, later, taken)
        else:
            move_own(z, s, g, c, matrix(free, start, n_in, n_out), w, v, shift, precision, later, taken)


@compiled
def move_own(
    z: Any, s: Any, by_mean: Any, by_variance: Any, free: Any, mean: Any, variance: Any, site_shift: Any,
    site_precision: Any, next_shift: Any, next_precision: Any,
) -> None:  # fmt: skip
    """The part of one layer in `update_own`."""
    n_in, n_out = mean.shape
    if s is not None and n_out == 1:
        g, c = by_mean[0], by_variance[0]
        for i in range(n_in):
            slope, bend = tilt(mean[i, 0], z[i], s[i], g, c)
            mean[i, 0], variance[i, 0], site_shift[i, 0], site_precision[i, 0], free[i, 0] = matched(
                mean[i, 0], variance[i, 0], slope, bend, free[i, 0], site_shift[i, 0], site_precision[i, 0],
                next_shift[i, 0], next_precision[i, 0],
            )  # fmt: skip
        return
    for i in range(n_in):
        for j in range(n_out):
            if s is None:
                slope, bend = z[i] * by_mean[j], z[i] * z[i] * by_variance[j]
            else:
                slope, bend = tilt(mean[i, j], z[i], s[i], by_mean[j], by_variance[j])
            mean[i, j], variance[i, j], site_shift[i, j], site_precision[i, j], free[i, j] = matched(
                mean[i, j], variance[i, j], slope, bend, free[i, j], site_shift[i, j], site_precision[i, j],
                next_shift[i, j], next_precision[i, j],
            )  # fmt: skip


@inlined
def matched(
    w: float, v: float, slope: float, bend: float, new: float, shift: float, precision: float, later: float,
    taken: float,
) -> tuple[float, float, float, float, float]:  # fmt: skip
    """Mean and variance of the next cavity, the new site, and whether there is a next cavity.

    Where `new` is not one but zero there was no cavity: site and moments are as they were.
    """
    good = 0.0 < 1.0 - v * bend < MOST
    slope, bend, old = (slope if good else 0.0), (bend if good else 0.0), 1.0 - new
    first, second = w + v * (new * slope), v * (1.0 - new * (v * bend))  # the tilted distribution's
    left, rest = 1.0 - v * bend, 1.0 - second * taken
    fine = rest > LEAST
    rest = rest if fine else 1.0
    both = 1.0 / (left * rest)
    of_site, of_cavity = new * both * rest, both * left
    first -= second * (later if fine else 0.0)
    return (
        first * of_cavity,
        second * of_cavity,
        (slope + w * bend) * of_site + old * shift,
        bend * of_site + old * precision,
        1.0 if fine else 0.0,
    )


@compiled
def look(
    output: int, sizes: Any, starts: Any, mean: Any, variance: Any, x: Any, y: float, shape: float, rate: float,
    work: Any,
) -> tuple[float, float, float]:  # fmt: skip
    """log Z of a datum, with the slopes of all units left in `work`; and what it says of the noise."""
    forward(sizes, starts, mean, variance, x, work)
    log_mean, more, scale = say(output, work, len(sizes) - 2, y, shape, rate)
    backward(sizes, starts, mean, variance, work)
    return log_mean, more, scale


@compiled
def one_by_one(
    kind: int, output: int, order: Any, X: Any, y: Any, sizes: Any, starts: Any, mean: Any, variance: Any, noise: Any,
    prior_shift: Any, prior_precision: Any, prior_noise: Any, site_shift: Any, site_precision: Any, site_noise: Any,
    work: Any, free: Any,
) -> float:  # fmt: skip
    """A sweep of steps of size one, a datum each, in place; returned is the sum of log Z from the data's cavities."""
    total, share = 0.0, 1.0 / len(order)
    rest, precision = 1.0 - share, share * prior_precision
    shift = None if prior_shift is None else share * prior_shift
    nothing = np.zeros_like(site_shift[0])
    if kind == IMPLIED:
        decay(mean, variance, rest, shift, precision)
    elif kind == OWN:
        remove(mean, variance, site_shift[order[0]], site_precision[order[0]], free)
    for step, n in enumerate(order):
        shape, rate, known = noise[0], noise[1], True
        if kind == IMPLIED:
            shape, rate = rest * shape + share * prior_noise[0], rest * rate + share * prior_noise[1]
        elif kind == OWN:
            known = shape - site_noise[n, 0] > 1.0 and rate - site_noise[n, 1] > 0.0
            if known:
                shape, rate = shape - site_noise[n, 0], rate - site_noise[n, 1]
        log_mean, more, scale = look(output, sizes, starts, mean, variance, X[n], y[n], shape, rate, work)
        if kind == OWN:
            last = step + 1 == len(order)
            after = n if last else order[step + 1]
            again = after == n  # its site is not known yet
            later, taken = (nothing, nothing) if again else (site_shift[after], site_precision[after])
            update_own(sizes, starts, work, free, mean, variance, site_shift[n], site_precision[n], later, taken)
            if again and not last:
                remove(mean, variance, site_shift[n], site_precision[n], free)
            if known:
                site_noise[n, 0], site_noise[n, 1] = more, scale
            else:
                more, scale = 0.0, 0.0
        elif kind == IMPLIED and step + 1 < len(order):
            update_tied(sizes, starts, work, mean, variance, rest, shift, precision)
        else:
            update(sizes, starts, work, mean, variance)
        noise[0], noise[1] = shape + more, rate + scale
        total += log_mean
    return total
