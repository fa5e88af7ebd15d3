"""Independent parts and independent copies: A, log q, KL and entropy are sums."""

import jax
import numpy as np
import pytest

from cavity.families import Gamma, Gaussian, Product, as_family
from tests.registry import FAMILIES, copy, draws, member


@pytest.mark.parametrize("name", FAMILIES)
def test_leading_axes_are_independent_copies(name):
    q, p = member(name, seed=1), member(name, seed=2)
    theta = copy(draws(name), 0)
    reads = jax.jit(lambda q, p, theta: (q.log_partition(), q.entropy(), q.kl(p), q.log_prob(theta)))
    with jax.enable_x64(True):
        together = np.array(reads(q, p, theta))
        apart = np.array([reads(copy(q, i), copy(p, i), copy(theta, i)) for i in range(2)])
    np.testing.assert_allclose(together, apart.sum(axis=0), rtol=1e-12)


def test_product_is_a_sum_over_its_parts():
    names = ("gaussian", "gamma", "normal-wishart")
    parts, others = [member(n, 1) for n in names], [member(n, 2) for n in names]
    q, p = Product(tuple(parts)), Product(tuple(others))
    np.testing.assert_allclose(q.log_partition(), sum(part.log_partition() for part in parts), rtol=1e-13)
    np.testing.assert_allclose(q.entropy(), sum(part.entropy() for part in parts), rtol=1e-13)
    np.testing.assert_allclose(q.kl(p), sum(a.kl(b) for a, b in zip(parts, others, strict=True)), rtol=1e-13)
    squares = sum(a.distance(b) ** 2 for a, b in zip(parts, others, strict=True))
    np.testing.assert_allclose(q.distance(p), np.sqrt(squares), rtol=1e-13)
    theta = tuple(draws(n) for n in names)
    each = [part.log_prob(value) for part, value in zip(parts, theta, strict=True)]
    np.testing.assert_allclose(q.log_prob(theta), sum(each), rtol=1e-12)


def test_product_draws_its_parts_independently():
    q = Product({"a": Gaussian.isotropic(1), "b": Gaussian.isotropic(1)})
    draws = q.sample(jax.random.key(0), (2_000,))
    assert abs(np.corrcoef(draws["a"][:, 0], draws["b"][:, 0])[0, 1]) < 5 / np.sqrt(2_000)


def test_as_family_wraps_containers_and_names_what_it_cannot_use():
    gaussian = Gaussian.isotropic(2)
    assert as_family(gaussian) is gaussian
    assert as_family({"a": gaussian})["a"] is not None
    assert isinstance(as_family([gaussian, Gamma(1.0, 1.0)]), Product)
    with pytest.raises(TypeError, match="got str"):
        as_family("gaussian")
    with pytest.raises(TypeError, match="got float"):
        as_family((gaussian, 1.0))
    with pytest.raises(TypeError, match="no family"):
        as_family({})
