"""Kernels of distances between l-mers on the CPU: pieces of rows and columns for mer_counts.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.features.mers import Mers
from textsvm.kernels.mer_counts import (
    add_counts,
    add_own_counts,
    scratch,
    upper_planes,
    weigh_counts,
)
from textsvm.kernels.mer_rows import MerRows
from textsvm.kernels.mer_scores import HostTable
from textsvm.kernels.mer_words import words_of
from textsvm.parallel import Progress, run
from textsvm.simd import LANES, aligned

#: Words of a batch of columns, and counts of a piece.
WORDS, COUNTS = 256, 1 << 19


class HostMers(MerRows):
    """The CPU twin: see `KernelRows`."""

    def prepare(self) -> None:
        self.words, self.begins = words_of(self.columns.indptr)
        whole = np.searchsorted(self.begins, np.arange(0, len(self.words) + WORDS, WORDS))
        self.batches = np.unique(np.clip([0, *whole, self.n], 0, self.n))

    def self_values(self, rows: Mers, columns: Mers) -> NDArray[np.float64]:
        n, weights = len(rows.numbers), self.weights
        counts, (words, begins) = np.zeros((n, 1, len(weights)), np.int64), words_of(columns.indptr)
        size = max(1, n // 256)

        def piece(first: int) -> None:
            last = min(first + size, n)
            room = self._room(columns.n_symbols)
            add_own_counts(
                rows.codes, rows.starts, rows.weights, rows.indptr, first, last,
                columns.codes, columns.starts, columns.weights, words, begins, self.kernel.length,
                *room, counts,
            )  # fmt: skip

        run(piece, range(0, n, size))
        values, ones = np.empty((n, 1)), np.ones(n)
        weigh_counts(counts, weights, ones, ones[:1], values)
        return values[:, 0]

    def products(
        self, rows: Mers, scale: NDArray[np.float64], progress: Progress | None = None
    ) -> NDArray[np.float32]:
        out = np.empty((len(rows.numbers), self.n), np.float32)
        self._fill(rows, scale, out, False, progress)
        return out

    def half(self, progress: Progress | None = None) -> NDArray[np.float32]:
        out = np.empty((self.n, self.n), np.float32)
        self._fill(self.own, self.normalisation.scale, out, True, progress)
        return out

    def table(self, of_mers: NDArray[np.float64]) -> HostTable:
        return HostTable(self.columns, self.weights, of_mers)

    def _room(self, n_symbols: int) -> tuple[Any, Any, Any, Any, int, tuple[int, ...]]:
        """Scratch for one piece, distances that count, and what the compiled loop is specialised by."""
        most, found = len(self.weights) - 1, aligned(len(self.weights) * LANES, np.uint64)
        slots, masks, planes = scratch(n_symbols, self.kernel.length, self.kernel.centred is not None)
        return slots, masks, planes, found, most, upper_planes(most)

    def _fill(
        self, rows: Mers, scale: NDArray[np.float64], out: Any, symmetric: bool, progress: Progress | None
    ) -> None:
        """All values, or of a symmetric matrix those up to the end of each batch, and their mirror images."""
        columns, weights, column_scale = self.columns, self.weights, self.normalisation.scale
        n_symbols = max(rows.n_symbols, columns.n_symbols)

        def piece(bounds: tuple[int, int, int, int]) -> None:
            first, last, row, stop = bounds
            picks = np.arange(row, stop)
            words = self.words[self.begins[first] : self.begins[last]].copy()
            words[:, 0] -= first
            room = self._room(n_symbols)
            counts = np.zeros((len(picks), last - first, len(weights)), np.int64)
            add_counts(
                rows.codes, rows.starts, rows.weights, rows.indptr, picks,
                columns.codes, columns.starts, columns.weights, words, self.kernel.length,
                *room, counts,
            )  # fmt: skip
            weigh_counts(
                counts, weights, scale[row:stop], column_scale[first:last], out[row:stop, first:last]
            )
            if symmetric and stop <= first:
                out[first:last, row:stop] = out[row:stop, first:last].T

        pieces, work = self._pieces(rows, symmetric)
        run(piece, pieces, work, progress)

    def _pieces(self, rows: Mers, symmetric: bool) -> tuple[list[tuple[int, int, int, int]], list[float]]:
        """(first and last column, first and last row) of every piece, and pairs of l-mers."""
        pieces: list[tuple[int, int, int, int]] = []
        work: list[float] = []
        m = len(rows.numbers)
        if not m:
            return pieces, work
        for first, last in zip(self.batches[:-1].tolist(), self.batches[1:].tolist(), strict=True):
            size = max(1, COUNTS // ((last - first) * len(self.weights)))
            cuts = [*range(0, first, size), *range(first, last, size)] if symmetric else [*range(0, m, size)]
            for row, stop in zip(cuts, [*cuts[1:], last if symmetric else m], strict=True):
                pieces.append((first, last, row, stop))
                mers = float(rows.indptr[stop] - rows.indptr[row])
                work.append(mers * float(self.columns.indptr[last] - self.columns.indptr[first]) + 1)
        order = np.argsort([-each for each in work], kind="stable")
        return [pieces[i] for i in order], [work[i] for i in order]
