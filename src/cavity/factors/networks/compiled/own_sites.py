"""Updates where every row of the data has a site of its own: it is taken out of q, and formed anew."""

from cavity.factors.networks.compiled.arrays import Layers, Moments, Room, Site, Slopes, Vector, matrix, signals_in
from cavity.factors.networks.compiled.decorators import compiled, inlined
from cavity.factors.networks.compiled.updates import LEAST, MOST, tilt


@compiled
def remove(weights: Moments, site: Site, free: Vector) -> None:
    """The cavity of a row with its own site; weights that have none stay as they are, and are marked."""
    (mean, variance), (shift, precision) = weights, site
    for i in range(len(mean)):
        w, v = mean[i], variance[i]
        left = 1.0 - v * precision[i]
        good = left > LEAST
        over = 1.0 / (left if good else 1.0)
        mean[i] = (w - v * shift[i]) * over if good else w
        variance[i] = v * over
        free[i] = 1.0 if good else 0.0


@inlined
def update_own(layers: Layers, room: Room, free: Vector, weights: Moments, site: Site, later: Site) -> None:
    """The moments that `updates.update` gives, the site of every weight, and the cavity of the next row.

    `later` is the next row's site. A weight that has no cavity, as `free` tells, keeps its site and moments. Together
    the site and the next cavity need one division.
    """
    (sizes, starts, _), (mean, variance) = layers, weights
    (shift, precision), (later_shift, later_precision) = site, later
    in_mean, in_variance, _, _, _, _, by_mean, by_variance = signals_in(room)
    for layer in range(len(sizes) - 1):
        n_in, n_out, start = sizes[layer] + 1, sizes[layer + 1], starts[layer]
        z, s = in_mean[layer], in_variance[layer]
        slopes = Slopes(by_mean[layer], by_variance[layer])
        of_layer = Moments(matrix(mean, start, n_in, n_out), matrix(variance, start, n_in, n_out))
        old = Site(matrix(shift, start, n_in, n_out), matrix(precision, start, n_in, n_out))
        taken = Site(matrix(later_shift, start, n_in, n_out), matrix(later_precision, start, n_in, n_out))
        if layer == 0:
            move_own(z, None, slopes, matrix(free, start, n_in, n_out), of_layer, old, taken)
        else:
            move_own(z, s, slopes, matrix(free, start, n_in, n_out), of_layer, old, taken)


@compiled
def move_own(
    z: Vector, s: Vector | None, slopes: Slopes, free: Vector, weights: Moments, site: Site, later: Site
) -> None:
    """The part of one layer in `update_own`; `s` is None where the inputs are known."""
    (by_mean, by_variance), (mean, variance), (shift, precision) = slopes, weights, site
    later_shift, later_precision = later
    n_in, n_out = mean.shape
    if s is not None and n_out == 1:
        g, c = by_mean[0], by_variance[0]
        for i in range(n_in):
            slope, bend = tilt(mean[i, 0], z[i], s[i], g, c)
            old, taken = (shift[i, 0], precision[i, 0]), (later_shift[i, 0], later_precision[i, 0])
            mean[i, 0], variance[i, 0], shift[i, 0], precision[i, 0], free[i, 0] = matched(
                mean[i, 0], variance[i, 0], slope, bend, free[i, 0], old, taken
            )
        return
    for i in range(n_in):
        for j in range(n_out):
            if s is None:
                slope, bend = z[i] * by_mean[j], z[i] * z[i] * by_variance[j]
            else:
                slope, bend = tilt(mean[i, j], z[i], s[i], by_mean[j], by_variance[j])
            old, taken = (shift[i, j], precision[i, j]), (later_shift[i, j], later_precision[i, j])
            mean[i, j], variance[i, j], shift[i, j], precision[i, j], free[i, j] = matched(
                mean[i, j], variance[i, j], slope, bend, free[i, j], old, taken
            )


@compiled
def matched(
    w: float, v: float, slope: float, bend: float, new: float, site: tuple[float, float], later: tuple[float, float]
) -> tuple[float, float, float, float, float]:
    """Mean and variance of the next cavity, the new site, and whether there is a next cavity.

    Where `new` is not one but zero there was no cavity: site and moments are as they were.
    """
    good = 0.0 < 1.0 - v * bend < MOST
    slope, bend, old = (slope if good else 0.0), (bend if good else 0.0), 1.0 - new
    first, second = w + v * (new * slope), v * (1.0 - new * (v * bend))  # the tilted distribution's
    left, rest = 1.0 - v * bend, 1.0 - second * later[1]
    fine = rest > LEAST
    rest = rest if fine else 1.0
    both = 1.0 / (left * rest)
    of_site, of_cavity = new * both * rest, both * left
    first -= second * (later[0] if fine else 0.0)
    return (
        first * of_cavity,
        second * of_cavity,
        (slope + w * bend) * of_site + old * site[0],
        bend * of_site + old * site[1],
        1.0 if fine else 0.0,
    )
