"""A known part of the activation is the same as a feature whose coefficient is known to be one."""

import numpy as np
import pytest

import cavity
from tests.registry import FACTORS, thinned


@pytest.mark.parametrize("algorithm", thinned([cavity.ep(), cavity.aep()], lambda a: a.n_sites != 1), ids=["ep", "aep"])
def test_an_offset_is_a_feature_with_a_known_coefficient(algorithm):
    case = FACTORS["poisson"]
    features, y = case.data
    offset = np.random.default_rng(1).normal(size=len(y))
    with_offset = cavity.fit(
        cavity.factors.offset_of(case.factor), case.prior, (features, (y, offset)), algorithm, tol=1e-10
    )
    dim = len(case.prior.shift)
    wider = cavity.Gaussian(
        np.append(case.prior.shift, 1e9), np.pad(case.prior.precision, (0, 1)) + np.diag([*np.zeros(dim), 1e9])
    )
    as_feature = cavity.fit(case.factor, wider, (np.column_stack([features, offset]), y), algorithm, tol=1e-10)
    np.testing.assert_allclose(with_offset.posterior.mean, as_feature.posterior.mean[:dim], atol=1e-6)
    np.testing.assert_allclose(with_offset.posterior.covariance, as_feature.posterior.covariance[:dim, :dim], atol=1e-6)
    np.testing.assert_allclose(with_offset.log_evidence, as_feature.log_evidence, atol=1e-6)


def test_an_offset_must_be_given_and_match():
    case = FACTORS["poisson"]
    features, y = case.data
    factor = cavity.factors.offset_of(case.factor)
    with pytest.raises(ValueError, match="y must be a pair"):
        cavity.fit(factor, case.prior, (features, y), cavity.ep())
    with pytest.raises(ValueError, match="y must have one entry per row of X"):
        cavity.fit(factor, case.prior, (features, (y, np.zeros(3))), cavity.ep())
    with pytest.raises(ValueError, match="factor must be a generalised linear model"):
        cavity.factors.offset_of(cavity.factors.clutter())
