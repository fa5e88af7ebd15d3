"""Bad and extreme inputs end in a ValueError that names an argument, or in a finite proper posterior. Nothing else.

`make fuzz` draws 5,000 of them over all factors and algorithms; `make test` 200 over a few, since each pair of factor
and algorithm is compiled for each shape.
"""

import os
import warnings

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cavity

EXAMPLES = int(os.environ.get("CAVITY_FUZZ", "200"))
THOROUGH = EXAMPLES > 200
ARGUMENTS = ("X", "y", "weights", "prior", "data", "variance")

FACTORS = {
    "probit": cavity.factors.probit(),
    "gaussian": cavity.factors.gaussian(0.5),
    "logit": cavity.factors.logit(),
    "poisson": cavity.factors.poisson(),
    "student_t": cavity.factors.student_t(3.0, 1.0),
}
ALGORITHMS = {
    "ep": cavity.ep(),
    "sep": cavity.sep(batch_size=3),
    "aep": cavity.aep(),
    "sep_one": cavity.sep(),
    "adf": cavity.adf(),
    "vmp": cavity.vmp(),
    "dsep": cavity.dsep(n_sites=2),
    "literal": cavity.sep(rate=1.0),
}
SHAPES = [(8, 2), (2, 4), (1, 1), (0, 2), (8, 3), (1, 3)] if THOROUGH else [(8, 2), (2, 4), (1, 1), (0, 2)]
CHOSEN_FACTORS = list(FACTORS) if THOROUGH else ["probit", "gaussian"]
CHOSEN_ALGORITHMS = list(ALGORITHMS) if THOROUGH else ["ep", "sep", "aep"]

TROUBLES = [
    "none",
    "nan",
    "infinity",
    "one class",
    "duplicate columns",
    "constant column",
    "zero column",
    "separable",
    "duplicate rows",
    "large scale",
    "small scale",
    "mixed scales",
    "bad labels",
    "heavy weights",
    "odd weights",
]


@st.composite
def problems(draw, factor):
    """A data set with one or two things wrong with it, a prior variance, and what to fit it with."""
    n, dim = draw(st.sampled_from(SHAPES))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    algorithm = draw(st.sampled_from(CHOSEN_ALGORITHMS))
    features = rng.normal(size=(n, dim))
    activation = features @ rng.normal(size=dim)
    if factor in ("probit", "logit"):
        y = np.where(activation + rng.normal(size=n) > 0, 1.0, -1.0)
    elif factor == "poisson":
        y = rng.poisson(np.exp(np.minimum(activation, 5.0))).astype(float)
    else:
        y = activation + rng.normal(size=n)
    weights = None
    exponent = draw(st.floats(-150, 150))
    for trouble in draw(st.lists(st.sampled_from(TROUBLES), min_size=1, max_size=2)):
        if trouble == "nan" and n:
            features[0, 0] = np.nan
        elif trouble == "infinity" and n:
            features[-1, -1] = np.inf
        elif trouble == "one class":
            y = np.abs(y)
        elif trouble == "duplicate columns":
            features[:, -1] = features[:, 0]
        elif trouble == "constant column":
            features[:, 0] = 1.0
        elif trouble == "zero column":
            features[:, 0] = 0.0
        elif trouble == "separable" and factor in ("probit", "logit"):
            y = np.where(features[:, 0] > 0, 1.0, -1.0)
        elif trouble == "duplicate rows" and n:
            features[:] = features[0]
        elif trouble == "large scale":
            features = features * 10.0 ** abs(exponent)
        elif trouble == "small scale":
            features = features * 10.0 ** -abs(exponent)
        elif trouble == "mixed scales":
            features = features * 10.0 ** rng.uniform(-abs(exponent), abs(exponent), dim)
        elif trouble == "bad labels":
            y = y + draw(st.sampled_from([0.5, -3.0, np.nan, 1e150]))
        elif trouble == "heavy weights":
            weights = 10.0 ** rng.uniform(0, 12, n)
        elif trouble == "odd weights":
            weights = rng.choice([0.0, 1.0 / max(n, 1), draw(st.sampled_from([-1.0, 1e-12, np.nan]))], n)
    variance = 10.0 ** draw(st.floats(-12, 12))
    return algorithm, features, y, weights, variance


@pytest.mark.parametrize("factor", CHOSEN_FACTORS)
@settings(
    max_examples=EXAMPLES // len(CHOSEN_FACTORS),
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    database=None,
)
@given(data=st.data())
def test_clear_error_or_proper_posterior(factor, data):
    algorithm, features, y, weights, variance = data.draw(problems(factor))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", cavity.ConvergenceWarning)
        warnings.simplefilter("ignore", cavity.CollapseWarning)
        warnings.simplefilter("ignore", cavity.SharingWarning)
        try:
            prior = cavity.Gaussian.isotropic(features.shape[1], variance)
            result = cavity.fit(
                FACTORS[factor], prior, (features, y), ALGORITHMS[algorithm], weights=weights, max_sweeps=10
            )
        except ValueError as error:
            message: str | None = str(error)
        else:
            message = None
    if message is not None:
        assert message.startswith(ARGUMENTS), message
        return
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(result.posterior))
    assert bool(result.posterior.is_proper())
    assert np.all(np.isfinite(result.posterior.mean))
    assert np.all(np.isfinite(result.posterior.covariance))
    assert np.isfinite(result.log_evidence)
    if result.converged:
        assert result.history.skipped[-1] == 0
        # probabilities of discrete outcomes; ADF includes all copies of a heavy row at once, from one cavity
        if factor in ("probit", "logit", "poisson") and not (algorithm == "adf" and weights is not None):
            assert result.log_evidence < 1e-6
