"""Pairs of strings within an edit distance, on a GPU: kernels_cu/edit.cu lists them, and no matrix exists.

Which pairs are looked at is what edit_near.py says: lengths and counts of symbols first. A list that was too
short for what was found is made again, long enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm import device as gpu
from textsvm.device import Device
from textsvm.documents import Documents
from textsvm.documents_cuda import DeviceDocuments
from textsvm.kernels.edit_bounds import classes_of, counts_of
from textsvm.kernels.edit_cuda import NEAR, _Job, _Texts
from textsvm.kernels.edit_near import EditKernel, rates, values_of
from textsvm.kernels.near import Bound, Pairs

#: Pairs that the first list has room for.
CAPACITY = 1 << 20


@dataclass(frozen=True)
class _Block:
    """Some strings on the card, as rows and as columns."""

    patterns: DeviceDocuments
    counts: Any
    lengths: NDArray[np.int64]


class CudaEditNear:
    """Pairs of one set of strings, or of two (`Near`), of alphabets that 16 bits hold."""

    def __init__(
        self, kernel: EditKernel, documents: Documents, others: Documents | None, device: Device
    ) -> None:
        self.kernel, self.device, self.own = kernel, device, others is None
        self.sets = [documents] if others is None else [documents, others]
        self._classes = classes_of(self.sets)
        self._blocks: dict[tuple[int, int], _Block] = {}
        self._texts: dict[int, _Texts] = {}
        self._capacity = CAPACITY

    def pairs(self, rows: slice, columns: slice, bound: Bound) -> Pairs:
        """See `Near`."""
        same = self.own and rows == columns
        with gpu.use(self.device):
            patterns, texts = self._block(-1, rows), self._block(0, columns)
            if columns.start not in self._texts:
                self._texts[columns.start] = _Texts(texts.patterns, None)
            job = _Job(self.kernel, patterns.patterns, self._texts[columns.start], NEAR, same, same)
            row, column, distances = self._list(job, self._near(patterns, texts, bound))
        values = values_of(self.kernel, distances, patterns.lengths[row], texts.lengths[column])
        enough = values >= np.minimum(bound.rows[row], bound.columns[column])
        if same:
            row, column = np.minimum(row, column), np.maximum(row, column)
        return Pairs(row + rows.start, column + columns.start, values, distances).take(enough)

    def _block(self, which: int, block: slice) -> _Block:
        which %= len(self.sets)
        if (which, block.start) not in self._blocks:
            some = self.sets[which].take(np.arange(block.start, block.stop))
            counts = counts_of(some, some.codes_for(), self._classes)
            self._blocks[which, block.start] = _Block(
                DeviceDocuments(some, np.uint16), gpu.cupy().asarray(counts), some.lengths
            )
        return self._blocks[which, block.start]

    def _near(self, patterns: _Block, texts: _Block, bound: Bound) -> dict[str, Any]:
        cp, gamma = gpu.cupy(), self.kernel.gamma
        return {
            "row_rates": cp.asarray(rates(bound.rows, gamma)),
            "column_rates": cp.asarray(rates(bound.columns, gamma)),
            "row_counts": patterns.counts,
            "column_counts": texts.counts,
            "most": np.iinfo(np.int32).max if bound.within is None else bound.within,
        }

    def _list(self, job: _Job, near: dict[str, Any]) -> tuple[Any, Any, Any]:
        """Rows and columns of the blocks, and distances, on the host."""
        cp = gpu.cupy()
        while True:
            gpu.require_memory(12 * self._capacity, "the list of pairs", "lower --memory, or ask for fewer")
            found, n_found = cp.empty((self._capacity, 3), np.int32), cp.zeros(1, np.uint64)
            job.list_pairs({**near, "found": found, "n_found": n_found, "capacity": self._capacity})
            count = int(n_found.get()[0])
            if count <= self._capacity:
                row, column, distances = np.ascontiguousarray(found[:count].get().T)
                return row.astype(np.int64), column.astype(np.int64), distances
            self._capacity = count
