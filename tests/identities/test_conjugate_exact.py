"""On a conjugate model every algorithm is exact: λ̂_n is the likelihood itself, whatever the cavity (11)."""

import jax
import numpy as np
import pytest

import cavity
from tests.registry import ALGORITHMS, DETERMINISTIC, FACTORS, assert_trees_close

CONJUGATE = [name for name, case in FACTORS.items() if case.exact is not None]
FEW = ["ep", "sep", "daep"]  # for all but two models, to keep compilation short
PAIRS = [(m, a) for m in CONJUGATE for a in ALGORITHMS if m in ("gaussian", "poisson-gamma") or a in FEW]


@pytest.mark.parametrize(("model", "name"), PAIRS)
def test_every_algorithm_finds_the_exact_posterior(model, name):
    case = FACTORS[model]
    weight = np.ones(len(jax.tree.leaves(case.data)[0]))
    exact = case.exact(case.prior, case.data, weight)
    result = cavity.fit(case.factor, case.prior, case.data, ALGORITHMS[name])
    tolerance = 1e-10 if name in DETERMINISTIC else 1e-6
    assert result.converged
    assert result.posterior.distance(exact) < tolerance
    assert_trees_close(result.posterior, exact, rtol=tolerance)


@pytest.mark.parametrize("model", CONJUGATE)
def test_evidence_is_exact(model):
    # log Z = A(posterior) − A(prior) + Σ log h(x_n), found here from ADF's chain of predictive densities
    case = FACTORS[model]
    chain = cavity.fit(case.factor, case.prior, case.data, cavity.adf()).log_evidence
    for algorithm in (cavity.ep(), cavity.sep(batch_size=5)):
        result = cavity.fit(case.factor, case.prior, case.data, algorithm)
        np.testing.assert_allclose(result.log_evidence, chain, atol=1e-6)
