"""The way into compiled programs and back: chunks of one fixed size, in double precision.

What is compiled depends on the factor, the shapes of a row and the size of a chunk, never on the number of rows: a
chunk is filled up with copies of its first row that weigh nothing (copies, because zero times a number that is not
finite is not zero). The scope of double precision is entered here; it holds for one thread only.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from cavity._kept import double_precision
from cavity._lazy import jax
from cavity.inference.contract import CHUNK, Rows


def filled_up(rows: Rows, size: int = CHUNK) -> Rows:
    """The rows and as many more without weight as a chunk has room for."""
    rows, short = rows._replace(number=None, beside=None), size - len(rows.weight)
    if short == 0:
        return rows
    fill = lambda leaf: np.concatenate([leaf, np.broadcast_to(leaf[:1], (short, *leaf.shape[1:]))])
    weight = np.concatenate([rows.weight, np.zeros(short)])
    return rows._replace(data=jax.tree.map(fill, rows.data), weight=weight, sites=jax.tree.map(fill, rows.sites))


def few_sizes(n: int) -> int:
    """The least of 1, 2, 3, 4, 6, 8, 12, 16, 24, … that is not below n: a few sizes for all numbers of rows."""
    power = 1 << max(n - 1, 0).bit_length()
    return 3 * power // 4 if power >= 4 and n <= 3 * power // 4 else power


def call(program: Callable[..., Any], *arguments: Any, **static: Any) -> Any:
    """A compiled program in double precision; what it returns, in NumPy."""
    with double_precision():
        return jax.tree.map(np.asarray, program(*arguments, **static))


def first(stack: Any, number: int) -> Any:
    """The first members of a stack, without those that filled it up."""
    return jax.tree.map(lambda leaf: leaf[:number], stack)
