"""(∇A)⁻¹(∇A(η)) = η, leaf by leaf."""

import jax
import numpy as np
import pytest

from cavity.families import Dirichlet, Gamma
from tests.registry import FAMILIES, member


@pytest.mark.parametrize("name", FAMILIES)
def test_from_moments_inverts_moments(name):
    q = member(name, seed=1)
    back = q.moments().from_moments()
    assert jax.tree.structure(back) == jax.tree.structure(q)
    for got, wanted in zip(jax.tree.leaves(back), jax.tree.leaves(q), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-12)


def test_extreme_shapes_come_back_as_well_as_their_moments_allow():
    # A spread of 1/a around the mean is what E[x] and E[log x] differ by: a relative error of about eps · a in a.
    shape = np.geomspace(1e-6, 1e8, 15)
    back = Gamma(shape, shape / 3).moments().from_moments()
    assert np.all(np.abs(back.shape / shape - 1) < 1e-13 + 1e-15 * shape)
    concentration = np.stack([shape, 2 * shape, 0.5 * shape], axis=-1)
    back = Dirichlet(concentration).moments().from_moments()
    assert np.all(np.abs(back.concentration / concentration - 1) < 1e-12 + 1e-14 * concentration)
