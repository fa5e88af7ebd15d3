"""Tests compile hundreds of small programs: compile them faster, and drop them before they exhaust memory maps."""

import os
from importlib.metadata import version
from pathlib import Path

# XLA's newer emitters take twice as long to compile what runs for milliseconds. An unknown flag would end the process.
if tuple(map(int, version("jaxlib").split(".")[:2])) <= (0, 10):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_use_fusion_emitters=false"

import jax
import pytest

MAPS, ENOUGH = Path("/proc/self/maps"), 25_000  # of the 65,530 that most Linux systems allow a process


@pytest.fixture(autouse=True)
def drop_compiled_programs():
    yield
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > ENOUGH:
        jax.clear_caches()
