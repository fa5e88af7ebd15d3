"""Closed forms equal the derivatives that define them: equations (11) and (15), and (37) for one activation."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cavity.factors.base import Factor
from cavity.factors.by_log_mean import autodiff, custom
from cavity.factors.clutter_problem import clutter
from cavity.factors.conjugate_likelihoods import (
    bernoulli,
    categorical,
    conjugate,
    exponential,
    gaussian_mean_precision,
    poisson_rate,
)
from cavity.factors.glm import likelihoods
from cavity.factors.glm.factor import GLM
from cavity.factors.mixtures.conjugate import mixture_of
from cavity.factors.mixtures.gaussian import gaussian_mixture
from cavity.factors.mixtures.known import mixture
from cavity.families import Beta, DiagonalGaussian, Dirichlet, Gamma, Gaussian, NormalGamma, NormalWishart, Product
from tests.registry import thinned

POWERS = [1.0, 0.5, 0]


@dataclasses.dataclass(frozen=True)
class Case:
    factor: Factor
    cavities: list[Any]
    data: list[Any]


def sqrt_of(matrix: np.ndarray) -> np.ndarray:
    return matrix @ matrix.T + np.eye(len(matrix))


RNG = np.random.default_rng(3)
ROUND = Gaussian.from_mean([0.4, -1.0], sqrt_of(RNG.normal(size=(2, 2))))
WIDE = Gaussian.from_mean([3.0, 1.0], 30 * sqrt_of(RNG.normal(size=(2, 2))))
PAIR = Gaussian.from_mean(
    [[0.4, -1.0], [2.0, 1.0], [-1.0, 3.0]], np.stack([sqrt_of(RNG.normal(size=(2, 2))) for _ in range(3)])
)
FLAT = DiagonalGaussian.from_mean([0.4, -1.0], [0.5, 2.0])
POINTS = [np.array([0.3, -1.2]), np.array([-4.0, 2.5])]
NOISE = np.stack([sqrt_of(RNG.normal(size=(2, 2))) for _ in range(3)])
SIGNED = [(x, y) for x in POINTS for y in (-1.0, 1.0)]
REAL = [(x, y) for x in POINTS for y in (0.4, 5.0)]


def mixed(components: Any) -> Product:
    return Product({"weights": Dirichlet([0.7, 3.0, 1.5]), "components": components})


MEANS, COUNTS = np.array([[0.4, -1.0], [2.0, 1.0], [-1.0, 3.0]]), np.array([2.0, 0.5, 7.0])
FULL = NormalWishart.from_parameters(MEANS, COUNTS, [1.5, 4.0, 20.0], np.linalg.inv(10 * NOISE))
SPHERICAL = NormalGamma.from_parameters(MEANS, COUNTS, [0.6, 4.0, 20.0], [1.0, 0.3, 40.0])
SHAPES = np.array([[0.6, 4.0], [3.0, 1.0], [20.0, 7.0]])
DIAGONAL = NormalGamma.from_parameters(MEANS[..., None], SHAPES + 1, SHAPES, 2 * SHAPES**0.5)

CASES = {
    "probit": Case(GLM(likelihoods.Probit()), [ROUND, WIDE], SIGNED),
    "probit diagonal": Case(GLM(likelihoods.Probit()), [FLAT], SIGNED),
    "logit": Case(GLM(likelihoods.Logit()), [ROUND, WIDE], SIGNED),
    "poisson": Case(GLM(likelihoods.Poisson()), [ROUND], [(0.5 * x, y) for x in POINTS for y in (0.0, 3.0)]),
    "gaussian": Case(GLM(likelihoods.gaussian_noise(0.7)), [ROUND, WIDE], REAL),
    "student": Case(GLM(likelihoods.student_t(4.0, 0.5)), [ROUND, WIDE], REAL),
    "clutter": Case(clutter(0.4, 0.5, 10.0), [ROUND, WIDE], POINTS),
    "mixture": Case(mixture([0.2, 0.5, 0.3], 0.7), [PAIR], POINTS),
    "mixture, full": Case(mixture([0.2, 0.5, 0.3], NOISE), [PAIR], POINTS),
    "bernoulli": Case(bernoulli(), [Beta(0.7, 3.0)], [0.0, 1.0]),
    "categorical": Case(categorical(), [Dirichlet([0.7, 3.0, 1.5])], [0.0, 2.0]),
    "poisson rate": Case(poisson_rate(), [Gamma(0.7, 3.0)], [0.0, 4.0]),
    "exponential": Case(exponential(), [Gamma(0.7, 3.0)], [0.2, 4.0]),
    "gaussian mean and precision": Case(
        gaussian_mean_precision(), [NormalWishart.from_parameters([0.4, -1.0], 2.0, 5.0, np.eye(2))], POINTS
    ),
    "gaussian mean and one precision": Case(
        gaussian_mean_precision(), [NormalGamma.from_parameters([0.4, -1.0], 2.0, 5.0, 1.0)], POINTS
    ),
    "mixture of poissons": Case(
        mixture_of(poisson_rate()), [mixed(Gamma([0.7, 3.0, 5.0], [1.0, 0.3, 1.0]))], [0.0, 4.0, 15.0]
    ),
    "gaussian mixture, full": Case(gaussian_mixture(), [mixed(FULL)], POINTS),
    "gaussian mixture, spherical": Case(gaussian_mixture(), [mixed(SPHERICAL)], POINTS),
    "gaussian mixture, diagonal": Case(gaussian_mixture(), [mixed(DIAGONAL)], POINTS),
}


def stacked(trees: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *trees)


# Slow to compile, quadrature above all, which is the same for all likelihoods: by default few powers of a site.
QUICK = {"probit": [1.0], "probit diagonal": [1.0], "logit": [0.5], "poisson": [0], "student": [0], "mixture": [0.5]}
QUICK |= {"mixture, full": [0], "mixture of poissons": [0.5], "gaussian": POWERS}
PAIRS = thinned(
    [(name, power) for name in CASES for power in POWERS], lambda name, power: power in QUICK.get(name, [1.0])
)


@pytest.mark.parametrize(("name", "power"), PAIRS)
def test_site_and_log_mean(name: str, power: float) -> None:
    case = CASES[name]
    pairs = [(cavity, datum) for cavity in case.cavities for datum in case.data]
    with jax.enable_x64(True):
        cavity, datum = (stacked(list(column)) for column in zip(*pairs, strict=True))
        closed = jax.jit(jax.vmap(lambda c, d: case.factor.estimate(c, d, power)))(cavity, datum)
        derived = jax.jit(jax.vmap(lambda c, d: autodiff(case.factor).estimate(c, d, power)))(cavity, datum)
        for ours, reference in zip(jax.tree.leaves(closed), jax.tree.leaves(derived), strict=True):
            np.testing.assert_allclose(ours, reference, rtol=1e-7, atol=1e-9)


TILTS = thinned(
    [(name, power) for name in ("probit", "logit", "poisson", "gaussian", "student") for power in POWERS],
    lambda name, power: power in {"logit": [0.5], "student": [0]}.get(name, QUICK[name]),
)


@pytest.mark.parametrize(("name", "power"), TILTS)
def test_tilt_is_the_derivative_of_log_mean(name: str, power: float) -> None:
    """g = ∂ℓ/∂m, h = ∂²ℓ/∂m², and ∂ℓ/∂v = (h + α g²)/2."""
    likelihood, y = CASES[name].factor.likelihood, CASES[name].data[1][1]
    mean, variance = (part.ravel() for part in np.meshgrid([-3.0, 0.5, 7.0], [1e-2, 1.0, 30.0]))
    with jax.enable_x64(True):
        value_and_slopes = jax.value_and_grad(lambda m, v: likelihood.log_mean(y, m, v, power), (0, 1))
        derivatives = lambda m, v: jax.jvp(lambda m: value_and_slopes(m, v), (m,), (1.0,))
        (log_mean, (in_mean, in_variance)), (_, (curvature, _)) = jax.jit(jax.vmap(derivatives))(mean, variance)
        tilt = jax.jit(jax.vmap(lambda m, v: likelihood.tilt(y, m, v, power)))(mean, variance)
        close = lambda ours, other: np.testing.assert_allclose(ours, other, rtol=1e-9, atol=1e-12)
        close(tilt.log_mean, log_mean)
        close(tilt.slope, in_mean)
        close(tilt.curvature, curvature)
        close(tilt.shrinkage, 1 + power * variance * curvature)
        close(0.5 * (tilt.curvature + power * tilt.slope**2), in_variance)


@pytest.mark.parametrize("power", [0.5, 0])
def test_log_mean_is_differentiable_in_hyper_parameters(power: float) -> None:
    with jax.enable_x64(True):
        mean, variance = jnp.asarray(0.3), jnp.asarray(2.0)
        value = jax.jit(lambda likelihood: likelihood.log_mean(2.0, mean, variance, power))
        gradient = jax.jit(jax.grad(value))(likelihoods.student_t(4.0, 0.5))
        step, shape = 1e-5, likelihoods.StudentT
        in_df = (value(shape(4.0 + step, 0.5)) - value(shape(4.0 - step, 0.5))) / (2 * step)
        in_scale = (value(shape(4.0, 0.5 + step)) - value(shape(4.0, 0.5 - step))) / (2 * step)
        np.testing.assert_allclose([gradient.df, gradient.scale], [in_df, in_scale], rtol=1e-6)


@pytest.mark.parametrize("power", [1.0, 0.5, 0.01])
def test_conjugate_log_mean_is_a_difference_of_log_partitions(power: float) -> None:
    q, count = Gamma(0.7, 3.0), 4.0
    with jax.enable_x64(True):
        tilted = q + power * Gamma(count, 1.0)
        exact = (tilted.log_partition() - q.log_partition()) / power - np.log(24.0)
        np.testing.assert_allclose(poisson_rate().log_mean(q, jnp.asarray(count), power), exact, rtol=1e-12)


def test_clutter_is_a_bimodal_likelihood() -> None:
    """At power 1 in one dimension the clutter problem is a GLM, so its site follows from quadrature too."""
    factor = clutter(0.4, 0.5, 10.0)

    def log_lik(x: Any, theta: Any) -> Any:
        signal = jnp.log(0.6 / jnp.sqrt(2 * jnp.pi * 0.5)) - (x - theta) ** 2
        return jnp.logaddexp(signal, jnp.log(0.4 / jnp.sqrt(2 * jnp.pi * 10.0)) - x**2 / 20)

    glm = GLM(likelihoods.user(log_lik, center=lambda x: x))
    with jax.enable_x64(True):
        cavity, x = Gaussian.from_mean([-1.0], [[4.0]]), jnp.array([2.5])
        closed = factor.site(cavity, x, 1.0)
        quadrature = jax.jit(lambda cavity, x: glm.site(cavity, (jnp.ones(1), x[0]), 1.0))(cavity, x)
        np.testing.assert_allclose(closed.shift, quadrature.shift, rtol=1e-10)
        np.testing.assert_allclose(closed.precision, quadrature.precision, rtol=1e-10)


def test_responsibilities_are_a_posterior() -> None:
    for factor in (mixture([0.2, 0.5, 0.3], NOISE), clutter()):
        q = PAIR if hasattr(factor, "weights") else ROUND
        for power in POWERS:
            share = factor.responsibilities(q, POINTS[0], power)
            assert share.dtype == np.float64
            np.testing.assert_allclose(share.sum(), 1.0, rtol=1e-12)


def test_user_factors() -> None:
    """`custom` and `conjugate` built from the same model give the same site."""
    coin = conjugate(lambda q, y: Beta(y, 1 - y))
    mine = custom(coin.log_mean)
    with jax.enable_x64(True):
        site = jax.jit(lambda q, y: mine.site(q, y, 0.5))(Beta(0.7, 3.0), jnp.asarray(1.0))
        np.testing.assert_allclose([site.alpha, site.beta], [1.0, 0.0], atol=1e-10)


@pytest.mark.parametrize(
    ("factor", "prior", "data", "message"),
    [
        (bernoulli(), Beta(1.0, 1.0), [0.0, 2.0], "0 or 1"),
        (bernoulli(), Gamma(1.0, 1.0), [0.0, 1.0], "prior must be a Beta"),
        (categorical(), Dirichlet([1.0, 1.0]), [0.0, 2.0], "labels 0 … 1"),
        (poisson_rate(), Gamma(1.0, 1.0), [0.5], "non-negative integers"),
        (exponential(), Gamma(1.0, 1.0), [-0.5], "non-negative"),
        (clutter(), ROUND, [[1.0, 2.0, 3.0]], "2 columns"),
        (mixture([0.5, 0.5], 1.0), ROUND, [[1.0, 2.0]], "2 rows"),
        (mixture([0.5, 0.5], 1.0), PAIR, [[1.0, 2.0]], "2 rows"),
    ],
)
def test_data_are_checked(factor: Factor, prior: Any, data: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        factor.check(prior, data)


@pytest.mark.parametrize(
    ("likelihood", "y", "message"),
    [
        (likelihoods.Probit(), [0.0, 1.0], "y must contain −1 and \\+1 only; got 0, 1"),
        (likelihoods.Logit(), [np.nan], "y must be finite"),
        (likelihoods.Poisson(), [-1.0], "y must be counts, not below zero"),
        (likelihoods.Poisson(), [1e150], "y must not exceed 1e\\+15"),
        (likelihoods.Poisson(), ["a"], "y must be numeric"),
    ],
)
def test_observations_are_checked(likelihood: Any, y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        likelihood.check(y)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: likelihoods.gaussian_noise(0.0), "noise_variance must be a positive"),
        (lambda: likelihoods.student_t(-1.0, 1.0), "df must be a positive"),
        (lambda: likelihoods.student_t(1.0, np.inf), "scale must be a positive"),
        (lambda: mixture([0.5, 0.6], 1.0), "weights must be positive numbers that sum to one"),
        (lambda: mixture([0.5, 0.5], [1.0, -1.0]), "noise must be positive"),
        (lambda: clutter(1.0), "weight must lie strictly between 0 and 1"),
    ],
)
def test_hyper_parameters_are_checked(build: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()
