"""Double precision in a scope: the library computes in float64 and never touches the global JAX flag.

NumPy needs no scope. A family that can compute on the host says so (`has_host_form`), and its reads then neither import
JAX nor compile anything, unless a number is JAX's already.
"""

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from cavity import _tree
from cavity._array import is_jax
from cavity._kept import double_precision

F = TypeVar("F", bound=Callable[..., Any])


def is_traced(*trees: Any) -> bool:
    """Whether any leaf is being traced by JAX, so that the caller's scope already applies."""
    core = getattr(sys.modules.get("jax"), "core", None)
    return core is not None and any(isinstance(leaf, core.Tracer) for leaf in _tree.leaves(trees))


def to_numpy(tree: Any) -> Any:
    """Every leaf as NumPy; scalars as NumPy scalars.

    Outside the scope, arithmetic on a float64 JAX array returns float32; on a NumPy array it does not.
    """
    return _tree.map(lambda leaf: np.asarray(leaf)[()], tree)


def in_float64(function: F) -> F:
    """Run a public read in double precision and return NumPy; under a JAX trace, leave it alone.

    A method of a family with a host form is run in NumPy where all numbers are NumPy's. It must then be written against
    `xp = namespace(...)`, and as quiet as JAX: NaN is an answer, not a warning.
    """

    @functools.wraps(function)
    def scoped(*args: Any, **kwargs: Any) -> Any:
        leaves = _tree.leaves((args, kwargs)) if "jax" in sys.modules else ()
        if is_jax(*leaves):
            return function(*args, **kwargs) if is_traced(leaves) else by_jax(function, args, kwargs)
        if not on_host(*args):
            return by_jax(function, args, kwargs)
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)

    return scoped  # type: ignore[return-value]


def on_host(owner: Any = None, *_: Any) -> bool:
    """Whether the object whose method is called can do without JAX; of a class, whose method it may be, none can."""
    return not isinstance(owner, type) and hasattr(owner, "has_host_form") and owner.has_host_form()


def by_jax(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """The value of a function that computes with JAX, as NumPy float64."""
    with double_precision(), np.errstate(all="ignore"):  # parts of it may have a host form
        value = function(*args, **kwargs)
        return value if is_traced(value) else to_numpy(value)  # a constant read inside a trace is traced too
