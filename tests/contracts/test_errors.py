"""A mistake of the user is a ValueError that starts with the name of the argument, never an error of JAX or NumPy."""

import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity import factors
from cavity.families import Beta, Gamma, Gaussian

X, Y = np.array([[1.0], [2.0], [-1.0]]), np.array([1.0, 1.0, -1.0])
LINE = Gaussian.isotropic(1)


def regress(log_lik, center=None, algorithm=None):
    return cavity.fit(factors.glm(log_lik, center), LINE, (X, Y), algorithm or cavity.ep())


def fit(factor, prior, data):
    return cavity.fit(factor, prior, data, cavity.ep())


@pytest.mark.parametrize("algorithm", [cavity.ep(), cavity.aep(), cavity.vmp()])
@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda **a: regress(lambda y, a: -0.5 * (y - jnp.array([a])) ** 2, **a), r"log_lik .*shape \(1,\).*jnp.sum"),
        (lambda **a: regress(lambda y, a: np.log(1 + a**2), **a), "log_lik .*jax.numpy.*TracerArrayConversionError"),
        (lambda **a: regress(lambda y, a: -a if a > 0 else a, **a), "log_lik .*jax.numpy.*TracerBoolConversionError"),
        (lambda **a: regress(lambda y, a: None, **a), "log_lik "),
        (lambda **a: regress(lambda y, a: [a], **a), "log_lik "),
        (lambda **a: regress(lambda y, a: -((y - a) ** 2), lambda y: jnp.array([y]), **a), r"center .*shape \(1,\)"),
    ],
)
def test_functions_of_the_activation(build, message, algorithm):
    with pytest.raises(ValueError, match=f"^{message}"):
        build(algorithm=algorithm)


@pytest.mark.parametrize(
    ("factor", "message"),
    [
        (factors.custom(lambda q, x, power: -((x - q.mean) ** 2)), r"log_mean .*shape \(1,\)"),
        (factors.custom(lambda q, x, power: np.log(q.mean)[0]), "log_mean .*jax.numpy"),
        (factors.custom(lambda q, x, power: q.median), "log_mean .*AttributeError"),
        (factors.conjugate(lambda q, x: Gamma(x[0], x[0])), "natural .*Gaussian.*got Gamma"),
        (factors.conjugate(lambda q, x: Gaussian(jnp.ones(2), jnp.eye(2))), r"natural .*\(1,\).*got .*\(2,\)"),
        (factors.conjugate(lambda q, x: (x, x)), "natural .*got tuple"),
        (factors.conjugate(lambda q, x: 0.0 * q, log_base=lambda x: x), r"log_base .*shape \(1,\)"),
    ],
)
def test_functions_of_the_posterior(factor, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        fit(factor, LINE, X)


def test_an_error_that_the_user_raises_on_purpose_is_left_alone():
    def only_power_one(q, x, power):
        raise NotImplementedError("only power 1")

    with pytest.raises(NotImplementedError, match="only power 1"):
        fit(factors.custom(only_power_one), LINE, X)


RAGGED = [[1.0], [2.0, 3.0]]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: fit(factors.bernoulli(), Beta(1.0, 1.0), ["a", "b"]), "data must be numeric"),
        (lambda: fit(factors.bernoulli(), Beta(1.0, 1.0), np.array(["1", "0"])), "data must be numeric"),
        (lambda: fit(factors.bernoulli(), Beta(1.0, 1.0), np.array([1j, 0])), "data must be numeric"),
        (lambda: fit(factors.bernoulli(), Beta(1.0, 1.0), RAGGED), "data must be numeric"),
        (lambda: fit(factors.bernoulli(), Beta(1.0, 1.0), "abc"), "data must be numeric"),
        (lambda: fit(factors.bernoulli(), Beta(1.0, 1.0), (1.0, 0.0, 1.0)), r"data must be .*np\.array"),
        (lambda: fit(factors.bernoulli(), Beta(1.0, 1.0), None), "data must be .*got nothing"),
        (lambda: fit(factors.probit(), LINE, (X + 0j, Y)), "X must be numeric"),
        (lambda: fit(factors.probit(), LINE, (X, Y + 0j)), "y must be numeric"),
        (lambda: fit(factors.probit(), LINE, (RAGGED, Y)), "X must be numeric"),
        (lambda: fit(factors.probit(), LINE, (X, ["1", "1", "-1"])), "y must be numeric"),
        (lambda: factors.gaussian("1"), "noise_variance must be a positive"),
        (lambda: factors.gaussian(True), "noise_variance must be a positive"),
        (lambda: factors.gaussian(1j), "noise_variance must be a positive"),
        (lambda: factors.student_t("3", 1), "df must be a positive"),
        (lambda: factors.student_t(3, [1.0]), "scale must be a positive"),
        (lambda: factors.clutter([0.5]), "weight must lie"),
        (lambda: factors.clutter("0.5"), "weight must lie"),
        (lambda: factors.clutter(0.5, "1"), "noise_variance must be a positive"),
        (lambda: factors.mixture(["a"], 1.0), "weights must be numeric"),
        (lambda: factors.mixture([1.0], RAGGED), "noise must be numeric"),
    ],
)
def test_data_and_hyperparameters(build, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        build()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: cavity.sep(rate=cavity.robbins_monro), r"rate .*cavity\.robbins_monro\(\)"),
        (lambda: cavity.svi(rate=type(cavity.robbins_monro())), r"rate .*cavity\.robbins_monro\(\)"),
        (lambda: cavity.sep(batch_size=None), r"batch_size .*cavity\.aep\(\)"),
        (lambda: cavity.svi(batch_size=None), r"batch_size .*cavity\.averaged_vmp\(\)"),
        (lambda: cavity.dsep(2, batch_size=None), r"batch_size .*cavity\.daep\(\)"),
        (lambda: cavity.adf(batch_size=None), r"batch_size .*cavity\.Algorithm\(0, None\)"),
        (lambda: cavity.fit(factors.probit(), LINE, (X, Y), cavity.ep(), max_sweeps=True), "max_sweeps .*True"),
        (lambda: cavity.fit(factors.probit(), LINE, (X, Y), cavity.ep(), seed=True), "seed .*True"),
        (lambda: cavity.fit(factors.probit(), LINE, (X, Y), cavity.ep(), tol=True), "tol .*True"),
    ],
)
def test_settings(build, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        build()
