"""A packed copy of some rows on a GPU, for many products with a single vector (kernels_cu/packed.cu).

X d and X'u of `rows_cuda` read 32 bytes of L2 per entry to use a 4-byte float. Here a block has these
floats in shared memory: d of the commonest features, which come first (the first 57,000 have nine tenths of
the entries of a text), or u of a slab of rows. An entry's number then fits 16 bits, and so does its value, as
float16: 4 bytes per entry and pass instead of 8. Both passes have the same rounded values, so that the
product is X'D X of a slightly different X: as good for Newton's direction, whose residual is computed with X.

Sums are float32 within a thread (at most 512 entries of a list, or a 32nd of a row) and float64 or integers
between threads, in a fixed order.
"""

from __future__ import annotations

import numpy as np

from textsvm.arrays import AnyArray, Array
from textsvm.linalg.rows_cuda import CudaRows, marked, sorted_parts
from textsvm.linalg.sparse_cuda import starts_of
from textsvm.runtime import device as gpu

SOURCE = "packed.cu"
#: Kernels launched: (source, defines).
DEFINE_SETS = [(SOURCE, ())]
THREADS = 1024
MAX_TABLE = 57_344  #: Maximum length of the table in shared memory; indices have 16 bits.
SORT_ROOM = 1 << 27  #: Free bytes in which entries are sorted, in parts, if there are no lists.
#: structs of packed.cu.
ROWS = gpu.layout(
    "uint64 begin rare_begin entries rare dense shift factor out rounded open",
    "int64 n",
    "float64 scale",
    "int32 common",
)
LISTS = gpu.layout(
    "uint64 feature first to entries dense unit sums open",
    "int64 n pieces",
    "float64 scale",
    "int32 slabs size common",
)


def _table_length() -> int:
    return min(MAX_TABLE, gpu.cupy().cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"] // 4)


def packed_bytes(x: CudaRows, n: int, entries: int) -> int:
    """Maximum bytes of a packed copy of n rows of X that have this number of entries."""
    table, columns = _table_length(), x.columns
    rare = len(x.values) - int(columns.starts[min(table, x.n_features)])
    rows, places = 4 * (entries + min(entries, rare)), 8 * (-(-n // table) + 1) * len(columns.pieces[0])
    if columns.x is None:
        return rows + 4 * len(x.values) + places
    return rows + 4 * entries + 3 * places + 40 * x.n_features + SORT_ROOM


class PackedRows:
    """The rows of X at `index`, ascending; no absolute value of an entry exceeds `largest`."""

    def __init__(self, x: CudaRows, index: Array, largest: float) -> None:
        self.n = len(index)
        self._processors, self._table = gpu.multiprocessors(), _table_length()
        self._common = min(self._table, x.n_features)
        # Values divided by the scale are below 2^14, within the range of float16.
        self._scale = float(2.0 ** (np.floor(np.log2(largest)) - 13)) if largest > 0 else 1.0
        self._rows = self._pack_rows(x, index)
        slabs, pieces = -(-self.n // self._table), x.columns.pieces[0]
        size = -(-self.n // slabs)
        pack = self._pack_from_lists if x.columns.x is None else self._pack_by_sorting
        to, entries = pack(x, index, slabs, (np.int32(size), np.float32(1 / self._scale)))
        self._lists = {
            "feature": pieces, "first": x.columns.first_pieces, "to": to, "entries": entries,
            "pieces": len(pieces), "slabs": slabs, "size": size,
        }  # fmt: skip

    def _pack_rows(self, x: CudaRows, index: Array) -> dict[str, Array]:
        cp, n = gpu.cupy(), self.n
        numbers = cp.empty(n, np.int64)
        common, rows = np.int32(self._common), (index, x.indptr, x.features)
        gpu.each_warp(gpu.function(SOURCE, "count_common"), n, common, *rows, numbers)
        begin = starts_of(numbers)
        rare_begin = starts_of(cp.diff(x.indptr)[index] - numbers)
        entries, rare = cp.empty(int(begin[-1]), np.uint32), cp.empty(int(rare_begin[-1]), np.uint64)
        packed = begin, rare_begin, entries, rare
        scaled = common, np.float32(1 / self._scale), *rows, x.values
        gpu.each_warp(gpu.function(SOURCE, "pack_rows"), n, *scaled, *packed)
        return {"begin": begin, "rare_begin": rare_begin, "entries": entries, "rare": rare}

    def _pack_from_lists(
        self, x: CudaRows, index: Array, slabs: int, scaling: tuple[np.int32, np.float32]
    ) -> tuple[Array, Array]:
        """Ends of the pieces of each slab, and packed entries, from lists of all rows."""
        cp, columns = gpu.cupy(), x.columns
        n_pieces, begins = len(columns.pieces[0]), columns.pieces[1]
        to, entries = cp.empty((slabs + 1, n_pieces), np.int64), cp.empty(len(columns.rows), np.uint32)
        lists = cp.concatenate([begins, columns.starts[-1:]]), columns.rows, columns.values
        pack = gpu.function(SOURCE, "pack_lists")
        gpu.each_warp(pack, n_pieces, *lists, marked(len(x), index), np.int32(slabs), *scaling, to, entries)
        return to, entries

    def _pack_by_sorting(
        self, x: CudaRows, index: Array, slabs: int, scaling: tuple[np.int32, np.float32]
    ) -> tuple[Array, Array]:
        """The same without lists: entries are counted, sorted in parts, and put in their place."""
        cp, columns, first = gpu.cupy(), x.columns, x.columns.first_pieces
        n_pieces, numbers = len(columns.pieces[0]), cp.zeros(len(columns.pieces[0]) * slabs, np.int32)
        count, place = (gpu.function(SOURCE, name) for name in ("count_pieces", "place_packed"))
        rows = index, x.indptr, x.features, first, columns.first_rows
        gpu.each_warp(count, self.n, *rows, np.int32(slabs), scaling[0], numbers)
        ends, to = starts_of(numbers), cp.empty((slabs + 1, n_pieces), np.int64)
        to[:-1], to[-1] = ends[:-1].reshape(n_pieces, slabs).T, ends[slabs::slabs]
        entries = cp.empty(int(ends[-1]), np.uint32)
        for places, values in sorted_parts(x, ends[slabs * first], index):
            gpu.each(place, len(values), *places, values, *scaling, entries)
        return to, entries

    def dot(self, dense: Array, shift: Array, factor: Array, out: Array, rounded: Array, open: Array) -> None:
        """out = factor * (X dense + shift), float64 (n, 1), and `rounded`, the same in float32.

        `dense` is float32 (n_features, 1); the kernel does nothing if `open` is 0.
        """
        arguments = gpu.structure(
            ROWS, **self._rows, dense=dense, shift=shift, factor=factor, out=out, rounded=rounded, open=open,
            n=self.n, scale=self._scale, common=self._common,
        )  # fmt: skip
        self._launch("packed_pass", self._processors, arguments)

    def transposed_dot(self, dense: Array, unit: Array, out: Array, open: Array) -> None:
        """out = X' dense in fixed point, int64 (n_features, 1), of a float32 array (n, 1)."""
        out.fill(0)
        arguments = gpu.structure(
            LISTS, **self._lists, dense=dense, unit=unit, sums=out, open=open, n=self.n,
            scale=self._scale, common=self._common,
        )  # fmt: skip
        slabs = self._lists["slabs"]
        self._launch("packed_sums", slabs * max(1, self._processors // slabs), arguments)

    def _launch(self, name: str, blocks: int, arguments: AnyArray) -> None:
        kernel = gpu.function(SOURCE, name)
        kernel.max_dynamic_shared_size_bytes = 4 * self._table
        kernel((blocks,), (THREADS,), (arguments,), shared_mem=4 * self._table)
