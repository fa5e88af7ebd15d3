"""EP's sites and work arrays at N = 200,000, D = 20: resident bytes beyond the data, at the peak of a fit."""

import subprocess
import sys
import warnings
from collections.abc import Iterator

from benchmarks.sparse import memory_of_process

N, DIM, LIMIT = 200_000, 20, 100.0


def lines() -> Iterator[str]:
    """Measured in a process of its own: a peak is that of all that went before."""
    run = [sys.executable, "-m", "benchmarks.memory"]
    yield subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip()


def measure() -> str:
    """Of a second fit: the compiler takes memory of its own in the first."""
    import cavity
    from benchmarks.mixture_memory import forget_peak
    from benchmarks.timing import probit_data

    data = probit_data(N, DIM)
    options = {"tol": 0.0, "evidence": False, "max_sweeps": 2}
    fit = lambda: cavity.fit(cavity.factors.probit(), cavity.Gaussian.isotropic(DIM), data, cavity.ep(), **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cavity.ConvergenceWarning)  # two sweeps tell what all others take
        fit()
        forget_peak()
        resident = memory_of_process("VmRSS")
        result = fit()
    beyond = (memory_of_process("VmHWM") - resident) / 1e6
    as_counted = N * (DIM + DIM * DIM) * 8 / 1e6
    return (
        f"EP at {N:,} × {DIM}: {beyond:.1f} MB beyond the {data[0].nbytes / 1e6:.0f} MB of X (limit {LIMIT:.0f}); "
        f"sites {result.site_bytes / 1e6:.1f} MB as stored, {as_counted:.0f} MB as full Gaussians"
    )


if __name__ == "__main__":
    print(measure())
