"""Kernel rows and prediction of gapped k-mers, mask by mask; the twins are in gapped.py and gapped_cuda.py.

A machine that is linear in the features has a weight table w_M[key] for each mask M, and its value for a text
is sum_M sum_key f(c_M(key)) w_M[key]. If masks have few possible keys, `look_up` passes over the windows
once: occurrence number c + 1 of a key adds (f(c + 1) - f(c)) w_M[key], and f(c + 1)^2 - f(c)^2 to k(s, s).
Nothing is sorted, and the cost, a look-up per mask and window, does not depend on the number of support
vectors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.kernels.contract import Predictor, RowsPredictor
from textsvm.kernels.mers.rows import decision_by_rows
from textsvm.kernels.mers.windows import LETTERS, Mask, MaskedWindows, strands
from textsvm.kernels.normalisation import Normalisation
from textsvm.kernels.spectrum.counting import share
from textsvm.kernels.spectrum.features import weigh
from textsvm.runtime import device as devices
from textsvm.runtime.compiled import njit
from textsvm.runtime.device import Device, array_module, device_of
from textsvm.runtime.parallel import Progress
from textsvm.text.documents import Documents, batches

Array = NDArray[Any]
#: Bytes of the features of the column documents that are kept; larger ones are recomputed. Bytes per entry.
KEEP_BYTES, ENTRY_BYTES = 1 << 29, 48
#: Bytes of weight vectors; above, prediction uses kernel values with the support vectors.
WEIGHT_BYTES = 1 << 30
#: Symbols of documents that are predicted together.
BATCH = 1 << 23
#: Codes of one byte.
MOST_SYMBOLS = 256
#: Possible keys of a mask whose counts stay in the cache.
MOST_KEYS = 1 << 17
#: A mask, its vocabulary, and weights of shape (features, machines).
MaskWeights = tuple[Mask, MaskedWindows, Any]


class GappedRows(ABC):
    """Kernel values of `GappedKmers` with fixed documents (`KernelRows`); a twin processes single masks."""

    ahead = 64  # a pass over the masks takes about as long for a single row

    def __init__(self, kernel: Any, documents: Documents, device: Device) -> None:
        self.kernel, self.documents, self.device = kernel, documents, device
        self.n = len(documents)
        with devices.use(device):
            self.windows = self.windows_of(kernel, documents)
        self._kept: list[Any] = []

    @staticmethod
    @abstractmethod
    def windows_of(kernel: Any, documents: Documents) -> Any:
        """Windows of documents, on the device."""

    @staticmethod
    @abstractmethod
    def represent(kernel: Any, windows: Any, mask: Mask) -> Any:
        """Documents as rows of the features of one mask.

        The result has the attributes `mask`, `vocabulary` (finds the features in other documents), `x`,
        `squares` (`mask.times` |x|^2 of every row, on the host), and the methods ``over(vocabulary)`` (X over
        the features of other documents), ``products(x)`` (`mask.times` the products of the rows of `x` with
        those of X) and ``rows(indices)`` (the same for rows of X).
        """

    @staticmethod
    @abstractmethod
    def can_look_up(texts: Texts, keys: int) -> bool:
        """Whether `look_up` has room for the possible keys of a mask."""

    @staticmethod
    @abstractmethod
    def look_up(
        texts: Texts, tables: Tables, values: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """See `textsvm.kernels.mers.gapped_rows.look_up`."""

    @abstractmethod
    def gram(self, progress: Progress | None = None) -> Any: ...

    def made(self) -> Iterator[Any]:
        """`represent` the column documents, mask by mask, lazily."""
        return (self.represent(self.kernel, self.windows, mask) for mask in self.kernel.masks)

    def parts(self) -> Iterator[Any]:
        """The same, cached if small."""
        small = len(self.kernel.masks) * len(self.windows.starts) * ENTRY_BYTES <= KEEP_BYTES
        if small and not self._kept:
            self._kept = list(self.made())
        return iter(self._kept) if small else self.made()

    @cached_property
    def normalisation(self) -> Normalisation:
        """k(s, s) of the columns."""
        with devices.use(self.device):
            return self._normalisation(sum((part.squares for part in self.parts()), np.zeros(self.n)))

    def _normalisation(self, squares: NDArray[np.float64]) -> Normalisation:
        return Normalisation(self.documents, squares, self.kernel.normalised)

    def diag(self) -> Any:
        with devices.use(self.device):
            return array_module(self.device).asarray(self.normalisation.diagonal())

    def rows(self, indices: NDArray[np.int64]) -> Any:
        indices = np.asarray(indices, np.int64)
        with devices.use(self.device):
            xp = array_module(self.device)
            total = xp.zeros((len(indices), self.n), np.float32)
            for part in self.parts():
                total += part.rows(indices)
            finish(total, self.normalisation.take(indices), self.normalisation)
            if self.kernel.normalised:
                total[xp.arange(len(indices)), xp.asarray(indices)] = 1
            return total

    def cross(self, others: Documents, progress: Progress | None = None) -> Any:
        columns = self.normalisation
        with devices.use(self.device):
            total = array_module(self.device).zeros((len(others), self.n), np.float32)
            windows, squares = self.windows_of(self.kernel, others), np.zeros(len(others))
            for number, part in enumerate(self.parts() if len(others) else (), 1):
                own = self.represent(self.kernel, windows, part.mask)
                squares += own.squares
                total += part.products(own.over(part.vocabulary))
                report(progress, number, len(self.kernel.masks))
            finish(total, Normalisation(others, squares, self.kernel.normalised, columns), columns)
            return total

    def decision(
        self, others: Documents, coef: NDArray[np.float64], progress: Progress | None = None
    ) -> NDArray[np.float64]:
        if self.few_features(coef.shape[1]):
            return GappedPredictor(self, coef.T).values(others, progress)
        return decision_by_rows(self, others, coef, progress)

    def predictor(self, coef: NDArray[np.float64]) -> Predictor:
        """Predictor in feature space if weight vectors fit into memory; coef has shape (n_machines, n)."""
        return GappedPredictor(self, coef) if self.few_features(len(coef)) else RowsPredictor(self, coef)

    def few_features(self, n_machines: int) -> bool:
        """Whether a weight vector for each machine fits into memory."""
        kept = len(self.kernel.masks[0].kept)
        most = min(len(self.windows.starts), self.windows.n_symbols**kept)
        return most * len(self.kernel.masks) * 8 * (1 + n_machines) <= WEIGHT_BYTES


class GappedPredictor:
    """Predictor in feature space on either device; coef has shape (n_machines, n_sv)."""

    def __init__(self, rows: GappedRows, coef: NDArray[np.float64]) -> None:
        self.device, self.coef, self.kernel = rows.device, coef, rows.kernel
        self.twin, self.columns = type(rows), rows.normalisation
        scaled = self.columns.scale[:, None] * coef.T
        with devices.use(self.device):
            self.weights: list[MaskWeights] = [
                (part.mask, part.vocabulary, part.x.transposed_dot(part.mask.times * scaled))
                for part in rows.parts()
            ]
        self._tables_by_base: dict[int, Tables] = {}

    def values(self, documents: Documents, progress: Progress | None = None) -> NDArray[np.float64]:
        values = np.empty((len(documents), len(self.coef)))
        with devices.use(self.device):
            for first, last in batches(documents, BATCH):
                values[first:last] = self._values(documents.take(np.arange(first, last)))
                report(progress, last, len(documents))
        return values

    def _values(self, documents: Documents) -> NDArray[np.float64]:
        texts = Texts.of(documents, self.kernel.g, self.kernel.canonical)
        base = max(self._base, texts.n_symbols) if texts is not None and self._base else 0
        if texts is not None and base and self._has_room(texts, base):
            counts = values_of(self.kernel.weight, texts.windows).astype(np.float64)
            values, squares = self.twin.look_up(texts, self._tables(base), counts)
        else:
            values, squares = self._counted(documents)
        own_scale = Normalisation(documents, squares, self.kernel.normalised, self.columns)
        values *= own_scale.scale[:, None]
        own_scale.finish_values(values, self.coef, self.columns)
        return values

    def _counted(self, documents: Documents) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sums of weights and k(s, s), from counts of all features of the documents."""
        windows, squares = self.twin.windows_of(self.kernel, documents), np.zeros(len(documents))
        values = np.zeros((len(documents), len(self.coef)))
        for mask, vocabulary, weights in self.weights:
            own = self.twin.represent(self.kernel, windows, mask)
            squares += own.squares
            values += devices.to_host(own.over(vocabulary).dot(weights))
        return values, squares

    @cached_property
    def _base(self) -> int:
        """One more than the largest code in the vocabularies; 0 if their keys have several stages."""
        if any(len(vocabulary.stages) != 1 for _, vocabulary, _ in self.weights):
            return 0
        digits = (digits_of(vocabulary, len(mask.kept)) for mask, vocabulary, _ in self.weights)
        return max(int(codes.max(initial=0)) + 1 for codes in digits)

    def _has_room(self, texts: Texts, base: int) -> bool:
        keys = base ** len(self.weights[0][0].kept)
        fits = self.twin.can_look_up(texts, keys)
        return fits and 8 * keys * len(self.weights) * len(self.coef) <= WEIGHT_BYTES

    def _tables(self, base: int) -> Tables:
        if base not in self._tables_by_base:
            self._tables_by_base[base] = Tables.of(self.weights, base)
        return self._tables_by_base[base]


def finish(total: Any, own: Normalisation, columns: Normalisation) -> None:
    """Turn sums of products (own, columns), NumPy or CuPy, into kernel values in place."""
    xp = array_module(device_of(total))
    if own.normalised:
        row_scale, scale = xp.asarray(own.scale), xp.asarray(columns.scale)
        size = max(1, (1 << 22) // max(1, len(scale)))
        for first in range(0, len(total), size):
            some = slice(first, first + size)
            total[some] = total[some] * (row_scale[some, None] * scale)
    own.finish_rows(total, columns)


def values_of(weight: str, most: int) -> NDArray[np.float32]:
    """Feature values of 0, 1, ..., `most` occurrences."""
    return np.append(0, weigh(weight, np.arange(1, most + 1, dtype=np.int32))).astype(np.float32)


def report(progress: Progress | None, done: float, total: float) -> None:
    """Call `progress` if given."""
    if progress is not None:
        progress(done, total)


@dataclass(frozen=True)
class Texts:
    """Texts over a small alphabet, for `look_up`.

    codes : uint8, of one strand
    offsets : int64, (n + 1,)
    g : symbols per window
    strands : 1, or 2 with codes of `LETTERS`
    n_symbols : one more than the largest code
    """

    codes: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    g: int
    strands: int
    n_symbols: int

    @classmethod
    def of(cls, documents: Documents, g: int, both_strands: bool) -> Texts | None:
        """From documents; None if they have too many symbols."""
        if not both_strands and len(documents.alphabet) > MOST_SYMBOLS:
            return None
        codes = strands(documents)[: len(documents.codes)] if both_strands else documents.codes
        n_symbols = int(codes.max(initial=0)) + 1
        return cls(codes.astype(np.uint8), documents.offsets, g, 1 + both_strands, n_symbols)

    @property
    def windows(self) -> int:
        """Maximum number of windows of a text, on all strands."""
        return self.strands * max(int(np.diff(self.offsets).max(initial=0)) - self.g + 1, 0)


@dataclass(frozen=True)
class Tables:
    """Weights of all possible keys of some masks, NumPy or CuPy.

    n_symbols : base of the keys, which have as many digits as a mask keeps positions
    kept : int32, (masks, positions), on the host
    times : int32, (masks,), on the host
    weights : float64, (machines, masks, keys)
    """

    n_symbols: int
    kept: NDArray[np.int32]
    times: NDArray[np.int32]
    weights: Any

    @classmethod
    def of(cls, parts: Sequence[MaskWeights], n_symbols: int) -> Tables:
        """Tables of weight vectors, with keys to the base `n_symbols`."""
        kept = np.array([mask.kept for mask, _, _ in parts], np.int32)
        times = np.array([mask.times for mask, _, _ in parts], np.int32)
        xp = array_module(device_of(parts[0][2]))
        tables = xp.zeros((parts[0][2].shape[1], len(parts), n_symbols ** kept.shape[1]))
        for at, (_, vocabulary, weights) in enumerate(parts):
            digits, keys = digits_of(vocabulary, kept.shape[1]), 0
            for column in digits:
                keys = keys * n_symbols + column
            tables[:, at, xp.asarray(keys)] = weights.T
        return cls(n_symbols, kept, times, tables)


def digits_of(vocabulary: MaskedWindows, number: int) -> NDArray[np.int64]:
    """Codes of each key of a vocabulary with one stage, shape (number, size), on the host."""
    rest = devices.to_host(vocabulary.stages[0].keys).astype(np.int64)
    digits = np.empty((number, len(rest)), np.int64)
    for place in range(number - 1, -1, -1):
        rest, digits[place] = np.divmod(rest, max(vocabulary.n_symbols, 1))
    return digits


def look_up(
    texts: Texts, tables: Tables, values: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sums of weights, (n, machines), and k(s, s), (n,), of texts with codes below `tables.n_symbols`.

    `values` are the feature values of 0, 1, 2, ... occurrences, up to `texts.windows`.
    """
    n, more, more_square = len(texts.offsets) - 1, np.diff(values), np.diff(values**2)
    sums, squares = np.zeros((n, len(tables.weights))), np.zeros(n)
    paired = np.arange(MOST_SYMBOLS)
    paired[: len(LETTERS) - 1] = paired[: len(LETTERS) - 1][::-1].copy()
    sizes = (texts.g, texts.strands, tables.n_symbols)

    def fill(first: int, last: int) -> None:
        given = (texts.codes, texts.offsets, paired, *sizes, tables.kept, tables.times)
        _look_up(first, last, *given, more, more_square, tables.weights, sums, squares)

    share(texts.offsets, fill)
    return sums, squares


@njit(nogil=True, cache=True)
def _look_up(
    first, last, codes, offsets, paired, g, n_strands, n_symbols, kept, times, more, more_square, weights,
    sums, squares,
):  # fmt: skip
    counts = np.zeros(weights.shape[2], np.int32)
    keys, gains = np.empty(len(more), np.uint32), np.empty(len(more))
    for i in range(first, last):
        begin, size = offsets[i], max(offsets[i + 1] - offsets[i] - g + 1, 0)
        for mask in range(len(kept)):
            keys[: size * n_strands] = 0
            for place in kept[mask]:
                for w in range(size):
                    keys[w] = keys[w] * n_symbols + codes[begin + place + w]
                for w in range(size if n_strands == 2 else 0):
                    keys[size + w] = keys[size + w] * n_symbols + paired[codes[begin + w + g - 1 - place]]
            square = 0.0
            for w in range(size * n_strands):
                count = counts[keys[w]]
                counts[keys[w]] = count + 1
                square += more_square[count]
                gains[w] = more[count]
            squares[i] += times[mask] * square
            for machine in range(len(weights)):
                table, total = weights[machine, mask], 0.0
                for w in range(size * n_strands):
                    total += gains[w] * table[keys[w]]
                sums[i, machine] += total
            for w in range(size * n_strands):
                counts[keys[w]] = 0
