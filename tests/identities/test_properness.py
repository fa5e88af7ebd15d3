"""η is proper when finite and inside the domain of A; an improper one is data, not an exception."""

import jax
import numpy as np
import pytest

from cavity.families import Beta, Dirichlet, Gamma, NormalGamma, NormalWishart, Wishart
from tests.registry import FAMILIES, member


@pytest.mark.parametrize("name", FAMILIES)
def test_members_are_proper_and_non_finite_ones_are_not(name):
    q = member(name)
    assert q.is_proper()
    leaves, structure = jax.tree.flatten(q)
    for i, leaf in enumerate(leaves):
        for bad in (np.nan, np.inf):
            broken = leaf.copy()
            broken[(0,) * leaf.ndim] = bad
            assert not jax.tree.unflatten(structure, [*leaves[:i], broken, *leaves[i + 1 :]]).is_proper()


@pytest.mark.parametrize("name", FAMILIES)
def test_the_negative_of_a_proper_member_is_improper(name):
    assert (-1.0 * member(name)).is_proper() == FAMILIES[name].any_finite


@pytest.mark.parametrize(
    "q",
    [
        Gamma(0.0, 1.0),
        Gamma(np.ones(2), np.array([1.0, -1.0])),
        Beta(1.0, 0.0),
        Dirichlet(np.array([1.0, 0.0])),
        Wishart(1.0, np.eye(2)),
        NormalWishart(np.zeros(2), 1.0, 1.0, np.eye(2)),
        NormalGamma(np.zeros(2), 1.0, 0.0, 1.0),
        NormalGamma(np.zeros(2), 0.0, 1.0, 1.0),
        NormalGamma(np.ones(2), 1.0, 1.0, 1.0),
        NormalWishart(2 * np.ones(2), 1.0, 4.0, np.eye(2)),
    ],
)
def test_the_boundary_is_outside(q):
    assert not q.is_proper()
