"""One datum at a time: SEP, with and without averaging, and EP against ADF."""

from collections.abc import Iterator

import cavity
from benchmarks.timing import interleaved, probit_data, sweep

LIMITS = {4: 3.0, 60: 3.0, 784: 8.0}
N = 10_000


def lines() -> Iterator[str]:
    """One line per dimension."""
    for dim, limit in LIMITS.items():
        data = probit_data(N, dim)
        algorithms = {"adf": cavity.adf(), "sep": cavity.sep(), "ep": cavity.ep()}
        times = interleaved({name: sweep(data, a) for name, a in algorithms.items()}, repeats=7 if dim < 100 else 2)
        micro = {name: 1e6 * seconds / N for name, seconds in times.items()}
        yield (
            f"sequential SEP / ADF at D = {dim}: {times['sep'] / times['adf']:.2f} (limit {limit}); µs per datum: "
            f"ADF {micro['adf']:.2f}, SEP {micro['sep']:.2f}, EP {micro['ep']:.2f}"
        )
