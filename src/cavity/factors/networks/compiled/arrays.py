"""The arrays of compiled loops, bundled under names: what a loop reads of a network and its data, and what it changes.

All weights are in one row, layer after layer, each as (n_in + 1, n_out).
"""

from typing import NamedTuple, TypeAlias

import numpy as np

from cavity.factors.networks.compiled.decorators import compiled

Vector: TypeAlias = np.ndarray
Matrix: TypeAlias = np.ndarray
Indices: TypeAlias = np.ndarray  # a vector of integers
Stack: TypeAlias = np.ndarray  # an array whose first axis counts layers
Room: TypeAlias = np.ndarray  # for all signals: `signals_in` names its parts
Noise: TypeAlias = np.ndarray  # shape and rate of a Gamma, or a row of them for each site


class Layers(NamedTuple):
    """The shape of a network, and what its outputs stand for."""

    sizes: Indices  # widths of inputs, hidden layers and outputs
    starts: Indices  # where each layer's weights begin in the row of all
    output: int  # `noise.CONSTANT`, `noise.CHANGING` or `noise.LABELS`


class Signals(NamedTuple):
    """What goes through the layers: (layer, unit), or (layer, unit, row) where many rows go together.

    Loops hand on one array, `Room`, with these along its first axis, and name its parts where they use them: Numba
    counts references to every array of a call, and a small network's step is short.
    """

    in_mean: Stack  # of a layer's inputs, the last of which is one, for the bias
    in_variance: Stack
    total: Stack  # mean of a unit's sum
    spread: Stack  # its variance
    above: Stack  # P(a > 0) of a unit's sum a
    density: Stack  # of a at zero
    by_mean: Stack  # slopes of log Z in a sum's mean, scaled as the weights below it need them
    by_variance: Stack  # and in its variance; in the first layer the curvature in its place


class Data(NamedTuple):
    """Rows of inputs, their targets, and what they weigh."""

    X: Matrix
    y: Vector
    weight: Vector


class Moments(NamedTuple):
    """Means and variances of all weights, or of one layer's as matrices."""

    mean: Vector
    variance: Vector


class Slopes(NamedTuple):
    """Slopes of log Z in mean and variance of one layer's sums, as `Signals` has them."""

    by_mean: Vector
    by_variance: Vector


class Rectified(NamedTuple):
    """What slopes need of one layer's rectified units: their mean, and P(a > 0) and the density at zero before."""

    mean: Vector
    above: Vector
    density: Vector


class Site(NamedTuple):
    """Natural parameters of weights, precision × mean and precision: of a site, or of a sum of sites."""

    shift: Vector
    precision: Vector


class Cavity(NamedTuple):
    """q, and in its place the cavity of the row that is visited: moments of weights, natural parameters of noise."""

    mean: Vector
    variance: Vector
    noise: Noise


class Sites(NamedTuple):
    """Natural parameters of weights and noise: of sites, a row for each, or of q or of one site."""

    shift: Matrix
    precision: Matrix
    noise: Noise


class Prior(NamedTuple):
    """Natural parameters of weights and noise, where a shift that is zero everywhere need not be read."""

    shift: Vector | None  # None stands for zero everywhere
    precision: Vector
    noise: Noise


class Filed(NamedTuple):
    """What rows have said since their shared sites were last settled: sums of sites, a row for each slot."""

    shift: Matrix
    precision: Matrix
    noise: Noise
    weight: Vector  # of the rows


class Batches(NamedTuple):
    """A sweep's batches in their order."""

    rows: Matrix  # which rows each has; a number past the last stands for none
    slots: Indices  # which site each batch has
    rates: Vector
    counts: Vector  # how many rows share each site


@compiled
def matrix(row: Vector, start: int, n_in: int, n_out: int) -> Matrix:
    """A layer's part of a row of all weights."""
    return row[start : start + n_in * n_out].reshape(n_in, n_out)


@compiled
def signals_in(room: Room) -> Signals:
    """Views of the parts of an array that has room for all signals."""
    return Signals(room[0], room[1], room[2], room[3], room[4], room[5], room[6], room[7])
