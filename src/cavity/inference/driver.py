"""What a fit does between its decisions: make a sweep, measure it, take the evidence.

A driver is a few functions. The one below compiles the kernel's sweep for any family and factor. A factor may bring its
own where that would not do (`cavity.factors.glm.sparse`: large sparse problems, in the memory of the host); tests hold
the two equal.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from cavity.inference import evidence
from cavity.inference import kernel as general
from cavity.inference.evidence import Evidence
from cavity.inference.kernel import Kernel, Model
from cavity.inference.measure import Moved, measure
from cavity.inference.memory import Plan
from cavity.inference.step import Info, State


class Setting(NamedTuple):
    """How a sweep is made, apart from the data."""

    power: float
    share: float  # of the asked move that is made, where sites settle
    settles: bool


class Report(NamedTuple):
    """What a driver has to say at the end of a fit."""

    values: Any  # for the user: `Result.sampling`
    complaint: str | None  # a warning's text, where there is cause


class Driver(NamedTuple):
    """The functions a fit calls; states have at least `q` and `sites`."""

    start: Callable[..., Any]  # (kernel, model, own) -> state, with sites of one
    resume: Callable[..., Any]  # (kernel, model, state, sites) -> state with these sites; None where q is improper
    sweep: Callable[..., tuple[Any, Info, Any]]  # (kernel, model, state, plan, rates, setting) -> state, info, cut
    remember: Callable[[Any], Any]  # state -> what `measure` needs of it later
    measure: Callable[..., Moved]  # (model, reference, before, old, state) -> what a sweep did
    log_evidence: Callable[..., Evidence]  # (kernel, model, sites, plan, power)
    on_device: bool  # whether data are JAX arrays
    accelerates: bool = False  # whether sweeps depend on sites alone and may be combined
    repeats: bool = False  # whether data that are counted again and again are no cause for a warning
    report: Callable[[], Report | None] = lambda: None
    score: Callable[[], float] = lambda: float("nan")  # mean log density of the data under their cavities, last sweep


# Two programs, and those of `measure`: only the sweep depends on the factor, the others are compiled once per family.


@partial(jax.jit, static_argnames=("kernel", "power", "mode"))
def one_sweep(
    kernel: Kernel, state: State, model: Model, plan: Plan, rates: Array, power: float, mode: Any
) -> tuple[State, Info]:
    """The visits of a plan."""
    return kernel.sweep(state, model, plan, rates, power=power, mode=mode)


close_sweep = jax.jit(general.settle, static_argnames="average")


def start(kernel: Kernel, model: Model, own: bool) -> State:
    """q equal to the prior."""
    return kernel.init(model, own)


def resume(kernel: Kernel, model: Model, state: State, sites: Any) -> State | None:
    """q rebuilt from sites."""
    q = model.prior + kernel.total(sites, model)
    return state._replace(q=q, sites=sites) if bool(q.is_proper()) else None


def sweep(
    kernel: Kernel, model: Model, state: State, plan: Plan, rates: np.ndarray, setting: Setting
) -> tuple[State, Info, Any]:
    """One pass over the data under jit."""
    mode = kernel.mode(model, model.weight, plan, rates)
    end, info = one_sweep(kernel, state, model, on_device(plan), jnp.asarray(rates), setting.power, mode)
    end, cut = close_sweep(model.prior, model.counts, state, end, setting.share, average=setting.settles)
    return end, info, cut


def log_evidence(kernel: Kernel, model: Model, sites: Any, plan: Plan, power: float) -> Evidence:
    """log Z by one closing pass over the data."""
    return evidence.log_evidence(kernel, model, sites, on_device(plan), power)


def on_device(plan: Plan) -> Plan:
    """A plan as JAX arrays; 32-bit row numbers are enough."""
    return Plan(*(jnp.asarray(np.asarray(leaf, dtype=np.int32)) for leaf in plan))


COMPILED = Driver(
    start,
    resume,
    sweep,
    remember=lambda state: state.q,
    measure=lambda model, reference, before, old, state: measure(reference, before, old, state.q),
    log_evidence=log_evidence,
    on_device=True,
    accelerates=True,
)
