"""Which symbols a value of the kernel of gapped k-mers comes from, exactly.

As with substrings (spectrum_attribution.py) a value is phi(x) . w, and every feature of x, a mask with its
symbols, has its contribution. It is spread evenly over the windows of x that hold the feature, and each
window's over the positions that the mask keeps; one of the reverse complement has them on the text itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.compiled import njit
from textsvm.documents import Documents
from textsvm.features.gapped import LETTERS, Windows, symbols_of
from textsvm.kernels.attribution import Attribution, Contributions

Array = NDArray[Any]
PATTERNS = Attribution(
    "patterns",
    "exact: each pattern's contribution ('.' is any symbol), spread over its occurrences and what it keeps",
    exact=True,
)


class Spread:
    """Contributions of symbols and of patterns, added up mask by mask.

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
        self.found: list[dict[Any, tuple[int, float]]] = [{} for _ in range(len(documents))]
        self.symbols = [letters[0] for letters in LETTERS] if both_strands else symbols_of(documents)

    def add(self, own: Any, target: NDArray[np.int64], weights: NDArray[np.float64]) -> None:
        """Another mask.

        Parameters
        ----------
        own : HostMask
            Of the documents.
        target : int64 array, shape (number of features,)
            Where each feature is in `weights`, -1: nowhere.
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
            self.found[d][key] = count, term + self.found[d].get(key, (0, 0.0))[1]

    def _name(self, start: int, kept: tuple[int, ...]) -> str:
        """A pattern as text; of a pattern and its reverse complement the first."""
        pattern = ["."] * self.g
        for place in kept:
            pattern[place] = self.symbols[self.windows.codes[start + place]]
        name = self.documents.join(pattern)
        return min(name, name[::-1].translate(_PAIRED)) if self.both_strands else name

    def finish(self, scale: NDArray[np.float64]) -> Contributions:
        """The contributions, times `scale` of each document, shape (n,)."""
        result, offsets = Contributions([], []), self.documents.offsets
        for d, (patterns, factor) in enumerate(zip(self.found, scale.tolist(), strict=True)):
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
