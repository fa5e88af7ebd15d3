"""Networks by SEP: batches of 32 rows against one row at a time, and two fits at once against two processes."""

import multiprocessing
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cavity import NetworkRegressor
from cavity.datasets import load, random_splits

SETS, N_SPLITS = ("kin8nm", "power"), 3
LIMIT, LIMIT_AT_ONCE = 0.7, 0.85
PLAIN: dict[str, Any] = {"algorithm": "sep", "heteroscedastic": False}  # the paper's networks


def lines() -> Iterator[str]:
    """A line for each set, and one for two fits at once."""
    for name in SETS:
        yield of_set(name)
    yield at_once()


def of_set(name: str) -> str:
    """Test log-likelihoods of both, and the ratio of their times: of every split they take turns."""
    data = load(name)
    NetworkRegressor((50,), **PLAIN, n_epochs=1, warm_up=1).fit(data.X[:200], data.y[:200])  # compiles
    NetworkRegressor((50,), **PLAIN, n_epochs=1, warm_up=1, batch_size=32).fit(data.X[:200], data.y[:200])
    scores: dict[Any, list[float]] = {None: [], 32: []}
    seconds: dict[Any, list[float]] = {None: [], 32: []}
    for train, test in random_splits(len(data.y), N_SPLITS):
        for size in scores:
            model = NetworkRegressor((50,), **PLAIN, batch_size=size)
            seconds[size].append(timed(lambda model=model: model.fit(data.X[train], data.y[train])))  # noqa: B023
            scores[size].append(float(np.mean(model.log_predictive(data.X[test], data.y[test]))))
    told = {size: f"{np.mean(of):.3f} ± {np.std(of, ddof=1) / np.sqrt(len(of)):.3f}" for size, of in scores.items()}
    ratio = min(seconds[32]) / min(seconds[None])
    return (
        f"network_batches {name}, {N_SPLITS} splits: log-likelihood {told[None]} row by row, {told[32]} in batches; "
        f"time {ratio:.2f} (limit {LIMIT}), {min(seconds[None]):.1f} s and {min(seconds[32]):.1f} s"
    )


def at_once() -> str:
    """How much two networks at once gain over one after another, against what two processes of NumPy gain."""
    data = load("kin8nm")
    fit = lambda count: NetworkRegressor((50,), **PLAIN, n_networks=count, n_epochs=20).fit(data.X, data.y)
    fit(1)
    networks, processes = [], []
    for _ in range(4):
        networks.append(2 * timed(lambda: fit(1)) / timed(lambda: fit(2)))
        processes.append(gain_of_processes())
    ours, theirs = max(networks), max(processes)
    return (
        f"network_batches two networks at once: {ours:.2f} times as fast as one after another, two processes of NumPy "
        f"{theirs:.2f}; ratio {ours / theirs:.2f} (limit {LIMIT_AT_ONCE})"
    )


def gain_of_processes() -> float:
    """Of two at once over one after another; each has one thread, and is warm."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        pool.map(arithmetic, [1, 1], chunksize=1)
        one = timed(lambda: pool.apply(arithmetic, (300,)))
        return 2 * one / timed(lambda: pool.map(arithmetic, [300, 300], chunksize=1))


def arithmetic(count: int) -> float:
    """Work without BLAS, which would use threads of its own."""
    x = np.linspace(0.0, 1.0, 200_000)
    return float(sum(np.sum(np.sqrt(x * x + k)) for k in range(count)))


def timed(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start
