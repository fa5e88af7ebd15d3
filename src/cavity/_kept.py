"""Compiled programs, kept on disk for later processes.

JAX has such a cache, but one for the whole process. Here it is there for the library's own calls only: a store of our
own takes its place while one of them runs, answers no other thread, and is taken away again. A user who has given JAX a
directory keeps all programs there, ours among them. Whatever goes wrong with files only means to compile again.
"""

import contextlib
import hashlib
import os
import platform
import sys
import tempfile
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

OFF = ("0", "off")
PLACES = ("CAVITY_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA", "HOME")  # variables that say where programs are kept
DIGEST = hashlib.sha256().digest_size
_lock = threading.Lock()
_here = threading.local()
_calls = 0
_before: tuple[Any, bool] = (None, False)


def directory() -> Path | None:
    """Where programs are kept: as CAVITY_CACHE says, or in the user's cache; None where they are not."""
    given = os.environ.get("CAVITY_CACHE", "")
    if given.lower() in OFF:
        return None
    if given:
        return Path(given).expanduser() / "programs"
    try:
        return users_cache() / "cavity" / "programs"
    except RuntimeError:  # a user without a home
        return None


def users_cache() -> Path:
    """Where this platform keeps what can be made again."""
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"])
    if sys.platform == "win32" and os.environ.get("LOCALAPPDATA"):
        return Path(os.environ["LOCALAPPDATA"])
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")


@cache
def machine() -> str:
    """The processor that programs are made for: a home may be shared by machines with other instructions."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        found = sorted({line for line in lines if line.startswith(("flags", "Features", "model name"))})
        return hashlib.sha256("\n".join(found).encode()).hexdigest()[:16]
    return hashlib.sha256("".join(platform.uname()).encode()).hexdigest()[:16]


class Files:
    """Programs in the files of a directory. Each begins with a digest of the rest, and appears as a whole."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def get(self, key: str) -> bytes | None:
        """A program, if it is kept in one piece."""
        if not answers_here():
            return None
        with contextlib.suppress(OSError):
            content = (self._path / key).read_bytes()
            if hashlib.sha256(content[DIGEST:]).digest() == content[:DIGEST]:
                return content[DIGEST:]
        return None

    def put(self, key: str, value: bytes) -> None:
        """Keep a program, unless that is impossible."""
        if not answers_here():
            return
        with contextlib.suppress(OSError):
            self._path.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.NamedTemporaryFile(dir=self._path, suffix=".part", delete=False) as file:
                try:
                    file.write(hashlib.sha256(value).digest() + value)
                    file.close()
                    os.replace(file.name, self._path / key)
                except OSError:
                    os.unlink(file.name)


@cache
def store(*_: str | None) -> Files | None:
    """The store for what these variables say."""
    path = directory()
    return None if path is None else Files(path / machine())


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
                files, theirs = store(*map(os.environ.get, PLACES)), compilation_cache._cache
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
        if _calls == 0 and isinstance(compilation_cache._cache, Files):  # or somebody has put another there since
            compilation_cache._cache, compilation_cache._cache_initialized = _before
