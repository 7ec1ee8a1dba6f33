"""Base class, weights and attribution of kernels of distances between l-mers; rows.py computes them.

Attribution is exact: a value is a sum over the l-mers of the document. The term of an l-mer is spread evenly
over its symbols. Equal l-mers are the same feature; on both strands also an l-mer and its reverse complement.

The weight w(d) of two l-mers that differ at d positions:

**(k, m) mismatch kernel** (Leslie, Eskin, Cohen, Weston, Noble 2004). phi_z(s) is the number of k-mers of s
within m mismatches of z, z any string of k letters, so w(d) is the number of strings z within m mismatches of
both k-mers. Over an alphabet of b letters, let z differ from both k-mers at i of the k - d positions where
these are equal; let it equal the first k-mer at p and the second at q of the d other positions:

    w(d) = sum_(i, p, q) C(k - d, i) (b - 1)^i  C(d, p) C(d - p, q) (b - 2)^(d - p - q),
           i + d - p <= m,  i + d - q <= m,                        w(d) = 0 for d > 2m

**gkm kernels** (Ghandi, Lee, Mohammad-Noori, Beer 2014). Two l-mers share C(l - d, k) gapped k-mers: this is
the filter "none". The other filters compare counts of l-mers that are estimated from the counts of gapped
k-mers. These are A x, where x are the counts of the b^l l-mers and A has a row for each choice of k of l
positions and k letters. The estimate of least norm is A+ A x, A+ the pseudo-inverse. P = A+ A depends on d
alone:

    P(d) = sum_i W(i) C(d, i) C(l - d, k - i)
    W(i) = (-1)^i C(l - k + i - 1, i) / C(k, i)  sum_(j = 0)^(k - i) C(l, j) (b - 1)^j  /  (C(l, k) b^l)

The kernel of the estimates has the weights P P, and P P = P since P is a projection: that is the filter
"full". The filter "truncated" sets P(d) to 0 from the first d on where it is not positive, which gives T, and
its weights are T T. With t(d, a, c) the number of l-mers at distances a and c from two l-mers at distance d,

    w(d) = sum_(a, c) t(d, a, c) T(a) T(c)

All weights are computed as integers and fractions, and rounded once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import comb
from typing import ClassVar, Self

import numpy as np

from textsvm.arrays import Floats, Ints
from textsvm.errors import InputError
from textsvm.kernels.attribution import AttributionMethod, Attributor, Contributions
from textsvm.kernels.base import Ability, SymbolKernel, check_choice, check_whole
from textsvm.kernels.contract import Predictor, TileableCost
from textsvm.kernels.mers.cpu import HostMers
from textsvm.kernels.mers.cuda import CudaMers
from textsvm.kernels.mers.rows import MerPredictor, MerRows
from textsvm.kernels.mers.windows import PAIRED, check_strands
from textsvm.kernels.options import FILTERS
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress, report
from textsvm.text.documents import Documents

MERS = AttributionMethod("l-mers", "exact: each l-mer's contribution, spread evenly over its symbols")


def _names(documents: Documents, d: int, starts: Ints, length: int, both: bool) -> list[str]:
    """l-mers as text; on both strands the smaller of an l-mer and its reverse complement."""
    symbols = documents.symbols(d)
    names = [documents.join(list(symbols[start : start + length])) for start in starts.tolist()]
    if not both:
        return names
    names = [name.replace("u", "t") for name in names]
    return [min(name, name[::-1].translate(PAIRED)) for name in names]


def _sum_by_name(names: list[str], terms: Floats) -> list[tuple[str, int, float]]:
    sums: dict[str, tuple[int, float]] = {}
    for name, term in zip(names, terms.tolist(), strict=True):
        count, total = sums.get(name, (0, 0.0))
        sums[name] = count + 1, total + term
    return [(name, count, total) for name, (count, total) in sums.items()]


@lru_cache(maxsize=64)
def mismatch_weights(k: int, m: int, b: int) -> Floats:
    """Number of strings of k of b letters within m mismatches of both k-mers, for d = 0 .. min(k, 2m)."""
    weights = [
        sum(number for a, c, number in around(k, d, b, m) if a <= m and c <= m)
        for d in range(min(k, 2 * m) + 1)
    ]
    return np.array(weights, float)


@lru_cache(maxsize=64)
def gkm_weights(l: int, k: int, d: int, b: int, filtered: str) -> Floats:  # noqa: E741
    """Weights of l-mers over b letters with k informative positions, for 0 .. d mismatches."""
    if filtered == "none":
        return np.array([comb(l - i, k) for i in range(d + 1)], float)
    full = estimates(l, k, b)
    if filtered == "full":
        return np.array([float(value) for value in full[: d + 1]])
    last = next((i for i, value in enumerate(full) if value <= 0), l + 1)
    truncated, most = full[:last], last - 1
    return np.array([
        float(sum(
            number * truncated[a] * truncated[c]
            for a, c, number in around(l, i, b, most)
            if max(a, c) <= most
        ))
        for i in range(d + 1)
    ])  # fmt: skip


def estimates(l: int, k: int, b: int) -> list[Fraction]:  # noqa: E741
    """P(d) for d = 0 .. l."""
    balls = [sum(comb(l, j) * (b - 1) ** j for j in range(radius + 1)) for radius in range(k + 1)]
    weights = [
        # C(-1, 0) = 1.
        Fraction((-1) ** i * comb(max(l - k + i - 1, 0), i) * balls[k - i], comb(k, i))
        for i in range(k + 1)
    ]
    total = comb(l, k) * b**l
    return [
        sum((weights[i] * comb(d, i) * comb(l - d, k - i) for i in range(min(d, k) + 1)), Fraction(0)) / total
        for d in range(l + 1)
    ]


def around(l: int, d: int, b: int, most: int) -> Iterator[tuple[int, int, int]]:  # noqa: E741
    """(a, c, number of l-mers at distances a and c from two l-mers at distance d).

    `most` is the largest distance of interest; some larger ones are left out.
    """
    for i in range(min(l - d, most) + 1):
        outside = comb(l - d, i) * (b - 1) ** i
        for p in range(d + 1):
            for q in range(d - p + 1):
                number = outside * comb(d, p) * comb(d - p, q) * (b - 2) ** (d - p - q)
                yield i + d - p, i + d - q, number


RATE = 8e9  #: Pairs of l-mers a second, of weight 1.
MOST = 15  #: Greatest number of mismatches.
LONGEST = 1000  #: Greatest number of symbols of a k-mer.


@dataclass(frozen=True)
class MerDefinition:
    """Length of l-mers and the weights of pairs."""

    length: int  #: Symbols of an l-mer
    #: float64 array: w(0), w(1), ...: weights of pairs at these distances; pairs farther apart do not count.
    weights: Floats
    counts_letters: bool = True  #: Whether the weights depend on the size of the alphabet


class MerCost(TileableCost):
    """Cost of a kernel of distances between l-mers."""

    def of_rows(self, row_lengths: Ints, column_lengths: Ints) -> Floats:
        kernel, definition = self.kernel, self.kernel.definition
        rows, columns = (np.maximum(n - definition.length + 1, 0.0) for n in (row_lengths, column_lengths))
        operations = (2 if kernel.canonical else 1) * (definition.length + 3 * len(definition.weights)) / 22
        return rows * columns.sum() * operations / RATE


class MerAttributor(Attributor):
    """Exact attribution by l-mers."""

    method = MERS

    def contributions(
        self, rows: MerRows, documents: Documents, coef: Floats, values: Floats, progress: Progress | None
    ) -> Contributions:
        mers, columns = rows.mers(documents)
        scale, result = rows.normalise(documents, mers, columns).scale, Contributions([], [])
        for d, begin in enumerate(documents.offsets[:-1]):
            own = mers.take(np.array([d]))
            n = len(own.starts)
            l_mers = replace(own, indptr=np.arange(n + 1))  # each l-mer a document
            products = devices.to_host(rows.products(l_mers, np.ones(n)))
            terms = scale[d] * (products.astype(np.float64) @ coef[d])
            shares = np.zeros(int(documents.lengths[d]))
            for place in range(mers.length):
                np.add.at(shares, own.starts - begin + place, terms / mers.length)
            result.symbols.append(documents.spread(d, shares))
            names = _names(documents, d, own.starts - begin, mers.length, bool(rows.kernel.canonical))
            result.features.append(_sum_by_name(names, terms))
            report(progress, d + 1, len(documents))
        return result

    def seconds(self, lengths: Ints, support_lengths: Ints) -> Floats:
        return 4 * MerCost(self.kernel).of_rows(lengths, support_lengths)


class MerKernel(SymbolKernel):
    """A kernel that sums a weight of the distance over all pairs of l-mers."""

    cost = Ability(MerCost)
    attribution = Ability(MerAttributor)
    canonical: bool
    alphabet: int
    normalised: bool

    @property
    @abstractmethod
    def definition(self) -> MerDefinition:
        """Length of l-mers and the weights of pairs."""

    def check(self) -> None:
        super().check()
        check_strands(self)
        check_whole(self, "alphabet", 2)
        if self.canonical and self.alphabet != 4:
            raise InputError(
                f"canonical=True reads the 4 letters of DNA, so alphabet={self.alphabet} must be 4"
            )

    def fit(self, documents: Documents, device: Device | None = None) -> Self:
        self.check()
        if not self.canonical and self.definition.counts_letters:
            letters = np.count_nonzero(np.bincount(documents.codes))
            if letters > self.alphabet:
                raise InputError(
                    f"the texts have {letters:,} different symbols, and the {self.name} kernel counts over "
                    f"an alphabet of {self.alphabet}; give alphabet={letters}"
                )
        return self

    def rows(self, documents: Documents, device: Device) -> MerRows:
        return (CudaMers if device.kind == "cuda" else HostMers)(self, documents, device)

    def predictor(self, support: Documents, coef: Floats, device: Device) -> Predictor:
        return MerPredictor(self.rows(support, device), coef)


@dataclass(repr=False, eq=False)
class Mismatch(MerKernel):
    """(k, m) mismatch kernel: a k-mer counts for every string of k letters that differs at up to m places.

    Parameters
    ----------
    k : int
        Symbols of a k-mer.
    m : int
        Mismatches, below k.
    canonical : bool
        Read a text of DNA or RNA (letters a, c, g, t or u, and n) on both strands. u is a t, and k-mers with
        an n do not count.
    alphabet : int
        Letters that strings may have: 4 of DNA, 20 of proteins. `fit` refuses texts of more.
    normalised, tokens, keep_case
        See `textsvm.Spectrum`; tokens="blosum62" is not possible.

    Examples
    --------
    >>> from textsvm import Mismatch
    >>> print(Mismatch(k=3, m=1)(["gattaca"], ["gatcaca"]).round(4))
    [[0.7503]]
    """

    name: ClassVar[str] = "mismatch"
    _shortest = "k"

    k: int = 5
    m: int = 1
    canonical: bool = False
    alphabet: int = 4
    normalised: bool = True

    @property
    def definition(self) -> MerDefinition:
        return MerDefinition(int(self.k), mismatch_weights(int(self.k), int(self.m), int(self.alphabet)))

    def check(self) -> None:
        super().check()
        check_whole(self, "k", 1, LONGEST)
        check_whole(self, "m", 0, self.k - 1)
        if min(self.k, 2 * self.m) > MOST:
            raise InputError(f"m={self.m} mismatches are too many: give {MOST // 2} at most")


@dataclass(repr=False, eq=False)
class Gkm(MerKernel):
    """Kernels of gkm-SVM and LS-GKM: l-mers compared by the gapped k-mers they share, up to d mismatches.

    Parameters
    ----------
    l : int
        Symbols of an l-mer.
    k : int
        Informative positions of an l-mer; the others are gaps.
    d : int
        Pairs of l-mers that differ at more positions do not count.
    filter : {"none", "full", "truncated"}
        Compare counts of gapped k-mers (LS-GKM's ``-t 0``), counts of l-mers estimated from these
        (``-t 1``), or these without negative estimates ("truncated", ``-t 2``). "none" with d = l - k is
        `GappedKmers` with g = l, m = l - k and weight="count".
    canonical : bool
        Read a text of DNA or RNA (letters a, c, g, t or u, and n) on both strands, as LS-GKM does by
        default. u is a t, and l-mers with an n do not count.
    alphabet : int
        Letters that l-mers may have, on which estimates depend: 4 of DNA, 20 of proteins. `fit` refuses
        texts of more.
    normalised, tokens, keep_case
        See `textsvm.Spectrum`; tokens="blosum62" is not possible.

    Examples
    --------
    >>> from textsvm import Gkm
    >>> print(Gkm(l=4, k=3, d=1, canonical=False)(["gattaca"], ["gatcaca"]).round(4))
    [[0.277]]
    """

    name: ClassVar[str] = "gkm"
    _shortest = "l"

    l: int = 11  # noqa: E741
    k: int = 7
    d: int = 3
    filter: str = "truncated"
    canonical: bool = False
    alphabet: int = 4
    normalised: bool = True

    @property
    def definition(self) -> MerDefinition:
        weights = gkm_weights(int(self.l), int(self.k), int(self.d), int(self.alphabet), self.filter)
        return MerDefinition(int(self.l), weights, counts_letters=self.filter != "none")

    def check(self) -> None:
        super().check()
        check_whole(self, "l", 1, 64)
        check_whole(self, "k", 1, self.l)
        check_whole(self, "d", 0, self.l)
        if self.d > MOST:
            raise InputError(f"d={self.d} mismatches are too many: give {MOST} at most")
        check_choice(self, "filter", FILTERS)
