"""+, − and scalar × act on η, so that densities multiply: q₁ q₂ / h ∝ q₁ + q₂."""

import jax
import numpy as np
import pytest

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
