"""Gap-weighted subsequence kernel: parameters and rows on a CPU; recurrence.py has the mathematics.

Documents are taken in order of length, LANES columns of similar length at a time; rows by columns are cut
into pieces of similar work. k(s, s) is computed first, in float64.

The CPU twin has a document per lane of a vector. LANES columns of similar length are interleaved and compared
with the symbols of a row document, row by row, in strips of STRIP columns whose S stays in the L1 cache. A
strip passes R of its last column (`edge`) to the next strip, which rebuilds S of that column, so memory grows
with |s| only.

    columns, rows   int32 (symbols, LANES)              a symbol of each document; -1, -2 after its end
    state           float (STRIP + 1, L, LANES)         S_q of the strip's columns and of the previous column
    edge            float (|s|, L, LANES)               R_q of the column before the strip
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from textsvm.arrays import Array, Bools, Floats, Floats32, Ints, UnsignedInts, runs_of
from textsvm.errors import InputError
from textsvm.kernels.attribution import Attributor, Contributions
from textsvm.kernels.base import Ability, SymbolKernel, check_weights, check_whole, is_number
from textsvm.kernels.contract import Cost, HostRows, KernelRows, SharedColumns, Sharing
from textsvm.kernels.gap.cuda import CudaGap, cuda_grams
from textsvm.kernels.gap.recurrence import STRIP, SUBSEQUENCES, Recurrence, SelfValues, symbol_contributions
from textsvm.kernels.options import GAP_LONGEST
from textsvm.runtime.compiled import njit
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress, part, run
from textsvm.runtime.simd import LANES, aligned, fill, load, multiply_add, stack, store, where_equal, widen
from textsvm.text.documents import Documents

PIECE = 12_800  #: Symbols of row documents, and of interleaved columns, per piece of work (about 0.2 s).


Picked = tuple[UnsignedInts, Ints, Ints]  #: Selected documents: codes, offsets, indices.


def in_lanes(documents: Documents) -> tuple[Ints, Ints]:
    """Documents by length, LANES per row (-1: none), and the largest length of each row."""
    order = np.argsort(documents.lengths, kind="stable")
    lanes = np.full((-(-len(order) // LANES), LANES), -1, np.int64)
    lanes.ravel()[: len(order)] = order
    last = np.minimum(np.arange(1, len(lanes) + 1) * LANES, len(order)) - 1
    return lanes, documents.lengths[order[last]]


def cut(sizes: Ints, budget: int) -> list[slice]:
    """Split consecutive sizes into runs of about `budget`; sizes count as at least 64, for their sums."""
    turns = np.cumsum(np.maximum(sizes, 64)) // budget
    return [slice(a, b) for a, b in runs_of(turns)]


@njit(nogil=True, cache=True)
def interleave(codes, offsets, lanes, ended, symbols):
    """symbols[i * LANES + lane] = symbol i of the lane's document, then `ended`; return the largest
    length.
    """
    longest = 0
    for document in lanes:
        if document >= 0:
            longest = max(longest, offsets[document + 1] - offsets[document])
    symbols[: longest * LANES] = ended
    for lane in range(LANES):
        if lanes[lane] >= 0:
            start = offsets[lanes[lane]]
            for i in range(offsets[lanes[lane] + 1] - start):
                symbols[i * LANES + lane] = codes[start + i]
    return longest


def products(
    recurrence: Recurrence,
    n_lengths: int,
    double: bool,
    rows: Picked,
    columns: Picked,
    needed: Bools,
    firsts: Ints,
) -> Floats:
    """Sums of the recurrence: selected documents by lanes of others, shape (n_lengths, rows, columns).

    These are the sums of the `n_lengths` largest lengths up to p, of the rows and groups of lanes that are
    `needed`. Columns before the `firsts` of a document are the rows of the recurrence.
    """
    n, m = (int(np.diff(offsets)[which].max(initial=0)) for _, offsets, which in (rows, columns))
    if min(n, m) < recurrence.shortest - (n_lengths - 1):
        return np.zeros((n_lengths, len(rows[2]), columns[2].size))
    sums = np.zeros((len(rows[2]), len(columns[2]), n_lengths * LANES))
    arguments = _arguments(recurrence, n_lengths, double, max(n, m))
    _many_by_lanes(*rows, *columns, needed, firsts, sums, *arguments)
    return (
        sums.reshape(len(sums), -1, n_lengths, LANES).transpose(2, 0, 1, 3).reshape(n_lengths, len(sums), -1)
    )


def self_products(recurrence: Recurrence, n_lengths: int, documents: Documents) -> Floats:
    """Sums of the recurrence of every document with itself, float64, shape (n_lengths, n)."""
    lanes, widths = in_lanes(documents)
    codes = documents.codes_for()
    sums = np.zeros((len(lanes), n_lengths * LANES))

    def work(part: slice) -> None:
        longest = int(widths[part][-1])
        if longest >= recurrence.shortest - (n_lengths - 1):
            arguments = _arguments(recurrence, n_lengths, True, longest)
            _lanes_by_themselves(codes, documents.offsets, lanes[part], sums[part], *arguments)

    # `watch` keeps a single piece off this thread: Ctrl-C does not wait for a document of minutes.
    run(work, cut(widths, PIECE)[::-1], watch=lambda: None)
    values = np.empty((n_lengths, len(documents)))
    values[:, lanes[lanes >= 0]] = sums.reshape(-1, n_lengths, LANES).transpose(1, 0, 2)[:, lanes >= 0]
    return values


def _arguments(recurrence: Recurrence, n_lengths: int, double: bool, longest: int) -> tuple[Any, ...]:
    """Arguments of `_sweep` other than symbols, for strings of up to `longest` symbols.

    They are passed separately: with a tuple of tuples, Numba 0.60 uses code compiled for other types.
    """
    dtype = np.float64 if double else np.float32
    weights = recurrence.level_weights
    weights = np.where(weights > 1e-37, weights, 0).astype(dtype)  # float32 cannot hold smaller weights
    levels = len(weights) - 1
    low = 0.0
    if recurrence.decay != 1:
        low = 2.0**-900 if double else 2.0**-100
    return (
        tuple(weights),
        True if weights[1:].any() else None,
        (0,) * (n_lengths - 1),
        dtype(recurrence.decay),
        dtype(low),
        aligned((STRIP + 1) * levels * LANES, dtype),
        aligned(longest * levels * LANES if longest > STRIP else 0, dtype),
        aligned(longest * LANES, np.int32),
        aligned(longest * LANES, np.int32),
    )


@njit(nogil=True, cache=True)
def _many_by_lanes(
    a, a_offsets, which, b, b_offsets, lanes, needed, firsts, sums, level_weights, blended, others,
    decay, low, state, edge, row_symbols, column_symbols,
):  # fmt: skip
    """sums[k, g, q * LANES + l] = which[k] by lanes[g, l]; q counts wanted lengths."""
    exchanged = np.empty(sums.shape[2])
    for g in range(len(lanes)):
        m = interleave(b, b_offsets, lanes[g], -1, column_symbols)
        for k in range(len(which)):
            if not needed[k, g]:
                continue
            start = a_offsets[which[k]]
            n = a_offsets[which[k] + 1] - start
            for i in range(n):
                store(row_symbols, i * LANES, fill(np.int32(a[start + i])))
            before = min(max(firsts[k] - g * LANES, 0), LANES)  # lanes that are rows
            if before < LANES:
                _sweep(
                    row_symbols, n, column_symbols, m, level_weights, blended, others, decay, low, state,
                    edge, sums[k, g],
                )  # fmt: skip
            if before > 0:
                _sweep(
                    column_symbols, m, row_symbols, n, level_weights, blended, others, decay, low, state,
                    edge, exchanged,
                )  # fmt: skip
                for at in range(len(exchanged)):
                    if at % LANES < before:
                        sums[k, g, at] = exchanged[at]


@njit(nogil=True, cache=True)
def _lanes_by_themselves(
    codes, offsets, lanes, sums, level_weights, blended, others, decay, low, state, edge, rows, columns
):
    """sums[g, q * LANES + l] = lanes[g, l] by itself; q counts wanted lengths."""
    for g in range(len(lanes)):
        m = interleave(codes, offsets, lanes[g], -1, columns)
        interleave(codes, offsets, lanes[g], -2, rows)
        _sweep(rows, m, columns, m, level_weights, blended, others, decay, low, state, edge, sums[g])


@njit(nogil=True, cache=True)
def _sweep(rows, n, columns, m, level_weights, blended, others, decay, low, state, edge, sums):
    """The recurrence on every lane; `others` has an item for each wanted length besides p."""
    levels, least = len(level_weights) - 1, len(level_weights) - 1 - len(others)
    decays, lows, zeros = fill(decay), fill(low), fill(low - low)
    b, r, s = stack(level_weights, zeros), stack(level_weights, zeros), stack(level_weights, zeros)
    totals = stack(level_weights, zeros)
    for q in range(levels + 1):
        b[q] = fill(level_weights[q])
    sums[:] = 0
    for start in range(0, m, STRIP):
        stop = min(start + STRIP, m)
        state[:] = 0
        for i in range(n):
            symbol = load(rows, i * LANES)
            s[0] = b[0]
            for q in range(1, levels + 1):
                above = load(state, (q - 1) * LANES)
                left = load(edge, (i * levels + q - 1) * LANES) if start > 0 else zeros
                store(state, (q - 1) * LANES, multiply_add(above, decays, left))
                r[q] = left
                s[q] = above + b[q] if blended is not None else above
            for q in range(levels + 1):
                totals[q] = zeros
            for j in range(start, stop):
                column = load(columns, j * LANES)
                totals[levels] = totals[levels] + where_equal(column, symbol, s[levels], zeros)
                for q in range(levels, 0, -1):
                    at = ((j - start + 1) * levels + q - 1) * LANES
                    below = s[q - 1]
                    started = where_equal(column, symbol, below, lows)
                    if q > least:  # without the tiny numbers: the bits are those of a pass for this length
                        total = totals[q - 1]
                        totals[q - 1] = where_equal(column, symbol, total + below, total)
                    right = multiply_add(r[q], decays, started)
                    above = load(state, at)
                    store(state, at, multiply_add(above, decays, right))
                    r[q] = right
                    s[q] = above + b[q] if blended is not None else above
            if stop < m:
                for q in range(1, levels + 1):
                    store(edge, (i * levels + q - 1) * LANES, r[q])
            for q in range(least, levels + 1):
                at = (q - least) * LANES
                store(sums, at, load(sums, at) + widen(totals[q]))


# Rows of the kernel


RATE = 3.3e9  #: Cells times p a second of the sweep.
ATTRIBUTION_RATE = 5e9 / 60  #: Cells times p a second of attribution: 5e9 a minute.
MOST_SAVED = 64  #: Greatest p of a saved model.
MOST_SECONDS = 0.5  #: Greatest predicted seconds for a text of a saved model.


@dataclass(frozen=True)
class SharedRecurrence(Sharing):
    """A pass up to the greatest p yields the matrix of every p.

    On a GPU it also yields the blends (`weights`); on a CPU each blend needs its own pass.
    """

    decay: float
    tileable = True

    def passes(self, kernels: Sequence[GapWeighted], room: int) -> list[list[int]]:
        order = sorted(range(len(kernels)), key=lambda i: kernels[i].p)
        return [order[max(0, end - room) : end] for end in range(len(order), 0, -room)]

    def description(self, kernels: Sequence[GapWeighted]) -> str:
        return f"together, with p up to {max(kernel.p for kernel in kernels)}"

    def grams(
        self, kernels: Sequence[GapWeighted], documents: Documents, device: Device, progress: Progress | None
    ) -> Iterator[tuple[int, Array]]:
        if device.kind == "cuda":
            matrices = cuda_grams(kernels, documents, device, progress)
        else:
            matrices = _Columns(kernels, documents).grams(progress)
        matrices.reverse()
        for position in range(len(kernels)):
            yield position, matrices.pop()

    def columns(
        self, kernels: Sequence[GapWeighted], documents: Documents, device: Device
    ) -> SharedColumns | None:
        return _Columns(kernels, documents) if device.kind == "cpu" else None


class GapCost(Cost):
    """Cost of the gap-weighted kernel."""

    in_shards = True

    @property
    def sharing(self) -> SharedRecurrence | None:
        return SharedRecurrence(float(self.kernel.decay)) if self.kernel.recurrence.shares else None

    def of_rows(self, row_lengths: Ints, column_lengths: Ints) -> Floats:
        return self.kernel.p * row_lengths.astype(float) * column_lengths.sum() / RATE

    def tileable(self, documents: Documents, kind: str = "cpu") -> bool:
        # On a card, values with a decay that is not a power of two depend on the tile.
        return kind == "cpu"

    def demand(self, lengths: Ints) -> float:
        # Lanes without a document take as long, and values of a great p are computed in float64.
        p, longest = self.kernel.recurrence.p, float(lengths.max(initial=0))
        seconds = 2 * p * longest * max(float(lengths.sum()), LANES * longest) / RATE
        return float(min(p / MOST_SAVED, seconds / MOST_SECONDS))


class GapAttributor(Attributor):
    """Exact attribution by the symbols of common subsequences."""

    method = SUBSEQUENCES

    def contributions(
        self, rows: KernelRows, documents: Documents, coef: Floats, values: Floats, progress: Progress | None
    ) -> Contributions:
        symbols = []
        for d in range(len(documents)):
            codes = documents.codes[documents.offsets[d] : documents.offsets[d + 1]]
            step = part(progress, d, 1, len(documents))
            terms = coef[d] * values[d]
            shares = symbol_contributions(self.kernel.recurrence, rows.documents, codes, terms, step)
            symbols.append(documents.spread(d, shares))
        return Contributions(symbols)

    def seconds(self, lengths: Ints, support_lengths: Ints) -> Floats:
        seconds: Floats = self.kernel.p * lengths.astype(float) * support_lengths.sum()
        return seconds / ATTRIBUTION_RATE


@dataclass(repr=False, eq=False)
class SubsequenceKernel(SymbolKernel):
    """Base class of `GapWeighted` and `BoundedGap`."""

    p: int = 5
    decay: float = 0.5

    def check(self) -> None:
        super().check()
        check_whole(self, "p", 1, GAP_LONGEST)
        if not (is_number(self.decay) and 0 < self.decay <= 1):
            raise InputError(f"decay={self.decay!r} of the {self.name} kernel must be above 0 and at most 1")


@dataclass(repr=False, eq=False)
class GapWeighted(SubsequenceKernel):
    """Common subsequences of p symbols, each gap symbol in either string a factor of `decay`.

    Parameters
    ----------
    p : int
        Length of the subsequences, at least 1.
    decay : float
        In (0, 1]; near 0 the kernel becomes the p-spectrum kernel.
    weights : sequence of p floats >= 0, optional
        Blend of the lengths: the raw kernels sum to ``weights[0] k_1 + ... + weights[p-1] k_p``.
    normalised, tokens, keep_case
        See `textsvm.Spectrum`.

    Examples
    --------
    >>> from textsvm import GapWeighted
    >>> print(GapWeighted(p=2, decay=0.5)(["cat"], ["car", "cart"]).round(4))
    [[0.4444 0.574 ]]
    """

    name: ClassVar[str] = "gap"
    cost = Ability(GapCost)
    attribution = Ability(GapAttributor)

    p: int = 5
    decay: float = 0.5
    weights: Sequence[float] | None = None
    normalised: bool = True

    @property
    def _min_length(self) -> int:
        return self.p if self.weights is None else 1 + int(np.flatnonzero(self.weights)[0])

    def check(self) -> None:
        super().check()
        if self.weights is not None:
            check_weights(self.weights, self.p, f"the {self.name} kernel", "p")

    @property
    def recurrence(self) -> Recurrence:
        """The constants of the recurrence."""
        return Recurrence.of(self.p, self.decay, self.weights)

    def rows(self, documents: Documents, device: Device) -> KernelRows:
        return (CudaGap if device.kind == "cuda" else HostGap)(self, documents, device)


class HostGap(HostRows):
    """Rows on the CPU."""

    ahead = 1

    def __init__(self, kernel: GapWeighted, documents: Documents, device: Device) -> None:
        self.kernel, self.documents, self.device, self.n = kernel, documents, device, len(documents)
        self._columns = _Columns([kernel], documents)

    def diag(self) -> Floats32:
        return self._columns.diags()[0]

    def rows(self, indices: Ints) -> Floats32:
        return self._columns.rows(np.asarray(indices))[0]

    def gram(self, progress: Progress | None = None) -> Floats32:
        return self._columns.grams(progress)[0]

    def cross(self, others: Documents, progress: Progress | None = None) -> Floats32:
        return self._columns.cross(others, progress)[0]


class _Columns:
    """Fixed documents in lanes; lengths p share passes, with the bits of separate ones (`SharedColumns`)."""

    def __init__(self, kernels: Sequence[GapWeighted], documents: Documents) -> None:
        self.kernels, self.documents, self.n = kernels, documents, len(documents)
        self._recurrences: list[Recurrence] = [kernel.recurrence for kernel in kernels]
        #: Kernels that share passes: all lengths; each blend is alone, as it is rounded differently.
        self._alike = [[k] for k, recurrence in enumerate(self._recurrences) if recurrence.blended]
        if lengths := [k for k, recurrence in enumerate(self._recurrences) if not recurrence.blended]:
            self._alike.append(lengths)
        self._codes = documents.codes_for()
        self._lanes, self._widths = in_lanes(documents)
        self._places = np.empty(self.n, np.int64)  #: Place of each document in the order of length.
        self._places[self._lanes.ravel()[: self.n]] = np.arange(self.n)
        self.selves = self.self_values(documents, [None] * len(kernels))

    def self_values(self, documents: Documents, columns: Sequence[SelfValues | None]) -> list[SelfValues]:
        """k(s, s) of documents by each kernel; other documents are given the values of the `columns`."""
        values: dict[int, Floats] = {}
        for alike in self._alike:
            recurrence, least = self._swept(alike)
            sums = self_products(recurrence, recurrence.p - least + 1, documents)
            values |= {k: sums[self._recurrences[k].p - least].copy() for k in alike}
        return [
            SelfValues(kernel, documents, values[k], of_columns)
            for k, (kernel, of_columns) in enumerate(zip(self.kernels, columns, strict=True))
        ]

    def _swept(self, alike: Sequence[int]) -> tuple[Recurrence, int]:
        """The recurrence of the largest length of some kernels, and the smallest length."""
        recurrences = [self._recurrences[k] for k in alike]
        largest = max(recurrences, key=lambda recurrence: recurrence.p)
        return largest, min(recurrence.p for recurrence in recurrences)

    def diags(self) -> list[Floats32]:
        return [own.diagonal() for own in self.selves]

    def rows(self, indices: Ints) -> list[Floats32]:
        matrices = [np.empty((len(indices), self.n), np.float32) for _ in self.kernels]
        selves = [own.take(indices) for own in self.selves]
        self.fill(matrices, self.documents.take(indices), selves, places=self._places[indices])
        for matrix, own in zip(matrices, selves, strict=True):
            matrix[np.arange(len(indices)), indices] = own.diagonal()
        return matrices

    def grams(self, progress: Progress | None = None) -> list[Floats32]:
        matrices = [np.empty((self.n, self.n), np.float32) for _ in self.kernels]
        self.fill(matrices, self.documents, self.selves, progress, self._places, half=True)
        for matrix, own in zip(matrices, self.selves, strict=True):
            matrix[np.diag_indices(self.n)] = own.diagonal()
        return matrices

    def cross(self, others: Documents, progress: Progress | None = None) -> list[Floats32]:
        matrices = [np.empty((len(others), self.n), np.float32) for _ in self.kernels]
        self.fill(matrices, others, self.self_values(others, self.selves), progress)
        return matrices

    def fill(
        self,
        matrices: Sequence[Floats32],
        others: Documents,
        others_selves: Sequence[SelfValues],
        progress: Progress | None = None,
        places: Ints | None = None,
        half: bool = False,
    ) -> None:
        """matrices[.][i, j] = k(others[i], documents[j]); with `half`, of every pair once and copied.

        `places` of the others in the order of length, if they are among the documents: the row of the
        recurrence is then the document that comes first, as in a whole matrix; else it is the other.
        """
        order = np.argsort(others.lengths, kind="stable")
        lengths, codes = others.lengths[order], others.codes_for(self.documents)
        own_codes = self._codes if codes.dtype == self._codes.dtype else self.documents.codes_for(others)

        def work(piece: tuple[slice, slice]) -> None:
            chunk, lane_part = piece
            which, lanes = order[chunk], self._lanes[lane_part]
            columns = lanes.ravel()[: self.n - lane_part.start * LANES]
            # Columns before these come first in the order of length.
            firsts = np.zeros(len(which), np.int64)
            if places is not None:
                firsts = np.clip(places[which] - lane_part.start * LANES, 0, len(columns))
            row_codes, lane_codes = (codes, others.offsets, which), (own_codes, self.documents.offsets, lanes)
            column_lengths = self.documents.lengths[columns]
            sums = self._sums(row_codes, lane_codes, firsts, half, lengths[chunk], column_lengths)
            for number, values in enumerate(matrices):
                own = sums[number]
                others_selves[number].take(which).finish(own, self.selves[number].take(columns))
                for k, row in enumerate(which):
                    first = firsts[k] if half else 0  # earlier pairs belong to another row
                    values[row, columns[first:]] = own[k, first:]
                    if half:
                        values[columns[first:], row] = own[k, first:]

        pieces, costs = [], []
        for chunk in cut(lengths, PIECE):
            first = chunk.start // LANES if half else 0
            for groups in cut(self._widths[first:], PIECE):
                pieces.append((chunk, slice(first + groups.start, first + groups.stop)))
                costs.append(float(lengths[chunk].sum() + 1) * float(self._widths[pieces[-1][1]].sum() + 1))
        # The longest documents first: cores then end together.
        run(work, pieces[::-1], costs[::-1], progress, watch=lambda: None)

    def _sums(
        self, rows: Picked, lanes: Picked, firsts: Ints, half: bool, row_lengths: Ints, column_lengths: Ints
    ) -> dict[int, Floats]:
        """Sums of a piece of work for each kernel; each pair is in the precision of that kernel alone.

        Columns before `firsts` become rows, or are skipped if `half`.
        """
        groups = np.arange(0, len(column_lengths), LANES)
        exchanged = np.zeros_like(firsts) if half else firsts
        sums: dict[int, Floats] = {}
        for alike in self._alike:
            doubles = {k: self._recurrences[k].doubles(row_lengths, column_lengths) for k in alike}
            for double in (False, True):
                pairs = {k: doubles[k] == double for k in alike if (doubles[k] == double).any()}
                if not pairs:
                    continue
                needed = np.logical_or.reduceat(np.logical_or.reduce([*pairs.values()]), groups, axis=1)
                if half:
                    needed &= groups + LANES > firsts[:, None]
                if sums.keys().isdisjoint(pairs):
                    pairs = dict.fromkeys(pairs)  # frees their memory; all sums are taken
                recurrence, least = self._swept([*pairs])
                n_lengths = recurrence.p - least + 1
                values = products(recurrence, n_lengths, double, rows, lanes, needed, exchanged)
                for k, own_pairs in pairs.items():
                    own = values[self._recurrences[k].p - least, :, : len(column_lengths)]
                    if k in sums:
                        own = np.where(own_pairs, own, sums[k])
                    elif len(self.kernels) > 1:  # another may have the same sums, and each changes its own
                        own = own.copy()
                    sums[k] = own
        return sums
