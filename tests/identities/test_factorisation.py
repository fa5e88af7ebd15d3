"""q = λ₀ + Σ_k W_k λ_k, equation (1), after any sequence of steps with K ≥ 1."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cavity.inference import memory
from cavity.inference.kernel import Model, init
from cavity.inference.step import Batch, step
from tests.registry import FACTORS, assert_trees_close, leaves, thinned

CASES = thinned(
    [(name, k) for name in FACTORS for k in (1, 3, 12)],
    lambda name, k: name == "mixture" or (k == 3 and name not in ("logit", "probit-diagonal", "student-t", "poisson")),
)


@pytest.mark.parametrize(("name", "n_sites"), CASES)
def test_sites_add_up_to_q(name, n_sites):
    case = FACTORS[name]
    n = len(jax.tree.leaves(case.data)[0])
    rng = np.random.default_rng(n_sites)
    own = n_sites == n
    slot = np.arange(n) % n_sites
    weight = rng.uniform(0.5, 2.0, n)
    count = np.bincount(slot, weight)
    with jax.enable_x64(True):
        model = Model(case.factor, case.prior, case.data, weight, slot, count)
        state = init(model, own)
        run = jax.jit(
            lambda state, rows, slot, rate: step(
                state, Batch(rows, slot), case.data, weight, count, factor=case.factor, power=0.5, rate=rate
            )[0]
        )
        for _ in range(8):
            k = rng.integers(n_sites)
            rows = rng.choice(np.flatnonzero(slot == k), 3) if not own else rng.choice(n, 3, replace=False)
            state = run(state, jnp.asarray(rows), jnp.asarray(rows if own else k), rng.uniform(0.1, 1.0))
        rebuilt = case.prior + memory.total(state.sites, count)
    assert_trees_close(state.q, rebuilt, rtol=1e-10)
    assert max(np.max(np.abs(a - b)) for a, b in zip(leaves(state.q), leaves(case.prior), strict=True)) > 1e-2
