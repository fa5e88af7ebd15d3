"""Anderson's acceleration: the combination it takes, the metric it measures in, and where it leads."""

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity.families import Dirichlet, Gamma, Product
from cavity.inference.acceleration import Acceleration, products, shortest


def test_a_linear_map_is_solved_after_one_sweep_more_than_dimensions():
    rng = np.random.default_rng(0)
    matrix, shift = np.diag([0.9, 0.5, -0.3]) + 0.05 * rng.normal(size=(3, 3)), rng.normal(size=3)
    fixed = np.linalg.solve(np.eye(3) - matrix, shift)
    at, ends, moves = rng.normal(size=3), [], []
    for _ in range(4):
        ends.append(matrix @ at + shift)
        moves.append(ends[-1] - at)
        at = ends[-1]
    share = shortest(np.array(moves) @ np.array(moves).T)
    np.testing.assert_allclose(share @ np.array(ends), fixed, rtol=1e-5)
    assert np.linalg.norm(ends[-1] - fixed) > 0.1 * np.linalg.norm(fixed)


def test_lengths_are_those_of_the_hessian_of_the_log_partition():
    with jax.enable_x64(True):
        q = Product({"a": Gamma(jnp.array(3.0), jnp.array(2.0)), "b": Dirichlet(jnp.array([1.0, 4.0]))})
        moves = jax.tree.map(lambda leaf: jax.random.normal(jax.random.key(1), (3, *leaf.shape)), q)
        flat, back = jax.flatten_util.ravel_pytree(q)
        hessian = jax.hessian(lambda eta: back(eta).log_partition())(flat)
        rows = jax.vmap(lambda move: jax.flatten_util.ravel_pytree(move)[0])(moves)
        np.testing.assert_allclose(products(q, moves), rows @ hessian @ rows.T, rtol=1e-10)


def test_moves_that_are_alike_or_nothing_are_not_combined():
    assert shortest(np.zeros((2, 2))) is None
    moves = np.array([1.0, 1.00001])  # which would have to be carried on for a hundred thousand sweeps
    assert shortest(np.outer(moves, moves)) is None
    assert Acceleration().propose(None) is None


@pytest.fixture
def overlapping():
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.normal(-1, 1, 300), rng.normal(1.2, 0.8, 300)])[:, None]
    components = cavity.NormalGamma.from_parameters([[-1.0], [1.0]], np.full(2, 0.1), np.ones(2), np.ones(2))
    return {"weights": cavity.Dirichlet([2.0, 2.0]), "components": components}, x


def test_slow_sweeps_reach_the_same_fixed_point_in_fewer(overlapping, monkeypatch):
    prior, x = overlapping
    run = lambda: cavity.fit(cavity.factors.gaussian_mixture(), prior, x, cavity.aep(), tol=1e-7)
    quick = run()
    monkeypatch.setattr(Acceleration, "propose", lambda *_: None)
    plain = run()
    assert quick.converged
    assert plain.converged
    assert quick.n_sweeps < 0.6 * plain.n_sweeps
    assert quick.posterior.distance(plain.posterior) < 1e-5
    assert quick.log_evidence == pytest.approx(plain.log_evidence, abs=1e-6)


def test_a_combination_that_goes_astray_is_taken_back(overlapping, monkeypatch):
    prior, x = overlapping
    propose = Acceleration.propose

    def astray(self, q):
        sites = propose(self, q)
        return None if sites is None else jax.tree.map(lambda leaf: 1.2 * leaf, sites)

    monkeypatch.setattr(Acceleration, "propose", astray)
    wrong = cavity.fit(cavity.factors.gaussian_mixture(), prior, x, cavity.aep(), tol=1e-6)
    monkeypatch.setattr(Acceleration, "propose", lambda *_: None)
    plain = cavity.fit(cavity.factors.gaussian_mixture(), prior, x, cavity.aep(), tol=1e-6)
    assert wrong.converged
    assert wrong.posterior.distance(plain.posterior) < 1e-4
