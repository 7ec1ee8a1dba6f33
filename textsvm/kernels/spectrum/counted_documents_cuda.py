"""`CountedDocuments` on a GPU: p-mers are counted in panels of documents and become feature rows.

The first pass learns the p-mers, the second counts them and sums up document frequencies. A third weights the
counts and writes the entries of shared p-mers to their final place, whose size the document frequencies tell.
The counts of as many panels as fit wait for it; the others are counted again. Bytes are in
`textsvm.kernels.shared.counting_cuda`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from textsvm.arrays import Array, Ints
from textsvm.kernels.shared.counting import Vocabulary
from textsvm.kernels.shared.counting_cuda import (
    PANEL_SHARE,
    CudaCounts,
    CudaPmers,
    download,
    unary_digits,
)
from textsvm.kernels.shared.feature_rows_cuda import commonest_first, normalised_rows, shared_rows
from textsvm.kernels.shared.normalisation import featureless_groups
from textsvm.kernels.spectrum.features import (
    PSEUDO,
    ROUNDING,
    PmerKernel,
    PmerWeights,
    is_weighted,
    unknown_square,
)
from textsvm.linalg.rows import FeatureRows
from textsvm.linalg.rows_cuda import ENTRY_BYTES, CudaRows, place, repeated
from textsvm.linalg.sparse_cuda import check_features, starts_of
from textsvm.runtime import device as gpu
from textsvm.text.documents import DeviceDocuments, Documents

#: Maximum share of the free memory for counts that wait for their weights.
KEPT_SHARE = 0.5


@dataclass(frozen=True)
class _Panel:
    """Counts of the documents first..last."""

    first: int
    last: int
    indptr: Array
    pmers: Array
    counts: Array  #: In the smallest unsigned type


class CudaCountedDocuments:
    """`CountedDocuments` on the current card; kernels learn from all documents only."""

    def __init__(self, kernel: PmerKernel, documents: Documents) -> None:
        cp, self.documents = gpu.cupy(), documents
        self._free = gpu.free_memory()
        self.pmers = CudaPmers(DeviceDocuments(documents), *kernel.lengths)
        self.n_pmers = self.pmers.n_pmers
        self.df, self.highest = cp.zeros(self.n_pmers, np.int64), cp.ones(self.n_pmers, np.int32)
        self._kept: dict[int, _Panel] = {}
        kept_bytes = 0
        for first, last in self.pmers.panels:
            counts = CudaCounts.of(self.pmers.windows(first, last))
            self.df += counts.df
            cp.maximum(self.highest, counts.highest, out=self.highest)
            panel = _kept_counts(first, last, counts)
            kept_bytes += panel.pmers.nbytes + panel.counts.nbytes
            if kept_bytes <= KEPT_SHARE * self._free:
                self._kept[first] = panel
            del counts, panel  # before the next is counted

    def _panels(self) -> Iterator[_Panel]:
        """The counts of all panels, in order."""
        for first, last in self.pmers.panels:
            panel = self._kept.get(first)
            yield panel or _kept_counts(first, last, CudaCounts.of(self.pmers.windows(first, last)))

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Vocabulary with keys on the host."""
        return download(self.pmers.vocabulary)

    def weights(self, kernel: PmerKernel, train: Ints) -> PmerWeights:
        """Weights that a kernel learns from all documents; `train` must select all."""
        odds = self._odds(self.documents.classes).get() if kernel.odds else None
        return PmerWeights(self.vocabulary, self.df.get(), len(train), bool(kernel.idf), odds)

    def _odds(self, classes: Array) -> Array:
        """`features.log_odds` of all documents."""
        cp = gpu.cupy()
        squares, total, shares = cp.zeros(self.n_pmers + 1), float(max(int(self.df.sum()), 1)), []
        for c in range(int(classes.max()) + 1):
            class_df, in_class = cp.zeros(self.n_pmers, np.int64), cp.asarray(classes == c)
            for panel in self._panels():
                entries = repeated(in_class[panel.first : panel.last], panel.indptr)
                class_df += cp.bincount(panel.pmers[entries], minlength=self.n_pmers)
            share = float(class_df.sum()) / total
            if 0 < share < 1:
                ratio = cp.log((class_df + PSEUDO * share) / (self.df - class_df + PSEUDO * (1 - share)))
                ratio -= np.log(share / (1 - share))
                squares[:-1] += cp.where((self.df > 0) & (abs(ratio) > ROUNDING), share * ratio**2, 0)
                shares.append(share)
        squares[-1] = unknown_square(np.array(shares))  # every p-mer is in a document
        return cp.sqrt(squares)

    def rows(self, kernel: PmerKernel, train: Ints) -> FeatureRows:
        """Feature rows of all documents, with weights learnt from all of them."""
        cp, n = gpu.cupy(), len(self.documents)
        starts = starts_of(self.highest) if kernel.weight == "intersection" else None
        table = None
        if is_weighted(kernel):  # the last entry is the weight of unknown p-mers
            table = cp.asarray(kernel.weights_.table[:-1])
        df = self.df if starts is None else self._unary_df(starts)
        target, n_shared = commonest_first(df)
        # Equal texts without p-mers share a private feature.
        featureless = (self.documents.lengths < kernel.lengths[0]) & bool(kernel.normalised)
        begins, private, private_ridge, n_private = featureless_groups(self.documents, featureless)
        features, values, note = self._room(int(df[df > 1].sum()) + len(private))
        ridge, indptr = cp.empty(n), [cp.zeros(1, np.int64)]
        for panel in self._panels():
            first, last = panel.first, panel.last
            counted = CudaRows(*self._entries(kernel.weight, panel, starts, table), len(df))
            rows, alone = shared_rows(counted, target, n_shared)
            rows, ridge[first:last] = normalised_rows(rows, alone) if kernel.normalised else (rows, alone)
            own = private[begins[first] : begins[last]].astype(np.int32)
            own_begins = cp.asarray(begins[first : last + 1] - begins[first])
            more = CudaRows(own_begins, cp.asarray(own), cp.ones(len(own), np.float32), n_private)
            to = rows.indptr + more.indptr + indptr[-1][-1]
            place(rows, 0, 1.0, None, to, features, values)
            place(more, n_shared, 1.0, None, to[:-1] + cp.diff(rows.indptr), features, values)
            indptr.append(to[1:])
            del panel, counted, rows, more
        ridge += cp.asarray(private_ridge)
        size = n_shared + (n_private if len(private) else 0)
        check_features(size)
        x = CudaRows(cp.concatenate(indptr), features, values, size)
        return FeatureRows(x, ridge, note=note)  # type: ignore[arg-type]

    def _room(self, entries: int) -> tuple[Array, Array, str]:
        """Arrays for the features and values of the rows, and where they are, for people."""
        needed, reserve = ENTRY_BYTES * entries, int(PANEL_SHARE * self._free)
        if needed + reserve > gpu.free_memory():
            self._kept.clear()
        passes = len(self.pmers.panels)
        note = f"counted in {passes} passes" if passes > 1 else ""
        if needed + reserve > gpu.free_memory() and needed > gpu.SMALL:
            note = f"{note or 'counted in a pass'}, kept in main memory"
        features = gpu.empty(entries, np.int32, needed // 2 + reserve)
        return features, gpu.empty(entries, np.float32, reserve), note

    def _entries(self, weight: str, panel: _Panel, starts: Array, table: Array) -> tuple[Array, Array, Array]:
        """Feature rows of a panel: indptr, features, values."""
        cp = gpu.cupy()
        indptr, pmers, counts = panel.indptr, panel.pmers, panel.counts
        learnt = None if table is None else table[pmers]
        if starts is not None:
            ends, owner, features = unary_digits(starts, pmers, counts)
            values = cp.ones(len(owner), np.float32) if learnt is None else cp.sqrt(learnt)[owner]
            return ends[indptr], features, values.astype(np.float32, copy=False)
        values = 1 + cp.log(counts.astype(np.float64)) if weight == "log" else counts
        values = cp.ones(len(pmers), np.float32) if weight == "presence" else values
        values = values if learnt is None else learnt * values
        return indptr, pmers, values.astype(np.float32)

    def _unary_df(self, starts: Array) -> Array:
        cp = gpu.cupy()
        df = cp.zeros(int(starts[-1]), np.int64)
        for panel in self._panels():
            df += cp.bincount(unary_digits(starts, panel.pmers, panel.counts)[2], minlength=len(df))
        return df


def _kept_counts(first: int, last: int, counts: CudaCounts) -> _Panel:
    largest = int(counts.counts.max()) if len(counts.counts) else 0
    small = counts.counts.astype(np.min_scalar_type(largest))
    return _Panel(first, last, counts.indptr, counts.pmers, small)
