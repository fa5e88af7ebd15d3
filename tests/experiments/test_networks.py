"""What the experiments on networks say of their numbers, and how they are taken."""

import numpy as np
import pytest

from cavity import NetworkRegressor
from cavity.experiments import memory, one_network, table2
from cavity.experiments.memory import MEBI
from tests.estimators.test_network import sine


def wrong(claims):
    return [claim.what for claim in claims if claim.holds is False]


def row_of_table_2(name, worse=0.0, later=0.0):
    """Our numbers as the paper's, so much worse after 40 epochs and after 80, and a default that meets its goals."""
    row = {}
    for i, method in enumerate(table2.METHODS):
        (rmse, rmse_se), (value, se) = table2.PAPER[name][i], table2.PAPER[name][3 + i]
        for look, gap in (("40", worse), ("80", later)):
            row[f"{method}, {look}"] = {"rmse": (rmse + gap, rmse_se), "log_likelihood": (value - gap, se)}
    goal = table2.GOALS[name]
    return row | {table2.DEFAULT: {"log_likelihood": (goal, 0.01), "coverage": (0.9, 0.01), "rmse": (1.0, 0.1)}}


@pytest.mark.parametrize("name", table2.UNITS)
def test_numbers_of_table_2(name):
    assert not wrong(table2.claims_of(name, row_of_table_2(name)))
    assert not wrong(table2.claims_of(name, row_of_table_2(name, worse=-0.2)))
    assert len(wrong(table2.claims_of(name, row_of_table_2(name, worse=0.2)))) == 6


def test_the_paper_s_number_of_sweeps_decides_and_others_are_shown():
    claims = table2.claims_of("naval", row_of_table_2("naval", worse=0.2, later=0.0))
    first = claims[0]
    assert first.holds is False
    assert first.remark == "met by 80"
    assert "(40)" in first.ours
    assert "(80)" in first.ours


@pytest.mark.parametrize(("key", "value"), [("log_likelihood", 1.09), ("coverage", 0.85), ("coverage", 0.95)])
def test_goals_of_the_default(key, value):
    row = row_of_table_2("kin8nm")
    row[table2.DEFAULT][key] = value, 0.01
    assert len(wrong(table2.claims_of("kin8nm", row))) == 1


def test_the_default_of_the_table_is_that_of_the_estimator():
    fit, look = table2.DEFAULT.rsplit(", ", 1)
    assert look == str(NetworkRegressor().n_epochs)
    assert table2.FITS[fit] == {}


def test_one_fit_serves_all_numbers_of_epochs():
    X, y = sine(60)
    watch = table2.Watch(("2", "4", "auto"), X, y)
    NetworkRegressor((4,), n_epochs=table2.MOST).fit(X, y, callback=watch)
    assert watch.found["auto"]["epochs"] >= 3 * table2.WINDOW
    for look in ("2", "4"):
        alone = NetworkRegressor((4,), n_epochs=int(look)).fit(X, y)
        mean, sd = alone.predict(X, return_std=True)
        assert watch.found[look]["rmse"] == pytest.approx(np.sqrt(np.mean((y - mean) ** 2)), rel=1e-10)
        assert watch.found[look]["log_likelihood"] == pytest.approx(alone.log_predictive(X, y).mean(), rel=1e-10)
        assert watch.found[look]["coverage"] == np.mean(np.abs(y - mean) < 1.6448536269514722 * sd)


def test_cells_that_are_missing_leave_gaps_in_the_tables(tmp_path):
    scores = {name: [0.9, 0.91] for name in ("rmse", "log_likelihood", "coverage", "epochs")} | {"site_bytes": [8, 8]}
    cells = table2.cells(False, 0)
    keys = [f"{name}-{method}-40" for name in ("naval", "power") for method in table2.METHODS]
    keys += ["naval-EP-noise-varies-40", "naval-ADF-longer"]
    done = {key: (cells[key], dict.fromkeys(cells[key]["looks"], scores)) for key in keys}
    summary = table2.collect(done)
    assert summary.tables[0].rows["EP, noise varies, 40"] == ["0.905 ± 0.005", ""]
    assert [claim.remark != "" for claim in summary.claims if claim.what.startswith("naval, ADF")] == [True, True]
    table2.draw(summary.figures, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


# -- memory ------------------------------------------------------------------------------------------------------


def result_of(rows, n_features, units, algorithm, **more):
    n_weights = (n_features + 1) * units + units + 1
    n_bytes = 8 * (2 * n_weights + 4) * (rows if algorithm == "ep" else 1)
    plain = {"data": "made up", "data_bytes": 1e8, "refusal": None, "epochs": 2, "peak": 1e9}
    sizes = {"rows": rows, "n_features": n_features, "n_weights": n_weights, "site_bytes": n_bytes}
    return {**sizes, **plain, **more}


def year(**more):
    said = "EP keeps a site for each of 463,715 rows: 68.3 GB. Use SEP, site_dtype='float32' or site_directory."
    return {
        "sep": result_of(*memory.YEAR, 100, "sep", **more),
        "ep": result_of(*memory.YEAR, 100, "ep", refusal=said, epochs=0),
    }


def test_the_paper_s_number_for_year_is_two_numbers_for_each_weight_and_one_more():
    row = memory.row_of(year())
    assert round((row["counted"] - row["sep"]) / MEBI) == memory.PAPER["year"]


def test_claims_on_memory():
    assert not wrong([memory.saving("year", memory.row_of(year())), *memory.year_claims(year())])
    assert len(wrong(memory.year_claims(year(peak=2.1e9)))) == 1
    late = year()
    late["ep"]["epochs"] = 1
    assert wrong(memory.year_claims(late)) == ["year: EP is refused"]
    assert memory.year_claims(year(peak=None))[0].holds is None
    few = {a: result_of(1000, 8, 50, a) for a in ("sep", "ep")}
    assert wrong([memory.saving("kin8nm", memory.row_of(few))])


@pytest.mark.filterwarnings("ignore:The network says the same of all rows")  # after one epoch of fifty rows
def test_a_network_measures_its_process(tmp_path, monkeypatch):
    monkeypatch.setenv("CAVITY_DATA", str(tmp_path))
    monkeypatch.setattr(one_network, "load", refuse)
    cell = {"set": "year", "algorithm": "ep", "n_epochs": 1, "seed": 0, "units": 3, "rows": 50}
    found = one_network.measure(cell)
    assert found["site_bytes"] == 50 * 8 * (2 * found["n_weights"] + 4)
    assert found["epochs"] == 1
    assert found["data"].startswith("made up")
    monkeypatch.setattr("cavity.factors.networks.site_storage.free_memory", lambda: 1e3)
    refused = one_network.measure(cell)
    assert refused["epochs"] == 0
    assert "site_directory" in refused["refusal"]
    assert refused["site_bytes"] == found["site_bytes"]


def refuse(name):
    raise one_network.DatasetError(name)
