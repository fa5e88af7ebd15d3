"""A fit over blocks: the engine's own step, with sites that were found before it.

What a block asks for cannot be compiled into a sweep: it is thousands of draws, or a fit of its own. So each batch is
two calls. First the blocks are asked, in Python; then `cavity.inference.step` is run with a factor that knows their
answers. Guards, slots and averages are those of every other fit.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from cavity._pytree import pytree
from cavity.factors.base import Factor
from cavity.factors.blocks.session import Answer, Session
from cavity.families.base import dot
from cavity.inference import driver as compiled
from cavity.inference import memory
from cavity.inference.driver import Driver, Setting
from cavity.inference.evidence import Evidence
from cavity.inference.kernel import Kernel, Model
from cavity.inference.memory import Plan
from cavity.inference.pull import all_finite, log_mean_of_site, select
from cavity.inference.step import Batch, Info, State, step


@pytree
class Known(Factor):
    """A factor whose datum is its answer."""

    def log_mean(self, q: Any, datum: Answer, power: float) -> Array:
        return datum.log_mean

    def site(self, cavity: Any, datum: Answer, power: float) -> Any:
        return datum.site


def driver_of(session: Session) -> Driver:
    """The compiled driver, with another sweep and another way to the evidence."""
    return compiled.COMPILED._replace(
        sweep=partial(sweep, session), log_evidence=partial(log_evidence, session), report=session.report
    )


def sweep(
    session: Session, _: Kernel, model: Model, state: State, plan: Plan, rates: np.ndarray, setting: Setting
) -> tuple[State, Info, Any]:
    """Ask and step, batch by batch; then what ends any sweep."""
    begin, infos = state, []
    for rows, slot, rate in zip(plan.rows, plan.slot, rates, strict=True):
        which = rows[rows < len(model.weight)]
        answer = ask(session.ask, model, state, which, setting.power)
        state, info = known_step(model, state, Batch(rows, slot), which, answer, setting.power, rate)
        infos.append(info)
    session.end_sweep()
    end, cut = compiled.close_sweep(model.prior, model.counts, begin, state, setting.share, average=setting.settles)
    return end, Info(*(sum(map(float, column)) for column in zip(*infos, strict=True))), cut


def ask(asking: Callable[..., Answer], model: Model, state: State, which: np.ndarray, power: float) -> Answer:
    """What a session says of some blocks; of one whose cavity is improper, nothing, which the step skips."""
    site, cavity, proper = cavities(model, state, which, power)
    answer = asking(model.factor, state.q, cavity, site, which, power)
    return answer if bool(np.all(proper)) else spoil(answer, proper)


@partial(jax.jit, static_argnames="power")
def cavities(model: Model, state: State, which: Array, power: float) -> tuple[Any, Any, Array]:
    """The sites of some blocks and their cavities."""
    slot = model.slot[which]
    site, present = memory.read(state.sites, slot), memory.present(memory.count_of(model.counts, slot))
    return site, *without(state.q, site, present, power)


def without(q: Any, site: Any, present: Array, power: float) -> tuple[Any, Array]:
    """c = q − α λ for each site, q itself where that is improper, and whether it was proper."""

    def one(site: Any, present: Array) -> tuple[Any, Array]:
        cavity = q - (power * present) * site
        proper = cavity.is_proper()
        return select(proper, cavity, q), proper

    return jax.vmap(one)(site, present)


@jax.jit
def spoil(answer: Answer, proper: Array) -> Answer:
    """No numbers where a cavity was improper."""
    return jax.vmap(lambda ok, one: jax.tree.map(lambda leaf: jnp.where(ok, leaf, jnp.nan), one))(proper, answer)


@partial(jax.jit, static_argnames="power")
def known_step(
    model: Model, state: State, batch: Batch, which: Array, answer: Answer, power: float, rate: Any
) -> tuple[State, Info]:
    """`step`, given the answers of some blocks; the others are not asked for."""
    n = len(model.weight)
    everywhere = jax.tree.map(lambda leaf: jnp.zeros((n, *jnp.shape(leaf)[1:])).at[which].set(leaf), answer)
    return step(state, batch, everywhere, model.weight, model.counts, factor=Known(), power=power, rate=rate)


def log_evidence(session: Session, kernel: Kernel, model: Model, sites: Any, plan: Plan, power: float) -> Evidence:
    """`cavity.inference.evidence.log_evidence`: own sites first, where they are shared, then ℓ(q − α λ̂) of each."""
    shared = np.ndim(plan.slot) < 2
    if shared and session.no_own_sites:
        return Evidence(np.nan, 0, True, session.no_own_sites)
    state = State(model.prior + kernel.total(sites, model), sites, None, None)
    everything = np.arange(len(model.weight))
    own = memory.read(sites, model.slot)
    if shared:
        own = ask(partial(session.ask_aside, number=0), model, state, everything, power).site
    cavity, proper = without(state.q, own, memory.present(model.weight), power)
    log_mean = session.ask_aside(model.factor, state.q, cavity, own, everything, power, number=1).log_mean
    return closing(model, state.q, own, cavity, proper, log_mean, power)


@partial(jax.jit, static_argnames="power")
def closing(model: Model, q: Any, own: Any, cavity: Any, proper: Array, log_mean: Array, power: float) -> Evidence:
    """log Z = A(q̂) − A(λ₀) + Σ_n w_n {ℓ_α(c_n) + (A(c_n) − A(q))/α}."""
    value = log_mean - jax.vmap(partial(log_mean_of_site, power=power))(cavity, own)
    usable = proper & jnp.isfinite(value) & jax.vmap(all_finite)(own)
    own = jax.vmap(lambda ok, site: select(ok, site, 0.0 * model.prior))(usable, own)
    q_hat = model.prior + jax.tree.map(lambda leaf: jnp.tensordot(model.weight, leaf, 1), own)
    rebuilt = q.log_partition() + dot(q_hat - q, q.moments()) if power == 0 else q_hat.log_partition()
    ok = jnp.isfinite(rebuilt)
    terms = jnp.sum(model.weight * jnp.where(usable, value, 0.0))
    return Evidence(
        jnp.where(ok, rebuilt, q.log_partition()) - model.prior.log_partition() + terms, jnp.sum(~usable), ok
    )
