"""Families are combined and compared only with their own kind and shape: nothing is broadcast in silence."""

import jax
import numpy as np
import pytest

from cavity.families import Beta, DiagonalGaussian, Dirichlet, Gamma, Gaussian, NormalWishart, Product, Wishart

PAIRS = [
    (Gaussian.isotropic(1), Gaussian.isotropic(2)),
    (Gaussian.isotropic(1), DiagonalGaussian.isotropic(1)),
    (Gamma(1.0, 1.0), Beta(1.0, 1.0)),
    (Gamma(1.0, 1.0), Gamma(np.ones(3), np.ones(3))),
    (DiagonalGaussian.isotropic(1), DiagonalGaussian.isotropic(2)),
    (Dirichlet([1.0, 1.0]), Dirichlet([1.0, 1.0, 1.0])),
    (Wishart(3.0, np.eye(1)), Wishart(3.0, np.eye(2))),
    (NormalWishart(np.zeros(1), 1.0, 3.0, np.eye(1)), NormalWishart(np.zeros(2), 1.0, 3.0, np.eye(2))),
    (Product({"a": Gamma(1.0, 1.0)}), Product({"b": Gamma(1.0, 1.0)})),
    (Product([Gamma(1.0, 1.0)]), Gamma(1.0, 1.0)),
    (Gamma(1.0, 1.0), 2.0),
]


@pytest.mark.parametrize("operation", ["kl", "distance", "__add__", "__sub__"])
@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_families_that_differ_are_not_broadcast(left, right, operation):
    with pytest.raises(
        ValueError, match=rf"same kind and shape; got {type(left).__name__}.* and {type(right).__name__}"
    ):
        getattr(left, operation)(right)


def test_families_are_compared_under_a_trace_too():
    with pytest.raises(ValueError, match="same kind and shape"):
        jax.jit(lambda q, p: q + p)(Gaussian.isotropic(1), Gaussian.isotropic(2))
    with pytest.raises(ValueError, match="same kind and shape"):
        jax.vmap(lambda q: q.kl(Gamma(1.0, 1.0)))(Gamma(np.ones((3, 2)), np.ones((3, 2))))
