"""How loops are compiled by Numba: which liberties the arithmetic has, and what is inlined.

Compiling takes most of the time of a first fit. Only loops that Python calls are given a way in from Python, which
takes time to compile: without it a part that Python calls ends the process. Parts called from one place are inlined.
"""

import gc
from collections.abc import Callable
from functools import wraps
from typing import Any

from numba import njit

from cavity.factors.networks.compiled.kept import Kept
from cavity.factors.networks.compiled.parts import PartCompiler

FAST = {"contract", "reassoc", "nsz", "arcp"}  # sums in any order; NaN and infinity keep their meaning
PART: dict[str, Any] = {"error_model": "numpy", "nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
PART |= {"pipeline_class": PartCompiler}
jit: Any = njit  # whose types do not know of ways in
compiled = jit(fastmath=FAST, **PART)
inlined = jit(fastmath=FAST, inline="always", **PART)
straight = jit(fastmath={"contract", "nsz"}, **PART)  # sums as they are written


def loop(function: Callable[..., Any]) -> Callable[..., Any]:
    """A loop that Python calls, kept for later processes once it is compiled."""
    program = jit(fastmath=FAST, error_model="numpy", nogil=True)(function)
    program._cache = Kept(function)

    @wraps(function)
    def call(*arguments: Any) -> Any:
        if not gc.isenabled():
            return program(*arguments)
        gc.disable()  # compiling makes millions of objects: to look through them anew takes a tenth of the time
        try:
            return program(*arguments)
        finally:
            gc.enable()

    return call
