"""Centre and scale of columns: exact to rounding, however far from zero, in however many parts."""

from fractions import Fraction
from functools import partial, reduce
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse, stats

from cavity.estimators.units import Moments, Units, quantiles
from cavity.inference.contract import CHUNK

RNG = np.random.default_rng(5)
N = 3 * CHUNK + 17
NOISE = RNG.normal(size=N)
COLUMNS = {
    "plain": NOISE,
    "one to 1e9": 1e9 + NOISE,
    "a thousandth to 1e9": 1e9 + 1e-3 * NOISE,
    "far below zero": -1e12 + NOISE,
    "small": 1e-6 * NOISE,
    "small and far": 1e-6 + 1e-15 * NOISE,
    "two values": np.where(NOISE > 1.5, 1.0, 0.0),
}


def exact(column, weight):
    """Mean and variance as fractions."""
    values, counts = [Fraction(float(x)) for x in column], [Fraction(float(w)) for w in weight]
    total = sum(counts)
    mean = sum(w * x for w, x in zip(counts, values, strict=True)) / total
    return mean, sum(w * (x - mean) ** 2 for w, x in zip(counts, values, strict=True)) / total


def assert_exact(moments, column, weight):
    mean, variance = exact(column, weight)
    sd = float(variance) ** 0.5
    assert moments.scale[0] == pytest.approx(sd, rel=1e-13)
    offset = 2 * (Fraction(float(moments.origin[0])) + Fraction(float(moments.offset[0]))) - mean
    assert abs(float(offset)) < 1e-13 * sd  # though the mean itself may have no room for so many digits
    assert moments.mean[0] == pytest.approx(float(mean), rel=1e-15, abs=1e-13 * sd)
    assert moments.weight == pytest.approx(float(np.sum(weight)), rel=1e-14)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("name", [*COLUMNS])
def test_within_rounding_of_fractions(name, kind):
    column = COLUMNS[name]
    X = column[:, None] if kind == "dense" else sparse.csr_array(column[:, None])
    assert_exact(Moments.of(X), column, np.ones(N))
    weight = RNG.integers(0, 4, size=N) * RNG.choice([1.0, 0.3], size=N)
    assert_exact(Moments.of(X, weight), column, weight)


@pytest.mark.parametrize("name", [*COLUMNS])
def test_parts_in_any_order(name):
    column, weight = COLUMNS[name], RNG.uniform(0.1, 3.0, size=N)
    ends = [0, 1, 2, 40, 40, 3000, N - 1, N]
    parts = [Moments.of(column[a:b, None], weight[a:b]) for a, b in pairwise(ends)]
    for order in (range(len(parts)), reversed(range(len(parts)))):
        assert_exact(reduce(Moments.merge, [parts[k] for k in order]), column, weight)
    left = parts[0].merge(parts[1]).merge(parts[3])
    right = parts[0].merge(parts[1].merge(parts[3]))
    np.testing.assert_allclose([left.mean, left.scale], [right.mean, right.scale], rtol=1e-14)


def test_weights_count_rows():
    X, weight = RNG.normal([0, 1e8, -3], size=(50, 3)), RNG.integers(0, 4, size=50)
    X[weight == 0] = 1e300  # rows of no weight are no rows
    once, often = Moments.of(X, weight), Moments.of(np.repeat(X, weight, axis=0))
    np.testing.assert_allclose(once.mean, often.mean, rtol=1e-15)
    np.testing.assert_allclose(once.scale, often.scale, rtol=1e-14)
    assert once.weight == often.weight


def test_no_rows():
    nothing, some = Moments.of(np.empty((0, 2))), Moments.of(np.ones((3, 2)))
    assert nothing.weight == 0
    assert Moments.of(np.ones((3, 2)), np.zeros(3)).weight == 0
    assert Moments.of(sparse.csr_array((0, 2))).weight == 0
    assert nothing.merge(some) is some
    assert some.merge(nothing) is some
    np.testing.assert_array_equal(nothing.merge(nothing).scale, 1.0)


@pytest.mark.parametrize("value", [0.0, 0.1, -7.3, 1e9 + 0.1, 1e-300, 1e300])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_constant_columns_have_their_value_and_scale_one(value, make):
    moments = reduce(Moments.merge, [Moments.of(make(np.full((n, 1), value))) for n in (1, 9, 3 * CHUNK)])
    assert moments.mean[0] == value
    assert moments.scale[0] == 1.0


def test_columns_that_are_constant_but_for_rounding():
    X = np.where(RNG.uniform(size=(99, 1)) < 0.5, 0.3, 0.1 + 0.2)
    assert len(np.unique(X)) == 2
    assert Moments.of(X).scale[0] == 1.0


def test_the_largest_and_smallest_numbers():
    largest = np.finfo(float).max
    moments = Moments.of(np.array([[largest, 1e-200], [-largest, 3e-200]]))
    np.testing.assert_allclose(moments.mean, [0.0, 2e-200], atol=0)
    np.testing.assert_allclose(moments.scale, [largest, 1e-200], rtol=1e-14)


def test_sparse_rows_with_entries_in_two_parts():
    rows = sparse.csr_array((np.array([1.0, 2.0, 5.0]), np.array([0, 0, 0]), np.array([0, 2, 3, 3])), shape=(3, 1))
    given = rows.data.copy()
    moments = Moments.of(rows)
    np.testing.assert_allclose([moments.mean[0], moments.scale[0]], [8 / 3, np.std([3.0, 5.0, 0.0])], rtol=1e-14)
    np.testing.assert_array_equal(rows.data, given)


# -- units -------------------------------------------------------------------------------------------------------


def test_quantiles_are_those_of_repeated_rows():
    column, shares = RNG.normal(size=40).round(1), (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
    for weight in (np.ones(40, int), RNG.integers(1, 4, size=40)):
        repeated = np.repeat(column, weight)
        wanted = np.quantile(repeated, shares, method="averaged_inverted_cdf")
        np.testing.assert_allclose(quantiles(column, weight, shares), wanted, atol=1e-15)
    np.testing.assert_array_equal(quantiles(np.array([1.0, 2.0]), np.ones(2), (0.25, 0.5, 0.75)), [1.0, 1.5, 2.0])


@pytest.mark.parametrize("shift", [0.0, 1e9, -1e6])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e150])
def test_units_follow_shifts_and_scales(shift, size):
    X, shift = RNG.normal(size=(400, 3)), shift * size
    X = np.round(X * 2**20) / 2**20  # so that sums with the shift are exact
    for make in (Units.standard, partial(Units.robust, common=False), partial(Units.robust, common=True)):
        plain, moved = make(X, np.ones(400)), make(size * X + shift, np.ones(400))
        close = 1e-15 * abs(shift) + 1e-12 * size
        np.testing.assert_allclose(moved.scale, size * plain.scale, rtol=0, atol=close)
        np.testing.assert_allclose(moved.center, size * plain.center + shift, rtol=1e-15, atol=close)
        np.testing.assert_allclose(moved.to_fit(size * X + shift), plain.to_fit(X), atol=2e-6)


def test_robust_units_are_quartiles_where_rows_differ_and_deviations_where_half_are_equal():
    normal = stats.norm.ppf((np.arange(4000) + 0.5) / 4000)
    few = np.where(np.arange(4000) < 100, 5.0, 0.0)
    units = Units.robust(np.column_stack([normal, few, np.full(4000, 3.7)]), np.ones(4000), common=False)
    np.testing.assert_allclose(units.scale, [1.0, few.std(), 1.0], rtol=1e-3)
    np.testing.assert_allclose(units.center, [0.0, 0.0, 3.7], rtol=0, atol=1e-15)
    outlier = np.append(normal, 1e300)[:, None]
    assert Units.robust(outlier, np.ones(4001), common=False).scale[0] == pytest.approx(1.0, rel=1e-2)
    both = Units.robust(np.column_stack([normal, 100 * normal, np.full(4000, 3.7)]), np.ones(4000), common=True)
    np.testing.assert_allclose(both.scale, 10.0, rtol=1e-3)  # a constant column has no say


def test_rows_beyond_all_numbers_are_far_away():
    units = Units(np.zeros(2), np.array([1e-3, 1.0]))
    np.testing.assert_array_equal(
        units.to_fit(np.array([[1e308, -1e308], [1e99, -3.0]])), [[1e100, -1e100], [1e100, -3.0]]
    )
    largest = np.finfo(float).max
    units = Units.standard(np.array([[largest], [-largest]]), np.ones(2))
    np.testing.assert_allclose(units.to_fit(np.array([[largest], [-largest]])), [[1.0], [-1.0]])
