"""Dense feature rows, with the methods of `textsvm.linalg.sparse.Sparse` that solvers use, on CPU and GPU.

Rows are kept in float32, products are summed in float64. A GPU converts values as it reads them (dense.cu:
each pass reads every value, 4 bytes, once; the order of sums is fixed, so results are reproducible). The host
copies a block of rows at a time to float64. Kernels are compiled for the numbers of columns in `WIDTHS`.

BLAS and LAPACK add in another order with another number of threads. Products on the host are therefore
computed in pieces that depend on shapes alone, each by one thread of BLAS.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from textsvm.arrays import AnyArray, Array, Ints
from textsvm.linalg.sparse import run_pieces
from textsvm.runtime import device as gpu
from textsvm.runtime.device import array_module, device_of
from textsvm.runtime.parallel import one_blas_thread

#: Numbers of columns that kernels are compiled for.
WIDTHS = (1, 2, 4, 8)


def slices(k: int) -> Iterator[tuple[slice, int]]:
    """Split k columns into slices, each with the width of the kernel that processes it."""
    for first in range(0, k, WIDTHS[-1]):
        last = min(first + WIDTHS[-1], k)
        yield slice(first, last), next(width for width in WIDTHS if width >= last - first)


def padded(array: Array, width: int) -> Array:
    """Append columns of zeros up to `width`; the result is contiguous."""
    cp = gpu.cupy()
    if array.shape[-1] == width:
        return cp.ascontiguousarray(array)
    out = cp.zeros((*array.shape[:-1], width), array.dtype)
    out[..., : array.shape[-1]] = array
    return out


SOURCE = "dense.cu"
#: Threads and warps per block.
BLOCK = 256
WARPS = 8
#: Rows per warp of `dense_dot`.
ROWS = 4
#: Features per warp of `dense_transposed_dot`.
FEATURES = 128
#: Warps that keep a GPU busy.
BUSY = 1 << 14
TYPES = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}
#: Kernels launched: (source, defines).
DEFINE_SETS = [
    (SOURCE, (("VALUE", value), ("COLUMNS", width))) for value in TYPES.values() for width in WIDTHS
]
#: struct Dense of dense.cu.
DENSE = np.dtype(
    [(name, np.uint64) for name in ("values", "index", "by", "out")]
    + [(name, np.int64) for name in ("n", "d", "pieces")],
    align=True,
)


@dataclass(frozen=True)
class CudaDense:
    """Rows of Z on a GPU, or a selection of them without a copy."""

    values: Array  #: CuPy float32 or float64 array, shape (all rows, n_features)
    index: Array = None  #: CuPy int64 array, shape (n,): Selected rows; all by default

    def dot(self, dense: Array) -> Array:
        """Z @ dense, float64, shape (n_features, k) -> (n, k)."""
        cp, n = gpu.cupy(), self._n
        out = cp.empty((n, dense.shape[1]))
        for columns, width in slices(dense.shape[1]):
            products = cp.empty((n, width))
            self._launch("dense_dot", -(-n // ROWS), padded(dense[:, columns], width), products, 1)
            out[:, columns] = products[:, : columns.stop - columns.start]
        return out

    def transposed_dot(self, dense: Array) -> Array:
        """Z.T @ dense, float64, shape (n, k) -> (n_features, k)."""
        cp, d = gpu.cupy(), self.values.shape[1]
        out = cp.zeros((d, dense.shape[1]))
        tiles = -(-d // FEATURES)
        pieces = max(1, min(self._n // 32, BUSY // max(1, tiles)))
        for columns, width in slices(dense.shape[1]):
            sums = cp.empty((pieces, d, width))
            self._launch(
                "dense_transposed_dot", tiles * pieces, padded(dense[:, columns], width), sums, pieces
            )
            out[:, columns] = sums.sum(axis=0)[:, : columns.stop - columns.start]
        return out

    @property
    def _n(self) -> int:
        return len(self.values) if self.index is None else len(self.index)

    def _launch(self, name: str, warps: int, by: Array, out: Array, pieces: int) -> None:
        values = self.values
        arguments = gpu.structure(
            DENSE, values=values, index=self.index, by=by, out=out, n=self._n, d=values.shape[1],
            pieces=pieces,
        )  # fmt: skip
        if warps:
            defines = (("VALUE", TYPES[values.dtype]), ("COLUMNS", by.shape[1]))
            gpu.function(SOURCE, name, defines)((-(-warps // WARPS),), (BLOCK,), (arguments,))


#: Multiplications of a piece of a product on the host.
PIECE = 1 << 22
#: Multiplications that take as long as reading a float64 number from main memory.
READ = 16
#: Minimum number of rows or columns of a piece.
PIECE_WIDTH = 64


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
        run_pieces(multiply, range(0, size, step))
    return product


#: Bytes of the float64 copy of a block of rows on the host.
HOST_BLOCK = 16 << 20
#: Bytes of such a copy on a GPU.
DEVICE_BLOCK = 1 << 30
#: Bytes of rows kept in float64 on the host for many products.
HOST_DOUBLE = 256 << 20


@dataclass(frozen=True)
class DenseRows:
    """Dense rows of Z."""

    #: float32 or float64 array, shape (n, n_features), NumPy or CuPy: Results are on the same device.
    values: Array

    def __len__(self) -> int:
        return len(self.values)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.values.shape[1])

    def take(self, indices: Ints) -> DenseRows:
        """The rows at `indices`."""
        return DenseRows(self.values[self._xp.asarray(indices)])

    def take_for_products(self, indices: Ints) -> DenseRows | CudaDense:
        """The rows at `indices`, prepared for many products.

        Not copied on a GPU; converted to float64 on the host if they fit into HOST_DOUBLE.
        """
        if self._xp is not np:
            return self._on_gpu(self._xp.asarray(indices))
        rows = self.take(indices).values
        return DenseRows(rows.astype(np.float64) if 8 * rows.size <= HOST_DOUBLE else rows)

    def squares(self) -> Array:
        """Squared norm of every row, float64, shape (n,)."""
        norms = self._xp.empty(len(self))
        for rows, block in self._blocks():
            norms[rows] = self._xp.square(block).sum(axis=1)
        return norms

    def dot(self, dense: Array) -> Array:
        """Z @ dense: (n_features, k) -> float64 (n, k)."""
        by = self._xp.asarray(dense, np.float64)
        if self._xp is not np:
            return self._on_gpu().dot(by)
        products = np.empty((len(self), by.shape[1]))
        for rows, block in self._blocks():
            products[rows] = matmul(block, by)
        return products

    def transposed_dot(self, dense: Array) -> Array:
        """Z.T @ dense: (n, k) -> float64 (n_features, k)."""
        by = self._xp.asarray(dense, np.float64)
        if self._xp is not np:
            return self._on_gpu().transposed_dot(by)
        sums = np.zeros((self.n_features, by.shape[1]))
        for rows, block in self._blocks():
            sums += matmul(block.T, by[rows])
        return sums

    def scatter(self, indices: Array, weights: Array, constant: float) -> Array:
        """A.T @ diag(weights) @ A, float64, shape (n_features + 1,) * 2; A has a last column `constant`."""
        xp, d = self._xp, self.n_features
        total, root = xp.zeros((d + 1, d + 1)), xp.sqrt(weights)[:, None]
        for rows, block in self._blocks(indices):
            scaled = xp.empty((len(block), d + 1))
            xp.multiply(block, root[rows], out=scaled[:, :d])
            scaled[:, d:] = constant * root[rows]
            total += matmul(scaled.T, scaled) if xp is np else scaled.T @ scaled
        return total

    def _blocks(self, indices: Array = None) -> Iterator[tuple[slice, Array]]:
        """Blocks of consecutive rows (of those at `indices`), in float64."""
        size = HOST_BLOCK if self._xp is np else DEVICE_BLOCK
        step = max(1, size // (8 * max(1, self.n_features)))
        n = len(self if indices is None else indices)
        for first in range(0, n, step):
            rows = slice(first, min(first + step, n))
            yield rows, self.values[rows if indices is None else indices[rows]].astype(np.float64, copy=False)

    def _on_gpu(self, indices: Array = None) -> CudaDense:
        return CudaDense(self._xp.ascontiguousarray(self.values), indices)

    @property
    def _xp(self) -> Any:
        return array_module(device_of(self.values))
