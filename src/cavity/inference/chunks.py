"""Sums over many rows in pieces, so that work arrays do not grow with the data."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

PADDING = int(np.iinfo(np.int32).max)  # a row past the end of any data: it weighs nothing
CHUNK = 2048  # rows at a time: large enough for matrix products to run at full speed, small enough for the cache


def gather(data: Any, rows: Any) -> Any:
    """The given rows of every leaf; rows past the end (padding) repeat the last one."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf).at[rows].get(mode="clip"), data)


def sum_over_chunks(
    function: Callable[[Any], tuple[Any, Any]], rows: Any, size: int = CHUNK, n_rows: int = PADDING
) -> tuple[Any, Any]:
    """Apply `function(part) -> (sums, outputs)` to pieces of `rows`; add up the sums, join the outputs.

    `rows` are indices, filled up with PADDING in the last piece, to which `function` must give no weight. Pieces that
    hold nothing below `n_rows` are left out: a batch of few rows is padded to the length of the largest.
    """
    n = len(rows)
    if n <= size:
        return function(rows)
    n_chunks = -(-n // size)
    parts = jnp.pad(rows, (0, n_chunks * size - n), constant_values=PADDING).reshape(n_chunks, size)

    shapes = jax.eval_shape(function, parts[0])
    zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)

    def body(total: Any, part: Any) -> tuple[Any, Any]:
        sums, outputs = jax.lax.cond(jnp.any(part < n_rows), function, lambda _: zero, part)
        return jax.tree.map(jnp.add, total, sums), outputs

    total, outputs = jax.lax.scan(body, zero[0], parts)
    return total, jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:n], outputs)
