"""NumPy or JAX: which of the two a function should use for the numbers it was given.

The host computes with NumPy, and a fit that needs no compiled program never imports JAX. Functions that serve both are
written against `xp = namespace(...)`, as in the array API standard.
"""

import sys
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any  # NumPy's or JAX's, whose type is not to be had without importing it


def is_jax(*values: Any) -> bool:
    """Whether any of these is an array of JAX, concrete or traced."""
    kind = getattr(sys.modules.get("jax"), "Array", None)
    return kind is not None and any(isinstance(value, kind) for value in values)


def namespace(*values: Any) -> Any:
    """`jax.numpy` where any value is an array of JAX, `numpy` otherwise."""
    return sys.modules["jax.numpy"] if is_jax(*values) else np
