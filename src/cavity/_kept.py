"""Compiled programs, kept on disk for later processes.

JAX has such a cache, but one for the whole process. Here it is there for the library's own calls only: a store of our
own takes its place while one of them runs, answers no other thread, and is taken away again. A user who has given JAX a
directory keeps all programs there, ours among them. Whatever goes wrong with files only means to compile again.
"""

import contextlib
import os
import threading
from collections.abc import Iterator
from functools import cache
from typing import Any

from cavity._files import PLACES, Files, store

_lock = threading.Lock()
_here = threading.local()
_calls = 0
_before: tuple[Any, bool] = (None, False)


@cache
def programs(*_: str | None) -> "Programs | None":
    """The store for what these variables say."""
    files = store("programs")
    return None if files is None else Programs(files)


class Programs:
    """What JAX asks of a store, for the threads that are in a call of the library."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def get(self, key: str) -> bytes | None:
        return self._files.get(key) if answers_here() else None

    def put(self, key: str, value: bytes) -> None:
        if answers_here():
            self._files.put(key, value)


def answers_here() -> bool:
    """Whether this thread is in a call of the library."""
    return getattr(_here, "depth", 0) > 0


@contextlib.contextmanager
def double_precision() -> Iterator[None]:
    """The scope of the library's calls of JAX: float64, and programs that are kept."""
    import jax

    with jax.enable_x64(True), kept():
        yield


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """A stretch in which programs that this thread compiles are kept, or found."""
    if answers_here():
        yield
        return
    inside = entered()
    if inside is None:
        yield
        return
    _here.depth = 1
    try:
        with inside:
            yield
    finally:
        _here.depth = 0
        left()


def entered() -> Any:
    """Put our store in the place of JAX's; None where JAX has one, or is another JAX than we know."""
    global _calls, _before
    try:
        from jax._src import compilation_cache, config

        with _lock:
            if _calls == 0:
                files, theirs = programs(*map(os.environ.get, PLACES)), compilation_cache._cache
                theirs = theirs or config.compilation_cache_dir.value
                if files is None or theirs or not config.enable_compilation_cache.value:
                    return None
                _before = compilation_cache._cache, compilation_cache._cache_initialized
                compilation_cache._cache = files  # type: ignore[assignment]
                compilation_cache._cache_initialized = True
            _calls += 1
        return config.persistent_cache_min_compile_time_secs(0.0)  # in this thread
    except (ImportError, AttributeError):
        return None


def left() -> None:
    """Put back what was there before the first of the calls that run now."""
    global _calls
    from jax._src import compilation_cache

    with _lock:
        _calls -= 1
        if _calls == 0 and isinstance(compilation_cache._cache, Programs):  # or somebody has put another there since
            compilation_cache._cache, compilation_cache._cache_initialized = _before
