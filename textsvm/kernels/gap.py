"""Gap-weighted subsequence kernel (Lodhi et al. 2002; Shawe-Taylor and Cristianini 2004, chapter 11).

Every subsequence u of length p that s and t share, at every pair of places, counts decay^(span in s)
decay^(span in t), span = last index - first index + 1. `weights` blends lengths: k = sum_q w_q k_q.

The recurrence
--------------
With M(i, j) = [s_i = t_j], the factor decay^2p left out (normalisation cancels it, and float32 could
not hold it), and L = p - 1 levels, every pair of symbols (i, j), a *cell*, computes from the top level down

    R_q(i, j) = decay R_q(i, j-1) + M(i, j) (S_{q-1}(i-1, j-1) + b_{q-1})      q = L..1
    S_q(i, j) = decay S_q(i-1, j) + R_q(i, j)                                  S_0 = 0
    k = sum_{i,j} M(i, j) (S_L(i-1, j-1) + b_L)

S_q(i, j) sums the common subsequences of q symbols that end at or before (i, j), weighted by their gaps up
to there. b_q lets a subsequence begin with q symbols fewer than p still to come: b = (1, 0, ..., 0) gives
k_p alone, and b_q = w_{p-q} decay^{2(p-q)}, divided by the largest of them, the blend.

With b = (1, 0, ..., 0) the terms M S_{q-1}(i-1, j-1) of level q sum to k_q: one shared pass for the
largest p gives all shorter lengths, at one addition a cell for each, and with them every blend.

Accuracy
--------
All terms are positive, so nothing cancels. A term that is still felt has met at most g(n) = 1 + decay + ...
+ decay^(n-1) roundings in a sum over n symbols; two such sums a level, and the last sum over one strip of
columns, give a relative error of at most 2^-24 (L (g(|s|) + g(|t|)) + STRIP). Where that passes 8e-6, or
|s| |t| (g(|s|) g(|t|))^L passes 2^100, float64 takes the place of float32; so do k(s, s), always. A tiny
number in place of each 0 that would decay keeps all of them out of the slow range of denormal numbers;
normalised values under 2^-60, which is all that they can add up to, are set to 0.

CPU twin
--------
One document a lane of a vector (simd.py): LANES columns of like length, interleaved, against the row
document's symbols, row by row, in strips of STRIP columns whose S stays in the L1 cache. A strip hands R of
its last column to the next one (`edge`), which rebuilds S of that column: memory grows with |s| alone.
    columns, rows   int32 (symbols, LANES)              one symbol of each document; -1, -2 where it has ended
    state           float (STRIP + 1, L, LANES)         S_q of the strip's columns, and of the one before
    edge            float (|s|, L, LANES)               R_q of the column before the strip
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from textsvm.device import Device
from textsvm.documents import Documents
from textsvm.errors import InputError
from textsvm.kernels.base import HostRows, Kernel, KernelRows, featureless_groups, normalise_values
from textsvm.parallel import Progress, run
from textsvm.simd import (
    LANES,
    add,
    aligned,
    fill,
    get,
    load,
    multiply_add,
    put,
    stack,
    store,
    where_equal,
    widen,
)

STRIP = 64
#: Symbols of row documents, and of interleaved columns, that one piece of work compares: ~0.2 s.
PIECE = 12_800
#: Normalised values below are 0.
SMALLEST = 2.0**-60


class GapWeighted(Kernel):
    """Common subsequences of p symbols, each gap symbol in either string a factor of `decay`.

    Parameters
    ----------
    p : int
        Length of the subsequences, at least 1.
    decay : float
        In (0, 1]; near 0 the kernel becomes the p-spectrum kernel.
    weights : sequence of p floats >= 0, optional
        Blend of the lengths: the raw kernels sum to ``weights[0] k_1 + ... + weights[p-1] k_p``.
    normalised : bool
        Divide by sqrt(k(s, s) k(t, t)).
    """

    name: ClassVar[str] = "gap"

    def __init__(
        self,
        p: int = 5,
        decay: float = 0.5,
        weights: Sequence[float] | None = None,
        normalised: bool = True,
    ) -> None:
        self.p = p
        self.decay = decay
        self.weights = weights
        self.normalised = normalised

    @property
    def min_length(self) -> int:
        """Symbols a document needs to have any feature."""
        return self.p if self.weights is None else 1 + int(np.flatnonzero(self.weights)[0])

    def check(self) -> None:
        if isinstance(self.p, bool) or not isinstance(self.p, int | np.integer) or self.p < 1:
            raise InputError(f"p={self.p!r} of the gap-weighted kernel must be a whole number of at least 1")
        if not (isinstance(self.decay, int | float | np.number) and 0 < self.decay <= 1):
            raise InputError(f"decay={self.decay!r} of the gap-weighted kernel must be above 0 and at most 1")
        if self.weights is None:
            return
        try:
            weights = np.asarray(self.weights, np.float64)
        except (TypeError, ValueError):
            weights = np.empty((0, 0))
        if weights.shape != (self.p,):
            raise InputError(
                f"weights={self.weights!r} of the gap-weighted kernel must be {self.p} numbers (p)"
            )
        if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
            raise InputError(
                "the weights of the gap-weighted kernel must be finite, not negative and not all 0"
            )

    def begins(self) -> tuple[NDArray[np.float64], float]:
        """The numbers b of the recurrence, the largest 1, and the log of what k was divided by for that."""
        weights = np.eye(self.p)[-1] if self.weights is None else np.asarray(self.weights, np.float64)
        weights = np.trim_zeros(weights, "b")
        with np.errstate(divide="ignore"):
            logs = np.log(weights) + 2 * math.log(self.decay) * np.arange(1, len(weights) + 1)
        return np.exp(logs - logs.max())[::-1], float(logs.max())

    def log2_bound(self, n: int, m: int) -> float:
        """log2 of what no sum of the recurrence passes, for strings of up to `n` and `m` symbols."""
        p = len(self.begins()[0])
        g, h = _effective_length(self.decay, n), _effective_length(self.decay, m)
        return math.log2(max(1, n) * max(1, m) * p) + (p - 1) * math.log2(max(1.0, g * h))

    def needs_double(self, n: int, m: int) -> bool:
        """Whether float32 is not enough for strings of up to `n` and `m` symbols (Accuracy, above)."""
        begins, _ = self.begins()
        g, h = _effective_length(self.decay, n), _effective_length(self.decay, m)
        rounding = 2.0**-24 * ((len(begins) - 1) * (g + h) + STRIP)
        shorter = begins[begins.argmax() :]
        return rounding > 8e-6 or self.log2_bound(n, m) > 100 or _unlike(shorter)

    @property
    def shares(self) -> bool:
        """Whether a shared pass is exact: weights too unlike would bring its tiny numbers to light."""
        return not _unlike(self.begins()[0])

    def rows(self, documents: Documents, device: Device) -> KernelRows:
        """Prepare `documents` as the columns of rows to come."""
        self.check()
        if device.kind == "cuda":
            from textsvm.kernels.gap_cuda import CudaGap

            return CudaGap(self, documents, device)
        return HostGap(self, documents, device)


def _effective_length(decay: float, n: int) -> float:
    """1 + decay + ... + decay^(n-1)."""
    return float(n) if decay == 1 else (1 - decay**n) / (1 - decay)


def shared_pass(kernels: Sequence[GapWeighted]) -> tuple[GapWeighted, NDArray[np.float64]]:
    """What kernels of one decay share: the kernel of the greatest length, which is swept, and their blends.

    Returns
    -------
    GapWeighted
    float64 array, shape (number of kernels, number of lengths)
        Row k: kernel k, on the scale of its `begins`, as a sum of the recurrence's k_q, of all lengths from
        the shortest that any of them has to the greatest.
    """
    begins = [kernel.begins()[0] for kernel in kernels]
    mix = np.zeros((len(kernels), max(map(len, begins))))
    for row, b in zip(mix, begins, strict=True):
        row[: len(b)] = b[::-1]
    return GapWeighted(mix.shape[1], kernels[0].decay), mix[:, mix.any(axis=0).argmax() :]


def _blend(weights: NDArray[np.float64], sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sum of weights[q] sums[q], a new array."""
    used = np.flatnonzero(weights)
    blend = weights[used[0]] * sums[used[0]]
    for q in used[1:]:
        blend += weights[q] * sums[q]
    return blend


def _unlike(weights: NDArray[np.float64]) -> bool:
    """Whether the smallest weight that is not 0 is less than 2^-20 of the largest, which is 1."""
    return bool(weights[weights > 0].min() < 2.0**-20)


class SelfValues:
    """k(s, s) of documents, on the scale of `GapWeighted.begins`, and what follows from it.

    values : float64, (n,), 0 for documents without any feature
    groups : int32, (n,), from `featureless_groups`
    """

    def __init__(self, kernel: GapWeighted, values: NDArray[np.float64], groups: NDArray[np.int32]) -> None:
        self.kernel, self.values, self.groups = kernel, values, groups

    @classmethod
    def of(
        cls, kernel: GapWeighted, documents: Documents, values: NDArray[np.float64], known: dict[bytes, int]
    ) -> SelfValues:
        """From the sums of the recurrence, float64; `known` as in `featureless_groups`.

        Raises
        ------
        InputError
            If a value passes the range of float64, or a raw one that of the float32 it will be given in.
        """
        values[documents.lengths < kernel.min_length] = 0
        if not np.isfinite(values).all():
            raise InputError(
                f"document {int(np.isfinite(values).argmin())} is too long for this gap-weighted kernel: "
                "k(s, s) passes the range of float64; take a smaller p or decay, or shorten the documents"
            )
        result = cls(kernel, values, featureless_groups(documents, values, known))
        raw = result.raw()[values > 0]
        if not kernel.normalised and len(raw) and not (raw.min() > 1e-30 and raw.max() < 1e38):
            raise InputError(
                f"k(s, s) of the gap-weighted kernel, {raw.min():.3g} to {raw.max():.3g}, pass the range "
                "of float32; leave normalised=True, or take another p or decay"
            )
        return result

    def take(self, indices: NDArray[np.int64]) -> SelfValues:
        return SelfValues(self.kernel, self.values[indices], self.groups[indices])

    def raw(self) -> NDArray[np.float64]:
        """k(s, s) as defined."""
        return self.values * math.exp(max(-700.0, self.kernel.begins()[1]))

    def diagonal(self) -> NDArray[np.float32]:
        """Kernel values of the documents with themselves."""
        return (np.ones(len(self.values)) if self.kernel.normalised else self.raw()).astype(np.float32)

    def scale(self) -> NDArray[np.float64]:
        """What sums of the recurrence are multiplied by, once for either document."""
        if not self.kernel.normalised:
            return np.full(len(self.values), math.exp(max(-350.0, self.kernel.begins()[1] / 2)))
        with np.errstate(divide="ignore"):
            return np.where(self.values > 0, 1 / np.sqrt(self.values), 0.0)

    def finish(self, sums: NDArray[np.float64], others: SelfValues) -> None:
        """Make kernel values of the sums of the recurrence, these documents by `others`, in place."""
        normalise_values(sums, self.values, others.values, self.groups, others.groups)
        sums[sums < SMALLEST] = 0
        if not self.kernel.normalised:
            sums *= np.sqrt(self.raw())[:, None]
            sums *= np.sqrt(others.raw())


# ---------------------------------------------------------------------------------------- CPU twin


class HostGap(HostRows):
    """Rows on the CPU."""

    def __init__(self, kernel: GapWeighted, documents: Documents, device: Device) -> None:
        self.kernel, self.documents, self.device, self.n = kernel, documents, device, len(documents)
        self._columns = _Columns([kernel], documents)
        (self._self,) = self._columns.selves

    def diag(self) -> NDArray[np.float32]:
        return self._self.diagonal()

    def rows(self, indices: NDArray[np.int64]) -> NDArray[np.float32]:
        values = np.empty((len(indices), self.n), np.float32)
        self._columns.fill([values], self.documents.take(indices), [self._self.take(np.asarray(indices))])
        return values

    def gram(self, progress: Progress | None = None) -> NDArray[np.float32]:
        return self._columns.grams(progress)[0]

    def cross(self, others: Documents, progress: Progress | None = None) -> NDArray[np.float32]:
        values = np.empty((len(others), self.n), np.float32)
        own = self._columns.self_values(others, [dict(known) for known in self._columns.known])
        self._columns.fill([values], others, own, progress)
        return values


def host_grams(
    kernels: Sequence[GapWeighted], documents: Documents, progress: Progress | None = None
) -> list[NDArray[np.float32]]:
    """The Gram of each of these kernels, of one decay, from one shared pass."""
    return _Columns(kernels, documents).grams(progress)


class _Columns:
    """Documents in lanes, and what a pass against them gives: values of one kernel or of several, shared."""

    def __init__(self, kernels: Sequence[GapWeighted], documents: Documents) -> None:
        self.kernels, self.documents, self.n = kernels, documents, len(documents)
        self.swept, self._mix = shared_pass(kernels) if len(kernels) > 1 else (kernels[0], np.ones((1, 1)))
        self._codes = documents.codes.astype(np.uint16)
        self._lanes, self._widths = _in_lanes(documents)
        self.known: list[dict[bytes, int]] = [{} for _ in kernels]
        self.selves = self.self_values(documents, self.known)

    def self_values(self, documents: Documents, known: Sequence[dict[bytes, int]]) -> list[SelfValues]:
        """k(s, s) of each kernel; `known` as in `featureless_groups`, one a kernel."""
        sums = _self_products(self.swept, self._mix.shape[1], documents)
        mixed = [_blend(weights, sums) for weights in self._mix]
        return [
            SelfValues.of(kernel, documents, values, groups)
            for kernel, values, groups in zip(self.kernels, mixed, known, strict=True)
        ]

    def grams(self, progress: Progress | None = None) -> list[NDArray[np.float32]]:
        matrices = [np.empty((self.n, self.n), np.float32) for _ in self.kernels]
        self.fill(matrices, self.documents, self.selves, progress, half=True)
        for matrix, own in zip(matrices, self.selves, strict=True):
            matrix[np.diag_indices(self.n)] = own.diagonal()
        return matrices

    def fill(
        self,
        matrices: Sequence[NDArray[np.float32]],
        others: Documents,
        others_selves: Sequence[SelfValues],
        progress: Progress | None = None,
        half: bool = False,
    ) -> None:
        """matrices[.][i, j] = k(others[i], documents[j]); with `half`, of every pair once and copied."""
        order = np.argsort(others.lengths, kind="stable")
        lengths, codes = others.lengths[order], others.codes.astype(np.uint16)

        def work(piece: tuple[slice, slice]) -> None:
            chunk, part = piece
            which, lanes = order[chunk], self._lanes[part]
            double = self.swept.needs_double(int(lengths[chunk][-1]), int(self._widths[part][-1]))
            sums = _products(
                self.swept,
                self._mix.shape[1],
                double,
                (codes, others.offsets, which),
                (self._codes, self.documents.offsets, lanes),
            )
            columns = lanes.ravel()[: self.n - part.start * LANES]
            sums = sums[..., : len(columns)]
            for number, values in enumerate(matrices):
                mixed = sums[0] if len(matrices) == 1 else _blend(self._mix[number], sums)
                others_selves[number].take(which).finish(mixed, self.selves[number].take(columns))
                for k, row in enumerate(which):
                    # Positions in the order of length; the pairs before this one are another row's.
                    first = max(0, chunk.start + k - part.start * LANES) if half else 0
                    values[row, columns[first:]] = mixed[k, first:]
                    if half:
                        values[columns[first:], row] = mixed[k, first:]

        pieces, costs = [], []
        for chunk in _cut(lengths, PIECE):
            first = chunk.start // LANES if half else 0
            for part in _cut(self._widths[first:], PIECE):
                pieces.append((chunk, slice(first + part.start, first + part.stop)))
                costs.append(float(lengths[chunk].sum() + 1) * float(self._widths[pieces[-1][1]].sum() + 1))
        # The longest documents first: cores then end together.
        run(work, pieces[::-1], costs[::-1], progress)


def _in_lanes(documents: Documents) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Documents in order of length, LANES a row (-1: none), and the greatest length of each row."""
    order = np.argsort(documents.lengths, kind="stable")
    lanes = np.full((-(-len(order) // LANES), LANES), -1, np.int64)
    lanes.ravel()[: len(order)] = order
    last = np.minimum(np.arange(1, len(lanes) + 1) * LANES, len(order)) - 1
    return lanes, documents.lengths[order[last]]


def _cut(sizes: NDArray[np.int64], budget: int) -> list[slice]:
    """Runs of neighbours whose sizes sum to about `budget`; short ones count more: their sums take memory."""
    turns = np.cumsum(np.maximum(sizes, 64)) // budget
    bounds = [*np.flatnonzero(np.diff(turns, prepend=-1)).tolist(), len(sizes)]
    return [slice(a, b) for a, b in pairwise(bounds)]


def _arguments(kernel: GapWeighted, wanted: int, double: bool, n: int, m: int) -> tuple[Any, ...]:
    """What `_sweep` needs besides the symbols, of strings of up to `n` and `m` symbols.

    Each is an argument of its own: handed over together, as one tuple of tuples, Numba 0.60 takes what was
    compiled for others of these types.
    """
    dtype = np.float64 if double else np.float32
    begins = kernel.begins()[0]
    begins = np.where(begins > 1e-37, begins, 0).astype(dtype)
    levels = len(begins) - 1
    low = 0.0 if kernel.decay == 1 else 2.0**-900 if double else 2.0**-100
    return (
        tuple(begins),
        True if begins[1:].any() else None,
        (0,) * (wanted - 1),
        dtype(kernel.decay),
        dtype(low),
        aligned((STRIP + 1) * levels * LANES, dtype),
        aligned(n * levels * LANES if m > STRIP else 0, dtype),
        aligned(n * LANES, np.int32),
        aligned(m * LANES, np.int32),
    )


def _products(
    kernel: GapWeighted,
    wanted: int,
    double: bool,
    rows: tuple[NDArray[np.uint16], NDArray[np.int64], NDArray[np.int64]],
    columns: tuple[NDArray[np.uint16], NDArray[np.int64], NDArray[np.int64]],
) -> NDArray[np.float64]:
    """The sums of the recurrence: (codes, offsets, which documents) by (codes, offsets, lanes).

    Shape (wanted, rows, columns), those of the `wanted` greatest lengths up to p.
    """
    lengths = [int(np.diff(offsets)[which].max(initial=0)) for _, offsets, which in (rows, columns)]
    sums = np.empty((len(rows[2]), len(columns[2]), wanted * LANES))
    _many_by_lanes(*rows, *columns, sums, *_arguments(kernel, wanted, double, *lengths))
    return sums.reshape(len(sums), -1, wanted, LANES).transpose(2, 0, 1, 3).reshape(wanted, len(sums), -1)


def _self_products(kernel: GapWeighted, wanted: int, documents: Documents) -> NDArray[np.float64]:
    """The sums of the recurrence of every document with itself, in float64, shape (wanted, n)."""
    lanes, widths = _in_lanes(documents)
    codes = documents.codes.astype(np.uint16)
    sums = np.empty((len(lanes), wanted * LANES))

    def work(part: slice) -> None:
        longest = int(widths[part][-1])
        arguments = _arguments(kernel, wanted, True, longest, longest)
        _lanes_by_themselves(codes, documents.offsets, lanes[part], sums[part], *arguments)

    run(work, _cut(widths, PIECE)[::-1])
    values = np.empty((wanted, len(documents)))
    values[:, lanes[lanes >= 0]] = sums.reshape(-1, wanted, LANES).transpose(1, 0, 2)[:, lanes >= 0]
    return values


@njit(nogil=True, cache=True)
def _interleave(codes: Any, offsets: Any, lanes: Any, ended: int, symbols: Any) -> int:
    """symbols[i * LANES + lane] = symbol i of the lane's document, then `ended`; returns the most symbols."""
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


@njit(nogil=True, cache=True)
def _many_by_lanes(
    a: Any,
    a_offsets: Any,
    which: Any,
    b: Any,
    b_offsets: Any,
    lanes: Any,
    sums: Any,
    begins: Any,
    blended: Any,
    others: Any,
    decay: Any,
    low: Any,
    state: Any,
    edge: Any,
    rows: Any,
    columns: Any,
) -> None:
    """sums[k, g, q * LANES + l] = which[k] by lanes[g, l], q a wanted length."""
    for g in range(len(lanes)):
        m = _interleave(b, b_offsets, lanes[g], -1, columns)
        for k in range(len(which)):
            start = a_offsets[which[k]]
            n = a_offsets[which[k] + 1] - start
            for i in range(n):
                store(rows, i * LANES, fill(np.int32(a[start + i])))
            _sweep(rows, n, columns, m, begins, blended, others, decay, low, state, edge, sums[k, g])


@njit(nogil=True, cache=True)
def _lanes_by_themselves(
    codes: Any,
    offsets: Any,
    lanes: Any,
    sums: Any,
    begins: Any,
    blended: Any,
    others: Any,
    decay: Any,
    low: Any,
    state: Any,
    edge: Any,
    rows: Any,
    columns: Any,
) -> None:
    """sums[g, q * LANES + l] = lanes[g, l] by itself, q a wanted length."""
    for g in range(len(lanes)):
        m = _interleave(codes, offsets, lanes[g], -1, columns)
        _interleave(codes, offsets, lanes[g], -2, rows)
        _sweep(rows, m, columns, m, begins, blended, others, decay, low, state, edge, sums[g])


@njit(nogil=True, cache=True)
def _sweep(
    rows: Any,
    n: int,
    columns: Any,
    m: int,
    begins: Any,
    blended: Any,
    others: Any,
    decay: Any,
    low: Any,
    state: Any,
    edge: Any,
    sums: Any,
) -> None:
    """The recurrence, on every lane; shapes at the top of this file. `others`: one a length beside p."""
    levels, least = len(begins) - 1, len(begins) - 1 - len(others)
    decays, lows, zeros = fill(decay), fill(low), fill(low - low)
    b, r, s = stack(begins, zeros), stack(begins, zeros), stack(begins, zeros)
    totals = stack(begins, zeros)
    for q in range(levels + 1):
        put(b, q, fill(begins[q]))
    sums[:] = 0
    for start in range(0, m, STRIP):
        stop = min(start + STRIP, m)
        state[:] = 0
        for i in range(n):
            symbol = load(rows, i * LANES)
            put(s, 0, get(b, 0))
            for q in range(1, levels + 1):
                above = load(state, (q - 1) * LANES)
                left = load(edge, (i * levels + q - 1) * LANES) if start > 0 else zeros
                store(state, (q - 1) * LANES, multiply_add(above, decays, left))
                put(r, q, left)
                put(s, q, add(above, get(b, q)) if blended is not None else above)
            for q in range(levels + 1):
                put(totals, q, zeros)
            for j in range(start, stop):
                column = load(columns, j * LANES)
                put(
                    totals,
                    levels,
                    add(get(totals, levels), where_equal(column, symbol, get(s, levels), zeros)),
                )
                for q in range(levels, 0, -1):
                    at = ((j - start + 1) * levels + q - 1) * LANES
                    begun = where_equal(column, symbol, get(s, q - 1), lows)
                    if q > least:
                        put(totals, q - 1, add(get(totals, q - 1), begun))
                    right = multiply_add(get(r, q), decays, begun)
                    above = load(state, at)
                    store(state, at, multiply_add(above, decays, right))
                    put(r, q, right)
                    put(s, q, add(above, get(b, q)) if blended is not None else above)
            if stop < m:
                for q in range(1, levels + 1):
                    store(edge, (i * levels + q - 1) * LANES, get(r, q))
            for q in range(least, levels + 1):
                at = (q - least) * LANES
                store(sums, at, add(load(sums, at), widen(get(totals, q))))
