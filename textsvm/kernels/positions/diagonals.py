"""Kernels of k-mers at similar positions, sums over diagonals: weighted degree with shifts, and oligo.

    k(x, y) = sum_(s = -S..S) delta_|s| T_s        T_s = sum_(k = first..d) (d - k + 1) N_k,s

N_k,s is the number of positions i with x[i+s : i+s+k] = y[i : i+k], both inside their texts: common k-mers on
a diagonal of the table of all pairs of positions. T_s is an integer, so both twins have the same bits.

Texts are stored as bit planes. Bit p of the code of symbol i is bit i % W of word i / W of plane p, with
words of W = 64 positions here and 32 on a GPU. The matches of W positions are

    M_1 = and over p of ~(plane p of x, shifted by s, xor plane p of y)

and the k-mers that end there M_k = M_(k-1) & (M_1 shifted by k - 1 positions, with carries from the previous
word); N_k,s counts their bits. Once M_k is 0 it stays 0 for larger k, usually soon; in the worst case a word
takes 4 d operations, with d <= 32. After the end of a text all planes are 0 in x and 1 in y, which no code
is, so nothing matches. Symbols of x that the columns do not have are 0. Each lane of a vector holds a
different y (base.py); x is shared.

**Weighted degree kernel with shifts** (Rätsch, Sonnenburg, Schölkopf 2005, Bioinformatics 21).

    k(x, y) = sum_(k = 1..d) beta_k sum_(s = 0..S) delta_s sum_i [x[i+s : i+s+k] = y[i : i+k]] + [x[i : i+k] = y[i+s : i+s+k]]

    beta_k = 2 (d - k + 1) / (d (d + 1)),    delta_s = 1 / (2 (s + 1))

over all positions i where both k-mers lie within their texts, which are aligned at their starts and may have
different lengths. S = 0 is the weighted degree kernel (Rätsch and Sonnenburg 2004), which counts k-mers at the
same position. A single pass over matches gives all lengths k.

**Oligo kernel** (Meinicke, Tech, Morgenstern, Merkl 2004, BMC Bioinformatics 5): common k-mers, weighted by
the distance of their positions.

    k(x, y) = sum over k-mers u, positions p of u in x and q of u in y, of exp(-(p - q)^2 / (4 sigma^2))

(the constant factor sqrt(pi) sigma, which normalisation removes, is omitted). Positions count from the start
of a text. With sigma near 0 only k-mers at the same position match; with a large sigma positions do not
matter, as in the spectrum kernel. All pairs with p - q = s lie on a diagonal and have the same weight, so
delta_s = exp(-s^2 / (4 sigma^2)) and only k = d counts. Pairs more than 12 sigma apart are left out: their
terms are below exp(-36) = 2.3e-16, the rounding error of a match at the same position.
"""  # noqa: E501 (a formula)

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from textsvm.arrays import Array, Floats, Ints
from textsvm.errors import InputError
from textsvm.kernels.attribution import Attribution
from textsvm.kernels.base import check_positive, check_whole
from textsvm.kernels.contract import Ability, TileableCost
from textsvm.kernels.positions.base import PositionAttributor, PositionKernel, overlaps
from textsvm.kernels.shared.lanes import Picked
from textsvm.runtime.compiled import njit
from textsvm.runtime.parallel import run
from textsvm.runtime.simd import LANES, aligned, any_set, count_bits, fill, load, store, to_float
from textsvm.text.documents import Documents

#: Largest d: the bits of a word on a GPU.
MOST = 32
#: Greatest shift: the time of a Gram is proportional to it.
MOST_SHIFT = 100_000
#: Multiple of sigma beyond which distances are left out.
REACH = 12
#: Words of 64 positions that a core compares per second.
RATE = 2e8
#: Pairs of texts whose values a core writes per second.
WRITE_RATE = 2.5e7
#: Positions attributed per second and shift.
ATTRIBUTION_RATE = 1e8
KMERS = Attribution(
    "k-mers at positions", "exact: the contribution of each common k-mer, spread evenly over its symbols"
)


@dataclass(frozen=True)
class Diagonals:
    """Parameters of the sums over diagonals; a `Definition`."""

    first: int  #: The shortest k
    length: int  #: d, the longest k, at most `MOST`
    weights: Floats  #: delta of shifts 0 to S

    source: ClassVar[str] = "diagonals.cu"

    @property
    def table(self) -> Floats:
        return self.weights

    @property
    def numbers(self) -> dict[str, float]:
        return {"shifts": len(self.weights), "first": self.first, "length": self.length}

    def self_values(self, documents: Documents) -> Floats:
        codes, offsets, values = documents.codes_for(), np.array(documents.offsets), np.empty(len(documents))

        def work(first: int) -> None:
            end = min(first + 64, len(documents))
            _self_sums(codes, offsets, first, end, self.first, self.length, self.weights, values)

        run(work, range(0, len(documents), 64))
        return values

    def share(self, x: Array, codes: Array, offsets: Array, factors: Floats) -> Floats:
        shares = np.zeros(len(x) + 1)
        _share(x, codes, offsets, factors, self.first, self.length, self.weights, shares)
        return np.cumsum(shares)[:-1]


def _shifts(kernel: Any, row_lengths: Ints, column_lengths: Ints) -> int:
    """Number of diagonals of texts of these lengths."""
    longest = int(max(row_lengths.max(initial=0), column_lengths.max(initial=0)))
    return 2 * len(kernel.definition(longest).weights) - 1


class DiagonalCost(TileableCost):
    """Cost of a sum over diagonals."""

    def of_rows(self, row_lengths: Ints, column_lengths: Ints) -> Floats:
        words = overlaps(row_lengths, column_lengths) / 64 + len(column_lengths)
        shifts = _shifts(self.kernel, row_lengths, column_lengths)
        return shifts * words / RATE + len(column_lengths) / WRITE_RATE


class DiagonalAttributor(PositionAttributor):
    """Exact attribution by common k-mers."""

    method = KMERS

    def seconds(self, lengths: Ints, support_lengths: Ints) -> Floats:
        shifts = _shifts(self.kernel, lengths, support_lengths)
        return shifts * overlaps(lengths, support_lengths) / ATTRIBUTION_RATE


class DiagonalKernel(PositionKernel):
    """A kernel that is a sum over diagonals."""

    cost = Ability(DiagonalCost)
    attribution = Ability(DiagonalAttributor)

    def _lanes(self, documents: Documents, groups: Ints) -> DiagonalLanes:
        return DiagonalLanes(self, documents, groups)


@dataclass(repr=False, eq=False)
class WeightedDegree(DiagonalKernel):
    """Common substrings of up to `degree` symbols at the same position, or at most `shift` from it.

    Texts are aligned at their starts, and nothing is compared behind the end of the shorter text.

    Parameters
    ----------
    degree : int
        Length of the longest substrings that count, 1 to 32; a substring of k symbols weighs
        2 (degree - k + 1) / (degree (degree + 1)).
    shift : int
        Greatest distance of positions, from 0; at distance s a pair weighs 1 / (2 (s + 1)) each way.
    normalised, tokens, keep_case
        See `textsvm.Spectrum`.

    Examples
    --------
    >>> from textsvm import WeightedDegree
    >>> print(WeightedDegree(degree=3)(["gattaca"], ["gatcaca", "tttttttt"]).round(4))
    [[0.7368 0.1956]]
    """

    name: ClassVar[str] = "weighted-degree"
    _shortest = 1

    degree: int = 8
    shift: int = 0
    normalised: bool = True

    def check(self) -> None:
        super().check()
        check_whole(self, "degree", 1, MOST)
        check_whole(self, "shift", 0, MOST_SHIFT)

    def definition(self, longest: int) -> Diagonals:
        shifts = np.arange(min(int(self.shift), max(longest - 1, 0)) + 1)
        weights = np.where(shifts == 0, 1.0, 0.5 / (shifts + 1))
        return Diagonals(1, int(self.degree), weights * 2 / (self.degree * (self.degree + 1)))


@dataclass(repr=False, eq=False)
class Oligo(DiagonalKernel):
    """Common substrings of k symbols, each pair weighted by the distance of its positions.

    Positions are counted from the start of each text; a pair d positions apart weighs
    exp(-d^2 / (4 sigma^2)).

    Parameters
    ----------
    k : int
        Length of the substrings, 1 to 32.
    sigma : float
        Scale of the distance of positions, in symbols, 1e-300 to 1e300.
    normalised, tokens, keep_case
        See `textsvm.Spectrum`.

    Examples
    --------
    >>> from textsvm import Oligo
    >>> print(Oligo(k=2, sigma=1.0)(["gattaca"], ["gattaca", "ggattaca"]).round(4))
    [[1.    0.721]]
    """

    name: ClassVar[str] = "oligo"
    _shortest = "k"

    k: int = 3
    sigma: float = 2.0
    normalised: bool = True

    def check(self) -> None:
        super().check()
        check_whole(self, "k", 1, MOST)
        check_positive(self, "sigma")  # first: the bounds need a number
        if not 1e-300 <= self.sigma <= 1e300:
            raise InputError(f"sigma={self.sigma!r} of the oligo kernel must be from 1e-300 to 1e300")

    def definition(self, longest: int) -> Diagonals:
        reach = math.floor(min(REACH * self.sigma, max(longest - 1, 0)))
        distances = np.arange(reach + 1)
        weights = np.exp(-((distances / (2 * self.sigma)) ** 2))
        return Diagonals(int(self.k), int(self.k), weights)


class DiagonalLanes:
    """Column documents as bit planes (`Lanes`)."""

    def __init__(self, kernel: Any, documents: Documents, groups: Ints) -> None:
        self.kernel, self.symbols = kernel, len(documents.alphabet)
        self.planes = max(1, (self.symbols + 1).bit_length())  # for codes from 1, all zeros and all ones
        self.longest = int(documents.lengths.max(initial=0))
        codes, offsets = documents.codes_for(), np.array(documents.offsets)
        words = [max(1, -(-int(np.diff(offsets)[group[group >= 0]].max()) // 64)) for group in groups]
        self.firsts = np.concatenate([[0], np.cumsum(words)]).astype(np.int64) * self.planes * LANES
        self.words = aligned(int(self.firsts[-1]), np.uint64)

        def pack(g: int) -> None:
            _pack_lanes(
                codes, offsets, groups[g], self.planes, self.words[self.firsts[g] : self.firsts[g + 1]]
            )

        run(pack, range(len(groups)))

    def products(self, rows: Picked, groups: slice) -> Floats:
        codes, offsets, which = rows
        lengths = np.diff(offsets)[which]
        longest = int(lengths.max(initial=0))
        sums = self.kernel.definition(max(longest, self.longest))
        out = np.empty(len(which) * (groups.stop - groups.start) * LANES)
        x = np.zeros((-(-longest // 64) + 2) * self.planes, np.uint64)
        _products(
            codes, offsets, which, self.symbols, self.planes, x, self.words,
            self.firsts[groups.start : groups.stop + 1], sums.first, sums.length, sums.weights, out,
        )  # fmt: skip
        return out.reshape(len(which), (groups.stop - groups.start) * LANES)


@njit(nogil=True, cache=True)
def _pack_lanes(codes, offsets, group, planes, words):
    """words[(w * planes + p) * LANES + lane]: plane p of 64 positions of the lane's document, then ones."""
    words[:] = np.uint64(2**64 - 1)
    for lane in range(LANES):
        if group[lane] >= 0:
            start = offsets[group[lane]]
            for i in range(offsets[group[lane] + 1] - start):
                code, bit = np.uint64(codes[start + i]) + np.uint64(1), np.uint64(1) << np.uint64(i & 63)
                for p in range(planes):
                    if not (code >> np.uint64(p)) & np.uint64(1):
                        words[((i >> 6) * planes + p) * LANES + lane] &= ~bit


@njit(nogil=True, cache=True)
def _pack_row(codes, n_symbols, planes, words):
    """words[(w + 1) * planes + p]: plane p of 64 positions, with a word of zeros before and after."""
    words[: ((len(codes) + 63) // 64 + 2) * planes] = 0
    for i in range(len(codes)):
        if codes[i] < n_symbols:
            code, bit = np.uint64(codes[i]) + np.uint64(1), np.uint64(1) << np.uint64(i & 63)
            for p in range(planes):
                if (code >> np.uint64(p)) & np.uint64(1):
                    words[((i >> 6) + 1) * planes + p] |= bit


@njit(nogil=True, cache=True)
def _diagonal(x, n, y, m, planes, shift, first, length, totals):
    """Add T of a shift, for all lanes, to `totals`; x has n symbols, y at most m."""
    before = fill(np.uint64(0))
    for w in range(max(0, -shift) >> 6, (min(m, n - shift) + 63) >> 6):
        at = 64 * w + shift + 64
        q, low = (at >> 6) * planes, np.uint64(at & 63)
        high = np.uint64(63) - low
        differ = fill(np.uint64(0))
        for p in range(planes):
            bits = (x[q + p] >> low) | ((x[q + planes + p] << high) << np.uint64(1))
            differ = differ | (fill(bits) ^ load(y, (w * planes + p) * LANES))
        match = differ ^ fill(np.uint64(2**64 - 1))
        left, k = match, 1
        while any_set(left):
            if k >= first:
                totals = totals + fill(np.uint64(length - k + 1)) * count_bits(left)
            if k == length:
                break
            moved = (match << fill(np.uint64(k))) | (before >> fill(np.uint64(64 - k)))
            left = left & moved
            k += 1
        before = match
    return totals


@njit(nogil=True, cache=True)
def _products(codes, offsets, which, n_symbols, planes, x, words, firsts, first, length, weights, sums):
    """sums[(k * groups + g) * LANES + lane]: sums over diagonals of which[k] and the lanes of group g."""
    groups = len(firsts) - 1
    for k in range(len(which)):
        row = codes[offsets[which[k]] : offsets[which[k] + 1]]
        _pack_row(row, n_symbols, planes, x)
        for g in range(groups):
            y = words[firsts[g] : firsts[g + 1]]
            m, value = 64 * (len(y) // (planes * LANES)), fill(np.float64(0))
            for s in range(min(len(weights), max(len(row), m))):
                totals = _diagonal(x, len(row), y, m, planes, s, first, length, fill(np.uint64(0)))
                if s > 0:
                    totals = _diagonal(x, len(row), y, m, planes, -s, first, length, totals)
                value = value + fill(weights[s]) * to_float(totals)
            store(sums, (k * groups + g) * LANES, value)


@njit(nogil=True, cache=True)
def _self_sums(codes, offsets, begin, end, first, length, weights, values):
    """values[d]: sums over diagonals of each document with itself."""
    of_run = np.zeros(length + 1, np.int64)  # k-mers that end at a symbol, by the matches up to it
    for k in range(1, length + 1):
        of_run[k] = of_run[k - 1] + (length - k + 1 if k >= first else 0)
    for d in range(begin, end):
        x = codes[offsets[d] : offsets[d + 1]]
        value = 0.0
        for s in range(min(len(weights), len(x))):
            total, matches = 0, 0
            for i in range(len(x) - s):
                matches = min(matches + 1, length) if x[i] == x[i + s] else 0
                total += of_run[matches]
            value += weights[s] * np.float64(total if s == 0 else 2 * total)
        values[d] = value


@njit(nogil=True, cache=True)
def _share(x, codes, offsets, factors, first, length, weights, shares):
    """Add differences of the contributions of x's symbols to `shares`, from k-mers shared with documents."""
    for d in range(len(factors)):
        if factors[d] == 0:
            continue
        y = codes[offsets[d] : offsets[d + 1]]
        for shift in range(1 - min(len(weights), len(y)), min(len(weights), len(x))):
            matches = 0
            for i in range(max(0, -shift), min(len(y), len(x) - shift)):
                matches = min(matches + 1, length) if x[i + shift] == y[i] else 0
                for k in range(first, matches + 1):
                    share = factors[d] * weights[abs(shift)] * (length - k + 1) / k
                    shares[i + shift + 1 - k] += share
                    shares[i + shift + 1] -= share
