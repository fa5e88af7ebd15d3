"""With JAX's global flag off, every public read returns NumPy float64 and loses nothing to single precision."""

import jax
import numpy as np
import pytest

from tests.registry import FAMILIES, copy, draws, member


def reads(q, p, theta):
    """Every public read of a family, by name."""
    properties = [name for name in dir(type(q)) if isinstance(getattr(type(q), name), property)]
    methods = ("log_partition", "entropy", "moments")
    return {
        **{name: getattr(q, name) for name in properties},
        **{name: getattr(q, name)() for name in methods},
        "from_moments": q.moments().from_moments(),
        "statistics": q.statistics(copy(theta, 0)),
        "log_base": q.log_base(copy(theta, 0)),
        "log_prob": q.log_prob(theta),
        "kl": q.kl(p),
        "distance": q.distance(p),
        "sum": q + 0.1 * p - p,
    }


@pytest.mark.parametrize("name", FAMILIES)
def test_reads_are_numpy_float64(name):
    assert not jax.config.jax_enable_x64
    q, p = member(name, seed=1), member(name, seed=2)
    theta = draws(name)
    assert all(isinstance(leaf, np.ndarray | np.generic) for leaf in jax.tree.leaves(theta))
    outside = reads(q, p, theta)
    with jax.enable_x64(True):
        inside = reads(q, p, theta)
    for read, value in outside.items():
        for got, wanted in zip(jax.tree.leaves(value), jax.tree.leaves(inside[read]), strict=True):
            assert isinstance(got, np.ndarray | np.generic), read
            assert got.dtype == np.float64, read
            np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-14, err_msg=read)
    assert isinstance(q.is_proper(), np.bool_)
    assert not jax.config.jax_enable_x64


def test_reads_of_numbers_that_single_precision_cannot_hold():
    q = member("gaussian", lead=())
    shifted = type(q)(q.precision @ np.array([1.0 + 1e-12, 1e8]), q.precision)
    np.testing.assert_allclose(shifted.mean, [1.0 + 1e-12, 1e8], rtol=1e-8)
    gamma = member("gamma")
    np.testing.assert_allclose((1e9 * gamma).mean, gamma.shape / gamma.rate, rtol=1e-14)
