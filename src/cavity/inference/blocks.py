"""Sums over the rows of a chunk inside a compiled program, a block of rows at a time."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from cavity._array import Array

BLOCK = 128  # rows at a time: what is formed for each of them stays in the cache


def over_blocks(function: Callable[..., Any], weight: Array, *stacks: Any, size: int = BLOCK) -> Any:
    """`function(weight, *stacks)` of blocks of rows, which returns a pair: what is added up, and what is joined.

    A block without weight takes no time: a chunk that is not full costs no more than its rows. Truth values are joined
    by "and" instead of being added up.
    """
    if len(weight) <= size or len(weight) % size:
        return function(weight, *stacks)
    blocks = jax.tree.map(lambda leaf: leaf.reshape(-1, size, *leaf.shape[1:]), (weight, *stacks))
    shapes = jax.eval_shape(function, *jax.tree.map(lambda leaf: leaf[0], blocks))
    nothing = jax.tree.map(lambda leaf: jnp.full(leaf.shape, leaf.dtype == bool, leaf.dtype), shapes)

    def add(total: Any, block: Any) -> tuple[Any, Any]:
        summed, joined = jax.lax.cond(jnp.any(block[0] > 0), lambda: function(*block), lambda: nothing)
        return jax.tree.map(lambda a, b: a & b if a.dtype == bool else a + b, total, summed), joined

    total, joined = jax.lax.scan(add, nothing[0], blocks)
    return total, jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), joined)
