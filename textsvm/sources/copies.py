"""Copies: texts that are equal except for case, white space, punctuation and, in long texts, digits.

A copy of a test document in the training part flatters the test, and so do training texts in an evaluation.
A text is compared by a digest of 8 bytes of its letters, BLAKE2b: copies always have equal digests, whoever
wrote them, so no text can hide that it is a copy. Other texts with equal digests only make an estimate more
cautious; among a million texts that happens with probability 3e-8, and an author who wants two of his own
texts to count as copies must try 2^32. Digests are computed on all cores. Similar texts that are no copies
are found from kernel values (`textsvm.training.leakage`).
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import chain
from math import isqrt
from typing import Any

import numpy as np

from textsvm.arrays import Bools, Ints, Words
from textsvm.kernels.inputs import InputTable
from textsvm.runtime.compiled import njit, scipy, use_numpy
from textsvm.runtime.parallel import run
from textsvm.sources.base import KernelSource, Source
from textsvm.text.encoding import Reading, normalised, offsets_of, pieces_of
from textsvm.text.normal_form import normal_form, normalise

#: Non-ASCII punctuation and spaces that NFKC keeps.
_MARKS = re.compile("[\u00a1-\u00bf\u2000-\u206f\u3000-\u3004\u3008-\u303f]+")
_BESIDE_LETTERS = string.punctuation.encode() + bytes([*range(33), 127])  # with control characters
_DIGITS = string.digits.encode()
#: ASCII in lower case; 255 for punctuation and spaces.
_KEPT = np.array(
    [255 if byte in _BESIDE_LETTERS else ord(chr(byte).lower()) for byte in range(128)], np.uint8
)
#: BLAKE2b (RFC 7693): fractional parts of roots of primes; words of the block in each round. Compiled, since
#: with hashlib 16 threads wait for the interpreter: 25,000 reviews take 0.24 instead of 0.06 s.
_BLAKE2B_IV = np.array([isqrt(p << 128) & (1 << 64) - 1 for p in (2, 3, 5, 7, 11, 13, 17, 19)], np.uint64)
_BLAKE2B_SIGMA = np.array([[int(word, 16) for word in line] for line in (
    "0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8", "905724afe1bc683d",
    "2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a", "6fe9b308c2d714a5", "a2847615fb9e3cd0",
)], np.uint8)  # fmt: skip
_PYTHON = 2  #: Weight of a symbol in `use_numpy`: `_letters` takes twice a NumPy operation.
MOST_DIGESTS = 1 << 16  #: Maximum number of digests of training texts in a model.
#: Texts with so many bytes of letters are compared without digits: numbers and dates of a template.
LONG = 40
#: What copies may differ in, in messages.
BUT_FOR = "but for case, spaces, punctuation and, in long texts, digits"


def _letters(text: str) -> bytes:
    """The letters of a text, and its digits if it is short; the text itself if it has neither."""
    folded = text.lower() if text.isascii() else _MARKS.sub("", normalise(text))
    letters = folded.encode("utf-8", "surrogatepass").translate(None, _BESIDE_LETTERS)
    without_digits = letters.translate(None, _DIGITS)
    if len(without_digits) >= LONG:
        return without_digits
    return letters or text.strip().encode("utf-8", "surrogatepass")


def text_digests(examples: Any, source: Source | None = None) -> Words | None:
    """Digest of the texts of each example, shape (n,), equal for copies; None without texts.

    `examples` are validated examples of `source`, or the texts or columns of a corpus.
    """
    if isinstance(examples, InputTable):
        views = source.unfitted.structure.views if isinstance(source, KernelSource) else ()
        names = dict.fromkeys(name for view in views if not view.of_numbers for name in view.columns)
        of_all = examples.text_names if not any(view.columns for view in views) else ()
        columns: list[Any] = [examples.texts(name) for name in names or of_all]
    else:
        columns = list(examples.values()) if isinstance(examples, Mapping) else [examples]
    columns = [x for x in columns if isinstance(x, Sequence) and len(x) and isinstance(x[0], str)]
    if not columns:
        return None
    texts, width = list(chain.from_iterable(zip(*columns, strict=True))), len(columns)
    sizes = np.fromiter(map(len, texts), np.int64).reshape(-1, width).sum(axis=1)
    if use_numpy(_PYTHON * int(sizes.sum())):
        return _digests(texts, width, True)
    digests, bounds = np.empty(len(sizes), np.uint64), pieces_of(offsets_of(sizes))

    def digest(k: int) -> None:
        first, last = bounds[k : k + 2]
        digests[first:last] = _digests(texts[first * width : last * width], width, False)

    run(digest, range(len(bounds) - 1))
    return digests


def _digests(texts: list[str], width: int, in_python: bool) -> Words:
    """Digests of rows of `width` texts."""
    rows = np.arange(len(texts)).reshape(-1, width)
    digests = np.zeros(len(rows), np.uint64)
    simple = np.fromiter(map(str.isascii, texts), bool, len(texts)).reshape(-1, width).all(axis=1)
    for form, part in (("none", np.flatnonzero(simple)), ("unicode", np.flatnonzero(~simple))):
        if len(part) and not in_python:
            reading = Reading(normal_form(form, punctuation=True, keep_case=False))
            points, lengths = normalised([texts[i] for i in rows[part].ravel()], reading)
            letters, ends = _letters_of(points, lengths.reshape(-1, width), _KEPT)
            digests[part] = _blake2b_of(letters, ends, _BLAKE2B_IV, _BLAKE2B_SIGMA)
    for i in np.flatnonzero(digests == 0):  # left to Python: texts without letters
        digests[i] = _blake2b(b"\0".join(_letters(texts[k]) for k in rows[i]))
    return digests


def _blake2b(content: bytes | memoryview) -> int:
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little")


def share_in(sample: Words, examples: Any, source: Source) -> float:
    """Share of examples that are copies of training texts; `sample` are sorted digests of these.

    `MOST_DIGESTS` are the smallest digests of the training texts; the share is then estimated from the
    examples whose digests are not above the largest of the sample.
    """
    digests = text_digests(examples, source)
    if digests is None or not len(sample):
        return 0.0
    if len(sample) == MOST_DIGESTS:
        digests = digests[digests <= sample[-1]]
    return float(np.isin(digests, sample).mean()) if len(digests) else 0.0


def copy_groups(digests: Words | None) -> Ints | None:
    """The group of each example, shape (n,), equal for copies; None without copies."""
    if digests is None:
        return None
    distinct, groups = np.unique(digests, return_inverse=True)
    return None if len(distinct) == len(digests) else groups.astype(np.int64)


def n_copies(groups: Ints | None) -> int:
    """Number of examples that are copies of an earlier example."""
    return 0 if groups is None else len(groups) - len(np.unique(groups))


def n_separated(groups: Ints | None, folds: Sequence[tuple[Ints, Ints]]) -> int:
    """Number of examples that are tested by machines trained on a copy."""
    if groups is None:
        return 0
    tested = (test[np.isin(groups[test], groups[train])] for train, test in folds)
    return len(np.unique(np.concatenate(list(tested))))


# Groups


def in_lone_groups(groups: Ints, codes: Ints) -> tuple[Bools, Ints]:
    """Whether each example is in the only group of a class, and the codes of these classes."""
    k = int(codes.max()) + 1
    group, label = np.divmod(np.unique(groups * k + codes), k)
    lone = np.bincount(label)[label] == 1
    return np.isin(groups, group[lone]), label[lone]


def merge_groups(first: Ints | None, second: Ints | None) -> Ints | None:
    """The finest grouping whose groups are unions of groups of both, shape (n,); None: each is alone."""
    if first is None or second is None:
        return second if first is None else first
    _, leader = np.unique(second, return_index=True)
    return _join(first, np.arange(len(first)), leader[np.unique(second, return_inverse=True)[1]])


def groups_of(n: int, pairs: Iterable[tuple[Ints, Ints]]) -> Ints:
    """Number the groups of n texts that pairs connect, directly or through others, shape (n,)."""
    groups = np.arange(n)
    for first, second in pairs:
        if len(first):
            groups = _join(groups, first, second)
    return groups


def _join(groups: Ints, first: Ints, second: Ints) -> Ints:
    """Groups joined by the pairs (first[i], second[i])."""
    n = len(groups)
    _, leader, number = np.unique(groups, return_index=True, return_inverse=True)
    rows = np.concatenate([np.arange(n), first])
    columns = np.concatenate([leader[number], second])
    graph = scipy.sparse.coo_matrix((np.ones(len(rows), np.int8), (rows, columns)), shape=(n, n))
    return scipy.sparse.csgraph.connected_components(graph, directed=False)[1].astype(np.int64)


@njit(nogil=True, cache=True)
def _letters_of(points, lengths, table):
    """Letters of rows of texts as UTF-8, and their ends; empty for a row with a text without letters."""
    ends = np.zeros(len(lengths), np.int64)
    letters = np.empty(points.itemsize * len(points) + lengths.size, np.uint8)
    end = first = 0
    for row in range(len(lengths)):
        size = end
        for column in range(lengths.shape[1]):
            start, last = size + (column > 0), first + lengths[row, column]
            letters[size] = 0  # between columns
            size = _write_letters(points, first, last, table, False, letters, start)
            if size - start < LONG:
                size = _write_letters(points, first, last, table, True, letters, start)
            first = last
            if size == start:
                size = end
                break
        first += lengths[row, column + 1 :].sum()
        ends[row] = end = size
    return letters, ends


@njit(nogil=True, cache=True)
def _write_letters(points, first, last, table, with_digits, letters, size):
    """Write the letters of a text as UTF-8, and its digits if wanted; return the end."""
    for j in range(first, last):
        point = np.uint32(points[j])
        if point < 128:
            byte = table[point]
            letters[size] = byte
            size += (byte < 255) & (with_digits | (byte < 48) | (byte > 57))
        elif point < 0x800:
            if point > 0xBF or point < 0xA1:
                letters[size], letters[size + 1] = 0xC0 | point >> 6, 0x80 | point & 63
                size += 2
        elif point < 0x10000:
            if not (0x2000 <= point <= 0x206F or 0x3000 <= point <= 0x3004 or 0x3008 <= point <= 0x303F):
                letters[size], letters[size + 1] = 0xE0 | point >> 12, 0x80 | point >> 6 & 63
                letters[size + 2] = 0x80 | point & 63
                size += 3
        else:
            letters[size], letters[size + 1] = 0xF0 | point >> 18, 0x80 | point >> 12 & 63
            letters[size + 2], letters[size + 3] = 0x80 | point >> 6 & 63, 0x80 | point & 63
            size += 4
    return size


@njit(nogil=True, cache=True)
def _blake2b_of(letters, ends, iv, sigma):
    """`_blake2b` of each row of letters; 0 for a row without letters."""
    digests, block = np.zeros(len(ends), np.uint64), np.empty(128, np.uint8)
    h, v, m = np.empty(8, np.uint64), np.empty(16, np.uint64), block.view(np.uint64)
    start = 0
    for row in range(len(ends)):
        end = ends[row]
        h[:] = iv
        h[0] ^= np.uint64(0x01010008)  # no key, a digest of 8 bytes
        for first in range(start, end, 128):
            last = min(first + 128, end)
            block[last - first :] = 0
            block[: last - first] = letters[first:last]
            v[:8], v[8:] = h, iv
            v[12] ^= np.uint64(last - start)
            if last == end:
                v[14] = ~v[14]
            for round_ in range(12):
                order = sigma[round_ % 10]
                for k in range(4):
                    _g(v, k, k + 4, k + 8, k + 12, m[order[2 * k]], m[order[2 * k + 1]])
                for k in range(4):
                    b, c, d = 4 + (k + 1) % 4, 8 + (k + 2) % 4, 12 + (k + 3) % 4
                    _g(v, k, b, c, d, m[order[8 + 2 * k]], m[order[9 + 2 * k]])
            h ^= v[:8] ^ v[8:]
        digests[row] = h[0] if end > start else np.uint64(0)
        start = end
    return digests


@njit(nogil=True, cache=True)
def _g(v, a, b, c, d, x, y):
    v[a] += v[b] + x
    v[d] = _rotr64(v[d] ^ v[a], np.uint64(32))
    v[c] += v[d]
    v[b] = _rotr64(v[b] ^ v[c], np.uint64(24))
    v[a] += v[b] + y
    v[d] = _rotr64(v[d] ^ v[a], np.uint64(16))
    v[c] += v[d]
    v[b] = _rotr64(v[b] ^ v[c], np.uint64(63))


@njit(nogil=True, cache=True)
def _rotr64(word, bits):
    return word >> bits | word << np.uint64(64) - bits
