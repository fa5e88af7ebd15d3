"""Algorithms by name, for all estimators, and the one that "auto" stands for in each."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from cavity.factors.networks.site_storage import how_many_fit
from cavity.inference import named
from cavity.inference.named import Algorithm

ROWS_TO_SHARE = 1_000  # for each column: with fewer a shared site may put means 0.03 sd from EP's, docs/decisions/0024
GROUPS = 10  # of dsep and daep by name; an algorithm object says more
SITES_THAT_FIT = 1_000_000_000  # bytes
FEWEST, MOST = 4, 20  # batches in a sweep of EP: nearly as few sweeps as one datum at a time, by matrix products
FEWEST_ROWS = 250  # in a batch: fewer take as long
SHARE, ROWS_FOR_COLUMN = 20, 10  # rows for one of those that say where all begin, and how many of these at least
FREE = 2e9  # multiplications that nobody notices
WORK_FOR_EP = 100_000  # rows × components × features³ of a mixture: beyond, one shared site is many times quicker
BATCHES = 10  # in a sweep of EP for a mixture
BYTES_FOR_EP = 2e8  # of a network's sites: with more rows SEP is as good, quicker, and does not fluctuate


class Steps(NamedTuple):
    """What a name leaves open: it depends on the model and on the number of rows."""

    n_rows: int
    own: int  # rows in a batch where each has a site
    shared: int  # and where several share one
    rate: float | None = None


NAMES: dict[str, Callable[[Steps, int | None], Algorithm]] = {  # of the steps, and rows in a batch where the user says
    "ep": lambda steps, size: named.ep(size or steps.own, rate=steps.rate),
    "sep": lambda steps, size: named.sep(size or steps.shared, rate=steps.rate),
    "aep": lambda steps, _: named.aep(rate=steps.rate),
    "adf": lambda _, size: named.adf(size or 1),
    "dsep": lambda steps, size: named.dsep(groups(steps), batch_size=size or steps.shared, rate=steps.rate),
    "daep": lambda steps, _: named.daep(groups(steps), rate=steps.rate),
    "power-ep": lambda steps, size: named.power_ep(0.5, size or steps.own, rate=steps.rate),
    "vmp": lambda steps, size: named.vmp(size or steps.own, rate=steps.rate),
    "svi": lambda steps, size: named.svi(size or steps.shared),
}
OF_ALL_ROWS = ("aep", "daep")  # steps by all rows of a site at once, which networks do not learn by
FOR_ANY, FOR_NETWORKS = tuple(NAMES), tuple(name for name in NAMES if name not in OF_ALL_ROWS)


def groups(steps: Steps) -> int:
    return min(GROUPS, steps.n_rows)


def listed(names: tuple[str, ...]) -> str:
    """Names as a docstring lists them."""
    return ", ".join(f'"{name}"' for name in names)


def choose(algorithm: Any, design: Any, batch_size: int | None) -> list[Algorithm]:
    """Algorithms for a linear model, the next ones for where those before do not converge.

    "auto" is EP while its two numbers per row fit, or rows are not many enough to share a site: by all rows at once
    where some of them tell where to begin, by few at a time where many do not do. It is averaged EP beyond.
    """
    n_rows, n_features = design.shape
    own = 16 * n_rows <= SITES_THAT_FIT or n_rows < ROWS_TO_SHARE * n_features
    auto = "ep" if own else for_many_rows(batch_size)
    first = pick(algorithm, FOR_ANY, auto, Steps(n_rows, rows_at_once(design), 1), batch_size)
    if not (isinstance(algorithm, str) and algorithm == "auto" and own and batch_size is None):
        return [first]
    at_once = [named.parallel_ep()] if enough_for_some(n_rows, n_features) else []
    return [*at_once, first, named.ep(-(-n_rows // MOST))]


def enough_for_some(n_rows: int, n_features: int) -> bool:
    """Whether there are so many rows that a small share of them says where all begin."""
    return n_rows >= SHARE * max(FEWEST_ROWS, ROWS_FOR_COLUMN * n_features)


def choose_for_mixture(algorithm: Any, shape: tuple[int, int], n_components: int, batch_size: int | None) -> Algorithm:
    """An algorithm for a mixture: sites are large there, and steps by batches cheap."""
    n_rows, n_features = shape
    few = min(n_rows, int(np.clip(n_rows // 50, 200, 2000)))
    small = n_rows * n_components * n_features**3 <= WORK_FOR_EP
    auto = "ep" if small else for_many_rows(batch_size)
    return pick(algorithm, FOR_ANY, auto, Steps(n_rows, -(-n_rows // BATCHES), few), batch_size)


def choose_for_network(algorithm: Any, site_bytes: int, n_rows: int, batch_size: int | None) -> Algorithm:
    """An algorithm for a network. Steps are the paper's: of size one, not averaged over a sweep.

    `site_bytes` is what sites of all rows take in memory; nothing where they are in a file.
    """
    fits = batch_size is None and site_bytes <= BYTES_FOR_EP and how_many_fit(site_bytes) > 0
    return pick(algorithm, FOR_NETWORKS, "ep" if fits else "sep", Steps(n_rows, 1, 1, rate=1.0), batch_size)


def for_many_rows(batch_size: int | None) -> str:
    """One shared site: by all rows at once, or by batches where the user says how large."""
    return "sep" if batch_size else "aep"


def rows_at_once(design: Any) -> int:
    """In a batch of EP for a linear model: each costs a factorisation, and all should not cost more than the rows."""
    n_rows, n_features = design.shape
    products = float(getattr(design, "nnz", n_rows * n_features)) ** 2 / max(n_rows, 1)  # of entries within a row
    n_batches = int(np.clip((products + FREE) / n_features**3, FEWEST, MOST))
    return max(-(-n_rows // n_batches), min(n_rows, FEWEST_ROWS))


def pick(algorithm: Any, names: tuple[str, ...], auto: str, steps: Steps, batch_size: int | None) -> Algorithm:
    """The algorithm of a name, with batches of the user's size where it takes one; objects are taken as they are."""
    if batch_size is not None and (isinstance(algorithm, Algorithm) or algorithm in OF_ALL_ROWS):
        raise ValueError(
            f"batch_size must be None with algorithm={algorithm!r}, which has its own; got {batch_size}. Use 'sep', or "
            "an object such as cavity.sep(batch_size=100)."
        )
    if isinstance(algorithm, Algorithm):
        return algorithm
    name = auto if isinstance(algorithm, str) and algorithm == "auto" else algorithm
    if not isinstance(name, str) or name not in names:
        allowed = ", ".join(map(repr, ("auto", *names)))
        raise ValueError(f"algorithm must be one of {allowed}, or an object such as cavity.ep(); got {algorithm!r}.")
    return NAMES[name](steps, batch_size)
