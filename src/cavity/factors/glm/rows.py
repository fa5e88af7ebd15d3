"""Products with the rows of X, dense or sparse, for NumPy and JAX alike.

Rows of a sparse matrix are kept as JAX can gather them: for each row where its entries are, and what they are, filled
up with zeros to the longest row. Products with few entries per row are formed entry by entry; where rows are longer, a
chunk of them at a time is spread out, never all of X.
"""

import math
import threading
from dataclasses import field
from typing import Any

import numpy as np

from cavity._array import Array, is_jax, namespace
from cavity._pytree import pytree
from cavity.inference.contract import CHUNK

WORK = 4_000_000  # numbers in the largest work array over a chunk of sparse rows
DENSE_NUMBERS = 131072
SPARSE_CHUNK = 8 * CHUNK  # rows: each chunk gives a matrix of the columns squared, which may cost more than its rows
LARGEST_KEPT = 2**20  # numbers in a work array that a thread keeps
COLUMNS = 40  # of a product at once, at least: each lot leaves out what is known by symmetry
FEW = 15  # a scattered product costs about as much as this many in a matrix product, squared


@pytree
class SparseRows:
    """Rows with few entries; unused places hold the value zero."""

    indices: Any  # (row, entry)
    values: Any  # (row, entry)
    n_columns: int = field(metadata={"static": True})

    @property
    def shape(self) -> tuple[int, ...]:
        return (*np.shape(self.values)[:-1], self.n_columns)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, which: Any) -> "SparseRows":
        return SparseRows(self.indices[which], self.values[which], self.n_columns)

    @classmethod
    def of(cls, matrix: Any) -> "SparseRows":
        """From a SciPy sparse matrix or array."""
        matrix = matrix.tocsr()
        matrix.sum_duplicates()
        length = np.diff(matrix.indptr)
        width = max(int(length.max(initial=0)), 1)
        indices = np.zeros((matrix.shape[0], width), dtype=np.int32)
        values = np.zeros((matrix.shape[0], width))
        place = np.arange(matrix.nnz) - np.repeat(matrix.indptr[:-1], length)
        row = np.repeat(np.arange(matrix.shape[0]), length)
        indices[row, place], values[row, place] = matrix.indices, matrix.data
        return cls(indices, values, matrix.shape[1])

    def dense(self) -> Array:
        """The rows spread out."""
        if not is_jax(self.values):
            return self.csr().toarray()
        import jax.numpy as jnp

        flat = self.values.reshape(-1, self.values.shape[-1])
        line = jnp.arange(len(flat))[:, None]
        spread = jnp.zeros((len(flat), self.n_columns)).at[line, self.indices.reshape(flat.shape)].add(flat)
        return spread.reshape(self.shape)

    def csr(self) -> Any:
        """The rows as a SciPy array."""
        from scipy import sparse

        starts = np.arange(len(self.values) + 1) * self.values.shape[1]
        if starts[-1] <= np.iinfo(np.int32).max:
            starts = starts.astype(np.int32)  # as the indices are: SciPy would make those longer
        given = self.values.ravel(), self.indices.ravel(), starts
        return sparse.csr_array(given, shape=(len(self.values), self.n_columns))

    @property
    def is_wide(self) -> bool:
        """Whether matrix products over spread-out rows are cheaper than products entry by entry."""
        return FEW * self.values.shape[-1] > self.n_columns


def chunk_size(rows: Any) -> int:
    """How many rows at a time keep work arrays small; it depends on the columns alone."""
    if not isinstance(rows, SparseRows):
        return int(np.clip(DENSE_NUMBERS // rows.shape[1], CHUNK, 8 * CHUNK))
    return int(np.clip(WORK // rows.n_columns, 1, CHUNK)) if rows.is_wide else SPARSE_CHUNK


def times(rows: Any, matrix: Array) -> Array:
    """X B for a vector or a matrix B."""
    if not isinstance(rows, SparseRows):
        return rows @ matrix
    if not is_jax(rows.values, matrix):
        return rows.csr() @ matrix
    if rows.is_wide or matrix.ndim == 2:
        return rows.dense() @ matrix
    return (rows.values * matrix[rows.indices]).sum(-1)


def quadratic(rows: Any, matrix: Array) -> Array:
    """xᵀ B x for every row."""
    if not isinstance(rows, SparseRows):
        product = rows @ matrix if is_jax(rows, matrix) else np.matmul(rows, matrix, out=scratch(rows.shape))
        return namespace(rows, matrix).einsum("...i,...i->...", product, rows)
    if rows.is_wide:
        return quadratic(rows.dense(), matrix)
    if is_jax(rows.values, matrix):
        return quadratic_by_entries(rows, matrix)
    size = max(WORK // rows.values.shape[-1] ** 2, 1)
    each = [quadratic_by_entries(rows[begin : begin + size], matrix) for begin in range(0, len(rows), size)]
    return np.concatenate(each)


def quadratic_by_entries(rows: SparseRows, matrix: Array) -> Array:
    """xᵀ B x for every row, from the entries of B in the rows and columns where x has entries."""
    block = matrix[rows.indices[..., :, None], rows.indices[..., None, :]]
    return namespace(block).einsum("...i,...ij,...j->...", rows.values, block, rows.values, optimize=True)


def weighted_sum(rows: Any, weight: Array) -> Array:
    """Xᵀ w."""
    if not isinstance(rows, SparseRows):
        return rows.T @ weight
    if not is_jax(rows.values, weight):
        return rows.csr().T @ weight
    import jax.numpy as jnp

    return jnp.zeros(rows.n_columns).at[rows.indices].add(weight[:, None] * rows.values)


def weighted_gram(rows: Any, weight: Array) -> Array:
    """Xᵀ diag(w) X; weights may be negative."""
    if not isinstance(rows, SparseRows):
        return rows.T @ (weight[:, None] * rows) if is_jax(rows, weight) else signed_gram(rows, weight)
    if rows.is_wide:
        return weighted_gram(rows.dense(), weight)
    if not is_jax(rows.values, weight):
        spread = rows.csr()
        return (spread.T @ spread.multiply(weight[:, None])).toarray()
    import jax.numpy as jnp

    products = weight[:, None, None] * rows.values[:, :, None] * rows.values[:, None, :]
    zero = jnp.zeros((rows.n_columns, rows.n_columns))
    return zero.at[rows.indices[:, :, None], rows.indices[:, None, :]].add(products)


def signed_gram(rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Xᵀ diag(w) X of dense rows; of the symmetric matrix little more than a half is formed."""
    if np.all(weight >= 0):  # BLAS knows a product of a matrix with itself
        scaled = np.multiply(rows, np.sqrt(weight)[:, None], out=scratch(rows.shape))
        return scaled.T @ scaled
    scaled = np.multiply(rows, weight[:, None], out=scratch(rows.shape))
    gram = np.empty((rows.shape[1],) * 2)
    step = max(COLUMNS, len(gram) // 5)
    for begin in range(0, len(gram), step):
        end = begin + step
        gram[begin:end, begin:] = rows[:, begin:end].T @ scaled[:, begin:]
        gram[end:, begin:end] = gram[begin:end, end:].T
    return gram


class Kept(threading.local):
    """A work array for each thread: new ones of this size would be asked of the system again and again."""

    numbers = np.empty(0)


def scratch(shape: tuple[int, ...]) -> np.ndarray:
    """An array to write to, until the thread asks for the next one."""
    size = math.prod(shape)
    if size > LARGEST_KEPT:
        return np.empty(shape)
    if size > kept.numbers.size:
        kept.numbers = np.empty(size)
    return kept.numbers[:size].reshape(shape)


kept = Kept()


def spread_out(rows: Any) -> Any:
    """One row, or several, as dense arrays."""
    return rows.dense() if isinstance(rows, SparseRows) else rows
