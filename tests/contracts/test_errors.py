"""A mistake of the user is a ValueError that starts with the name of the argument, never an error of JAX or NumPy."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity import factors
from cavity.families import Beta, Gamma, Gaussian
from tests.registry import thinned

X, Y = np.array([[1.0], [2.0], [-1.0]]), np.array([1.0, 1.0, -1.0])
LINE = Gaussian.isotropic(1)


def regress(log_lik, center=None, algorithm=None):
    return cavity.fit(factors.glm(log_lik, center), LINE, (X, Y), algorithm or cavity.ep())


def fit(factor, prior, data):
    return cavity.fit(factor, prior, data, cavity.ep())


SCALARS_ONLY = lambda y, a: -0.5 * math.log1p((y - float(a)) ** 2)  # neither takes arrays nor can be traced


@pytest.mark.parametrize("algorithm", [cavity.ep(), cavity.aep(), cavity.vmp()])
@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda **a: regress(lambda y, a: -0.5 * (y - jnp.array([a])) ** 2, **a), r"log_lik .*shape \(1,\).*jnp.sum"),
        (lambda **a: regress(SCALARS_ONLY, **a), "log_lik .*jax.numpy.*ConcretizationTypeError"),
        (lambda **a: regress(lambda y, a: np.log(1 + a[0] ** 2), **a), "log_lik .*jax.numpy"),
        (lambda **a: regress(lambda y, a: np.sum(np.log(1 + a**2)), **a), "log_lik .*jax.numpy"),
        (lambda **a: regress(lambda y, a: -a if a > 0 else a, **a), "log_lik .*jax.numpy.*TracerBoolConversionError"),
        (lambda **a: regress(lambda y, a: None, **a), "log_lik "),
        (lambda **a: regress(lambda y, a: [a], **a), "log_lik "),
        (lambda **a: regress(lambda y, a: -((y - a) ** 2), lambda y: jnp.array([y]), **a), r"center .*shape \(1,\)"),
    ],
)
def test_functions_of_the_activation(build, message, algorithm):
    with pytest.raises(ValueError, match=f"^{message}"):
        build(algorithm=algorithm)


# few rows, so that all visits are taken on the host, whatever the algorithm
ROWS, TARGETS = np.random.default_rng(0).normal(size=(30, 2)), np.random.default_rng(1).normal(size=30)
IN_NUMPY_AND_JAX = {
    "heavy tails": (lambda y, a: -np.log(1 + (y - a) ** 2), lambda y, a: -jnp.log(1 + (y - a) ** 2), None),
    "log-concave": (lambda y, a: y * a - np.logaddexp(0, a), lambda y, a: y * a - jnp.logaddexp(0, a), None),
    "with a centre": (lambda y, a: -np.cosh(y - a), lambda y, a: -jnp.cosh(y - a), lambda y: y),
}
ALGORITHMS = {
    "ep": cavity.ep(),
    "aep": cavity.aep(),
    "vmp": cavity.vmp(),
    "ep in batches": cavity.ep(batch_size=4),
    "sep": cavity.sep(batch_size=4),
    "adf": cavity.adf(4),
}
QUICK = [("heavy tails", "ep"), ("heavy tails", "vmp"), ("log-concave", "aep"), ("with a centre", "adf")]
PAIRS = thinned([(name, by) for name in IN_NUMPY_AND_JAX for by in ALGORITHMS], lambda *pair: pair in QUICK)


@pytest.mark.parametrize(("name", "by"), PAIRS)
def test_a_function_of_numpy_fits_as_that_of_jax(name, by):
    *functions, center = IN_NUMPY_AND_JAX[name]
    y = (TARGETS > 0).astype(float) if name == "log-concave" else TARGETS
    ours, traced = (
        cavity.fit(factors.glm(log_lik, center), Gaussian.isotropic(2), (ROWS, y), ALGORITHMS[by], tol=1e-9)
        for log_lik in functions
    )
    assert ours.posterior.is_proper()
    np.testing.assert_allclose(ours.posterior.mean, traced.posterior.mean, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(ours.posterior.covariance, traced.posterior.covariance, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(ours.log_evidence, traced.log_evidence, rtol=1e-7)


@pytest.mark.parametrize("algorithm", [cavity.ep(), cavity.sep(), cavity.dsep(3)], ids=["ep", "sep", "dsep"])
def test_a_function_of_numpy_fits_row_by_row_as_that_of_jax(algorithm):
    # many small batches are visited inside of a compiled program, which could not call it
    data = np.tile(ROWS, (2, 1)), np.tile(TARGETS, 2)
    ours, traced = (
        cavity.fit(factors.glm(log_lik), Gaussian.isotropic(2), data, algorithm, tol=1e-9)
        for log_lik in IN_NUMPY_AND_JAX["heavy tails"][:2]
    )
    np.testing.assert_allclose(ours.posterior.mean, traced.posterior.mean, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(ours.posterior.covariance, traced.posterior.covariance, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(ours.log_evidence, traced.log_evidence, rtol=1e-7)


@pytest.mark.parametrize("ask", ["evidence_gradient", "linear_response"])
def test_a_function_of_numpy_is_named_where_it_would_be_differentiated(ask):
    log_lik = IN_NUMPY_AND_JAX["heavy tails"][0]
    result = cavity.fit(factors.glm(log_lik), Gaussian.isotropic(2), (ROWS, TARGETS), cavity.aep(), keep_data=True)
    given = [lambda q: q.shift] if ask == "linear_response" else []
    with pytest.raises(ValueError, match=r"^log_lik .*jax.numpy.*TracerArrayConversionError"):
        getattr(result, ask)(*given)


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
