"""Draws of a block's tilted distribution c(θ) Π p(x_n|θ)^α by NumPyro's Hamiltonian Monte Carlo.

The chains run in coordinates z in which the tilted distribution is nearly N(0, I): θ = mode + L⁻ᵀ z, with L Lᵀ the
curvature at the mode. There a trajectory of a quarter of a period gives nearly independent draws, chains start as draws
of N(0, I), a short warm-up is enough, and the step size needs no adaptation within a visit.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from cavity import linalg

NEWTON_STEPS = 15
BRIDGE_STEPS = 30


class Plan(NamedTuple):
    """How a block is sampled."""

    sampler: str  # "HMC" or "NUTS"
    n_chains: int
    n_draws: int  # of each chain
    n_warmup: int  # transitions of each chain that are thrown away


class Draws(NamedTuple):
    """What the chains of one block leave."""

    theta: Any  # (chain, draw, D)
    log_total: Any  # log ∫ of the tilted density
    accepted: Any  # mean acceptance probability
    diverging: Any  # transitions that left the region where the step size is stable


class Frame(NamedTuple):
    """Coordinates: θ = centre + B z."""

    centre: Array
    basis: Array  # B = L⁻ᵀ, upper: a product at each of thousands of gradients, where a solve would call LAPACK

    def to_theta(self, z: Array) -> Array:
        return self.centre + self.basis @ z

    def log_volume(self) -> Array:
        return jnp.sum(jnp.log(jnp.diagonal(self.basis)))


def frame_of(log_density: Callable[[Array], Array], start: Array, deviation: Array) -> Frame:
    """Mode and curvature by damped Newton steps; `start` and `deviation` where the curvature is not that of a peak."""
    curvature = lambda theta: linalg.cholesky(-jax.hessian(log_density)(theta))

    def newton(_: Any, theta: Array) -> Array:
        slope = jax.grad(log_density)(theta)
        step = linalg.solve(curvature(theta), slope)
        return theta + step / (1 + jnp.sqrt(slope @ step))  # shorter, the farther it reaches

    mode = jax.lax.fori_loop(0, NEWTON_STEPS, newton, start)
    chol = curvature(mode)
    found = jnp.all(jnp.isfinite(chol)) & jnp.all(jnp.isfinite(mode))
    basis = linalg.inverse_transpose(jnp.where(found, chol, jnp.diag(1 / deviation)))
    return Frame(jnp.where(found, mode, start), basis)


def sample(key: Array, log_density: Callable[[Array], Array], frame: Frame, step_size: Array, plan: Plan) -> Draws:
    """The chains of one block."""
    in_frame = lambda z: log_density(frame.to_theta(z)) + frame.log_volume()
    dim = len(frame.centre)
    start, run, fresh = jax.random.split(key, 3)
    first = jax.random.normal(start, (plan.n_chains, dim), dtype=float)
    one = partial(chain, in_frame, step_size=step_size, plan=plan)
    z, accepted, diverging = jax.vmap(one)(jax.random.split(run, plan.n_chains), first)
    proposed = jax.random.normal(fresh, (plan.n_chains * plan.n_draws, dim), dtype=float)
    log_ratio = jax.vmap(lambda z: in_frame(z) + 0.5 * z @ z + 0.5 * dim * jnp.log(2 * jnp.pi))
    log_total = bridge(log_ratio(z.reshape(-1, dim)), log_ratio(proposed))
    theta = jax.vmap(jax.vmap(frame.to_theta))(z)
    return Draws(theta, log_total, jnp.mean(accepted), jnp.sum(diverging))


def chain(
    log_density: Callable[[Array], Array], key: Array, first: Array, step_size: Array, plan: Plan
) -> tuple[Array, Array, Array]:
    """One chain: draws, acceptance probabilities and divergences."""
    hmc = numpyro_hmc()
    start, go_on = hmc(potential_fn=lambda z: -log_density(z), algo=plan.sampler)
    length = {"trajectory_length": np.pi / 2} if plan.sampler == "HMC" else {}
    state = start(
        first,
        num_warmup=0,
        step_size=step_size,
        adapt_step_size=False,
        adapt_mass_matrix=False,
        rng_key=key,
        **length,
    )

    def transition(state: Any, _: None) -> tuple[Any, Any]:
        state = go_on(state)
        return state, (state.z, state.accept_prob, state.diverging)

    _, (z, accepted, diverging) = jax.lax.scan(transition, state, None, length=plan.n_warmup + plan.n_draws)
    return z[plan.n_warmup :], accepted, diverging


def bridge(at_draws: Array, at_proposals: Array) -> Array:
    """log ∫ p̃ from log p̃/N(0, I) at draws of p and of N(0, I): the bridge estimate of Meng and Wong (1996)."""
    log_mean = lambda values: jax.nn.logsumexp(values) - jnp.log(len(values))

    def improve(_: Any, log_total: Array) -> Array:
        weight = lambda ratio: -jnp.logaddexp(ratio - log_total, 0.0)
        return log_mean(at_proposals + weight(at_proposals)) - log_mean(weight(at_draws))

    # starting between the two one-sided estimates, both of which may have a long tail
    return jax.lax.fori_loop(0, BRIDGE_STEPS, improve, 0.5 * (jnp.median(at_draws) + jnp.median(at_proposals)))


def numpyro_hmc() -> Any:
    """NumPyro's sampler, or how to get it."""
    try:
        from numpyro.infer.hmc import hmc
    except ImportError:
        raise ImportError("cavity.factors.sampled draws with NumPyro: pip install 'cavity[nuts]'.") from None
    return hmc
