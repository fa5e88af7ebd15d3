"""Cholesky factors and triangular solves: one matrix by LAPACK, many in step.

A batch of matrices is a LAPACK call for each, which jaxlib 0.10 makes on the threads that the calls then wait for: with
few cores and several batches in one program all threads wait for ever. So batches, also those that `jax.vmap` makes,
are worked on column by column for all matrices at once. Only `cavity.linalg` uses this file.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_batching import custom_vmap
from jax.scipy.linalg import solve_triangular

BLOCK = 16  # columns that are worked on one by one; larger matrices are put together of such blocks by products
LARGEST = 128  # columns of matrices that are worked on in step: of larger ones there are few, and they take turns
UNROLLED = 4  # columns up to which steps are written out: quicker, but programs grow with the square


@jax.custom_jvp
def cholesky(matrix: Array) -> Array:
    """L with L Lᵀ = M for symmetric M; NaN where M is not positive definite."""
    by_lapack = matrix.ndim == 2 and matrix.shape[-1] > BLOCK  # a small one takes less time than the call of LAPACK
    return one_cholesky(matrix) if by_lapack else many_cholesky(matrix)


@cholesky.defjvp
def _(primals: Any, tangents: Any) -> tuple[Array, Array]:
    # dL = L Φ(L⁻¹ dM L⁻ᵀ), Φ the lower triangle with half of the diagonal
    root = cholesky(*primals)
    inverse = inverse_of(root)
    middle = inverse @ tangents[0] @ jnp.swapaxes(inverse, -1, -2)
    return root, root @ (jnp.tril(middle) - 0.5 * middle * jnp.eye(root.shape[-1]))


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def solve(root: Array, columns: Array, transposed: bool) -> Array:
    """L⁻¹ B, or L⁻ᵀ B, for matrices B with as many leading axes as L."""
    one, many = (one_upper, many_upper) if transposed else (one_lower, many_lower)
    return one(root, columns) if root.ndim == 2 else many(root, columns)


@solve.defjvp
def _(transposed: bool, primals: Any, tangents: Any) -> tuple[Array, Array]:
    # by the inverse: what acts on tangents must be products, which have a transpose
    root, slope = primals[0], jnp.tril(tangents[0])
    turn = (lambda m: jnp.swapaxes(m, -1, -2)) if transposed else (lambda m: m)
    solved = solve(*primals, transposed)
    return solved, turn(inverse_of(root)) @ (tangents[1] - turn(slope) @ solved)


def inverse_of(root: Array) -> Array:
    """L⁻¹."""
    return solve(root, jnp.broadcast_to(jnp.eye(root.shape[-1], dtype=root.dtype), root.shape), False)


lower = partial(solve_triangular, lower=True)
upper = partial(solve_triangular, lower=True, trans=1)


# -- one matrix -----------------------------------------------------------------------------------------------------


def alone(function: Callable[..., Array], many: Callable[..., Array]) -> Callable[..., Array]:
    """A function of single matrices that becomes `many` under `vmap`."""
    function = custom_vmap(function)

    @function.def_vmap
    def _(size: int, batched: list[bool], *arrays: Array) -> tuple[Array, bool]:
        spread = lambda array, on: array if on else jnp.broadcast_to(array, (size, *array.shape))
        return many(*map(spread, arrays, batched)), True

    return function


# -- many matrices --------------------------------------------------------------------------------------------------


def many_cholesky(matrix: Array) -> Array:
    return in_turn(jnp.linalg.cholesky, matrix) if matrix.shape[-1] > LARGEST else factor(matrix)


def many_lower(root: Array, columns: Array) -> Array:
    return in_turn(lower, root, columns) if root.shape[-1] > LARGEST else forward(root, columns)


def many_upper(root: Array, columns: Array) -> Array:
    if root.shape[-1] > LARGEST:
        return in_turn(upper, root, columns)
    # Lᵀ x = b is solved forward when the order of rows and columns is turned around
    reverse = lambda array: array[..., ::-1, :]
    return reverse(forward(jnp.swapaxes(root, -1, -2)[..., ::-1, ::-1], reverse(columns)))


def in_turn(function: Callable[..., Array], *arrays: Array) -> Array:
    """A function of single matrices, of one after the other."""
    lead = arrays[0].shape[:-2]
    flat = [array.reshape(-1, *array.shape[-2:]) for array in arrays]
    result = jax.lax.map(lambda parts: function(*parts), tuple(flat))
    return result.reshape(*lead, *result.shape[1:])


def factor(matrix: Array) -> Array:
    """The Cholesky factor, by halves down to blocks."""
    size = matrix.shape[-1]
    if size <= BLOCK:
        return factor_block(matrix)
    half = middle_of(size)
    top = factor(matrix[..., :half, :half])
    left = jnp.swapaxes(forward(top, matrix[..., :half, half:]), -1, -2)
    low = factor(matrix[..., half:, half:] - left @ jnp.swapaxes(left, -1, -2))
    beside = jnp.zeros_like(matrix[..., :half, half:])
    return whole_or_nan(jnp.block([[top, beside], [left, low]]))


def factor_block(matrix: Array) -> Array:
    """The Cholesky factor of a block, a column at a time."""
    places = jnp.arange(matrix.shape[-1])

    def add_column(root: Array, j: Array) -> tuple[Array, None]:
        rest = matrix[..., j] - jnp.sum(root * root[..., j, None, :], axis=-1)
        column = jnp.where(places >= j, rest / jnp.sqrt(rest[..., j, None]), 0.0)
        return jnp.where(places == j, column[..., None], root), None

    root, _ = jax.lax.scan(add_column, jnp.zeros_like(matrix), places, unroll=len(places) <= UNROLLED)
    return whole_or_nan(root)


def whole_or_nan(root: Array) -> Array:
    """A bad pivot spoils all that follow, so that the last tells of any."""
    return jnp.where(jnp.isfinite(root[..., -1:, -1:]), root, jnp.nan)


def forward(root: Array, columns: Array) -> Array:
    """L⁻¹ B, by halves down to blocks."""
    size = root.shape[-1]
    if size <= BLOCK:
        return forward_block(root, columns)
    half = middle_of(size)
    top = forward(root[..., :half, :half], columns[..., :half, :])
    rest = columns[..., half:, :] - root[..., half:, :half] @ top
    return jnp.concatenate([top, forward(root[..., half:, half:], rest)], axis=-2)


def forward_block(root: Array, columns: Array) -> Array:
    """L⁻¹ B of a block, a row of B at a time."""
    places = jnp.arange(root.shape[-1])[:, None]

    def solve_row(rest: Array, j: Array) -> tuple[Array, None]:
        row = rest[..., j, None, :] / root[..., j, j, None, None]
        left = jnp.where(places > j, rest - root[..., j, None] * row, rest)
        return jnp.where(places == j, row, left), None

    return jax.lax.scan(solve_row, columns, places[:, 0], unroll=len(places) <= UNROLLED)[0]


def middle_of(size: int) -> int:
    """Where a matrix is halved: at the end of a block."""
    return BLOCK * (-(-size // BLOCK) // 2)


one_cholesky = alone(lambda matrix: jnp.linalg.cholesky(matrix), many_cholesky)
one_lower = alone(lambda root, columns: lower(root, columns), many_lower)
one_upper = alone(lambda root, columns: upper(root, columns), many_upper)
