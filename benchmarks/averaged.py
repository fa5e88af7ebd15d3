"""An AEP sweep against the two matrix products it consists of, done by NumPy's BLAS."""

from collections.abc import Iterator

import numpy as np

import cavity
from benchmarks.timing import interleaved, probit_data, sweep

SHAPES = {(200_000, 100): 2.0, (50_000, 500): 2.5}


def lines() -> Iterator[str]:
    """One ratio per shape."""
    for (n, dim), limit in SHAPES.items():
        times = compare(n, dim)
        yield (
            f"AEP sweep / NumPy (X.T @ X, X @ S) at {n:,} × {dim}: {times['aep'] / times['numpy']:.2f} (limit {limit})"
            f"; {1e3 * times['aep']:.0f} ms against {1e3 * times['numpy']:.0f} ms"
        )


def compare(n: int, dim: int) -> dict[str, float]:
    """Seconds of the sweep and of the products."""
    features, y = probit_data(n, dim)
    matrix = np.eye(dim)
    products = lambda: (features.T @ features, features @ matrix)
    return interleaved({"aep": sweep((features, y), cavity.aep()), "numpy": products})
