"""Kernel values of sparse vectors on a GPU, their products made as `textsvm.features.sparsity` decides."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from textsvm import device as gpu
from textsvm.features.finish_cuda import Finish, finish_defines
from textsvm.features.products_cuda import DOUBLE, NARROW_SHARE, VECTOR_SHARE, CudaColumns, Factors, mirror
from textsvm.features.sparse_cuda import CudaSparse, rows_of, warps
from textsvm.features.sparsity import Sparsity, choose
from textsvm.features.vectors_cuda import DigitColumns, digits_of
from textsvm.parallel import Progress

Array = Any  # a CuPy array
BLOCK_BYTES = 1 << 28  # of products that a kernel of the user's finishes at a time


def sparse_columns(values: Any, finish: Finish) -> DigitColumns | SparseColumns:
    """Sparse vectors as the columns of values to come, in the way that is predicted to be the quickest.

    Parameters
    ----------
    values : CSR matrix, shape (n, d)
        Finite; indices of a row are ascending, and none occurs twice.
    finish : Finish
    """
    x = upload(values)
    sparsity = sparsity_of(x, finish)
    way = choose(sparsity)
    if way.name == "digits":
        digits = digits_of(made_dense(x, values.dtype), finish)
        if digits is not None:
            return DigitColumns(values, digits, finish, way.description)
        way = choose(replace(sparsity, room=0))
    return SparseColumns(x, finish, way.description)


class SparseColumns:
    """Sparse vectors, for values of any rows with them.

    Parameters
    ----------
    x : CudaSparse
        Values in float64.
    finish : Finish
    description : str
        How products are made, for people.
    """

    def __init__(self, x: CudaSparse, finish: Finish, description: str = "") -> None:
        self.finish, self.n, self.description = finish, len(x), description
        self._x, self._factors = x, factors_of(x, finish)
        self._made: dict[bool, CudaColumns] = {}

    @cached_property
    def diagonal(self) -> Array:
        """The value of each vector with itself, float32, shape (n,)."""
        squares = self._factors.scale
        return self.finish.value(squares[None].copy(), squares[None], squares)[0].astype(np.float32)

    def half(self, what: str, progress: Progress | None = None) -> Array:
        """The values of all with all, shape (n, n), one half of them computed."""
        products = self._columns(self._x.whole).half(what, progress)
        matrix = self._values(products, self._factors.scale)
        mirror(matrix, self.diagonal.get())
        return matrix

    def rows(self, which: Array, what: str) -> Array:
        """The values of the rows of `which`, an int64 array on the card, with all."""
        return self._values(self._columns(self._x.whole).rows(which, what), self._factors.scale[which])

    def cross(self, values: Any, what: str, progress: Progress | None = None) -> Array:
        """The values of other vectors, an array or CSR matrix (m, d), with all."""
        x = upload(gpu.to_host(values))
        factors = factors_of(x, self.finish)
        products = self._columns(self._x.whole and x.whole).cross(x, factors, what, progress)
        return self._values(products, factors.scale)

    def _columns(self, whole: bool) -> Any:
        """What products are made from; only if `whole`, those of whole numbers alone."""
        if whole not in self._made:
            self._made[whole] = CudaColumns(replace(self._x, whole=whole), self._factors, self.finish)
        return self._made[whole]

    def _values(self, products: Array, squares: Array) -> Array:
        """Kernel values, which products are already if finish.cuh has their function."""
        size = max(1, BLOCK_BYTES // (8 * max(1, self.n)))
        for first in range(0, 0 if self.finish.known else len(products), size):
            some = products[first : first + size]
            rows = squares[first : first + size, None]
            some[:] = self.finish.value(some.astype(np.float64), rows, self._factors.scale)
        return products


def factors_of(x: CudaSparse, finish: Finish) -> Factors:
    """What products of vectors are finished with, |x|^2 of each."""
    squares = gpu.cupy().zeros(len(x))
    warps("squares", len(x), x.indptr, x.values, squares, defines=(*DOUBLE, *finish_defines(finish.name)))
    return Factors(squares, squares)


def upload(values: Any) -> CudaSparse:
    """The rows of a CSR matrix on the current card, in float64."""
    cp = gpu.cupy()
    matrix = csr_matrix(values)
    entries, (n, d) = int(matrix.indptr[-1]), matrix.shape
    gpu.require_memory(48 * entries + 16 * d, f"{n:,} sparse vectors")
    indptr = cp.asarray(matrix.indptr.astype(np.int64))
    features = cp.asarray(matrix.indices[:entries].astype(np.int32))
    numbers = cp.asarray(matrix.data[:entries].astype(np.float64))
    df, highest = cp.zeros(d, np.int32), cp.zeros(d, np.int32)
    whole = bool((numbers == cp.rint(numbers)).all()) and bool((abs(numbers) < 1 << 31).all())
    if entries:
        df = cp.bincount(features, minlength=d).astype(np.int32)
    if entries and whole:
        cp.maximum.at(highest, features, abs(numbers).astype(np.int32))
    return CudaSparse(indptr, rows_of(indptr, entries), features, numbers, df, highest, whole)


def made_dense(x: CudaSparse, dtype: Any) -> Array:
    """Sparse vectors on the card as dense ones, float32 if that is what their numbers were given in."""
    cp, (n, d) = gpu.cupy(), (len(x), len(x.df))
    kind = np.dtype(np.float32 if dtype == np.float32 else np.float64)
    gpu.require_memory(n * d * kind.itemsize, f"{n:,} vectors of {d:,} numbers")
    dense = cp.zeros((n, d), kind)
    dense[x.documents, x.features] = x.values
    return dense


def sparsity_of(x: CudaSparse, finish: Finish) -> Sparsity:
    """What the decision is made from."""
    df, n = x.df.astype(np.float64), len(x)
    full = df > max(1, (NARROW_SHARE if x.whole else VECTOR_SHARE) * n)
    small = x.whole and bool((x.highest < 128).all())
    listed = float((df[~full] ** 2).sum())
    room = gpu.free_memory() // 3 if finish.known else 0
    return Sparsity(n, len(x.df), int(full.sum()), listed, small, room)
