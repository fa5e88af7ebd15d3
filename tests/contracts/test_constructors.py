"""Wrong shapes and values are refused at construction, with the name of the argument."""

import jax
import numpy as np
import pytest

from cavity.families import (
    Beta,
    Categorical,
    DiagonalGaussian,
    Dirichlet,
    Gamma,
    Gaussian,
    NormalGamma,
    NormalWishart,
    Wishart,
)


@pytest.mark.parametrize(
    ("build", "argument"),
    [
        (lambda: Gaussian(np.zeros(2), np.eye(3)), "precision"),
        (lambda: Gaussian(np.zeros(2), np.ones((2, 3))), "precision"),
        (lambda: DiagonalGaussian(np.zeros(2), np.eye(2)), "precision"),
        (lambda: DiagonalGaussian.isotropic(2, -1.0), "variance"),
        (lambda: DiagonalGaussian.isotropic(0), "dim"),
        (lambda: Gaussian.isotropic(2.5), "dim"),
        (lambda: Gaussian.isotropic(True), "dim"),
        (lambda: DiagonalGaussian.isotropic("2"), "dim"),
        (lambda: Gaussian.isotropic(3, variance="1"), "variance"),
        (lambda: DiagonalGaussian.isotropic(3, variance=[1.0]), "variance"),
        (lambda: Gaussian.isotropic(3, variance=1e-310), "variance"),
        (lambda: Gaussian.from_mean(0.0, 1.0), "mean"),
        (lambda: Gaussian.from_mean([np.nan], [[1.0]]), "mean"),
        (lambda: Gaussian.from_mean(["a"], [[1.0]]), "mean"),
        (lambda: Gaussian.from_mean([0.0, 0.0], [1.0, 1.0]), "covariance must have shape"),
        (lambda: Gaussian.from_mean([0.0, 0.0], np.eye(3)), "covariance must have shape"),
        (lambda: Gaussian.from_mean([0.0, 0.0], 1j * np.eye(2)), "covariance must be numeric"),
        (lambda: Gaussian.from_mean([0.0, 0.0], np.full((2, 2), np.inf)), "covariance must be finite"),
        (lambda: Gaussian.from_mean([0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]]), "covariance must be symmetric"),
        (lambda: Gaussian.from_mean([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]]), "covariance must be positive definite"),
        (lambda: Gaussian.from_mean([0.0, 0.0], np.ones((2, 2))), "covariance must be positive definite"),
        (lambda: Gaussian.from_mean(np.zeros((2, 1)), np.ones((3, 1, 1))), "covariance must have shape"),
        (lambda: DiagonalGaussian.from_mean([0.0, 0.0], 1.0), "variance"),
        (lambda: DiagonalGaussian.from_mean([0.0, 0.0], [1.0, -1.0]), "variance"),
        (lambda: DiagonalGaussian.from_mean(["a"], [1.0]), "mean"),
        (lambda: DiagonalGaussian.from_mean([np.inf], [1.0]), "mean"),
        (lambda: NormalWishart.from_parameters([0.0, 0.0], 1.0, 3.0, -np.eye(2)), "scale must be positive definite"),
        (lambda: Gamma(np.ones(2), 1.0), "rate"),
        (lambda: Beta(np.ones(2), np.ones(3)), "beta"),
        (lambda: Dirichlet(1.0), "concentration"),
        (lambda: Categorical(1.0), "logits"),
        (lambda: Wishart(3.0, np.ones((2, 3))), "rate"),
        (lambda: Wishart(np.ones(3), np.eye(2)), "rate"),
        (lambda: NormalWishart(np.zeros(2), 1.0, np.ones(2), np.eye(2)), "df"),
        (lambda: NormalWishart(np.zeros(2), 1.0, 3.0, np.eye(3)), "rate"),
        (lambda: NormalGamma(0.0, 1.0, 1.0, 1.0), "shift"),
        (lambda: NormalGamma(np.zeros(2), np.ones(2), 1.0, 1.0), "count"),
        (lambda: NormalGamma(np.zeros((3, 2)), np.ones(3), np.ones(3), 1.0), "rate"),
        (lambda: NormalGamma.from_parameters([np.nan], 1.0, 1.0, 1.0), "mean"),
    ],
)
def test_mistakes_name_the_argument(build, argument):
    with pytest.raises(ValueError, match=rf"^{argument}\b"):
        build()


def test_traced_parameters_are_believed():
    build = lambda variance: Gaussian.from_mean(jax.numpy.zeros(2), variance * jax.numpy.eye(2)).log_partition()
    assert np.isfinite(jax.grad(build)(2.0))
    assert np.isfinite(jax.grad(lambda variance: Gaussian.isotropic(2, variance).log_partition())(2.0))


def test_constants_are_checked_inside_a_trace():
    with pytest.raises(ValueError, match=r"^covariance must be positive definite"):
        jax.jit(lambda x: x + Gaussian.from_mean(np.zeros(1), [[-1.0]]).mean)(np.ones(1))
