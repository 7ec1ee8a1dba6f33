"""Products of the rows of sparse matrices of values >= 0, on the CPU.

Columns that many rows hold are kept dense for BLAS products of tiles; the others are lists (an inverted
index): row i adds x_iu x_ju to n float64 sums for every row j on the list of u. A result is a product times a
scale for each of the two rows.

Rows are on a grid (`Sparse.on_grid`), so a product does not depend on the order of its terms or on which
columns are dense: a pair has the same bits in a whole matrix and in some of its rows. Features may be in
blocks. A product is then the sum of those of the blocks, in order, each rounded to float32.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from textsvm.arrays import Floats, Floats32, Ints, Ints32
from textsvm.linalg.sparse import Sparse, are_whole, index_type, unary_frequencies, unary_starts
from textsvm.runtime.compiled import njit, use_numpy
from textsvm.runtime.parallel import Progress, one_blas_thread, run

NUMPY_TERMS = 1 << 22  #: Most products of entries that NumPy computes at once, of 28 bytes each.
#: Columns held by this share of the rows are kept dense, up to these bytes, from this number of rows on.
DENSE_SHARE = 0.15
DENSE_BYTES = 1 << 28
DENSE_ROWS = 128
TILE = 128  #: Rows per piece of work.
FEW = 8  #: Rows that NumPy scales together.


class InvertedIndex:
    """X by columns, for products of rows with the rows of X: lists of entries, the fullest columns dense.

    `documents[indptr[u]:indptr[u + 1]]`, ascending, have the feature u, with these `values`; `after` is, for
    every entry of X, the position after it in the list of its feature. Blocks of features end at `ends`.
    `df` is the number of rows that have each feature, if it is known.
    """

    def __init__(self, x: Sparse, ends: Ints | None = None, df: Ints | None = None) -> None:
        self.x = x
        self.ends = np.array([x.n_features]) if ends is None else ends
        self.df = x.frequencies() if df is None else df
        self.indptr = np.concatenate([[0], np.cumsum(self.df)])
        self.documents = np.empty(len(x.features), np.int32)
        self.values = np.empty(len(x.features), np.float32)
        self.after = np.empty(len(x.features), index_type(len(x.features)))
        if x.by_numpy:
            # Sorting (feature, position) in one word is several times faster than np.argsort.
            words = np.sort(x.features.astype(np.uint64) << 32 | np.arange(len(x.features), dtype=np.uint64))
            order = (words & 0xFFFFFFFF).view(np.int64)
            self.documents[:] = np.repeat(np.arange(len(x)), np.diff(x.indptr))[order]
            self.values[:], self.after[order] = x.values[order], np.arange(1, len(order) + 1)
        else:
            cursor = self.indptr[:-1].copy()
            _transpose(x.indptr, x.features, x.values, cursor, self.documents, self.values, self.after)
        self._dense: dict[tuple[float, type], DenseColumns] = {}

    @cached_property
    def _largest_square(self) -> float:
        return largest_square(self.x)

    def dense(self, share: float, dtype: type[np.floating]) -> DenseColumns:
        """Columns held by more than this share of the rows, cached."""
        if (share, dtype) not in self._dense:
            features = full_columns(self.df, len(self.x), share)
            self._dense[share, dtype] = DenseColumns(self.x, features, dtype)
        return self._dense[share, dtype]

    def products(
        self, rows: Sparse, row_scale: Floats, scale: Floats, out: Floats32, progress: Progress | None = None
    ) -> None:
        """out[i, j] = <rows[i], x[j]> (row_scale[i] scale[j])."""
        # A tile product reads all dense columns, which pays for many rows only.
        dtype = product_type(largest_square(rows), self._largest_square)
        dense = self.dense(DENSE_SHARE if len(out) >= TILE // 2 else 2.0, dtype)
        rest = dense.remove(rows)
        entries = (rest.indptr, rest.features, rest.values)
        lists = (self.indptr, self.documents, self.values)
        cuts = np.concatenate([[0], np.searchsorted(dense.features, self.ends)])
        by_numpy = _by_numpy(int(self.df[rest.features].sum()) + out.size)
        # Without dense columns one call takes all blocks; else one block at a time, to bound the tile.
        step = 1 if dense.width or by_numpy else len(self.ends)

        def fill(piece: tuple[int, int]) -> None:
            own, cursor = dense.rows(rows, *piece), rest.indptr[piece[0] : piece[1]].copy()
            sums = np.zeros(out.shape[1])
            for block in range(0, len(self.ends), step):
                columns = slice(cuts[block], cuts[block + step])
                tile = own[:, columns] @ dense.matrix[:, columns].T
                begun, block_ends = block > 0, self.ends[block : block + step]
                if by_numpy:  # the lists of features of other blocks are left out
                    other = np.searchsorted(self.ends, rest.features, side="right") != block
                    sums = tile + _sums(piece, rest, self.indptr[rest.features + other], lists, len(self.x))
                    out[slice(*piece)] = sums.astype(np.float32) + (out[slice(*piece)] if begun else 0)
                    continue
                _add_rows(*piece, *entries, *lists, cursor, begun, block_ends, tile, sums, out)
            for few in _few(*piece):
                out[few] *= np.multiply.outer(row_scale[few], scale)

        work = pieces(len(out))
        with one_blas_thread():
            run(fill, work, [b - a for a, b in work], progress)


def _few(first: int, last: int) -> list[slice]:
    """Rows first..last, a few at a time: NumPy scales them within the cache."""
    return [slice(i, min(i + FEW, last)) for i in range(first, last, FEW)]


class DenseColumns:
    """Some columns of X as a dense matrix."""

    def __init__(self, x: Sparse, features: Ints, dtype: type[np.floating]) -> None:
        self.column = np.full(x.n_features, -1, np.int32)
        self.column[features] = np.arange(len(features))
        self.features, self.width = features, len(features)
        self.dtype = dtype
        self.matrix = np.zeros((len(x), self.width), dtype)
        for first, last in pieces(len(x)):
            self.matrix[first:last] = self.rows(x, first, last)

    def rows(self, x: Sparse, first: int, last: int) -> NDArray[np.floating]:
        """These columns of the rows first..last of a matrix over the same features."""
        matrix, indptr = np.zeros((last - first, self.width), self.dtype), x.indptr[first : last + 1]
        column = self.column[x.features[indptr[0] : indptr[-1]]]
        entries = np.flatnonzero(column >= 0)
        owner = np.repeat(np.arange(last - first), np.diff(indptr))[entries]
        matrix[owner, column[entries]] = x.values[indptr[0] + entries]
        return matrix

    def remove(self, x: Sparse) -> Sparse:
        """`x` without these columns."""
        if not self.width:
            return x
        target = np.arange(x.n_features, dtype=index_type(x.n_features))
        target[self.column >= 0] = -1
        return x.select(target, x.n_features)


class Half:
    """Products of the rows of X with each other, each pair once.

    With `times`, shape (entries,), the products are those of `x.unary(times)`: sums of
    x_iu x_ju min(t_iu, t_ju). Its fullest columns are dense, and a list has the other occurrences of an entry
    together, so that memory grows with the entries and not with the occurrences.
    """

    def __init__(self, x: Sparse, times: Ints32 | None = None) -> None:
        square = largest_square(x, times)
        dtype = product_type(square, square)
        if times is None:
            df, starts = x.frequencies(), np.arange(x.n_features + 1)
            full = full_columns(df, len(x))
            self.dense = DenseColumns(x, full, dtype).matrix
        else:
            starts = unary_starts(x.features, times, x.n_features)
            df = unary_frequencies(x.features, times, starts)
            full = full_columns(df, len(x))
            self.dense = np.zeros((len(x), len(full)), dtype)
        owner = np.searchsorted(starts, full, side="right") - 1
        n_dense = np.bincount(owner, minlength=x.n_features)
        first = starts[:-1] + n_dense  # in the lists: the first column that is not dense
        in_lists = first < starts[1:]
        in_lists[in_lists] = df[first[in_lists]] > 1
        df = df[first[in_lists]]
        n_listed = len(df)
        target = np.where(in_lists, np.cumsum(in_lists) - 1, -1).astype(index_type(n_listed))
        if times is None:
            self.rest = x.select(target, n_listed)
        else:
            begin = np.cumsum(n_dense) - n_dense
            _fill_levels(x.indptr, x.features, x.values, times, begin, n_dense, self.dense)
            times = times - n_dense[x.features].astype(np.int32)
            listed = in_lists[x.features] & (times > 0)
            indptr = np.concatenate([[0], np.cumsum(listed)])[x.indptr]
            self.rest = Sparse(indptr, target[x.features[listed]], x.values[listed], n_listed)
            times = times[listed]
        del target, in_lists, first, starts, owner, n_dense
        self.columns = InvertedIndex(self.rest, df=df)
        #: None if all are 1 (presence, intersection) and need not be read.
        self.values = None if np.all(self.rest.values == 1) else self.columns.values
        #: Of the entries, and in the order of the lists.
        self.times = times
        self.listed_times = times
        if times is not None:
            self.listed_times = np.empty_like(times)
            self.listed_times[self.columns.after - 1] = times

    def add_to(self, total: Floats32, progress: Progress | None = None) -> None:
        """total[i, j] += <x[i], x[j]> for j >= i, each rounded once."""
        rest, columns = self.rest, self.columns
        entries = (rest.indptr, rest.features, rest.values, self.times, columns.after)
        lists = (columns.indptr, columns.documents, self.values)
        n_terms = int(np.square(columns.df).sum()) // 2 + total.size // 4
        by_numpy = self.times is None and _by_numpy(n_terms)

        def add(piece: tuple[int, int]) -> None:
            first, last = piece
            tile = self.dense[first:last] @ self.dense[first:].T
            if by_numpy:  # and below the diagonal, where `total` is not read
                sums = _sums(piece, rest, columns.after, lists, len(rest))
                total[first:last, first:] += (sums[:, first:] + tile).astype(np.float32)
                return
            _add_half(*piece, *entries, *lists, self.listed_times, tile, np.zeros(total.shape[1]), total)

        work = pieces(len(total))
        with one_blas_thread():
            run(add, work, [(b - a) * (len(total) - a) for a, b in work], progress)


def finish_half(total: Floats32, scale: Floats, out: Floats32) -> None:
    """out[i, j] = out[j, i] = total[i, j] (scale[i] scale[j]) for j >= i; `out` may be `total`."""

    def fill(piece: tuple[int, int]) -> None:
        first, last = piece
        with np.errstate(all="ignore"):  # below the diagonal, which is replaced
            for few in _few(first, last):
                by = np.multiply.outer(scale[few], scale[few.start :])
                out[few, few.start :] = total[few, few.start :] * by
        tile = out[first:last, first:last]
        np.copyto(tile, tile.T.copy(), where=np.tri(last - first, k=-1, dtype=bool))
        out[last:, first:last] = out[first:last, last:].T

    run(fill, pieces(len(out)))


def largest_square(x: Sparse, times: Ints32 | None = None) -> float:
    """Largest squared norm of a row (`Sparse.squares`), infinity if not all values are whole."""
    return float(x.squares(times=times).max(initial=0)) if are_whole(x.values) else np.inf


def product_type(square: float, other: float) -> type[np.floating]:
    """Dtype of exact products of rows with these largest squared norms: float32 below 2^24."""
    return np.float32 if square * other < 1 << 48 else np.float64


def full_columns(df: Ints, n: int, share: float = DENSE_SHARE) -> Ints:
    """Columns to keep dense, the fullest, given the number of the `n` rows that hold each."""
    full = np.flatnonzero(df > share * n) if n >= DENSE_ROWS else np.empty(0, np.int64)
    return np.sort(full[np.argsort(-df[full], kind="stable")[: DENSE_BYTES // (4 * max(n, 1))]])


def pieces(n: int) -> list[tuple[int, int]]:
    """Split rows 0..n into pieces of work."""
    size = min(TILE, max(1, -(-n // 8)))
    return [(first, min(first + size, n)) for first in range(0, n, size)]


@njit(nogil=True, cache=True)
def _add_rows(
    first, last, indptr, features, values, list_starts, documents, x, cursor, begun, block_ends, tile, sums,
    out,
):  # fmt: skip
    """Write the products of the first block, or add those of others; `cursor`: next entry of each row."""
    # `sums` is given as zeros: Numba takes a fifth of a second to compile np.zeros.
    for i in range(first, last):
        k, more = cursor[i - first], begun
        for end in block_ends:
            while k < indptr[i + 1] and features[k] < end:
                value = np.float64(values[k])
                for at in range(list_starts[features[k]], list_starts[features[k] + 1]):
                    sums[documents[at]] += value * x[at]
                k += 1
            for j in range(out.shape[1]):
                rounded = np.float32(sums[j] + tile[i - first, j])
                out[i, j] = out[i, j] + rounded if more else rounded
                sums[j] = 0.0
            more = True
        cursor[i - first] = k


@njit(nogil=True, cache=True)
def _fill_levels(indptr, features, values, times, begin, n_dense, dense):
    """Write the dense columns of a unary code: of feature u `n_dense[u]` columns from `begin[u]` on."""
    for i in range(len(indptr) - 1):
        for k in range(indptr[i], indptr[i + 1]):
            u = features[k]
            dense[i, begin[u] : begin[u] + min(times[k], n_dense[u])] = values[k]


@njit(nogil=True, cache=True)
def _add_half(
    first, last, indptr, features, values, times, after, list_starts, documents, x, listed_times, tile, sums,
    total,
):  # fmt: skip
    for i in range(first, last):
        for k in range(indptr[i], indptr[i + 1]):
            value = np.float64(values[k])
            for at in range(after[k], list_starts[features[k] + 1]):
                term = 1.0 if x is None else value * x[at]
                sums[documents[at]] += term if times is None else term * min(times[k], listed_times[at])
        for j in range(i, total.shape[1]):
            total[i, j] += np.float32(sums[j] + tile[i - first, j - first])
            sums[j] = 0.0


def _by_numpy(n_terms: int) -> bool:
    """Whether `_sums` computes so many products."""
    return n_terms <= NUMPY_TERMS and use_numpy(n_terms)


def _sums(piece, rows, starts, lists, n):
    """Products of a range of rows with n documents, exact in any order, from `starts` in the lists on."""
    list_starts, documents, x = lists
    indptr = rows.indptr[piece[0] : piece[1] + 1]
    own, sizes = slice(indptr[0], indptr[-1]), np.diff(indptr)
    lengths = list_starts[rows.features[own] + 1] - starts[own]
    at = np.repeat(starts[own] - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
    terms = np.repeat(rows.values[own].astype(np.float64), lengths) * (1.0 if x is None else x[at])
    pairs = np.repeat(np.repeat(n * np.arange(len(sizes)), sizes), lengths) + documents[at]
    return np.bincount(pairs, terms, n * len(sizes)).reshape(-1, n)


@njit(nogil=True, cache=True)
def _transpose(indptr, features, values, cursor, documents, x, after):
    for i in range(len(indptr) - 1):
        for k in range(indptr[i], indptr[i + 1]):
            at = cursor[features[k]]
            documents[at] = i
            x[at] = values[k]
            after[k] = at + 1
            cursor[features[k]] = at + 1
