"""Dense feature rows, with the methods of `textsvm.linalg.sparse.Sparse` that solvers use.

Rows are kept in float32, products are summed in float64: a block of rows at a time is copied to float64.

BLAS and LAPACK add in another order with another number of threads. Products on the host are therefore
computed in pieces that depend on shapes alone, each by one thread of BLAS.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from textsvm.arrays import AnyArray, Floats, Ints
from textsvm.runtime.parallel import one_blas_thread, run

PIECE = 1 << 22  #: Multiplications of a piece of a product on the host.
READ = 16  #: Multiplications that take as long as reading a float64 number from main memory.
PIECE_WIDTH = 64  #: Minimum number of rows or columns of a piece.


def matmul(a: AnyArray, b: AnyArray) -> AnyArray:
    """a @ b on all cores, for matrices on the host; no bit depends on the number of threads."""
    by_rows = len(a) >= b.shape[1]
    size, other = (len(a), b.shape[1]) if by_rows else (b.shape[1], len(a))
    step = max(PIECE_WIDTH, PIECE // max(1, a.shape[1] * (other + READ)))
    product = np.empty((len(a), b.shape[1]), np.result_type(a, b))

    def multiply(first: int) -> None:
        piece = slice(first, first + step)
        if by_rows:
            np.matmul(a[piece], b, out=product[piece])
        else:
            np.matmul(a, b[:, piece], out=product[:, piece])

    with one_blas_thread():
        run(multiply, range(0, size, step))
    return product


HOST_BLOCK = 16 << 20  #: Bytes of the float64 copy of a block of rows on the host.
HOST_DOUBLE = 256 << 20  #: Bytes of rows kept in float64 on the host for many products.


@dataclass(frozen=True)
class DenseRows:
    """Dense rows of Z."""

    values: AnyArray  #: float32 or float64, shape (n, n_features)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def n_features(self) -> int:
        return int(self.values.shape[1])

    def take(self, indices: Ints) -> DenseRows:
        return DenseRows(self.values[indices])

    def take_for_products(self, indices: Ints) -> DenseRows:
        """The rows at `indices`, converted to float64 for many products if they fit into HOST_DOUBLE."""
        rows = self.take(indices).values
        return DenseRows(rows.astype(np.float64) if 8 * rows.size <= HOST_DOUBLE else rows)

    def squares(self) -> Floats:
        """Squared norm of every row, float64, shape (n,)."""
        norms = np.empty(len(self))
        for rows, block in self._blocks():
            norms[rows] = np.square(block).sum(axis=1)
        return norms

    def dot(self, dense: AnyArray) -> Floats:
        """Z @ dense: (n_features, k) -> float64 (n, k)."""
        by = np.asarray(dense, np.float64)
        products = np.empty((len(self), by.shape[1]))
        for rows, block in self._blocks():
            products[rows] = matmul(block, by)
        return products

    def transposed_dot(self, dense: AnyArray) -> Floats:
        """Z.T @ dense: (n, k) -> float64 (n_features, k)."""
        by = np.asarray(dense, np.float64)
        sums = np.zeros((self.n_features, by.shape[1]))
        for rows, block in self._blocks():
            sums += matmul(block.T, by[rows])
        return sums

    def scatter(self, indices: Ints, weights: Floats, constant: float) -> Floats:
        """A.T @ diag(weights) @ A, float64, shape (n_features + 1,) * 2; A has a last column `constant`."""
        d = self.n_features
        total = np.zeros((d + 1, d + 1))
        root = np.sqrt(weights)[:, None]
        for rows, block in self._blocks(indices):
            scaled = np.empty((len(block), d + 1))
            np.multiply(block, root[rows], out=scaled[:, :d])
            scaled[:, d:] = constant * root[rows]
            total += matmul(scaled.T, scaled)
        return total

    def _blocks(self, indices: Ints | None = None) -> Iterator[tuple[slice, Floats]]:
        """Blocks of consecutive rows (of those at `indices`), in float64."""
        step = max(1, HOST_BLOCK // (8 * max(1, self.n_features)))
        n = len(self if indices is None else indices)
        for first in range(0, n, step):
            rows = slice(first, min(first + step, n))
            yield rows, self.values[rows if indices is None else indices[rows]].astype(np.float64, copy=False)
