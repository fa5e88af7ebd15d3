"""Where the adaptive walk begins: the modes of the tilted density, and the point where the likelihood varies most."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

LogLik = Callable[[Array], Array]

REACH = 50.0  # a starting point with this much less mass than the main one, in nats, is left out
MAX_CLIMB = 80


class Walk(NamedTuple):
    """Sums over panels of w (1, d, d², u, u², l″), at power 0 of w (1, u, l″, l − l₀, (l − l₀) t, l′ t).

    Here d = t − t₀ and u = l′ − l′(t₀), and w is relative to its value at t₀; `size` sums absolute values.
    """

    origin: Array  # t₀, the mode with the most mass
    value: Array  # l(t₀)
    slope: Array  # l′(t₀)
    peak: Array  # −t₀²/2 + α l(t₀)
    total: Array
    size: Array
    panels: Array  # (panel, [middle, half-length]), relative to t₀


class Legs(NamedTuple):
    """Stretches to walk, in order: from where (relative to t₀), which way, how far and with what first step."""

    number: Array
    start: Array
    side: Array
    length: Array
    step: Array


def starting_points(log_lik: LogLik, mean: Array, scale: Array, power: float, center: Array) -> tuple[Walk, Legs]:
    """Starting points: the mode with the most mass, another mode and the centre, where they matter; each owns the
    stretch up to half-way to its neighbours."""

    def tilted(t: Array) -> tuple[Array, Array]:
        _, slope, curve = derivatives_at(log_lik, mean, scale, t[None])
        return power * slope[0] - t, power * curve[0] - 1

    points = jnp.stack([jnp.zeros_like(center), center])
    if power != 0:
        points = jnp.append(jax.vmap(lambda start: climb(tilted, start))(points), center)
    value, slope, curve = derivatives_at(log_lik, mean, scale, points)
    height = -0.5 * points**2 + power * value
    mass = height - 0.5 * jnp.log1p(power * jnp.maximum(-curve, 0.0))
    mass = jnp.where(jnp.isfinite(mass), mass, -jnp.inf)
    width = 1 / jnp.sqrt(1 + jnp.abs(curve))
    width = jnp.where(width > 0, width, 1.0)

    index, main = jnp.arange(len(points)), jnp.argmax(mass[:-1])
    origin, peak = points[main], jnp.where(jnp.isfinite(mass[main]), height[main], jnp.nan)
    sharp = (index < len(points) - 1) | (width < 0.5)  # a smoother centre needs no start of its own
    keep = sharp & (mass > mass[main] - REACH) & (jnp.abs(points - origin) > 1e-2 * width) | (index == main)
    order = jnp.argsort(-1 * keep - 1 * (index == main))
    start, width, keep = points[order] - origin, width[order], keep[order]
    distance = start - start[:, None]  # to every other point, signed
    side = jnp.array([-1.0, 1.0])
    ahead = side[:, None] * distance[:, None, :]  # (point, side, other)
    length = jnp.min(jnp.where(keep & (ahead > 0), 0.5 * ahead, jnp.inf), -1)
    twice = lambda x: jnp.repeat(x, 2)
    number = jnp.where(jnp.isfinite(peak), 2 * jnp.sum(keep), 0)
    legs = Legs(number, twice(start), jnp.tile(side, len(points)), length.ravel(), 3 * twice(width))
    empty = jnp.zeros(0)
    return Walk(origin, value[main], slope[main], peak, empty, empty, empty), legs


def climb(derivatives: Callable[[Array], tuple[Array, Array]], start: Array) -> Array:
    """A root of the first derivative, uphill from `start`: doubling steps to bracket it, then guarded Newton."""

    def advance(s: Any) -> Any:
        uphill, near, far, t, step, n, _ = s
        slope, curve = derivatives(t)
        newton = t - slope / curve
        begin = n == 0
        guess = jnp.where(curve < 0, 2 * jnp.abs(newton - t), 1 / jnp.sqrt(1 + jnp.abs(curve)))
        guess = jnp.where((guess > 0) & jnp.isfinite(guess), guess, 1.0)
        uphill = jnp.where(begin, jnp.where(slope > 0, 1.0, -1.0), uphill)
        far, step = jnp.where(begin, uphill * jnp.inf, far), jnp.where(begin, guess, 2 * step)
        ahead = begin | (uphill * slope > 0)
        near, far = jnp.where(ahead, t, near), jnp.where(ahead, far, t)
        inside = (curve < 0) & (uphill * (newton - near) > 0) & (uphill * (far - newton) > 0) & (n % 3 != 2)
        inward = jnp.where(inside, newton, 0.5 * (near + far))
        close = (curve < 0) & (jnp.abs(newton - t) <= 1e-3 / jnp.sqrt(-jnp.minimum(curve, 0.0)))
        narrow = ~(jnp.abs(far - near) > 1e-14 * jnp.abs(near))
        bracketed = jnp.isfinite(far)
        done = (slope == 0) | (bracketed & (close | narrow))
        onward = jnp.where(bracketed, inward, t + uphill * step)
        return uphill, near, far, jnp.where(done, t, onward), step, n + 1, done

    unfinished = lambda s: ~s[6] & (s[5] < MAX_CLIMB)
    zero = jnp.zeros_like(start)
    state = (zero, start, zero, start, zero, jnp.zeros((), int), jnp.zeros((), bool))
    return lax.while_loop(unfinished, advance, state)[3]


def derivatives_at(log_lik: LogLik, base: Array, scale: Array, step: Array) -> tuple[Array, Array, Array]:
    """l, dl/dt and d²l/dt² at a = base + scale · step, one per step."""
    a, zero, one = base + scale * step, jnp.zeros_like(step), jnp.ones_like(step)
    value = lambda t: jax.vmap(log_lik)(a + scale * t)
    slope = lambda t: jax.jvp(value, (t,), (one,))
    (at, first), (_, second) = jax.jvp(slope, (zero,), (one,))
    lost = step - (a - base) / scale  # rounding of a, put back: it matters where l is steep
    correct = lambda x, rate: x + jnp.where(jnp.isfinite(rate), lost * rate, 0.0)
    return correct(at, first), correct(first, second), second


def scale_of(variance: Array) -> Array:
    """√v; a variance of zero stands for a very small one, so that every quotient stays finite."""
    return jnp.sqrt(jnp.where(variance == 0, 1e-200, variance))
