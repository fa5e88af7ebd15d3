"""The first `GaussianMixture` of a new process, imports included, with an empty cache of programs and a full one."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from benchmarks.new_process import SHAPE

LIMITS = {"empty": 6.0, "full": 2.5}  # seconds
ROUNDS = 3


def lines() -> Iterator[str]:
    """The quickest of some processes, each pair with a directory of its own for programs."""
    pairs = [seconds_of_pair() for _ in range(ROUNDS)]
    for cache, limit in LIMITS.items():
        took = min(pair[cache] for pair in pairs)
        yield f"first fit in a new process, {SHAPE[0]} × {SHAPE[1]}, {cache} cache: {took:.2f} s (limit {limit})"


def seconds_of_pair() -> dict[str, float]:
    """Of one process that finds nothing, and of the next."""
    with tempfile.TemporaryDirectory() as directory:
        return {cache: seconds_of_process(directory) for cache in LIMITS}


def seconds_of_process(directory: str) -> float:
    begun = time.perf_counter()
    run = [sys.executable, "-m", "benchmarks.new_process", "fit", "cavity.GaussianMixture", "GaussianMixture"]
    subprocess.run(run, capture_output=True, check=True, env={**os.environ, "CAVITY_CACHE": directory})
    return time.perf_counter() - begun
