"""What is made of the cells of the supplement's experiment; computing one takes minutes."""

import json

import numpy as np

from cavity.experiments import supplement


def cell(parameters, level):
    """A result as `compute` gives it, with ADF climbing and the others at a level."""
    paths = {}
    for name in supplement.COLOURS:
        few = name in ("natural gradient", "damped DEP")
        kl = np.linspace(0.5, 9.0, parameters["sweeps"]) if name == "ADF" else np.full(parameters["sweeps"], level)
        transitions = np.arange(1, parameters["sweeps"] + 1) * (48 if few else 480) * supplement.N_BLOCKS
        paths[name] = {"kl": kl.tolist(), "transitions": transitions.tolist(), "r_hat": 1.02, "ess": 30.0}
    return {"paths": paths, "limits": dict.fromkeys(supplement.NESTED, 1e-3)}


def test_cells_are_plain_and_of_two_sizes():
    quick, full = supplement.cells(True), supplement.cells(False, seed=3)
    assert json.loads(json.dumps(quick)) == quick
    assert (len(quick), len(full)) == (2, 10)
    assert full["seed-3"]["seed"] == 3


def test_claims_and_picture(tmp_path):
    done = {key: (p, cell(p, 0.8)) for key, p in supplement.cells(True).items()}
    summary = supplement.collect(done)
    assert all(claim.holds for claim in summary.claims)
    assert json.loads(json.dumps(summary.figures)) == summary.figures
    supplement.draw(summary.figures, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    worse = {key: (p, cell(p, 0.8)) for key, p in supplement.cells(True).items()}
    for _, result in worse.values():
        result["paths"]["natural gradient"]["kl"] = [1.0] * 6
    assert not supplement.collect(worse).claims[3].holds
