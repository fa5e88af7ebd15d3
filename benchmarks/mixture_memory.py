"""What `GaussianMixture` holds for four clusters in the plane: bytes of sites, and resident memory at the peak."""

import ctypes
import gc
import json
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

from benchmarks.sparse import memory_of_process

SIZES = (1_000, 10_000, 100_000, 1_000_000)
ALGORITHMS = {
    "auto": None,
    "sep": None,
    "ep": 2,
}  # sweeps at most: those of EP take long, and memory does not tell them


def lines() -> Iterator[str]:
    """Whole fits with evidence and intervals, two sweeps of EP, in processes of their own."""
    for algorithm in ALGORITHMS:
        for n in SIZES:
            run = [sys.executable, "-m", "benchmarks.mixture_memory", algorithm, str(n)]
            done = subprocess.run(run, capture_output=True, text=True, check=True)
            sites, peak = json.loads(done.stdout)
            yield f"{algorithm} at {n:,} × 2, J = 4: sites {sites:,} bytes; {peak / 1e6:.0f} MB beyond the data"


def measure(algorithm: str, n: int) -> tuple[int, int]:
    """Of a second fit: the compiler takes some 100 MB of its own in the first."""
    import numpy as np

    import cavity

    centres = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [4.0, 4.0]])
    rng = np.random.default_rng(0)
    X = centres[rng.integers(4, size=n)] + rng.normal(size=(n, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cavity.ConvergenceWarning)
        model = cavity.GaussianMixture(4, algorithm=algorithm, max_sweeps=ALGORITHMS[algorithm])
        model.fit(X)
        forget_peak()
        resident = memory_of_process("VmRSS")
        model.fit(X)
    return model.site_bytes_, memory_of_process("VmHWM") - resident


def forget_peak() -> None:
    """Give free memory back, and let Linux begin the record of the most resident bytes anew."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
