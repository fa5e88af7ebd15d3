"""Algorithms by name, and the one that "auto" stands for."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from cavity.factors.networks.site_storage import how_many_fit
from cavity.inference import named
from cavity.inference.named import Algorithm

SITES_THAT_FIT = 1_000_000_000  # bytes
ROWS_TO_SHARE = 1_000  # for each column: with fewer a shared site may put means 0.03 sd from EP's, docs/decisions/0024
GROUPS = 10  # of dsep and daep by name; an algorithm object says more
FEWEST, MOST = 4, 20  # batches in a sweep of EP: nearly as few sweeps as one datum at a time, by matrix products
FREE = 2e9  # multiplications that nobody notices


class Size(NamedTuple):
    """What the choice of batches depends on."""

    n_rows: int
    n_features: int
    products: float  # of entries within a row, over all rows

    @classmethod
    def of(cls, design: Any) -> "Size":
        """Of a matrix, dense or sparse."""
        n_rows, n_features = design.shape
        return cls(n_rows, n_features, float(getattr(design, "nnz", n_rows * n_features)) ** 2 / max(n_rows, 1))

    def batch(self) -> int:
        """Rows at a time: each batch costs a factorisation, and together these should not cost more than the rows."""
        n_batches = int(np.clip((self.products + FREE) / self.n_features**3, FEWEST, MOST))
        return -(-self.n_rows // n_batches)


def ep(size: Size, batch_size: int | None) -> Algorithm:
    return named.ep(batch_size or size.batch())


def auto(size: Size, batch_size: int | None) -> Algorithm:
    """EP while its two numbers per row fit, or rows are not many enough to share a site; averaged EP beyond."""
    fits, few = 16 * size.n_rows <= SITES_THAT_FIT, size.n_rows < ROWS_TO_SHARE * size.n_features
    return ep(size, batch_size) if fits or few else named.aep()


NAMES: dict[str, Callable[[Size, int | None], Algorithm]] = {
    "auto": auto,
    "ep": ep,
    "sep": lambda _, batch_size: named.sep(batch_size or 1),
    "aep": lambda _, __: named.aep(),
    "adf": lambda _, batch_size: named.adf(batch_size or 1),
    "dsep": lambda size, batch_size: named.dsep(min(GROUPS, size.n_rows), batch_size=batch_size or 1),
    "daep": lambda size, _: named.daep(min(GROUPS, size.n_rows)),
    "power-ep": lambda size, batch_size: named.power_ep(0.5, batch_size or size.batch()),
    "vmp": lambda size, batch_size: named.vmp(batch_size or size.batch()),
    "svi": lambda _, batch_size: named.svi(batch_size or 1),
}


def choose(algorithm: Any, design: Any, batch_size: int | None) -> Algorithm:
    """An algorithm object from a name; objects are taken as they are."""
    size = Size.of(design)
    return pick(algorithm, {name: partial(make, size) for name, make in NAMES.items()}, batch_size)


WORK_FOR_EP = 100_000  # rows × components × features³ of a mixture: beyond, one shared site is many times quicker
BATCHES = 10  # in a sweep of EP for a mixture


def choose_for_mixture(algorithm: Any, shape: tuple[int, int], n_components: int, batch_size: int | None) -> Algorithm:
    """An algorithm for a mixture, by name or as given: sites are large there, and steps by batches cheap."""
    n_rows, n_features = shape
    some, few = -(-n_rows // BATCHES), min(n_rows, int(np.clip(n_rows // 50, 200, 2000)))
    names: dict[str, Callable[[int | None], Algorithm]] = {
        "ep": lambda size: named.ep(size or some),
        "sep": lambda size: named.sep(size or few),
        "aep": lambda _: named.aep(),
        "adf": lambda size: named.adf(size or 1),
        "dsep": lambda size: named.dsep(min(GROUPS, n_rows), batch_size=size or few),
        "daep": lambda _: named.daep(min(GROUPS, n_rows)),
        "power-ep": lambda size: named.power_ep(0.5, size or some),
        "vmp": lambda size: named.vmp(size or some),
        "svi": lambda size: named.svi(size or few),
    }
    small = n_rows * n_components * n_features**3 <= WORK_FOR_EP
    shared = lambda size: names["sep" if size else "aep"](size)
    return pick(algorithm, {"auto": names["ep"] if small else shared, **names}, batch_size)


BYTES_FOR_EP = 2e8  # of a network's sites: with more rows SEP is as good, quicker, and does not fluctuate


def choose_for_network(algorithm: Any, site_bytes: int, n_rows: int, batch_size: int | None) -> Algorithm:
    """An algorithm for a network, by name or as given. Steps are the paper's: of size one, not averaged over a sweep.

    `site_bytes` is what sites of all rows take in memory; nothing where they are in a file.
    """
    names: dict[str, Callable[[int | None], Algorithm]] = {
        "ep": lambda size: named.ep(size or 1, rate=1.0),
        "sep": lambda size: named.sep(size or 1, rate=1.0),
        "adf": lambda size: named.adf(size or 1),
        "dsep": lambda size: named.dsep(min(GROUPS, n_rows), batch_size=size or 1, rate=1.0),
        "power-ep": lambda size: named.power_ep(0.5, size or 1, rate=1.0),
        "vmp": lambda size: named.vmp(size or 1, rate=1.0),
        "svi": lambda size: named.svi(size or 1),
    }
    fits = batch_size is None and site_bytes <= BYTES_FOR_EP and how_many_fit(site_bytes) > 0
    return pick(algorithm, {"auto": names["ep" if fits else "sep"], **names}, batch_size)


def pick(algorithm: Any, names: dict[str, Callable[[int | None], Algorithm]], batch_size: int | None) -> Algorithm:
    """The algorithm of a name, with batches of the user's size where it takes one."""
    if batch_size is not None and (isinstance(algorithm, Algorithm) or algorithm in ("aep", "daep")):
        raise ValueError(
            f"batch_size must be None with algorithm={algorithm!r}, which has its own; got {batch_size}. Use 'sep', or "
            "an object such as cavity.sep(batch_size=100)."
        )
    if isinstance(algorithm, Algorithm):
        return algorithm
    if not isinstance(algorithm, str) or algorithm not in names:
        listed = ", ".join(map(repr, names))
        raise ValueError(f"algorithm must be one of {listed}, or an object such as cavity.ep(); got {algorithm!r}.")
    return names[algorithm](batch_size)
