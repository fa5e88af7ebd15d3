"""Families go through jit, vmap and grad as pytrees, and agree with themselves outside."""

import jax
import numpy as np
import pytest

from tests.registry import FAMILIES, member


@pytest.mark.parametrize("name", FAMILIES)
def test_vmap_and_jit_agree_with_a_loop(name):
    members = [member(name, seed=seed) for seed in range(2)]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *members)
    read = lambda q: (q.log_partition(), q.moments().from_moments(), q.entropy(), q.is_proper())
    with jax.enable_x64(True):
        batched = jax.jit(jax.vmap(read))(stacked)
    for i, q in enumerate(members):
        for got, wanted in zip(jax.tree.leaves(batched), jax.tree.leaves(read(q)), strict=True):
            np.testing.assert_allclose(got[i], wanted, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("name", FAMILIES)
def test_gradients_of_kl_and_of_the_inverse_moment_map(name):
    # ∇_p KL(q‖p) = ∇A(p) − ∇A(q), and ∇_μ ⟨η(μ), v⟩ along v is v ∇²A⁻¹ v > 0.
    q, p = member(name, seed=1), member(name, seed=2)
    with jax.enable_x64(True):
        gradient = jax.jit(jax.grad(lambda other: q_kl(q, other)))(p)
        mean = q.moments()
        _, change = jax.jit(lambda m, v: jax.jvp(lambda t: t.from_moments(), (m,), (v,)))(mean, mean)
        _, back = jax.jit(lambda eta, v: jax.jvp(lambda t: t.moments(), (eta,), (v,)))(q, change)
    for got, a, b in zip(*map(jax.tree.leaves, (gradient, p.moments(), q.moments())), strict=True):
        np.testing.assert_allclose(got, a - b, rtol=1e-9, atol=1e-11)
    for got, wanted in zip(jax.tree.leaves(back), jax.tree.leaves(mean), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-8, atol=1e-10)


def q_kl(q, other):
    """KL with q also traced, as inside the engine."""
    traced = jax.tree.map(jax.numpy.asarray, q)
    return traced.kl(other)
