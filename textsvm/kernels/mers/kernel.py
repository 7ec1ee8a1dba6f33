"""Base class, weights and attribution of kernels of distances between l-mers; rows.py computes them.

Attribution is exact: a value is a sum over the l-mers of the document (scores.py). The part of each is spread
evenly over its symbols; equal l-mers, and on both strands an l-mer and its reverse complement, are one
feature.

The weight w(d) of two l-mers that differ at d positions:

**(k, m) mismatch kernel** (Leslie, Eskin, Cohen, Weston, Noble 2004). phi_z(s) is the number of k-mers of s
within m mismatches of z, z any string of k letters, so w(d) is how many z are within m of both of two k-mers.
Over an alphabet of b letters, let z differ from both at i of the k - d positions where these are equal, and
be as the first at p, as the second at q of the d others:

    w(d) = sum_(i, p, q) C(k - d, i) (b - 1)^i  C(d, p) C(d - p, q) (b - 2)^(d - p - q),
           i + d - p <= m,  i + d - q <= m,                        w(d) = 0 for d > 2m

**gkm kernels** (Ghandi, Lee, Mohammad-Noori, Beer 2014). Two l-mers share C(l - d, k) gapped k-mers: that is
the filter "none". The others compare counts of l-mers as the counts of gapped k-mers say them. These are A x,
x the counts of the b^l l-mers and A one row for each choice of k of l positions and k letters, and the
estimate of least length is A+ A x, A+ the pseudo-inverse. P = A+ A depends on d alone:

    P(d) = sum_i W(i) C(d, i) C(l - d, k - i)
    W(i) = (-1)^i C(l - k + i - 1, i) / C(k, i)  sum_(j = 0)^(k - i) C(l, j) (b - 1)^j  /  (C(l, k) b^l)

The kernel of the estimates has the weights P P, and P P = P since P is a projection: that is the filter
"full". The filter "truncated" sets P(d) to 0 from the first d on where it is not positive, T, and its weights
are T T: with t(d, a, c) the number of l-mers at distance a of one and c of the other of two at distance d,

    w(d) = sum_(a, c) t(d, a, c) T(a) T(c)

All of it is done in whole numbers and fractions, and rounded once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.kernels.attribution import Attribution, Attributor, Contributions
from textsvm.kernels.base import SymbolKernel, check_flag, is_whole
from textsvm.kernels.contract import Ability, Cost, Lengths, Predictor, Values
from textsvm.kernels.mers.cpu import HostMers
from textsvm.kernels.mers.rows import MerRows
from textsvm.kernels.mers.windows import Centred
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress
from textsvm.text.documents import Documents

if TYPE_CHECKING:
    from typing_extensions import Self

MERS = Attribution("l-mers", "exact: each l-mer's contribution, spread evenly over its symbols", exact=True)
_PAIRED = str.maketrans("acgtu", "tgcaa")


def mer_contributions(
    rows: Any, documents: Documents, coef: NDArray[np.float64], progress: Progress | None = None
) -> Contributions:
    """Contributions of l-mers to values of documents.

    Parameters
    ----------
    rows : MerRows
        Of the support vectors.
    documents : Documents
    coef : float64 array, shape (len(documents), n_sv)
    progress : callable, optional
    """
    mers, columns = rows.mers(documents)
    scale, result = rows.normalise(documents, mers, columns).scale, Contributions([], [])
    for d, begin in enumerate(documents.offsets[:-1]):
        own = mers.take(np.array([d]))
        values = devices.to_host(rows.products(own.singly(), np.ones(len(own.starts)))).astype(np.float64)
        terms = scale[d] * own.weights * (values @ coef[d])
        shares = np.zeros(int(documents.lengths[d]))
        for place in range(mers.length):
            np.add.at(shares, own.starts - begin + place, terms / mers.length)
        result.symbols.append(documents.spread(d, shares))
        names = _names(documents, d, own.starts - begin, mers.length, bool(rows.kernel.canonical))
        result.features.append(_together(names, terms))
        if progress is not None:
            progress(d + 1, len(documents))
    return result


def _names(documents: Documents, d: int, starts: NDArray[np.int64], length: int, both: bool) -> list[str]:
    """l-mers as text; on both strands the first of an l-mer and its reverse complement."""
    symbols = documents.symbols(d)
    names = [documents.join(list(symbols[start : start + length])) for start in starts.tolist()]
    if not both:
        return names
    names = [name.replace("u", "t") for name in names]
    return [min(name, name[::-1].translate(_PAIRED)) for name in names]


def _together(names: list[str], terms: NDArray[np.float64]) -> list[tuple[str, int, float]]:
    sums: dict[str, tuple[int, float]] = {}
    for name, term in zip(names, terms.tolist(), strict=True):
        count, total = sums.get(name, (0, 0.0))
        sums[name] = count + 1, total + term
    return [(name, count, total) for name, (count, total) in sums.items()]


@lru_cache(maxsize=64)
def mismatch_weights(k: int, m: int, b: int) -> NDArray[np.float64]:
    """Number of strings of k of b letters within m mismatches of both k-mers, for d = 0 .. min(k, 2m)."""
    weights = [
        sum(number for a, c, number in around(k, d, b) if a <= m and c <= m) for d in range(min(k, 2 * m) + 1)
    ]
    return np.array(weights, float)


@lru_cache(maxsize=64)
def gkm_weights(l: int, k: int, d: int, b: int, filtered: str) -> NDArray[np.float64]:  # noqa: E741
    """Weights of l-mers with k informative positions, for 0 .. d mismatches.

    Parameters
    ----------
    l, k, d : int
    b : int
        Letters of the alphabet; ignored with "none".
    filtered : {"none", "full", "truncated"}
    """
    if filtered == "none":
        return np.array([comb(l - i, k) for i in range(d + 1)], float)
    full = estimates(l, k, b)
    if filtered == "full":
        return np.array([float(value) for value in full[: d + 1]])
    last = next((i for i, value in enumerate(full) if value <= 0), l + 1)
    kept = full[:last]
    return np.array([
        float(sum(number * kept[a] * kept[c] for a, c, number in around(l, i, b) if max(a, c) < last))
        for i in range(d + 1)
    ])  # fmt: skip


def estimates(l: int, k: int, b: int) -> list[Fraction]:  # noqa: E741
    """P(d) for d = 0 .. l."""
    weights = [
        Fraction((-1) ** i * _binomial(l - k + i - 1, i) * sum(_ball(l, k - i, b)), comb(k, i))
        for i in range(k + 1)
    ]
    total = comb(l, k) * b**l
    return [
        sum((weights[i] * comb(d, i) * comb(l - d, k - i) for i in range(min(d, k) + 1)), Fraction(0)) / total
        for d in range(l + 1)
    ]


def around(l: int, d: int, b: int) -> Iterator[tuple[int, int, int]]:  # noqa: E741
    """(a, c, number of l-mers at distances a and c from two l-mers at distance d)."""
    for i in range(l - d + 1):
        outside = comb(l - d, i) * (b - 1) ** i
        for p in range(d + 1):
            for q in range(d - p + 1):
                number = outside * comb(d, p) * comb(d - p, q) * (b - 2) ** (d - p - q)
                yield i + d - p, i + d - q, number


def _ball(l: int, most: int, b: int) -> list[int]:  # noqa: E741
    return [comb(l, j) * (b - 1) ** j for j in range(most + 1)]


def _binomial(n: int, r: int) -> int:
    """C(n, r), C(-1, 0) = 1."""
    return 1 if r == 0 else comb(n, r) if n >= 0 else 0


#: Pairs of l-mers a second, of weight 1.
RATE = 8e9
#: Greatest number of mismatches.
MOST = 15


@dataclass(frozen=True)
class MerDefinition:
    """Length of l-mers and the weights of pairs."""

    length: int  #: Symbols of an l-mer
    #: float64 array: w(0), w(1), ...: weights of pairs at these distances; pairs farther apart do not count.
    weights: NDArray[np.float64]
    centred: Centred | None = None  #: Weights of positions; equal if None
    counts_letters: bool = True  #: Whether the weights depend on the size of the alphabet


class MerCost(Cost):
    """Cost of a kernel of distances between l-mers."""

    def of_rows(self, row_lengths: Lengths, column_lengths: Lengths) -> Values:
        kernel, definition = self.kernel, self.kernel.definition
        rows, columns = (
            np.maximum(lengths - definition.length + 1, 0.0) for lengths in (row_lengths, column_lengths)
        )
        each = (2 if kernel.canonical else 1) * (definition.length + 3 * len(definition.weights)) / 22
        return rows * columns.sum() * each * (1 if definition.centred is None else 4) / RATE

    def divides(self, documents: Documents, kind: str = "cpu") -> bool:
        return True


class MerAttributor(Attributor):
    """Exact attribution by l-mers."""

    method = MERS

    def contributions(
        self, rows: Any, documents: Any, coef: Values, values: Values, progress: Progress | None = None
    ) -> Contributions:
        return mer_contributions(rows, documents, coef, progress)

    def seconds(self, lengths: Lengths, support_lengths: Lengths) -> Values:
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
        if not is_whole(self.alphabet) or self.alphabet < 2:
            raise InputError(
                f"alphabet={self.alphabet!r} is no number of letters: give a whole number from 2"
            )
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
        self.check()
        if device.kind == "cuda":
            from textsvm.kernels.mers.cuda import CudaMers

            return CudaMers(self, documents, device)
        return HostMers(self, documents, device)

    def predictor(self, support: Documents, coef: NDArray[np.float64], device: Device) -> Predictor:
        return self.rows(support, device).predictor(coef)


def check_strands(kernel: Any) -> None:
    """Raise InputError if `canonical` is no bool, or symbols are no letters of DNA."""
    check_flag(kernel, "canonical")
    if kernel.canonical and kernel.tokens != "characters":
        raise InputError(
            f"canonical=True reads letters of DNA or RNA, so tokens={kernel.tokens!r} cannot go with it"
        )
