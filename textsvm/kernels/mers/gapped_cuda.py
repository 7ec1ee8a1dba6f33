"""GPU twin of gapped k-mers.

If a mask has few possible keys (six positions of DNA: 4^6 = 4,096), X of a mask is a dense matrix and X X' a
tensor-core product of n^2 / 2 * masks * keys multiply-adds (gapped_dense.cu). Counts up to 2,048 are exact in
float16, and their products summed in float32 are exact below 2^24. Other values are the sum of a high and a
low float16 part, 22 bits together, and

    X X' = high high' + low high' + high low'        (low low' is below 2^-22 of it)

The sums of a group of masks go into the upper half of a float32 matrix, tile by tile. Bytes: 4 n^2 the
matrix, 2 n keys per mask of a group and part (GROUP_BYTES in all). Predictions look weights up like
`gapped_rows.look_up`, as integer multiples of 2^-62 of their bound.

Otherwise windows get ids as in windows.py (gapped.cu), and each mask's sparse X is multiplied by
`products_cuda`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from textsvm.arrays import Array, Floats, Ints
from textsvm.kernels.mers.gapped_rows import CodedTexts, GappedRows, Tables, apply_scales, values_of
from textsvm.kernels.mers.windows import Mask, MaskedWindows, Windows, windows_of
from textsvm.kernels.shared.counting_cuda import CudaCounts, WindowIds, matrix_of, ranked
from textsvm.kernels.shared.normalisation import Normalisation
from textsvm.linalg.products_cuda import CudaColumns, Factors, mirror
from textsvm.linalg.sparse_cuda import CudaSparse, documents_of
from textsvm.runtime import device as gpu
from textsvm.runtime.parallel import Progress, part, report
from textsvm.text.documents import Documents

LISTS_SOURCE, SOURCE = "gapped.cu", "gapped_dense.cu"


class CudaWindows:
    """Windows on the current GPU; `counting_cuda` counts them like symbols.

    n, size, n_symbols : documents, windows, and symbols of the alphabet of the codes
    codes, starts, document : int32; int64, (size,); int32, (size,), document of each window
    offsets, lengths : int64, (n + 1,) and (n,), first window, and number of windows, of each document
    """

    def __init__(self, windows: Windows) -> None:
        cp = gpu.cupy()
        self.n, self.size, self.n_symbols = len(windows.indptr) - 1, len(windows.starts), windows.n_symbols
        gpu.require_memory(64 * self.size, f"counting gapped k-mers of {self.size:,} windows")
        self.codes, self.starts = cp.asarray(windows.codes), cp.asarray(windows.starts)
        self.offsets = cp.asarray(windows.indptr)
        self.document = documents_of(self.offsets, self.n, self.size)
        self.lengths = np.diff(windows.indptr)


class CudaMaskedWindows(MaskedWindows):
    """`MaskedWindows` with arrays on the GPU."""

    ranked = staticmethod(ranked)

    @staticmethod
    def keys_of(windows: Any, positions: Array, ids: Array, n_symbols: int) -> Array:
        cp = gpu.cupy()
        keys, places = cp.empty(windows.size, np.int64), cp.asarray(positions.astype(np.int32))
        ids = ids.astype(np.int64, copy=False)
        sizes = (windows.codes, windows.starts, places, np.int32(len(positions)), ids, np.int64(n_symbols))
        gpu.each(gpu.function(LISTS_SOURCE, "masked_keys"), windows.size, *sizes, keys)
        return keys


NAME = "the kernel of gapped k-mers"
#: Kernels launched: (source, defines).
DEFINE_SETS: list[tuple[str, gpu.Defines]] = [(LISTS_SOURCE, ()), (SOURCE, ())]
MOST_KEYS = 1 << 14  #: Largest number of keys of a mask for dense X and for look-ups.
#: Largest number of windows of a text for dense X: larger counts are not exact in float16.
MOST_COUNT = 1 << 11
MOST_WINDOWS = 1 << 14  #: Largest number of windows of a text for look-ups.
GROUP_BYTES = 1 << 30  #: Bytes of the dense rows of a group of masks.
TILE = 2048  #: Rows per product.
PAD = 8  #: Numbers of keys are padded to multiples of this.
#: cudaDataType.
FLOAT16 = 2
FLOAT32 = 0
#: struct Texts of gapped_dense.cu.
TEXTS = gpu.layout("uint64 codes counted offsets kept", "int32 g n_kept n_symbols n_keys strands")


def fits(texts: CodedTexts | None, masks: Sequence[Mask]) -> bool:
    """Whether the Gram can be computed from dense rows."""
    if texts is None or texts.windows > MOST_COUNT:
        return False
    keys = _keys(texts.n_symbols, masks)
    return keys <= MOST_KEYS and 4 * (keys + PAD) <= _shared()


class DenseMasks:
    """Texts on the current GPU, for sums of products over masks.

    `values` are the feature values of 0, 1, 2, ... occurrences, up to `texts.windows`.
    """

    def __init__(self, texts: CodedTexts, values: Floats) -> None:
        cp = gpu.cupy()
        self.texts, self.n = texts, len(texts.offsets) - 1
        self.arrays = _on_card(texts)
        high = values.astype(np.float16)
        low = (values - high).astype(np.float16)
        self.high, self.low = cp.asarray(high.view(np.uint16)), cp.asarray(low.view(np.uint16))
        self.square, self.parts = cp.asarray(values**2), 1 + bool(low.any())

    def groups(self, masks: Sequence[Mask]) -> list[Sequence[Mask]]:
        """Groups of consecutive masks that fit into memory together."""
        bytes_per_mask = 2 * self.parts * max(self.n, 1) * self._padded(masks)
        room = min(GROUP_BYTES, gpu.free_memory() // 4)
        size = max(1, room // bytes_per_mask)
        return [masks[first : first + size] for first in range(0, len(masks), size)]

    def add_to(self, total: Array, masks: Sequence[Mask]) -> Floats:
        """total[i, j] += <x[i], x[j]> over the features of masks, at least for j >= i; return all |x|^2."""
        cp, ld = gpu.cupy(), len(masks) * self._padded(masks)
        gpu.require_memory(2 * self.parts * self.n * ld, f"gapped k-mers of {self.n:,} texts")
        high, squares = cp.empty((self.n, ld), np.float16), cp.empty((self.n, len(masks)))
        low = cp.empty((self.n, ld), np.float16) if self.parts == 2 else None
        self._fill_rows(masks, high, low, squares)
        for first in range(0, self.n, TILE):
            _add_product(total, high, high, first)
            if low is not None:
                _add_product(total, low, high, first)
                _add_product(total, high, low, first)
        return squares.sum(axis=1).get()

    def _padded(self, masks: Sequence[Mask]) -> int:
        return -(-_keys(self.texts.n_symbols, masks) // PAD) * PAD

    def _fill_rows(self, masks: Sequence[Mask], high: Array, low: Array | None, squares: Array) -> None:
        cp, n_padded = gpu.cupy(), self._padded(masks)
        positions = cp.asarray(np.array([mask.positions for mask in masks], np.int32))
        argument = _structure(self.arrays, positions, self.texts, self.texts.n_symbols)
        kernel = gpu.function(SOURCE, "dense_rows")
        kernel.max_dynamic_shared_size_bytes = 4 * n_padded
        out = (self.high, self.low, self.square, high, np.uint64(0) if low is None else low, squares)
        sizes = (np.int64(high.shape[1]), np.int32(n_padded))
        if self.n:
            kernel((self.n, len(masks)), (128,), (argument, *sizes, *out), shared_mem=4 * n_padded)


def _keys(n_symbols: int, masks: Sequence[Mask]) -> int:
    return n_symbols ** len(masks[0].positions)


def _shared() -> int:
    """Dynamic shared memory per block, in bytes."""
    return gpu.shared_memory() - 1024


def _unit(bound: float) -> float:
    """Power of two that scales numbers up to `bound` to 62-bit integers."""
    return float(2.0 ** min(61 - int(np.ceil(np.log2(bound))), 1000)) if bound > 0 else 1.0


def _on_card(texts: CodedTexts) -> dict[str, Array]:
    copy = gpu.cupy().asarray
    return {"codes": copy(texts.codes), "counted": copy(texts.counted), "offsets": copy(texts.offsets)}


def _structure(arrays: dict[str, Array], positions: Array, texts: CodedTexts, n_symbols: int) -> Any:
    n_kept = positions.shape[1]
    return gpu.structure(
        TEXTS, texts, **arrays, kept=positions, n_kept=n_kept, n_symbols=n_symbols, n_keys=n_symbols**n_kept
    )


def _add_product(total: Array, left: Array, right: Array, first: int) -> None:
    """A tile of rows: total[first:, first:] += left[first:] right[first:]'."""
    cp, ld, n = gpu.cupy(), left.shape[1], len(total)
    blas, one = cp.cuda.cublas, np.ones(1, np.float32)
    blas.gemmEx(
        cp.cuda.device.get_cublas_handle(), blas.CUBLAS_OP_T, blas.CUBLAS_OP_N,
        n - first, min(TILE, n - first), ld, one.ctypes.data,
        right[first:].data.ptr, FLOAT16, ld, left[first:].data.ptr, FLOAT16, ld, one.ctypes.data,
        total[first:, first:].data.ptr, FLOAT32, n,
        blas.CUBLAS_COMPUTE_32F, blas.CUBLAS_GEMM_DEFAULT,
    )  # fmt: skip


@dataclass(frozen=True)
class CudaMask:
    """`HostMask` on a GPU."""

    mask: Mask
    vocabulary: CudaMaskedWindows
    windows: CudaWindows
    ids: Array
    x: CudaSparse

    @property
    def columns(self) -> CudaColumns:
        """X by columns, not cached: the dense columns of all masks take too much memory."""
        return CudaColumns(self.x, Factors(np.ones(len(self.x)), self.x.squares))

    @property
    def squares(self) -> Floats:
        return self.mask.times * self.x.squares

    def over(self, vocabulary: CudaMaskedWindows) -> CudaSparse:
        target = gpu.cupy().full(self.vocabulary.size, -1, np.int64)
        target[self.ids] = vocabulary.find(self.windows)
        return self.x.select(target)

    def products(self, x: CudaSparse) -> Array:
        times = np.full(len(x), float(self.mask.times))
        return self.columns.cross(x, Factors(times, x.squares), NAME)

    def rows(self, indices: Ints) -> Array:
        products = self.columns.rows(gpu.cupy().asarray(indices), NAME)
        products *= self.mask.times
        return products


class CudaGapped(GappedRows):
    """Kernel values with fixed documents on a GPU (`KernelRows`)."""

    @staticmethod
    def windows_of(kernel: Any, documents: Documents) -> CudaWindows:
        return CudaWindows(windows_of(documents, kernel.g, kernel.canonical))

    @staticmethod
    def represent(kernel: Any, windows: Any, mask: Mask) -> Any:
        vocabulary, ids = CudaMaskedWindows.learn(windows, mask)
        places = windows.lengths, windows.offsets, windows.document
        counts = CudaCounts.of(WindowIds(*places, [(1, ids)], {1: vocabulary.size}))
        return CudaMask(mask, vocabulary, windows, ids, matrix_of(kernel.weight, counts, None))

    @staticmethod
    def can_look_up(texts: CodedTexts, keys: int) -> bool:
        # Shared memory of a block holds the counts and the keys of a text.
        shared = 4 * keys + 2 * texts.windows
        return keys <= MOST_KEYS and texts.windows <= MOST_WINDOWS and shared <= _shared()

    @staticmethod
    def look_up(texts: CodedTexts, tables: Tables, values: Floats) -> tuple[Floats, Floats]:
        cp, n, (machines, masks, keys) = gpu.cupy(), len(texts.offsets) - 1, tables.weights.shape
        sums, squares = cp.zeros((n, machines)), cp.zeros(n)
        largest = float(abs(tables.weights).max()) if tables.weights.size else 0.0
        bound = max(texts.windows, 1) * int(tables.times.sum())
        unit = _unit(bound * largest * float(np.diff(values).max(initial=1)))
        square_unit = _unit(bound * float(values.max()) ** 2)
        arrays, positions = _on_card(texts), cp.asarray(tables.positions)
        times, more, more_square = map(cp.asarray, (tables.times, np.diff(values), np.diff(values**2)))
        shared = 4 * keys + 2 * texts.windows
        kernel = gpu.function(SOURCE, "look_up")
        kernel.max_dynamic_shared_size_bytes = shared
        argument = _structure(arrays, positions, texts, tables.n_symbols)
        weights = (np.int32(masks), times, more, more_square, tables.weights)
        if n:
            numbers = (np.float64(unit), np.float64(square_unit))
            kernel((n, machines), (192,), (argument, *weights, *numbers, sums, squares), shared_mem=shared)
        return sums.get(), squares.get()

    def gram(self, progress: Progress | None = None) -> Array:
        with gpu.use(self.device):
            purpose = f"the {self.n:,} x {self.n:,} matrix of {NAME}"
            gpu.require_memory(8 * self.n**2, purpose, "lower --memory")
            total = gpu.cupy().zeros((self.n, self.n), np.float32)
            texts = CodedTexts.of(self.documents, self.kernel.g, self.kernel.canonical)
            if texts is not None and fits(texts, self.kernel.masks):
                normalisation = self._multiply(texts, total, progress)
            else:
                normalisation = self._add_up(total, progress)
            apply_scales(total, normalisation, normalisation)
            normalisation.finish_rows(total, normalisation)
            mirror(total, normalisation.diagonal())
            return total

    def _multiply(self, texts: CodedTexts, total: Array, progress: Progress | None) -> Normalisation:
        """Add products of dense rows to the upper half of `total`; return k(s, s)."""
        squares, done, every = np.zeros(self.n), 0, self.kernel.masks
        rows = DenseMasks(texts, values_of(self.kernel.weight, texts.windows).astype(np.float64))
        for times, equal in groupby(every, key=lambda mask: mask.times):
            for group in rows.groups(list(equal)):
                squares += times * rows.add_to(total, group)
                done += len(group)
                report(progress, done, len(every))
            total *= times
        return self._normalisation(squares)

    def _add_up(self, total: Array, progress: Progress | None) -> Normalisation:
        """Add sparse products to the upper half of `total`; return k(s, s)."""
        squares, passes = np.zeros(self.n), len(self.kernel.masks)
        for times, equal in groupby(
            enumerate(self.represent_masks()), key=lambda numbered: numbered[1].mask.times
        ):
            for number, rows in equal:
                squares += rows.squares
                total += rows.columns.half(NAME, part(progress, number, 1, passes))
            total *= times
        return self._normalisation(squares)
