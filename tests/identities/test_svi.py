"""One step at K = 1, α = 0 with ε = ρ N/M equals a natural-gradient step of SVI with step size ρ (section 5b).

The reference takes the ordinary gradient of the minibatch ELBO in η and multiplies it by the inverse Fisher matrix
∇²A(η); the engine takes the gradient in the moments. The two share only the value E_q[log p].
"""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import cavity
from cavity.inference import memory
from cavity.inference.kernel import Model, init
from cavity.inference.step import Batch, step
from tests.registry import FACTORS, assert_trees_close, thinned

RHO, ROWS = 0.3, np.array([0, 3, 4])


QUICK = ["gaussian", "logit", "poisson", "bernoulli-beta"]


@pytest.mark.parametrize("name", thinned(FACTORS, lambda name: name in QUICK))
def test_step_is_a_natural_gradient_step(name):
    case = FACTORS[name]
    with jax.enable_x64(True):
        n = len(jax.tree.leaves(case.data)[0])
        model = Model(case.factor, case.prior, case.data, jnp.ones(n), jnp.zeros(n, int), jnp.array([float(n)]))
        run = jax.jit(
            lambda state, rows, rate: step(
                state,
                Batch(rows, jnp.array(0)),
                model.data,
                model.weight,
                model.counts,
                factor=case.factor,
                power=0,
                rate=rate,
            )[0]
        )
        state = run(init(model, own=False), jnp.arange(n), 0.2)  # somewhere that is not the prior
        got = run(state, ROWS, RHO * n / len(ROWS)).q

        flat, unflatten = ravel_pytree(state.q)
        batch = jax.tree.map(lambda leaf: jnp.asarray(leaf)[ROWS], case.data)

        def elbo(eta):
            q = unflatten(eta)
            expected = jax.vmap(lambda datum: case.factor.log_mean(q, datum, 0))(batch).sum()
            return n / len(ROWS) * expected - q.kl(jax.tree.map(jnp.asarray, case.prior))

        gradient = jax.jit(jax.grad(elbo))(flat)
        fisher = jax.jit(jax.hessian(lambda eta: unflatten(eta).log_partition()))(flat)
        # symmetric matrices are stored twice over: the Fisher matrix is singular in the antisymmetric directions
        natural = jnp.linalg.pinv(fisher, rtol=1e-10, hermitian=True) @ gradient
        wanted = flat + RHO * natural
        assert_trees_close(got, unflatten(wanted), rtol=1e-12)


def test_svi_steps_by_rho_when_batches_are_uneven():
    # N = 12 in batches of 5, 5 and 2: on a conjugate model q ← (1 − ρ) q + ρ (λ₀ + N × mean site of the batch)
    case, rho = FACTORS["gaussian"], 0.3
    features, y = case.data
    algorithm = cavity.svi(batch_size=5, rate=rho)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cavity.ConvergenceWarning)
        result = cavity.fit(case.factor, case.prior, case.data, algorithm, max_sweeps=1)
    plan = memory.plan(np.random.default_rng(0), memory.assign(None, 1, np.ones(12)), 5, replace=False)
    shift, precision = case.prior.shift, case.prior.precision
    for rows in plan.rows:
        rows = rows[rows < 12]
        target = 2 * 12 / len(rows) * features[rows].T @ y[rows], 2 * 12 / len(rows) * features[rows].T @ features[rows]
        shift = (1 - rho) * shift + rho * (case.prior.shift + target[0])
        precision = (1 - rho) * precision + rho * (case.prior.precision + target[1])
    np.testing.assert_allclose(result.posterior.shift, shift, rtol=1e-10)
    np.testing.assert_allclose(result.posterior.precision, precision, rtol=1e-10)
