"""A sweep in batches of rows that share a site: equation (5) in natural parameters."""

import math

import numpy as np

from cavity.factors.networks.compiled.arrays import (
    Batches,
    Cavity,
    Data,
    Filed,
    Indices,
    Layers,
    Noise,
    Room,
    Site,
    Sites,
    Vector,
    signals_in,
)
from cavity.factors.networks.compiled.batch_signals import propagate_batch
from cavity.factors.networks.compiled.batch_sites import add_sites
from cavity.factors.networks.compiled.decorators import compiled, loop
from cavity.factors.networks.compiled.noise import noise_cavity
from cavity.factors.networks.compiled.updates import LEAST

WIDEST = 32  # columns at a time: larger batches come in parts, so that signals stay in the cache
MOST_HALVINGS = 40  # of the rate of a batch that would leave q improper; then the batch is passed over


@loop
def in_batches(
    layers: Layers, batches: Batches, data: Data, q: Sites, sites: Sites, filed: Filed, room: Room
) -> tuple[float, int]:
    """A sweep in place. Returned: the sum of log Z, and how many batches had their rate cut.

    A slot past the last is remembered nowhere: its site is zero before and after. What rows say is filed where `filed`
    has a place for their slot, which sites of single rows have not.
    """
    total, cuts, size = 0.0, 0, len(q.precision)
    cavity, free = Cavity(np.zeros(size), np.zeros(size), np.zeros(2)), np.zeros(size)
    sums = Sites(np.zeros(size), np.zeros(size), np.zeros(2))
    dtype = sites.precision.dtype
    nowhere = Sites(np.zeros(size, dtype), np.zeros(size, dtype), np.zeros(2))
    width = room.shape[3]
    columns = Data(signals_in(room).in_mean[0], np.zeros(width), np.zeros(width))
    passing = Filed(np.zeros(size), np.zeros(size), np.zeros(2), np.zeros(1))
    for b in range(len(batches.rows)):
        k = batches.slots[b]
        kept, site, part, file = k < len(sites.precision), nowhere, 1.0, passing
        if kept:
            site = Sites(sites.shift[k], sites.precision[k], sites.noise[k])
            part = min(1.0, batches.counts[k])  # of a copy, where rows weigh less than one
        if k < len(filed.weight):
            file = Filed(filed.shift[k], filed.precision[k], filed.noise[k], filed.weight[k : k + 1])
        take_out(q, site, part, cavity, free)
        cavity.noise[0], cavity.noise[1], known = noise_cavity(q.noise, site.noise, part)
        total, used = add_rows(layers, batches.rows[b], data, columns, cavity, sums, room, total)
        file.weight[0] += used
        as_move(used, free, site.shift, file.shift, sums.shift)
        as_move(used, free, site.precision, file.precision, sums.precision)
        noise_as_move(used, known or not kept, site.noise, file.noise, sums.noise)
        step, halvings = proper_step(q, sums, batches.rates[b])
        cuts += halvings > 0
        if halvings < MOST_HALVINGS:
            move_by(step, sums, q)
            move_by(step / batches.counts[k] if kept else 0.0, sums, site)
    return total, cuts


@compiled
def take_out(q: Sites, site: Sites, part: float, cavity: Cavity, free: Vector) -> None:
    """Mean and variance of the cavity of every weight, without a part of a site; of q where there is none: marked."""
    (shift, precision, _), (site_shift, site_precision, _), (mean, variance, _) = q, site, cavity
    for i in range(len(shift)):
        left = precision[i] - part * site_precision[i]
        good = left > LEAST * precision[i]
        v = 1.0 / (left if good else precision[i])
        variance[i] = v
        mean[i] = v * (shift[i] - (part * site_shift[i] if good else 0.0))
        free[i] = 1.0 if good else 0.0


@compiled
def add_rows(
    layers: Layers, rows: Indices, data: Data, columns: Data, cavity: Cavity, sums: Sites, room: Room, total: float
) -> tuple[float, float]:
    """`total` with log Z of a batch's rows, and what they weigh; the sums of their sites are left in `sums`."""
    used, more, scale, width = 0.0, 0.0, 0.0, len(columns.y)
    sums.shift[:] = 0.0
    sums.precision[:] = 0.0
    for first in range(0, len(rows), width):
        count = fill(rows[first : first + width], data, columns)
        if count == 0:
            continue
        log_mean, some_more, some_scale = propagate_batch(layers, cavity, columns.y[:count], columns.weight, room)
        add_sites(layers, room, cavity, columns.weight, Site(sums.shift, sums.precision))
        total, more, scale = total + log_mean, more + some_more, scale + some_scale
        used += np.sum(columns.weight)
    sums.noise[0], sums.noise[1] = more, scale
    return total, used


@compiled
def fill(rows: Indices, data: Data, columns: Data) -> int:
    """Put rows into columns, and return how many there are; what is left over repeats one of them."""
    (inputs, targets, weights), (X, y, weight), count = columns, data, 0
    n_inputs = X.shape[1]
    for n in rows:
        if n < len(y):
            for i in range(n_inputs):
                inputs[i, count] = X[n, i]
            targets[count], weights[count] = y[n], weight[n]
            count += 1
    for column in range(count, inputs.shape[1]):
        for i in range(len(inputs)):
            inputs[i, column] = inputs[i, 0]
        weights[column] = 0.0
    return count


@compiled
def as_move(used: float, free: Vector, site: Vector, filed: Vector, sums: Vector) -> None:
    """From sums of sites to moves, after the sums are filed; weights without a cavity keep their site."""
    for i in range(len(free)):
        old, new = used * site[i], sums[i]
        filed[i] += new if free[i] > 0.0 else old
        sums[i] = free[i] * (new - old)


@compiled
def noise_as_move(used: float, known: bool, site: Noise, filed: Noise, sums: Noise) -> None:
    """What `as_move` does, for the noise: it keeps its site unless its cavity is known."""
    for i in range(2):
        if known:
            filed[i] += sums[i]
            sums[i] -= used * site[i]
        else:
            filed[i] += used * site[i]
            sums[i] = 0.0


@compiled
def proper_step(q: Sites, moves: Sites, rate: float) -> tuple[float, int]:
    """A rate halved until q stays proper, and how often it was halved."""
    halvings = 0
    while halvings < MOST_HALVINGS and not (
        noise_stays_proper(q.noise, moves.noise, rate) and stays_positive(q.precision, moves.precision, rate)
    ):
        rate *= 0.5
        halvings += 1
    return rate, halvings


@compiled
def stays_positive(precision: Vector, moves: Vector, step: float) -> bool:
    """Whether all precisions of weights are positive after a step."""
    lowest = math.inf
    for i in range(len(moves)):
        lowest = min(lowest, precision[i] + step * moves[i])
    return lowest > 0.0


@compiled
def noise_stays_proper(noise: Noise, moves: Noise, step: float) -> bool:
    """Whether the noise's precision has a finite variance after a step."""
    return noise[0] + step * moves[0] > 1.0 and noise[1] + step * moves[1] > 0.0


@compiled
def move_by(step: float, moves: Sites, natural: Sites) -> None:
    """Move natural parameters, of q or of a site."""
    add(step, moves.shift, natural.shift)
    add(step, moves.precision, natural.precision)
    add(step, moves.noise, natural.noise)


@compiled
def add(step: float, moves: Vector, to: Vector) -> None:
    """Add a share of moves in place."""
    for i in range(len(moves)):
        to[i] += step * moves[i]
