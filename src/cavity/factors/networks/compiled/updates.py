"""From slopes of log Z to the moments of every weight's tilted distribution, and to the cavity of the next row.

q is held as means and variances, which the passes need and which change without a division; a row's cavity takes its
place while the row is visited. One pass serves a row's update and the next row's cavity: two take longer.
"""

from cavity.factors.networks.compiled.arrays import Layers, Matrix, Moments, Room, Slopes, Vector, matrix, signals_in
from cavity.factors.networks.compiled.decorators import compiled, inlined
from cavity.factors.networks.weight_prior import LEAST_SHARE

LEAST, MOST = LEAST_SHARE, 1.0 / LEAST_SHARE


@compiled
def tilt(w: float, z: float, s: float, by_mean: float, by_variance: float) -> tuple[float, float]:
    """For a weight of mean w on an input of mean z and variance s: ∂log Z and its curvature h."""
    slope = by_mean * z + 2.0 * w * by_variance * s
    return slope, slope * slope - 2.0 * by_variance * (z * z + s)


@compiled
def moved(w: float, v: float, slope: float, bend: float) -> tuple[float, float]:
    """Mean and variance of the tilted distribution, or the cavity's where it has none."""
    left = 1.0 - v * bend
    good = 0.0 < left < MOST
    return w + v * (slope if good else 0.0), v * (left if good else 1.0)  # factors are selected, lest stores be


@inlined
def update(layers: Layers, room: Room, weights: Moments) -> None:
    """Moments of every weight's tilted distribution, from its cavity's; a weight that has none keeps the cavity's."""
    (sizes, starts, _), (mean, variance) = layers, weights
    in_mean, in_variance, _, _, _, _, by_mean, by_variance = signals_in(room)
    for layer in range(len(sizes) - 1):
        n_in, n_out, start = sizes[layer] + 1, sizes[layer + 1], starts[layer]
        z, s = in_mean[layer], in_variance[layer]
        g, c = by_mean[layer], by_variance[layer]
        w, v = matrix(mean, start, n_in, n_out), matrix(variance, start, n_in, n_out)
        if layer == 0:
            move(z, None, g, c, w, v)
        else:
            move(z, s, g, c, w, v)


@compiled
def move(z: Vector, s: Vector | None, by_mean: Vector, by_variance: Vector, mean: Matrix, variance: Matrix) -> None:
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
    layers: Layers, room: Room, weights: Moments, rest: float, shift: Vector | None, precision: Vector
) -> None:
    """The moments that `update` gives, and at once the next row's cavity, rest · q + (shift, precision).

    A shift that is zero everywhere, as it is unless the prior is an earlier posterior, is None, and not read.
    """
    (sizes, starts, _), (mean, variance) = layers, weights
    in_mean, in_variance, _, _, _, _, by_mean, by_variance = signals_in(room)
    for layer in range(len(sizes) - 1):
        n_in, n_out, start = sizes[layer] + 1, sizes[layer + 1], starts[layer]
        z, s = in_mean[layer], in_variance[layer]
        slopes = Slopes(by_mean[layer], by_variance[layer])
        of_layer = Moments(matrix(mean, start, n_in, n_out), matrix(variance, start, n_in, n_out))
        p, part = matrix(precision, start, n_in, n_out), None
        if shift is not None:
            part = matrix(shift, start, n_in, n_out)
        if layer == 0:
            move_tied(z, None, slopes, of_layer, rest, part, p)
        else:
            move_tied(z, s, slopes, of_layer, rest, part, p)


@compiled
def move_tied(
    z: Vector, s: Vector | None, slopes: Slopes, weights: Moments, rest: float, shift: Matrix | None, precision: Matrix
) -> None:
    """The part of one layer in `update_tied`."""
    (by_mean, by_variance), (mean, variance) = slopes, weights
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
def decay(mean: Vector, variance: Vector, rest: float, shift: Vector | None, precision: Vector) -> None:
    """The first row's cavity, rest · q + (shift, precision)."""
    for i in range(len(mean)):
        over, w = 1.0 / (rest + variance[i] * precision[i]), rest * mean[i]
        if shift is not None:
            w += variance[i] * shift[i]
        mean[i], variance[i] = w * over, variance[i] * over
