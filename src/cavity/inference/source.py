"""Arrays in memory, the first source: one part, or several slices of the same arrays."""

from typing import Any, NamedTuple

from cavity import _tree as tree


class Slice(NamedTuple):
    """Some rows of arrays in memory."""

    data: Any
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
    def of(cls, data: Any, n_parts: int = 1) -> "Arrays":
        """A tree of arrays with a row for each datum, in as many parts of nearly equal size."""
        n = len(tree.leaves(data)[0])
        ends = [n * k // n_parts for k in range(n_parts + 1)]
        return cls(tuple(Slice(data, ends[k], ends[k + 1]) for k in range(n_parts)))


def n_rows(source: Any) -> int:
    """Rows of all parts, from what is known without reading them."""
    return sum(part.n_rows for part in source.parts)
