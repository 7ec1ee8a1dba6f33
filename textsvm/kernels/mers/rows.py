"""Kernels on the distances between l-mers: kernel rows, prediction, and score tables.

    k(s, t) = sum_(u in s, v in t) w(d(u, v))

for the l-mers u and v, their Hamming distance d(u, v) and the weights w of distances (kernel.py). The CPU
(cpu.py) and GPU (cuda.py) twins count the pairs of l-mers at every distance in integers, so that a value has
the same bits wherever it is computed: the sum of w(d) times its count in the order of d, times the product of
both scales, rounded to float32.

Prediction assigns a score to every l-mer:

    value(x) = scale(x) sum_(u in x) score(u)
    score(u) = sum_i c_i scale_i sum_(v in t_i) w(d(u, v))

Over A symbols a table holds the scores of all A^l l-mers. T_0[x] is the total coefficient of the l-mer x in
the support vectors; position by position, T_d[x] becomes that of the l-mers that differ from x at d of the
positions so far:

    T_d[.. x ..] += sum_(y != x) T_(d - 1)[.. y ..]       d descending;        score = sum_d w(d) T_d

This takes l A^l additions per distance, whatever the number of support vectors; predictions are look-ups.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from textsvm.arrays import Array, Floats, Ints
from textsvm.kernels.contract import decision_by_rows
from textsvm.kernels.mers.windows import Mers, mers_of
from textsvm.kernels.shared.feature_rows import ComparedRows
from textsvm.kernels.shared.normalisation import Normalisation
from textsvm.runtime import device as devices
from textsvm.runtime.compiled import njit
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress, report, run
from textsvm.text.documents import Documents, batches

TABLE_BYTES = 1 << 30  #: Bytes of the score tables of a predictor.
TABLE_RATE = 3e8  #: Additions into a table per second.
BATCH = 1 << 23  #: Symbols of documents that are predicted together.


class MerRows(ComparedRows):
    """Kernel values of a `MerKernel` with fixed documents (`KernelRows`); subclasses count pairs."""

    ahead = 16

    def __init__(self, kernel: Any, documents: Documents, device: Device) -> None:
        super().__init__(kernel, documents, device)
        # Half of the pairs of both strands of two sequences are compared.
        self.weights = kernel.definition.weights * (2 if kernel.canonical else 1)
        self.own, self.columns = self.mers(documents)
        with devices.use(device):
            self.prepare()

    def mers(self, documents: Documents) -> tuple[Mers, Mers]:
        """The l-mers of documents, as rows and as columns."""
        return mers_of(documents, self.kernel.definition.length, bool(self.kernel.canonical))

    @abstractmethod
    def prepare(self) -> None:
        """Arrange the columns on the device."""

    @abstractmethod
    def self_values(self, rows: Mers, columns: Mers) -> Floats:
        """k(s, s) of documents, on the host."""

    @abstractmethod
    def products(
        self, rows: Mers, scale: Floats, progress: Progress | None = None, symmetric: bool = False
    ) -> Array:
        """Values of documents with the columns, times both scales: float32, shape (number of rows, n).

        Of a symmetric matrix half is computed.
        """

    @abstractmethod
    def table(self, of_mers: Floats) -> Any:
        """Score table from the weights (n_machines, number of l-mers) of the columns' l-mers."""

    @cached_property
    def normalisation(self) -> Normalisation:  # type: ignore[override]
        with devices.use(self.device):
            values = self.self_values(self.own, self.columns)
        return Normalisation(self.documents, values, self.kernel.normalised)

    def normalise(self, others: Documents, rows: Mers, columns: Mers) -> Normalisation:
        """k(s, s) of other documents."""
        if not self.kernel.normalised:
            return Normalisation(others, np.zeros(len(others)), False)
        return Normalisation(others, self.self_values(rows, columns), True, self.normalisation)

    def compare_others(self, others: Documents, progress: Progress | None) -> tuple[Array, Normalisation]:
        rows, own = self.project(others)
        return self.products(rows, own.scale, progress), own

    def project(self, others: Documents) -> tuple[Mers, Normalisation]:
        """l-mers of other documents, and their normalisation."""
        rows, columns = self.mers(others)
        return rows, self.normalise(others, rows, columns)

    def compare_own(self, indices: Ints, own: Normalisation) -> Array:
        return self.products(self.own.take(indices), own.scale)

    def gram(self, progress: Progress | None = None) -> Array:
        columns = self.normalisation
        with devices.use(self.device):
            matrix = self.products(self.own, columns.scale, progress, symmetric=True)
            columns.finish_gram(matrix)
            return matrix

    def decision(self, others: Documents, coef: Floats, progress: Progress | None = None) -> Floats:
        return MerPredictor(self, coef.T).values(others, progress)


class MerPredictor:
    """Predictor that sums scores of l-mers from a table if that is faster than kernel values.

    `rows` are the kernel rows of the support vectors, `coef` has shape (n_machines, n_sv).
    """

    def __init__(self, rows: MerRows, coef: Floats) -> None:
        self.rows, self.coef, self.device = rows, np.ascontiguousarray(coef, np.float64), rows.device

    def values(self, documents: Documents, progress: Progress | None = None) -> Floats:
        if not self._tabulates(documents):
            return decision_by_rows(self.rows, documents, self.coef.T, progress, on_host=True)
        values = np.empty((len(documents), len(self.coef)))
        for first, last in batches(documents, BATCH):
            values[first:last] = self._values(documents.take(np.arange(first, last)))
            report(progress, last, len(documents))
        return values

    def _values(self, documents: Documents) -> Floats:
        with devices.use(self.device):
            rows, own = self.rows.project(documents)
            new = rows.unknown(self.rows.columns.n_symbols)  # symbols that the table lacks
            values = np.empty((len(new), len(self.coef)))
            values[~new] = self.table.sums(rows.take(np.flatnonzero(~new)) if new.any() else rows)
            for i in np.flatnonzero(new):
                products = self.rows.products(rows.take(np.array([i])), np.ones(1))
                values[i] = self.coef @ devices.to_host(products)[0].astype(np.float64)
        values *= own.scale[:, None]
        own.finish_values(values, self.coef, self.rows.normalisation)
        return values

    @cached_property
    def table(self) -> Any:
        """Score table of the machines."""
        columns = self.rows.columns
        return self.rows.table(np.repeat(self.coef * self.rows.normalisation.scale, columns.numbers, axis=1))

    def _tabulates(self, documents: Documents) -> bool:
        """Whether a table fits into memory and takes less time than kernel values.

        An existing table does not count: results would depend on earlier predictions.
        """
        kernel, symbols = self.rows.kernel, max(self.rows.columns.n_symbols, 1)
        size = float(symbols) ** min(kernel.definition.length, 40)  # longer l-mers never fit
        if size * 8 * (len(self.rows.weights) + len(self.coef)) > TABLE_BYTES:
            return False
        seconds = kernel.definition.length * len(self.rows.weights) * size * len(self.coef) / TABLE_RATE
        return bool(seconds <= kernel.cost.of_rows(documents.lengths, self.rows.documents.lengths).sum())


class ScoreTable:
    """Scores of all l-mers on the CPU; `of_mers`, (n_machines, l-mers), are the weights of the columns."""

    xp: Any = np

    def __init__(self, columns: Mers, weights: Floats, of_mers: Floats) -> None:
        self.length, self.symbols = columns.length, max(columns.n_symbols, 1)
        size, keys = self.symbols**self.length, columns.keys(self.symbols)
        self.scores = self.xp.empty((size, len(of_mers)))
        for machine, machine_weights in enumerate(of_mers):
            # On the host: atomic sums would differ from run to run.
            own = np.bincount(keys, machine_weights, size).astype(np.float64)
            self.scores[:, machine] = self._spread(own, weights)

    def _spread(self, own: Floats, weights: Floats) -> Array:
        sums = np.zeros((len(weights), len(own)))
        sums[0] = own
        groups = len(own) // self.symbols
        size = max(1, groups // 64)
        for place in range(self.length):
            stride = self.symbols**place

            def piece(first: int, stride: int = stride) -> None:
                _spread_place(sums, stride, self.symbols, first, min(first + size, groups))

            run(piece, range(0, groups, size))
        return weights @ sums

    def sums(self, rows: Mers) -> Floats:
        """Weighted sums of the scores of the l-mers of documents without unknown symbols."""
        out = np.zeros((len(rows.numbers), self.scores.shape[1]))
        size = max(1, len(out) // 256)

        def piece(first: int) -> None:
            mers, last = (rows.codes, rows.starts, rows.indptr), min(first + size, len(out))
            _sum_scores(*mers, first, last, self.length, self.symbols, self.scores, out)

        run(piece, range(0, len(out), size))
        return out


@njit(nogil=True, cache=True)
def _spread_place(sums, stride, symbols, first, last):
    """Update the groups first..last of l-mers that differ at a single position."""
    for group in range(first, last):
        begin = group // stride * stride * symbols + group % stride
        for d in range(len(sums) - 1, 0, -1):
            total = 0.0
            for x in range(symbols):
                total += sums[d - 1, begin + x * stride]
            for x in range(symbols):
                sums[d, begin + x * stride] += total - sums[d - 1, begin + x * stride]


@njit(nogil=True, cache=True)
def _sum_scores(codes, starts, indptr, first, last, length, symbols, scores, out):
    for i in range(first, last):
        for mer in range(indptr[i], indptr[i + 1]):
            key = 0
            for p in range(length):
                key = key * symbols + codes[starts[mer] + p]
            for machine in range(scores.shape[1]):
                out[i, machine] += scores[key, machine]
