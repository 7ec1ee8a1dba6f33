"""Machines of kernels of distances between l-mers, as a score of every l-mer: a value is a sum of scores.

    value(x) = scale(x) sum_(u in x) a(u) score(u)
    score(u) = sum_i c_i scale_i sum_(v in t_i) b(v) w(d(u, v))

Over A symbols a table has all A^l scores. T_0[x] is the weight that the l-mers x of the support vectors have,
and with position after position, T_d[x] becomes that of all l-mers which differ from x at d of the positions
so far:

    T_d[.. x ..] += sum_(y != x) T_(d - 1)[.. y ..]       d descending;        score = sum_d w(d) T_d

l A^l additions for each distance, whatever the number of support vectors; a prediction is look-ups then.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.kernels.mers.mers import Mers
from textsvm.runtime import device as devices
from textsvm.runtime.compiled import njit
from textsvm.runtime.parallel import Progress, run
from textsvm.text.documents import Documents

Array = NDArray[Any]
#: Bytes of the tables of a predictor.
TABLE_BYTES = 1 << 30
#: Additions of a table a second.
TABLE_RATE = 3e8
#: Documents that are predicted together, in symbols.
BATCH = 1 << 23


class MerPredictor:
    """Prediction by a table of the scores of l-mers, where that is quicker than kernel values.

    Parameters
    ----------
    rows : MerRows
        Of the support vectors.
    coef : float64 array, shape (n_machines, n_sv)
    """

    def __init__(self, rows: Any, coef: NDArray[np.float64]) -> None:
        self.rows, self.coef, self.device = rows, np.ascontiguousarray(coef, np.float64), rows.device
        self._table: Any = None

    def values(self, documents: Documents, progress: Progress | None = None) -> NDArray[np.float64]:
        """See `Predictor`."""
        if not self._tabulates(documents):
            return self.rows.by_rows(documents, self.coef.T, progress)
        values = np.empty((len(documents), len(self.coef)))
        cuts = np.flatnonzero(np.diff(documents.offsets[:-1] // BATCH)) + 1
        begins = [0, *cuts.tolist()] if len(documents) else []
        for first, last in zip(begins, [*begins[1:], len(documents)], strict=bool(begins)):
            values[first:last] = self._values(documents.take(np.arange(first, last)))
            if progress is not None:
                progress(last, len(documents))
        return values

    def mer_scores(self, documents: Documents) -> NDArray[np.float64]:
        """Scores of l-mers; of longer documents the sum over all of theirs, every position alike.

        Parameters
        ----------
        documents : Documents, n of them
            Over an extension of the alphabet of the support vectors.

        Returns
        -------
        float64 array, shape (n, n_machines)
        """
        rows, _ = self.rows.mers(documents)
        return self._scores(rows.alike(), self._tabulates(documents))

    def _values(self, documents: Documents) -> NDArray[np.float64]:
        rows, columns = self.rows.mers(documents)
        with devices.use(self.device):
            own = self.rows.normalise(documents, rows, columns)
        values = own.scale[:, None] * self._scores(rows, True)
        own.finish_values(values, self.coef, self.rows.normalisation)
        return values

    def _scores(self, rows: Mers, tabulated: bool) -> NDArray[np.float64]:
        """Sums of the scores of the l-mers of documents, times their weights."""
        new = rows.unknown(self.rows.columns.n_symbols) if tabulated else np.ones(len(rows.numbers), bool)
        values = np.empty((len(new), len(self.coef)))
        with devices.use(self.device):
            if tabulated:
                values[~new] = self.table.sums(rows.take(np.flatnonzero(~new)) if new.any() else rows)
            for i in np.flatnonzero(new):
                found = self.rows.products(rows.take(np.array([i])), np.ones(1))
                values[i] = self.coef @ devices.to_host(found)[0].astype(np.float64)
        return values

    @property
    def table(self) -> Any:
        """Sums scores of the l-mers of `Mers`, made when it is first needed."""
        if self._table is None:
            columns = self.rows.columns
            scaled = self.coef * self.rows.normalisation.scale
            of_mers = np.repeat(scaled, columns.numbers, axis=1) * columns.weights
            self._table = self.rows.table(of_mers)
        return self._table

    def _tabulates(self, documents: Documents) -> bool:
        """Whether there is room for a table, and it is made in less time than kernel values.

        Not whether it is there: bits of values would go by what was predicted before, in whichever thread.
        """
        kernel, symbols = self.rows.kernel, max(self.rows.columns.n_symbols, 1)
        size = float(symbols) ** min(kernel.definition.length, 40)  # of more letters there is no table
        if size * 8 * (len(self.rows.weights) + len(self.coef)) > TABLE_BYTES:
            return False
        made = kernel.definition.length * len(self.rows.weights) * size * len(self.coef) / TABLE_RATE
        direct = kernel.cost.of_rows(documents.lengths, self.rows.documents.lengths).sum()
        return bool(made <= direct)


class HostTable:
    """Scores of all l-mers, on the CPU.

    Parameters
    ----------
    columns : Mers
    weights : float64 array
        Of the distances.
    of_mers : float64 array, shape (n_machines, number of l-mers)
    """

    def __init__(self, columns: Mers, weights: NDArray[np.float64], of_mers: NDArray[np.float64]) -> None:
        self.length, self.symbols = columns.length, max(columns.n_symbols, 1)
        size, keys = self.symbols**self.length, columns.keys(self.symbols)
        self.scores = np.empty((size, len(of_mers)))
        for machine, each in enumerate(of_mers):
            self.scores[:, machine] = self._spread(np.bincount(keys, each, size).astype(np.float64), weights)

    def _spread(self, own: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        sums = np.zeros((len(weights), len(own)))
        sums[0] = own
        groups = len(own) // self.symbols
        size = max(1, groups // 64)
        for place in range(self.length):
            stride = self.symbols**place

            def piece(first: int, stride: int = stride) -> None:
                _spread_place(sums, stride, self.symbols, first, min(first + size, groups))

            run(piece, range(0, groups, size))
        scores: NDArray[np.float64] = weights @ sums
        return scores

    def sums(self, rows: Mers) -> NDArray[np.float64]:
        """Sums of the scores of the l-mers of documents, none of an unknown symbol, times their weights."""
        out = np.zeros((len(rows.numbers), self.scores.shape[1]))
        size = max(1, len(out) // 256)

        def piece(first: int) -> None:
            last = min(first + size, len(out))
            _sum_scores(
                rows.codes, rows.starts, rows.weights, rows.indptr, first, last, self.length, self.symbols,
                self.scores, out,
            )  # fmt: skip

        run(piece, range(0, len(out), size))
        return out


@njit(nogil=True, cache=True)
def _spread_place(sums: Array, stride: int, symbols: int, first: int, last: int) -> None:
    """The groups of l-mers that are equal but for one position, from number `first` on."""
    for group in range(first, last):
        begin = group // stride * stride * symbols + group % stride
        for d in range(len(sums) - 1, 0, -1):
            total = 0.0
            for x in range(symbols):
                total += sums[d - 1, begin + x * stride]
            for x in range(symbols):
                sums[d, begin + x * stride] += total - sums[d - 1, begin + x * stride]


@njit(nogil=True, cache=True)
def _sum_scores(
    codes: Array, starts: Array, weights: Array, indptr: Array, first: int, last: int, length: int,
    symbols: int, scores: Array, out: Array,
) -> None:  # fmt: skip
    for i in range(first, last):
        for mer in range(indptr[i], indptr[i + 1]):
            key = 0
            for p in range(length):
                key = key * symbols + codes[starts[mer] + p]
            for machine in range(scores.shape[1]):
                out[i, machine] += weights[mer] * scores[key, machine]
