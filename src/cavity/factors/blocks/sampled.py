"""Blocks whose tilted moments are sampled: distributed EP, and its tied relatives.

From S draws of the tilted distribution with mean m and covariance C (divisor S − 1) there are two ways to a site.

Moment matching takes natural parameters from them. The inverse of a sample covariance is too large on average, by
(S − 1)/(S − D − 2) for independent Gaussian draws, and the errors of all blocks add up, so that

    Λ̂ = (S − D − 2)/(S − 1) C⁻¹,   ŝ = Λ̂ m                       (D = 1 if diagonal)

are used: unbiased for independent Gaussian draws, but as noisy as an inverse of a sample covariance is.

The natural gradient never inverts it. With q = N(μ, Λ⁻¹) and the block's site λ,

    λ̂ = λ + ε δ,   δ_Λ = Λ − Λ C Λ,   δ_s = Λ (m − μ) + δ_Λ μ,

is where moment matching would go, to first order, times ε. It is linear in m and C. Those are unbiased if draws are
independent and from the tilted distribution, so that noise then averages out over visits however few the draws of each.
Chains come near to that: what warm-up leaves of their start, and draws of one chain that are alike (C is then too
small), are a bias that does not average out.

This is EP-η of So and Turner (2024), λ + ε (∂η/∂μ)(m̂ − μ(q)), except that it works in mean and covariance, not in mean
and second moment: that has (C + (m − μ)(m − μ)ᵀ) in the place of C, which is the same at a fixed point, but makes
Λ + ε δ_Λ improper where a block lies more than 1/√ε deviations off.
"""

from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from cavity import _tree as tree
from cavity import linalg
from cavity._checks import is_integer, is_number
from cavity._pytree import pytree
from cavity.factors.base import Factor, scalar_of_user
from cavity.factors.blocks import chains
from cavity.factors.blocks.base import BlockFactor, Blocks
from cavity.factors.blocks.chain_diagnostics import of_sweep, record_of, report_of
from cavity.factors.blocks.chains import Draws, Plan
from cavity.factors.blocks.sums import Answer, Asking, Question
from cavity.families import DiagonalGaussian, Gaussian
from cavity.inference.boundary import call, few_sizes
from cavity.inference.contract import Report, Rows
from cavity.inference.update import State

TARGET = 0.9  # acceptance probability: the step size of a block follows it from visit to visit
MOST_BLOCKS = 2**20  # whose visits have numbers of their own
LAST_SWEEP = 2**32 - 1
NO_OWN_SITES = (
    "blocks that share a site say what it should be by a natural-gradient step, which is not the own site that log Z "
    "needs of each. Fit with evidence=False, or use cavity.ep() or parallel_ep(), or step=None and more draws."
)


@pytree
class Sampled(BlockFactor):
    """A block whose site is sampled."""

    rows_factor: Any
    step: Any  # None to match moments
    plan: Plan = field(metadata={"static": True})

    def check_setting(self, prior: Any, algorithm: Any) -> None:
        chains.numpyro_hmc()
        if not isinstance(prior, Gaussian | DiagonalGaussian) or np.ndim(prior.shift) != 1:
            raise ValueError(
                "prior must be a Gaussian or DiagonalGaussian over one vector for sampled(); got "
                f"{type(prior).__name__} of shape {prior.event_shape()}."
            )
        if algorithm.power == 0:
            raise ValueError("power must be positive with sampled(); got power=0. Use nested() or a factor of rows.")
        if self.step is not None and algorithm.n_sites == 0:
            raise ValueError(
                "step must be None with cavity.adf(): nothing is remembered, so that each block would be counted by "
                f"that fraction only; got step={float(self.step):g}. Match moments, or use cavity.ep() or sep()."
            )
        needed = fewest(prior)
        if self.step is None and self.plan.n_chains * self.plan.n_draws < needed:
            raise ValueError(
                f"n_draws must be at least {needed} to invert a sample covariance here; got "
                f"{self.plan.n_chains * self.plan.n_draws}. For fewer give a step: sampled(factor, n_draws, step=0.1)."
            )

    def asking(self, prior: Any, data: Blocks) -> "Drawing":
        return Drawing(self, prior)


def sampled(
    factor: Factor | Callable[[Any, Any], Any],
    n_draws: int = 400,
    step: float | None = None,
    n_chains: int = 8,
    n_warmup: int = 5,
    sampler: str = "hmc",
) -> Sampled:
    """A likelihood over blocks of rows, with tilted moments by Hamiltonian Monte Carlo.

    Args:
        factor: that of one row, such as `cavity.factors.logit()`, or a function `log_lik(theta, datum)`.
        n_draws: kept at every visit to a block, over all chains; rounded up to a multiple of `n_chains`, so that 2 of 8
            chains are 8.
        step: None to match moments; a number ε for a natural-gradient step, which needs few draws. Then there is no
            `adf()`, and no evidence where blocks share a site.
        n_chains: run side by side; R-hat compares them.
        n_warmup: transitions of each chain thrown away at every visit.
        sampler: "hmc", or "nuts" for tilted distributions far from Gaussian, at several times the cost.
    """
    if isinstance(factor, BlockFactor) or not (isinstance(factor, Factor) or callable(factor)):
        raise ValueError(
            f"factor must be that of one row, such as cavity.factors.logit(), or a function; got {factor!r}."
        )
    for name, value, least in (("n_draws", n_draws, 2), ("n_chains", n_chains, 2), ("n_warmup", n_warmup, 0)):
        if not (is_integer(value) and value >= least):
            raise ValueError(f"{name} must be an integer of at least {least}; got {name}={value!r}.")
    if step is not None and not (is_number(step) and 0 < step <= 1):
        raise ValueError(f"step must be None or a number in (0, 1]; got {step=}.")
    if sampler not in ("hmc", "nuts"):
        raise ValueError(f"sampler must be 'hmc' or 'nuts'; got {sampler=!r}.")
    rows_factor = factor if isinstance(factor, Factor) else ByLogLik(factor)
    each = -(-n_draws // n_chains)
    return Sampled(rows_factor, step, Plan(sampler.upper(), n_chains, each, n_warmup))


@pytree
class ByLogLik(Factor):
    """A factor that says log p(x|θ) and nothing else."""

    function: Callable[[Any, Any], Any] = field(metadata={"static": True})

    def log_lik(self, theta: Any, datum: Any) -> Array:
        return scalar_of_user("log_lik", self.function, theta, datum)

    def log_mean(self, q: Any, datum: Any, power: float) -> Array:
        raise ValueError("factor must be used by sampled(): it has a log_lik only.")


class Drawing(Asking):
    """Draws for each visit. Beside a block are kept its step size, and how the chains of its visits mixed."""

    def __init__(self, factor: Sampled, prior: Any) -> None:
        self.factor, self.prior = factor, prior
        self.no_own_sites = None if factor.step is None else NO_OWN_SITES

    def beside(self, n_blocks: int) -> dict[str, np.ndarray]:
        return {
            "step_size": np.full(n_blocks, len(self.prior.shift) ** -0.25),
            "visits": np.full(n_blocks, None, dtype=object),  # of the last sweep: its number, and their records
        }

    def ask(self, question: Question) -> tuple[Answer, Any]:
        rows, kept = question.rows, question.rows.beside
        answer, draws = self.draw(question)
        if question.aside is not None:
            return answer, kept
        error = np.nan_to_num(draws.accepted) - TARGET
        step_size = np.clip(kept["step_size"] * np.exp(error), 1e-3, 1.0)
        visits = np.full(len(rows.weight), None, dtype=object)
        for i, before in enumerate(kept["visits"]):
            sweep = question.setting.sweep
            earlier = before[1] if before is not None and before[0] == sweep else ()
            visits[i] = sweep, (*earlier, record_of(draws.theta[i], draws.diverging[i], self.factor.plan.n_warmup))
        return answer, {"step_size": step_size, "visits": visits}

    def draw(self, question: Question) -> tuple[Answer, Draws]:
        """Answers with the random numbers of a question, and nothing learned from them."""
        rows, (power, seed, sweep, *_) = question.rows, question.setting
        n = len(rows.weight)
        size = few_sizes(n)
        fill = lambda leaf: np.concatenate([leaf, np.broadcast_to(leaf[:1], (size - n, *leaf.shape[1:]))])
        # visits have keys by sweep and block; questions for the evidence count down from the last sweep there can be
        moment = sweep if question.aside is None else LAST_SWEEP - question.aside
        given = numbers_of_visits(rows, sweep), question.cavity, question.site, filled_up(rows.data)
        number, cavity, site, data, step_size = tree.map(fill, (*given, rows.beside["step_size"]))
        blocks = Visit(number, cavity, call(log_partitions, cavity), site, data, step_size)
        answer, draws = call(visit, self.factor, question.q, seed, moment, blocks, power=power)
        return tree.map(lambda leaf: leaf[:n], (answer, draws))

    def end_sweep(self, state: State) -> State:
        visits = [records for part in state.beside for _, records in filter(None, part["visits"])]
        record = of_sweep([record for records in visits for record in records])
        return state._replace(inner=(*(state.inner or ()), record))

    def report(self, state: State) -> Report:
        return report_of(state.inner or ())

    def with_factor(self, factor: Sampled) -> "Drawing":
        return Drawing(factor, self.prior)


def numbers_of_visits(rows: Rows, sweep: int) -> np.ndarray:
    """A number for each visit, of which random numbers are made: that of the block, and another for each repetition.

    Blocks that are drawn with replacement may be seen several times in a sweep, and in a batch.
    """
    seen: dict[int, int] = {}
    numbers = np.zeros(len(rows.weight), np.uint32)
    for i, (number, before) in enumerate(zip(rows.number, rows.beside["visits"], strict=True)):
        earlier = len(before[1]) if before is not None and before[0] == sweep else 0
        again = earlier + seen.get(int(number), 0)
        seen[int(number)] = seen.get(int(number), 0) + 1
        numbers[i] = int(number) + again * MOST_BLOCKS
    return numbers


def filled_up(blocks: Blocks) -> Blocks:
    """Blocks of one of a few lengths, so that programs do not depend on the number of rows."""
    more = few_sizes(blocks.present.shape[1]) - blocks.present.shape[1]
    fill = lambda leaf: np.concatenate([leaf, np.repeat(leaf[:, :1], more, axis=1)], axis=1)
    return Blocks(tree.map(fill, blocks.rows), np.pad(blocks.present, ((0, 0), (0, more))))


@jax.jit
def log_partitions(cavity: Any) -> Array:
    """A(c) of each cavity. Apart from `visit`: two batches of triangular solves at a time can block each other."""
    return jax.vmap(lambda one: one.log_partition())(cavity)


class Visit(NamedTuple):
    """Some blocks and what they are asked: leaves have a row for each."""

    number: Any  # of each block among all
    cavity: Any
    log_partition: Any  # A(c)
    site: Any
    data: Blocks
    step_size: Any


@partial(jax.jit, static_argnames="power")
def visit(factor: Sampled, q: Any, seed: Array, moment: Array, blocks: Visit, power: float) -> tuple[Answer, Draws]:
    """Draws of some blocks' tilted distributions, and the sites that follow."""
    key = jax.random.fold_in(jax.random.key(seed), moment)

    def one(block: Visit) -> tuple[Answer, Draws]:
        def log_tilted(theta: Array) -> Array:
            terms = jax.vmap(lambda datum: factor.rows_factor.log_lik(theta, datum))(block.data.rows)
            return block.cavity.log_weight(theta) + power * jnp.sum(jnp.where(block.data.present > 0, terms, 0.0))

        frame = chains.frame_of(log_tilted, q.mean, jnp.sqrt(q.variance))
        own_key = jax.random.fold_in(key, block.number)
        draws = chains.sample(own_key, log_tilted, frame, block.step_size, factor.plan)
        log_mean = (draws.log_total - block.log_partition) / power
        theta = draws.theta.reshape(-1, draws.theta.shape[-1])
        if factor.step is None:
            return Answer((1 / power) * (matched(q, theta) - block.cavity), log_mean), draws
        return Answer(block.site + (factor.step / power) * natural_gradient(q, theta), log_mean), draws

    return jax.vmap(one)(blocks)


def matched(q: Any, theta: Array) -> Any:
    """Natural parameters from draws, unbiased if these are independent and Gaussian."""
    n, dim = theta.shape
    mean = jnp.mean(theta, 0)
    if isinstance(q, DiagonalGaussian):
        precision = (n - 3) / (n - 1) / jnp.var(theta, 0, ddof=1)
        return type(q)(precision * mean, precision)
    covariance = (theta - mean).T @ (theta - mean) / (n - 1)
    precision = (n - dim - 2) / (n - 1) * linalg.inverse(linalg.cholesky(covariance))
    return type(q)(precision @ mean, precision)


def natural_gradient(q: Any, theta: Array) -> Any:
    """Where moment matching would take η, to first order in the mean and covariance of draws."""
    step = jnp.mean(theta, 0) - q.mean
    if isinstance(q, DiagonalGaussian):
        change = q.precision - q.precision**2 * jnp.var(theta, 0, ddof=1)
        return type(q)(q.precision * step + change * q.mean, change)
    scaled = (theta - jnp.mean(theta, 0)) @ q.precision
    change = q.precision - scaled.T @ scaled / (len(theta) - 1)
    return type(q)(q.precision @ step + change @ q.mean, change)


def fewest(prior: Any) -> int:
    """Draws that moment matching needs for its estimate to have a finite mean."""
    return 4 if isinstance(prior, DiagonalGaussian) else len(prior.shift) + 3
