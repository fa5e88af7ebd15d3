"""Double precision in a scope: the library computes in float64 and never touches the global JAX flag."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import numpy as np

F = TypeVar("F", bound=Callable[..., Any])


def is_traced(*trees: Any) -> bool:
    """Whether any leaf is being traced by JAX, so that the caller's scope already applies."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(trees))


def to_numpy(tree: Any) -> Any:
    """Every leaf as NumPy; scalars as NumPy scalars.

    Outside the scope, arithmetic on a float64 JAX array returns float32; on a NumPy array it does not.
    """
    return jax.tree.map(lambda leaf: np.asarray(leaf)[()], tree)


def in_float64(function: F) -> F:
    """Run a public read in double precision and return NumPy; under a JAX trace, leave it alone."""

    @functools.wraps(function)
    def scoped(*args: Any, **kwargs: Any) -> Any:
        if is_traced(args, kwargs):
            return function(*args, **kwargs)
        with jax.enable_x64(True):
            value = function(*args, **kwargs)
            return value if is_traced(value) else to_numpy(value)  # a constant read inside a trace is traced too

    return scoped  # type: ignore[return-value]
