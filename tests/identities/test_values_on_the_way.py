"""log Z of the sites before a sweep, summed on the way, is that of a pass over the rows with these sites."""

import numpy as np
import pytest

import cavity
from cavity.inference.evidence import log_evidence
from cavity.inference.sweep import Course, sweep
from cavity.inference.threads import Threads
from cavity.inference.walk import Walk

N = 80
RNG = np.random.default_rng(5)
X = RNG.normal(size=(N, 3))
A = X @ [1.0, -0.6, 0.4]
SIGNS = np.where(A + RNG.logistic(size=N) > 0, 1.0, -1.0)
MODELS = {
    "logit": (cavity.factors.logit(), SIGNS),
    "probit": (cavity.factors.probit(), SIGNS),
    "poisson": (cavity.factors.poisson(), RNG.poisson(np.exp(A)).astype(float)),
    "student-t": (cavity.factors.student_t(4.0, 0.7), A + RNG.normal(size=N)),
}
PRIOR = cavity.Gaussian.isotropic(3, 2.0)
LIGHT = np.tile([0.3, 1.0, 2.5, 0.8], N // 4)


@pytest.mark.parametrize("power", [1.0, 0.5, 0.0])
@pytest.mark.parametrize("weights", [None, LIGHT], ids=["whole", "light"])
@pytest.mark.parametrize("name", list(MODELS))
def test_sum_of_the_way_is_that_of_a_pass(name, weights, power):
    factor, y = MODELS[name]
    settings = {"weights": weights, "tol": 1e-9, "keep_data": True}
    result = cavity.fit(factor, PRIOR, (X, y), cavity.parallel_ep(power=power), **settings)
    state, algorithm = result.progress.state, cavity.parallel_ep(power=power)
    with Threads(1) as threads:
        walk = Walk(result.fitted.walk.problem, threads)
        made = sweep(walk, state, Course(algorithm, 0, 1, 1.0, values=True))
        passed = log_evidence(walk, state, power)
    told = float(state.q.log_partition()) - float(state.prior.log_partition()) + made.info.value
    np.testing.assert_allclose(told, passed.value, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("tol", [1e-10, 1e-4, 1e-2])
def test_evidence_is_as_good_as_the_tolerance(tol):
    """Off by less than that many nats, however it was found."""
    factor, y = MODELS["logit"]
    exact = cavity.fit(factor, PRIOR, (X, y), cavity.ep(), tol=1e-12).log_evidence
    found = cavity.fit(factor, PRIOR, (X, y), cavity.parallel_ep(), tol=tol).log_evidence
    assert abs(found - exact) < max(tol, 1e-9)
