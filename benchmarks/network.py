"""Epochs of networks: compiled loops against the plain scan, SEP and EP against ADF."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import cavity
from benchmarks import network_reference
from benchmarks.timing import interleaved
from cavity.factors.networks.compiled import rows as loops
from cavity.factors.networks.driver import begin, output_of, shape_of, unless_zero, work_of

SIZES = {(8, 50, 1): 5000, (9, 100, 1): 5000, (90, 100, 1): 1000}
LIMITS = {"reference": 2.0, "sep": 1.3, "ep": 2.0}


def lines() -> Iterator[str]:
    """One line per network."""
    for sizes, n_rows in SIZES.items():
        times = interleaved(epochs(sizes, n_rows), repeats=15)
        micro = {name: 1e6 * seconds / n_rows for name, seconds in times.items()}
        yield (
            f"network {'-'.join(map(str, sizes))}: reference / ADF {times['reference'] / times['adf']:.2f} (limit "
            f"{LIMITS['reference']}), SEP / ADF {times['sep'] / times['adf']:.2f} (limit {LIMITS['sep']}), EP / ADF "
            f"{times['ep'] / times['adf']:.2f} (limit {LIMITS['ep']}); µs per row: "
            + ", ".join(f"{name} {value:.2f}" for name, value in micro.items())
        )


def epochs(sizes: tuple[int, ...], n_rows: int) -> dict[str, Callable[[], Any]]:
    """One epoch each, from the same random weights, of rows in their order."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, sizes[0]))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=n_rows)
    factor = cavity.factors.network(sizes)
    q = begin(factor, factor.prior(), 0)
    with jax.enable_x64(True):
        layers = zip(factor.layers(q["weights"].mean), factor.layers(q["weights"].variance), strict=True)
        given = tuple(layers), jnp.asarray(6.0), jnp.asarray(6.0), jnp.asarray(X), jnp.asarray(y)

    def reference() -> None:
        with jax.enable_x64(True):
            jax.block_until_ready(network_reference.epoch(*given))

    kinds = {"adf": loops.NOWHERE, "sep": loops.IMPLIED, "ep": loops.OWN}
    return {"reference": reference, **{name: loop(kind, factor, q, X, y) for name, kind in kinds.items()}}


def loop(kind: int, factor: Any, q: Any, X: np.ndarray, y: np.ndarray) -> Callable[[], Any]:
    """The loops alone: what a sweep does besides takes a few milliseconds, however many rows there are."""
    prior = factor.prior()
    rows = len(y) if kind == loops.OWN else 1
    site = np.zeros((rows, factor.n_weights))
    widths, starts = shape_of(factor)
    base = unless_zero(prior["weights"].shift), prior["weights"].precision, np.array([6.0, 6.0])
    own = site, site.copy(), np.zeros((rows, 2))
    mean, variance = q["weights"].mean.copy(), q["weights"].variance.copy()
    noise = np.array([6.0, 6.0])
    order = np.arange(len(y))
    return partial(
        loops.one_by_one,
        kind,
        output_of(factor),
        order,
        X,
        y,
        widths,
        starts,
        mean,
        variance,
        noise,
        *base,
        *own,
        *work_of(factor),
    )
