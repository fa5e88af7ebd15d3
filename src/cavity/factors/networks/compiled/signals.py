"""A row of the data through the layers and back: probabilistic backpropagation with its gradient by hand.

The arithmetic is that of `cavity.factors.networks.factor` under automatic differentiation, to which tests hold it.
Loops over a layer's units run over neighbours; they have no branches but selections, and write where they read, so that
they become vector instructions.
"""

import math

from cavity.factors.networks.compiled.arrays import (
    Layers,
    Matrix,
    Moments,
    Rectified,
    Room,
    Slopes,
    Vector,
    matrix,
    signals_in,
)
from cavity.factors.networks.compiled.decorators import compiled, inlined
from cavity.factors.networks.compiled.noise import log_evidence_and_noise
from cavity.factors.networks.compiled.rectified import rectify


@compiled
def propagate(
    layers: Layers, weights: Moments, x: Vector, y: float, shape: float, rate: float, room: Room
) -> tuple[float, float, float]:
    """log Z of a row under a cavity, and what the row says of the noise; slopes of all units are left in `room`."""
    forward(layers, weights, x, room)
    log_mean, more, scale = log_evidence_and_noise(layers.output, room, len(layers.sizes) - 2, y, shape, rate)
    backward(layers, weights, room)
    return log_mean, more, scale


@inlined
def forward(layers: Layers, weights: Moments, x: Vector, room: Room) -> None:
    """Mean and variance of every layer's sums, its inputs, and what the way back needs, all left in `room`."""
    (sizes, starts, _), (mean, variance) = layers, weights
    in_mean, in_variance, total, spread, above, density, _, _ = signals_in(room)
    depth = len(sizes) - 1
    for i in range(sizes[0]):
        in_mean[0, i] = x[i]
    for layer in range(depth):
        n_in, n_out, start = sizes[layer] + 1, sizes[layer + 1], starts[layer]
        in_mean[layer, n_in - 1], in_variance[layer, n_in - 1] = 1.0, 0.0  # for the bias
        w, v = matrix(mean, start, n_in, n_out), matrix(variance, start, n_in, n_out)
        if layer == 0:
            known_sums(w, v, in_mean[0], total[0], spread[0])
        else:
            sums(w, v, in_mean[layer], in_variance[layer], total[layer], spread[layer])
        if layer < depth - 1:
            after = in_mean[layer + 1], in_variance[layer + 1]
            rectify(n_out, total[layer], spread[layer], after[0], after[1], above[layer], density[layer])


@compiled
def known_sums(mean: Matrix, variance: Matrix, z: Vector, total: Vector, spread: Vector) -> None:
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
def sums(mean: Matrix, variance: Matrix, z: Vector, s: Vector, total: Vector, spread: Vector) -> None:
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


@inlined
def backward(layers: Layers, weights: Moments, room: Room) -> None:
    """From the outputs' slopes of log Z those of every unit's sum, scaled as the weights below it need them.

    In the first layer the curvature takes the place of the slope in the variance.
    """
    (sizes, starts, _), (mean, variance) = layers, weights
    in_mean, _, _, _, above, density, by_mean, by_variance = signals_in(room)
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
            below = Rectified(in_mean[layer], above[layer - 1], density[layer - 1])
            of_layer = Moments(matrix(mean, start, n_in, n_out), matrix(variance, start, n_in, n_out))
            here, there = Slopes(by_mean[layer], by_variance[layer]), Slopes(by_mean[layer - 1], by_variance[layer - 1])
            slopes_below(of_layer, here, below, there)


@compiled
def slopes_below(weights: Moments, slopes: Slopes, below: Rectified, found: Slopes) -> None:
    """Slopes in the sums of the layer below, through a layer and the rectifiers under it."""
    (mean, variance), (by_mean, by_variance), (z, above, density) = weights, slopes, below
    out_mean, out_variance = found  # taken apart here: inside a loop every look into a tuple counts references
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


@compiled
def through(first: float, second: float, third: float, z: float, p: float, f: float) -> tuple[float, float]:
    """Slopes in mean and variance of a sum, from those in a rectified one."""
    to_mean = first + 2.0 * z * second
    return to_mean * p + third * 2.0 * z * (1.0 - p), 0.5 * to_mean * f + third * (p - z * f)
