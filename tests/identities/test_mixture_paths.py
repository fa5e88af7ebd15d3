"""Sums over a batch of a Gaussian mixture equal the general engine with automatic differentiation, pull by pull."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import cavity
from tests.registry import assert_trees_close, thinned

N = 30
RNG = np.random.default_rng(4)
X = np.concatenate([RNG.normal(-1.5, 0.7, size=(N // 2, 2)), RNG.normal(1.0, 1.0, size=(N // 2, 2))])
WEIGHTS = RNG.uniform(0.5, 2.0, N)
MEANS, COUNTS, SHAPES = np.array([[-1.0, -1.0], [1.0, 0.5]]), np.array([1.0, 2.0]), np.array([3.0, 4.0])
COMPONENTS = {
    "full": cavity.NormalWishart.from_parameters(MEANS, COUNTS, SHAPES, np.stack([np.eye(2), 0.5 * np.eye(2)])),
    "spherical": cavity.NormalGamma.from_parameters(MEANS, COUNTS, SHAPES, np.ones(2)),
    "diagonal": cavity.NormalGamma.from_parameters(MEANS[..., None], MEANS**2 + 1, MEANS**2 + 2, np.ones((2, 2))),
}
ALGORITHMS = {
    "aep": cavity.aep(),
    "sep-batch": cavity.sep(batch_size=7),
    "sep-power": cavity.sep(batch_size=7, power=0.5),
    "dsep": cavity.dsep(groups=np.arange(N) % 3, batch_size=4),
    "averaged-vmp": cavity.averaged_vmp(),
    "adf-batch": cavity.adf(batch_size=5),
    "ep": cavity.ep(batch_size=10),
}
QUICK = [("full", "sep-batch")]
PAIRS = thinned([(c, a) for c in COMPONENTS for a in ALGORITHMS], lambda *pair: pair in QUICK)


def fits(kind, name, **options):
    """The same few sweeps by sums and by the pull of each."""
    prior = {"weights": cavity.Dirichlet([1.0, 2.0]), "components": COMPONENTS[kind]}
    factor = cavity.factors.gaussian_mixture()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cavity.ConvergenceWarning)  # a few sweeps to tol 0 never converge,
        warnings.simplefilter("ignore", cavity.CollapseWarning)  # and ADF is not meant for several
        return [
            cavity.fit(f, prior, X, ALGORITHMS[name], weights=WEIGHTS, max_sweeps=3, tol=0.0, **options)
            for f in (factor, cavity.factors.autodiff(factor))
        ]


@pytest.mark.parametrize(("kind", "name"), PAIRS)
def test_by_sums_and_by_each(kind, name):
    fast, slow = fits(kind, name)
    assert_trees_close(fast.posterior, slow.posterior, rtol=1e-7)
    np.testing.assert_allclose(fast.log_evidence, slow.log_evidence, rtol=1e-9)
    np.testing.assert_array_equal(fast.history.skipped, slow.history.skipped)


@pytest.mark.parametrize("dim", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_the_evidence_of_many_rows_is_that_of_each(dim):
    """Equation (55), with few degrees of freedom and rows that weigh less than one."""
    x = np.random.default_rng(dim).normal(size=(12, dim)) + 2.0 * (np.arange(12) % 2)[:, None]
    scale = np.stack([np.eye(dim), 0.5 * np.eye(dim)])
    components = cavity.NormalWishart.from_parameters(np.stack([x[0], x[1]]), COUNTS, SHAPES + dim, scale)
    prior = {"weights": cavity.Dirichlet([1.0, 2.0]), "components": components}
    factor = cavity.factors.gaussian_mixture()
    fit = lambda factor: cavity.fit(factor, prior, x, cavity.aep(), weights=WEIGHTS[:12]).log_evidence
    np.testing.assert_allclose(fit(factor), fit(replace(factor, row_by_row=True)), rtol=1e-10)


@pytest.mark.slow
def test_a_mixture_of_any_conjugate_likelihood_is_the_same():
    prior = {"weights": cavity.Dirichlet([1.0, 2.0]), "components": COMPONENTS["full"]}
    general = cavity.factors.mixture_of(cavity.factors.gaussian_mean_precision())
    results = [cavity.fit(f, prior, X, cavity.aep()) for f in (general, cavity.factors.gaussian_mixture())]
    assert_trees_close(results[0].posterior, results[1].posterior, rtol=1e-4)
    np.testing.assert_allclose(results[0].log_evidence, results[1].log_evidence, rtol=1e-8)


@pytest.mark.slow
def test_the_gradient_of_the_evidence_goes_through_a_mixture():
    factor = cavity.factors.gaussian_mixture()
    prior = lambda scale: {
        "weights": cavity.Dirichlet([1.0, 2.0]),
        "components": cavity.NormalGamma.from_parameters(MEANS, COUNTS, SHAPES, scale * np.ones(2)),
    }
    fit = lambda scale: cavity.fit(factor, prior(scale), X, cavity.aep(), tol=1e-9, keep_data=True)
    by_prior = fit(1.0).evidence_gradient()[1]
    numerical = (fit(1.001).log_evidence - fit(0.999).log_evidence) / 0.002
    np.testing.assert_allclose(np.sum(by_prior["components"].rate), numerical, rtol=1e-4)
