"""Chunks mapped over threads: summed in a fixed order, with one thread of BLAS each.

The bounds of chunks and the order of sums do not depend on the number of threads, and neither does how BLAS is called,
so that any number of threads gives the same bits. Limits of BLAS hold for the whole process: they have one owner here,
are counted, and are put back when the last walk has ended.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any

_lock = threading.Lock()
_walks = 0
_limits: Any = None


def available() -> int:
    """Threads that this process may use: as OMP_NUM_THREADS says, or as many as there are processors for it."""
    given = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    if given.isdigit() and int(given) > 0:
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _controller() -> Any:
    """What sets the limits of the libraries that are loaded: NumPy's BLAS, and SciPy's, which comes with its LAPACK."""
    import scipy.linalg  # noqa: F401 - limits do not reach what is loaded later
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def release() -> None:
    """Let any thread set limits next."""
    for library in _controller().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


@contextmanager
def in_control() -> Iterator[None]:
    """Limits that are set here hold: threadpoolctl lets the first thread set those of OpenBLAS, and ignores others."""
    release()
    try:
        yield
    finally:
        release()  # whoever set limits around this fit is to put them back


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """A stretch in which each call of BLAS runs in the thread that makes it."""
    global _walks, _limits
    with _lock:
        if _walks == 0:
            with in_control():
                _limits = _controller().limit(limits=1, user_api="blas")
        _walks += 1  # not before the limit is set: what raises there leaves no trace
    try:
        yield
    finally:
        with _lock:
            _walks -= 1
            if _walks == 0:
                with in_control():
                    _limits.restore_original_limits()


class Threads:
    """Some threads for the length of a fit."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pool = ThreadPoolExecutor(number) if number > 1 else None

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """The results in the order of the items, a few of them ahead of time."""
        if self.pool is None:
            yield from map(function, items)
            return
        running: deque[Any] = deque()
        for item in items:
            running.append(self.pool.submit(function, item))
            if len(running) > 2 * self.number:  # what is waiting holds a sum each
                yield running.popleft().result()
        while running:
            yield running.popleft().result()

    def __enter__(self) -> "Threads":
        return self

    def __exit__(self, *_: Any) -> None:
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)
