"""Kernel of gapped k-mers: windows of g symbols that two documents share, m of the symbols left open.

    k(s, t) = sum_(M, u) phi_(M, u)(s) phi_(M, u)(t),    phi_(M, u)(s) = f(c_(M, u)(s)),

M runs over all choices of k = g - m of the g positions of a window (masks), u over the strings of k symbols,
c_(M, u)(s) is the number of windows of s that have u at the positions of M, and f(c) is c, 1 (presence) or
1 + ln c (log). m = 0 is the p-spectrum kernel, p = g.

The features of a mask are those of a spectrum: its X (documents x features) is counted and its products are
added to the Gram, mask by mask; memory is for a single mask. On both strands (canonical) the windows of the
reverse complement of s count, too. There a mask and its mirror image have equal Grams, so half of the masks
are computed (gapped_rows.py), pairs of different masks first: their sum is doubled.

Counts and presence are exact: sums of integers, as in the spectrum kernel, each mask's rounded to float32
once. With log X is rounded to float32 and the sums are float64.

Ghandi, Lee, Mohammad-Noori, Beer 2014 (gkm-SVM); Blakely, Collins, Singh, et al. 2020 (FastSK).

Attribution is exact: as for substrings (spectrum/features.py) a value is phi(x) . w, a sum over the features
of x. The contribution of a feature, a mask with its symbols, is spread evenly over the windows of x with this
feature, and that of a window over the positions that the mask keeps. Windows of the reverse complement have
their positions in the text itself.

Training from features (`GappedFeatureMap`) lays the X of all masks side by side, each times the square root
of its number of masks with equal counts.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from math import comb
from typing import ClassVar

import numpy as np

from textsvm.arrays import Floats, Ints
from textsvm.errors import InputError
from textsvm.kernels.attribution import AttributionMethod, Attributor, Contributions
from textsvm.kernels.base import Ability, SymbolKernel, check_choice, check_whole
from textsvm.kernels.contract import CountedCost, Features, Predictor
from textsvm.kernels.mers.gapped_cuda import CudaGapped
from textsvm.kernels.mers.gapped_rows import GappedRows, HostGapped, HostMask
from textsvm.kernels.mers.windows import PAIRED, Mask, Windows, check_strands, masks, symbols_of, windows_of
from textsvm.kernels.options import GAPPED_WEIGHTS
from textsvm.kernels.shared.normalisation import Normalisation, match_featureless
from textsvm.linalg.rows import FeatureRows, SharedFeatures, side_by_side
from textsvm.runtime.compiled import njit
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress, report
from textsvm.text.documents import Documents

PATTERNS = AttributionMethod(
    "patterns",
    "exact: each pattern's contribution ('.' is any symbol), spread over its occurrences and its symbols",
)


class PatternContributions:
    """Contributions of the symbols and patterns of documents, summed over the masks."""

    def __init__(self, kernel: GappedKmers, documents: Documents, windows: Windows) -> None:
        self.kernel, self.documents, self.windows = kernel, documents, windows
        self.shares = np.zeros(len(documents.codes))
        self.patterns: list[dict[tuple[tuple[int, ...], str], tuple[int, float]]] = [
            {} for _ in range(len(documents))
        ]
        self.symbols = symbols_of(documents, kernel.canonical)

    def add(self, own: HostMask, target: Ints, weights: Floats) -> None:
        """Add a mask; the weights of feature u are ``weights[target[u]]``, (n,), 0 if target[u] is -1."""
        counts, positions = own.counts, np.array(own.mask.positions)
        owner = np.repeat(np.arange(len(self.documents)), np.diff(counts.indptr))
        at = target[counts.features]
        terms = (
            np.where(at >= 0, own.x.values * weights[at, owner], 0.0) if len(weights) else np.zeros(len(at))
        )
        per_occurrence, first = terms / counts.counts, np.empty(len(terms), np.int64)
        slots = np.empty(own.vocabulary.size, np.int64)
        entries = (counts.indptr, counts.features, per_occurrence, slots, first)
        _spread(self.windows.indptr, self.windows.starts, own.ids, positions, *entries, self.shares)
        starts, named = self.windows.starts[first], [""] * own.vocabulary.size
        of_entry = zip(*(a.tolist() for a in (owner, counts.features, counts.counts, terms)), strict=True)
        for entry, (d, u, count, term) in enumerate(of_entry):
            name = named[u] = named[u] or self._name(starts[entry], own.mask.positions)
            key = own.mask.positions, name  # texts may have full stops
            self.patterns[d][key] = count, term + self.patterns[d].get(key, (0, 0.0))[1]

    def _name(self, start: int, positions: tuple[int, ...]) -> str:
        """A pattern as text; on both strands the smaller of it and its reverse complement."""
        pattern = ["."] * self.kernel.g
        for place in positions:
            pattern[place] = self.symbols[self.windows.codes[start + place]]
        name = self.documents.join(pattern)
        return min(name, name[::-1].translate(PAIRED)) if self.kernel.canonical else name

    def finish(self, scale: Floats) -> Contributions:
        """The contributions, times `scale` of each document, shape (n,)."""
        result, offsets = Contributions([], []), self.documents.offsets
        for d, (patterns, factor) in enumerate(zip(self.patterns, scale.tolist(), strict=True)):
            share = factor * self.shares[offsets[d] : offsets[d + 1]]
            result.symbols.append(self.documents.spread(d, share))
            result.features.append([(name, c, factor * value) for (_, name), (c, value) in patterns.items()])
        return result


@njit(nogil=True, cache=True)
def _spread(begins, starts, ids, positions, indptr, features, per_occurrence, slots, first, shares):
    n = len(shares)  # the reverse complement of all texts follows: place n is that of the last symbol
    for d in range(len(begins) - 1):
        for entry in range(indptr[d], indptr[d + 1]):
            slots[features[entry]] = entry
        for w in range(begins[d + 1] - 1, begins[d] - 1, -1):
            entry = slots[ids[w]]
            first[entry] = w
            for place in positions:
                at = starts[w] + place
                shares[at if at < n else 2 * n - 1 - at] += per_occurrence[entry] / len(positions)


WINDOW_BYTES = 44  #: Bytes per window while the Gram of a mask is added.
NAMING_RATE = 5e5  #: Patterns a second that are named in an explanation.
MOST_WIDTH = 1 << 20  #: Most positions of a window, whose masks list them
MOST_MASKS = 20_000  #: Choices of positions of a window; more take hours whatever the texts.
#: Greatest number of symbols of all masks of a saved model, with OVERHEAD more for each mask.
MOST_SAVED = 500_000
OVERHEAD = 10
MOST_SECONDS = 3.0  #: Greatest predicted seconds of a prediction by a saved model.
MASK_SECONDS = 5e-4  #: Seconds that a core takes for a mask.
SYMBOL_SECONDS = 4e-9  #: Seconds that a core takes for a position of a mask and a symbol of the texts.


class GappedCost(CountedCost):
    """Cost of the kernel of gapped k-mers."""

    def demand(self, lengths: Ints) -> float:
        g, m = self.kernel.g, self.kernel.m
        n_masks, n_positions = comb(g, m), g - m
        seconds = n_masks * (MASK_SECONDS + SYMBOL_SECONDS * n_positions * float(lengths.sum()))
        return float(min(n_masks * (n_positions + OVERHEAD) / MOST_SAVED, seconds / MOST_SECONDS))


@dataclass(frozen=True)
class CountedPatterns:
    """Feature rows of documents, not normalised; see `Features.count`."""

    documents: Documents
    counted: FeatureRows

    @classmethod
    def of(cls, kernel: GappedKmers, documents: Documents) -> CountedPatterns:
        windows, parts = windows_of(documents, kernel.g, kernel.canonical), []
        for mask in kernel.masks:
            x = HostGapped.represent(kernel, windows, mask).x
            parts.append(SharedFeatures.of([x], x.frequencies()).weighed(None, 1.0, False))
        return cls(documents, side_by_side(parts, [mask.times for mask in kernel.masks]))

    def rows(self, kernel: GappedKmers, train: Ints) -> FeatureRows:
        """Feature rows of all documents; nothing is learnt from `train`."""
        x, ridge = self.counted.x, self.counted.ridge
        if not kernel.normalised:
            return self.counted
        squares = x.squares() + ridge
        scale = 1 / np.sqrt(np.where(squares > 0, squares, 1))
        values = x.values * np.repeat(scale.astype(np.float32), np.diff(x.indptr))
        rows = FeatureRows(replace(x, values=values), np.where(squares > 0, ridge * scale**2, 1.0))
        return match_featureless(self.documents, rows, squares == 0)


class GappedFeatureMap(Features):
    """Patterns as features, on a CPU only."""

    host_only = True
    density = 2.0  # of DNA

    @property
    def key(self) -> Hashable:
        kernel = self.kernel
        return "gapped", kernel.structure.view, kernel.g, kernel.m, kernel.canonical, kernel.weight

    def occurrences(self, lengths: Ints) -> Ints:
        windows = np.maximum(lengths - self.kernel.g + 1, 0) * (2 if self.kernel.canonical else 1)
        return windows * len(self.kernel.masks)

    def bytes(self, documents: Documents, gram: bool = False) -> int:
        windows = int(self.occurrences(documents.lengths).sum()) // len(self.kernel.masks)
        return WINDOW_BYTES * windows if gram else 0

    def count(self, documents: Documents, device: Device | None = None) -> CountedPatterns:
        self.kernel.check()
        return CountedPatterns.of(self.kernel, documents)


class GappedAttributor(Attributor):
    """Exact attribution by patterns."""

    method = PATTERNS

    def contributions(
        self, rows: GappedRows, documents: Documents, coef: Floats, values: Floats, progress: Progress | None
    ) -> Contributions:
        kernel, squares = self.kernel, np.zeros(len(documents))
        windows = windows_of(documents, kernel.g, kernel.canonical)
        scaled = rows.normalisation.scale[:, None] * coef.T
        sums = PatternContributions(kernel, documents, windows)
        for number, columns in enumerate(rows.masks(), 1):
            own = HostGapped.represent(kernel, windows, columns.mask)
            squares += own.squares
            weights = columns.x.transposed_dot(columns.mask.times * scaled)
            sums.add(own, own.target(columns.vocabulary), weights)
            report(progress, number, len(kernel.masks))
        return sums.finish(Normalisation(documents, squares, kernel.normalised).scale)

    def seconds(self, lengths: Ints, support_lengths: Ints) -> Floats:
        kernel = self.kernel
        counted = GappedCost(kernel).of_rows(lengths, support_lengths)
        return counted + len(kernel.masks) * lengths * (2 if kernel.canonical else 1) / NAMING_RATE


@dataclass(repr=False, eq=False)
class GappedKmers(SymbolKernel):
    """Kernel of gapped k-mers, as in gkm-SVM and FastSK.

    Parameters
    ----------
    g : int
        Symbols of a window.
    m : int
        Open positions of a window, which match any symbol; every choice of the g - m others is compared.
    canonical : bool
        Read a text of DNA or RNA (letters a, c, g, t or u, and n) on both strands: its windows and those of
        its reverse complement count. u is a t, and n pairs with itself. With m = 0 this is the spectrum
        kernel in which a g-mer and its reverse complement are the same feature; for even g, a g-mer that is
        its own reverse complement is counted on both strands.
    weight : {"count", "presence", "log"}
        Function of the number of occurrences c: c, 1, or 1 + ln c.
    normalised, tokens, keep_case
        See `textsvm.Spectrum`.

    Examples
    --------
    >>> from textsvm import GappedKmers
    >>> print(GappedKmers(g=3, m=1)(["gattaca"], ["gatcaca", "ccccccc"]).round(4))
    [[0.6283 0.    ]]
    """

    name: ClassVar[str] = "gapped"
    _shortest = "g"
    cost = Ability(GappedCost)
    features = Ability(GappedFeatureMap)
    attribution = Ability(GappedAttributor)

    g: int = 9
    m: int = 3
    canonical: bool = False
    weight: str = "log"
    normalised: bool = True

    @property
    def masks(self) -> tuple[Mask, ...]:
        """Choices of positions of a window; on both strands the first of two mirror images."""
        return masks(int(self.g), int(self.m), bool(self.canonical))

    def check(self) -> None:
        super().check()
        check_whole(self, "g", 1, MOST_WIDTH)
        check_whole(self, "m", 0, self.g - 1)
        # Already a single open position has too many ways; comb would be slow.
        many = self.m > 0 and self.g > MOST_MASKS
        ways = self.g if many else comb(self.g, self.m)
        if ways > MOST_MASKS:
            raise InputError(
                f"there are {ways:,}{' or more' * many} ways to leave m={self.m} of g={self.g} positions "
                f"open, and at most {MOST_MASKS:,} are computed; give a smaller g, or an m nearer to 0 or g"
            )
        check_choice(self, "weight", GAPPED_WEIGHTS)
        check_strands(self)

    def rows(self, documents: Documents, device: Device) -> GappedRows:
        return (CudaGapped if device.kind == "cuda" else HostGapped)(self, documents, device)

    def predictor(self, support: Documents, coef: Floats, device: Device) -> Predictor:
        return self.rows(support, device).predictor(coef)
