"""What is made of the cells of the supplement's experiment; computing one takes minutes."""

import json

import numpy as np
import pytest

from cavity.experiments import supplement


def cell(parameters, level):
    """A result as `compute` gives it, with ADF climbing and the others at a level."""
    paths = {}
    for name in supplement.COLOURS:
        few = name in ("natural gradient", "damped DEP")
        kl = np.linspace(0.5, 9.0, parameters["sweeps"]) if name == "ADF" else np.full(parameters["sweeps"], level)
        transitions = np.arange(1, parameters["sweeps"] + 1) * (48 if few else 480) * supplement.N_BLOCKS
        paths[name] = {"kl": kl.tolist(), "transitions": transitions.tolist(), "r_hat": 1.02, "ess": 30.0}
        paths[name] |= {"seconds": 1.0, "skipped": 0}
    return {"paths": paths, "limits": dict.fromkeys(supplement.NESTED, 1e-3), "floor": 1e-4, "rhat": 1.001}


def test_cells_are_plain_and_of_two_sizes():
    quick, full = supplement.cells(True), supplement.cells(False, seed=3)
    assert json.loads(json.dumps(quick)) == quick
    assert (len(quick), len(full)) == (4, 10)
    assert full["seed-3000"]["seed"] == 3000


def test_claims_and_picture(tmp_path):
    done = {key: (p, cell(p, 0.8)) for key, p in supplement.cells(True).items()}
    summary = supplement.collect(done)
    assert all(claim.holds is not False for claim in summary.claims)
    assert json.loads(json.dumps(summary.figures)) == summary.figures
    supplement.draw(summary.figures, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("method", "level", "broken"),
    [
        ("DEP", 0.4, {"AEP is as good as DEP"}),
        ("SEP", 2.0, {"SEP and EP are near"}),
        ("ADF", 0.8, {"ADF climbs"}),
        ("natural gradient", 1.0, {"The natural gradient with", "The natural gradient is no worse than moment"}),
        ("nested EP", 0.5, {"Without noise"}),
    ],
)
def test_a_claim_that_does_not_hold_is_said_so(method, level, broken):
    done = {key: (p, cell(p, 0.8)) for key, p in supplement.cells(True).items()}
    for _, result in done.values():
        if method in supplement.NESTED:
            result["limits"][method] = level
        else:
            result["paths"][method]["kl"] = [level] * 6
    wrong = [claim.what for claim in supplement.collect(done).claims if claim.holds is False]
    assert len(wrong) == len(broken)
    assert all(any(what.startswith(start) for start in broken) for what in wrong)
