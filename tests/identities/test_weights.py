"""Weights are counts: weight 2 is the row twice, weight 0 is no row."""

import jax
import numpy as np
import pytest

import cavity
from tests.registry import FACTORS, assert_trees_close, thinned

WEIGHTS = np.array([2, 1, 1, 0, 3, 1, 1, 2, 0, 1, 1, 1])
ALGORITHMS = {
    "ep": cavity.ep(batch_size=4),
    "aep": cavity.aep(),
    "sep": cavity.sep(),
    "daep": cavity.daep(n_sites=3, groups=np.arange(12) % 3),
}
MODELS = [("probit", name) for name in ALGORITHMS] + [("gaussian", "sep"), ("probit-diagonal", "aep")]


@pytest.mark.parametrize(("model", "name"), thinned(MODELS, lambda model, name: name in ("ep", "sep", "adf", "dsep")))
def test_weights_are_counts(model, name):
    case, algorithm = FACTORS[model], ALGORITHMS[name]
    repeat = lambda leaf: np.repeat(leaf, WEIGHTS, axis=0)
    options = {"tol": 1e-12, "max_sweeps": 100}
    repeated = cavity.daep(groups=repeat(np.arange(12) % 3)) if name == "daep" else algorithm
    weighted = cavity.fit(case.factor, case.prior, case.data, algorithm, weights=WEIGHTS, **options)
    plain = cavity.fit(case.factor, case.prior, jax.tree.map(repeat, case.data), repeated, **options)
    assert_trees_close(weighted.posterior, plain.posterior, rtol=1e-10)
    np.testing.assert_allclose(weighted.log_evidence, plain.log_evidence, atol=1e-9)


@pytest.mark.parametrize("algorithm", [cavity.ep(), cavity.parallel_ep(), cavity.aep()], ids=["ep", "parallel", "aep"])
def test_rows_that_weigh_almost_nothing_are_not_skipped(algorithm):
    # a cavity removes no more of a site than q holds: removing a whole copy would leave nothing proper
    case = FACTORS["probit"]
    weights = np.where(np.arange(12) % 2 == 0, 1e-6, 1.0)
    fitted = cavity.fit(case.factor, case.prior, case.data, algorithm, weights=weights, tol=1e-10)
    without = cavity.fit(case.factor, case.prior, case.data, algorithm, weights=np.round(weights), tol=1e-10)
    assert fitted.converged
    assert fitted.n_skipped == 0
    np.testing.assert_allclose(fitted.posterior.mean, without.posterior.mean, atol=1e-5)
    np.testing.assert_allclose(fitted.log_evidence, without.log_evidence, atol=1e-4)
