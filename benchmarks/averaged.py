"""An AEP sweep against the two matrix products it consists of, done by NumPy's BLAS."""

from collections.abc import Iterator

import numpy as np

import cavity
from benchmarks.timing import interleaved, probit_data, sweep

SHAPES = {(200_000, 100): 2.0, (50_000, 500): 2.5}


def lines() -> Iterator[str]:
    """One ratio per shape."""
    for (n, dim), limit in SHAPES.items():
        data = probit_data(n, dim)
        features, matrix = data[0], np.eye(dim)
        times = interleaved({"aep": sweep(data, cavity.aep()), "numpy": lambda: (features.T @ features, features @ matrix)})
        ratio = times["aep"] / times["numpy"]
        yield (
            f"AEP sweep / NumPy (X.T @ X, X @ S) at {n:,} × {dim}: {ratio:.2f} (limit {limit}); "
            f"{1e3 * times['aep']:.0f} ms against {1e3 * times['numpy']:.0f} ms"
        )
