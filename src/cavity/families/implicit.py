"""Inverse moment maps in JAX: a program for each shape, with derivatives of any order by the implicit function theorem.

The maps themselves are those of `cavity.families.roots` and `cavity.families.concentrations`.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from cavity.families import concentrations, roots
from cavity.families.roots import Interpolation
from cavity.families.stirling import log_minus_digamma_slope, trigamma, wishart_excess_slope


@jax.custom_jvp
@jax.jit
def gamma_shape(excess: Array) -> Array:
    return roots.gamma_root(excess)


@gamma_shape.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    shape = gamma_shape(*primals)
    return shape, tangents[0] / log_minus_digamma_slope(shape)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
@functools.partial(jax.jit, static_argnums=1)
def wishart_half(excess: Array, dim: int) -> Array:
    return roots.wishart_root(excess, dim)


@wishart_half.defjvp
def _(dim: int, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    half = wishart_half(*primals, dim)
    return half, tangents[0] / wishart_excess_slope(half, dim)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def half_step(half: Array, change: Array, dim: int, near: Interpolation | None = None) -> Array:
    return roots.step_of_half(half, change, dim, near)


@half_step.defjvp
def _(dim: int, primals: tuple[Array, Array, Any], tangents: tuple[Array, Array, Any]) -> tuple[Array, Array]:
    # s′(x + h) (dx + dh) = s′(x) dx + d change
    half, change, near = primals
    step, slope = half_step(half, change, dim, near), functools.partial(wishart_excess_slope, dim=dim)
    moved = (slope(half) * tangents[0] + tangents[1]) / slope(half + step)
    return step, moved - tangents[0]


@jax.custom_jvp
@jax.jit
def dirichlet_concentration(mean_log: Array) -> Array:
    return concentrations.root_of_concentrations(mean_log)


@dirichlet_concentration.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    alpha = dirichlet_concentration(*primals)
    first = lambda array: jnp.moveaxis(array, -1, 0)
    return alpha, jnp.moveaxis(concentrations.fisher_solve(first(alpha), first(tangents[0])), 0, -1)


@jax.custom_jvp
def dirichlet_step(alpha: Array, gain: Array, near: Interpolation | None = None) -> Array:
    return concentrations.step_of_concentrations(alpha, gain, near)


@dirichlet_step.defjvp
def _(primals: tuple[Array, Array, Any], tangents: tuple[Array, Array, Any]) -> tuple[Array, Array]:
    # the derivative of E[log x] under α + δ, less that under α, is d gain
    alpha, gain, near = primals
    total = lambda array: jnp.sum(array, axis=0, keepdims=True)
    under = trigamma(alpha) * tangents[0] - trigamma(total(alpha)) * total(tangents[0])
    step = dirichlet_step(alpha, gain, near)
    return step, concentrations.fisher_solve(alpha + step, tangents[1] + under) - tangents[0]
