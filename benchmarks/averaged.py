"""An AEP sweep against the two matrix products it consists of, done by NumPy's BLAS."""

from collections.abc import Iterator

import cavity
from benchmarks.timing import in_turn, of_products, of_sweep, probit_data

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
    data = probit_data(n, dim)
    sweep = of_sweep(cavity.factors.probit(), data, cavity.aep(), count=2)
    return in_turn({"aep": sweep, "numpy": of_products(data[0])}, rounds=4)
