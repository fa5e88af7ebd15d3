"""Probabilities of several classes, each with a linear function of its own that says whether a row belongs to it.

A row belongs to exactly one class: given that and the odds o of the functions, class c has probability o_c / Σ o. The
functions were not learned together, though, and their odds may be too sharp together, or not sharp enough: too sharp
where labels are noisy. So class c has probability o_c^κ / Σ o^κ, with one number κ that makes each row most probable
given all other rows.

With known odds this is also the probability that κ log o_c plus Gumbel noise is the largest among the classes. The
average over independent log odds is then an integral over one variable; at κ = 1,

    E[o_c / Σ o] = ∫ F'_c(s) Π_{j≠c} F_j(s) ds,   F_j(s) = E exp(−o_j e^{−s}),

with F_j the distribution of a class's log odds plus noise: one further integral for each class, whatever their number.
All of them are sums over evenly spaced nodes, which converge exponentially fast for integrands as smooth as these.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize_scalar
from scipy.special import log_expit, log_ndtr, logsumexp, ndtr, ndtri, ndtri_exp
from scipy.stats import qmc

STEP = 0.5  # between nodes: noise varies on the scale of one, and activations on that of their standard deviation
REACH = 8.0  # standard deviations of an activation that are looked at
NOISE = np.arange(-4.0, 32.0, STEP)  # all that Gumbel noise ever is
GROWTH = 0.25  # of the spacing where only the tail of the noise is left
MOST = 1024  # nodes of the outer integral
AT_ONCE = 2**20  # numbers in memory
LEAST = 1e-300
N_DRAWS = 1024  # where κ is looked for
SHARPEST, N_PLACES = 1.0, 9  # |log κ|, and between them the values at which it is looked at
POINTS = 4096  # of quasi-random integration, where nodes would be too many
ASTRAY = 1e-6  # of the total probability, above which nodes were too few


class Link(Protocol):
    """Log odds as an increasing function of the activation, its slope, and its inverse."""

    def log_odds(self, activation: Any) -> Any: ...

    def slope(self, activation: Any) -> Any: ...

    def activation(self, log_odds: Any) -> Any: ...


class LogitLink:
    """p = 1 / (1 + e^{−a})."""

    def log_odds(self, activation: Any) -> Any:
        return activation

    def slope(self, activation: Any) -> Any:
        return np.ones_like(activation)

    def activation(self, log_odds: Any) -> Any:
        return log_odds


class ProbitLink:
    """p = Φ(a)."""

    def log_odds(self, activation: Any) -> Any:
        return log_ndtr(activation) - log_ndtr(-activation)

    def slope(self, activation: Any) -> Any:
        log_variance = log_ndtr(activation) + log_ndtr(-activation)
        return np.exp(-0.5 * activation**2 - log_variance) / np.sqrt(2 * np.pi)

    def activation(self, log_odds: Any) -> Any:
        return np.copysign(ndtri_exp(log_expit(-np.abs(log_odds))), log_odds)


@dataclass(frozen=True)
class Sharpened:
    """κ times the log odds of another link."""

    link: Link
    sharpness: float

    def log_odds(self, activation: Any) -> Any:
        return self.sharpness * self.link.log_odds(activation)

    def slope(self, activation: Any) -> Any:
        return self.sharpness * self.link.slope(activation)

    def activation(self, log_odds: Any) -> Any:
        return self.link.activation(log_odds / self.sharpness)


class Sharpness(NamedTuple):
    """What is known of log κ: where it is, and with how much information."""

    log_value: float = 0.0
    information: float = 25.0  # before any data: N(0, 0.2²)


def learn_sharpness(
    link: Link, before: Sharpness, mean: np.ndarray, sd: np.ndarray, chosen: np.ndarray, weight: np.ndarray
) -> Sharpness:
    """log κ for the highest Σ w_n log p(y_n | all other rows), given what was known before.

    `mean` and `sd` (rows, classes) are those of the activations given all other rows.
    """
    places = np.linspace(-SHARPEST, SHARPEST, N_PLACES)
    losses = 0.5 * before.information * (places - before.log_value) ** 2
    together = max(1, AT_ONCE // (N_DRAWS * mean.shape[1]))
    for start in range(0, len(mean), together):
        here = slice(start, start + together)
        losses -= weight[here] @ log_chosen(link, np.exp(places), mean[here], sd[here], chosen[here])
    loss = CubicSpline(places, losses)
    best = float(minimize_scalar(loss, bounds=(-SHARPEST, SHARPEST), method="bounded").x)
    return Sharpness(best, max(float(loss(best, 2)), before.information))


def log_chosen(link: Link, sharpness: np.ndarray, mean: np.ndarray, sd: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """log E[o_c^κ / Σ o^κ] for the class c of each row and several κ: (rows, κ), over quasi-random points."""
    log_odds = link.log_odds(mean + sd * normal_points(mean.shape[1], N_DRAWS)[:, None])
    label = np.broadcast_to(chosen[:, None], (*log_odds.shape[:2], 1))
    behind = log_odds - np.take_along_axis(log_odds, label, 2)
    shares = [np.mean(1 / np.exp(np.minimum(power * behind, 600.0)).sum(2), axis=0) for power in sharpness]
    return np.log(np.stack(shares, axis=1))


def log_shares(link: Link, mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """log E[o_c / Σ o] for activations N(mean, sd²) of shape (rows, classes).

    Where some classes are very wide and others narrow, nodes that are close enough for these and reach as far as those
    are too many; a total that is not one shows it. Such rows are averaged over quasi-random points, to about 1e-3.
    """
    lowest, highest = np.max(mean - REACH * sd, axis=1), np.max(mean + REACH * sd, axis=1)
    # where all are wide, the integrand varies as they do, not as the noise
    wide = np.min(sd * link.slope(mean), axis=1) > 1
    needed = (highest - lowest) / np.clip(STEP * sd.min(1), 1e-12, 1.0)
    needed = np.where(wide, needed, (link.log_odds(highest) - link.log_odds(lowest) + 4) / STEP)
    per_row = np.clip(2 ** np.ceil(np.log2(needed)), 16, MOST).astype(int)
    answer = np.full(mean.shape, -np.inf)
    for all_wide, size in set(zip(wide.tolist(), per_row.tolist(), strict=True)):
        rows = np.flatnonzero((wide == all_wide) & (per_row == size) & (needed <= MOST))
        together = max(1, AT_ONCE // (size * mean.shape[1] * len(NOISE)))
        for start in range(0, len(rows), together):
            here = rows[start : start + together]
            nodes, weights = outer_nodes(link, lowest[here], highest[here], size, all_wide)
            answer[here] = log_shares_on(link, mean[here], sd[here], nodes, weights)
    total = logsumexp(answer, axis=1)
    for row in np.flatnonzero(~(np.abs(total) < ASTRAY)):
        answer[row] = over_points(link, mean[row], sd[row])
    return answer - logsumexp(answer, axis=1, keepdims=True)


def over_points(link: Link, mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """The average for one row over points that fill the space of its activations evenly."""
    log_odds = link.log_odds(mean + sd * normal_points(len(mean), POINTS))
    return logsumexp(log_odds - logsumexp(log_odds, axis=1, keepdims=True), axis=0) - np.log(POINTS)


@cache
def normal_points(dim: int, number: int) -> np.ndarray:
    """Sobol's points, always the same, as standard normal variables."""
    return ndtri(qmc.Sobol(dim, rng=0).random(number))


def outer_nodes(
    link: Link, lowest: np.ndarray, highest: np.ndarray, size: int, wide: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights (rows, nodes) of the outer integral: even in the activation or in its log odds, then growing.

    Above the highest activation all densities fall as e^{−s} and no faster; growing steps get to the end of that soon.
    Below the lowest, noise would have to be less than −4, which it never is.
    """
    index = np.arange(size + int(6 / GROWTH))
    if not wide:
        lowest, highest = link.log_odds(lowest) - 4, link.log_odds(highest)
    step = ((highest - lowest) / size)[:, None]
    even = lowest[:, None] + step * index
    more = np.exp(GROWTH * (index - size))
    nodes, weights = (link.log_odds(even), link.slope(even) * step) if wide else (even, step)
    return nodes + more, weights + GROWTH * more


def log_shares_on(link: Link, mean: np.ndarray, sd: np.ndarray, nodes: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The outer integral for some rows, not yet normalised."""
    below, density = np.empty((2, *mean.shape, nodes.shape[1]))
    ends = mean + 5 * sd * np.array([-1.0, 0.0, 1.0])[:, None, None]
    spread = sd * link.slope(ends).max(0)
    inner = 2 ** np.ceil(np.log2(2 * REACH * np.clip(spread / STEP, 2, 16))).astype(int)
    for size in np.unique(inner):
        row, column = np.nonzero(inner == size)
        average = over_activation if size < 256 else over_noise
        below[row, column], density[row, column] = average(link, mean[row, column], sd[row, column], nodes, row, size)
    log_below, log_density = np.log(np.maximum(below, LEAST)), np.log(np.maximum(density, LEAST))
    others = log_below.sum(1, keepdims=True) - log_below
    return logsumexp(log_density + others + np.log(weights)[:, None], axis=2)


def over_activation(
    link: Link, mean: np.ndarray, sd: np.ndarray, nodes: np.ndarray, row: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """F and F' by nodes over the activation: few where it is narrow beside the noise."""
    place = np.linspace(-REACH, REACH, size + 1)
    mass = np.exp(-0.5 * place**2)
    mass /= mass.sum()
    log_odds = link.log_odds(mean[:, None] + sd[:, None] * place)
    odds = np.exp(np.minimum(log_odds[:, None, :] - nodes[row][:, :, None], 300.0))
    chance = np.exp(-odds)
    return chance @ mass, (odds * chance) @ mass


def over_noise(
    link: Link, mean: np.ndarray, sd: np.ndarray, nodes: np.ndarray, row: np.ndarray, _: int
) -> tuple[np.ndarray, np.ndarray]:
    """F and F' by nodes over the noise: the activation is wide beside it, and no number of its own would be enough."""
    mass = np.exp(-NOISE - np.exp(-NOISE))
    mass /= mass.sum()
    place = link.activation(nodes[:, :, None] - NOISE)  # the same for all classes of a row
    slope = link.slope(place)[row]
    standard = (place[row] - mean[:, None, None]) / sd[:, None, None]
    density = np.exp(-0.5 * standard**2) / (np.sqrt(2 * np.pi) * sd[:, None, None] * slope)
    return ndtr(standard) @ mass, density @ mass
