"""Sweeps of generalised linear models in batches: microseconds per row, beside NumPy's products of the same rows.

There is no limit. The ratios are for two versions of the library, run one after the other on one machine.
"""

from collections.abc import Iterator
from typing import Any

import cavity
from benchmarks.timing import in_turn, of_products, of_sweep, probit_data

SMALL = [(10_000, 4), (10_000, 20), (10_000, 60)]
LARGE = (100_000, 20)
TIED = {"SEP M = 10": cavity.sep(batch_size=10), "SEP M = 100": cavity.sep(batch_size=100)}
OTHERS = {
    "EP M = 100": cavity.ep(batch_size=100),
    "EP M = N/10": cavity.ep(batch_size=LARGE[0] // 10),
    "AEP": cavity.aep(),
    "parallel EP": cavity.parallel_ep(),
}


def lines() -> Iterator[str]:
    """One line per likelihood and shape."""
    for shape in SMALL:
        yield line("probit", cavity.factors.probit(), shape, TIED)
        yield line("logit", cavity.factors.logit(), shape, TIED)
    yield line("logit", cavity.factors.logit(), LARGE, OTHERS)


def line(name: str, factor: Any, shape: tuple[int, int], algorithms: dict[str, cavity.Algorithm]) -> str:
    """Microseconds per row of a sweep, and how many times those of the products they are."""
    n, dim = shape
    data = probit_data(n, dim)
    sweeps = {key: of_sweep(factor, data, algorithm) for key, algorithm in algorithms.items()}
    *times, products = in_turn({**sweeps, "NumPy": of_products(data[0])}, rounds=4).values()
    told = [
        f"{key} {1e6 * seconds / n:.2f} ({seconds / products:.1f} times)"
        for key, seconds in zip(sweeps, times, strict=True)
    ]
    return (
        f"batches {name} {n:,} × {dim}, µs per row: {', '.join(told)}; NumPy (X.T @ X, X @ S) {1e6 * products / n:.3f}"
    )
