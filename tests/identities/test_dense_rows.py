"""Products with dense rows on the host: half of a symmetric one is formed, in work arrays that threads keep."""

import threading

import numpy as np
import pytest

from cavity.factors.glm import rows as rows_of

RNG = np.random.default_rng(8)


@pytest.mark.parametrize("dim", [1, 3, 40, 41, 97, 230])
@pytest.mark.parametrize("sign", ["positive", "zero", "mixed", "negative"])
def test_gram(dim: int, sign: str) -> None:
    features, weight = RNG.normal(size=(300, dim)), np.abs(RNG.normal(size=300))
    weight[::3] *= {"positive": 1.0, "zero": 0.0, "mixed": -1.0, "negative": -1.0}[sign]
    weight = -np.abs(weight) if sign == "negative" else weight
    found = rows_of.weighted_gram(features, weight)
    exact = np.einsum("ni,n,nj->ij", features, weight, features)
    np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-11)


def test_a_weight_that_is_not_a_number_shows() -> None:
    assert np.all(np.isnan(rows_of.weighted_gram(np.ones((3, 2)), np.array([1.0, np.nan, 1.0]))))


def test_work_arrays_are_used_again_and_hold_no_result() -> None:
    features, matrix = RNG.normal(size=(50, 7)), RNG.normal(size=(7, 7))
    first = rows_of.quadratic(features, matrix)
    kept, exact = rows_of.scratch((50, 7)), np.einsum("ni,ij,nj->n", features, matrix, features)
    rows_of.weighted_gram(features, np.ones(50))
    rows_of.quadratic(features[::-1], matrix)
    assert np.shares_memory(kept, rows_of.scratch((50, 7)))
    np.testing.assert_allclose(first, exact, rtol=1e-12)


def test_threads_have_work_arrays_of_their_own() -> None:
    here, there = rows_of.scratch((9,)), []
    thread = threading.Thread(target=lambda: there.append(rows_of.scratch((9,))))
    thread.start()
    thread.join()
    assert not np.shares_memory(here, there[0])


def test_large_work_arrays_are_not_kept() -> None:
    size = rows_of.LARGEST_KEPT + 1
    assert not np.shares_memory(rows_of.scratch((size,)), rows_of.scratch((size,)))
