"""One datum at a time: SEP and EP against ADF."""

from collections.abc import Iterator

import cavity
from benchmarks.timing import in_turn, of_sweep, probit_data

LIMITS = {4: 3.0, 60: 3.0, 784: 8.0}
N = 10_000
ALGORITHMS = {"adf": cavity.adf(), "sep": cavity.sep(), "ep": cavity.ep()}


def lines() -> Iterator[str]:
    """One line per dimension."""
    for dim, limit in LIMITS.items():
        times = compare(dim)
        micro = {name: 1e6 * seconds / N for name, seconds in times.items()}
        yield (
            f"sequential SEP / ADF at D = {dim}: {times['sep'] / times['adf']:.2f} (limit {limit}); µs per datum: "
            f"ADF {micro['adf']:.2f}, SEP {micro['sep']:.2f}, EP {micro['ep']:.2f}"
        )


def compare(dim: int) -> dict[str, float]:
    """Seconds of a sweep by each algorithm; of many columns there are few, for they take long."""
    data = probit_data(N, dim)
    count, rounds = (3, 5) if dim < 100 else (1, 2)
    sweeps = {name: of_sweep(cavity.factors.probit(), data, each, count=count) for name, each in ALGORITHMS.items()}
    return in_turn(sweeps, rounds)
