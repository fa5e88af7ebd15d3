"""Sources of rows: arrays in memory are the first, in one part or in several. And their rows, some at a time."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from cavity import _tree as tree
from cavity.inference.contract import CHUNK, Tree


class Slice(NamedTuple):
    """Some rows of arrays in memory."""

    data: Tree
    begin: int
    end: int

    @property
    def n_rows(self) -> int:
        return self.end - self.begin

    def read(self) -> Any:
        """Views of the rows; nothing is copied."""
        return tree.map(lambda leaf: leaf[self.begin : self.end], self.data)


class Arrays(NamedTuple):
    """Rows in memory."""

    parts: tuple[Slice, ...]

    @classmethod
    def of(cls, data: Tree, n_parts: int = 1) -> "Arrays":
        """A tree of arrays with a row for each datum, in as many parts of nearly equal size."""
        n = tree.leaves(data)[0].shape[0]
        ends = [n * k // n_parts for k in range(n_parts + 1)]
        return cls.split(data, [end - begin for begin, end in pairwise(ends)])

    @classmethod
    def split(cls, data: Tree, sizes: Sequence[int]) -> "Arrays":
        """Rows in parts of these sizes; one without rows is no part."""
        ends = np.cumsum([0, *sizes]).tolist()
        return cls(tuple(Slice(data, begin, end) for begin, end in pairwise(ends) if end > begin))


def n_rows(source: Any) -> int:
    """Rows of all parts, from what is known without reading them."""
    return sum(part.n_rows for part in source.parts)


def pieces(which: Any, n_rows: int, size: int) -> list[Any]:
    """Rows of a part in chunks of `size`, the last one shorter: a slice of all rows, or an array of their numbers.

    The bounds depend on nothing else.
    """
    if isinstance(which, slice):
        return [slice(begin, min(begin + size, n_rows)) for begin in range(0, n_rows, size)]
    return [which[begin : begin + size] for begin in range(0, len(which), size)]


def chunks(source: Any, size: int = CHUNK) -> Iterator[Any]:
    """All rows of a source, some at a time: what is formed of them does not grow with their number."""
    for part in source.parts:
        rows = part.read()
        for piece in pieces(slice(None), part.n_rows, size):
            yield tree.map(lambda leaf, piece=piece: leaf[piece], rows)


def sample(source: Any, at_most: int, draw: Callable[[int, int], np.ndarray]) -> tuple[Any, np.ndarray]:
    """At most so many rows, and which they are; `draw(n, k)` chooses k of n where there are more."""
    n = n_rows(source)
    chosen = np.arange(n) if n <= at_most else draw(n, at_most)
    begin, found, places = 0, [], []
    for part in source.parts:
        place = np.flatnonzero((chosen >= begin) & (chosen < begin + part.n_rows))
        here = chosen[place] - begin
        found.append(tree.map(lambda leaf, here=here: leaf[here], part.read()))
        places.append(place)
        begin += part.n_rows
    if len(found) == 1:
        return found[0], chosen
    return tree.map(lambda *leaves: np.concatenate(leaves), *found), chosen[np.concatenate(places)]
