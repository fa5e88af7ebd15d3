"""Epochs of networks: compiled loops against the plain scan, SEP and EP against ADF."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import cavity
from benchmarks import network_reference
from benchmarks.timing import Data, in_turn, of_call, of_sweep

# So many rows that what an epoch does besides visiting them, a millisecond or two, hardly counts.
SIZES = {(8, 50, 1): 10_000, (9, 100, 1): 10_000, (90, 100, 1): 4_000}
LIMITS = {"reference": 2.0, "sep": 1.3, "ep": 2.0}
ALGORITHMS = {"adf": cavity.adf(), "sep": cavity.sep(rate=1.0), "ep": cavity.ep()}


def lines() -> Iterator[str]:
    """One line per network."""
    for sizes, n_rows in SIZES.items():
        times = compare(sizes, n_rows)
        micro = {name: 1e6 * seconds / n_rows for name, seconds in times.items()}
        yield (
            f"network {'-'.join(map(str, sizes))}: reference / ADF {times['reference'] / times['adf']:.2f} (limit "
            f"{LIMITS['reference']}), SEP / ADF {times['sep'] / times['adf']:.2f} (limit {LIMITS['sep']}), EP / ADF "
            f"{times['ep'] / times['adf']:.2f} (limit {LIMITS['ep']}); µs per row: "
            + ", ".join(f"{name} {value:.2f}" for name, value in micro.items())
        )


def compare(sizes: tuple[int, ...], n_rows: int) -> dict[str, float]:
    """Seconds of an epoch, from random weights: the best of fifteen by each algorithm."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, sizes[0]))
    data = X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=n_rows)
    factor = cavity.factors.network(sizes)
    epochs = {name: of_sweep(factor, data, each, prior=factor.prior()) for name, each in ALGORITHMS.items()}
    return in_turn({"reference": of_call(reference(factor, data)), **epochs}, rounds=5)


def reference(factor: Any, data: Data) -> Callable[[], None]:
    """An epoch of ADF by the plain scan, which is compiled here; weights begin as `fit` begins with them."""
    rng, prior = np.random.default_rng(0), factor.prior()
    with jax.enable_x64(True):
        variances = factor.layers(prior["weights"].variance)
        weights = tuple((rng.normal(size=v.shape) / np.sqrt(len(v)), v) for v in variances)
        noise = prior["noise"].shape, prior["noise"].rate
        given = jax.tree.map(jnp.asarray, (weights, *noise, *data))

    def epoch() -> None:
        with jax.enable_x64(True):
            jax.block_until_ready(network_reference.epoch(*given))

    epoch()
    return epoch
