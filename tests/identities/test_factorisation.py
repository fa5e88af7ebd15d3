"""q = λ₀ + Σ_k W_k λ_k, equation (1), after any sequence of batches with K ≥ 1, and every way to take a batch alike."""

import numpy as np
import pytest

import cavity
from cavity import _tree as tree
from tests.registry import FACTORS, assert_trees_close, leaves, thinned
from tests.steps import WAYS

N = 12
CASES = thinned(
    [(name, k) for name in FACTORS for k in (1, 3, 12)],
    lambda name, k: name == "mixture" or (k == 3 and name not in ("logit", "probit-diagonal", "student-t", "poisson")),
)


def slots(n_sites):
    """The slot of each row, and an algorithm that has it."""
    slot = np.arange(N) % max(n_sites, 1)
    named = {0: cavity.adf(), 1: cavity.aep(), N: cavity.ep()}
    return slot, named.get(n_sites) or cavity.daep(groups=slot)


def some_batches(n_sites, number=8):
    """Rows, rate and slot of a few batches; rows that share a slot may come twice in one."""
    rng, slot = np.random.default_rng(n_sites), slots(n_sites)[0]
    for _ in range(number):
        k = rng.integers(max(n_sites, 1))
        rows = rng.choice(N, 3, replace=False) if n_sites == N else rng.choice(np.flatnonzero(slot == k), 3)
        yield rows, rng.uniform(0.1, 1.0), k if 1 < n_sites < N else None


def begun(way, name, n_sites):
    case, weights = FACTORS[name], np.random.default_rng(n_sites).uniform(0.5, 2.0, N)
    return WAYS[way].begin(case.factor, case.prior, case.data, slots(n_sites)[1], weights=weights)


@pytest.mark.parametrize(("name", "n_sites"), CASES)
def test_sites_add_up_to_q(name, n_sites):
    steps, prior = begun("chunks", name, n_sites), FACTORS[name].prior
    for rows, rate, slot in some_batches(n_sites):
        steps.visit(rows, rate, 0.5, slot)
        assert_trees_close(steps.state.q, steps.rebuilt(), rtol=1e-10)
    assert max(np.max(np.abs(a - b)) for a, b in zip(leaves(steps.state.q), leaves(prior), strict=True)) > 1e-2


QUICK = [("probit", 0), ("probit", 1), ("probit", 3), ("probit", 12), ("mixture", 1), ("bernoulli-beta", 12)]
EVERY = thinned([(name, k) for name in FACTORS for k in (0, 1, 3, 12)], lambda *case: case in QUICK)


@pytest.mark.parametrize(("name", "n_sites"), EVERY)
def test_every_way_to_take_a_batch_is_the_same(name, n_sites):
    ways = {way: begun(way, name, n_sites) for way in WAYS}
    plain = ways["general chunks"]
    for rows, rate, slot in some_batches(n_sites):
        info = {way: steps.visit(rows, rate, 0.5, slot) for way, steps in ways.items()}
        for way, steps in ways.items():
            assert_trees_close(steps.state.q, plain.state.q, rtol=1e-10)
            if n_sites > 0:
                assert_trees_close(steps.rebuilt(), plain.state.q, rtol=1e-10)
            if n_sites < N:
                assert_trees_close(steps.state.sites, plain.state.sites, rtol=1e-9)
                assert_trees_close(steps.state.filed, plain.state.filed, rtol=1e-9)
                np.testing.assert_allclose(steps.state.filed_weight, plain.state.filed_weight, rtol=1e-14)
            assert info[way][:2] == info["general chunks"][:2]
            if n_sites == 0:  # whose evidence is made of scales
                scales = info[way].log_scale, info["general chunks"].log_scale
                np.testing.assert_allclose(*scales, rtol=1e-9, atol=1e-13)  # nothing, where sites are exact


def test_a_batch_leaves_the_state_that_it_began_with():
    for way, n_sites in ((way, k) for way in WAYS for k in (1, 3, 12)):
        steps = begun(way, "probit", n_sites)
        before, copied = steps.state, tree.map(np.array, steps.state)
        for rows, rate, slot in some_batches(n_sites, 2):
            steps.visit(rows, rate, 0.5, slot)
        for kept, wanted in zip(leaves(before), leaves(copied), strict=True):
            np.testing.assert_array_equal(kept, wanted)
