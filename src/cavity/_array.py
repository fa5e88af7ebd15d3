"""NumPy or JAX: which of the two a function should use for the numbers it was given.

The host computes with NumPy, and a fit that needs no compiled program never imports JAX. Functions that serve both are
written against `xp = namespace(...)`, as in the array API standard.
"""

import sys
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, TypeAlias, TypeVar

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])
Array: TypeAlias = Any  # NumPy's or JAX's, whose type is not to be had without importing it


def is_jax(*values: Any) -> bool:
    """Whether any of these is an array of JAX, concrete or traced."""
    kind = getattr(sys.modules.get("jax"), "Array", None)
    return kind is not None and any(isinstance(value, kind) for value in values)


def namespace(*values: Any) -> Any:
    """`jax.numpy` where any value is an array of JAX, `numpy` otherwise."""
    return sys.modules["jax.numpy"] if is_jax(*values) else np


def either(condition: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
    """What one of two functions returns; the other is not called, or not run inside a compiled program."""
    if is_jax(condition):
        return sys.modules["jax"].lax.cond(condition, yes, no)
    return yes() if condition else no()


def repeat_while(unfinished: Callable[[Any], Any], advance: Callable[[Any], Any], carry: Any) -> Any:
    """`carry = advance(carry)` while it is unfinished, for a tuple of arrays."""
    if is_jax(*carry):
        return sys.modules["jax"].lax.while_loop(unfinished, advance, carry)
    while unfinished(carry):
        carry = advance(carry)
    return carry


def held(array: Array) -> Array:
    """An array without its derivatives."""
    return sys.modules["jax"].lax.stop_gradient(array) if is_jax(array) else array


def by_program(*static: int) -> Callable[[F], F]:
    """A function of arrays that is one compiled program for those of JAX, also outside jit, and plain for others.

    `static` are the places of arguments that are no arrays.
    """

    def decorate(function: F) -> F:
        program = cache(lambda: sys.modules["jax"].jit(function, static_argnums=static))

        @wraps(function)
        def by_kind(*arguments: Any) -> Any:
            return program()(*arguments) if is_jax(*arguments) else function(*arguments)

        return by_kind  # type: ignore[return-value]

    return decorate
