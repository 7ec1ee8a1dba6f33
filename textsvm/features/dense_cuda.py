"""Passes over dense rows on a GPU: the launches of kernels_cu/dense.cu.

Each reads the values, float32, once; what they are multiplied by and sums are float64, in an order that does
not depend on who is first: two runs give the same bits. Bytes: 4 a value and pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from textsvm import device as gpu
from textsvm.features.widths_cuda import WIDTHS, padded, slices

Array = Any  # a CuPy array
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
