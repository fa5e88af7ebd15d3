"""What the host asks of JAX: the adaptive walk, and values of a user's JAX function, for vectors of a fixed length.

Programs are compiled once for a likelihood or function, never for a number of rows.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cavity._kept import double_precision
from cavity.quadrature import Tilt, adaptive

FEW, MANY = 16, 8192  # rows of a walk, activations of a function


def walk(likelihood: Any, y: Any, mean: np.ndarray, variance: np.ndarray, power: float) -> Tilt:
    """Tilts of a likelihood's kernel, row by row."""
    return Tilt(*in_portions(lambda *rows: _walk(likelihood, rows, power), (y, mean, variance), FEW))


def in_portions(program: Callable[..., Any], columns: Any, length: int) -> Any:
    """A program over vectors of `length` applied to longer or shorter ones; the last is filled with copies of a row."""
    number = len(jax.tree.leaves(columns)[0])
    whole = number - number % length
    index: list[Any] = [slice(begin, begin + length) for begin in range(0, whole, length)]
    if whole < number:
        index.append(np.minimum(np.arange(whole, whole + length), number - 1))
    with double_precision():
        parts = [jax.tree.map(np.asarray, program(*jax.tree.map(lambda c, i=i: c[i], columns))) for i in index]
    return jax.tree.map(lambda *found: np.concatenate(found)[:number], *parts)


@functools.partial(jax.jit, static_argnames="power")
def _walk(likelihood: Any, rows: Any, power: float) -> Tilt:
    def one(y: Any, mean: Any, variance: Any) -> Tilt:
        kernel = lambda a: likelihood.log_kernel(y, a)
        return adaptive.tilt(kernel, mean, variance, power, likelihood.center(y, mean))

    return jax.vmap(one)(*rows)


def with_derivatives(scalar: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """A program for vectors y and a: scalar(y, a) with its first and second derivative in a."""

    def one(y: Any, a: Any) -> tuple[Any, Any, Any]:
        value = lambda t: jnp.asarray(scalar(y, t), dtype=a.dtype)
        slope = lambda t: jax.jvp(value, (t,), (jnp.ones_like(t),))
        (at, first), (_, second) = jax.jvp(slope, (a,), (jnp.ones_like(a),))
        return at, first, second

    return jax.jit(jax.vmap(one))


def each(scalar: Callable[[Any], Any]) -> Callable[..., Any]:
    """A program for vectors y: scalar(y), alone in a tuple."""
    return jax.jit(jax.vmap(lambda y: (jnp.asarray(scalar(y), dtype=float),)))
