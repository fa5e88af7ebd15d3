"""Figure 3: where the methods begin, and what is said of their errors."""

import numpy as np
import pytest

import cavity
from cavity.experiments import fig3
from cavity.experiments.reference import MixtureReference


def test_a_posterior_without_spread_is_as_wrong_as_the_covariance_is_large():
    covariance = np.array([[[4.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]])
    reference = MixtureReference(np.zeros((2, 2)), covariance, 1e4, 1.0, 0.0, 0.01, 0.02)
    norm = (np.sqrt(17) + np.sqrt(2)) / 2
    assert fig3.about(reference) == {
        "effective": 1e4,
        "rhat": 1.0,
        "permuted": 0.0,
        "mean_floor": 0.01,
        "covariance_floor": 0.02,
        "norm": pytest.approx(norm),
    }


@pytest.mark.slow
def test_every_method_begins_at_the_same_centres():
    data = fig3.make(0)
    centres = fig3.centres_of(data)
    assert np.abs(centres - data.centres).max() < 0.5
    factor = cavity.factors.mixture(np.full(4, 0.25), fig3.NOISE**2)
    paths = {name: fig3.run(name, factor, data.X, centres, 3)[1] for name in ("EP", "SEP", "ADF")}
    for path in paths.values():
        assert np.abs(np.asarray(path[0].mean) - centres).max() < 0.4
    assert len(paths["ADF"]) == 3
    shrunk = np.asarray(paths["ADF"][-1].variance) / np.asarray(paths["EP"][-1].variance)
    np.testing.assert_allclose(shrunk, 1 / 3, rtol=0.2)  # the data counted three times
    assigned = fig3.assignments(factor, paths["EP"][-1], data.X)
    nearest = np.linalg.norm(data.X[:, None] - np.asarray(paths["EP"][-1].mean), axis=-1).argmin(1)
    assert np.mean(assigned == nearest) > 0.97


def test_data_keep_their_centres_apart():
    for seed in range(10):
        distances = np.linalg.norm((centres := fig3.make(seed).centres)[:, None] - centres, axis=-1)
        assert distances[np.triu_indices(4, 1)].min() >= fig3.SEPARATION


def results_of(average=0.02, covariance=0.0011, assigned=(0, 1, 1, 0)):
    """One data set: errors of three sweeps, and four points."""
    path = lambda end: [9.0, 5.0, end]
    return {
        "mean": path(0.01),
        "covariance": path(covariance),
        "average": path(average),
        "worst": path(2 * average),
        "assigned": list(assigned),
        "component": [0, 1, 1, 1],
        "seconds": [0.1, 0.2, 0.3],
        "site_bytes": 48,
        "reference": {"norm": 10.0, "mean_floor": 0.001, "covariance_floor": 0.0001},
    }


def experiment_with(sep=None, adf_end=9.9):
    plain = results_of(covariance=0.001)
    of = {name: [plain, plain] for name in fig3.METHODS}
    return of | {"SEP": [results_of(), results_of(**(sep or {}))], "ADF": [results_of(covariance=adf_end)] * 2}


@pytest.mark.parametrize(
    ("changes", "broken"),
    [
        ({}, []),
        ({"sep": {"average": 0.11}}, [0]),
        ({"sep": {"covariance": 0.00145}}, [1]),  # a median of 1.1 and 1.45
        ({"sep": {"covariance": 0.00135}}, []),
        ({"sep": {"assigned": (0, 1, 1, 1)}}, [2]),
        ({"adf_end": 8.0}, [3]),
    ],
)
def test_claims_hold_where_they_should(changes, broken):
    claims = fig3.claims(experiment_with(**changes))
    assert [i for i, claim in enumerate(claims) if claim.holds is False] == broken
    assert [claim.holds is None for claim in claims] == [False] * 4 + [True] * 3


def test_what_claims_and_table_show():
    of = experiment_with(sep={"covariance": 0.0013, "average": 0.04})
    claims = fig3.claims(of)
    assert claims[0].ours == "largest 0.040, median 0.030; the worst of one coordinate 0.080"
    assert claims[1].ours == "median 1.20; of each data set 1.10, 1.30"
    assert claims[3].ours == "from 9.0000 to 9.9000, 99.0% of the covariance itself"
    table = fig3.table(of, {"mean": 0.001, "covariance": 0.0001})
    assert table.rows["SEP"][1] == "0.00120"
    assert table.rows["EP"][4:6] == ["100.0%", "75.0%"]
    assert table.rows["reference, its own error"][:2] == ["0.00100", "0.00010"]
    assert {len(row) for row in table.rows.values()} == {len(table.columns)}


def test_what_hovers_is_judged_by_its_second_half():
    assert fig3.level("literal SEP", [9.0, 9.0, 0.1, 0.3]) == pytest.approx(0.2)
    assert fig3.level("SEP", [9.0, 9.0, 0.1, 0.3]) == 0.3
