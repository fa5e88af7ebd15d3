"""One-dimensional Gaussian expectations of a likelihood, by adaptive quadrature on the tilted integrand itself.

For a ~ N(m, v) and a log-likelihood l(a), the tilted density is proportional to N(a; m, v) exp(α l(a)). Its mass may lie
thousands of standard deviations from m, on both sides of a gap, or behind an edge much sharper than the Gaussian, so no
fixed set of nodes will do. Here the modes of the tilted density are found first; then, from each of them and from the
point where the likelihood varies most, Gauss–Legendre panels walk outwards until nothing is left, each as long as the
integrand's highest Legendre coefficients allow. Work is in units t = (a − m)/√v.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.lax import stop_gradient

from cavity.special import LOG_SQRT_2PI

LogLik = Callable[[Array], Array]

N_NODES = 16
TOLERANCE = 2e-6  # of the last Legendre coefficients; the panel's error is about its square
FLOOR = 1e-3  # derivatives of l are resolved relative to their own size or to this, in units of t
NEGLIGIBLE = 1e-15  # a walk ends when a panel adds less than this share of every sum
REACH = 50.0  # a starting point this far below the peak, in nats, is left out
MAX_CLIMB, MAX_PANELS, MAX_STEPS = 80, 96, 256


class Tilt(NamedTuple):
    """What a likelihood says about one activation a ~ N(m, v): equation (12) of docs/mathematics.md.

    `log_mean` is ℓ(m, v) = (1/α) log E[p^α] (E[log p] at α = 0), `slope` is g = ∂ℓ/∂m, `curvature` is h = ∂²ℓ/∂m² and
    `shrinkage` is 1 + α v h, the tilted variance over v. The tilted mean is m + α v g.
    """

    log_mean: Array
    slope: Array
    curvature: Array
    shrinkage: Array


def tilt(log_lik: LogLik, mean: Array, variance: Array, power: float, center: Array) -> Tilt:
    """The tilt of a scalar log-likelihood; `center` is where it varies most, and need not be exact.

    Where v is small the derivatives are read as expected scores, g = E[l′] and h = E[l″] + α Var[l′]; where the
    likelihood is the sharper, from the tilted mean and variance themselves: each loses digits where the other does not.
    """
    walk = _walk(log_lik, mean, variance, power, center)
    scale = _scale(variance)
    if power == 0:
        _, score, curve, value = walk.total / walk.total[0]
        log_mean, slope, curvature = walk.value + value, walk.slope + score, curve
        return Tilt(log_mean, slope / scale, curvature / scale**2, jnp.ones_like(log_mean))
    weight = walk.total[0]
    _, first, second, score, score2, curve = walk.total / weight
    curvature = curve + power * (score2 - score**2)
    spread = second - first**2
    direct = _direct(walk, power)
    log_mean = (walk.peak + jnp.log(weight) - LOG_SQRT_2PI) / power
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
    at_mean, at_variance = stop_gradient(mean), stop_gradient(variance)
    walk = _walk(frozen, at_mean, at_variance, power, stop_gradient(center), MAX_PANELS)
    direct = _direct(walk, power)
    middle, half = walk.panels.T[..., None]
    step, weight = (middle + half * NODES).ravel(), (half * WEIGHTS).ravel()
    scale = _scale(variance)

    here = at_mean + stop_gradient(scale) * (walk.origin + step)
    usable = jnp.isfinite(jax.vmap(frozen)(here))
    here = jnp.where(usable, here, at_mean)
    moving_a = _zero(mean + scale * (walk.origin + step))  # zero in value, not in derivative
    moving_t = _zero((here - mean) / scale)
    value = jax.vmap(log_lik)(here + jnp.where(direct, 0.0, moving_a))
    step = step + jnp.where(direct, moving_t, 0.0)
    weight = weight * jnp.where(usable, 1.0, 0.0) * jnp.where(direct, stop_gradient(scale) / scale, 1.0)
    gaussian = -step * (walk.origin + 0.5 * step)
    if power == 0:
        weight = weight * jnp.exp(gaussian)
        return jnp.sum(weight * value) / jnp.sum(weight)
    total = jnp.sum(weight * jnp.exp(gaussian + power * (value - walk.value)))
    return (walk.peak + jnp.log(total) - LOG_SQRT_2PI) / power


class _Walk(NamedTuple):
    """Sums over panels of w, w d, w d², w u, w u², w l″ (at power 0: w, w u, w l″, w (l − l₀)), with d = t − t₀ and
    u = l′ − l′(t₀); `size` sums their absolute values."""

    origin: Array  # t₀, the mode with the most mass
    value: Array  # l(t₀)
    slope: Array  # l′(t₀)
    peak: Array  # log of the integrand at t₀
    total: Array
    size: Array
    panels: Array  # (panel, [middle, half-length]), relative to t₀


class _State(NamedTuple):
    """Where the walk is: leg, distance from the leg's start, next step, and what has been collected."""

    leg: Array
    legs_left: Array
    position: Array
    step: Array
    n_steps: Array
    total: Array
    size: Array
    panels: Array
    n_panels: Array


def _walk(log_lik: LogLik, mean: Array, variance: Array, power: float, center: Array, capacity: int = 0) -> _Walk:
    scale = _scale(variance)
    center = (center - mean) / scale
    starts = jnp.stack([jnp.zeros_like(center), center])

    def tilted(t: Array) -> tuple[Array, Array]:
        _, slope, curve = _derivatives(log_lik, mean, scale, t[None])
        return power * slope[0] - t, power * curve[0] - 1

    modes = starts[:1] if power == 0 else jax.vmap(lambda t: _climb(tilted, t))(starts)
    points = jnp.concatenate([modes, center[None]])
    value, slope, curve = _derivatives(log_lik, mean, scale, points)
    height = -0.5 * points**2 + power * value
    height = jnp.where(jnp.isfinite(height), height, -jnp.inf)
    width = jnp.minimum(1.0, 1 / jnp.sqrt(1 + jnp.abs(curve)))
    width = jnp.where(width > 0, width, 1.0)
    mass = height - 0.5 * jnp.log1p(power * jnp.maximum(-curve, 0.0))
    main = jnp.argmax(mass[: len(modes)])

    origin, value, slope, peak = points[main], value[main], slope[main], height[main]
    sharp = jnp.concatenate([modes == modes, width[-1:] < 0.5])
    keep = (height > peak - REACH) & (jnp.abs(points - origin) > 1e-2 * width) & sharp
    offset = jnp.where(keep, points - origin, 0.0)
    width = jnp.where(keep, width, width[main])
    order = jnp.argsort(offset)
    offset, width = offset[order], width[order]
    gap = jnp.concatenate([jnp.array([jnp.inf]), 0.5 * jnp.diff(offset), jnp.array([jnp.inf])])
    start, side = jnp.repeat(offset, 2), jnp.tile(jnp.array([-1.0, 1.0]), len(points))
    length, first_step = jnp.stack([gap[:-1], gap[1:]], -1).ravel(), 3 * jnp.repeat(width, 2)
    n_legs = 2 * len(points)

    base = mean + scale * origin
    floor = jnp.array(FLOORS[power == 0])

    def integrands(d: Array) -> tuple[Array, Array]:
        l, l1, l2 = _derivatives(log_lik, base, scale, d)
        w = jnp.exp(jnp.minimum(-d * (origin + 0.5 * d) + power * (l - value), 600.0))
        u = l1 - slope
        rows = [w, w * u, w * l2, w * (l - value)] if power == 0 else [w, w * d, w * d**2, w * u, w * u**2, w * l2]
        rows = jnp.stack(rows)
        noise = jnp.max(jnp.where(w > 0, jnp.abs(power * l), 0.0)) * EPS
        return jnp.where(jnp.isfinite(rows), rows, 0.0), noise

    def unfinished(s: _State) -> Array:
        return (s.legs_left > 0) & (s.n_steps < MAX_STEPS)

    def advance(s: _State) -> _State:
        room = length[s.leg] - s.position
        half = 0.5 * jnp.minimum(s.step, room)
        middle = start[s.leg] + side[s.leg] * (s.position + half)
        rows, noise = integrands(middle + half * NODES)
        panel, size = half * rows @ WEIGHTS, half * jnp.abs(rows) @ WEIGHTS
        rough = half * jnp.sum(jnp.abs(rows @ LAST_COEFFICIENTS), -1)
        collected = s.size + size
        allowed = (TOLERANCE + noise) * (collected + floor * collected[0]) + 1e-300
        badness = jnp.max(rough / allowed)
        good = ~(badness > 1) 
        growth = jnp.clip(0.8 * badness ** (-1 / N_NODES), 0.2, 3.0)
        faded = jnp.all(size <= NEGLIGIBLE * (collected + floor * collected[0]))
        ended = good & ((s.step >= room) | (faded & jnp.isinf(room)))
        leg = jnp.where(ended, (s.leg + 1) % n_legs, s.leg)
        panels = s.panels
        if capacity:
            row = jnp.where(good, s.n_panels, capacity)
            panels = panels.at[row].set(jnp.stack([middle, half]), mode="drop")
        return _State(
            leg=leg,
            legs_left=s.legs_left - ended,
            position=jnp.where(ended, 0.0, jnp.where(good, s.position + 2 * half, s.position)),
            step=jnp.where(ended, first_step[leg], 2 * half * growth),
            n_steps=s.n_steps + 1,
            total=jnp.where(good, s.total + panel, s.total),
            size=jnp.where(good, collected, s.size),
            panels=panels,
            n_panels=s.n_panels + good,
        )

    zeros = jnp.zeros_like(floor) + 0 * origin
    first_leg = 2 * jnp.argmin(jnp.abs(offset))
    legs_left = jnp.where(jnp.isfinite(peak), n_legs, 0)
    counter = jnp.zeros((), int) * first_leg
    state = _State(
        first_leg, legs_left, 0 * origin, first_step[first_leg], counter, zeros, zeros,
        jnp.zeros((capacity, 2)) + 0 * origin, counter,
    )
    end = lax.while_loop(unfinished, advance, state)
    return _Walk(origin, value, slope, peak, end.total, end.size, end.panels)


def mode(log_lik: LogLik, start: Array) -> Array:
    """A local maximum of l, uphill from `start`; far away where there is none."""

    def derivatives(a: Array) -> tuple[Array, Array]:
        _, slope, curve = _derivatives(log_lik, a, jnp.ones_like(a), jnp.zeros((1,)))
        return slope[0], curve[0]

    return _climb(derivatives, start)


def _climb(derivatives: Callable[[Array], tuple[Array, Array]], start: Array) -> Array:
    """A root of the first derivative, uphill from `start`: doubling steps to bracket it, then guarded Newton."""
    slope, curve = derivatives(start)
    uphill = jnp.where(slope > 0, 1.0, -1.0)
    newton = jnp.where(curve < 0, 2 * jnp.abs(slope / curve), 1 / jnp.sqrt(1 + jnp.abs(curve)))
    step = jnp.where((newton > 0) & jnp.isfinite(newton), newton, 1.0)

    def unfinished(s: Any) -> Array:
        _, _, _, _, n, done = s
        return ~done & (n < MAX_CLIMB)

    def advance(s: Any) -> Any:
        near, far, t, step, n, _ = s
        slope, curve = derivatives(t)
        ahead = uphill * slope > 0
        near, far = jnp.where(ahead, t, near), jnp.where(ahead, far, t)
        newton = t - slope / curve
        inside = (curve < 0) & (uphill * (newton - near) > 0) & (uphill * (far - newton) > 0) & (n % 3 != 2)
        inward = jnp.where(inside, newton, 0.5 * (near + far))
        bracketed = jnp.isfinite(far)
        close = jnp.abs(newton - t) <= 1e-3 / jnp.sqrt(jnp.abs(curve))
        narrow = ~(jnp.abs(far - near) > 1e-14 * jnp.abs(near))
        done = bracketed & ((close & (curve < 0)) | narrow)
        return near, far, jnp.where(done, t, jnp.where(bracketed, inward, t + uphill * step)), 2 * step, n + 1, done

    state = (start, uphill * jnp.inf, start + uphill * step, 2 * step, 0 * uphill.astype(int), slope == 0)
    return jnp.where(slope == 0, start, lax.while_loop(unfinished, advance, state)[2])


def _derivatives(log_lik: LogLik, base: Array, scale: Array, step: Array) -> tuple[Array, Array, Array]:
    """l, dl/dt and d²l/dt² at a = base + scale · step, one per step."""
    one = jnp.ones_like(step)
    value = lambda t: jax.vmap(log_lik)(base + scale * t)
    slope = lambda t: jax.jvp(value, (t,), (one,))
    (l, first), (_, second) = jax.jvp(slope, (step,), (one,))
    return l, first, second


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
    """0 in value, x in every derivative."""
    return x - stop_gradient(x)


def _rule() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gauss–Legendre nodes and weights, and the functionals that read a function's two last Legendre coefficients."""
    nodes, weights = np.polynomial.legendre.leggauss(N_NODES)
    degrees = np.arange(N_NODES - 2, N_NODES)
    last = np.polynomial.legendre.legvander(nodes, N_NODES - 1)[:, degrees]
    return nodes, weights, weights[:, None] * last * (2 * degrees + 1) / 2


NODES, WEIGHTS, LAST_COEFFICIENTS = _rule()
FLOORS = {False: np.array([0, 0, 0, FLOOR, FLOOR, FLOOR]), True: np.array([0, FLOOR, FLOOR, FLOOR])}
EPS = 1e-15
