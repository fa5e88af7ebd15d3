"""Compiled programs are kept on disk for later processes: the library's own, and nobody else's."""

import json
import os
import subprocess
import sys

import pytest

FIT = """
import json, sys, threading, warnings
warnings.simplefilter("error")
import numpy as np
import jax, jax.numpy as jnp
events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event.rpartition("/")[2]))
import cavity
before = dict(jax.config.values)

def fit():
    def normal(q, x, power):
        total = 1 + power * q.variance
        return jnp.sum(-0.5 * (x - q.mean) ** 2 / total - 0.5 * jnp.log(total) / power)
    x = np.random.default_rng(0).normal(size=(60, 2))
    return cavity.fit(cavity.factors.custom(normal), cavity.DiagonalGaussian.isotropic(2, 4.0), x, cavity.aep())

def in_threads(n):
    threads = [threading.Thread(target=fit) for _ in range(n)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]

def users_own():
    jax.jit(lambda x: jnp.sin(x) + 3)(np.ones(4, np.float32)).block_until_ready()

ran = [eval(step) for step in STEPS]
assert dict(jax.config.values) == before
from jax._src import compilation_cache
said = {"hits": events.count("cache_hits"), "stored": events.count("cache_misses"),
        "asked": events.count("compile_requests_use_cache"), "left": compilation_cache._cache is None}
print(json.dumps(said))
"""


def started(*steps, **variables):
    environment = {key: value for key, value in os.environ.items() if key != "CAVITY_CACHE"}
    code = FIT.replace("STEPS", repr(list(steps)))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", code], env=environment | variables, **pipes)


def said_by(process):
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return json.loads(out)


def run(*steps, **variables):
    return said_by(started(*steps, **variables))


def test_a_second_process_compiles_nothing(tmp_path):
    first = run("fit()", CAVITY_CACHE=str(tmp_path))
    assert first["stored"] == first["asked"] > 0
    assert first["hits"] == 0
    assert first["left"]
    second = run("fit()", CAVITY_CACHE=str(tmp_path))
    assert second["hits"] == second["asked"] == first["asked"]
    assert second["stored"] == 0
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(kept) == first["stored"]
    for path in kept:
        path.write_bytes(path.read_bytes()[:-1])  # a file that is not whole is not read
    third = run("fit()", CAVITY_CACHE=str(tmp_path))
    assert third["hits"] == 0
    assert third["stored"] == first["stored"]


@pytest.mark.parametrize("word", ["0", "off", "OFF"])
def test_it_can_be_switched_off(word, tmp_path):
    said = run("fit()", CAVITY_CACHE=word, XDG_CACHE_HOME=str(tmp_path))
    assert said["hits"] == said["stored"] == 0
    assert list(tmp_path.rglob("*")) == []


def test_programs_are_in_the_users_cache_by_default(tmp_path):
    said = run("fit()", XDG_CACHE_HOME=str(tmp_path))
    assert said["stored"] == len([path for path in (tmp_path / "cavity").rglob("*") if path.is_file()]) > 0


def test_a_place_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "file").write_text("no directory")
    said = run("fit()", CAVITY_CACHE=str(tmp_path / "file"))
    assert said["hits"] == 0


def test_programs_of_the_user_are_left_alone(tmp_path):
    said = run("fit()", "users_own()", CAVITY_CACHE=str(tmp_path / "ours"))
    assert said["asked"] == said["stored"] + 1


def test_the_users_own_directory_is_used(tmp_path):
    given = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "theirs"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    run("fit()", CAVITY_CACHE=str(tmp_path / "ours"), **given)
    assert not (tmp_path / "ours").exists()
    assert list((tmp_path / "theirs").iterdir())


def test_threads_and_processes_at_once(tmp_path):
    running = [started("in_threads(3)", CAVITY_CACHE=str(tmp_path)) for _ in range(2)]
    assert all(said_by(process)["left"] for process in running)
    assert list(tmp_path.rglob("*.part")) == []
    after = run("in_threads(3)", CAVITY_CACHE=str(tmp_path))
    assert after["stored"] == 0
    assert after["hits"] > 0
