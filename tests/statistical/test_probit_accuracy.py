"""Probit, N = 5,000, D = 4, the paper's synthetic experiment: tied sites against EP, and all of them against NUTS.

Inputs come from one Gaussian or from a mixture of five. Deterministic given the seeds; NUTS's own error, for 20,000
draws in four dimensions, is about (D + D(D+1)/2)/(2 · 20,000) ≈ 4e-4 in KL.
"""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity.special import log_ndtr
from tests.statistical.sources import nuts

pytestmark = pytest.mark.slow

SEEDS, INPUTS = range(5), ("gaussian", "mixture")
PRIOR = cavity.Gaussian.isotropic(4)


def draw(inputs, seed, n=5000, dim=4):
    """Inputs, labels sampled from the model with θ ~ N(0, I), and the component of each input."""
    rng = np.random.default_rng([seed, INPUTS.index(inputs)])
    component = rng.integers(5, size=n)
    features = rng.normal(size=(n, dim))
    if inputs == "mixture":
        features = 2 * rng.normal(size=(5, dim))[component] + 0.5 * features
    y = np.where(features @ rng.normal(size=dim) + rng.normal(size=n) > 0, 1.0, -1.0)
    return (features, y), component


def fit(data, algorithm, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cavity.ConvergenceWarning)
        warnings.simplefilter("ignore", cavity.SharingWarning)
        return cavity.fit(cavity.factors.probit(), PRIOR, data, algorithm, **options)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("inputs", INPUTS)
def test_tied_sites_against_ep(inputs, seed):
    data, component = draw(inputs, seed)
    ep = fit(data, cavity.ep())
    aep = fit(data, cavity.aep())
    assert ep.posterior.kl(aep.posterior) <= 1e-4
    assert abs(aep.log_evidence - ep.log_evidence) < 0.01
    algorithms = {b: cavity.sep(batch_size=b) for b in (1, 10, 100)}
    algorithms["groups"] = cavity.dsep(groups=component)
    algorithms["random groups"] = cavity.dsep(n_sites=5)
    for name, algorithm in algorithms.items():
        for sweeps, limit in ((5, 5e-3), (20, 2e-4)):
            result = fit(data, algorithm, max_sweeps=sweeps)
            assert ep.posterior.kl(result.posterior) <= limit, (name, sweeps)
        assert abs(result.log_evidence - ep.log_evidence) < 0.01


@pytest.mark.parametrize("inputs", INPUTS)
def test_adf_collapses_and_is_called_out(inputs):
    data, _ = draw(inputs, 0)
    ep = fit(data, cavity.ep())
    with pytest.warns(cavity.CollapseWarning):
        adf = fit(data, cavity.adf(), max_sweeps=20)
    assert ep.posterior.kl(adf.posterior) > 1


@pytest.mark.parametrize("inputs", INPUTS)
def test_literal_sep_with_a_robbins_monro_rate_approaches_averaged_ep(inputs):
    # the median over five seeds of KL(AEP ‖ SEP) falls over 5, 20 and 80 sweeps
    distances = []
    for seed in SEEDS:
        data, _ = draw(inputs, seed)
        aep = fit(data, cavity.aep(), tol=1e-9).posterior
        algorithm = cavity.sep(rate=cavity.robbins_monro())
        distances.append([aep.kl(fit(data, algorithm, max_sweeps=s, seed=seed, tol=0).posterior) for s in (5, 20, 80)])
    medians = np.median(distances, axis=0)
    assert medians[0] > 2 * medians[1] > 4 * medians[2]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("inputs", INPUTS)
def test_against_nuts(inputs, seed):
    (features, y), component = draw(inputs, seed)
    potential = lambda theta: 0.5 * jnp.sum(theta**2) - jnp.sum(log_ndtr(y * (features @ theta)))
    draws = nuts(potential, 4, seed)
    assert len(draws) >= 20_000
    reference = cavity.Gaussian.from_mean(draws.mean(0), np.cov(draws.T))
    for algorithm in (cavity.ep(), cavity.aep(), cavity.sep(batch_size=100), cavity.dsep(groups=component)):
        result = fit((features, y), algorithm)
        assert reference.kl(result.posterior) <= 0.005, algorithm
