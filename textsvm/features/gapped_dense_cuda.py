"""Gapped k-mers whose possible keys are few, the launches of kernels_cu/gapped_dense.cu, on a GPU.

DNA under a mask that keeps six positions has 4^6 = 4,096 possible keys: X of a mask is a dense matrix, and
X X' a product of tensor cores, of n^2 / 2 * masks * keys multiply-adds.

Counts up to 2,048 are float16, their products exact and added up in float32, so whole sums below 2^24 are
exact.
Of other weights a float16 is the high part and another the low one, together 22 bits, of which

    X X' = high high' + low high' + high low'        (low low' is below 2^-22 of it)

The sums of all masks of a group go into the upper half of one float32 matrix, tile by tile.

Memory, in bytes: 4 n^2 the matrix; 2 n keys for each mask of a group and part, GROUP_BYTES together.

Predictions look weights up as `gapped_tables` does, whole multiples of a unit of 2^-62 of their bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm import device as gpu
from textsvm.features.gapped import Mask
from textsvm.features.gapped_tables import Tables, Texts

Array = Any  # a CuPy array
SOURCE = "gapped_dense.cu"
#: What may be launched: (source, defines).
DEFINE_SETS: list[tuple[str, gpu.Defines]] = [(SOURCE, ())]
#: Possible keys of a mask, and windows of a text, for which X is made dense; windows that are looked up.
MOST_KEYS, MOST_COUNT, MOST_WINDOWS = 1 << 14, 1 << 11, 1 << 14
GROUP_BYTES, TILE, PAD = 1 << 30, 2048, 8
FLOAT16, FLOAT32 = 2, 0  # cudaDataType
#: What gapped_dense.cu has in Texts.
TEXTS = np.dtype(
    [(name, np.uint64) for name in ("codes", "offsets", "kept")]
    + [(name, np.int32) for name in ("g", "n_kept", "n_symbols", "n_keys", "strands")],
    align=True,
)


def fits(texts: Texts | None, masks: Sequence[Mask]) -> bool:
    """Whether the Gram of texts is that of dense rows."""
    if texts is None or texts.windows > MOST_COUNT:
        return False
    keys = _keys(texts.n_symbols, masks)
    return keys <= MOST_KEYS and 4 * (keys + PAD) <= _shared()


class DenseMasks:
    """Texts on the current card, for sums of products over masks.

    Parameters
    ----------
    texts : Texts
    values : float64 array
        What becomes of 0, 1, 2, ... occurrences, as many as a text has windows.
    """

    def __init__(self, texts: Texts, values: NDArray[np.float64]) -> None:
        cp = gpu.cupy()
        self.texts, self.n = texts, len(texts.offsets) - 1
        self.codes, self.offsets = cp.asarray(texts.codes), cp.asarray(texts.offsets)
        high = values.astype(np.float16)
        low = (values - high).astype(np.float16)
        self.high, self.low = cp.asarray(high.view(np.uint16)), cp.asarray(low.view(np.uint16))
        self.square, self.parts = cp.asarray(values**2), 1 + bool(low.any())

    def groups(self, masks: Sequence[Mask]) -> list[Sequence[Mask]]:
        """Masks in order, as many together as memory has room for."""
        each = 2 * self.parts * max(self.n, 1) * self._padded(masks)
        room = min(GROUP_BYTES, gpu.free_memory() // 4)
        size = max(1, room // each)
        return [masks[first : first + size] for first in range(0, len(masks), size)]

    def add_to(self, total: Array, masks: Sequence[Mask]) -> NDArray[np.float64]:
        """total[i, j] += <x[i], x[j]> over the features of masks, j >= i at least; |x|^2 of every row."""
        cp, ld = gpu.cupy(), len(masks) * self._padded(masks)
        gpu.require_memory(2 * self.parts * self.n * ld, f"gapped k-mers of {self.n:,} texts")
        high, squares = cp.empty((self.n, ld), np.float16), cp.empty((self.n, len(masks)))
        low = cp.empty((self.n, ld), np.float16) if self.parts == 2 else None
        self._make(masks, high, low, squares)
        for first in range(0, self.n, TILE):
            _add_product(total, high, high, first)
            if low is not None:
                _add_product(total, low, high, first)
                _add_product(total, high, low, first)
        found: NDArray[np.float64] = squares.sum(axis=1).get()
        return found

    def _padded(self, masks: Sequence[Mask]) -> int:
        return -(-_keys(self.texts.n_symbols, masks) // PAD) * PAD

    def _make(self, masks: Sequence[Mask], high: Array, low: Array | None, squares: Array) -> None:
        cp, n_padded = gpu.cupy(), self._padded(masks)
        kept = cp.asarray(np.array([mask.kept for mask in masks], np.int32))
        argument = _structure(self.codes, self.offsets, kept, self.texts, self.texts.n_symbols)
        kernel = gpu.function(SOURCE, "dense_rows")
        kernel.max_dynamic_shared_size_bytes = 4 * n_padded
        out = (self.high, self.low, self.square, high, np.uint64(0) if low is None else low, squares)
        sizes = (np.int64(high.shape[1]), np.int32(n_padded))
        if self.n:
            kernel((self.n, len(masks)), (128,), (argument, *sizes, *out), shared_mem=4 * n_padded)


def can_look_up(texts: Texts, keys: int) -> bool:
    """Whether a block has room for the counts and the keys of a text."""
    shared = 4 * keys + 2 * texts.windows
    return keys <= MOST_KEYS and texts.windows <= MOST_WINDOWS and shared <= _shared()


def look_up(
    texts: Texts, tables: Tables, values: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """See `gapped_tables.look_up`; on the host."""
    cp, n, (machines, masks, keys) = gpu.cupy(), len(texts.offsets) - 1, tables.weights.shape
    sums, squares = cp.zeros((n, machines)), cp.zeros(n)
    largest = float(abs(tables.weights).max()) if tables.weights.size else 0.0
    bound = max(texts.windows, 1) * int(tables.times.sum())
    unit = _unit(bound * largest * float(np.diff(values).max(initial=1)))
    square_unit = _unit(bound * float(values.max()) ** 2)
    codes, offsets, kept = cp.asarray(texts.codes), cp.asarray(texts.offsets), cp.asarray(tables.kept)
    times, more, more_square = map(cp.asarray, (tables.times, np.diff(values), np.diff(values**2)))
    shared = 4 * keys + 2 * texts.windows
    kernel = gpu.function(SOURCE, "look_up")
    kernel.max_dynamic_shared_size_bytes = shared
    argument = _structure(codes, offsets, kept, texts, tables.n_symbols)
    weights = (np.int32(masks), times, more, more_square, tables.weights)
    if n:
        numbers = (np.float64(unit), np.float64(square_unit))
        kernel((n, machines), (192,), (argument, *weights, *numbers, sums, squares), shared_mem=shared)
    return sums.get(), squares.get()


def _keys(n_symbols: int, masks: Sequence[Mask]) -> int:
    return n_symbols ** len(masks[0].kept)


def _shared() -> int:
    """Bytes of shared memory that a block may ask for, beside what it always has."""
    attributes = gpu.cupy().cuda.Device().attributes
    return int(attributes["MaxSharedMemoryPerBlockOptin"]) - 1024


def _unit(bound: float) -> float:
    """A power of two that numbers up to a bound are multiplied by, for 62 bits."""
    return float(2.0 ** min(61 - int(np.ceil(np.log2(bound))), 1000)) if bound > 0 else 1.0


def _structure(codes: Array, offsets: Array, kept: Array, texts: Texts, n_symbols: int) -> Any:
    n_kept = kept.shape[1]
    return gpu.structure(
        TEXTS, codes=codes, offsets=offsets, kept=kept, g=texts.g, n_kept=n_kept,
        n_symbols=n_symbols, n_keys=n_symbols**n_kept, strands=texts.strands,
    )  # fmt: skip


def _add_product(total: Array, left: Array, right: Array, first: int) -> None:
    """Rows of a tile from `first` on: total[first:, first:] += left[first:] right[first:]'."""
    cp, ld, n = gpu.cupy(), left.shape[1], len(total)
    blas, one = cp.cuda.cublas, np.ones(1, np.float32)
    blas.gemmEx(
        cp.cuda.device.get_cublas_handle(), blas.CUBLAS_OP_T, blas.CUBLAS_OP_N,
        n - first, min(TILE, n - first), ld, one.ctypes.data,
        right[first:].data.ptr, FLOAT16, ld, left[first:].data.ptr, FLOAT16, ld, one.ctypes.data,
        total[first:, first:].data.ptr, FLOAT32, n,
        blas.CUBLAS_COMPUTE_32F, blas.CUBLAS_GEMM_DEFAULT,
    )  # fmt: skip
