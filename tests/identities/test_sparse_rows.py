"""Sparse rows give the products, and the fits, of the same rows spread out."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

import cavity
from cavity.factors.glm import rows as rows_of
from cavity.inference.contract import CHUNK
from tests.registry import assert_trees_close, thinned
from tests.steps import WAYS

RNG = np.random.default_rng(5)


def random_rows(n, dim, per_row):
    """A matrix with up to `per_row` entries in each row, one row empty and one entry given in two parts."""
    matrix = sparse.random_array((n, dim), density=per_row / dim, rng=RNG, format="csr").tolil()
    matrix[0] = 0.0
    matrix = matrix.tocoo()
    return sparse.coo_array(
        (np.append(matrix.data, [0.5, 0.5]), (np.append(matrix.row, [2, 2]), np.append(matrix.col, [1, 1]))),
        shape=(n, dim),
    )


@pytest.mark.parametrize("traced", [False, True], ids=["host", "traced"])
@pytest.mark.parametrize(("dim", "per_row"), [(200, 3), (6, 3)], ids=["few entries", "many entries"])
def test_products(dim, per_row, traced):
    matrix = random_rows(30, dim, per_row)
    dense, weight = matrix.toarray(), RNG.normal(size=30)
    root = RNG.normal(size=(dim, dim))
    with jax.enable_x64(True):
        of = lambda numbers: jax.tree.map(jnp.asarray, numbers) if traced else numbers
        rows, kind = of(rows_of.SparseRows.of(matrix)), jax.Array if traced else np.ndarray
        assert rows.shape == (30, dim)
        assert rows.is_wide == (dim == 6)
        found = {
            "dense": rows.dense(),
            "matrix": rows_of.times(rows, of(root)),
            "vector": rows_of.times(rows, of(root[0])),
            "quadratic": rows_of.quadratic(rows, of(root @ root.T)),
            "sum": rows_of.weighted_sum(rows, of(weight)),
            "gram": rows_of.weighted_gram(rows, of(weight)),
        }
        assert all(isinstance(value, kind) for value in found.values())
        np.testing.assert_allclose(found["dense"], dense, rtol=1e-14)
        np.testing.assert_allclose(found["matrix"], dense @ root, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found["vector"], dense @ root[0], rtol=1e-12, atol=1e-12)
        quadratic = np.sum((dense @ root @ root.T) * dense, 1)
        np.testing.assert_allclose(found["quadratic"], quadratic, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(found["sum"], dense.T @ weight, rtol=1e-12, atol=1e-12)
        gram = dense.T @ (weight[:, None] * dense)
        np.testing.assert_allclose(found["gram"], gram, rtol=1e-12, atol=1e-12)


POINTS = {
    "ep": (cavity.ep(), 3),
    "ep in batches": (cavity.ep(batch_size=16), 3),
    "ep in batches, few entries": (cavity.ep(batch_size=16), 35),
    "parallel-ep": (cavity.parallel_ep(), 3),
    "power-ep in batches": (cavity.power_ep(0.5, batch_size=16), 3),
    "vmp in batches": (cavity.vmp(batch_size=16), 3),
    "ep at a given rate": (cavity.ep(batch_size=16, rate=0.3), 3),
    "sep": (cavity.sep(), 3),
    "dsep": (cavity.dsep(groups=np.arange(40) % 4), 3),
    "dsep, few entries": (cavity.dsep(groups=np.arange(40) % 4), 35),
    "aep": (cavity.aep(), 3),
    "fewer rows than features": (cavity.ep(), 60),
}
QUICK = ["ep", "ep in batches, few entries", "sep", "dsep", "aep", "fewer rows than features"]


@pytest.mark.parametrize("name", thinned(POINTS, lambda name: name in QUICK))
def test_fits(name):
    algorithm, dim = POINTS[name]
    matrix = random_rows(40, dim, 2)
    y, weights = RNG.choice([-1.0, 1.0], 40), RNG.choice([0.0, 0.4, 1.0, 2.0], 40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cavity.ConvergenceWarning)
        fit = lambda features, start=None: cavity.fit(
            cavity.factors.probit(),
            cavity.Gaussian.isotropic(dim),
            (features, y),
            algorithm,
            weights=weights,
            max_sweeps=3,
            start=start,
        )
        spread, thin = fit(matrix.toarray()), fit(matrix)
        assert_same_fit(thin, spread)
        assert_same_fit(fit(matrix, thin), fit(matrix.toarray(), spread))


def assert_same_fit(one, other):
    assert_trees_close(one.posterior, other.posterior, rtol=1e-11)
    np.testing.assert_allclose(one.log_evidence, other.log_evidence, rtol=1e-12)
    for name in ("change", "skipped", "backoffs", "rate", "entropy"):
        np.testing.assert_allclose(getattr(one.history, name), getattr(other.history, name), rtol=1e-6, atol=1e-12)


def test_rates_are_cut_and_rows_skipped_alike():
    rng = np.random.default_rng(0)
    features, y = rng.normal(size=(30, 2)), rng.choice([-1.0, 1.0], 30) * rng.uniform(3, 10, 30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = lambda features: cavity.fit(
            cavity.factors.student_t(1.0, 0.01),
            cavity.Gaussian.isotropic(2),
            (features, y),
            cavity.parallel_ep(),
            max_sweeps=20,
        )
        spread, thin = fit(features), fit(sparse.csr_array(features))
    assert spread.history.backoffs.sum() > 0
    assert spread.n_skipped > 0
    assert_same_fit(thin, spread)


@pytest.mark.parametrize("dim", [pytest.param(5, marks=pytest.mark.slow), 35], ids=["many entries", "few entries"])
@pytest.mark.parametrize("algorithm", [cavity.ep(), cavity.aep()], ids=["own", "shared"])
def test_every_way_to_take_a_batch_takes_sparse_rows(algorithm, dim):
    matrix, y = random_rows(40, dim, 2), RNG.choice([-1.0, 1.0], 40)
    factor, prior = cavity.factors.probit(), cavity.Gaussian.isotropic(dim)
    begin = lambda way, features: WAYS[way].begin(factor, prior, (features, y), algorithm)
    spread = begin("chunks", matrix.toarray())
    thin = [begin(way, matrix) for way in WAYS]
    for rows in (np.arange(20), np.arange(20, 40), np.arange(10, 30)):
        info = spread.visit(rows, 0.7, 0.5)
        for steps in thin:
            assert steps.visit(rows, 0.7, 0.5)[:2] == info[:2]
            assert_trees_close(steps.state.q, spread.state.q, rtol=1e-11)


@pytest.mark.parametrize("per_row", [2, 30], ids=["few entries", "many entries"])
def test_chunks_are_as_long_as_columns_and_entries_say_and_change_nothing(per_row, monkeypatch):
    matrix, y = random_rows(40, 35, per_row), RNG.choice([-1.0, 1.0], 40)
    rows = rows_of.SparseRows.of(matrix)
    fit = lambda features: cavity.fit(
        cavity.factors.probit(), cavity.Gaussian.isotropic(35), (features, y), cavity.parallel_ep()
    )
    spread = fit(matrix.toarray())
    assert_same_fit(fit(matrix), spread)
    assert rows_of.chunk_size(rows) == rows_of.chunk_size(rows[:3]) == CHUNK
    dense = matrix.toarray()
    assert rows_of.chunk_size(dense) == rows_of.chunk_size(dense[:3]) >= CHUNK  # nor do they depend on rows here
    work = 7 * (35 if rows.is_wide else rows.values.shape[1] ** 2)  # numbers, for seven rows at a time
    monkeypatch.setattr(rows_of, "WORK", work)
    assert rows_of.chunk_size(rows) == rows_of.chunk_size(rows[:3]) == 7
    assert_same_fit(fit(matrix), spread)


@pytest.mark.parametrize("order", ["C", "F"])
def test_any_prior_in_any_memory_order(order):
    matrix, y = random_rows(40, 5, 2), RNG.choice([-1.0, 1.0], 40)
    root = RNG.normal(size=(5, 5))
    prior = cavity.Gaussian(RNG.normal(size=5), np.asarray(np.eye(5) + root @ root.T, order=order))
    fit = lambda features: cavity.fit(cavity.factors.probit(), prior, (features, y), cavity.ep(10))
    assert_same_fit(fit(matrix), fit(matrix.toarray()))


def test_the_evidence_has_the_same_gradient():
    matrix, y = random_rows(40, 5, 2), RNG.choice([-1.0, 1.0], 40)
    fit = lambda features: cavity.fit(
        cavity.factors.probit(), cavity.Gaussian.isotropic(5), (features, y), cavity.ep(20), tol=1e-10, keep_data=True
    )
    assert_trees_close(
        fit(matrix).evidence_gradient(), fit(matrix.toarray()).evidence_gradient(), rtol=1e-7, atol=1e-10
    )


def test_a_diagonal_gaussian_takes_sparse_rows_too():
    matrix, y = random_rows(20, 4, 2), RNG.choice([-1.0, 1.0], 20)
    prior = cavity.DiagonalGaussian(np.zeros(4), np.ones(4))
    fit = lambda features: cavity.fit(cavity.factors.probit(), prior, (features, y), cavity.aep())
    assert_trees_close(fit(matrix).posterior, fit(matrix.toarray()).posterior, rtol=1e-9)


def test_sparse_rows_are_checked():
    fit = lambda features: cavity.fit(
        cavity.factors.probit(), cavity.Gaussian.isotropic(2), (features, np.ones(3)), cavity.ep()
    )
    with pytest.raises(ValueError, match="X must have as many columns as the prior has coefficients, 2; got 3"):
        fit(sparse.eye_array(3, format="csr"))
    with pytest.raises(ValueError, match="X must be finite"):
        fit(sparse.csr_array(np.array([[1.0, np.nan], [0.0, 1.0], [0.0, 0.0]])))
