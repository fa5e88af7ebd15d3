"""Files of a cache in the user's own place: where it is, for which processor, and how several processes share it."""

import contextlib
import hashlib
import os
import platform
import sys
import tempfile
from functools import cache
from pathlib import Path

OFF = ("0", "off")
PLACES = ("CAVITY_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA", "HOME")  # variables that say where programs are kept
DIGEST = hashlib.sha256().digest_size


def directory() -> Path | None:
    """Where compiled code is kept: as CAVITY_CACHE says, or in the user's cache; None where it is not."""
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
    """What was made, in the files of a directory. Each begins with a digest of the rest, and appears as a whole."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def get(self, key: str) -> bytes | None:
        """What was kept, if it is in one piece."""
        with contextlib.suppress(OSError):
            content = (self._path / key).read_bytes()
            if hashlib.sha256(content[DIGEST:]).digest() == content[:DIGEST]:
                return content[DIGEST:]
        return None

    def put(self, key: str, value: bytes) -> None:
        """Keep it, unless that is impossible."""
        with contextlib.suppress(OSError):
            self._path.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.NamedTemporaryFile(dir=self._path, suffix=".part", delete=False) as file:
                try:
                    file.write(hashlib.sha256(value).digest() + value)
                    file.close()
                    os.replace(file.name, self._path / key)
                except OSError:
                    os.unlink(file.name)


def store(name: str) -> Files | None:
    """A place of some name for what this processor runs; None where nothing is kept."""
    path = directory()
    return None if path is None else Files(path.with_name(name) / machine())
