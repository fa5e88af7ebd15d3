"""Resident bytes beyond the data at the peak: of EP at 200,000 × 20, and of a whole fit at 1,000,000 × 20."""

import subprocess
import sys
import warnings
from collections.abc import Iterator

from benchmarks.sparse import memory_of_process

N, DIM, LIMIT = 200_000, 20, 100.0
MANY, OF_MANY = 1_000_000, 300.0


def lines() -> Iterator[str]:
    """Measured in a process of its own: a peak is that of all that went before."""
    for which in MEASURES:
        run = [sys.executable, "-m", "benchmarks.memory", which]
        yield subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip()


def of_classifier() -> str:
    """Of a whole fit with its defaults, the copy of X in units of the fit among it."""
    import cavity
    from benchmarks.mixture_memory import forget_peak
    from benchmarks.timing import probit_data

    X, y = probit_data(MANY, DIM)
    model = cavity.LogisticClassifier().fit(X[:1000], y[:1000])  # what is imported does not count
    forget_peak()
    resident = memory_of_process("VmRSS")
    model.fit(X, y)
    beyond = (memory_of_process("VmHWM") - resident) / 1e6
    return (
        f"LogisticClassifier at {MANY:,} × {DIM}: {beyond:.0f} MB beyond the {X.nbytes / 1e6:.0f} MB of X "
        f"(limit {OF_MANY:.0f})"
    )


def of_ep() -> str:
    """Of a second fit."""
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


MEASURES = {"ep": of_ep, "classifier": of_classifier}

if __name__ == "__main__":
    print(MEASURES[sys.argv[1]]())
