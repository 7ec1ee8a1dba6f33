"""What the twins of the kernel of gapped k-mers have in common: features, mask by mask; see gapped.py.

Weighted sums of gapped k-mers by looking up, where the possible keys of a mask are few, on the CPU.

A machine that is linear in the features has a table of weights w_M[key] for each mask M, and its value of a
text is sum_M sum_key f(c_M(key)) w_M[key]. The windows are passed over once: the occurrence number c + 1 of a
key adds (f(c + 1) - f(c)) w_M[key], and f(c + 1)^2 - f(c)^2 to k(s, s). Nothing is sorted, no list is made,
and the support vectors do not matter any more. Cost: a look-up for each mask and window.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from textsvm.kernels.base import BLOCK_BYTES, Predictor, RowsPredictor
from textsvm.kernels.mers.windows import LETTERS, Mask, MaskedWindows, strands
from textsvm.kernels.normalisation import Normalisation
from textsvm.kernels.spectrum.features import weigh
from textsvm.kernels.spectrum.pmers import share
from textsvm.runtime import device as devices
from textsvm.runtime.compiled import njit
from textsvm.runtime.device import Device, array_module, device_of
from textsvm.runtime.parallel import Progress
from textsvm.text.documents import Documents

#: Bytes of the features of the column documents that are kept; where they are more, they are made again.
KEEP_BYTES, ENTRY_BYTES = 1 << 29, 48
#: Bytes of weight vectors; where they are more, a prediction compares with the support vectors.
WEIGHT_BYTES = 1 << 30
#: Symbols of documents that are predicted together.
BATCH = 1 << 23


class Parameters(Protocol):
    """The parameters of `textsvm.kernels.mers.gapped.GappedKmers`."""

    g: int
    weight: str
    canonical: bool
    normalised: bool

    @property
    def masks(self) -> tuple[Mask, ...]:
        """What is compared of a window."""


class OneMask(Protocol):
    """Documents as rows of the features of one mask, on either device."""

    @property
    def mask(self) -> Mask:
        """What is compared."""

    @property
    def vocabulary(self) -> Any:
        """Finds the features of these documents in others."""

    @property
    def x(self) -> Any:
        """X, a `Sparse` or `CudaSparse`."""

    @property
    def columns(self) -> Any:
        """X by columns."""

    @property
    def squares(self) -> NDArray[np.float64]:
        """|x|^2 of every row, `mask.times` times, on the host."""

    def over(self, vocabulary: Any) -> Any:
        """X over the features of other documents."""

    def products(self, x: Any) -> Any:
        """Products of the rows of `x`, over the same features, with those of X, `mask.times` times."""

    def rows(self, indices: NDArray[np.int64]) -> Any:
        """The same for some of its own rows."""


class GappedRows(ABC):
    """Kernel values against fixed documents (`KernelRows`); a twin says how one mask is done.

    Parameters
    ----------
    kernel : GappedKmers
    documents : Documents
        The columns.
    device : Device
    """

    ahead = 64  # a pass over the masks takes as long for one

    def __init__(self, kernel: Parameters, documents: Documents, device: Device) -> None:
        self.kernel, self.documents, self.device = kernel, documents, device
        self.n = len(documents)
        with devices.use(device):
            self.windows = self.windows_of(kernel, documents)
        self._kept: list[OneMask] = []

    @staticmethod
    @abstractmethod
    def windows_of(kernel: Parameters, documents: Documents) -> Any:
        """The windows of documents, where the work is done."""

    @staticmethod
    @abstractmethod
    def represent(kernel: Parameters, windows: Any, mask: Mask) -> OneMask:
        """What a mask makes of windows."""

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
    def gram(self, progress: Progress | None = None) -> Any:
        """See `KernelRows`."""

    def made(self) -> Iterator[OneMask]:
        """The column documents, one mask after the other, made as they are needed."""
        return (self.represent(self.kernel, self.windows, mask) for mask in self.kernel.masks)

    def parts(self) -> Iterator[OneMask]:
        """The same, kept where they are small."""
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
            return devices.array_module(self.device).asarray(self.normalisation.diagonal())

    def rows(self, indices: NDArray[np.int64]) -> Any:
        indices = np.asarray(indices, np.int64)
        with devices.use(self.device):
            xp = devices.array_module(self.device)
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
            total = devices.array_module(self.device).zeros((len(others), self.n), np.float32)
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
        values = np.empty((len(others), coef.shape[1]))
        size = max(1, BLOCK_BYTES // (4 * max(1, self.n)))
        for start in range(0, len(others), size):
            block = others.take(np.arange(start, min(start + size, len(others))))
            values[start : start + size] = devices.to_host(self.cross(block)) @ coef
            report(progress, start + len(block), len(others))
        return values

    def predictor(self, coef: NDArray[np.float64]) -> Predictor:
        """In the space of the features, where they are not too many; coef has shape (n_machines, n)."""
        return GappedPredictor(self, coef) if self.few_features(len(coef)) else RowsPredictor(self, coef)

    def few_features(self, n_machines: int) -> bool:
        """Whether there is room for a weight vector of each machine."""
        kept = len(self.kernel.masks[0].kept)
        most = min(len(self.windows.starts), self.windows.n_symbols**kept)
        return most * len(self.kernel.masks) * 8 * (1 + n_machines) <= WEIGHT_BYTES


class GappedPredictor:
    """Prediction in feature space, on either device: see `Predictor`.

    Parameters
    ----------
    rows : GappedRows
        Of the support vectors.
    coef : float64 array, shape (n_machines, n_sv)
    """

    def __init__(self, rows: GappedRows, coef: NDArray[np.float64]) -> None:
        self.device, self.coef, self.kernel = rows.device, coef, rows.kernel
        self.twin, self.columns = type(rows), rows.normalisation
        scaled = self.columns.scale[:, None] * coef.T
        with devices.use(self.device):
            self.weights = [
                (part.mask, part.vocabulary, part.x.transposed_dot(part.mask.times * scaled))
                for part in rows.parts()
            ]
        self._made: dict[int, Tables] = {}

    def values(self, documents: Documents, progress: Progress | None = None) -> NDArray[np.float64]:
        """See `Predictor`."""
        values = np.empty((len(documents), len(self.coef)))
        with devices.use(self.device):
            for first, last in batches(documents):
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
        return base_of(self.weights)

    def _has_room(self, texts: Texts, base: int) -> bool:
        keys = base ** len(self.weights[0][0].kept)
        fits = self.twin.can_look_up(texts, keys)
        return fits and 8 * keys * len(self.weights) * len(self.coef) <= WEIGHT_BYTES

    def _tables(self, base: int) -> Tables:
        if base not in self._made:
            self._made[base] = Tables.of(self.weights, base)
        return self._made[base]


def batches(documents: Documents) -> list[tuple[int, int]]:
    """Ranges of documents of at most about BATCH symbols, or of one document."""
    cuts = np.flatnonzero(np.diff(documents.offsets[:-1] // BATCH)) + 1
    begins = [0, *cuts.tolist()] if len(documents) else []
    return list(zip(begins, [*begins[1:], len(documents)], strict=True)) if begins else []


def finish(total: Any, own: Normalisation, columns: Normalisation) -> None:
    """Sums of products to kernel values, in place: matrix of (own, columns), NumPy or CuPy."""
    xp = devices.array_module(devices.device_of(total))
    if own.normalised:
        row_scale, scale = xp.asarray(own.scale), xp.asarray(columns.scale)
        size = max(1, (1 << 22) // max(1, len(scale)))
        for first in range(0, len(total), size):
            some = slice(first, first + size)
            total[some] = total[some] * (row_scale[some, None] * scale)
    own.finish_rows(total, columns)


def values_of(weight: str, most: int) -> NDArray[np.float32]:
    """What becomes of 0, 1, 2, ... and `most` occurrences; 0 of none."""
    return np.append(0, weigh(weight, np.arange(1, most + 1, dtype=np.int32))).astype(np.float32)


def report(progress: Progress | None, done: float, total: float) -> None:
    """Call `progress`, if there is one."""
    if progress is not None:
        progress(done, total)


Array = NDArray[Any]
#: Codes of one byte.
MOST_SYMBOLS = 256
#: Possible keys of a mask whose counts stay in the cache.
MOST_KEYS = 1 << 17


@dataclass(frozen=True)
class Texts:
    """Texts of few symbols, and what their windows are.

    Attributes
    ----------
    codes : uint8 array
        Of one strand.
    offsets : int64 array, shape (n + 1,)
    g : int
        Symbols of a window.
    strands : int
        1, or 2: the codes are those of `gapped.LETTERS` then.
    n_symbols : int
        One more than the largest code.
    """

    codes: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    g: int
    strands: int
    n_symbols: int

    @classmethod
    def of(cls, documents: Documents, g: int, both_strands: bool) -> Texts | None:
        """Those of documents; None if they have too many symbols.

        Raises
        ------
        InputError
            With `both_strands`, if there are other symbols than acgtun.
        """
        if not both_strands and len(documents.alphabet) > MOST_SYMBOLS:
            return None
        codes = strands(documents)[: len(documents.codes)] if both_strands else documents.codes
        n_symbols = int(codes.max(initial=0)) + 1
        return cls(codes.astype(np.uint8), documents.offsets, g, 1 + both_strands, n_symbols)

    @property
    def windows(self) -> int:
        """The most windows that a text has, of all strands."""
        return self.strands * max(int(np.diff(self.offsets).max(initial=0)) - self.g + 1, 0)


@dataclass(frozen=True)
class Tables:
    """Weights of all possible keys of some masks, NumPy or CuPy.

    Attributes
    ----------
    n_symbols : int
        Keys are numbers of as many digits as a mask keeps positions, to this base.
    kept : int32 array, (masks, positions), on the host
    times : int32 array, (masks,), on the host
    weights : float64 array, (machines, masks, keys)
    """

    n_symbols: int
    kept: NDArray[np.int32]
    times: NDArray[np.int32]
    weights: Any

    @classmethod
    def of(cls, parts: Sequence[tuple[Mask, MaskedWindows, Any]], n_symbols: int) -> Tables:
        """From masks, the features that have weights, and these, (features, machines)."""
        kept = np.array([mask.kept for mask, _, _ in parts], np.int32)
        times = np.array([mask.times for mask, _, _ in parts], np.int32)
        xp = array_module(device_of(parts[0][2]))
        made = xp.zeros((parts[0][2].shape[1], len(parts), n_symbols ** kept.shape[1]))
        for at, (_, vocabulary, weights) in enumerate(parts):
            digits, keys = digits_of(vocabulary, kept.shape[1]), 0
            for column in digits:
                keys = keys * n_symbols + column
            made[:, at, xp.asarray(keys)] = weights.T
        return cls(n_symbols, kept, times, made)


def digits_of(vocabulary: MaskedWindows, number: int) -> NDArray[np.int64]:
    """The codes that each key of a vocabulary of one stage is made of, (number, size), on the host."""
    keys = vocabulary.stages[0].keys
    rest = (keys if device_of(keys).kind == "cpu" else keys.get()).astype(np.int64)
    digits = np.empty((number, len(rest)), np.int64)
    for place in range(number - 1, -1, -1):
        rest, digits[place] = np.divmod(rest, max(vocabulary.n_symbols, 1))
    return digits


def base_of(parts: Sequence[tuple[Mask, MaskedWindows, Any]]) -> int:
    """One more than the largest code in the features of masks; 0 if their keys have several stages."""
    if any(len(vocabulary.stages) != 1 for _, vocabulary, _ in parts):
        return 0
    return max(int(digits_of(vocabulary, len(mask.kept)).max(initial=0)) + 1 for mask, vocabulary, _ in parts)


def look_up(
    texts: Texts, tables: Tables, values: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sums of weights, (n, machines), and k(s, s), (n,).

    Parameters
    ----------
    texts : Texts
        With codes below `tables.n_symbols`.
    tables : Tables
    values : float64 array
        What becomes of 0, 1, 2, ... occurrences, as many as a text has windows.
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
