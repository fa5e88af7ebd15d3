"""Experiments keep what is finished, go on where they stopped, and say what they found."""

import json
import signal

import numpy as np
import pytest

import cavity
from cavity.cli import EXPERIMENT_IDS, main
from cavity.datasets import DatasetError
from cavity.experiments.catalogue import EXPERIMENTS
from cavity.experiments.report import write_report
from cavity.experiments.runner import Claim, Experiment, Summary, Table, reproduce, versions

CLAIM = Claim("sum <of squares>", "14", "14", "equal", True, "exactly")


def squares(log, fail_at=None, factor=1, settings=None):
    """An experiment that squares numbers and may be interrupted."""

    def compute(parameters):
        if parameters["number"] == fail_at:
            raise KeyboardInterrupt
        log.append(parameters["number"])
        return {"square": parameters["factor"] * parameters["number"] ** 2}

    def collect(done):
        total = sum(result["square"] for _, result in done.values())
        claims = [CLAIM, CLAIM._replace(holds=False), CLAIM._replace(holds=None)]
        return Summary(
            {"total": total}, claims, ["a note"], [Table("in <numbers>", ["one", "two"], {"row": ["1", "4"]})]
        )

    return Experiment(
        "squares",
        "Squares",
        settings or {},
        lambda quick, seed: {str(i): {"number": i, "factor": factor} for i in range(1, 3 if quick else 4)},
        compute,
        collect,
        lambda figures, path: path.write_bytes(b"picture"),
    )


def test_an_interrupted_run_goes_on(tmp_path):
    log = []
    with pytest.raises(KeyboardInterrupt):
        reproduce(squares(log, fail_at=3), tmp_path)
    assert log == [1, 2]
    assert reproduce(squares(log), tmp_path).figures == {"total": 14}
    assert log == [1, 2, 3]
    results = json.loads((tmp_path / "squares" / "results.json").read_text())
    assert results["claims"][0]["ours"] == "14"
    assert results["with"] == [versions()]
    assert (tmp_path / "squares" / "figure.png").read_bytes() == b"picture"
    assert not list(tmp_path.rglob("*.part"))


@pytest.fixture
def in_the_foreground():
    """Interrupts arrive, even if these tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("in_the_foreground")
def test_a_fit_that_is_interrupted_is_no_result(tmp_path):
    """A fit that is stopped returns what it has; a cell must not be kept for it."""

    def compute(parameters):
        prior, data = cavity.Gaussian.isotropic(2), (np.eye(2), np.ones(2))
        stop = lambda sweep: signal.raise_signal(signal.SIGINT)
        return {"change": cavity.fit(cavity.factors.probit(), prior, data, cavity.ep(), callback=stop).n_sweeps}

    with pytest.raises(KeyboardInterrupt):
        reproduce(squares([])._replace(compute=compute), tmp_path)
    assert not list(tmp_path.rglob("*.json"))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_missing_set_does_not_end_the_others(tmp_path, capsys, monkeypatch):
    def compute(parameters):
        raise DatasetError("Dataset 'mnist' is not here")

    for name in EXPERIMENT_IDS:
        whole = squares([])._replace(id=name)
        monkeypatch.setitem(EXPERIMENTS, name, whole._replace(compute=compute) if name == "fig2c" else whole)
    assert main(["reproduce", "all", "--output", str(tmp_path)]) == 1
    assert "Dataset 'mnist' is not here" in capsys.readouterr().err
    assert (tmp_path / "report.html").read_text(encoding="utf-8").count("<h2") == len(EXPERIMENT_IDS) - 1


def test_other_parameters_are_computed_again_and_quick_results_kept_apart(tmp_path):
    log = []
    reproduce(squares(log), tmp_path)
    assert reproduce(squares(log, factor=2), tmp_path).figures == {"total": 28}
    assert log == [1, 2, 3, 1, 2, 3]
    reproduce(squares(log, factor=2, settings={"prior": 3}), tmp_path)
    assert log[6:] == [1, 2, 3]
    assert reproduce(squares(log), tmp_path, quick=True).figures == {"total": 5}
    assert (tmp_path / "squares-quick" / "results.json").exists()


def test_results_kept_from_other_versions_are_said_to_be(tmp_path):
    log = []
    reproduce(squares(log), tmp_path)
    path = tmp_path / "squares" / "cells" / "2.json"
    kept = json.loads(path.read_text())
    path.write_text(json.dumps({**kept, "with": {**versions(), "jax": "0.1"}}))
    reproduce(squares(log), tmp_path)
    assert log == [1, 2, 3]
    results = json.loads((tmp_path / "squares" / "results.json").read_text())
    assert results["with"] == [versions(), {**versions(), "jax": "0.1"}]


def test_the_report_holds_every_experiment(tmp_path):
    reproduce(squares([]), tmp_path)
    reproduce(squares([]), tmp_path, quick=True)
    page = write_report(tmp_path).read_text()
    assert page.count("<h2") == 2
    assert "sum &lt;of squares&gt;" in page
    assert page.count("does not hold") == 2
    assert "a note" in page
    assert page.count("<h3>in &lt;numbers&gt;</h3>") == 2
    assert "<tr><td>row</td><td>1</td><td>4</td></tr>" in page


def test_the_command_line(tmp_path, capsys, monkeypatch):
    assert tuple(EXPERIMENTS) == EXPERIMENT_IDS
    monkeypatch.setitem(EXPERIMENTS, "table1", squares([]))
    assert main(["reproduce", "table1", "--output", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "sum <of squares>: 14; paper: 14; must be: equal - holds" in out
    assert "DOES NOT HOLD" in out
    monkeypatch.setitem(EXPERIMENTS, "table1", squares([], fail_at=2, factor=3))
    assert main(["reproduce", "table1", "--output", str(tmp_path)]) == 1
    assert "the same command goes on" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["reproduce", "fig9"])
