"""The distinct p-mers (contiguous substrings of length p) of documents, and their exact integer ids.

Ids are ranks, never hashes. The id of a symbol is its code. A window of length q is a window of
length a at its start and one of length b at its end, max(a, b) < q <= a + b (they may overlap), so

    key = id_a(start) * size_b + id_b(end)                  (both below 2^31: a key fits 64 bits)

and its id is the rank of its key among the distinct keys of the documents. Lengths double, 1, 2, 4,
..., until the shortest length asked for, and grow by one symbol from there; so 64 symbols take seven
steps and no packed word limits p or the alphabet. Lengths that no document has are left out. The distinct
keys of every length are the whole vocabulary: they map the p-mers of other documents to these ids exactly.

The p-mers of a vocabulary as texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.runtime.compiled import few, njit
from textsvm.runtime.device import array_module, device_of
from textsvm.runtime.parallel import n_threads, run
from textsvm.text.documents import Documents

Array = NDArray[Any]
#: Symbols that documents may have.
MAX_SYMBOLS = (1 << 31) - 1
#: p-mers that a thread looks up at a time, at least.
PIECE = 1 << 14


def plan(p1: int, p2: int) -> Iterator[tuple[int, int, int]]:
    """Yield the steps (q, a, b), in order, that lead to every length p1..p2; none if there is no length."""
    lengths = [1]
    while p1 <= p2 and lengths[-1] < p2:
        a = lengths[-1]
        q = 2 * a if 2 * a < p1 else max(p1, a + 1)
        b = next(length for length in lengths if length >= q - a)
        yield q, a, b
        lengths.append(q)


def last_uses(steps: list[tuple[int, int, int]]) -> dict[int, int]:
    """The last step, by its number, that reads the ids of each length."""
    return {length: step for step, (_, a, b) in enumerate(steps) for length in (a, b)}


def longest_of(lengths: NDArray[np.int64], p1: int, p2: int) -> int:
    """The longest of p1..p2 that a document has, given the documents' lengths; p1 - 1 if there is none.

    Single symbols are counted in any case.
    """
    return max(p1 - 1, 1, min(p2, int(lengths.max(initial=0))))


def check_symbols(size: int, times: int = 1) -> None:
    """Raise InputError if documents of `size` symbols, read `times`, have more windows than there are ids."""
    if size * times > MAX_SYMBOLS:
        raise InputError(
            f"the documents have {size:,} symbols and at most {MAX_SYMBOLS // times:,} can be counted; "
            "give fewer documents, or shorten them (--max-length)"
        )


def windows_of(lengths: NDArray[np.int64], p1: int, p2: int) -> NDArray[np.int64]:
    """Number of windows of p1..p2 symbols in documents of these lengths, shape (n,)."""
    numbers = np.zeros(len(lengths), np.int64)
    for q in range(p1, min(p2, int(lengths.max(initial=0))) + 1):
        numbers += np.maximum(lengths - q + 1, 0)
    return numbers


@dataclass(frozen=True)
class Vocabulary:
    """The distinct p-mers of some documents, for every length p1..p2.

    Attributes
    ----------
    p1, p2 : int
        The shortest length, and the longest that a document has; p1 - 1 if there is none.
    n_symbols : int
        Size of the alphabet.
    keys : dict of int -> uint64 array
        Sorted distinct keys of each length of `plan`; the id of a window is the rank of its key. All of
        NumPy or all of CuPy; what is made from them is made where they are.
    """

    p1: int
    p2: int
    n_symbols: int
    keys: dict[int, Any]

    @classmethod
    def empty(cls, documents: Documents, p1: int, p2: int) -> Vocabulary:
        """That of documents, before they are counted."""
        return cls(p1, longest_of(documents.lengths, p1, p2), len(documents.alphabet), {})

    def size(self, length: int) -> int:
        """Number of distinct p-mers of one length."""
        return self.n_symbols if length == 1 else len(self.keys[length])

    @property
    def first(self) -> NDArray[np.int64]:
        """Where the p-mers of each length p1..p2 start when all are numbered through, and their sum."""
        return np.cumsum([0] + [self.size(q) for q in range(self.p1, self.p2 + 1)])

    def find(self, other: Vocabulary) -> Any:
        """Where each p-mer of `other` (numbered through) is here; -1 if it is not.

        The alphabet of one must be a prefix of the other's, or the same.
        """
        xp, first = _arrays(other), self.first
        parts = [xp.empty(0, np.int64)]
        for q, ids in zip(range(self.p1, other.p2 + 1), self.find_each(other), strict=True):
            parts.append(xp.where(ids >= 0, ids + first[q - self.p1], -1) if q <= self.p2 else ids)
        return xp.concatenate(parts)

    def find_each(self, other: Vocabulary) -> Iterator[Any]:
        """The same for one length after the other, numbered within it; `other` may get its keys meanwhile."""
        xp = _arrays(other)
        symbols = xp.arange(other.n_symbols, dtype=np.int64)
        ids = {1: xp.where(symbols < self.n_symbols, symbols, -1)}
        if self.p1 == 1:
            yield ids[1]
        for q, a, b in plan(self.p1, other.p2):
            ids[q] = self._find_pairs(other, q, ids[a], ids[b], b)
            if q >= self.p1:
                yield ids[q]

    def _find_pairs(self, other: Vocabulary, q: int, left: Any, right: Any, b: int) -> Any:
        """Where the p-mers of one length are, given where all of the two lengths that make it are."""
        xp, theirs = _arrays(other), other.keys[q]
        mine = self.keys.get(q, theirs[:0])
        if not len(mine):
            return xp.full(len(theirs), -1, np.int64)
        width = np.uint64(max(other.size(b), 1))
        if xp is np and not few(len(theirs)):
            return _find_on_host(mine, np.uint64(self.size(b)), theirs, width, left, right)
        left, right = left[(theirs // width).astype(np.int64)], right[(theirs % width).astype(np.int64)]
        sought = (left * self.size(b) + right).astype(np.uint64)
        rank = xp.searchsorted(mine, sought)
        known = (left >= 0) & (right >= 0) & (rank < len(mine))
        known &= mine[xp.minimum(rank, len(mine) - 1)] == sought
        return xp.where(known, rank, -1)


def _find_on_host(
    mine: NDArray[np.uint64],
    size_b: np.uint64,
    theirs: NDArray[np.uint64],
    width: np.uint64,
    left: NDArray[np.int64],
    right: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Ranks of keys, given where the p-mers that make them are; on all cores."""
    ranks, step = np.empty(len(theirs), np.int64), max(PIECE, len(theirs) // (4 * n_threads()) + 1)

    def find_piece(first: int) -> None:
        _find_keys(mine, size_b, theirs[first : first + step], width, left, right, ranks[first:])

    firsts = range(0, len(theirs), step)
    find_piece(0) if len(firsts) == 1 else run(find_piece, firsts)
    return ranks


@njit(nogil=True, cache=True)
def _find_keys(
    mine: Array, size_b: Any, theirs: Array, width: Any, left: Array, right: Array, ranks: Array
) -> None:
    # Keys ascend in both: a search begins where the last one ended, in steps that double.
    at, last = 0, np.uint64(0)
    for k in range(len(theirs)):
        begins, ends = left[theirs[k] // width], right[theirs[k] % width]
        ranks[k] = -1
        if begins < 0 or ends < 0:
            continue
        sought = np.uint64(begins) * size_b + np.uint64(ends)
        at = at if sought >= last else 0
        last, step = sought, 1
        while at + step < len(mine) and mine[at + step] < sought:
            at, step = at + step, 2 * step
        high = min(at + step, len(mine))
        while at < high:
            middle = (at + high) // 2
            if mine[middle] < sought:
                at = middle + 1
            else:
                high = middle
        if at < len(mine) and mine[at] == sought:
            ranks[k] = at


def _arrays(vocabulary: Vocabulary) -> Any:
    """NumPy or CuPy, whichever has the keys."""
    return array_module(device_of(next(iter(vocabulary.keys.values()), None)))


def symbols(vocabulary: Vocabulary) -> Iterator[NDArray[np.int32]]:
    """Yield the symbols of the p-mers of each length, in the order of their ids, shape (number, length)."""
    known = {1: np.arange(vocabulary.n_symbols, dtype=np.int32)[:, None]}
    if vocabulary.p1 == 1:
        yield known[1]
    for q, a, b in plan(vocabulary.p1, vocabulary.p2):
        left, right = np.divmod(vocabulary.keys[q], np.uint64(max(vocabulary.size(b), 1)))
        # The window of length a at the start, and what the one of length b at the end adds to it.
        known[q] = np.hstack([known[a][left.astype(np.int64)], known[b][right.astype(np.int64), a + b - q :]])
        if q >= vocabulary.p1:
            yield known[q]


def as_texts(codes: NDArray[np.int32], alphabet: NDArray[Any]) -> NDArray[np.object_]:
    """Rows of symbols as str; tokens with a space between them.

    Parameters
    ----------
    codes : int32 array, shape (n, length)
    alphabet : uint32 array of code points, or object array of tokens
    """
    if alphabet.dtype == object:
        names = alphabet[codes[:, 0]]
        for column in codes.T[1:]:
            names = names + " " + alphabet[column]
        return names
    points = np.ascontiguousarray(alphabet[codes], np.uint32)
    names = points.view(f"U{points.shape[1]}")[:, 0].astype(object)
    for i in np.flatnonzero(points[:, -1] == 0):  # NumPy takes zeros at the end for padding
        names[i] = "".join(map(chr, points[i]))
    return names
