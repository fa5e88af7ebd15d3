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
from cavity.inference import memory, order
from tests.registry import FACTORS, assert_trees_close, thinned
from tests.steps import WAYS

RHO, ROWS = 0.3, np.array([0, 3, 4])


# The host has nodes of its own for these, good to 1e-8; everything else takes E_q[log p] from where the reference does.
BY_OTHER_NODES = [("logit", "chunks"), ("student-t", "chunks")]
QUICK = ["gaussian", "logit", "poisson", "bernoulli-beta"]


@pytest.mark.parametrize("name", thinned(FACTORS, lambda name: name in QUICK))
def test_step_is_a_natural_gradient_step(name):
    case = FACTORS[name]
    n = len(jax.tree.leaves(case.data)[0])
    ways = {way: WAYS[way].begin(case.factor, case.prior, case.data, cavity.svi(batch_size=3)) for way in WAYS}
    plain = ways["general chunks"]
    plain.visit(np.arange(n), 0.2, power=0)  # somewhere that is not the prior
    state = plain.state
    for steps in ways.values():
        steps.state = state
        steps.visit(ROWS, RHO * n / len(ROWS), power=0)
    with jax.enable_x64(True):
        flat, unflatten = ravel_pytree(jax.tree.map(jnp.asarray, state.q))
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
        for way, steps in ways.items():
            assert_trees_close(steps.state.q, unflatten(wanted), rtol=1e-10 if (name, way) in BY_OTHER_NODES else 1e-12)


def test_svi_steps_by_rho_when_batches_are_uneven():
    # N = 12 in batches of 5, 5 and 2: on a conjugate model q ← (1 − ρ) q + ρ (λ₀ + N × mean site of the batch)
    case, rho = FACTORS["gaussian"], 0.3
    features, y = case.data
    algorithm = cavity.svi(batch_size=5, rate=rho)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cavity.ConvergenceWarning)
        result = cavity.fit(case.factor, case.prior, case.data, algorithm, max_sweeps=1)
    slots = memory.assign(None, 1, [12], None)
    plan = order.plan(order.generator(0, 1, 0), slots, 0, 12, 5, replace=False)  # of seed 0, sweep 1, part 0
    assert [int(np.sum(rows < 12)) for rows in plan.rows] == [5, 5, 2]
    shift, precision = case.prior.shift, case.prior.precision
    for rows in plan.rows:
        rows = rows[rows < 12]
        target = 2 * 12 / len(rows) * features[rows].T @ y[rows], 2 * 12 / len(rows) * features[rows].T @ features[rows]
        shift = (1 - rho) * shift + rho * (case.prior.shift + target[0])
        precision = (1 - rho) * precision + rho * (case.prior.precision + target[1])
    np.testing.assert_allclose(result.posterior.shift, shift, rtol=1e-10)
    np.testing.assert_allclose(result.posterior.precision, precision, rtol=1e-10)
