"""Loops of networks that were compiled are kept for later processes, in the library's own place."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("numba")
FIT = """
import json, warnings
warnings.simplefilter("ignore")
import numpy as np
from numba.core import event
made = event.install_recorder
with made("numba:compile") as compiled:
    import cavity
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = cavity.NetworkRegressor((4,), algorithm="adf", n_epochs=2, heteroscedastic=False).fit(X, X[:, 0])
print(json.dumps({"compiled": len(compiled.buffer), "said": model.predict(X[:3]).tolist()}))
"""


def started(**variables):
    environment = {key: value for key, value in os.environ.items() if key != "CAVITY_CACHE"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", FIT], env=environment | variables, **pipes)


def said_by(process):
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return json.loads(out)


def files_in(path):
    return [file for file in path.rglob("*") if file.is_file()]


def test_later_processes_compile_nothing_and_say_the_same(tmp_path):
    both = [started(CAVITY_CACHE=str(tmp_path)) for _ in range(2)]  # that compile at once do not mix up their files
    first, other = map(said_by, both)
    assert first["compiled"] > 0
    later = said_by(started(CAVITY_CACHE=str(tmp_path)))
    assert later["compiled"] == 0
    assert later["said"] == first["said"] == other["said"]
    files = files_in(tmp_path)
    assert {file.parents[1].name for file in files} == {"loops"}
    for file in files:
        file.write_bytes(file.read_bytes()[:-1])  # a file that is not whole is not read
    again = said_by(started(CAVITY_CACHE=str(tmp_path)))
    assert again["compiled"] > 0
    assert again["said"] == first["said"]


def test_it_can_be_switched_off_and_is_the_users_by_default(tmp_path):
    off, default = tmp_path / "off", tmp_path / "default"
    running = [started(CAVITY_CACHE="off", XDG_CACHE_HOME=str(off)), started(XDG_CACHE_HOME=str(default))]
    first, second = map(said_by, running)
    assert first["said"] == second["said"]
    assert files_in(off) == []
    assert len(files_in(default / "cavity")) == 2
