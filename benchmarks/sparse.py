"""Memory of `ProbitClassifier` on sparse rows, 100,000 × 2,000 at 1 %: resident bytes beyond the data, at the peak."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

N, DIM, DENSITY, LIMIT, SECONDS = 100_000, 2_000, 0.01, 500.0, 25.0


def lines() -> Iterator[str]:
    """Measured in a process of its own: a peak is that of all that went before."""
    run = [sys.executable, "-m", "benchmarks.sparse"]
    yield subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip()


def memory_of_process(what: str) -> int:
    """Bytes resident now or at most, of this program alone: `getrusage` also counts what its parent had."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(what))
    return int(line.split()[1]) * 1024


def measure() -> str:
    """Fit once; compilation is included."""
    import numpy as np
    from scipy import sparse

    from cavity import ProbitClassifier

    rng = np.random.default_rng(0)
    columns = rng.integers(DIM, size=(N, round(DENSITY * DIM)), dtype=np.int32)
    rows = np.repeat(np.arange(N, dtype=np.int32), columns.shape[1])
    X = sparse.csr_array((rng.normal(size=columns.size), (rows, columns.ravel())), shape=(N, DIM))
    y = X @ rng.normal(size=DIM) + rng.normal(size=N) > 0
    del columns, rows
    resident = memory_of_process("VmRSS")
    start = time.perf_counter()
    model = ProbitClassifier(prior_variance=1.0).fit(X, y)
    seconds = time.perf_counter() - start
    peak = memory_of_process("VmHWM")
    data = (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / 1e6
    return (
        f"ProbitClassifier on CSR {N:,} × {DIM:,} at {DENSITY:.0%}: {(peak - resident) / 1e6:.0f} MB beyond the "
        f"{data:.0f} MB of data (limit {LIMIT:.0f}); {N * DIM * 8 / 1e6:,.0f} MB if spread out; "
        f"{len(model.history_.change)} sweeps in {seconds:.1f} s (limit {SECONDS:.0f}), converged: {model.converged_}"
    )


if __name__ == "__main__":
    print(measure())
