"""Equation (51), the closed form for mixtures, is the linear response of their variational fixed point."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity.estimators.mixture.model import Prior, given_labels
from cavity.estimators.mixture.posterior import MixturePosterior
from cavity.estimators.mixture.response import assembled, covariance_of, unknown_assignments
from cavity.estimators.units import Units
from cavity.families.stirling import log_minus_digamma
from tests.registry import thinned

LABELS = np.arange(60) % 2
X = np.random.default_rng(1).normal(size=(60, 2)) + 3.0 * LABELS[:, None] * [1, 0]


def expectations(q):
    """E_q of log weights, means and log variances."""
    components, alpha = q["components"], jnp.asarray(q["weights"].concentration)
    mean = components.shift / jnp.asarray(components.count)[..., None]
    if isinstance(components, cavity.NormalWishart):
        shape = 0.5 * (components.df - 1)[:, None]
        rate = 0.5 * (jnp.diagonal(components.rate, axis1=-2, axis2=-1) - components.count[:, None] * mean**2)
    else:
        shape = components.shape.reshape(2, -1)
        rate = (components.rate - 0.5 * components.count * jnp.sum(mean**2, axis=-1)).reshape(2, -1)
    mean = mean.reshape(2, -1)
    log_variance = jnp.broadcast_to(jnp.log(rate / shape) + log_minus_digamma(shape), mean.shape)
    mean_log = jnp.log(alpha / jnp.sum(alpha)) - log_minus_digamma(alpha) + log_minus_digamma(jnp.sum(alpha))
    return jnp.concatenate([mean_log, mean.ravel(), log_variance.ravel()])


@pytest.mark.parametrize("kind", thinned(["full", "diag", "spherical"], lambda kind: kind == "full"))
def test_closed_form_is_linear_response(kind):
    prior = Prior(2, kind, concentration=1.0, mean_count=0.01, df=4.0, variance=0.5).family(np.zeros((2, 2)))
    factor = cavity.factors.gaussian_mixture()
    start = given_labels(prior, X, np.ones(60), LABELS)
    result = cavity.fit(factor, prior, X, cavity.averaged_vmp(), start=start, tol=1e-8, keep_data=True)
    response = result.linear_response(expectations)
    posterior = MixturePosterior.of(result.posterior, Units(np.zeros(2), np.ones(2)))
    with jax.enable_x64(True):
        share = np.asarray(jax.jit(jax.vmap(lambda x: factor.responsibilities(result.posterior, x, 0)))(X))
    fisher, with_u = assembled(posterior)
    np.testing.assert_allclose(with_u.T @ np.linalg.solve(fisher, with_u), response.own, rtol=1e-9, atol=1e-12)
    total, _ = covariance_of(posterior, unknown_assignments(posterior, X, np.ones(60), share))
    np.testing.assert_allclose(total, response.own + response.added, rtol=1e-9, atol=1e-12)
