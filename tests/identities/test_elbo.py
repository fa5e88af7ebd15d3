"""VMP's fixed point is the optimum of the ELBO found by direct optimisation, and its log Z is that ELBO (α = 0)."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

import cavity
from tests.registry import FACTORS, thinned


@pytest.mark.parametrize("name", ["probit", "poisson", pytest.param("student-t", marks=pytest.mark.slow)])
def test_vmp_finds_the_optimum_of_the_elbo(name):
    case = FACTORS[name]
    result = cavity.fit(case.factor, case.prior, case.data, cavity.vmp(), tol=1e-9)
    dim = len(case.prior.shift)
    lower = np.tril_indices(dim)

    def gaussian(point):
        root = jnp.zeros((dim, dim)).at[lower].set(point[dim:])
        return cavity.Gaussian.from_mean(point[:dim], root @ root.T)

    def negative_elbo(point):
        q = gaussian(point)
        expected = jax.vmap(lambda datum: case.factor.log_mean(q, datum, 0))(jax.tree.map(jnp.asarray, case.data))
        return q.kl(case.prior) - expected.sum()

    with jax.enable_x64(True):
        start = np.concatenate([np.zeros(dim), np.eye(dim)[lower]])
        both = jax.jit(jax.value_and_grad(negative_elbo))
        optimum = minimize(both, start, jac=True, method="BFGS", options={"gtol": 1e-9})
        best = gaussian(jnp.asarray(optimum.x))
        best = cavity.Gaussian(best.shift, best.precision)
    np.testing.assert_allclose(result.posterior.mean, best.mean, atol=1e-6)
    np.testing.assert_allclose(result.posterior.covariance, best.covariance, atol=1e-6)
    np.testing.assert_allclose(result.log_evidence, -optimum.fun, atol=1e-9)


@pytest.mark.parametrize(
    "algorithm", thinned([cavity.vmp(), cavity.averaged_vmp(), cavity.svi(batch_size=5)], lambda a: a.n_sites != 1)
)
def test_before_convergence_log_z_is_the_elbo_of_the_current_q(algorithm):
    case = FACTORS["probit"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cavity.ConvergenceWarning)
        result = cavity.fit(case.factor, case.prior, case.data, algorithm, max_sweeps=1)
    q = result.posterior
    with jax.enable_x64(True):
        data = jax.tree.map(jnp.asarray, case.data)
        expected = float(jax.vmap(lambda datum: case.factor.log_mean(q, datum, 0))(data).sum())
    np.testing.assert_allclose(result.log_evidence, expected - q.kl(case.prior), rtol=1e-10)
