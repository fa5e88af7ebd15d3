"""+, − and scalar × act on η, so that densities multiply: q₁ q₂ / h ∝ q₁ + q₂."""

import jax
import numpy as np
import pytest

from cavity._tree import leaves, structure
from cavity.families import Gamma, Product
from tests.registry import FAMILIES, draws, member


@pytest.mark.parametrize("name", FAMILIES)
def test_arithmetic_acts_on_natural_parameters(name):
    q, p = member(name, seed=1), member(name, seed=2)
    result = q + 0.5 * p - p
    assert type(result) is type(q)
    for got, a, b in zip(*map(jax.tree.leaves, (result, q, p)), strict=True):
        np.testing.assert_allclose(got, a - 0.5 * b, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("name", FAMILIES)
def test_sum_is_the_normalised_product_of_densities(name):
    q, p = member(name, seed=1), member(name, seed=2)
    theta = draws(name)
    with jax.enable_x64(True):
        log_base = np.asarray(jax.jit(jax.vmap(q.log_base))(theta))
    difference = q.log_prob(theta) + p.log_prob(theta) - log_base - (q + p).log_prob(theta)
    np.testing.assert_allclose(difference, np.median(difference), rtol=1e-9, atol=1e-9)


def test_parts_in_tuples_are_added_and_not_put_in_a_row():
    one = Gamma(3.0, 2.0)
    flat, nested = Product({"a": one, "b": one}), Product({"a": one, "b": (one, {"c": one})})
    for q in (flat, nested):
        for made, times in ((q + q, 2.0), (q - q, 0.0), (0.5 * q, 0.5)):
            assert type(made) is Product
            assert structure(made) == structure(q)
            np.testing.assert_array_equal(leaves(made), times * np.asarray(leaves(q)))
