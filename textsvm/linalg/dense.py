"""Dense rows of features: the verbs of `textsvm.linalg.sparse.Sparse` that solvers use, on either device.

Rows are kept in float32. Products are sums in float64: on a card of what is read once (`dense_cuda`), on
the host of blocks of rows that are copied to float64 one at a time: a copy of all would take twice their
memory again.

How many columns a launch multiplies at a time: kernels are compiled for some widths.

Passes over dense rows on a GPU: the launches of kernels_cu/dense.cu.

Each reads the values, float32, once; what they are multiplied by and sums are float64, in an order that does
not depend on who is first: two runs give the same bits. Bytes: 4 a value and pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.runtime import device as gpu
from textsvm.runtime.device import array_module, device_of

Array = Any  # a CuPy array

#: Columns that kernels are compiled for.
WIDTHS = (1, 2, 4, 8)


def slices(k: int) -> Iterator[tuple[slice, int]]:
    """The columns that a kernel takes at once, and how many it is compiled for."""
    for first in range(0, k, WIDTHS[-1]):
        last = min(first + WIDTHS[-1], k)
        yield slice(first, last), next(width for width in WIDTHS if width >= last - first)


def padded(array: Array, width: int) -> Array:
    """An array with columns of zeros behind, contiguous."""
    cp = gpu.cupy()
    if array.shape[-1] == width:
        return cp.ascontiguousarray(array)
    out = cp.zeros((*array.shape[:-1], width), array.dtype)
    out[..., : array.shape[-1]] = array
    return out


SOURCE = "dense.cu"
BLOCK, WARPS = 256, 8
#: Rows of a warp of `dense_dot`, features of one of `dense_transposed_dot`; and warps that keep a card busy.
ROWS, FEATURES, BUSY = 4, 128, 1 << 14
TYPES = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}
#: What may be launched: (source, defines).
DEFINE_SETS = [
    (SOURCE, (("VALUE", value), ("COLUMNS", width))) for value in TYPES.values() for width in WIDTHS
]
#: What dense.cu has in Dense.
DENSE = np.dtype(
    [(name, np.uint64) for name in ("values", "index", "by", "out")]
    + [(name, np.int64) for name in ("n", "d", "pieces")],
    align=True,
)


@dataclass(frozen=True)
class CudaDense:
    """Rows of Z, or some of them without a copy.

    Attributes
    ----------
    values : CuPy float32 or float64 array, shape (all rows, n_features)
    index : CuPy int64 array, shape (n,), optional
        Which rows; all by default.
    """

    values: Array
    index: Array = None

    def dot(self, dense: Array) -> Array:
        """Z @ dense, float64, shape (n_features, k) -> (n, k)."""
        cp, n = gpu.cupy(), self._n
        out = cp.empty((n, dense.shape[1]))
        for some, width in slices(dense.shape[1]):
            made = cp.empty((n, width))
            self._launch("dense_dot", -(-n // ROWS), padded(dense[:, some], width), made, 1)
            out[:, some] = made[:, : some.stop - some.start]
        return out

    def transposed_dot(self, dense: Array) -> Array:
        """Z.T @ dense, float64, shape (n, k) -> (n_features, k)."""
        cp, d = gpu.cupy(), self.values.shape[1]
        out = cp.zeros((d, dense.shape[1]))
        tiles = -(-d // FEATURES)
        pieces = max(1, min(self._n // 32, BUSY // max(1, tiles)))
        for some, width in slices(dense.shape[1]):
            made = cp.empty((pieces, d, width))
            self._launch("dense_transposed_dot", tiles * pieces, padded(dense[:, some], width), made, pieces)
            out[:, some] = made.sum(axis=0)[:, : some.stop - some.start]
        return out

    @property
    def _n(self) -> int:
        return len(self.values) if self.index is None else len(self.index)

    def _launch(self, name: str, warps: int, by: Array, out: Array, pieces: int) -> None:
        values = self.values
        arguments = gpu.structure(
            DENSE,
            values=values,
            index=self.index,
            by=by,
            out=out,
            n=self._n,
            d=values.shape[1],
            pieces=pieces,
        )
        if warps:
            defines = (("VALUE", TYPES[values.dtype]), ("COLUMNS", by.shape[1]))
            gpu.function(SOURCE, name, defines)((-(-warps // WARPS),), (BLOCK,), (arguments,))


#: Bytes of the float64 copy of a block of rows, on the host and on a card.
HOST_BLOCK, DEVICE_BLOCK = 16 << 20, 1 << 30
#: Bytes of rows that the host keeps in float64 for many products: then nothing is copied for each.
HOST_DOUBLE = 256 << 20


@dataclass(frozen=True)
class DenseRows:
    """Rows of Z, all of whose features have values.

    Attributes
    ----------
    values : float32 or float64 array, shape (n, n_features), NumPy or CuPy
        What is computed lives where they do.
    """

    values: Any

    def __len__(self) -> int:
        return len(self.values)

    @property
    def n_features(self) -> int:
        """How many features there are."""
        return int(self.values.shape[1])

    def take(self, indices: NDArray[np.int64]) -> DenseRows:
        """The rows at `indices`."""
        return DenseRows(self.values[self._xp.asarray(indices)])

    def take_for_products(self, indices: NDArray[np.int64]) -> DenseRows | CudaDense:
        """The same for many products: not copied on a card; in float64 on the host if not too large."""
        if self._xp is not np:
            return self._on_card(self._xp.asarray(indices))
        some = self.take(indices).values
        return DenseRows(some.astype(np.float64) if 8 * some.size <= HOST_DOUBLE else some)

    def squares(self) -> Any:
        """|z|^2 of every row, float64, shape (n,)."""
        found = self._xp.empty(len(self))
        for rows, block in self._blocks():
            found[rows] = self._xp.square(block).sum(axis=1)
        return found

    def dot(self, dense: Any) -> Any:
        """Z @ dense: (n_features, k) -> float64 (n, k)."""
        by = self._xp.asarray(dense, np.float64)
        if self._xp is not np:
            return self._on_card().dot(by)
        found = np.empty((len(self), by.shape[1]))
        for rows, block in self._blocks():
            found[rows] = block @ by
        return found

    def transposed_dot(self, dense: Any) -> Any:
        """Z.T @ dense: (n, k) -> float64 (n_features, k)."""
        by = self._xp.asarray(dense, np.float64)
        if self._xp is not np:
            return self._on_card().transposed_dot(by)
        found = np.zeros((self.n_features, by.shape[1]))
        for rows, block in self._blocks():
            found += block.T @ by[rows]
        return found

    def scatter(self, indices: Any, weights: Any, constant: float) -> Any:
        """A.T @ diag(weights) @ A, float64, shape (n_features + 1,) * 2; A: rows, beside them `constant`."""
        xp, d = self._xp, self.n_features
        found, root = xp.zeros((d + 1, d + 1)), xp.sqrt(weights)[:, None]
        for rows, block in self._blocks(indices):
            scaled = xp.empty((len(block), d + 1))
            xp.multiply(block, root[rows], out=scaled[:, :d])
            scaled[:, d:] = constant * root[rows]
            found += scaled.T @ scaled
        return found

    def _blocks(self, indices: Any = None) -> Iterator[tuple[slice, Any]]:
        """Consecutive rows, or some at a time of those at `indices`, in float64."""
        size = HOST_BLOCK if self._xp is np else DEVICE_BLOCK
        step = max(1, size // (8 * max(1, self.n_features)))
        n = len(self if indices is None else indices)
        for first in range(0, n, step):
            rows = slice(first, min(first + step, n))
            yield rows, self.values[rows if indices is None else indices[rows]].astype(np.float64, copy=False)

    def _on_card(self, indices: Any = None) -> CudaDense:
        return CudaDense(self._xp.ascontiguousarray(self.values), indices)

    @property
    def _xp(self) -> Any:
        return array_module(device_of(self.values))
