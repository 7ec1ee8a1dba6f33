"""Rows of features on a GPU, and passes over them: the launches of kernels_cu/newton.cu.

A pass reads an entry (feature, value: 8 bytes) once and does up to two things with it: it adds value *
dense[feature] to the row's product and, the product known, value * product to the sum of its feature. So
X'D(Xd) takes one reading of X, and no copy of X by columns. A thread keeps KEPT entries in registers between
the two; rows are read by a warp, or by a block where they are long.

Sums over rows are of 64-bit integers, so that they have no order: two runs give the same bits. Their unit is
the largest power of two with which no sum can overflow, given sum_i |x_i| |coef_i| as a bound; of a million
rows the error is some 2^-40 of that bound. The dense side is float32 (it is looked up once an entry, out of
L2), products are float64.

Bytes: 8 an entry; 1.7e9 entries (a million documents of 800 symbols) take 3.2 ms at 4.2 TB/s. Additions to
the sums in L2 are the bound of the other half, at some 1e11 a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from textsvm import device as gpu
from textsvm.features.pmers_cuda import check_features, starts_of
from textsvm.features.rows import FeatureRows

Array = Any  # a CuPy array
SOURCE = "newton.cu"
#: Columns and threads a row that the kernel is compiled for.
WIDTHS, GROUPS = (1, 2, 4, 8), (32, 256)
#: What may be launched: (source, defines).
DEFINE_SETS = [(SOURCE, (("COLUMNS", width), ("GROUP", group))) for width in WIDTHS for group in GROUPS]
KEPT, BLOCK = 8, 256
#: Bits of a sum.
BITS = 61
#: What newton.cu has in Pass.
PASS = np.dtype(
    [(name, np.uint64) for name in ("index", "indptr", "features", "values", "dense", "shift", "factor")]
    + [(name, np.uint64) for name in ("out", "unit", "sums")]
    + [("n", np.int64)],
    align=True,
)


@dataclass(frozen=True)
class CudaRows:
    """Rows of X on a card, as `textsvm.features.sparse.Sparse` has them on the host.

    Attributes
    ----------
    indptr : CuPy int64 array, shape (n + 1,)
    features : CuPy int32 array, shape (number of entries,)
    values : CuPy float32 array, shape (number of entries,)
        Not 0.
    n_features : int
    """

    indptr: Array
    features: Array
    values: Array
    n_features: int

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def squares(self) -> Array:
        """|x|^2 of every row, shape (n,)."""
        sums = gpu.cupy().zeros(len(self))
        warps = gpu.function("products.cu", "squares", (("SUM", "uint32"),))
        if len(self):
            warps((-(-len(self) // 8),), (BLOCK,), (np.int64(len(self)), self.indptr, self.values, sums))
        return sums

    def take(self, indices: Array) -> CudaRows:
        """The rows at `indices`."""
        cp = gpu.cupy()
        indices = cp.asarray(indices)
        indptr = starts_of(cp.diff(self.indptr)[indices])
        at = repeated(self.indptr[indices] - indptr[:-1], indptr) + cp.arange(int(indptr[-1]))
        return CudaRows(indptr, self.features[at], self.values[at], self.n_features)

    def dot(self, dense: Array) -> Array:
        """X @ dense, shape (n_features, k) -> (n, k), float64 sums of float32 factors."""
        return self.passed(dense=dense)[0]

    def transposed_dot(self, dense: Array) -> Array:
        """X.T @ dense, shape (n, k) -> (n_features, k)."""
        lengths = gpu.cupy().sqrt(self.squares())
        return self.passed(coef=gpu.cupy().asarray(dense), bound=lengths @ abs(dense))[1]

    def passed(
        self,
        dense: Array = None,
        coef: Array = None,
        bound: Array = None,
        index: Array = None,
        shift: Array = None,
        factor: Array = None,
    ) -> tuple[Array, Array]:
        """Products of rows, and the sums that these give.

        Parameters
        ----------
        dense : array, shape (n_features, k), optional
            Gives the products factor * (X[index] @ dense + shift); without, they are `coef`.
        coef : float64 array, shape (m, k), optional
        bound : float64 array, shape (k,), optional
            Of sum_i |x_i| |product_i|; without it no sums are made.
        index : int64 array, shape (m,), optional
            Which rows; all by default.
        shift : float64 array, shape (k,), optional
        factor : float64 array, shape (m, k), optional

        Returns
        -------
        products, shape (m, k), and X[index].T @ products, shape (n_features, k), or None
        """
        cp = gpu.cupy()
        n, k = len(self) if index is None else len(index), (coef if dense is None else dense).shape[1]
        out = cp.empty((n, k))
        sums = None if bound is None else cp.empty((self.n_features, k))
        for first in range(0, k, WIDTHS[-1]):
            some = slice(first, min(first + WIDTHS[-1], k))
            width = next(width for width in WIDTHS if width >= some.stop - first)
            parts = [
                None if a is None else _padded(a[..., some], width)
                for a in (dense, coef, bound, shift, factor)
            ]
            made, added = self._pass(width, n, index, *parts)
            out[:, some] = made[:, : some.stop - first]
            if sums is not None:
                sums[:, some] = added[:, : some.stop - first]
        return out, sums

    def _pass(
        self, width: int, n: int, index: Array, dense: Array, coef: Array, bound: Array, *more: Array
    ) -> tuple[Array, Array]:
        cp, (shift, factor) = gpu.cupy(), more
        out = cp.empty((n, width)) if coef is None else cp.ascontiguousarray(coef, np.float64)
        unit = sums = None
        if bound is not None:
            unit = cp.exp2(cp.floor(BITS - cp.log2(cp.maximum(bound, 1e-300))))
            sums = cp.zeros((self.n_features, width), np.int64)
        dense = None if dense is None else cp.ascontiguousarray(dense, np.float32)
        shift = cp.zeros(width) if shift is None else shift
        arguments = gpu.structure(
            PASS, index=index, indptr=self.indptr, features=self.features, values=self.values, dense=dense,
            shift=shift, factor=factor, out=out, unit=unit, sums=sums, n=n,
        )  # fmt: skip
        if n:
            group = self.group
            block = BLOCK if group == 32 else group
            kernel = gpu.function(SOURCE, "pass", (("COLUMNS", width), ("GROUP", group)))
            kernel((-(-n // (block // group)),), (block,), (arguments,))
        return out, None if sums is None else sums / unit

    @property
    def group(self) -> int:
        """Threads a row: as few as keep the entries of most rows in registers."""
        mean = len(self.values) / max(1, len(self))
        return next((group for group in GROUPS if mean <= 0.75 * KEPT * group), GROUPS[-1])


def joined(parts: Sequence[CudaRows]) -> CudaRows:
    """The rows of one part behind those of another."""
    if len(parts) == 1:
        return parts[0]
    cp = gpu.cupy()
    before = np.cumsum([0] + [len(part.values) for part in parts])
    starts = [part.indptr[:-1] + first for part, first in zip(parts, before, strict=False)]
    indptr = cp.concatenate([*starts, cp.asarray(before[-1:])])
    features, values = (cp.concatenate([getattr(part, a) for part in parts]) for a in ("features", "values"))
    return CudaRows(indptr, features, values, parts[0].n_features)


def side_by_side(parts: Sequence[FeatureRows], weights: Sequence[float]) -> FeatureRows:
    """`textsvm.features.rows.side_by_side`, on the current card."""
    if len(parts) == 1 and weights[0] == 1:
        return parts[0]
    cp = gpu.cupy()
    indptr: Array = sum(part.x.indptr for part in parts)
    first = np.cumsum([0] + [part.x.n_features for part in parts])
    features, values = cp.empty(int(indptr[-1]), np.int32), cp.empty(int(indptr[-1]), np.float32)
    begin = indptr[:-1].copy()
    for part, weight, base in zip(parts, weights, first, strict=False):
        x, n = part.x, len(part.x)
        check_features(int(base) + x.n_features)
        numbers = (np.int64(n), np.int32(base), np.float32(np.sqrt(weight)))
        kernel = gpu.function(SOURCE, "place", DEFINE_SETS[0][1])
        kernel(
            (-(-n * 32 // BLOCK),),
            (BLOCK,),
            (*numbers, x.indptr, x.features, x.values, begin, features, values),
        )
        begin += cp.diff(x.indptr)
    ridge = sum(weight * part.ridge for part, weight in zip(parts, weights, strict=True))
    return FeatureRows(CudaRows(indptr, features, values, int(first[-1])), ridge)  # type: ignore[arg-type]


def repeated(values: Array, starts: Array) -> Array:
    """values[i] as often as starts[i + 1] - starts[i] says, one value after the other."""
    cp = gpu.cupy()
    n = len(starts) - 1
    owner = cp.empty(int(starts[-1]), np.int32)
    gpu.each(gpu.function("pmers.cu", "locate", (("KEY", "uint32"),)), len(owner), np.int32(n), starts, owner)
    return values[owner]


def _padded(array: Array, width: int) -> Array:
    """The same with columns of zeros behind, contiguous."""
    cp = gpu.cupy()
    if array.shape[-1] == width:
        return cp.ascontiguousarray(array)
    out = cp.zeros((*array.shape[:-1], width), array.dtype)
    out[..., : array.shape[-1]] = array
    return out
