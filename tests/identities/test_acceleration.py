"""Anderson's acceleration: the combination it takes, the metric it measures in, and where it leads."""

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity import _tree as tree
from cavity.families import Bernoulli, DiagonalGaussian, Gamma, Gaussian, Product
from cavity.inference import acceleration, control
from cavity.inference.acceleration import DEPTH, proposed, shortest, with_sweep
from cavity.inference.measure import inner_products
from tests.registry import assert_trees_close, spd


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


RNG = np.random.default_rng(1)
MEMBERS = {
    "traced": Product({"a": Gamma(np.array(3.0), np.array(2.0)), "b": Bernoulli(np.array([0.4, -1.0]))}),
    "host": Product({"a": Gaussian(RNG.normal(size=2), spd(RNG, (), 2)), "b": DiagonalGaussian([0.3], [2.0])}),
}


@pytest.mark.parametrize("name", MEMBERS)
def test_lengths_are_those_of_the_hessian_of_the_log_partition(name):
    q = MEMBERS[name]
    assert q.has_host_form() == (name == "host")
    random = lambda leaf: RNG.normal(size=leaf.shape)
    moves = [tree.map(lambda leaf: symmetric(random(leaf)), q) for _ in range(3)]
    with jax.enable_x64(True):
        flat, back = jax.flatten_util.ravel_pytree(tree.map(jnp.asarray, q))
        hessian = jax.hessian(lambda eta: back(eta).log_partition())(flat)
        rows = jnp.stack([jax.flatten_util.ravel_pytree(move)[0] for move in moves])
        wanted = rows @ hessian @ rows.T
    for at_most in (3, DEPTH):
        np.testing.assert_allclose(inner_products(q, moves, at_most), wanted, rtol=1e-10)


def symmetric(leaf):
    return leaf + leaf.T if leaf.ndim == 2 else leaf


def test_moves_that_are_alike_or_nothing_are_not_combined():
    assert shortest(np.zeros((2, 2))) is None
    moves = np.array([1.0, 1.00001])  # which would have to be carried on for a hundred thousand sweeps
    assert shortest(np.outer(moves, moves)) is None
    assert proposed((), None) is None
    assert proposed(with_sweep((), np.zeros(2), None), None) is None


def test_the_last_sweeps_are_kept_unless_they_are_large(monkeypatch):
    past = ()
    for number in range(DEPTH + 2):
        past = with_sweep(past, np.full(3, float(number)), float(number))
    assert [sweep.move for sweep in past] == [2.0, 3.0, 4.0, 5.0]
    assert [sweep.sites[0] for sweep in past] == [2.0, 3.0, 4.0, 5.0]
    monkeypatch.setattr(acceleration, "MOST_NUMBERS", 2)
    assert with_sweep(past, np.zeros(3), 6.0) is past


def test_sites_are_combined_as_moves_of_q_say():
    q = MEMBERS["host"]
    moves = [tree.map(lambda leaf: symmetric(RNG.normal(size=leaf.shape)), q) for _ in range(3)]
    sites = [tree.map(lambda leaf: RNG.normal(size=(4, *leaf.shape)), q) for _ in range(3)]
    past = ()
    for one, move in zip(sites, moves, strict=True):
        past = with_sweep(past, one, move)
    share = shortest(inner_products(q, moves, DEPTH))
    assert share.sum() == pytest.approx(1.0)
    wanted = tree.map(lambda *leaves: np.tensordot(share, np.stack(leaves), 1), *sites)
    assert_trees_close(proposed(past, q), wanted, rtol=1e-12)


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
    monkeypatch.setattr(acceleration, "proposed", lambda *_: None)
    plain = run()
    assert quick.converged
    assert plain.converged
    assert quick.n_sweeps < 0.6 * plain.n_sweeps
    assert quick.posterior.distance(plain.posterior) < 1e-5
    assert quick.log_evidence == pytest.approx(plain.log_evidence, abs=1e-6)


def test_a_combination_that_goes_astray_is_taken_back(overlapping, monkeypatch):
    prior, x = overlapping
    went = []

    def astray(past, q):
        sites = proposed(past, q)
        went.append(sites is not None)
        return None if sites is None else jax.tree.map(lambda leaf: 1.2 * leaf, sites)

    monkeypatch.setattr(acceleration, "proposed", astray)
    wrong = cavity.fit(cavity.factors.gaussian_mixture(), prior, x, cavity.aep(), tol=1e-6)
    assert any(went)
    monkeypatch.setattr(acceleration, "proposed", lambda *_: None)
    plain = cavity.fit(cavity.factors.gaussian_mixture(), prior, x, cavity.aep(), tol=1e-6)
    assert wrong.converged
    assert wrong.posterior.distance(plain.posterior) < 1e-4


def test_the_next_change_is_foreseen_where_changes_fall_quickly():
    foreseen = lambda *changes, before=1.0: control.next_change(control.Control(changes=changes, pace=before))
    assert foreseen(1.0, 0.05, 0.001) == pytest.approx(2e-5)
    assert foreseen(0.5, 0.04, 0.02) == 0.02  # half is left: no quick fall
    assert foreseen(0.05, 0.001) == 0.001  # one ratio says nothing,
    assert foreseen(0.001, before=0.01) == pytest.approx(1e-5)  # but with what was known before
    assert foreseen(0.05, 0.001, before=0.01) == pytest.approx(2e-5)
    assert foreseen(100.0, 9.0, 0.5) == 0.5  # too far from the end
    assert foreseen() == float("inf")
