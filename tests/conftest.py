"""Tests compile hundreds of small programs: compile them faster, and drop them before they exhaust memory maps."""

import gc
import itertools
import os
import tempfile

# before NumPy is loaded: workers that each start as many threads as there are cores wait for each other
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
if "PYTEST_XDIST_WORKER" not in os.environ:
    # nothing of a user's or of an earlier run: a place that ends with the run, where its workers and the processes that
    # tests start find what one of them has compiled
    PROGRAMS = tempfile.TemporaryDirectory(prefix="cavity-tests-")
    os.environ["CAVITY_CACHE"] = PROGRAMS.name

from importlib.metadata import version
from pathlib import Path

import jax
import pytest

MAPS, ENOUGH = Path("/proc/self/maps"), 45_000  # of the 65,530 that most Linux systems allow a process
NOW_AND_THEN, TESTS = 16, itertools.count(1)  # to count them takes some hundredths of a second: not after every test

# XLA takes most of its time to optimise what then runs for milliseconds. It would end the process on an unknown flag.
KNOWN_JAXLIB = (0, 10)
COMPILE_FASTER = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
LEAVE_AS_IT_IS = "--xla_backend_optimization_level=0"

gc.set_threshold(
    200_000, 50, 1000
)  # tracing makes many small objects that live: looking at them anew takes a tenth of the time


def pytest_configure(config):
    """Set the flags before the first program is compiled; slow tests run long enough to be worth optimising."""
    if tuple(map(int, version("jaxlib").split(".")[:2])) <= KNOWN_JAXLIB:
        quick = config.getoption("markexpr") == "not slow"
        flags = [os.environ.get("XLA_FLAGS", ""), COMPILE_FASTER, LEAVE_AS_IT_IS if quick else ""]
        os.environ["XLA_FLAGS"] = " ".join(flags)


@pytest.fixture(autouse=True)
def drop_compiled_programs():
    yield
    if next(TESTS) % NOW_AND_THEN == 0 and MAPS.exists() and MAPS.read_bytes().count(b"\n") > ENOUGH:
        jax.clear_caches()
