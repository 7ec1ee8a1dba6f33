"""Locality-improved kernel (Zien, Rätsch, Mika, Schölkopf, Lengauer, Müller 2000, Bioinformatics 16).

    k(x, y) = (sum_p win_p)^d2        win_p = (sum_(j = -l..l) w_j [x[p+j] = y[p+j]])^d1

over the common positions p of texts aligned at their starts; nothing matches outside of either. The weights
w_j = (l + 1 - |j|) / (l + 1)^2 rise from the borders of a window of 2 l + 1 positions to its centre, and sum
to 1. d1 combines nearby matches, d2 windows anywhere.

With c_p = (l + 1)^2 sum_j w_j [...], a whole number,

    c_(p+1) = c_p + (matches at p+1 .. p+l+1) - (matches at p-l .. p)

and each of the two counts changes by two symbols from p to p + 1: O(1) per position for any l. Powers are
products in float64 of whole numbers, summed in the same order on CPU and GPU. Values below 1.2e-38, float32's
smallest normal number, are 0 on a card.

On a CPU each column document is in a lane of a vector (base.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from textsvm.arrays import Array, Floats, Ints
from textsvm.errors import InputError
from textsvm.kernels.attribution import Attribution
from textsvm.kernels.base import check_whole
from textsvm.kernels.contract import Ability, TileableCost
from textsvm.kernels.positions.base import PositionAttributor, PositionKernel, overlaps
from textsvm.kernels.shared.lanes import Picked, interleave
from textsvm.kernels.shared.normalisation import longest_of
from textsvm.runtime.compiled import njit
from textsvm.runtime.simd import LANES, aligned, fill, load, store, to_float, where_equal, where_less
from textsvm.text.documents import Documents

#: Greatest window, limited by the words of matches on a GPU.
MOST_WINDOW = 31
#: Greatest degree.
MOST_DEGREE = 10
#: Positions that a core compares per second.
RATE = 7e8
#: Positions times window that a core attributes per second.
ATTRIBUTION_RATE = 2e8
WINDOWS = Attribution(
    "windows", "exact: the contribution of each window, spread over its matching symbols by weight"
)


@dataclass(frozen=True)
class WindowSum:
    """Parameters of the sum over windows; a `Definition`."""

    side: int  #: l, positions on either side of the centre
    inner: int  #: d1
    outer: int  #: d2

    source: ClassVar[str] = "locality.cu"

    @property
    def numbers(self) -> dict[str, float]:
        return {"side": self.side, "outer": self.outer, "unit": self.unit}

    @property
    def table(self) -> Floats:
        """c^d1 for all c, shape ((l + 1)^2 + 1,)."""
        c = np.arange((self.side + 1) ** 2 + 1, dtype=np.float64)
        return _power(c, self.inner)

    @property
    def unit(self) -> float:
        """Divisor of sums of c^d1."""
        return float(self.table[-1])

    def finish(self, sums: Floats) -> Floats:
        """k of sums of c^d1."""
        return _power(sums / self.unit, self.outer)

    def of_equal(self, longest: int) -> Floats:
        """Sums of c^d1 of a text with itself by its length, in order of positions, shape (longest + 1,)."""
        side, whole = self.side, 2 * self.side + 1
        weights = side + 1 - np.abs(np.arange(-side, side + 1))
        terms = [
            self.table[np.convolve(np.ones(n, np.int64), weights)[side : side + n]]
            for n in range(1, min(longest, whole) + 1)
        ]
        sums = np.array([0.0, *(np.cumsum(term)[-1] for term in terms)])
        if longest <= whole:
            return sums
        rising = np.concatenate([terms[-1][:side], np.full(longest - 2 * side, self.unit)])
        long = np.cumsum(rising)[whole - side :]
        for falling in terms[-1][side + 1 :]:
            long = long + falling
        return np.concatenate([sums, long])

    def self_values(self, documents: Documents) -> Floats:
        return self.finish(self.of_equal(longest_of(documents))[documents.lengths])

    def share(self, x: Array, codes: Array, offsets: Array, factors: Floats) -> Floats:
        shares = np.zeros(len(x))
        _share(x, codes, offsets, factors, self.side, self.inner, self.outer, self.unit, shares)
        return shares


def _power(x: Floats, degree: int) -> Floats:
    """x * x * ..., multiplied in the same order on CPU and GPU."""
    power = x
    for _ in range(degree - 1):
        power = power * x
    return power


class LocalityCost(TileableCost):
    """Cost of the locality-improved kernel."""

    def of_rows(self, row_lengths: Ints, column_lengths: Ints) -> Floats:
        return (overlaps(row_lengths, column_lengths) + 20 * len(column_lengths)) / RATE


class LocalityAttributor(PositionAttributor):
    """Exact attribution by windows."""

    method = WINDOWS

    def seconds(self, lengths: Ints, support_lengths: Ints) -> Floats:
        return self.kernel.window * overlaps(lengths, support_lengths) / ATTRIBUTION_RATE


@dataclass(repr=False, eq=False)
class LocalityImproved(PositionKernel):
    """Matches at the same positions, weighted in windows; powers of the windows are summed.

    Texts are aligned at their starts, and nothing is compared behind the end of the shorter text.

    Parameters
    ----------
    window : int
        Positions of a window, odd, from 1 to 31; the centre weighs most.
    inner_degree : int
        Power of a window's share of matches, 1 to 10.
    outer_degree : int
        Power of the sum over windows, 1 to 10.
    normalised, tokens, keep_case
        See `textsvm.Spectrum`.

    Examples
    --------
    >>> from textsvm import LocalityImproved
    >>> print(LocalityImproved(window=3)(["gattaca"], ["gatcaca", "ttttttt"]).round(4))
    [[0.5908 0.1137]]
    """

    name: ClassVar[str] = "locality"
    _shortest = 1
    cost = Ability(LocalityCost)
    attribution = Ability(LocalityAttributor)

    window: int = 9
    inner_degree: int = 4
    outer_degree: int = 1
    normalised: bool = True

    def definition(self, longest: int) -> WindowSum:
        return WindowSum(int(self.window) // 2, int(self.inner_degree), int(self.outer_degree))

    def _lanes(self, documents: Documents, groups: Ints) -> WindowLanes:
        return WindowLanes(self.definition(0), documents, groups)

    def check(self) -> None:
        super().check()
        check_whole(self, "window", 1, MOST_WINDOW)
        if self.window % 2 == 0:
            raise InputError(f"window={self.window!r} of the locality kernel must be odd: it has a centre")
        check_whole(self, "inner_degree", 1, MOST_DEGREE)
        check_whole(self, "outer_degree", 1, MOST_DEGREE)


class WindowLanes:
    """Column documents, interleaved when they are compared (`Lanes`)."""

    def __init__(self, windows: WindowSum, documents: Documents, groups: Ints) -> None:
        self.windows, self.documents, self.groups = windows, documents, groups

    def products(self, rows: Picked, groups: slice) -> Floats:
        codes, offsets, which = rows
        # Codes of the same type, so that the loop is compiled once for it.
        ours, wide = self.documents.codes_for(), np.uint32
        ours, codes = (ours, codes) if ours.dtype == codes.dtype else (ours.astype(wide), codes.astype(wide))
        own, lane_groups = np.array(self.documents.offsets), self.groups[groups]
        longest = int(np.diff(own)[lane_groups[lane_groups >= 0]].max(initial=0))
        out = np.empty(len(which) * len(lane_groups) * LANES)
        _products(
            codes, offsets, which, ours, own, lane_groups, self.windows.side, self.windows.inner,
            aligned(longest * LANES, np.int32), aligned(LANES, np.int32),
            aligned((longest + 2 * self.windows.side + 2) * LANES, np.int32), out,
        )  # fmt: skip
        return self.windows.finish(out.reshape(len(which), len(lane_groups) * LANES))


@njit(nogil=True, cache=True)
def _products(
    codes, offsets, which, own_codes, own_offsets, groups, side, inner, columns, lengths, match, sums
):
    """sums[(k * len(groups) + g) * LANES + lane]: the sum of c^d1 of which[k] and the lanes of group g."""
    one, zero, edge = fill(np.int32(1)), fill(np.int32(0)), side + 1
    for g in range(len(groups)):
        m = interleave(own_codes, own_offsets, groups[g], -1, columns)
        for lane in range(LANES):
            d = groups[g, lane]
            lengths[lane] = own_offsets[d + 1] - own_offsets[d] if d >= 0 else 0
        for k in range(len(which)):
            start = offsets[which[k]]
            n = min(offsets[which[k] + 1] - start, m)
            for i in range(edge):
                store(match, i * LANES, zero)
                store(match, (edge + n + i) * LANES, zero)
            for i in range(n):
                symbol = fill(np.int32(codes[start + i]))
                store(match, (edge + i) * LANES, where_equal(load(columns, i * LANES), symbol, one, zero))
            store(sums, (k * len(groups) + g) * LANES, _sum_windows(match, n, lengths, side, inner))


@njit(nogil=True, cache=True)
def _sum_windows(match, n, lengths, side, inner):
    """The sum of c^d1 over n positions, of all lanes; match[(position + side + 1) * LANES + lane]."""
    zero, total, ends = fill(np.int32(0)), fill(np.float64(0)), load(lengths, 0)
    count, right, left = zero, zero, zero
    for q in range(min(side + 1, n)):
        here = load(match, (q + side + 1) * LANES)
        count = count + fill(np.int32(side - q)) * here
        right = right + here
    for p in range(n):
        count = count + right - left
        value = to_float(where_less(fill(np.int32(p)), ends, count, zero))
        power = value
        for _ in range(inner - 1):
            power = power * value
        total = total + power
        here = load(match, (p + side + 1) * LANES)
        right = right + load(match, (p + 2 * side + 2) * LANES) - here
        left = left + here - load(match, p * LANES)
    return total


@njit(nogil=True, cache=True)
def _share(x, codes, offsets, factors, side, inner, outer, unit, shares):
    """Add the contributions of the symbols of x to the sum of factors times values with documents."""
    windows = np.empty(len(x))
    for d in range(len(factors)):
        y = codes[offsets[d] : offsets[d + 1]]
        n, total = min(len(x), len(y)), 0.0
        for p in range(n):
            count = 0
            for q in range(max(0, p - side), min(n, p + side + 1)):
                count += side + 1 - abs(q - p) if x[q] == y[q] else 0
            windows[p] = np.float64(count) ** (inner - 1) / unit
            total += windows[p] * count
        factor = factors[d] * total ** (outer - 1)
        for p in range(n):
            for q in range(max(0, p - side), min(n, p + side + 1)):
                if x[q] == y[q]:
                    shares[q] += factor * (side + 1 - abs(q - p)) * windows[p]
