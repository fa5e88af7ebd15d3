"""The adaptive walk: Gauss–Legendre panels outwards from every starting point, until nothing is left.

A panel is as long as the integrand's highest Legendre coefficients allow. Positions are in t = (a − m)/√v.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from cavity.quadrature.traced_starts import Legs, LogLik, Walk, derivatives_at, scale_of, starting_points

N_NODES = 16
TOLERANCE = 3e-7  # of the last Legendre coefficients; where the panel resolves the integrand its error is the square
FLOOR = 1e-3  # terms in l and its derivatives are resolved relative to their own size or to this, in units of t
NEGLIGIBLE = 1e-15  # a leg ends when a panel adds less than this share of every sum
HIGHEST = 600.0  # of the log integrand above its value at t₀: what rounding of a huge l may claim
MAX_STEPS = 256
ROUNDING = 1e-15


class State(NamedTuple):
    """Where the walk is, and what it has collected."""

    leg: Array
    position: Array
    step: Array
    n_steps: Array
    total: Array
    size: Array
    n_panels: Array
    panels: Array


def walk_outwards(
    log_lik: LogLik, mean: Array, variance: Array, power: float, center: Array, capacity: int = 0
) -> Walk:
    """Integrate outwards from every starting point; `capacity` panels are recorded."""
    scale = scale_of(variance)
    walk, legs = starting_points(log_lik, mean, scale, power, (center - mean) / scale)
    base = mean + scale * walk.origin

    def integrand(d: Array) -> tuple[Array, Array]:
        value, slope, curve = derivatives_at(log_lik, base, scale, d)
        rise, u, one = value - walk.value, slope - walk.slope, jnp.ones_like(d)
        w = jnp.exp(jnp.minimum(-d * (walk.origin + 0.5 * d) + power * rise, HIGHEST))
        terms = [one, u, curve, rise, rise * d, slope * d] if power == 0 else [one, d, d**2, u, u**2, curve]
        rows = w * jnp.stack(terms)
        noise = jnp.max(jnp.where(w > 0, jnp.abs(rise), 0.0))
        return jnp.where(jnp.isfinite(rows), rows, 0.0), ROUNDING * power * (noise + jnp.abs(walk.value))

    def advance(s: State) -> State:
        room = legs.length[s.leg] - s.position
        half = 0.5 * jnp.minimum(s.step, room)
        middle = legs.start[s.leg] + legs.side[s.leg] * (s.position + half)
        rows, noise = integrand(middle + half * NODES)
        panel = Panel(middle, half, half * (rows @ WEIGHTS), half * (jnp.abs(rows) @ WEIGHTS))
        rough = half * jnp.sum(jnp.abs(rows @ LAST_COEFFICIENTS), -1)
        reference = s.size + panel.size + FLOORS[power == 0] * (s.size[0] + panel.size[0])
        badness = jnp.max(rough / ((TOLERANCE + noise) * reference + 1e-300))
        faded = jnp.all(panel.size <= NEGLIGIBLE * reference) & jnp.isinf(room)
        return taken(s, legs, panel, badness, (s.step >= room) | faded)

    unfinished = lambda s: (s.leg < legs.number) & (s.n_steps < MAX_STEPS)
    none, zero = jnp.zeros((), int), jnp.zeros(6)
    state = State(none, zero[0], legs.step[0], none, zero, zero, none, jnp.zeros((capacity, 2)))
    end = lax.while_loop(unfinished, advance, state)
    return walk._replace(total=end.total, size=end.size, panels=end.panels)


class Panel(NamedTuple):
    """A stretch of the walk, and its sums."""

    middle: Array
    half: Array
    added: Array
    size: Array


def taken(s: State, legs: Legs, panel: Panel, badness: Array, last: Array) -> State:
    """The walk after a panel, which is taken if it is good enough, and made shorter or longer for the next."""
    good, capacity = badness <= 1, len(s.panels)
    ended = good & last
    leg, moved = s.leg + ended, jnp.where(good, s.position + 2 * panel.half, s.position)
    growth = jnp.clip(0.8 * badness ** (-1 / N_NODES), 0.2, 3.0)
    panels = s.panels
    if capacity:
        place = jnp.where(good, s.n_panels, capacity)
        panels = panels.at[place].set(jnp.stack([panel.middle, panel.half]), mode="drop")
    return State(
        leg=leg,
        position=jnp.where(ended, 0.0, moved),
        step=jnp.where(ended, legs.step[leg], 2 * panel.half * growth),
        n_steps=s.n_steps + 1,
        total=jnp.where(good, s.total + panel.added, s.total),
        size=jnp.where(good, s.size + panel.size, s.size),
        n_panels=s.n_panels + good,
        panels=panels,
    )


def legendre_rule() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gauss–Legendre nodes and weights, and the functionals that read a function's two last Legendre coefficients."""
    nodes, weights = np.polynomial.legendre.leggauss(N_NODES)
    degrees = np.arange(N_NODES - 2, N_NODES)
    last = np.polynomial.legendre.legvander(nodes, N_NODES - 1)[:, degrees]
    return nodes, weights, weights[:, None] * last * (2 * degrees + 1) / 2


NODES, WEIGHTS, LAST_COEFFICIENTS = legendre_rule()
FLOORS = {False: FLOOR * np.array([0, 0, 0, 1, 1, 1]), True: FLOOR * np.array([0, 1, 1, 1, 1, 1])}
