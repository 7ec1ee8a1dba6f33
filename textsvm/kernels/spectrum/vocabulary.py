"""The distinct p-mers (contiguous substrings of length p) of documents, and their exact integer ids.

Ids are ranks, never hashes. The id of a symbol is its code. A window of length q consists of a window of
length a at its start and a window of length b at its end, max(a, b) < q <= a + b (they may overlap), so

    key = id_a(start) * size_b + id_b(end)                  (both below 2^31: a key fits 64 bits)

and its id is the rank of its key among the distinct keys of the documents. Lengths double (1, 2, 4, ...) up
to the shortest requested length and then grow by one symbol, so 64 symbols take seven steps, and neither p
nor the alphabet is limited by the size of a word. Lengths that no document has are omitted. The sorted
distinct keys of every length are the whole vocabulary: they map the p-mers of other documents to these ids
exactly.
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
#: Largest total number of symbols.
MAX_SYMBOLS = (1 << 31) - 1
#: Smallest number of p-mers per piece of work.
PIECE = 1 << 14


def plan(p1: int, p2: int) -> Iterator[tuple[int, int, int]]:
    """Yield the steps (q, a, b) that build every length p1..p2, in order; nothing if p1 > p2."""
    lengths = [1]
    while p1 <= p2 and lengths[-1] < p2:
        a = lengths[-1]
        q = 2 * a if 2 * a < p1 else max(p1, a + 1)
        b = next(length for length in lengths if length >= q - a)
        yield q, a, b
        lengths.append(q)


def last_uses(steps: list[tuple[int, int, int]]) -> dict[int, int]:
    """Number of the last step that reads the ids of each length."""
    return {length: step for step, (_, a, b) in enumerate(steps) for length in (a, b)}


def longest_of(lengths: NDArray[np.int64], p1: int, p2: int) -> int:
    """Longest of the lengths p1..p2 that any document reaches, else p1 - 1; at least 1."""
    return max(p1 - 1, 1, min(p2, int(lengths.max(initial=0))))


def check_symbols(size: int, times: int = 1) -> None:
    """Raise InputError if `size` symbols, each counted `times`, exceed the range of ids."""
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
    """Distinct p-mers of documents, for every length p1..p2."""

    #: The shortest length, and the longest that any document reaches (p1 - 1 if none does).
    p1: int
    p2: int
    n_symbols: int  #: Size of the alphabet
    #: dict of int -> uint64 array: Sorted distinct keys of each length of `plan`; the id of a window is the
    #: rank of its key. All are NumPy arrays or all are CuPy arrays; results have the same array type.
    keys: dict[int, Any]

    @classmethod
    def empty(cls, documents: Documents, p1: int, p2: int) -> Vocabulary:
        """Vocabulary of documents before counting, without keys."""
        return cls(p1, longest_of(documents.lengths, p1, p2), len(documents.alphabet), {})

    def size(self, length: int) -> int:
        """Number of distinct p-mers of a length."""
        return self.n_symbols if length == 1 else len(self.keys[length])

    @property
    def first(self) -> NDArray[np.int64]:
        """Feature number of the first p-mer of each length p1..p2, and the total number of p-mers."""
        return np.cumsum([0] + [self.size(q) for q in range(self.p1, self.p2 + 1)])

    def find(self, other: Vocabulary) -> Any:
        """Number here of every p-mer of `other`, or -1; either alphabet must be a prefix of the other."""
        xp, first = _arrays(other), self.first
        parts = [xp.empty(0, np.int64)]
        for q, ids in zip(range(self.p1, other.p2 + 1), self.find_each(other), strict=True):
            parts.append(xp.where(ids >= 0, ids + first[q - self.p1], -1) if q <= self.p2 else ids)
        return xp.concatenate(parts)

    def find_each(self, other: Vocabulary) -> Iterator[Any]:
        """Yield `find` per length, numbered within the length; `other` may get its keys during iteration."""
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
        """`find_each` of length q, given the results of its two parts."""
        xp, other_keys = _arrays(other), other.keys[q]
        own = self.keys.get(q, other_keys[:0])
        if not len(own):
            return xp.full(len(other_keys), -1, np.int64)
        width = np.uint64(max(other.size(b), 1))
        if xp is np and not few(len(other_keys)):
            return _find_on_cpu(own, np.uint64(self.size(b)), other_keys, width, left, right)
        left, right = (
            left[(other_keys // width).astype(np.int64)],
            right[(other_keys % width).astype(np.int64)],
        )
        key = (left * self.size(b) + right).astype(np.uint64)
        rank = xp.searchsorted(own, key)
        known = (left >= 0) & (right >= 0) & (rank < len(own))
        known &= own[xp.minimum(rank, len(own) - 1)] == key
        return xp.where(known, rank, -1)


def _find_on_cpu(
    own: NDArray[np.uint64],
    size_b: np.uint64,
    other_keys: NDArray[np.uint64],
    width: np.uint64,
    left: NDArray[np.int64],
    right: NDArray[np.int64],
) -> NDArray[np.int64]:
    """`_find_pairs` on all cores."""
    ranks, step = np.empty(len(other_keys), np.int64), max(PIECE, len(other_keys) // (4 * n_threads()) + 1)

    def find_piece(first: int) -> None:
        _find_keys(own, size_b, other_keys[first : first + step], width, left, right, ranks[first:])

    firsts = range(0, len(other_keys), step)
    find_piece(0) if len(firsts) == 1 else run(find_piece, firsts)
    return ranks


@njit(nogil=True, cache=True)
def _find_keys(own, size_b, other_keys, width, left, right, ranks):
    # Both key arrays ascend: each search continues at the last result, in doubling steps.
    at, last = 0, np.uint64(0)
    for k in range(len(other_keys)):
        begins, ends = left[other_keys[k] // width], right[other_keys[k] % width]
        ranks[k] = -1
        if begins < 0 or ends < 0:
            continue
        key = np.uint64(begins) * size_b + np.uint64(ends)
        at = at if key >= last else 0
        last, step = key, 1
        while at + step < len(own) and own[at + step] < key:
            at, step = at + step, 2 * step
        high = min(at + step, len(own))
        while at < high:
            middle = (at + high) // 2
            if own[middle] < key:
                at = middle + 1
            else:
                high = middle
        if at < len(own) and own[at] == key:
            ranks[k] = at


def _arrays(vocabulary: Vocabulary) -> Any:
    """Array module of the keys: NumPy or CuPy."""
    return array_module(device_of(next(iter(vocabulary.keys.values()), None)))


def pmer_codes(vocabulary: Vocabulary) -> Iterator[NDArray[np.int32]]:
    """Yield the codes of the p-mers of each length in the order of ids, shape (number, length)."""
    codes = {1: np.arange(vocabulary.n_symbols, dtype=np.int32)[:, None]}
    if vocabulary.p1 == 1:
        yield codes[1]
    for q, a, b in plan(vocabulary.p1, vocabulary.p2):
        left, right = np.divmod(vocabulary.keys[q], np.uint64(max(vocabulary.size(b), 1)))
        # The window of length a, and the symbols of the window of length b behind it.
        codes[q] = np.hstack([codes[a][left.astype(np.int64)], codes[b][right.astype(np.int64), a + b - q :]])
        if q >= vocabulary.p1:
            yield codes[q]


def pmer_texts(codes: NDArray[np.int32], alphabet: NDArray[Any]) -> NDArray[np.object_]:
    """Text of every row of codes, shape (n, length); tokens are separated by spaces."""
    if alphabet.dtype == object:
        names = alphabet[codes[:, 0]]
        for column in codes.T[1:]:
            names = names + " " + alphabet[column]
        return names
    points = np.ascontiguousarray(alphabet[codes], np.uint32)
    names = points.view(f"U{points.shape[1]}")[:, 0].astype(object)
    for i in np.flatnonzero(points[:, -1] == 0):  # NumPy strips trailing zeros as padding
        names[i] = "".join(map(chr, points[i]))
    return names
