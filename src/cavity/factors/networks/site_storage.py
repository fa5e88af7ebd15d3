"""Where the sites of many data with many parameters are kept: in memory, or in a file that is mapped into it."""

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from cavity import _tree as tree

MEMORY_FILES = {
    "/proc/meminfo": lambda text: 1024 * int(text.split("MemAvailable:")[1].split()[0]),
    "/sys/fs/cgroup/memory.max": lambda text: int(text) - int(Path("/sys/fs/cgroup/memory.current").read_text()),
}
ROOM = 0.8  # of the free memory that sites may take


def free_memory() -> float:
    """Bytes that this process can still use, as far as the system says; infinity if it does not."""
    found = [np.inf]
    for path, read in MEMORY_FILES.items():
        try:
            found.append(read(Path(path).read_text()))
        except (OSError, ValueError, IndexError):  # another system, or no limit
            continue
    return min(found)


def bytes_of(site: Any, count: int, dtype: str) -> int:
    """How much as many sites take."""
    return count * np.dtype(dtype).itemsize * sum(np.size(leaf) for leaf in tree.leaves(site))


def how_many_fit(n_bytes: int) -> int:
    """As many arrays of this size as there is memory for."""
    return int(min(ROOM * free_memory() / max(n_bytes, 1), 1e9))


def check_room(site: Any, count: int, dtype: str, directory: str | None) -> None:
    """Raise MemoryError where as many sites would not fit, with what to do."""
    needed = bytes_of(site, count, dtype)
    if directory is None and not how_many_fit(needed):
        raise MemoryError(
            f"EP keeps a site for each of {count:,} rows: {in_words(needed)}, and {in_words(free_memory())} are free. "
            "Use SEP, which keeps one for all; site_dtype='float32', which takes half; or site_directory, a place on "
            "disk for a file of this size."
        )


def in_words(n_bytes: float) -> str:
    return f"{n_bytes / 1e9:,.1f} GB" if n_bytes >= 1e8 else f"{n_bytes / 1e6:,.1f} MB"


def allocate(site: Any, count: int, dtype: str = "float64", directory: str | None = None) -> Any:
    """`count` copies of a site, stacked; in a file in `directory` if there is one, deleted when it is no longer used.

    Raises MemoryError before anything is allocated where they would not fit.
    """
    check_room(site, count, dtype, directory)

    def stack(leaf: Any) -> np.ndarray:
        shape = (count, *np.shape(leaf))
        array = np.empty(shape, dtype) if directory is None else in_file(Path(directory), shape, dtype)
        array[...] = leaf
        return array

    return tree.map(stack, site)


def in_file(directory: Path, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """An array mapped to a new file without a name: it goes with the array, also after a crash."""
    if not directory.is_dir():
        raise ValueError(f"site_directory must be a directory that exists; got {str(directory)!r}.")
    handle, path = tempfile.mkstemp(dir=directory, prefix="cavity-sites-")
    os.close(handle)
    array = np.memmap(path, dtype, mode="w+", shape=shape)
    Path(path).unlink()
    return array
