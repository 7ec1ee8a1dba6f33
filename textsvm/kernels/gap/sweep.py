"""CPU twin of the gap-weighted kernel, with a document per lane of a vector; see recurrence.py.

LANES columns of similar length are interleaved and compared with the symbols of a row document, row by row,
in strips of STRIP columns whose S stays in the L1 cache. A strip passes R of its last column (`edge`) to the
next strip, which rebuilds S of that column, so memory grows with |s| only.

    columns, rows   int32 (symbols, LANES)              a symbol of each document; -1, -2 after its end
    state           float (STRIP + 1, L, LANES)         S_q of the strip's columns and of the previous column
    edge            float (|s|, L, LANES)               R_q of the column before the strip
"""

from __future__ import annotations

from typing import Any

import numpy as np

from textsvm.arrays import Bools, Floats, Ints, UnsignedInts, runs_of
from textsvm.kernels.gap.recurrence import STRIP, Recurrence
from textsvm.runtime.compiled import njit
from textsvm.runtime.parallel import run
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
