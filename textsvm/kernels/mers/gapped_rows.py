"""Kernel rows and prediction of gapped k-mers, mask by mask, with the CPU twin (GPU: gapped_cuda.py).

A machine that is linear in the features has a weight table w_M[key] for each mask M, and its value for a text
is sum_M sum_key f(c_M(key)) w_M[key]. If masks have few possible keys, `look_up` passes over the windows
once: occurrence number c + 1 of a key adds (f(c + 1) - f(c)) w_M[key], and f(c + 1)^2 - f(c)^2 to k(s, s).
Nothing is sorted, and the cost, a look-up per mask and window, does not depend on the number of support
vectors.

For a Gram on a CPU the windows are sorted by id for each mask (counting sort), so each feature has a list of
documents. Row i of the Gram then passes over all masks of a group while it stays in the cache:

    sums_j += x_iu x_ju    for every feature u of i, and the documents j after i on the list of u
    total_ij += sums_j     rounded to float32 once per mask, as in `products.Half`

With weight "count" a list names a document as often as it has the feature, so no values are read: integers
add up exactly in float32 while a product is below 2^24. Other values are put on a grid (`Sparse.on_grid`),
and their products summed in float64, exactly in any order. Cost: sum_u df_u^2 / 2 additions into a cached
row, where df_u is the length of the list of u, and n^2 / 2 to move the sums of a mask.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.arrays import AnyArray, Array, Floats, Floats32, Ints, Ints32, UnsignedInts
from textsvm.kernels.contract import FeatureTable, FeatureTerm, Predictor, RowsPredictor, decision_by_rows
from textsvm.kernels.mers.windows import LETTERS, UNKNOWN, Mask, MaskedWindows, Windows, strands, windows_of
from textsvm.kernels.shared.counting import count_ids, weigh
from textsvm.kernels.shared.feature_rows import ComparedRows
from textsvm.kernels.shared.normalisation import Normalisation, feature_term, finished_gram
from textsvm.linalg.products import DENSE_SHARE, Half, InvertedIndex
from textsvm.linalg.sparse import Counts, Sparse, grid_unit, run_on_ranges
from textsvm.runtime import device as devices
from textsvm.runtime.compiled import njit, use_numpy
from textsvm.runtime.device import Device, array_module, device_of
from textsvm.runtime.parallel import Progress, n_threads, part, report, run
from textsvm.text.documents import Documents, batches

KEEP_BYTES = 1 << 29  #: Features of the column documents of up to these bytes are cached.
ENTRY_BYTES = 48  #: Bytes per entry of the features.
#: Bytes of weight vectors; above, prediction uses kernel values with the support vectors.
WEIGHT_BYTES = 1 << 30
BATCH = 1 << 23  #: Symbols of documents that are predicted together.
MOST_SYMBOLS = 256  #: Codes of one byte.
MOST_KEYS = 1 << 17  #: Possible keys of a mask whose counts stay in the cache.
TABLE = 1 << 16  #: Number of possible keys of a mask up to which keys are never ranked.
GROUP_BYTES = 1 << 26  #: Bytes of the lists of a group of masks.
MOST_BYTES = 1 << 30  #: Largest bytes of the lists of a group of a mask per core.
WINDOW_BYTES = 20  #: Bytes of the lists of one mask, for each window.
TILE_RATE = 20.0  #: Multiply-adds of a tile product in the time of one addition from a list.
ROWS = 32  #: Rows per piece of work.
POSITIONS = 4096  #: Positions whose keys are computed together.
#: A mask, its vocabulary, and weights of shape (features, machines).
MaskWeights = tuple[Mask, MaskedWindows, Array]


class GappedRows(ComparedRows):
    """Kernel values of `GappedKmers` with fixed documents (`KernelRows`); subclasses process a mask."""

    def __init__(self, kernel: Any, documents: Documents, device: Device) -> None:
        super().__init__(kernel, documents, device)
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
        """Documents as rows of the features of a mask, a `HostMask` or `CudaMask`."""

    @staticmethod
    @abstractmethod
    def can_look_up(texts: CodedTexts, keys: int) -> bool:
        """Whether `look_up` has room for the possible keys of a mask."""

    @staticmethod
    @abstractmethod
    def look_up(texts: CodedTexts, tables: Tables, values: Floats) -> tuple[Floats, Floats]:
        """Sums of weights, (n, machines), and k(s, s), (n,), of texts with codes below `tables.n_symbols`.

        `values` are the feature values of 0, 1, 2, ... occurrences, up to `texts.windows`.
        """

    def represent_masks(self) -> Iterator[Any]:
        """`represent` the column documents, mask by mask, lazily."""
        return (self.represent(self.kernel, self.windows, mask) for mask in self.kernel.masks)

    def masks(self) -> Iterator[Any]:
        """The masks of `represent_masks`, cached if they are small."""
        small = len(self.kernel.masks) * len(self.windows.starts) * ENTRY_BYTES <= KEEP_BYTES
        if small and not self._kept:
            self._kept = list(self.represent_masks())
        return iter(self._kept) if small else self.represent_masks()

    @cached_property
    def normalisation(self) -> Normalisation:  # type: ignore[override]
        with devices.use(self.device):
            return self._normalisation(sum((columns.squares for columns in self.masks()), np.zeros(self.n)))

    def _normalisation(self, squares: Floats) -> Normalisation:
        return Normalisation(self.documents, squares, self.kernel.normalised)

    def compare_own(self, indices: Ints, own: Normalisation) -> Array:
        total = array_module(self.device).zeros((len(indices), self.n), np.float32)
        for columns in self.masks():
            total += columns.rows(indices)
        apply_scales(total, own, self.normalisation)
        return total

    def compare_others(self, others: Documents, progress: Progress | None) -> tuple[Array, Normalisation]:
        normalisation = self.normalisation
        total = array_module(self.device).zeros((len(others), self.n), np.float32)
        windows, squares = self.windows_of(self.kernel, others), np.zeros(len(others))
        for number, columns in enumerate(self.masks() if len(others) else (), 1):
            rows = self.represent(self.kernel, windows, columns.mask)
            squares += rows.squares
            total += columns.products(rows.over(columns.vocabulary))
            report(progress, number, len(self.kernel.masks))
        own = Normalisation(others, squares, self.kernel.normalised, normalisation)
        apply_scales(total, own, normalisation)
        return total, own

    def decision(self, others: Documents, coef: Floats, progress: Progress | None = None) -> Floats:
        if self.few_features(coef.shape[1]):
            return GappedPredictor(self, coef.T).values(others, progress)
        return decision_by_rows(self, others, coef, progress, on_host=True)

    def predictor(self, coef: Floats) -> Predictor:
        """Predictor in feature space if weight vectors fit into memory; coef has shape (n_machines, n)."""
        return GappedPredictor(self, coef) if self.few_features(len(coef)) else RowsPredictor(self, coef)

    def few_features(self, n_machines: int) -> bool:
        """Whether a weight vector for each machine fits into memory."""
        n_positions = len(self.kernel.masks[0].positions)
        most = min(len(self.windows.starts), self.windows.n_symbols**n_positions)
        return most * len(self.kernel.masks) * 8 * (1 + n_machines) <= WEIGHT_BYTES


class GappedPredictor:
    """Predictor in feature space on either device; coef has shape (n_machines, n_sv)."""

    def __init__(self, rows: GappedRows, coef: Floats) -> None:
        self.device, self.coef, self.kernel = rows.device, coef, rows.kernel
        # The class only: the rows would keep the features of the support vectors in memory.
        self.rows, self.columns = type(rows), rows.normalisation
        scaled = self.columns.scale[:, None] * coef.T
        with devices.use(self.device):
            self.weights: list[MaskWeights] = [
                (own.mask, own.vocabulary, own.x.transposed_dot(own.mask.times * scaled))
                for own in rows.masks()
            ]
        self._tables: dict[int, Tables] = {}

    def values(self, documents: Documents, progress: Progress | None = None) -> Floats:
        values = np.empty((len(documents), len(self.coef)))
        with devices.use(self.device):
            for first, last in batches(documents, BATCH):
                values[first:last] = self._values(documents.take(np.arange(first, last)))
                report(progress, last, len(documents))
        return values

    def feature_terms(self, examples: Documents) -> list[FeatureTerm]:
        """All that prediction needs, for export; `examples` have the alphabet of training."""
        kernel, tables = self.kernel, []
        for mask, vocabulary, weights in self.weights:
            codes = np.stack(vocabulary.strings(), axis=1)
            positions = np.array([mask.positions], np.int64)
            rest = (mask.times, codes, None, np.ones(len(codes), np.int64), weights)
            tables.append(FeatureTable(positions, int(kernel.g), np.ones(1), *rest))
        machines = kernel, self.columns, self.coef, examples
        return [feature_term(*machines, count=kernel.weight, tables=tables)]

    def _values(self, documents: Documents) -> Floats:
        texts = CodedTexts.of(documents, self.kernel.g, self.kernel.canonical)
        base = max(self._base, texts.n_symbols) if texts is not None and self._base else 0
        if texts is not None and base and self._has_room(texts, base):
            if base not in self._tables:
                self._tables[base] = Tables.of(self.weights, base)
            counts = values_of(self.kernel.weight, texts.windows).astype(np.float64)
            values, squares = self.rows.look_up(texts, self._tables[base], counts)
        else:
            values, squares = self._counted(documents)
        own_scale = Normalisation(documents, squares, self.kernel.normalised, self.columns)
        values *= own_scale.scale[:, None]
        own_scale.finish_values(values, self.coef, self.columns)
        return values

    def _counted(self, documents: Documents) -> tuple[Floats, Floats]:
        """Sums of weights and k(s, s), from counts of all features of the documents."""
        windows, squares = self.rows.windows_of(self.kernel, documents), np.zeros(len(documents))
        values = np.zeros((len(documents), len(self.coef)))
        for mask, vocabulary, weights in self.weights:
            own = self.rows.represent(self.kernel, windows, mask)
            squares += own.squares
            values += devices.to_host(own.over(vocabulary).dot(weights))
        return values, squares

    @cached_property
    def _base(self) -> int:
        """The largest code in the vocabularies + 1; 0 if their keys have several stages."""
        if any(len(vocabulary.stages) != 1 for _, vocabulary, _ in self.weights):
            return 0
        digits = (digits_of(vocabulary, len(mask.positions)) for mask, vocabulary, _ in self.weights)
        return max(int(codes.max(initial=0)) + 1 for codes in digits)

    def _has_room(self, texts: CodedTexts, base: int) -> bool:
        keys = base ** len(self.weights[0][0].positions)
        fits = self.rows.can_look_up(texts, keys)
        return fits and 8 * keys * len(self.weights) * len(self.coef) <= WEIGHT_BYTES


def apply_scales(total: Array, own: Normalisation, columns: Normalisation) -> None:
    """Multiply products (own, columns), NumPy or CuPy, by both scales of a normalised kernel in place."""
    if own.normalised:
        xp = array_module(device_of(total))
        row_scale, scale = xp.asarray(own.scale), xp.asarray(columns.scale)
        size = max(1, (1 << 22) // max(1, len(scale)))
        for first in range(0, len(total), size):
            block = slice(first, first + size)
            total[block] = total[block] * (row_scale[block, None] * scale)


def values_of(weight: str, most: int) -> Floats32:
    """Feature values of 0, 1, ..., `most` occurrences."""
    return np.append(0, weigh(weight, np.arange(1, most + 1, dtype=np.int32))).astype(np.float32)


@dataclass(frozen=True)
class CodedTexts:
    """Texts over a small alphabet, for `look_up`."""

    codes: NDArray[np.uint8]  #: Of a single strand
    #: Whether the window that starts at a symbol counts: not with an ambiguous base.
    counted: NDArray[np.uint8]
    offsets: Ints  #: shape (n + 1,)
    g: int  #: Symbols per window
    strands: int  #: 1, or 2 with codes of `LETTERS`
    n_symbols: int  #: The largest code + 1

    @classmethod
    def of(cls, documents: Documents, g: int, both_strands: bool) -> CodedTexts | None:
        """Texts of documents; None if they have too many symbols."""
        if not both_strands and len(documents.alphabet) > MOST_SYMBOLS:
            return None
        codes = strands(documents)[: len(documents.codes)] if both_strands else documents.codes
        counted = np.ones(len(codes), np.uint8)
        if both_strands and (unknown := codes == UNKNOWN).any():
            before = np.concatenate([[0], np.cumsum(unknown)])
            ends = np.minimum(np.arange(len(codes)) + g, len(codes))
            counted = (before[ends] == before[:-1]).astype(np.uint8)
            codes = np.where(unknown, 0, codes)
        n_symbols = int(codes.max(initial=0)) + 1
        return cls(codes.astype(np.uint8), counted, documents.offsets, g, 1 + both_strands, n_symbols)

    @property
    def windows(self) -> int:
        """Maximum number of windows of a text, on all strands."""
        return self.strands * max(int(np.diff(self.offsets).max(initial=0)) - self.g + 1, 0)


@dataclass(frozen=True)
class Tables:
    """Weights of all possible keys of some masks."""

    n_symbols: int  #: Base of the keys, which have as many digits as a mask keeps positions
    positions: Ints32  #: shape (masks, positions), on the host
    times: Ints32  #: shape (masks,), on the host
    weights: Array  #: float64, shape (machines, masks, keys), NumPy or CuPy

    @classmethod
    def of(cls, parts: Sequence[MaskWeights], n_symbols: int) -> Tables:
        """Tables of weight vectors, with keys to the base `n_symbols`."""
        positions = np.array([mask.positions for mask, _, _ in parts], np.int32)
        times = np.array([mask.times for mask, _, _ in parts], np.int32)
        xp = array_module(device_of(parts[0][2]))
        tables = xp.zeros((parts[0][2].shape[1], len(parts), n_symbols ** positions.shape[1]))
        for at, (_, vocabulary, weights) in enumerate(parts):
            digits, keys = digits_of(vocabulary, positions.shape[1]), 0
            for column in digits:
                keys = keys * n_symbols + column
            tables[:, at, xp.asarray(keys)] = weights.T
        return cls(n_symbols, positions, times, tables)


def digits_of(vocabulary: MaskedWindows, number: int) -> Ints:
    """Codes of each key of a vocabulary with a single stage, shape (number, size), on the host."""
    rest = devices.to_host(vocabulary.stages[0].keys).astype(np.int64)
    digits = np.empty((number, len(rest)), np.int64)
    for place in range(number - 1, -1, -1):
        rest, digits[place] = np.divmod(rest, max(vocabulary.n_symbols, 1))
    return digits


@dataclass(frozen=True)
class HostMask:
    """Documents as rows X of the features of a mask, on the CPU."""

    mask: Mask
    vocabulary: MaskedWindows
    windows: Windows
    ids: Ints32  #: shape (number of windows,): Feature of each window
    counts: Counts
    x: Sparse

    @cached_property
    def columns(self) -> InvertedIndex:
        """X by columns."""
        return InvertedIndex(self.x.on_grid())

    @property
    def squares(self) -> Floats:
        """|x|^2 of each row, for all masks with the same counts."""
        return self.mask.times * self.x.squares()

    def target(self, vocabulary: MaskedWindows) -> Ints:
        """Index of each feature among those of other documents, -1 if they lack it."""
        target = np.full(self.vocabulary.size, -1, np.int64)
        target[self.ids] = vocabulary.find(self.windows)
        return target

    def over(self, vocabulary: MaskedWindows) -> Sparse:
        """X over the features of other documents."""
        return self.x.select(self.target(vocabulary), vocabulary.size)

    def products(self, x: Sparse) -> Floats32:
        """Products of the rows of x with those of X, for all masks with the same counts."""
        out = np.empty((len(x), len(self.x)), np.float32)
        times = np.full(len(x), float(self.mask.times))
        self.columns.products(x.on_grid(), times, np.ones(len(self.x)), out)
        return out

    def rows(self, indices: Ints) -> Floats32:
        return self.products(self.x.take(indices))


class HostGapped(GappedRows):
    """`KernelRows` on a CPU."""

    @staticmethod
    def windows_of(kernel: Any, documents: Documents) -> Windows:
        return windows_of(documents, kernel.g, kernel.canonical)

    @staticmethod
    def represent(kernel: Any, windows: Windows, mask: Mask) -> HostMask:
        vocabulary, ids = MaskedWindows.learn(windows, mask)
        counts = count_ids(windows.indptr, 1, ids, use_numpy(len(ids)))
        values = weigh(kernel.weight, counts.counts).astype(np.float32, copy=False)
        x = Sparse(counts.indptr, counts.features, values, vocabulary.size)
        return HostMask(mask, vocabulary, windows, ids, counts, x)

    @staticmethod
    def can_look_up(texts: CodedTexts, keys: int) -> bool:
        return keys <= MOST_KEYS

    @staticmethod
    def look_up(texts: CodedTexts, tables: Tables, values: Floats) -> tuple[Floats, Floats]:
        more, more_square = np.diff(values), np.diff(values**2)
        n = len(texts.offsets) - 1
        sums, squares = np.zeros((n, len(tables.weights))), np.zeros(n)
        paired = np.arange(MOST_SYMBOLS)
        paired[: len(LETTERS) - 1] = paired[: len(LETTERS) - 1][::-1].copy()
        of_texts = (texts.codes, texts.counted, texts.offsets, paired, texts.g, texts.strands)
        of_tables = (tables.n_symbols, tables.positions, tables.times)

        def fill(first: int, last: int) -> None:
            _look_up(first, last, *of_texts, *of_tables, more, more_square, tables.weights, sums, squares)

        run_on_ranges(texts.offsets, fill)
        return sums, squares

    def gram(self, progress: Progress | None = None) -> Floats32:
        total, squares = np.zeros((self.n, self.n), np.float32), np.zeros(self.n)
        add = self._add_lists if lists_pay(self.windows, self.kernel.masks[0]) else self._add_columns
        for times, equal in groupby(groups(self.windows, self.kernel.masks), lambda group: group[0].times):
            for group in equal:
                add(group, total, squares, progress)
            total *= times
        return finished_gram(self._normalisation(squares), total, in_place=True)

    def _add_lists(
        self, group: tuple[Mask, ...], total: AnyArray, squares: AnyArray, progress: Progress | None
    ) -> None:
        """Add products over some masks to the upper half of `total`, and k(s, s) to `squares`, by lists."""
        values = values_of(self.kernel.weight, int(np.diff(self.windows.indptr).max(initial=0)))
        lists = MaskLists.of(self.windows, group, values, self.kernel.weight == "count")
        for mask, of_mask in zip(group, lists.squares, strict=True):
            squares += mask.times * of_mask
        first, every = self.kernel.masks.index(group[0]), self.kernel.masks
        lists.add_to(total, self.windows.indptr, part(progress, first, len(group), len(every)))

    def _add_columns(
        self, group: tuple[Mask, ...], total: AnyArray, squares: AnyArray, progress: Progress | None
    ) -> None:
        """The same by tile products, where most documents have a feature."""
        for mask in group:
            own, at = self.represent(self.kernel, self.windows, mask), self.kernel.masks.index(mask)
            squares += own.squares
            Half(own.x.on_grid()).add_to(total, part(progress, at, 1, len(self.kernel.masks)))


@njit(nogil=True, cache=True)
def _look_up(
    first, last, codes, counted, offsets, paired, g, n_strands, n_symbols, positions, times, more,
    more_square, weights, sums, squares,
):  # fmt: skip
    counts = np.zeros(weights.shape[2], np.int32)
    keys, gains = np.empty(len(more), np.uint32), np.empty(len(more))
    for i in range(first, last):
        begin, size = offsets[i], max(offsets[i + 1] - offsets[i] - g + 1, 0)
        for mask in range(len(positions)):
            keys[: size * n_strands] = 0
            for place in positions[mask]:
                for w in range(size):
                    keys[w] = keys[w] * n_symbols + codes[begin + place + w]
                for w in range(size if n_strands == 2 else 0):
                    keys[size + w] = keys[size + w] * n_symbols + paired[codes[begin + w + g - 1 - place]]
            square = 0.0
            for w in range(size * n_strands):
                gains[w] = 0.0
                if counted[begin + w % size]:
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


@dataclass(frozen=True)
class MaskLists:
    """Document lists of the features of some masks; arrays have a row per mask."""

    ids: Ints32  #: shape (masks, windows): Feature of each window
    places: Ints32  #: the same shape: Position after its document on the list; 0 if it was named before
    starts: Ints32  #: shape (masks, features + 1): Feature u has ``documents[starts[u]:starts[u + 1]]``
    documents: UnsignedInts  #: shape (masks, windows): Ascending for each feature
    values: Floats32  #: the same shape; width 0 if all values are 1
    squares: Floats  #: shape (masks, n): |x|^2

    @classmethod
    def of(cls, windows: Windows, masks: Sequence[Mask], values: Floats32, repeat: bool) -> MaskLists:
        """Lists of documents, with the feature values of 0, 1, 2, ... occurrences.

        With `repeat`, lists name a document once per occurrence instead of storing values.
        """
        ids: list[Array] = [None] * len(masks)

        def rank(at: int) -> None:
            ids[at] = ids_of(windows, masks[at])

        run(rank, range(len(masks)))
        size, n = max(size for _, size in ids), len(windows.indptr) - 1
        shape, kind = (len(masks), len(windows.starts)), np.uint16 if n <= 1 << 16 else np.uint32
        width = 0 if repeat or bool(np.all(values[1:] == 1)) else shape[1]
        lists = cls(
            np.empty(shape, np.int32),
            np.empty(shape, np.int32),
            np.zeros((len(masks), size + 1), np.int32),
            np.empty(shape, kind),
            np.empty((len(masks), width), np.float32),
            np.zeros((len(masks), n)),
        )

        def fill(at: int) -> None:
            lists.ids[at] = ids[at][0]
            _sort(windows.indptr, values, repeat, *(array[at] for array in lists.arrays))

        run(fill, range(len(masks)))
        return lists

    @property
    def arrays(self) -> tuple[AnyArray, ...]:
        return self.ids, self.places, self.starts, self.documents, self.values, self.squares

    def add_to(self, total: Floats32, indptr: Ints, progress: Progress | None = None) -> None:
        """total[i, j] += <x[i], x[j]> for j > i, mask by mask; `indptr` of the windows."""
        n = len(total)
        whole = self.values.shape[1] == 0 and int(np.diff(indptr).max(initial=0)) < 1 << 12
        kind = np.float32 if whole else np.float64

        def add(piece: tuple[int, int]) -> None:
            _add(*piece, indptr, *self.arrays[:-1], np.zeros(n, kind), total)

        pieces = [(first, min(first + ROWS, n)) for first in range(0, n, ROWS)]
        run(add, pieces, [float(n - first) for first, _ in pieces], progress)


def groups(windows: Windows, masks: Sequence[Mask]) -> Iterator[tuple[Mask, ...]]:
    """Groups of consecutive masks with the same `times` whose lists fit in memory together."""
    bytes_per_mask = WINDOW_BYTES * len(windows.starts) + 1
    size = max(1, GROUP_BYTES // bytes_per_mask, min(n_threads(), MOST_BYTES // bytes_per_mask))
    first = 0
    while first < len(masks):
        last = min(first + size, len(masks))
        while masks[last - 1].times != masks[first].times:
            last -= 1
        yield tuple(masks[first:last])
        first = last


def lists_pay(windows: Windows, mask: Mask) -> bool:
    """Whether lists are faster than tile products of the features that many documents have."""
    ids, size = ids_of(windows, mask)
    df = np.bincount(ids, minlength=size).astype(float)
    n = len(windows.indptr) - 1
    full = df[df > DENSE_SHARE * n]
    return float(full @ full) <= n * n * len(full) / TILE_RATE


def ids_of(windows: Windows, mask: Mask) -> tuple[Ints32, int]:
    """Id of each window, ordered like the content under the mask, and a bound of the ids."""
    bound = max(windows.n_symbols, 1) ** len(mask.positions)
    if bound > max(TABLE, len(windows.starts)) or bound > np.iinfo(np.int32).max:
        vocabulary, ids = MaskedWindows.learn(windows, mask)
        return ids, vocabulary.size
    ids = np.empty(len(windows.starts), np.int32)
    _keys(windows.codes, windows.starts, np.array(mask.positions), windows.n_symbols, ids)
    return ids, bound


@njit(nogil=True, cache=True)
def _keys(codes, starts, positions, n_symbols, ids):
    keys = np.empty(POSITIONS, np.int32)
    end = len(codes) - positions[-1]
    w = 0
    while w < len(starts):
        # Keys of all positions of a block, without branches; positions without a window are skipped below.
        first = starts[w]
        size = min(POSITIONS, end - first)
        keys[:size] = 0
        for place in positions:
            for at in range(size):
                keys[at] = keys[at] * n_symbols + codes[first + place + at]
        while w < len(starts) and first <= starts[w] < first + size:
            ids[w] = keys[starts[w] - first]
            w += 1


@njit(nogil=True, cache=True)
def _sort(indptr, weight, repeat, ids, places, starts, documents, values, squares):
    last = np.full(len(starts), -1, np.int32)
    for i in range(len(indptr) - 1):
        for w in range(indptr[i], indptr[i + 1]):
            if repeat or last[ids[w]] != i:
                starts[ids[w] + 1] += 1
                last[ids[w]] = i
    for u in range(1, len(starts)):
        starts[u] += starts[u - 1]
    cursor, counts = starts[:-1].copy(), np.zeros(len(starts), np.int32)
    last[:] = -1
    for i in range(len(indptr) - 1):
        for w in range(indptr[i], indptr[i + 1]):
            u = ids[w]
            new = last[u] != i
            counts[u] = 1 if new else counts[u] + 1
            last[u] = i
            if new or repeat:
                documents[cursor[u]] = i
                cursor[u] += 1
            places[w] = cursor[u] if new or repeat else 0
            if len(values):
                values[cursor[u] - 1] = weight[counts[u]]
            now, before = np.float64(weight[counts[u]]), np.float64(weight[counts[u] - 1])
            squares[i] += now * now - before * before
        if len(values):
            _round_values(places[indptr[i] : indptr[i + 1]], values, squares[i : i + 1])


@njit(nogil=True, cache=True)
def _round_values(places, values, square):
    """Put the values of a document on their grid; their squared norm, added up as in `Sparse.on_grid`."""
    square[0] = 0.0
    for place in places:
        if place:
            square[0] += np.float64(values[place - 1]) * np.float64(values[place - 1])
    unit = grid_unit(square[0])
    for place in places:
        if place:
            values[place - 1] = np.rint(values[place - 1] / unit) * unit


@njit(nogil=True, cache=True)
def _add(first, last, indptr, ids, places, starts, documents, values, sums, total):
    plain, unit = values.shape[1] == 0, sums.dtype.type(1)
    for mask in range(len(starts)):  # its lists stay in the cache for all rows
        own, at_place, begins, listed = ids[mask], places[mask], starts[mask], documents[mask]
        listed_values = values[mask]
        for i in range(first, last):
            row = total[i]
            for w in range(indptr[i], indptr[i + 1]):
                place, end = at_place[w], begins[own[w] + 1]
                if plain and place:
                    for at in range(place, end):
                        sums[listed[at]] += unit
                elif place:
                    value = np.float64(listed_values[place - 1])
                    for at in range(place, end):
                        sums[listed[at]] += value * listed_values[at]
            for j in range(i, len(sums)):
                row[j] += np.float32(sums[j])
                sums[j] = 0
