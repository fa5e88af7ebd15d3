"""Wrong shapes are refused at construction, with the name of the argument."""

import numpy as np
import pytest

from cavity.families import Beta, Categorical, DiagonalGaussian, Dirichlet, Gamma, Gaussian, NormalWishart, Wishart


@pytest.mark.parametrize(
    ("build", "argument"),
    [
        (lambda: Gaussian(np.zeros(2), np.eye(3)), "precision"),
        (lambda: Gaussian(np.zeros(2), np.ones((2, 3))), "precision"),
        (lambda: DiagonalGaussian(np.zeros(2), np.eye(2)), "precision"),
        (lambda: DiagonalGaussian.isotropic(2, -1.0), "variance"),
        (lambda: DiagonalGaussian.isotropic(0), "dim"),
        (lambda: Gamma(np.ones(2), 1.0), "rate"),
        (lambda: Beta(np.ones(2), np.ones(3)), "beta"),
        (lambda: Dirichlet(1.0), "concentration"),
        (lambda: Categorical(1.0), "logits"),
        (lambda: Wishart(3.0, np.ones((2, 3))), "rate"),
        (lambda: Wishart(np.ones(3), np.eye(2)), "rate"),
        (lambda: NormalWishart(np.zeros(2), 1.0, np.ones(2), np.eye(2)), "df"),
        (lambda: NormalWishart(np.zeros(2), 1.0, 3.0, np.eye(3)), "rate"),
    ],
)
def test_wrong_shapes_name_the_argument(build, argument):
    with pytest.raises(ValueError, match=rf"^{argument} "):
        build()
