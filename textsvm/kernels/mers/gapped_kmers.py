"""Documents -> gapped k-mers: masks of a window, exact ids of what a mask keeps, sparse counts, on the CPU.

A mask keeps k of the g positions of a window. The id of a masked window is a rank, never a hash: with codes
below n_symbols, kept symbols c_1, c_2, ... make the key

    key = (... (id * n_symbols + c_1) * n_symbols + c_2 ...)          (id = 0 at first)

for as many of them as fit a word beside the place of the window, and the id is the rank of the key among the
distinct keys of the documents. If symbols are left, they continue from that id: one stage after the other, so
that neither the number of symbols kept nor the alphabet is limited. The distinct keys of the stages find the
masked windows of other documents.

On both strands of DNA a document has the windows of its text and those of its reverse complement, and a mask
M and its mirror image M' have the same counts: what M keeps of a window, reversed and complemented, is what
M' keeps of the reverse complement of the window. So one of the two stands for both, `times` 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.kernels.spectrum.pmers import Counts, count_ids, rank, share
from textsvm.kernels.spectrum.vocabulary import check_symbols
from textsvm.runtime.compiled import njit
from textsvm.runtime.device import array_module, device_of
from textsvm.text.documents import Documents

if TYPE_CHECKING:
    from typing_extensions import Self

Array = NDArray[Any]
#: Letters of DNA and RNA by their codes: u is a t, n pairs with itself, the others with 3 - code.
LETTERS = ("a", "c", "g", "tu", "n")
#: Keys of which a table is made, whatever the number of windows; more are sorted, and take no room.
TABLE = 1 << 10


@dataclass(frozen=True)
class Mask:
    """Positions of a window that are compared.

    Attributes
    ----------
    kept : tuple of int
        Ascending, from 0.
    times : int
        How many masks of equal counts it stands for.
    """

    kept: tuple[int, ...]
    times: int = 1


@lru_cache(maxsize=32)
def masks(g: int, m: int, both_strands: bool) -> tuple[Mask, ...]:
    """Every choice of g - m positions of g; on both strands one of two mirror images, and those first."""
    every = combinations(range(g), g - m)
    if not both_strands:
        return tuple(Mask(kept) for kept in every)
    pairs = ((kept, tuple(g - 1 - place for place in reversed(kept))) for kept in every)
    found = [Mask(kept, 1 if kept == mirrored else 2) for kept, mirrored in pairs if kept <= mirrored]
    return tuple(sorted(found, key=lambda mask: -mask.times))


@dataclass(frozen=True)
class Windows:
    """All windows of g symbols of some documents.

    Attributes
    ----------
    codes : int32 array
        Of the texts; with both strands those of the reverse complement of all of it behind them.
    starts : int64 array, shape (number of windows,)
        Where in `codes` each window starts.
    indptr : int64 array, shape (n + 1,)
        Document i has the windows ``indptr[i]`` to ``indptr[i + 1]``.
    n_symbols : int
    """

    codes: NDArray[np.int32]
    starts: NDArray[np.int64]
    indptr: NDArray[np.int64]
    n_symbols: int


def windows_of(documents: Documents, g: int, both_strands: bool) -> Windows:
    """The windows of documents, and with `both_strands` those of their reverse complements.

    Raises
    ------
    InputError
        If there are too many symbols; with `both_strands`, if there are others than acgtun.
    """
    check_symbols(len(documents.codes), 2 if both_strands else 1)
    offsets, numbers = documents.offsets, np.maximum(documents.lengths - g + 1, 0)
    begins, codes, n_symbols = offsets[:-1], documents.codes.astype(np.int32), len(documents.alphabet)
    if both_strands:
        codes, n_symbols = strands(documents), len(LETTERS)
        begins = np.stack([begins, len(codes) - offsets[1:]], axis=1).ravel()
        numbers = np.repeat(numbers, 2)
    ends = np.concatenate([[0], np.cumsum(numbers)])
    starts = np.repeat(begins - ends[:-1], numbers) + np.arange(ends[-1])
    return Windows(codes, starts, ends[:: 2 if both_strands else 1], n_symbols)


def strands(documents: Documents) -> NDArray[np.int32]:
    """Codes of `LETTERS` of the texts and, behind them, of the reverse complement of all of them."""
    code_of = {letter: code for code, letters in enumerate(LETTERS) for letter in letters}
    found = [code_of.get(str(symbol), -1) for symbol in symbols_of(documents)]
    present = np.bincount(documents.codes, minlength=len(found)) > 0
    for symbol, code, there in zip(symbols_of(documents), found, present, strict=True):
        if code < 0 and there:
            raise InputError(
                f"a text has the symbol {symbol!r}, which is no letter of DNA or RNA (a, c, g, t, u, n); "
                "canonical=True reads such texts only"
            )
    codes = np.array(found, np.int32)[documents.codes]
    paired = np.array([3, 2, 1, 0, 4], np.int32)
    return np.concatenate([codes, paired[codes[::-1]]])


def symbols_of(documents: Documents) -> list[str]:
    """What each code stands for."""
    if documents.of_tokens:
        return documents.alphabet.tolist()
    return [chr(point) for point in documents.alphabet]


@dataclass(frozen=True)
class Stage:
    """Kept positions that make one key with the id before them.

    Attributes
    ----------
    kept : int64 array
    keys : uint64 array, shape (number of ids,)
        The distinct keys, sorted; the id is the rank.
    ranks : int32 array or None
        For every possible key its id, -1 if there is none; None where they are too many.
    """

    kept: NDArray[np.int64]
    keys: Any
    ranks: Any

    def find(self, keys: Any) -> Any:
        """The id of every key, -1 of -1 and of those that are not there; all NumPy or all CuPy."""
        xp = array_module(device_of(keys))
        if not len(self.keys):
            return xp.full(len(keys), -1, np.int64)
        some = xp.maximum(keys, 0)
        if self.ranks is not None:
            return xp.where(keys >= 0, self.ranks[some], -1)
        place = xp.minimum(xp.searchsorted(self.keys, some.astype(np.uint64)), len(self.keys) - 1)
        return xp.where((keys >= 0) & (self.keys[place].astype(np.int64) == keys), place, -1)


@dataclass(frozen=True)
class MaskedWindows:
    """The distinct contents of the windows of some documents under a mask.

    Attributes
    ----------
    n_symbols : int
    stages : tuple of Stage
    """

    n_symbols: int
    stages: tuple[Stage, ...]

    @classmethod
    def learn(cls, windows: Any, mask: Mask) -> tuple[Self, Any]:
        """Those of documents, and the id of every window of theirs."""
        size, stages, rest = 1, [], list(mask.kept)
        ids = _zeros_like(windows.starts, np.int32)
        while rest:
            number, bound = fitting(size, windows.n_symbols, len(rest), len(ids))
            kept = np.array(rest[:number], np.int64)
            stage, ids = cls.rank(windows, kept, ids, bound)
            stages.append(stage)
            size, rest = len(stage.keys), rest[number:]
        return cls(windows.n_symbols, tuple(stages)), ids

    @property
    def size(self) -> int:
        """Number of ids."""
        return len(self.stages[-1].keys)

    def find(self, windows: Any) -> Any:
        """The id of every window of other documents, -1 where these have none.

        Symbols that these do not know have codes from `n_symbols` on.
        """
        ids = _zeros_like(windows.starts, np.int64)
        for stage in self.stages:
            ids = stage.find(self.keys_of(windows, stage.kept, ids, self.n_symbols))
        return ids

    @staticmethod
    def rank(windows: Any, kept: NDArray[np.int64], ids: Any, bound: int) -> tuple[Stage, Any]:
        """Continue the ids of windows by more positions; keys are below `bound`."""
        return _rank(windows, kept, ids, bound)

    @staticmethod
    def keys_of(windows: Any, kept: NDArray[np.int64], ids: Any, n_symbols: int) -> Any:
        """The key of every window, -1 where its id is, or a symbol from `n_symbols` on is in it."""
        return _keys_of(windows, kept, ids, n_symbols)


def fitting(size: int, n_symbols: int, rest: int, n_windows: int) -> tuple[int, int]:
    """How many symbols make a key with one of `size` ids, at least one, and a bound of the keys."""
    number, bound = 1, max(size, 1) * max(n_symbols, 1)
    room = (1 << 63) >> max(n_windows - 1, 1).bit_length()
    while number < rest and bound * n_symbols <= room:
        number, bound = number + 1, bound * n_symbols
    return number, bound


def counts_of(windows: Windows, ids: NDArray[np.int32], size: int) -> Counts:
    """How often each document has each id."""
    return count_ids(windows.indptr, ids, size)


def _rank(
    windows: Windows, kept: NDArray[np.int64], ids: NDArray[np.int32], bound: int
) -> tuple[Stage, NDArray[np.int32]]:
    keys = _keys_of(windows, kept, ids, windows.n_symbols)
    if bound > max(TABLE, 8 * len(ids)):
        distinct, found = rank(keys.view(np.uint64), bound)
        return Stage(kept, distinct, None), found
    seen, found = np.zeros(bound, bool), np.empty(len(ids), np.int32)
    share(windows.indptr, lambda i, j: _mark(*_range(windows, i, j), keys, seen))
    distinct = np.flatnonzero(seen).astype(np.uint64)
    ranks = np.where(seen, np.cumsum(seen, dtype=np.int32) - np.int32(1), np.int32(-1))
    share(windows.indptr, lambda i, j: _look_up(*_range(windows, i, j), keys, ranks, found))
    return Stage(kept, distinct, ranks), found


def _keys_of(windows: Windows, kept: NDArray[np.int64], ids: Array, n_symbols: int) -> NDArray[np.int64]:
    keys = np.empty(len(windows.starts), np.int64)
    begins, codes, ids = windows.starts, windows.codes, ids.astype(np.int64, copy=False)
    share(
        windows.indptr, lambda i, j: _keys(*_range(windows, i, j), codes, begins, kept, ids, n_symbols, keys)
    )
    return keys


def _zeros_like(array: Any, dtype: Any) -> Any:
    """Zeros beside an array, of NumPy or of CuPy."""
    return array_module(device_of(array)).zeros(len(array), dtype)


def _range(windows: Windows, first: int, last: int) -> tuple[int, int]:
    return int(windows.indptr[first]), int(windows.indptr[last])


@njit(nogil=True, cache=True)
def _keys(
    first: int, last: int, codes: Array, starts: Array, kept: Array, ids: Array, n_symbols: int, keys: Array
) -> None:
    for w in range(first, last):
        key = np.int64(ids[w])
        for place in kept:
            code = codes[starts[w] + place]
            key = np.int64(-1) if key < 0 or code >= n_symbols else key * n_symbols + code
        keys[w] = key


@njit(nogil=True, cache=True)
def _mark(first: int, last: int, keys: Array, seen: Array) -> None:
    for w in range(first, last):
        seen[keys[w]] = True


@njit(nogil=True, cache=True)
def _look_up(first: int, last: int, keys: Array, ranks: Array, ids: Array) -> None:
    for w in range(first, last):
        ids[w] = ranks[keys[w]]
