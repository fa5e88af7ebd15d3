"""The sweep of a generalised linear model with a full Gaussian, by matrix products and rank-one updates.

The arithmetic is that of `cavity.inference.step`, arranged for sites that lie along the rows of X:

- data that share a slot: two matrix products per batch, X Σ and Xᵀ diag(τ) X;
- data with their own slots (EP): a site is two numbers, its shift and precision along x_n;
- one datum at a time (EP, ADF, SEP): `cavity.factors.glm.sequential`, O(D²) per datum.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from cavity import linalg
from cavity.factors.glm import rows as rows_of
from cavity.factors.glm import sequential
from cavity.factors.glm.line import Line, ask, log_replacement, without
from cavity.inference import kernel as general
from cavity.inference import memory
from cavity.inference.chunks import gather, sum_over_chunks
from cavity.inference.kernel import Kernel, Model
from cavity.inference.memory import Plan
from cavity.inference.step import Batch, Info, State, proper_rate


def expand(like: Any, features: Any, site: Line, weight: Array) -> Any:
    """Σ_n w_n site_n in the natural parameters of q."""
    shift = rows_of.weighted_sum(features, weight * site.shift)
    return type(like)(shift, rows_of.weighted_gram(features, weight * site.precision))


def answer(
    likelihood: Any, y: Any, mean: Array, variance: Array, old: Line, weight: Array, proper: Any, power: float
) -> tuple[Line, Array, Info]:
    """What rows ask for, beyond the sites they have, given the marginals of their activations; and with what weight."""
    mean, variance, remains = without(old, mean, variance, power * memory.present(weight))
    asked = jax.vmap(partial(ask, likelihood, power=power))(y, mean, variance, remains & proper)
    used = jnp.where(asked.valid, weight, 0.0)
    change = jax.tree.map(lambda new, past: jnp.where(asked.valid, new - past, 0.0), asked.site, old)
    skipped = jnp.sum(~asked.valid & (weight > 0))
    return change, used, Info(jnp.sum(used), skipped, jnp.zeros((), int), jnp.sum(used * asked.log_scale))


def step(state: State, batch: Batch, model: Model, *, power: float, rate: Array) -> tuple[State, Info]:
    """`cavity.inference.step.step` for rows of X."""
    own = bool(jnp.ndim(batch.slot))
    site, present = memory.read(state.sites, batch.slot), memory.present(memory.count_of(model.counts, batch.slot))
    cavity = state.q if own else state.q - (power * present) * site
    chol = linalg.cholesky(cavity.precision)
    proper = jnp.all(jnp.isfinite(chol))
    chol = jax.lax.cond(proper, lambda: chol, lambda: linalg.cholesky(state.q.precision))
    read = reader(chol, linalg.solve(chol, cavity.shift), model.data[0], batch.rows.size)

    def visit(rows: Array) -> tuple[Any, Any]:
        features, y = gather(model.data, rows)
        weight = memory.weight_of(model.weight, rows)
        m, v = read(features)
        old = memory.read(state.sites, rows) if own else Line(jnp.zeros_like(m), jnp.zeros_like(m))
        change, used, info = answer(model.factor.likelihood, y, m, v, old, weight, proper, power)
        negative = jnp.sum(used * change.precision < 0)
        return (expand(state.q, features, change, used), info, negative), change if own else None

    size = rows_of.chunk_size(model.data[0])
    (move, info, negative), changes = sum_over_chunks(visit, batch.rows, size, n_rows=len(model.weight))
    if not own:
        estimates, move = move, move - info.weight * site
    sure = (negative == 0) & stays_proper(model, batch.slot, rate * info.weight)
    rate, backed_off = jax.lax.cond(sure, lambda: (rate, jnp.asarray(False)), lambda: proper_rate(state.q, move, rate))
    info = info._replace(backoffs=backed_off.astype(int))
    q = state.q + rate * move
    if own:
        change = jax.tree.map(lambda leaf: rate * leaf, changes)
        return State(q, memory.file(state.sites, batch.slot, change), None, None), info
    share = (rate / memory.count_of(model.counts, batch.slot)) * move
    sites = memory.file(state.sites, batch.slot, share)
    filed = memory.file(state.filed, batch.slot, estimates)
    return State(q, sites, filed, memory.file(state.filed_weight, batch.slot, info.weight)), info


def stays_proper(model: Model, slot: Array, taken: Array) -> Array:
    """Whether q is sure to stay proper while rows ask for no negative precision: no need to factorise it to see.

    With one site for all, taking `taken` copies of it from q = prior + W λ leaves a mean of q and the prior. That is
    exact arithmetic: at extreme scales rounding may lose q all the same, and then the next visits are skipped.
    """
    if jnp.ndim(slot) or len(model.counts) > 1:
        return jnp.asarray(False)
    return (slot >= 1) | (taken <= memory.count_of(model.counts, slot))


def init(model: Model, own: bool) -> State:
    """Sites of one; two numbers each where every row has its own."""
    if not own:
        return general.init(model, own)
    zeros = jnp.zeros(len(model.counts))
    return State(jax.tree.map(jnp.asarray, model.prior), Line(zeros, zeros), None, None)


def rank_one(model: Model, weight: Any, plan: Plan, rates: Any) -> bool:
    """Whether this sweep is one of rank-one updates."""
    return sequential.is_exact(weight, np.asarray(model.counts), plan, rates, model.data[0].shape[1])


def sweep(state: State, model: Model, plan: Plan, rates: Array, *, power: float, mode: bool) -> tuple[State, Info]:
    """Visit the batches of a plan in order; by rank-one updates in that mode."""
    if mode:
        return sequential.sweep(state, model, plan, rates, power=power)
    visit = lambda state, batch: step(state, Batch(*batch[0]), model, power=power, rate=batch[1])
    state, info = jax.lax.scan(visit, state, (plan, rates))
    return state, jax.tree.map(lambda leaf: jnp.sum(leaf, 0), info)


def total(sites: Any, model: Model) -> Any:
    """Σ_k W_k λ_k; sites along rows are spread out on the way."""
    if not isinstance(sites, Line):
        return memory.total(sites, model.counts)

    def add_up(rows: Array) -> tuple[Any, None]:
        weight = memory.weight_of(model.weight, rows)
        return expand(model.prior, gather(model.data[0], rows), memory.read(sites, rows), weight), None

    return sum_over_chunks(add_up, jnp.arange(len(model.weight)), rows_of.chunk_size(model.data[0]))[0]


def evidence_terms(q: Any, sites: Any, model: Model, plan: Plan, *, power: float) -> tuple[Any, Array, Array]:
    """`cavity.inference.kernel.evidence_terms` along the rows of X."""
    own = plan.slot.ndim == 2
    mean, covariance = moments_of(q)

    def visit(total: Any, batch: tuple[Array, Array]) -> tuple[Any, None]:
        rows, slot = batch
        if not own:
            shared = memory.present(memory.count_of(model.counts, slot))
            cavity_mean, cavity_covariance = moments_of(q - (power * shared) * memory.read(sites, slot))

        def terms(rows: Array) -> tuple[Any, None]:
            features, y = gather(model.data, rows)
            weight = memory.weight_of(model.weight, rows)
            if own:
                site, valid = memory.read(sites, rows), jnp.ones(len(rows), dtype=bool)
            else:
                m, v = marginals(features, cavity_mean, cavity_covariance)
                site, valid, _ = jax.vmap(partial(ask, model.factor.likelihood, power=power))(y, m, v, v >= 0)
            m, v = marginals(features, mean, covariance)
            sums = log_factors(model.factor.likelihood, y, m, v, site, weight, valid, power)
            return (expand(model.prior, features, site, weight), *sums), None

        return jax.tree.map(jnp.add, total, sum_over_chunks(terms, rows, rows_of.chunk_size(model.data[0]))[0]), None

    return jax.lax.scan(visit, (0.0 * model.prior, jnp.zeros(()), jnp.zeros(())), plan)[0]


def log_factors(
    likelihood: Any, y: Any, mean: Array, variance: Array, site: Line, weight: Array, valid: Any, power: float
) -> tuple[Array, Array]:
    """Σ w_n {ℓ_α(c_n) + (A(c_n) − A(q))/α} from the marginals under q, and how many rows are left out."""
    present = memory.present(weight)  # of its own site, whichever cavity that was formed from
    m, v, _ = without(site, mean, variance, power * present)
    tilt = jax.vmap(lambda *row: likelihood.tilt(*row, power))(y, m, v)
    value = tilt.log_mean + log_replacement(site, mean, variance, power, present)
    usable = jnp.isfinite(value) & valid
    left_out = jnp.sum(jnp.where(usable | (weight == 0), 0.0, 1.0))
    return jnp.sum(weight * jnp.where(usable, value, 0.0)), left_out


def moments_of(q: Any) -> tuple[Array, Array]:
    """Mean and covariance by one factorisation."""
    chol = linalg.cholesky(q.precision)
    return linalg.solve(chol, q.shift), linalg.inverse(chol)


def reader(chol: Array, mean: Array, features: Any, n_rows: int) -> Callable[[Any], tuple[Array, Array]]:
    """`marginals` from a factor of the precision: by solves where rows are few beside the features, else by Σ."""
    if isinstance(features, rows_of.SparseRows) or 2 * n_rows >= features.shape[1]:
        return partial(marginals, mean=mean, covariance=linalg.inverse(chol))
    return lambda rows: (rows @ mean, jnp.sum(linalg.half_solve(chol, rows) ** 2, axis=-1))


def marginals(features: Any, mean: Array, covariance: Array) -> tuple[Array, Array]:
    """Mean and variance of xᵀθ for every row."""
    return rows_of.times(features, mean), rows_of.quadratic(features, covariance)


def errors_of_sharing(q: Any, site: Any, model: Model, draws: Array, *, power: float) -> Array:
    """`cavity.inference.kernel.errors_of_sharing` along the rows of X."""
    shared, here = moments_of(q - (power * memory.present(jnp.sum(model.weight))) * site), moments_of(q)
    asks = jax.vmap(partial(ask, model.factor.likelihood, power=power))

    def values(rows: Array) -> tuple[Any, Array]:
        features, y = gather(model.data, rows)
        m, v = marginals(features, *shared)
        asked = asks(y, m, v, v >= 0)
        present = memory.present(memory.weight_of(model.weight, rows))
        m, v, remains = without(asked.site, *marginals(features, *here), power * present)
        again = asks(y, m, v, remains & asked.valid)
        change = jax.tree.map(lambda new, old: jnp.where(again.valid, new - old, 0.0), again.site, asked.site)
        activation = rows_of.times(features, draws.T)
        return (), change.shift[:, None] * activation - 0.5 * change.precision[:, None] * activation**2

    return sum_over_chunks(values, jnp.arange(len(model.weight)), rows_of.chunk_size(model.data[0]))[1]


KERNEL = Kernel(init, sweep, total, evidence_terms, rank_one, errors_of_sharing)
