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
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from cavity import linalg
from cavity.factors.glm.line import Line, ask, without
from cavity.factors.glm.rows import times
from cavity.inference import memory
from cavity.inference.chunks import PADDING, gather
from cavity.inference.kernel import Model
from cavity.inference.memory import Plan
from cavity.inference.pull import select
from cavity.inference.step import Info, State

SERIES_ERROR = 1e-13  # relative, in the variance of an activation
SMALLEST_TOTAL = 8.0  # of a shared site's weights: a cavity must keep most of the site for σ to be moderate
LARGEST_DRIFT = 0.25  # of log σ over a block, beyond which the series would need many terms


class Whitening(NamedTuple):
    """The prior as coordinates: θ = mean + root u with u ~ N(0, I), and unroot = root⁻ᵀ."""

    mean: Array
    root: Array
    unroot: Array

    @classmethod
    def by(cls, prior: Any) -> "Whitening":
        chol = linalg.cholesky(prior.precision)
        return cls(linalg.solve(chol, prior.shift), linalg.inverse_transpose(chol), chol)

    def enter(self, site: Any) -> tuple[Array, Array]:
        """Precision and shift of a site as a function of u."""
        return self.root.T @ site.precision @ self.root, self.root.T @ (site.shift - site.precision @ self.mean)

    def leave(self, precision: Array, shift: Array, like: Any) -> Any:
        """The site as a function of θ."""
        precision = linalg.symmetric(self.unroot @ precision @ self.unroot.T)
        return type(like)(self.unroot @ shift + precision @ self.mean, precision)


class Block(NamedTuple):
    """What is carried from block to block, in whitened coordinates."""

    precision: Array  # B
    shift: Array
    filed_precision: Array
    filed_shift: Array
    sites: Any


def block_size(dim: int) -> int:
    """Rows between two factorisations, enough for O(D³/block) to be small beside O(D²)."""
    return max(16, dim // 2)


def is_exact(weight: np.ndarray, count: np.ndarray, plan: Plan, rates: np.ndarray, dim: int) -> bool:
    """Whether rows come one at a time and σ moves slowly enough over a block for the series."""
    if plan.rows.shape[1] != 1 or (plan.slot.ndim == 1 and len(count) > 1):
        return False
    if plan.slot.ndim == 2 or plan.slot[0] >= len(count):  # sites of their own, or none: σ does not move
        return True
    if count[0] < SMALLEST_TOTAL:
        return False
    decay = np.append(rates * weight[plan.rows[:, 0]] / count[0], np.zeros(-len(rates) % block_size(dim)))
    with np.errstate(divide="ignore", invalid="ignore"):
        drift = -np.log1p(-decay).reshape(-1, block_size(dim)).sum(1).max()
    return bool(drift <= LARGEST_DRIFT)


def share_of_row(model: Model, plan: Plan) -> Array:
    """1/W for data that share a site; 0 where a row has its own slot or none."""
    if plan.slot.ndim == 2:
        return jnp.zeros(())
    slot = plan.slot[0]
    return jnp.where(slot < len(model.counts), 1 / memory.count_of(model.counts, slot), 0.0)


def in_blocks(leaf: Array, size: int, fill: Any) -> Array:
    n_blocks = -(-len(leaf) // size)
    return jnp.pad(leaf, (0, n_blocks * size - len(leaf)), constant_values=fill).reshape(n_blocks, size)


def sweep(state: State, model: Model, plan: Plan, rates: Array, *, power: float) -> tuple[State, Info]:
    """Visit single rows in the order of the plan."""
    own = plan.slot.ndim == 2
    size = block_size(model.data[0].shape[1])
    share = share_of_row(model, plan)
    white = Whitening.by(model.prior)
    precision, shift = white.enter(state.q - model.prior)
    start = Block(precision, shift, jnp.zeros_like(precision), jnp.zeros_like(shift), state.sites if own else None)

    def visit(block: Block, part: tuple[Array, Array]) -> tuple[Block, Info]:
        return visit_block(block, *part, model=model, white=white, share=share, power=power)

    parts = in_blocks(plan.rows[:, 0], size, PADDING), in_blocks(rates, size, 0.0)
    end, info = jax.lax.scan(visit, start, parts)
    info = jax.tree.map(lambda leaf: jnp.sum(leaf, 0), info)
    moved = white.leave(end.precision, end.shift, state.q)
    q = model.prior + moved
    if own:
        return State(q, end.sites, None, None), info
    slot = plan.slot[0]
    put = lambda stack, leaf: stack.at[slot].set(leaf, mode="drop")
    sites = jax.tree.map(put, state.sites, share * moved)
    filed = memory.file(state.filed, slot, white.leave(end.filed_precision, end.filed_shift, state.q))
    return State(q, sites, filed, memory.file(state.filed_weight, slot, info.weight)), info


def visit_block(
    block: Block, rows: Array, rates: Array, *, model: Model, white: Whitening, share: Array, power: float
) -> tuple[Block, Info]:
    """Rank-one updates over the rows of a block, then matrix products to bring B up to date."""
    features, y = gather(model.data, rows)
    weight = memory.weight_of(model.weight, rows)
    axes, offset = times(features, white.root), times(features, white.mean)
    nothing = Line(jnp.zeros(len(rows)), jnp.zeros(len(rows)))
    old = nothing if block.sites is None else memory.read(block.sites, rows)
    decay = rates * weight * share
    kept = 1 - power * share
    last_scale = jnp.prod(1 - decay)
    sigma_mid = 0.5 * (1 + 1 / last_scale) / kept  # σ goes from 1/κ to 1/(κ s) over the block
    ratio = (1 - last_scale) / (1 + last_scale)
    n_terms = jnp.where(ratio > 0, jnp.ceil(math.log(SERIES_ERROR) / jnp.log(ratio)), 1).astype(int)
    inverse = linalg.inverse(linalg.cholesky(block.precision + sigma_mid * jnp.eye(len(block.shift))))

    def visit_row(carry: tuple[Array, Array, Array], row: Any) -> tuple[tuple[Array, Array, Array], Any]:
        inverse, scale, shift = carry
        axis, offset, y, weight, rate, decay, old = row
        first = inverse @ axis
        delta = 1 / (kept * scale) - sigma_mid
        solved = jax.lax.fori_loop(1, n_terms, lambda _, z: first - delta * (inverse @ z), first)
        mean, variance = offset + solved @ shift / scale, axis @ solved / (kept * scale)
        mean, variance, proper = without(old, mean, variance, power * memory.present(weight))
        asked = ask(model.factor.likelihood, y, mean, variance, proper, power)
        change = jax.tree.map(lambda new, past: jnp.where(asked.valid, new - past, 0.0), asked.site, old)
        # q stays proper while 1 + gain · wᵀSw > 0: otherwise the move is halved until it is, as in `proper_rate`
        quadratic = axis @ first
        wanted = rate * weight * change.precision / scale * quadratic
        halvings = jnp.where(wanted <= -1, jnp.floor(jnp.log2(jnp.maximum(-wanted, 1.0))) + 1, 0.0)
        cut = jnp.exp2(-halvings) * asked.valid
        scale_new = scale * (1 - cut * decay)
        gain = cut * rate * weight * change.precision / scale_new
        inverse = inverse - (gain / (1 + gain * quadratic)) * linalg.outer(first)
        push = cut * rate * weight * (change.shift - change.precision * offset)
        shift = (1 - cut * decay) * shift + push * axis
        filed = jax.tree.map(lambda leaf: weight * leaf, asked.site)
        made = jax.tree.map(lambda leaf: cut * rate * leaf, change)
        info = Info(
            weight * asked.valid,
            (~asked.valid & (weight > 0)).astype(int),
            ((cut < 1) & asked.valid & (weight > 0)).astype(int),
            weight * asked.log_scale,
        )
        return (inverse, scale_new, shift), (gain, filed, made, info)

    begin = (inverse, jnp.ones(()), block.shift)
    (_, scale, shift), (gain, filed, made, info) = jax.lax.scan(
        visit_row, begin, (axes, offset, y, weight, rates, decay, old)
    )
    precision = scale * (block.precision + axes.T @ (gain[:, None] * axes))
    new = Block(
        precision,
        shift,
        block.filed_precision + axes.T @ (filed.precision[:, None] * axes),
        block.filed_shift + axes.T @ (filed.shift - filed.precision * offset),
        None if block.sites is None else memory.file(block.sites, rows, made),
    )
    info = jax.tree.map(lambda leaf: jnp.sum(leaf, 0), info)
    # no step made A + σ₀ I improper, but negative site precisions or rounding at extreme scales can still undo I + B
    proper = linalg.is_positive_definite(precision + jnp.eye(len(shift))) & jnp.all(jnp.isfinite(shift))
    undone = info._replace(weight=jnp.zeros(()), skipped=jnp.sum(weight > 0), log_scale=jnp.zeros(()))
    return select(proper, new, block), select(proper, info, undone)
