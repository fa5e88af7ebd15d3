"""One datum at a time for a generalised linear model with a full Gaussian: O(D²) per datum, exactly.

In coordinates whitened by the prior, q has precision I + B, and visiting a row w asks for

    B ← (1 − δ) B + ε ω (τ̂ − τ) w wᵀ,   δ = ε ω / W for a tied site (SEP), 0 for own sites (EP) or none (ADF).

Write B = s A with a scalar s: the decay goes into s, and A changes by rank one. The cavity of a tied site is
I + κ s A = κ s (A + σ I) with κ = 1 − α/W and σ = 1/(κ s). The inverse S = (A + σ₀ I)⁻¹ at one fixed σ₀ is kept by
rank-one updates over a block of rows, and products with the inverse at the slowly moving σ follow from a few terms of

    (A + σ I)⁻¹ w = Σ_j (−(σ − σ₀) S)^j S w,

whose ratio is at most the drift of σ over half a block, a number like block/(2N). A block ends with a fresh
factorisation. For EP and ADF σ does not move and one term is exact: the three algorithms are one loop. See
equations (42)–(44) of docs/mathematics.md.

What is carried from chunk to chunk is B and the shift, in whitened coordinates. This is an override of the engine's
batch by batch: another way to the numbers of `cavity.inference.update`, to which tests hold it.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from cavity import linalg
from cavity.factors.glm.line import Line, Scaled, ask_with_scales, without
from cavity.factors.glm.rows import times
from cavity.inference import memory
from cavity.inference.boundary import call
from cavity.inference.contract import CHUNK, Rows
from cavity.inference.order import Plan
from cavity.inference.pull import select
from cavity.inference.update import Info, State

SERIES_ERROR = 1e-13  # relative, in the variance of an activation
SMALLEST_TOTAL = 8.0  # of a shared site's weights: a cavity must keep most of the site for σ to be moderate
LARGEST_DRIFT = 0.25  # of log σ over a block, beyond which the series would need many terms


class Whitening(NamedTuple):
    """The prior as coordinates: θ = mean + root u with u ~ N(0, I), and unroot = root⁻ᵀ."""

    mean: Any
    root: Any
    unroot: Any

    @classmethod
    def by(cls, prior: Any) -> "Whitening":
        chol = linalg.cholesky(prior.precision)
        return cls(linalg.solve(chol, prior.shift), linalg.inverse_transpose(chol), chol)

    def enter(self, site: Any) -> tuple[Any, Any]:
        """Precision and shift of a site as a function of u."""
        return self.root.T @ site.precision @ self.root, self.root.T @ (site.shift - site.precision @ self.mean)

    def leave(self, precision: Any, shift: Any, like: Any) -> Any:
        """The site as a function of θ."""
        precision = linalg.symmetric(self.unroot @ precision @ self.unroot.T)
        return type(like)(self.unroot @ shift + precision @ self.mean, precision)


class Carried(NamedTuple):
    """What goes from block to block, in whitened coordinates."""

    precision: Any  # B
    shift: Any
    filed_precision: Any
    filed_shift: Any


class Visit(NamedTuple):
    """Rows of a block, one after another."""

    data: Any
    weight: Any
    sites: Any  # of their own; zero where they have none
    rate: Any


def block_size(dim: int) -> int:
    """Rows between two factorisations, enough for O(D³/block) to be small beside O(D²)."""
    return max(16, dim // 2)


def is_exact(rows: Rows, counts: np.ndarray, plan: Plan, rates: np.ndarray) -> bool:
    """Whether rows come one at a time and σ moves slowly enough over a block for the series."""
    if plan.rows.shape[1] != 1 or (rows.sites is None and len(counts) > 1):
        return False
    if rows.sites is not None or plan.slot[0] >= len(counts):  # sites of their own, or none: σ does not move
        return True
    if counts[0] < SMALLEST_TOTAL:
        return False
    size = block_size(rows.data[0].shape[1])
    decay = np.append(rates * rows.weight[plan.rows[:, 0]] / counts[0], np.zeros(-len(rates) % size))
    with np.errstate(divide="ignore", invalid="ignore"):
        drift = -np.log1p(-decay).reshape(-1, size).sum(1).max()
    return bool(drift <= LARGEST_DRIFT)


def visits(
    likelihood: Any, state: State, rows: Rows, plan: Plan, rates: np.ndarray, counts: np.ndarray, power: float
) -> tuple[State, Info]:
    """Visit single rows in the order of the plan. Sites of their own change in place."""
    own, slot = rows.sites is not None, plan.slot[:1]
    shares = not own and plan.slot[0] < len(counts)
    share = 1 / float(counts[0]) if shares else 0.0
    white = Whitening.by(state.prior)
    precision, shift = white.enter(state.q - state.prior)
    carried, total, filed_weight = Carried(precision, shift, 0.0 * precision, 0.0 * shift), Info(0, 0, 0.0, 0.0), 0.0
    at_once = max(CHUNK // block_size(len(shift)), 1) * block_size(len(shift))
    for begin in range(0, len(plan.rows), at_once):
        which = plan.rows[begin : begin + at_once, 0]
        blocks = laid_out(rows, which, rates[begin : begin + at_once], at_once)
        carried, made, info = call(visit_chunk, likelihood, carried, white, blocks, share, power=power)
        weight, skipped, backoffs, log_scale = info
        total, filed_weight = total + Info(skipped, backoffs, log_scale, 0.0), filed_weight + float(weight)
        if own:
            rows.sites.shift[which] += made.shift.ravel()[: len(which)]
            rows.sites.precision[which] += made.precision.ravel()[: len(which)]
    moved = white.leave(carried.precision, carried.shift, state.q)
    q = state.prior + moved
    if own:
        return state._replace(q=q), total
    filed = white.leave(carried.filed_precision, carried.filed_shift, state.q)
    stack = lambda member: type(member)(member.shift[None], member.precision[None])
    sites = stack(share * moved) if shares else state.sites
    return state._replace(
        q=q,
        sites=sites,
        filed=memory.file(state.filed, slot, stack(filed)),
        filed_weight=memory.file(state.filed_weight, slot, np.array([filed_weight])),
    ), total


def laid_out(rows: Rows, which: np.ndarray, rates: np.ndarray, at_once: int) -> Visit:
    """Rows of a chunk in blocks, filled up with rows that weigh nothing."""
    size, short = block_size(rows.data[0].shape[1]), at_once - len(which)
    index = np.pad(which, (0, short), mode="edge")
    in_blocks = lambda leaf: leaf.reshape(-1, size, *leaf.shape[1:])
    weight = rows.weight[index]
    weight[len(which) :] = 0.0
    sites = Line(np.zeros(at_once), np.zeros(at_once))
    if rows.sites is not None:
        sites = Line(rows.sites.shift[index], rows.sites.precision[index])
    data = jax.tree.map(lambda leaf: leaf[index], rows.data)
    return jax.tree.map(in_blocks, Visit(data, weight, sites, np.pad(rates, (0, short))))


@partial(jax.jit, static_argnames="power")
def visit_chunk(
    likelihood: Any, carried: Carried, white: Whitening, blocks: Visit, share: Array, power: float
) -> tuple[Carried, Line, tuple[Array, Array, Array, Array]]:
    """The blocks of a chunk in order; also the changes of the rows' sites, and sums of weight, skipped, cut, scales."""

    def visit(carried: Carried, block: Visit) -> tuple[Carried, Any]:
        zeros, none = jnp.zeros_like(block.weight), jnp.zeros((), int)
        still = carried, Line(zeros, zeros), (jnp.zeros(()), none, none, jnp.zeros(()))
        moving = lambda: visit_block(carried, block, likelihood, white, share, power)
        carried, made, info = jax.lax.cond(jnp.any(block.weight > 0), moving, lambda: still)
        return carried, (made, info)

    carried, (made, info) = jax.lax.scan(visit, carried, blocks)
    return carried, made, jax.tree.map(lambda leaf: jnp.sum(leaf, 0), info)


class Fixed(NamedTuple):
    """What stays the same over a block."""

    likelihood: Any
    kept: Array  # κ
    sigma: Array  # σ₀
    n_terms: Array
    power: float


class Moving(NamedTuple):
    """What goes from row to row of a block."""

    inverse: Array  # S
    scale: Array  # s
    shift: Array


def visit_block(
    carried: Carried, block: Visit, likelihood: Any, white: Whitening, share: Array, power: float
) -> tuple[Carried, Line, tuple[Array, Array, Array, Array]]:
    """Rank-one updates over the rows of a block, then matrix products to bring B up to date."""
    (features, y), weight = block.data, block.weight
    axes, offset = times(features, white.root), times(features, white.mean)
    decay, kept = block.rate * weight * share, 1 - power * share
    last_scale = jnp.prod(1 - decay)
    sigma = 0.5 * (1 + 1 / last_scale) / kept  # σ goes from 1/κ to 1/(κ s) over the block: its middle
    ratio = (1 - last_scale) / (1 + last_scale)
    n_terms = jnp.where(ratio > 0, jnp.ceil(math.log(SERIES_ERROR) / jnp.log(ratio)), 1).astype(int)
    fixed = Fixed(likelihood, kept, sigma, n_terms, power)
    inverse = linalg.inverse(linalg.cholesky(carried.precision + sigma * jnp.eye(len(carried.shift))))
    begin = Moving(inverse, jnp.ones(()), carried.shift)
    each = axes, offset, y, weight, block.rate, decay, block.sites
    end, (gain, filed, made, info) = jax.lax.scan(partial(visit_row, fixed), begin, each)
    new = Carried(
        end.scale * (carried.precision + axes.T @ (gain[:, None] * axes)),
        end.shift,
        carried.filed_precision + axes.T @ (filed.precision[:, None] * axes),
        carried.filed_shift + axes.T @ (filed.shift - filed.precision * offset),
    )
    info = jax.tree.map(lambda leaf: jnp.sum(leaf, 0), info)
    # no step made A + σ₀ I improper, but negative site precisions or rounding at extreme scales can still undo I + B
    proper = linalg.is_positive_definite(new.precision + jnp.eye(len(new.shift))) & jnp.all(jnp.isfinite(new.shift))
    undone = jnp.zeros(()), jnp.sum(weight > 0), info[2], jnp.zeros(())
    nothing = jax.tree.map(jnp.zeros_like, made)
    return select(proper, new, carried), select(proper, made, nothing), select(proper, info, undone)


def visit_row(fixed: Fixed, moving: Moving, row: Any) -> tuple[Moving, Any]:
    """One row: what it asks for, and the rank-one update by it."""
    inverse, scale, shift = moving
    axis, offset, y, weight, rate, decay, old = row
    first = inverse @ axis
    delta = 1 / (fixed.kept * scale) - fixed.sigma
    solved = jax.lax.fori_loop(1, fixed.n_terms, lambda _, z: first - delta * (inverse @ z), first)
    mean, variance = offset + solved @ shift / scale, axis @ solved / (fixed.kept * scale)
    mean, variance, proper = without(old, mean, variance, fixed.power * memory.present(weight))
    asked = asked_by(fixed, y, weight, mean, variance, proper)
    change = jax.tree.map(lambda new, past: jnp.where(asked.valid, new - past, 0.0), asked.site, old)
    # q stays proper while 1 + gain · wᵀSw > 0: otherwise the move is halved until it is, as the guard does
    quadratic = axis @ first
    wanted = rate * weight * change.precision / scale * quadratic
    halvings = jnp.where(wanted <= -1, jnp.floor(jnp.log2(jnp.maximum(-wanted, 1.0))) + 1, 0.0)
    cut = jnp.exp2(-halvings) * asked.valid
    new_scale = scale * (1 - cut * decay)
    gain = cut * rate * weight * change.precision / new_scale
    inverse = inverse - (gain / (1 + gain * quadratic)) * linalg.outer(first)
    push = cut * rate * weight * (change.shift - change.precision * offset)
    shift = (1 - cut * decay) * shift + push * axis
    filed = jax.tree.map(lambda leaf: weight * leaf, asked.site)
    made = jax.tree.map(lambda leaf: cut * rate * leaf, change)
    counts = (~asked.valid & (weight > 0)).astype(int), ((cut < 1) & asked.valid & (weight > 0)).astype(int)
    info = weight * asked.valid, *counts, weight * asked.log_scale
    return Moving(inverse, new_scale, shift), (gain, filed, made, info)


def asked_by(fixed: Fixed, y: Any, weight: Array, mean: Array, variance: Array, proper: Array) -> Scaled:
    """What a row's tilted distribution asks for; nothing if it weighs nothing.

    The branch is there for time: XLA hands operations that do not wait for each other from thread to thread, unless
    they are small ones in a computation of their own. At 60 columns a row takes 7 µs with the branch, and 10.5 without.
    """

    def tilted() -> Scaled:
        tilt = fixed.likelihood.tilt(y, mean, variance, fixed.power)
        return ask_with_scales(tilt, mean, variance, proper, fixed.power)

    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(tilted))
    return jax.lax.cond(weight > 0, tilted, lambda: nothing)
