"""One-dimensional Gaussian expectations of a likelihood, by adaptive quadrature on the tilted integrand itself.

For a ~ N(m, v) and a log-likelihood l(a), the tilted density is proportional to N(a; m, v) exp(α l(a)). Its mass may
lie thousands of standard deviations from m, on both sides of a gap, or behind an edge much sharper than the Gaussian,
so no fixed set of nodes will do. Here the modes of the tilted density are found first; then, from each of them and from
the point where the likelihood varies most, Gauss–Legendre panels walk outwards until nothing is left, each as long as
the integrand's highest Legendre coefficients allow. Work is in units t = (a − m)/√v.

Errors are near rounding: about 1e-16 · max(1, α |l|) at the tilted mode, and a few 1e-11 at worst behind sharp edges.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.lax import stop_gradient

from cavity.quadrature.tilted import Tilt
from cavity.special import LOG_SQRT_2PI

LogLik = Callable[[Array], Array]

N_NODES = 16
TOLERANCE = 3e-7  # of the last Legendre coefficients; where the panel resolves the integrand its error is the square
FLOOR = 1e-3  # terms in l and its derivatives are resolved relative to their own size or to this, in units of t
NEGLIGIBLE = 1e-15  # a leg ends when a panel adds less than this share of every sum
REACH = 50.0  # a starting point with this much less mass than the main one, in nats, is left out
HIGHEST = 600.0  # of the log integrand above its value at t₀: what rounding of a huge l may claim
MAX_CLIMB, MAX_PANELS, MAX_STEPS = 80, 96, 256


def tilt(log_lik: LogLik, mean: Array, variance: Array, power: float, center: Array) -> Tilt:
    """The tilt of a smooth scalar log-likelihood; `center` is where it varies most, and need not be exact.

    Where v is small the derivatives are read as expected scores, g = E[l′] and h = E[l″] + α Var[l′]; where the
    likelihood is the sharper, by parts: from the tilted mean and variance, or E[l t] and E[l′ t] at power 0. Each loses
    digits where the other does not. A variance that is negative or not finite gives NaN.
    """
    walk, scale = _walk(log_lik, mean, variance, power, center), _scale(variance)
    total, size = walk.total / walk.total[0], walk.size / walk.total[0]
    if power == 0:
        _, score, curve, value, value_t, score_t = total
        slope = jnp.where(size[4] + jnp.abs(walk.value) < size[1], value_t, walk.slope + score)
        curvature = jnp.where(size[5] < size[2], score_t, curve)
        return Tilt(walk.value + value, slope / scale, curvature / scale**2, jnp.ones_like(curve))
    _, first, second, score, score2, curve = total
    spread = second - first**2
    curvature = curve + power * (score2 - score**2)
    direct = _direct(walk, power)
    log_mean = (walk.peak + jnp.log(walk.total[0]) - LOG_SQRT_2PI) / power
    slope = jnp.where(direct, (walk.origin + first) / power, walk.slope + score)
    shrinkage = jnp.where(direct, spread, 1 + power * curvature)
    curvature = jnp.where(direct, (spread - 1) / power, curvature)
    return Tilt(log_mean, slope / scale, curvature / scale**2, shrinkage)


def log_mean(log_lik: LogLik, mean: Array, variance: Array, power: float, center: Array) -> Array:
    """ℓ(m, v) alone, differentiable to any order in m, v and whatever `log_lik` closes over.

    The nodes are held fixed, in a or in t by the same rule as in `tilt`, and the integrand is differentiated.
    """
    closed, constants = jax.closure_convert(log_lik, mean)
    frozen = lambda a: closed(a, *stop_gradient(constants))
    at_mean, at_variance, scale = stop_gradient(mean), stop_gradient(variance), _scale(variance)
    walk = _walk(frozen, at_mean, at_variance, power, stop_gradient(center), MAX_PANELS)
    direct = _direct(walk, power)
    middle, half = walk.panels.T[..., None]
    step, weight = (middle + half * NODES).ravel(), (half * WEIGHTS).ravel()

    here = at_mean + stop_gradient(scale) * (walk.origin + step)
    usable = jnp.isfinite(jax.vmap(frozen)(here))
    here = jnp.where(usable, here, at_mean + stop_gradient(scale) * walk.origin)
    moving_a = _zero(mean + scale * (walk.origin + step))  # as m and v move, either a moves and t is fixed,
    moving_t = _zero((here - mean) / scale)  # or the other way round
    value = jax.vmap(log_lik)(here + jnp.where(direct, 0.0, moving_a))
    step = step + jnp.where(direct, moving_t, 0.0)
    weight = jnp.where(usable, weight, 0.0) * jnp.where(direct, stop_gradient(scale) / scale, 1.0)
    log_gaussian = -step * (walk.origin + 0.5 * step)
    if power == 0:
        weight = weight * jnp.exp(log_gaussian)
        return jnp.sum(weight * value) / jnp.sum(weight)
    log_tilted = jnp.minimum(log_gaussian + power * (value - walk.value), HIGHEST)
    total = jnp.sum(weight * jnp.exp(log_tilted))
    return (walk.peak + jnp.log(total) - LOG_SQRT_2PI) / power


def mode(log_lik: LogLik, start: Array) -> Array:
    """A local maximum of l, uphill from `start`; far away where there is none."""

    def derivatives(a: Array) -> tuple[Array, Array]:
        _, slope, curve = _derivatives(log_lik, a, jnp.ones_like(a), jnp.zeros((1,)))
        return slope[0], curve[0]

    return _climb(derivatives, start)


class _Walk(NamedTuple):
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


class _Legs(NamedTuple):
    """Stretches to walk, in order: from where (relative to t₀), which way, how far and with what first step."""

    number: Array
    start: Array
    side: Array
    length: Array
    step: Array


class _State(NamedTuple):
    """Where the walk is, and what it has collected."""

    leg: Array
    position: Array
    step: Array
    n_steps: Array
    total: Array
    size: Array
    n_panels: Array
    panels: Array


def _walk(log_lik: LogLik, mean: Array, variance: Array, power: float, center: Array, capacity: int = 0) -> _Walk:
    """Integrate outwards from every starting point; `capacity` panels are recorded."""
    scale = _scale(variance)
    walk, legs = _plan(log_lik, mean, scale, power, (center - mean) / scale)
    base = mean + scale * walk.origin

    def integrand(d: Array) -> tuple[Array, Array]:
        value, slope, curve = _derivatives(log_lik, base, scale, d)
        rise, u, one = value - walk.value, slope - walk.slope, jnp.ones_like(d)
        w = jnp.exp(jnp.minimum(-d * (walk.origin + 0.5 * d) + power * rise, HIGHEST))
        terms = [one, u, curve, rise, rise * d, slope * d] if power == 0 else [one, d, d**2, u, u**2, curve]
        rows = w * jnp.stack(terms)
        noise = jnp.max(jnp.where(w > 0, jnp.abs(rise), 0.0))
        return jnp.where(jnp.isfinite(rows), rows, 0.0), ROUNDING * power * (noise + jnp.abs(walk.value))

    def advance(s: _State) -> _State:
        room = legs.length[s.leg] - s.position
        half = 0.5 * jnp.minimum(s.step, room)
        middle = legs.start[s.leg] + legs.side[s.leg] * (s.position + half)
        rows, noise = integrand(middle + half * NODES)
        panel = _Panel(middle, half, half * (rows @ WEIGHTS), half * (jnp.abs(rows) @ WEIGHTS))
        rough = half * jnp.sum(jnp.abs(rows @ LAST_COEFFICIENTS), -1)
        reference = s.size + panel.size + FLOORS[power == 0] * (s.size[0] + panel.size[0])
        badness = jnp.max(rough / ((TOLERANCE + noise) * reference + 1e-300))
        faded = jnp.all(panel.size <= NEGLIGIBLE * reference) & jnp.isinf(room)
        return _taken(s, legs, panel, badness, (s.step >= room) | faded)

    unfinished = lambda s: (s.leg < legs.number) & (s.n_steps < MAX_STEPS)
    none, zero = jnp.zeros((), int), jnp.zeros(6)
    state = _State(none, zero[0], legs.step[0], none, zero, zero, none, jnp.zeros((capacity, 2)))
    end = lax.while_loop(unfinished, advance, state)
    return walk._replace(total=end.total, size=end.size, panels=end.panels)


class _Panel(NamedTuple):
    """A stretch of the walk, and its sums."""

    middle: Array
    half: Array
    added: Array
    size: Array


def _taken(s: _State, legs: _Legs, panel: _Panel, badness: Array, last: Array) -> _State:
    """The walk after a panel, which is taken if it is good enough, and made shorter or longer for the next."""
    good, capacity = badness <= 1, len(s.panels)
    ended = good & last
    leg, moved = s.leg + ended, jnp.where(good, s.position + 2 * panel.half, s.position)
    growth = jnp.clip(0.8 * badness ** (-1 / N_NODES), 0.2, 3.0)
    panels = s.panels
    if capacity:
        place = jnp.where(good, s.n_panels, capacity)
        panels = panels.at[place].set(jnp.stack([panel.middle, panel.half]), mode="drop")
    return _State(
        leg=leg,
        position=jnp.where(ended, 0.0, moved),
        step=jnp.where(ended, legs.step[leg], 2 * panel.half * growth),
        n_steps=s.n_steps + 1,
        total=jnp.where(good, s.total + panel.added, s.total),
        size=jnp.where(good, s.size + panel.size, s.size),
        n_panels=s.n_panels + good,
        panels=panels,
    )


def _plan(log_lik: LogLik, mean: Array, scale: Array, power: float, center: Array) -> tuple[_Walk, _Legs]:
    """Starting points: the mode with the most mass, another mode and the centre, where they matter; each owns the
    stretch up to half-way to its neighbours."""

    def tilted(t: Array) -> tuple[Array, Array]:
        _, slope, curve = _derivatives(log_lik, mean, scale, t[None])
        return power * slope[0] - t, power * curve[0] - 1

    points = jnp.stack([jnp.zeros_like(center), center])
    if power != 0:
        points = jnp.append(jax.vmap(lambda start: _climb(tilted, start))(points), center)
    value, slope, curve = _derivatives(log_lik, mean, scale, points)
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
    legs = _Legs(number, twice(start), jnp.tile(side, len(points)), length.ravel(), 3 * twice(width))
    empty = jnp.zeros(0)
    return _Walk(origin, value[main], slope[main], peak, empty, empty, empty), legs


def _climb(derivatives: Callable[[Array], tuple[Array, Array]], start: Array) -> Array:
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


def _derivatives(log_lik: LogLik, base: Array, scale: Array, step: Array) -> tuple[Array, Array, Array]:
    """l, dl/dt and d²l/dt² at a = base + scale · step, one per step."""
    a, zero, one = base + scale * step, jnp.zeros_like(step), jnp.ones_like(step)
    value = lambda t: jax.vmap(log_lik)(a + scale * t)
    slope = lambda t: jax.jvp(value, (t,), (one,))
    (at, first), (_, second) = jax.jvp(slope, (zero,), (one,))
    lost = step - (a - base) / scale  # rounding of a, put back: it matters where l is steep
    correct = lambda x, rate: x + jnp.where(jnp.isfinite(rate), lost * rate, 0.0)
    return correct(at, first), correct(first, second), second


def _direct(walk: _Walk, power: float) -> Array:
    """Whether rounding harms the tilted moments less than it harms the expected scores."""
    if power == 0:
        return jnp.zeros((), bool)
    _, first, second, score, score2, _ = walk.total / walk.total[0]
    curve = walk.size[5] / walk.total[0]
    return power * (curve + power * (score2 - score**2)) > second - first**2


def _scale(variance: Array) -> Array:
    """√v; a variance of zero stands for a very small one, so that every quotient stays finite."""
    return jnp.sqrt(jnp.where(variance == 0, 1e-200, variance))


def _zero(x: Array) -> Array:
    """Zero in value, x in every derivative."""
    return x - stop_gradient(x)


def _rule() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gauss–Legendre nodes and weights, and the functionals that read a function's two last Legendre coefficients."""
    nodes, weights = np.polynomial.legendre.leggauss(N_NODES)
    degrees = np.arange(N_NODES - 2, N_NODES)
    last = np.polynomial.legendre.legvander(nodes, N_NODES - 1)[:, degrees]
    return nodes, weights, weights[:, None] * last * (2 * degrees + 1) / 2


NODES, WEIGHTS, LAST_COEFFICIENTS = _rule()
FLOORS = {False: FLOOR * np.array([0, 0, 0, 1, 1, 1]), True: FLOOR * np.array([0, 1, 1, 1, 1, 1])}
ROUNDING = 1e-15
