"""Windows of documents: gapped k-mers (windows under a mask) with exact ids, and l-mers.

A mask selects k of the g positions of a window. The symbols c_1, c_2, ... at these positions have exact
ids, in stages (shared/stages.py). With codes below n_symbols the key of a stage is

    key = (... (id * n_symbols + c_1) * n_symbols + c_2 ...)          (id = 0 at first)

On both strands of DNA a document has the windows of its text and of the reverse complement. A mask and its
mirror image then have the same counts: only the first is used, with `times` 2. l-mers and their reverse
complements u', v' satisfy d(u, v) = d(u', v'), so the pairs of both strands of two sequences are twice those
of a single strand of the first and both strands of the second.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import Any, Self

import numpy as np

from textsvm.arrays import AnyArray, Array, Bools, Ints, Ints32
from textsvm.errors import InputError
from textsvm.kernels.base import check_flag
from textsvm.kernels.shared.counting import check_symbols
from textsvm.kernels.shared.stages import Stage, StagedIds, ranked
from textsvm.linalg.sparse import run_on_ranges
from textsvm.runtime.compiled import njit
from textsvm.runtime.device import array_module, device_of
from textsvm.text.documents import Documents

#: Letters of DNA and RNA by code: u counts as t; the codes of bases pair with 3 - code. Windows with n or
#: another code of an ambiguous base are left out.
LETTERS = ("a", "c", "g", "tu", "nrykmswbdhv")
UNKNOWN = len(LETTERS) - 1
PAIRED = str.maketrans("acgtu", "tgcaa")
TABLE = 1 << 10  #: Number of keys up to which ranks are always tabulated; more keys may be sorted instead.


@dataclass(frozen=True)
class Mask:
    """Ascending positions of a window that are compared, and the number of masks with equal counts."""

    positions: tuple[int, ...]
    times: int = 1


@lru_cache(maxsize=32)
def masks(g: int, m: int, both_strands: bool) -> tuple[Mask, ...]:
    """All choices of g - m positions of g; on both strands half of the mirror images, `times` 2 first."""
    every = combinations(range(g), g - m)
    if not both_strands:
        return tuple(Mask(positions) for positions in every)
    pairs = ((positions, tuple(g - 1 - place for place in reversed(positions))) for positions in every)
    halves = [
        Mask(positions, 1 if positions == mirrored else 2)
        for positions, mirrored in pairs
        if positions <= mirrored
    ]
    return tuple(sorted(halves, key=lambda mask: -mask.times))


@dataclass(frozen=True)
class Windows:
    """All windows of g symbols of some documents."""

    codes: Ints32  #: For both strands followed by the codes of the reverse complement of all texts
    starts: Ints  #: shape (number of windows,): Start of each window in `codes`
    indptr: Ints  #: shape (n + 1,): Document i has the windows ``indptr[i]`` to ``indptr[i + 1]``
    n_symbols: int


def windows_of(documents: Documents, g: int, both_strands: bool) -> Windows:
    """Windows of documents and, with `both_strands`, of their reverse complements, with known bases only."""
    check_symbols(len(documents.codes), 2 if both_strands else 1)
    offsets, numbers = documents.offsets, np.maximum(documents.lengths - g + 1, 0)
    begins, codes, n_symbols = offsets[:-1], documents.codes.astype(np.int32), len(documents.alphabet)
    if both_strands:
        codes, n_symbols = strands(documents), len(LETTERS)
        begins = np.stack([begins, len(codes) - offsets[1:]], axis=1).ravel()
        numbers = np.repeat(numbers, 2)
    ends = np.concatenate([[0], np.cumsum(numbers)])
    starts = np.repeat(begins - ends[:-1], numbers) + np.arange(ends[-1])
    if both_strands and (codes == UNKNOWN).any():
        before = np.concatenate([[0], np.cumsum(codes == UNKNOWN)])
        complete = before[starts + g] == before[starts]
        starts, ends = starts[complete], np.concatenate([[0], np.cumsum(complete)])[ends]
    return Windows(codes, starts, ends[:: 2 if both_strands else 1], n_symbols)


def check_strands(kernel: Any) -> None:
    """Raise InputError if `canonical` is no bool, or symbols are no letters of DNA."""
    check_flag(kernel, "canonical")
    if kernel.canonical and kernel.tokens != "characters":
        raise InputError(
            f"canonical=True reads letters of DNA or RNA, so tokens={kernel.tokens!r} cannot go with it"
        )


def strands(documents: Documents) -> Ints32:
    """Codes of `LETTERS` of the texts followed by the reverse complement of all of them."""
    code_of = {letter: code for code, letters in enumerate(LETTERS) for letter in letters}
    symbols, present = symbols_of(documents), np.zeros(len(documents.alphabet), bool)
    table = np.array([code_of.get(str(symbol), -1) for symbol in symbols], np.int32)
    present[documents.codes] = True
    for unknown in np.flatnonzero(present & (table < 0)):
        raise InputError(
            f"a text has the symbol {symbols[unknown]!r}, which is no letter of DNA or RNA (a, c, g, t, u, "
            "n, or the code of an ambiguous base); canonical=True reads such texts only"
        )
    letters = table[documents.codes]
    paired = np.where(letters < UNKNOWN, UNKNOWN - 1 - letters, letters)
    return np.concatenate([letters, paired[::-1]])


def symbols_of(documents: Documents, both_strands: bool = False) -> list[str]:
    """Symbol of each code of documents, or with `both_strands` of `strands`."""
    if both_strands:
        return [letters[0] for letters in LETTERS]
    if documents.of_tokens:
        return documents.alphabet.tolist()
    return [chr(point) for point in documents.alphabet]


class MaskedWindows(StagedIds):
    """Distinct contents of the windows of some documents under a mask."""

    @classmethod
    def learn(cls, windows: Any, mask: Mask) -> tuple[Self, Array]:
        """Vocabulary of documents, and the id of each of their windows."""
        zeros, size, stages = array_module(device_of(windows.starts)).zeros, 1, []
        places, first = np.array(mask.positions, np.int64), 0
        ids = zeros(len(windows.starts), np.int32)
        while first < len(places):
            number, bound = fitting(size, windows.n_symbols, len(places) - first, len(ids))
            positions = places[first : first + number]
            keys = cls.keys_of(windows, positions, ids, windows.n_symbols)
            distinct, ids, ranks = cls.ranked(keys, bound)
            stages.append(Stage(positions, distinct, ranks))
            size, first = len(distinct), first + number
        return cls(windows.n_symbols, tuple(stages)), ids

    def find(self, windows: Any) -> Array:
        """Id of every window of other documents, -1 if unknown; unknown symbols have codes >= `n_symbols`."""
        ids = array_module(device_of(windows.starts)).zeros(len(windows.starts), np.int64)
        for stage in self.stages:
            ids = stage.find(self.keys_of(windows, stage.positions, ids, self.n_symbols))
        return ids

    @staticmethod
    def ranked(keys: Array, bound: int) -> tuple[Array, Array, Array | None]:
        return ranked(keys, bound, max(TABLE, 8 * len(keys)))

    @staticmethod
    def keys_of(windows: Any, positions: Ints, ids: AnyArray, n_symbols: int) -> Ints:
        """Key of every window; -1 if its id is -1 or if it has a symbol from `n_symbols` on."""
        keys = np.empty(len(windows.starts), np.int64)
        begins, codes, ids = windows.starts, windows.codes, ids.astype(np.int64, copy=False)
        ends, arrays = windows.indptr, (codes, begins, positions, ids, n_symbols, keys)
        run_on_ranges(ends, lambda i, j: _keys(int(ends[i]), int(ends[j]), *arrays))
        return keys


def fitting(size: int, n_symbols: int, rest: int, n_windows: int) -> tuple[int, int]:
    """Number of symbols that form a key with an id below `size`, at least 1, and a bound of the keys."""
    number, bound = 1, max(size, 1) * max(n_symbols, 1)
    room = (1 << 63) >> max(n_windows - 1, 1).bit_length()
    while number < rest and bound * n_symbols <= room:
        number, bound = number + 1, bound * n_symbols
    return number, bound


@njit(nogil=True, cache=True)
def _keys(first, last, codes, starts, positions, ids, n_symbols, keys):
    for w in range(first, last):
        key = np.int64(ids[w])
        for place in positions:
            code = codes[starts[w] + place]
            key = np.int64(-1) if key < 0 or code >= n_symbols else key * n_symbols + code
        keys[w] = key


@dataclass(frozen=True)
class Mers(Windows):
    """l-mers of some documents, whose codes are below `n_symbols`."""

    length: int  #: l

    @property
    def numbers(self) -> Ints:
        """Number of l-mers of each document, shape (n,)."""
        return np.diff(self.indptr)

    def take(self, indices: Ints) -> Mers:
        """The l-mers of some documents."""
        numbers = self.numbers[indices]
        indptr = np.concatenate([[0], np.cumsum(numbers)])
        places = np.arange(indptr[-1]) + np.repeat(self.indptr[:-1][indices] - indptr[:-1], numbers)
        return replace(self, starts=self.starts[places], indptr=indptr)

    def keys(self, symbols: int) -> Ints:
        """Number of each l-mer among all l-mers over an alphabet of this size."""
        keys = np.zeros(len(self.starts), np.int64)
        for place in range(self.length):
            keys = keys * symbols + self.codes[self.starts + place]
        return keys

    def unknown(self, symbols: int) -> Bools:
        """Whether each document has an l-mer with a code >= `symbols`, shape (n,)."""
        if self.n_symbols <= symbols:
            return np.zeros(len(self.numbers), bool)
        new = np.concatenate([[0], np.cumsum(self.codes >= symbols)])
        of_mers = np.concatenate([[0], np.cumsum(new[self.starts + self.length] > new[self.starts])])
        return np.diff(of_mers[self.indptr]) > 0


def mers_of(documents: Documents, length: int, both_strands: bool) -> tuple[Mers, Mers]:
    """The l-mers of documents as rows and as columns; on both strands columns include the other strand.

    On both strands, l-mers with an ambiguous base (n) are left out.
    """
    windows = windows_of(documents, length, both_strands)
    n_symbols = UNKNOWN if both_strands else windows.n_symbols
    columns = Mers(windows.codes, windows.starts, windows.indptr, n_symbols, length)
    if not both_strands:
        return columns, columns
    own = windows.starts < len(documents.codes)
    return replace(columns, starts=windows.starts[own], indptr=windows.indptr // 2), columns
