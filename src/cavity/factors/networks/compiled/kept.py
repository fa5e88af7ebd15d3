"""Loops that were compiled, kept for later processes.

Numba has such a cache too. It lies beside the source, does not see when a function that is called has changed, and two
processes that compile different signatures at once can mix them up. Here the name of a file is a digest of all that it
depends on: the loop and its signature, the source of all loops and of what they take constants from, the versions of
Python, Numba and llvmlite, and the processor.
"""

import contextlib
import hashlib
import pickle
import sys
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core.caching import CompileResultCacheImpl

from cavity import _files

forms: Any = CompileResultCacheImpl  # what is pickled of a compiled function; its methods make no use of an instance
SOURCE = Path(__file__).parents[1]  # all of networks: loops take constants from their mathematics


class Kept:
    """The cache of one loop, as Numba asks it; whatever goes wrong only means to compile again."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def load_overload(self, signature: Any, context: Any) -> Any:
        """What was compiled for a signature, or None."""
        files = _files.store("loops")
        content = files and files.get(self.name_of(signature, context.codegen()))
        if not content:
            return None
        context.refresh()
        with contextlib.suppress(Exception):
            return forms.rebuild(None, context, pickle.loads(content))
        return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep what was compiled for a signature."""
        files = _files.store("loops")
        if files is None or not forms.check_cachable(None, compiled):
            return
        with contextlib.suppress(Exception):
            content = pickle.dumps(forms.reduce(None, compiled))
            files.put(self.name_of(signature, compiled.codegen), content)

    def name_of(self, signature: Any, codegen: Any) -> str:
        """A digest of all that the machine code depends on."""
        said = self.function.__module__, self.function.__qualname__, str(signature), codegen.magic_tuple(), versions()
        return hashlib.sha256(repr(said).encode()).hexdigest()


@cache
def versions() -> tuple[str, ...]:
    """Of what compiles, and of what is compiled."""
    source = b"".join(path.read_bytes() for path in sorted(SOURCE.rglob("*.py")))
    return sys.version, numba.__version__, llvmlite.__version__, hashlib.sha256(source).hexdigest()
