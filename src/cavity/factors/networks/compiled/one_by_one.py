"""Sweeps of steps of size one, a row of the data each, in place; they differ in where a row's site is.

A step is two passes over the weights: signals forward, and their update, before which slopes of log Z go back to every
unit. Each sweep returns the sum of log Z from the rows' cavities.
"""

from cavity.factors.networks.compiled.arrays import (
    Cavity,
    Data,
    Indices,
    Layers,
    Moments,
    Prior,
    Room,
    Site,
    Sites,
    Vector,
)
from cavity.factors.networks.compiled.decorators import compiled, loop
from cavity.factors.networks.compiled.noise import noise_cavity
from cavity.factors.networks.compiled.own_sites import remove, update_own
from cavity.factors.networks.compiled.signals import propagate
from cavity.factors.networks.compiled.updates import decay, update, update_tied


@loop
def with_implied_sites(layers: Layers, order: Indices, data: Data, q: Cavity, prior: Prior, room: Room) -> float:
    """All rows share a site that is never formed: it is (q − prior)/N at every step."""
    total, weights, noise, share = 0.0, Moments(q.mean, q.variance), q.noise, 1.0 / len(order)
    rest, shift, precision = 1.0 - share, times(share, prior.shift), share * prior.precision
    decay(q.mean, q.variance, rest, shift, precision)
    X, y, _ = data
    for step, n in enumerate(order):
        shape, rate = rest * noise[0] + share * prior.noise[0], rest * noise[1] + share * prior.noise[1]
        log_mean, more, scale = propagate(layers, weights, X[n], y[n], shape, rate, room)
        if step + 1 < len(order):
            update_tied(layers, room, weights, rest, shift, precision)
        else:
            update(layers, room, weights)
        noise[0], noise[1] = shape + more, rate + scale
        total += log_mean
    return total


@compiled
def times(share: float, shift: Vector | None) -> Vector | None:
    """A share of a shift; None stays None."""
    return None if shift is None else share * shift


@loop
def in_turn(
    layers: Layers, order: Indices, data: Data, q: Cavity, sites: Sites, room: Room, free: Vector, none: Vector
) -> float:
    """Every row has a site of its own, kept in its row of `sites`; where that has no rows, a row's cavity is q.

    `free` has room for which weights have a cavity; `none` are zeros, of the kind that sites are. A fit often begins
    without sites and goes on with them: what both need is compiled once.
    """
    total, weights, noise, last = 0.0, Moments(q.mean, q.variance), q.noise, len(order) - 1
    nothing, kept, known = Site(none, none), len(sites.noise) > 0, True
    if kept:
        remove(weights, Site(sites.shift[order[0]], sites.precision[order[0]]), free)
    X, y, _ = data
    for step, n in enumerate(order):
        shape, rate = noise[0], noise[1]
        if kept:
            shape, rate, known = noise_cavity(noise, sites.noise[n], 1.0)
        log_mean, more, scale = propagate(layers, weights, X[n], y[n], shape, rate, room)
        if kept:
            site, after = Site(sites.shift[n], sites.precision[n]), order[min(step + 1, last)]
            again = after == n  # its site is not known yet
            later = nothing if again else Site(sites.shift[after], sites.precision[after])
            update_own(layers, room, free, weights, site, later)
            if again and step < last:
                remove(weights, site, free)
            if known:
                sites.noise[n, 0], sites.noise[n, 1] = more, scale
            else:
                more, scale = 0.0, 0.0
        else:
            update(layers, room, weights)
        noise[0], noise[1] = shape + more, rate + scale
        total += log_mean
    return total
