"""Sparse matrices on a GPU with one row per document or vector, and functions of their products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from textsvm.arrays import Array, Floats
from textsvm.errors import InputError
from textsvm.linalg.sparse import GRID_BITS, MAX_INT32
from textsvm.runtime import device as gpu
from textsvm.runtime.device import Defines

SOURCE = "products.cu"
EXACT = {np.uint32: (("SUM", "uint32"),), np.uint64: (("SUM", "uint64"),)}
GRID = (("SUM", "uint64"), ("VALUE", "uint32"))  #: Features on a grid.
FIXED = (("SUM", "uint64"), ("FIXED", 1), ("VALUE", "double"))  #: Vectors.
#: Kernels launched: (source, defines).
DEFINE_SETS = [(SOURCE, defines) for defines in (*EXACT.values(), GRID)]
FINISHES = ("linear", "polynomial", "gaussian", "sigmoid")  #: Functions of finish.cuh.


@dataclass(frozen=True)
class Finish:
    """Function of <x, y>, |x|^2 and |y|^2."""

    name: str  #: From FINISHES; for other names kernels compute only products, and `value` is applied to them
    numbers: tuple[float, ...]  #: gamma, coef0, degree, as far as the function has them
    #: The function on float64 arrays: products (m, n), |x|^2 (m, 1) and |y|^2 (n,).
    value: Callable[[Array, Array, Array], Array]

    @property
    def known(self) -> bool:
        """Whether finish.cuh implements it."""
        return self.name in FINISHES

    @property
    def gamma(self) -> float | None:
        """gamma if the function depends on gamma |x - y|^2 only, else None."""
        return self.numbers[0] if self.name == "gaussian" else None


def finish_defines(name: str) -> Defines:
    """Preprocessor definitions of a .cu file that includes finish.cuh."""
    return (("FINISH", name if name in FINISHES else "linear"),)


def finish_fields(finish: Finish | None) -> dict[str, float]:
    """Parameters of a finish as fields of a kernel's structure; zeros for None."""
    numbers = finish.numbers if finish else ()
    return dict(zip(("gamma", "coef0", "degree"), (*numbers, 0.0, 0.0, 0.0), strict=False))


@dataclass(frozen=True)
class CudaSparse:
    """Sparse matrix X on a GPU."""

    indptr: Array  #: int64, (n + 1,)
    documents: Array  #: int32, (entries,): Row of each entry
    features: Array  #: int32, (entries,): Feature of each entry; -1: dropped
    values: Array  #: (entries,): float32 and >= 0 for texts, float64 for vectors
    df: Array  #: int32, (features,): Rows with a feature
    highest: Array  #: int32, (features,): Bound of its absolute values, if whole
    whole: bool  #: Whether all values are whole numbers

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def select(self, target: Array) -> CudaSparse:
        """Renumber features to `target`; -1 drops a feature."""
        cp = gpu.cupy()
        features = cp.asarray(target).astype(np.int32)[self.features] if len(target) else self.features
        return replace(self, features=features)

    @cached_property
    def squares(self) -> Floats:
        """Squared norm of every row, shape (n,), on the host."""
        sums = gpu.cupy().zeros(len(self))
        warps("squares", len(self), self.indptr, self.values, sums)
        return sums.get()

    def on_grid(self) -> tuple[CudaSparse, Floats]:
        """Whole numbers, uint32, and the unit of each row on the host; as `Sparse.on_grid`."""
        cp = gpu.cupy()
        _, exponents = np.frexp(np.sqrt(self.squares))
        inverse = cp.asarray(np.ldexp(np.float32(1), GRID_BITS - exponents))
        values = cp.rint(self.values * inverse[self.documents]).astype(np.uint32)
        return replace(self, values=values), np.ldexp(1.0, exponents - GRID_BITS)

    def dot(self, dense: Array) -> Array:
        """X @ dense in float64, sums in a fixed order: (n_features, k) -> (n, k)."""
        return _dot(self.indptr, self.features, self.values, dense)

    def transposed_dot(self, dense: Floats) -> Array:
        """X.T @ dense, with `dense` on the host: (n, k) -> (n_features, k)."""
        cp = gpu.cupy()
        entries = len(self.features)
        needed = 24 * entries + 8 * len(self.df) * dense.shape[1]
        gpu.require_memory(needed, f"the weight vectors of {dense.shape[1]:,} machines")
        shift = max(entries - 1, 1).bit_length()
        keys = (self.features.astype(np.uint64) << np.uint64(shift)) | cp.arange(entries, dtype=np.uint64)
        if entries:
            keys.sort()
        order = (keys & np.uint64((1 << shift) - 1)).astype(np.int64)
        dense = cp.asarray(np.ascontiguousarray(dense))
        return _dot(starts_of(self.df), self.documents[order], self.values[order], dense)


def rows_of(indptr: Array, entries: int) -> Array:
    """Row of each entry, int32, shape (entries,)."""
    cp = gpu.cupy()
    return (cp.searchsorted(indptr, cp.arange(entries), side="right") - 1).astype(np.int32)


def _dot(indptr: Array, features: Array, values: Array, dense: Array) -> Array:
    n, width = len(indptr) - 1, dense.shape[1]
    out = gpu.cupy().zeros((n, width))
    warps("dot", n, indptr, features, values, np.int64(width), dense, out)
    return out


def warps(name: str, n: int, *args: object, defines: Defines = EXACT[np.uint32]) -> None:
    """Launch a kernel of products.cu with a warp for each of n rows."""
    gpu.each_warp(gpu.function(SOURCE, name, defines), n, *args)


def starts_of(numbers: Array) -> Array:
    """Offsets of consecutive ranges of these lengths, int64."""
    cp = gpu.cupy()
    starts = cp.zeros(len(numbers) + 1, np.int64)
    if len(numbers):
        cp.cumsum(numbers, dtype=np.int64, out=starts[1:])
    return starts


def check_features(n: int) -> None:
    """Raise InputError if there are more features than int32 can number."""
    if n > MAX_INT32:
        raise InputError(
            f"the documents have {n:,} features and a GPU counts at most {MAX_INT32:,}; "
            "take fewer lengths or documents, or run with --device cpu"
        )


def documents_of(offsets: Array, n: int, size: int) -> Array:
    """Document of each of `size` symbols, given the offsets of n documents."""
    document = gpu.cupy().empty(size, np.int32)
    gpu.each(gpu.function("pmers.cu", "locate", (("KEY", "uint32"),)), size, np.int32(n), offsets, document)
    return document
