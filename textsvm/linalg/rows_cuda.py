"""Feature rows on a GPU and passes over them: launches of kernels_cu/newton.cu.

X d reads every entry (feature and value, 8 bytes) once and looks d up, in float32, in L2; sums are float64.
X'u reads the entries sorted by feature: row by row, atomic additions would queue at the most frequent
features (measured on an H200: 35 G additions per second, a fifteenth of the bandwidth limit). Several warps
add up the pieces of a list in any order, so sums are 64-bit integers, and results are reproducible. Their
unit is the largest power of two without overflow, given the bound sum_i |x_i| |u_i|; for a million rows the
error is about 2^-40 of that bound.

Bytes: 8 per entry, 8 per pass, and 8 per entry by feature; a million documents of 800 symbols have about 2e9
entries, 4 ms per pass at 4.2 TB/s. Without room for the entries by feature and for copies of some rows, X'u
adds row by row (`CudaLists.x`): most u are 0. Without room for X, it is in page-locked main memory, and read
over the bus. No bit of X'u changes, as integers add in any order; Newton's unpacked products have other bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from weakref import proxy

import numpy as np

from textsvm.arrays import Array, runs_of
from textsvm.linalg.rows import FeatureRows
from textsvm.linalg.sparse_cuda import check_features, documents_of, starts_of, warps
from textsvm.runtime import device as gpu

#: Remedy if features do not fit on a GPU.
LESS = "take fewer lengths or documents, or run with --device cpu"
SOURCE = "newton.cu"
WIDTHS = (1, 2, 4, 8)  #: Numbers of columns that kernels are compiled for.
GROUPS = (32, 256)  #: Threads per row that kernels are compiled for.
#: Kernels launched: (source, defines).
DEFINE_SETS = [(SOURCE, (("COLUMNS", width), ("GROUP", group))) for width in WIDTHS for group in GROUPS]
BLOCK = 256
SHORT = 192  #: Mean entries per row up to which a row is read by a single warp.
BITS = 61  #: Bits of a sum.
LIST = 2048  #: Entries of a list per warp.
ENTRY_BYTES = 8  #: Bytes per entry of X.
#: Maximum number of entries sorted together, and bytes for each.
PART = 1 << 28
SORT_BYTES = 48
#: Free bytes per entry from which entries by feature are kept: 8, and 20 for copies of some rows.
LIST_BYTES = 28
#: structs Pass and Lists of newton.cu.
PASS = gpu.layout("uint64 index indptr features values dense shift factor out spread", "int64 n")
LISTS = gpu.layout("uint64 feature begin starts rows values dense unit sums", "int64 n list")


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


@dataclass(frozen=True)
class CudaRows:
    """`Sparse` matrix X on a GPU."""

    indptr: Array  #: int64, (n + 1,)
    features: Array  #: int32, (entries,)
    values: Array  #: float32, (entries,), not 0
    n_features: int
    lists: CudaLists | None = None  #: Entries by feature, if known

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def squares(self) -> Array:
        """Squared norm of every row, shape (n,)."""
        return self._squares

    @cached_property
    def _squares(self) -> Array:
        sums = gpu.cupy().zeros(len(self))
        warps("squares", len(self), self.indptr, self.values, sums)
        return sums

    def take(self, indices: Array) -> CudaRows:
        cp = gpu.cupy()
        indices = cp.asarray(indices)
        indptr = starts_of(cp.diff(self.indptr)[indices])
        entries = int(indptr[-1])
        reserve = 2 * ENTRY_BYTES * entries
        features = gpu.empty(entries, np.int32, reserve)
        values = gpu.empty(entries, np.float32, reserve)
        place(self, 0, 1.0, indices, indptr, features, values)
        return CudaRows(indptr, features, values, self.n_features)

    def chunks(self, index: Array = None) -> Iterator[tuple[int, CudaRows]]:
        """The rows, or the rows at `index`, in parts that can be sorted: first row, and rows."""
        lengths = gpu.cupy().diff(self.indptr)
        indptr = starts_of(lengths if index is None else lengths[index]).get()
        size = max(1, min(PART, gpu.free_memory() // (4 * SORT_BYTES)))
        for first, last in runs_of(indptr[:-1] // size):
            if index is not None:
                yield first, self.take(index[first:last])
                continue
            entries = slice(int(indptr[first]), int(indptr[last]))
            starts = self.indptr[first : last + 1] - indptr[first]
            yield first, CudaRows(starts, self.features[entries], self.values[entries], self.n_features)

    def dot(self, dense: Array) -> Array:
        """X @ dense, float64, shape (n_features, k) -> (n, k)."""
        cp, dense = gpu.cupy(), _split(gpu.cupy().asarray(dense))
        out = cp.empty((len(self), dense.shape[1]))
        for columns, width in slices(dense.shape[1]):
            block, rounded = cp.empty((len(self), width)), dense[:, columns].astype(np.float32)
            self.launch(width, padded(rounded, width), cp.zeros(width), None, None, block)
            out[:, columns] = block[:, : columns.stop - columns.start]
        return _added(out)

    def transposed_dot(self, dense: Array) -> Array:
        """X.T @ dense, shape (n, k) -> (n_features, k)."""
        return combine([(slice(None), self.columns)], self.n_features, self.squares(), dense)

    def add_to(self, sums: Array, dense: Array, unit: Array) -> None:
        """`CudaLists.add_to`, row by row."""
        kernel = gpu.function(SOURCE, "sum_rows", (("COLUMNS", dense.shape[1]), ("GROUP", GROUPS[0])))
        gpu.each_warp(kernel, len(self), self.indptr, self.features, self.values, dense, unit, sums)

    def launch(
        self, width: int, dense: Array, shift: Array, index: Array, factor: Array, out: Array,
        spread: Array = None,
    ) -> None:  # fmt: skip
        """A pass with the arrays of newton.cu's Pass; `spread` receives products at their rows."""
        arguments = gpu.structure(
            PASS,
            self,
            index=index,
            dense=dense,
            shift=shift,
            factor=factor,
            out=out,
            spread=spread,
            n=len(out),
        )
        if len(out):
            group = GROUPS[0] if len(self.values) <= SHORT * len(self) else GROUPS[1]
            kernel = gpu.function(SOURCE, "pass", (("COLUMNS", width), ("GROUP", group)))
            kernel((-(-len(out) * group // BLOCK),), (BLOCK,), (arguments,))

    @cached_property
    def columns(self) -> CudaLists:
        """Entries by feature, or only their numbers if memory has no room."""
        if self.lists is not None:
            return self.lists
        needed = LIST_BYTES * len(self.values) + 40 * self.n_features
        if needed > max(gpu.SMALL, gpu.free_memory()):
            starts = starts_of(numbers_of(self.features, self.n_features))
            return CudaLists(starts, x=proxy(self))  # a reference would keep X until garbage is collected
        return CudaLists.of(self)

    def part(self, indices: Array) -> CudaRows:
        """The rows at `indices`, ascending, with their entries by feature taken from these."""
        rows = self.take(indices)
        if self.columns.x is not None:
            return rows
        return replace(rows, lists=self.columns.kept(marked(len(self), indices)))


@dataclass(frozen=True)
class CudaLists:
    """Entries of X by feature."""

    starts: Array  #: int64, (n_features + 1,): Start of the list of each feature
    rows: Array = None  #: int32, (entries,)
    values: Array = None  #: float32, (entries,)
    x: CudaRows | None = None  #: X, if there is no room for `rows` and `values`

    @classmethod
    def of(cls, x: CudaRows) -> CudaLists:
        """Sort the entries of all rows."""
        cp, entries, starts = gpu.cupy(), len(x.features), starts_of(numbers_of(x.features, x.n_features))
        gpu.require_memory(ENTRY_BYTES * entries + 40 * x.n_features, "the entries by feature", LESS)
        lists = cls(starts, cp.empty(entries, np.int32), cp.empty(entries, np.float32))
        for places, values in sorted_parts(x, starts):
            _each("place_columns", len(values), *places, values, lists.rows, lists.values)
        return lists

    @cached_property
    def first_rows(self) -> Array:
        """First row of each piece, without lists."""
        assert self.x is not None
        rows = gpu.cupy().empty(len(self.pieces[0]), np.int32)
        for places, values in sorted_parts(self.x, self.starts):
            pieces = self.starts, self.first_pieces, np.int64(LIST), rows
            _each("place_first_rows", len(values), *places, *pieces)
        return rows

    def kept(self, marks: Array, renumber: bool = True) -> CudaLists:
        """Entries of `marked` rows, in order, without sorting; rows get new numbers or keep theirs."""
        cp, (feature, begin) = gpu.cupy(), self.pieces
        pieces, lists = len(feature), (feature, begin, self.starts, self.rows, marks)
        numbers = cp.empty(pieces, np.int64)
        _warps("count_kept", pieces, np.int64(LIST), *lists, numbers)
        to = starts_of(numbers)
        rows, values = cp.empty(int(to[-1]), np.int32), cp.empty(int(to[-1]), np.float32)
        entries = self.values, to, rows, values
        _warps("place_kept", pieces, np.int64(LIST), *lists, np.int32(renumber), *entries)
        return CudaLists(to[self.first_pieces], rows, values)

    @cached_property
    def first_pieces(self) -> Array:
        """First piece of every feature's list."""
        return starts_of(-(-gpu.cupy().diff(self.starts) // LIST))

    @cached_property
    def pieces(self) -> tuple[Array, Array]:
        """Feature and start of each piece of a list."""
        cp = gpu.cupy()
        feature = repeated(cp.arange(len(self.starts) - 1, dtype=np.int32), self.first_pieces)
        number = cp.arange(len(feature)) - self.first_pieces[feature]
        return feature, self.starts[feature] + number * LIST

    def sums(self, dense: Array, unit: Array, out: Array) -> None:
        """X' dense in fixed point, int64, shape (n_features, width), of a float32 array (n, width)."""
        out.fill(0)
        self.add_to(out, dense, unit)

    def add_to(self, sums: Array, dense: Array, unit: Array) -> None:
        """Add X' dense in fixed point."""
        if self.x is not None:
            return self.x.add_to(sums, dense, unit)
        feature, begin = self.pieces
        arguments = gpu.structure(
            LISTS,
            self,
            feature=feature,
            begin=begin,
            dense=dense,
            unit=unit,
            sums=sums,
            n=len(feature),
            list=LIST,
        )
        if len(feature):
            kernel = gpu.function(SOURCE, "sum_lists", (("COLUMNS", dense.shape[1]), ("GROUP", GROUPS[0])))
            kernel((-(-len(feature) * 32 // BLOCK),), (BLOCK,), (arguments,))


def combine(
    parts: Iterable[tuple[slice, CudaRows | CudaLists]], n_features: int, squares: Array, dense: Array
) -> Array:
    """X.T @ dense, shape (n, k) -> (n_features, k), of X in parts: ranges of rows, and their entries."""
    cp, dense = gpu.cupy(), _split(gpu.cupy().asarray(dense))
    bound = cp.sqrt(squares) @ cp.abs(dense)
    units = cp.exp2(cp.floor(BITS - cp.log2(cp.maximum(bound, 1e-300))))
    steps = list(slices(dense.shape[1]))
    sums = [cp.zeros((n_features, width), np.int64) for _, width in steps]
    for rows, part in parts:
        for (columns, width), of_columns in zip(steps, sums, strict=True):
            own = padded(dense[rows, columns].astype(np.float32), width)
            part.add_to(of_columns, own, padded(units[columns], width))
    pairs = zip(sums, steps, strict=True)
    return cp.concatenate([_added(s[:, : c.stop - c.start] / units[c]) for s, (c, _) in pairs], axis=1)


def combine_panels(
    panels: Callable[[], Iterable[tuple[int, int, CudaRows]]], n_features: int, squares: Array, dense: Array
) -> Array:
    """`combine` of panels (first row, last row, rows), again for each number of columns with room."""
    step, products = max(4, gpu.free_memory() // (128 * max(n_features, 1))), []
    for column in range(0, dense.shape[1], step):
        parts = ((slice(first, last), rows) for first, last, rows in panels())
        products.append(combine(parts, n_features, squares, dense[:, column : column + step]))
    return gpu.cupy().concatenate(products, axis=1)


def _split(dense: Array) -> Array:
    """Split each column into two float32-representable columns that sum to float64 precision."""
    high = dense.astype(np.float32).astype(np.float64)
    return gpu.cupy().stack([high, dense - high], axis=-1).reshape(len(dense), -1)


def _added(pairs: Array) -> Array:
    return pairs[:, ::2] + pairs[:, 1::2]


def place(
    x: CudaRows, base: int, root: float, index: Array, begin: Array, features: Array, values: Array
) -> None:
    """Write rows (of `index`) with scaled values into other arrays, from `begin` on."""
    arrays = (np.uint64(0) if index is None else index, x.indptr, x.features, x.values, begin)
    n = len(x) if index is None else len(index)
    _warps("place", n, np.int32(base), np.float32(root), *arrays, features, values)


def marked(n: int, indices: Array) -> Array:
    """The rows at `indices`, ascending, of n: a bit for each, and for 32 rows the number of those before.

    These are 2 bits per row: unlike a number per row, they fit a processor's L1.
    """
    cp = gpu.cupy()
    bits = cp.zeros((-(-n // 32), 32), np.uint8)
    bits.reshape(-1)[indices] = 1
    before = starts_of(bits.sum(axis=1, dtype=np.int64))[:-1].astype(np.uint64)
    return before << np.uint64(32) | cp.packbits(bits, bitorder="little").view(np.uint32)


def numbers_of(features: Array, n_features: int) -> Array:
    """Number of entries of each feature, int64."""
    numbers = gpu.cupy().zeros(n_features, np.int64)
    count = gpu.function(SOURCE, "count_features", DEFINE_SETS[0][1])
    count((256,), (1024,), (np.int64(len(features)), features, numbers))
    return numbers


def sorted_parts(
    x: CudaRows, starts: Array, index: Array = None
) -> Iterator[tuple[tuple[Array, ...], Array]]:
    """Arrays of each chunk that tell a kernel the place of its entries in the lists, and its values.

    The rows at `index` get new numbers.
    """
    cp = gpu.cupy()
    cursor, begins = starts[:-1].copy(), cp.empty(x.n_features, np.int64)
    for first, part in x.chunks(index):
        n = len(part.features)
        keys = (part.features.astype(np.uint64) << np.uint64(32)) | cp.arange(n, dtype=np.uint64)
        keys.sort()
        owner = repeated(cp.arange(first, first + len(part), dtype=np.int32), part.indptr)
        _each("run_begins", n, keys, begins)
        yield (keys, begins, cursor, owner), part.values
        _each("run_ends", n, keys, begins, cursor)


def _each(name: str, n: int, *args: object) -> None:
    gpu.each(gpu.function(SOURCE, name, DEFINE_SETS[0][1]), n, *args)


def _warps(name: str, n: int, *args: object) -> None:
    gpu.each_warp(gpu.function(SOURCE, name, DEFINE_SETS[0][1]), n, *args)


def side_by_side(parts: Sequence[FeatureRows], weights: Sequence[float]) -> FeatureRows:
    """`textsvm.linalg.rows.side_by_side` on the current GPU."""
    if len(parts) == 1 and weights[0] == 1:
        return parts[0]
    cp = gpu.cupy()
    indptr: Array = sum(part.x.indptr for part in parts)
    first = np.cumsum([0] + [part.x.n_features for part in parts])
    entries = int(indptr[-1])
    features, values = (gpu.empty(entries, kind, ENTRY_BYTES * entries) for kind in (np.int32, np.float32))
    begin = indptr[:-1].copy()
    for part, weight, base in zip(parts, weights, first, strict=False):
        x: Array = part.x
        check_features(int(base) + x.n_features)
        place(x, base, np.sqrt(weight), None, begin, features, values)
        begin += cp.diff(x.indptr)
    ridge = sum(weight * part.ridge for part, weight in zip(parts, weights, strict=True))
    x = CudaRows(indptr, features, values, int(first[-1]))
    note = "; ".join(dict.fromkeys(part.note for part in parts if part.note))
    return FeatureRows(x, ridge, note=note)  # type: ignore[arg-type]


def repeated(values: Array, starts: Array) -> Array:
    """Repeat values[i] starts[i + 1] - starts[i] times."""
    return values[documents_of(starts, len(starts) - 1, int(starts[-1]))]
