"""Kernel of gapped k-mers: windows of g symbols that two documents share, m of the symbols left open.

    k(s, t) = sum_(M, u) phi_(M, u)(s) phi_(M, u)(t),    phi_(M, u)(s) = f(c_(M, u)(s)),

M runs over all choices of k = g - m of the g positions of a window (masks), u over the strings of k symbols,
c_(M, u)(s) is the number of windows of s that have u at the positions of M, and f(c) is c, 1 (presence) or
1 + ln c (log). m = 0 is the p-spectrum kernel, p = g.

The features of a mask are those of a spectrum: its X (documents x features) is counted and its products are
added to the Gram, mask by mask; memory is for a single mask. On both strands (canonical) the windows of the
reverse complement of s count, too. There a mask and its mirror image have equal Grams, so half of the masks
are computed (gapped_features.py), those of pairs first: their sum is doubled.

What is exact: counts and presence are sums of integers, as in the spectrum kernel, each mask's rounded to
float32 once. With log X is rounded to float32 and the sums are float64.

Ghandi, Lee, Mohammad-Noori, Beer 2014 (gkm-SVM); Blakely, Collins, Singh, et al. 2020 (FastSK).

Attribution is exact: as for substrings (spectrum/features.py) a value is phi(x) . w, a sum over the features
of x. The contribution of a feature, a mask with its symbols, is spread evenly over the windows of x with this
feature, and that of a window over the positions that the mask keeps. Windows of the reverse complement have
their positions in the text itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from math import comb
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.kernels.attribution import Attribution, Attributor, Contributions
from textsvm.kernels.base import SymbolKernel, is_whole
from textsvm.kernels.contract import Ability, Cost, Lengths, Predictor, Values
from textsvm.kernels.mers import gapped_rows as gapped_tables
from textsvm.kernels.mers.gapped_cpu import MaskLists, groups, lists_pay
from textsvm.kernels.mers.gapped_rows import GappedRows, Tables, Texts, values_of
from textsvm.kernels.mers.kernel import check_strands
from textsvm.kernels.mers.windows import (
    LETTERS,
    Mask,
    MaskedWindows,
    Windows,
    counts_of,
    masks,
    symbols_of,
    windows_of,
)
from textsvm.kernels.normalisation import Normalisation
from textsvm.kernels.options import GAPPED_WEIGHTS as WEIGHTS
from textsvm.kernels.spectrum.features import weigh
from textsvm.linalg.products import Half, InvertedIndex, finish_half
from textsvm.linalg.sparse import Counts, Sparse
from textsvm.runtime.compiled import njit
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress, part
from textsvm.text.documents import Documents

Array = NDArray[Any]
PATTERNS = Attribution(
    "patterns",
    "exact: each pattern's contribution ('.' is any symbol), spread over its occurrences and what it keeps",
    exact=True,
)


class Spread:
    """Contributions of symbols and of patterns, summed over the masks.

    Parameters
    ----------
    documents : Documents
    windows : Windows
        Theirs.
    g : int
    both_strands : bool
    """

    def __init__(self, documents: Documents, windows: Windows, g: int, both_strands: bool) -> None:
        self.documents, self.windows, self.g, self.both_strands = documents, windows, g, both_strands
        self.shares = np.zeros(len(documents.codes))
        self.patterns: list[dict[Any, tuple[int, float]]] = [{} for _ in range(len(documents))]
        self.symbols = [letters[0] for letters in LETTERS] if both_strands else symbols_of(documents)

    def add(self, own: Any, target: NDArray[np.int64], weights: NDArray[np.float64]) -> None:
        """Add the contributions of a mask.

        Parameters
        ----------
        own : HostMask
            Of the documents.
        target : int64 array, shape (number of features,)
            Row of each feature in `weights`, -1 if it has none.
        weights : float64 array, shape (number of features of the columns, n)
            For each document.
        """
        counts, kept = own.counts, np.array(own.mask.kept)
        owner = np.repeat(np.arange(len(self.documents)), np.diff(counts.indptr))
        at = target[counts.features]
        terms = (
            np.where(at >= 0, own.x.values * weights[at, owner], 0.0) if len(weights) else np.zeros(len(at))
        )
        each, first = terms / counts.counts, np.empty(len(terms), np.int64)
        slots = np.empty(own.vocabulary.size, np.int64)
        entries = (counts.indptr, counts.features, each, slots, first)
        _spread(self.windows.indptr, self.windows.starts, own.ids, kept, *entries, self.shares)
        starts, named = self.windows.starts[first], [""] * own.vocabulary.size
        of_entry = zip(*(a.tolist() for a in (owner, counts.features, counts.counts, terms)), strict=True)
        for entry, (d, u, count, term) in enumerate(of_entry):
            name = named[u] = named[u] or self._name(starts[entry], own.mask.kept)
            key = own.mask.kept, name  # texts may have full stops
            self.patterns[d][key] = count, term + self.patterns[d].get(key, (0, 0.0))[1]

    def _name(self, start: int, kept: tuple[int, ...]) -> str:
        """A pattern as text; on both strands the first of it and its reverse complement."""
        pattern = ["."] * self.g
        for place in kept:
            pattern[place] = self.symbols[self.windows.codes[start + place]]
        name = self.documents.join(pattern)
        return min(name, name[::-1].translate(_PAIRED)) if self.both_strands else name

    def finish(self, scale: NDArray[np.float64]) -> Contributions:
        """The contributions, times `scale` of each document, shape (n,)."""
        result, offsets = Contributions([], []), self.documents.offsets
        for d, (patterns, factor) in enumerate(zip(self.patterns, scale.tolist(), strict=True)):
            share = factor * self.shares[offsets[d] : offsets[d + 1]]
            result.symbols.append(self.documents.spread(d, share))
            named = ((name, c, factor * value) for (_, name), (c, value) in patterns.items())
            result.features.append(list(named))
        return result


_PAIRED = str.maketrans("acgt", "tgca")


@njit(nogil=True, cache=True)
def _spread(
    begins: Array,
    starts: Array,
    ids: Array,
    kept: Array,
    indptr: Array,
    features: Array,
    each: Array,
    slots: Array,
    first: Array,
    shares: Array,
) -> None:
    # What lies behind the texts are their symbols from the last to the first.
    n = len(shares)
    for d in range(len(begins) - 1):
        for entry in range(indptr[d], indptr[d + 1]):
            slots[features[entry]] = entry
        for w in range(begins[d + 1] - 1, begins[d] - 1, -1):
            entry = slots[ids[w]]
            first[entry] = w
            for place in kept:
                at = starts[w] + place
                shares[at if at < n else 2 * n - 1 - at] += each[entry] / len(kept)


Masks = tuple[Mask, ...]
#: Symbols a second that are counted and compared, for each mask.
RATE = 1e10
#: Patterns a second that are named in an explanation.
NAMING_RATE = 5e5
#: Choices of positions of a window; more take hours whatever the texts.
MOST_MASKS = 20_000
#: Limits of a saved model: symbols of all masks, with OVERHEAD more for each mask, and predicted seconds.
MOST_SAVED, OVERHEAD, MOST_SECONDS = 500_000, 10, 3.0
#: Seconds that a core takes for a mask, and for each symbol that it keeps of each of the texts.
MASK, KEPT = 5e-4, 4e-9


class GappedCost(Cost):
    """Cost of the kernel of gapped k-mers."""

    def of_rows(self, row_lengths: Lengths, column_lengths: Lengths) -> Values:
        kernel = self.kernel
        symbols = len(column_lengths) * row_lengths.astype(float) + column_lengths.sum()
        return len(kernel.masks) * symbols * (2 if kernel.canonical else 1) / RATE

    def demand(self, lengths: NDArray[np.int64]) -> float:
        g, m = self.kernel.g, self.kernel.m
        n_masks, kept = comb(g, m), g - m
        seconds = n_masks * (MASK + KEPT * kept * float(lengths.sum()))
        return float(min(n_masks * (kept + OVERHEAD) / MOST_SAVED, seconds / MOST_SECONDS))


class GappedAttributor(Attributor):
    """Exact attribution by patterns."""

    method = PATTERNS

    def contributions(
        self, rows: Any, documents: Any, coef: Values, values: Values, progress: Progress | None = None
    ) -> Contributions:
        kernel, squares = self.kernel, np.zeros(len(documents))
        windows = windows_of(documents, kernel.g, kernel.canonical)
        scaled = rows.normalisation.scale[:, None] * coef.T
        spread = Spread(documents, windows, kernel.g, kernel.canonical)
        for number, of_mask in enumerate(rows.parts(), 1):
            own = represent(kernel, windows, of_mask.mask)
            squares += own.squares
            weights = of_mask.x.transposed_dot(of_mask.mask.times * scaled)
            spread.add(own, own.target(of_mask.vocabulary), weights)
            if progress is not None:
                progress(number, len(kernel.masks))
        return spread.finish(Normalisation(documents, squares, kernel.normalised).scale)

    def seconds(self, lengths: Lengths, support_lengths: Lengths) -> Values:
        kernel = self.kernel
        counted = GappedCost(kernel).of_rows(lengths + support_lengths.sum(), np.zeros(1, np.int64))
        return counted + len(kernel.masks) * lengths * (2 if kernel.canonical else 1) / NAMING_RATE


class GappedKmers(SymbolKernel):
    """Kernel of gapped k-mers, as in gkm-SVM and FastSK.

    Parameters
    ----------
    g : int
        Symbols of a window.
    m : int
        Positions of a window that may hold anything; every choice of the g - m others is compared.
    canonical : bool
        Read a text of DNA or RNA (letters a, c, g, t or u, and n) on both strands: its windows and those of
        its reverse complement count. u is a t, and n pairs with itself. With m = 0 this is the spectrum
        kernel in which a g-mer and its reverse complement are one feature; of an even g, one that is its own
        reverse complement is counted on both strands.
    weight : {"count", "presence", "log"}
        Function of the number of occurrences c: c, 1, or 1 + ln c.
    normalised : bool
        Divide by sqrt(k(s, s) k(t, t)).
    tokens : {"characters", "words", "whitespace", "blosum62"} or callable
        Definition of a symbol; a function takes a normalised text and returns its tokens.
    keep_case : bool
        Distinguish upper and lower case.

    Examples
    --------
    >>> from textsvm import GappedKmers
    >>> print(GappedKmers(g=3, m=1)(["gattaca"], ["gatcaca", "ccccccc"]).round(4))
    [[0.6283 0.    ]]
    """

    name: ClassVar[str] = "gapped"
    cost = Ability(GappedCost)
    attribution = Ability(GappedAttributor)

    def __init__(
        self,
        g: int = 9,
        m: int = 3,
        canonical: bool = False,
        weight: str = "log",
        normalised: bool = True,
        tokens: Any = "characters",
        keep_case: bool = False,
    ) -> None:
        self.g = g
        self.m = m
        self.canonical = canonical
        self.weight = weight
        self.normalised = normalised
        self.tokens = tokens
        self.keep_case = keep_case

    @property
    def masks(self) -> tuple[Mask, ...]:
        """Choices of positions of a window; on both strands the first of two mirror images."""
        return masks(int(self.g), int(self.m), bool(self.canonical))

    @property
    def _min_length(self) -> int:
        return int(self.g)

    def check(self) -> None:
        super().check()
        if not is_whole(self.g) or self.g < 1:
            raise InputError(f"g={self.g!r} is no length of a window: give a whole number from 1")
        if not is_whole(self.m) or not 0 <= self.m < self.g:
            raise InputError(
                f"m={self.m!r} is no number of open positions in a window of g={self.g}: "
                f"give a whole number from 0 to {self.g - 1}"
            )
        # Of that many positions 1 can be open in too many ways: the numbers of others take long to say.
        many = self.m > 0 and self.g > MOST_MASKS
        ways = self.g if many else comb(self.g, self.m)
        if ways > MOST_MASKS:
            raise InputError(
                f"there are {ways:,}{' or more' * many} ways to leave m={self.m} of g={self.g} positions "
                f"open, and at most {MOST_MASKS:,} are computed; give a smaller g, or an m nearer to 0 or g"
            )
        if self.weight not in WEIGHTS:
            raise InputError(f"weight={self.weight!r} is not one of {', '.join(WEIGHTS)}")
        check_strands(self)

    def rows(self, documents: Documents, device: Device) -> GappedRows:
        self.check()
        if device.kind == "cuda":
            from textsvm.kernels.mers.gapped_cuda import CudaGapped

            return CudaGapped(self, documents, device)
        return HostGapped(self, documents, device)

    def predictor(self, support: Documents, coef: NDArray[np.float64], device: Device) -> Predictor:
        return self.rows(support, device).predictor(coef)


@dataclass(frozen=True)
class HostMask:
    """`OneMask` on the CPU."""

    mask: Mask
    vocabulary: MaskedWindows
    windows: Windows
    ids: NDArray[np.int32]  #: shape (number of windows,): The feature of every window
    counts: Counts
    x: Sparse

    @cached_property
    def columns(self) -> InvertedIndex:
        """X by columns."""
        return InvertedIndex(self.x)

    @property
    def squares(self) -> NDArray[np.float64]:
        return self.mask.times * self.x.squares()

    def target(self, vocabulary: MaskedWindows) -> NDArray[np.int64]:
        """Which feature of other documents each of its own is, -1: none."""
        target = np.full(self.vocabulary.size, -1, np.int64)
        target[self.ids] = vocabulary.find(self.windows)
        return target

    def over(self, vocabulary: MaskedWindows) -> Sparse:
        return self.x.select(self.target(vocabulary), vocabulary.size)

    def products(self, x: Sparse) -> NDArray[np.float32]:
        out = np.empty((len(x), len(self.x)), np.float32)
        times = np.full(len(x), float(self.mask.times))
        self.columns.products(x, times, np.ones(len(self.x)), out)
        return out

    def rows(self, indices: NDArray[np.int64]) -> NDArray[np.float32]:
        return self.products(self.x.take(indices))


def represent(kernel: Any, windows: Windows, mask: Mask) -> HostMask:
    """Features of windows by a mask."""
    vocabulary, ids = MaskedWindows.learn(windows, mask)
    counts = counts_of(windows, ids, vocabulary.size)
    values = weigh(kernel.weight, counts.counts).astype(np.float32, copy=False)
    x = Sparse(counts.indptr, counts.features, values, vocabulary.size)
    return HostMask(mask, vocabulary, windows, ids, counts, x)


def represent_masks(kernel: GappedKmers, documents: Documents) -> Iterator[Sparse]:
    """Documents as rows of features, mask by mask: the sum of all X X' is the Gram, not normalised.

    On both strands a mask that stands for two has its values times sqrt(2).

    Parameters
    ----------
    kernel : GappedKmers
    documents : Documents, n of them

    Yields
    ------
    Sparse
        Of n rows, over features of its own.
    """
    kernel.check()
    windows = windows_of(documents, kernel.g, kernel.canonical)
    for mask in kernel.masks:
        x = represent(kernel, windows, mask).x
        scaled = x.values * np.float32(mask.times**0.5) if mask.times > 1 else x.values
        yield Sparse(x.indptr, x.features, scaled, x.n_features)


class HostGapped(GappedRows):
    """`KernelRows` on a CPU."""

    @staticmethod
    def windows_of(kernel: Any, documents: Documents) -> Windows:
        return windows_of(documents, kernel.g, kernel.canonical)

    @staticmethod
    def represent(kernel: Any, windows: Windows, mask: Mask) -> HostMask:
        return represent(kernel, windows, mask)

    @staticmethod
    def can_look_up(texts: Texts, keys: int) -> bool:
        return keys <= gapped_tables.MOST_KEYS

    @staticmethod
    def look_up(texts: Texts, tables: Tables, values: Array) -> tuple[Array, Array]:
        return gapped_tables.look_up(texts, tables, values)

    def gram(self, progress: Progress | None = None) -> NDArray[np.float32]:
        total, squares = np.zeros((self.n, self.n), np.float32), np.zeros(self.n)
        add = self._add_lists if lists_pay(self.windows, self.kernel.masks[0]) else self._add_columns
        for times, equal in groupby(groups(self.windows, self.kernel.masks), lambda some: some[0].times):
            for some in equal:
                add(some, total, squares, progress)
            total *= times
        normalisation = Normalisation(self.documents, squares, self.kernel.normalised)
        finish_half(total, normalisation.scale, total)
        normalisation.finish_gram(total)
        return total

    def _add_lists(self, some: Masks, total: Array, squares: Array, progress: Progress | None) -> None:
        """Sums of products into the upper half of a matrix, and k(s, s), from lists."""
        most = int(np.diff(self.windows.indptr).max(initial=0))
        values = values_of(self.kernel.weight, most)
        lists = MaskLists.of(self.windows, some, values, self.kernel.weight == "count")
        for mask, of_mask in zip(some, lists.squares, strict=True):
            squares += mask.times * of_mask
        first, every = self.kernel.masks.index(some[0]), self.kernel.masks
        lists.add_to(total, self.windows.indptr, part(progress, first, len(some), len(every)))

    def _add_columns(self, some: Masks, total: Array, squares: Array, progress: Progress | None) -> None:
        """The same from tile products, where most documents have a feature."""
        for mask in some:
            one, at = represent(self.kernel, self.windows, mask), self.kernel.masks.index(mask)
            squares += one.squares
            Half(one.x).add_to(total, part(progress, at, 1, len(self.kernel.masks)))
