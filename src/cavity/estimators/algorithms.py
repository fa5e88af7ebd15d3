"""Algorithms by name, and the one that "auto" stands for."""

from collections.abc import Callable
from typing import Any

from cavity.inference import named
from cavity.inference.named import Algorithm

SITES_THAT_FIT = 1_000_000_000  # bytes
GROUPS = 10  # of dsep and daep by name; an algorithm object says more
SMALL_BATCHES = (
    20  # EP takes a sweep in this many batches: nearly as few sweeps as one datum at a time, by matrix products
)


def ep(n_rows: int, batch_size: int | None) -> Algorithm:
    return named.ep(batch_size or -(-n_rows // SMALL_BATCHES))


def auto(n_rows: int, batch_size: int | None) -> Algorithm:
    """EP while its two numbers per row fit, averaged EP beyond."""
    return ep(n_rows, batch_size) if 16 * n_rows <= SITES_THAT_FIT else named.aep()


NAMES: dict[str, Callable[[int, int | None], Algorithm]] = {
    "auto": auto,
    "ep": ep,
    "sep": lambda _, batch_size: named.sep(batch_size or 1),
    "aep": lambda _, __: named.aep(),
    "adf": lambda _, batch_size: named.adf(batch_size or 1),
    "dsep": lambda n_rows, batch_size: named.dsep(min(GROUPS, n_rows), batch_size=batch_size or 1),
    "daep": lambda n_rows, _: named.daep(min(GROUPS, n_rows)),
    "power-ep": lambda n_rows, batch_size: named.power_ep(0.5, batch_size or -(-n_rows // SMALL_BATCHES)),
    "vmp": lambda n_rows, batch_size: named.vmp(batch_size or -(-n_rows // SMALL_BATCHES)),
    "svi": lambda _, batch_size: named.svi(batch_size or 1),
}


def choose(algorithm: Any, n_rows: int, batch_size: int | None) -> Algorithm:
    """An algorithm object from a name; objects are taken as they are."""
    if isinstance(algorithm, Algorithm):
        return algorithm
    if not isinstance(algorithm, str) or algorithm not in NAMES:
        names = ", ".join(map(repr, NAMES))
        raise ValueError(f"algorithm must be one of {names}, or an object such as cavity.ep(); got {algorithm!r}.")
    return NAMES[algorithm](n_rows, batch_size)
