"""Rows of a batch through the layers and back together.

All rows start from one cavity, so that means and variances go through the layers as matrix products, a column for each
row of the data.
"""

import math

import numpy as np

from cavity.factors.networks.compiled.arrays import (
    Cavity,
    Layers,
    Matrix,
    Moments,
    Room,
    Vector,
    matrix,
    signals_in,
)
from cavity.factors.networks.compiled.decorators import compiled
from cavity.factors.networks.compiled.noise import log_evidence_and_noise
from cavity.factors.networks.compiled.rectified import rectify
from cavity.factors.networks.compiled.signals import through


@compiled
def propagate_batch(
    layers: Layers, cavity: Cavity, y: Vector, weight: Vector, room: Room
) -> tuple[float, float, float]:
    """Sums over the rows of log Z and of what they say of the noise; slopes are left in `room`, none of padding."""
    weights = Moments(cavity.mean, cavity.variance)
    forward(layers, weights, room)
    last, log_mean, more, scale = len(layers.sizes) - 2, 0.0, 0.0, 0.0
    shape, rate = cavity.noise[0], cavity.noise[1]
    for n in range(len(y)):
        column = room[:, :, :, n]
        one_log_mean, one_more, one_scale = log_evidence_and_noise(layers.output, column, last, y[n], shape, rate)
        log_mean += weight[n] * one_log_mean
        more += weight[n] * one_more
        scale += weight[n] * one_scale
    signals = signals_in(room)
    signals.by_mean[last, :, len(y) :] = 0.0
    signals.by_variance[last, :, len(y) :] = 0.0
    backward(layers, weights, room)
    return log_mean, more, scale


@compiled
def forward(layers: Layers, weights: Moments, room: Room) -> None:
    """Mean and variance of every layer's sums, its inputs, and what the way back needs, from the inputs given."""
    (sizes, starts, _), (mean, variance) = layers, weights
    in_mean, in_variance, total, spread, above, density, _, _ = signals_in(room)
    depth, width = len(sizes) - 1, in_mean.shape[2]
    for layer in range(depth):
        n_in, n_out, start = sizes[layer] + 1, sizes[layer + 1], starts[layer]
        in_mean[layer, n_in - 1], in_variance[layer, n_in - 1] = 1.0, 0.0  # for the bias
        z, s = in_mean[layer, :n_in], in_variance[layer, :n_in]
        w, v = matrix(mean, start, n_in, n_out), matrix(variance, start, n_in, n_out)
        scale = 1.0 / math.sqrt(n_in)
        put(scale, np.dot(w.T, z), total[layer])
        if layer == 0:
            put(scale * scale, np.dot(v.T, z * z), spread[0])
        else:
            put(scale * scale, np.dot((w * w).T, s) + np.dot(v.T, z * z + s), spread[layer])
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
def put(scale: float, rows: Matrix, out: Matrix) -> None:
    """Multiples of rows, into as many first rows; an assigned slice brings a message that takes long to compile."""
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            out[i, j] = scale * rows[i, j]


@compiled
def backward(layers: Layers, weights: Moments, room: Room) -> None:
    """From the outputs' slopes of log Z those of every unit's sum, as `signals.backward` leaves them."""
    (sizes, starts, _), (mean, variance) = layers, weights
    in_mean, _, _, _, above, density, by_mean, by_variance = signals_in(room)
    for layer in range(len(sizes) - 2, -1, -1):
        n_in, n_out, start = sizes[layer] + 1, sizes[layer + 1], starts[layer]
        scale = 1.0 / math.sqrt(n_in)
        g, c = by_mean[layer, :n_out], by_variance[layer, :n_out]
        g *= scale
        c *= scale * scale
        if layer == 0:
            for j in range(n_out):
                for n in range(g.shape[1]):
                    c[j, n] = g[j, n] * g[j, n] - 2.0 * c[j, n]
            break
        w, v = matrix(mean, start, n_in, n_out), matrix(variance, start, n_in, n_out)
        first, second = np.dot(w, g), np.dot(v, c)
        third = np.dot(w * w, c) + second
        for i in range(n_in - 1):
            z, p, f = in_mean[layer, i], above[layer - 1, i], density[layer - 1, i]
            to_mean, to_variance = by_mean[layer - 1, i], by_variance[layer - 1, i]
            a, b, d = first[i], second[i], third[i]
            for n in range(len(z)):
                to_mean[n], to_variance[n] = through(a[n], b[n], d[n], z[n], p[n], f[n])
