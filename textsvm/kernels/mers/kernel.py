"""What kernels of distances between l-mers have in common: see mer_rows.py.

Which symbols a value of a kernel of distances between l-mers comes from, exactly.

A value is a sum over the l-mers of the document (`mer_scores`). The part of each is spread evenly over its
symbols; the parts of equal l-mers together are the contribution of that l-mer, with both strands that of it
and its reverse complement.

What two l-mers that differ at d positions count, for d = 0, 1, ...: the weights of kernels of mismatches.

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
from fractions import Fraction
from functools import lru_cache
from math import comb
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.kernels.attribution import Attribution, Contributions
from textsvm.kernels.base import Predictor, SymbolKernel, is_whole
from textsvm.kernels.mers.cpu import HostMers
from textsvm.kernels.mers.rows import MerRows
from textsvm.kernels.mers.windows import Centred
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress
from textsvm.text.documents import Documents

MERS = Attribution("l-mers", "exact: each l-mer's contribution, spread evenly over its symbols", exact=True)
_PAIRED = str.maketrans("acgtu", "tgcaa")


def mer_contributions(
    rows: Any, documents: Documents, coef: NDArray[np.float64], progress: Progress | None = None
) -> Contributions:
    """Of documents to values that are sums with coefficients (documents, support vectors).

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
    """l-mers as text; of one and its reverse complement the first."""
    symbols = documents.symbols(d)
    found = [documents.join(list(symbols[start : start + length])) for start in starts.tolist()]
    if not both:
        return found
    found = [name.replace("u", "t") for name in found]
    return [min(name, name[::-1].translate(_PAIRED)) for name in found]


def _together(names: list[str], terms: NDArray[np.float64]) -> list[tuple[str, int, float]]:
    sums: dict[str, tuple[int, float]] = {}
    for name, term in zip(names, terms.tolist(), strict=True):
        count, total = sums.get(name, (0, 0.0))
        sums[name] = count + 1, total + term
    return [(name, count, total) for name, (count, total) in sums.items()]


@lru_cache(maxsize=64)
def mismatch_weights(k: int, m: int, b: int) -> NDArray[np.float64]:
    """Strings of k of b letters within m mismatches of both of two, for d = 0 .. min(k, 2m)."""
    found = [
        sum(number for a, c, number in around(k, d, b) if a <= m and c <= m) for d in range(min(k, 2 * m) + 1)
    ]
    return np.array(found, float)


@lru_cache(maxsize=64)
def gkm_weights(l: int, k: int, d: int, b: int, filtered: str) -> NDArray[np.float64]:  # noqa: E741
    """Weights of l-mers with k informative positions, for 0 .. d mismatches.

    Parameters
    ----------
    l, k, d : int
    b : int
        Letters of the alphabet; of no matter with "none".
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
    """(a, c, number of l-mers at distance a of one and c of the other of two l-mers at distance d)."""
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
#: Mismatches that may count.
MOST = 15


class MerKernel(SymbolKernel):
    """A kernel that sums a weight of the distance over all pairs of l-mers.

    A subclass has `length`, `weights` and its own `check`.
    """

    attribution: ClassVar[Attribution] = MERS
    canonical: bool
    alphabet: int
    normalised: bool

    @property
    @abstractmethod
    def length(self) -> int:
        """Symbols of an l-mer."""

    @property
    @abstractmethod
    def weights(self) -> NDArray[np.float64]:
        """w(0), w(1), ...: what pairs at these distances count, 0 beyond."""

    @property
    def centred(self) -> Centred | None:
        """Weights of positions, None: all alike."""
        return None

    @property
    def counts_letters(self) -> bool:
        """Whether the weights depend on the size of the alphabet."""
        return True

    @property
    def min_length(self) -> int:
        return self.length

    def check(self) -> None:
        super().check()
        if not isinstance(self.canonical, bool | np.bool_):
            raise InputError(f"canonical={self.canonical!r} of the {self.name} kernel must be True or False")
        if self.canonical and self.tokens != "characters":
            raise InputError(
                f"canonical=True reads letters of DNA or RNA, so tokens={self.tokens!r} cannot go with it"
            )
        if not is_whole(self.alphabet) or self.alphabet < 2:
            raise InputError(
                f"alphabet={self.alphabet!r} is no number of letters: give a whole number from 2"
            )
        if self.canonical and self.alphabet != 4:
            raise InputError(
                f"canonical=True reads the 4 letters of DNA, so alphabet={self.alphabet} must be 4"
            )

    def fit(self, documents: Documents) -> MerKernel:
        self.check()
        if self.counts_letters and not self.canonical:
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

    def cost(self, row_lengths: NDArray[np.int64], column_lengths: NDArray[np.int64]) -> NDArray[np.float64]:
        rows, columns = (np.maximum(each - self.length + 1, 0.0) for each in (row_lengths, column_lengths))
        each = (2 if self.canonical else 1) * (self.length + 3 * len(self.weights)) / 22
        return rows * columns.sum() * each * (1 if self.centred is None else 4) / RATE

    def divides(self, documents: Documents, kind: str = "cpu") -> bool:
        return True

    def contributions(
        self,
        rows: Any,
        documents: Documents,
        coef: NDArray[np.float64],
        values: NDArray[np.float64],
        progress: Progress | None = None,
    ) -> Contributions:
        return mer_contributions(rows, documents, coef, progress)

    def contributions_cost(
        self, lengths: NDArray[np.int64], support_lengths: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        return 4 * self.cost(lengths, support_lengths)
