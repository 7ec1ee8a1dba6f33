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
from typing import Any

import numpy as np

from textsvm.arrays import Ints, Words
from textsvm.kernels.inputs import InputTable
from textsvm.runtime.compiled import njit, scipy, use_numpy
from textsvm.runtime.parallel import run
from textsvm.sources.base import KernelSource, Source
from textsvm.text.encoding import Reading, normalised, offsets_of, pieces_of
from textsvm.text.normal_form import normal_form, normalise

#: Non-ASCII punctuation and spaces that NFKC keeps.
_MARKS = re.compile("[\u00a1-\u00bf\u2000-\u206f\u3000-\u303f]+")
_BESIDE_LETTERS = (string.punctuation + string.whitespace).encode()
_DIGITS = string.digits.encode()
#: ASCII in lower case; 255 for punctuation and spaces.
_KEPT = np.array(
    [255 if byte in _BESIDE_LETTERS else ord(chr(byte).lower()) for byte in range(128)], np.uint8
)
#: Time of `_letters` and hashlib, relative to that of other work of `use_numpy`.
_PYTHON = 2
#: Maximum number of digests of training texts in a model.
MOST_DIGESTS = 1 << 16
#: Texts with so many bytes of letters are compared without digits: numbers and dates of a template.
LONG = 40
#: Initial values, order of the words in the rounds, and all bits of BLAKE2b.
_IV = np.array(
    [
        0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1,
        0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179,
    ],
    np.uint64,
)  # fmt: skip
_ROUNDS = (
    "0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8", "905724afe1bc683d",
    "2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a", "6fe9b308c2d714a5", "a2847615fb9e3cd0",
)  # fmt: skip
_SIGMA = np.array([[int(word, 16) for word in _ROUNDS[number % 10]] for number in range(12)])
_ONES = np.uint64((1 << 64) - 1)
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
        names = dict.fromkeys(view.column for view in views if isinstance(view.column, str))
        columns: list[Any] = [examples.texts(name) for name in names]
    else:
        columns = list(examples.values()) if isinstance(examples, Mapping) else [examples]
    columns = [x for x in columns if isinstance(x, Sequence) and len(x) and isinstance(x[0], str)]
    if not columns:
        return None
    texts, width = list(chain.from_iterable(zip(*columns, strict=True))), len(columns)
    sizes = np.fromiter(map(len, texts), np.int64).reshape(-1, width).sum(axis=1)
    digests, bounds = np.empty(len(sizes), np.uint64), pieces_of(offsets_of(sizes))
    in_python = use_numpy(_PYTHON * int(sizes.sum()))

    def digest(k: int) -> None:
        first, last = bounds[k : k + 2]
        digests[first:last] = _digests(texts[first * width : last * width], width, in_python)

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
            digests[part] = _hash(points, lengths.reshape(-1, width), _KEPT)
    for i in np.flatnonzero(digests == 0):  # left to Python: texts without letters
        letters = b"\0".join(_letters(texts[k]) for k in rows[i])
        digests[i] = np.frombuffer(blake2b(letters, digest_size=8).digest(), np.uint64)[0]
    return digests


def share_in(sample: Words, examples: Any, source: Source) -> float:
    """Share of examples that are copies of training texts; `sample` are sorted digests of these.

    If there are `MOST_DIGESTS`, they are the smallest digests of the training texts. The share is then
    estimated from the examples with a digest up to the largest of the sample.
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


def merge_groups(first: Ints, second: Ints) -> Ints:
    """The finest grouping whose groups are unions of groups of both, shape (n,)."""
    everyone = np.arange(len(first))
    _, leader = np.unique(second, return_index=True)
    return _join(first, everyone, leader[np.unique(second, return_inverse=True)[1]])


def joined(first: Ints | None, second: Ints | None) -> Ints | None:
    """`merge_groups`, where None is the grouping in which every example is alone."""
    if first is None or second is None:
        return second if first is None else first
    return merge_groups(first, second)


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


# BLAKE2b (RFC 7693) of letters


@njit(nogil=True, cache=True)
def _hash(points, lengths, kept):
    """Digests of rows of texts, shape (n,); 0 if a text of the row has no letters."""
    digests = np.zeros(len(lengths), np.uint64)
    longest = 0
    for row in range(len(lengths)):
        longest = max(longest, lengths[row].sum() + lengths.shape[1])
    words = np.empty(16 + longest // 2, np.uint64)  # at most 4 bytes a symbol
    letters = words.view(np.uint8)
    first = 0
    for row in range(len(lengths)):
        size = 0
        for column in range(lengths.shape[1]):
            start, last = size + (column > 0), first + lengths[row, column]
            letters[size] = 0  # between columns
            size = _write_letters(points, first, last, kept, False, letters, start)
            if size - start < LONG:
                size = _write_letters(points, first, last, kept, True, letters, start)
            first = last
            if size == start:
                size = -1
                break
        first += lengths[row, column + 1 :].sum()
        if size > 0:
            end = max(1, -(-size // 128)) * 128
            letters[size:end] = 0
            digests[row] = _blake2b(words, size)
    return digests


@njit(nogil=True, cache=True)
def _write_letters(points, first, last, kept, with_digits, letters, size):
    """Write the letters of a text as UTF-8, and its digits if wanted; return the end."""
    for j in range(first, last):
        point = np.uint32(points[j])
        if point < 128:
            byte = kept[point]
            letters[size] = byte
            size += (byte < 255) & (with_digits | (byte < 48) | (byte > 57))
        elif point < 0x800:
            if point > 0xBF or point < 0xA1:
                letters[size], letters[size + 1] = 0xC0 | point >> 6, 0x80 | point & 63
                size += 2
        elif point < 0x10000:
            if not (0x2000 <= point <= 0x206F or 0x3000 <= point <= 0x303F):
                letters[size], letters[size + 1] = 0xE0 | point >> 12, 0x80 | point >> 6 & 63
                letters[size + 2] = 0x80 | point & 63
                size += 3
        else:
            letters[size], letters[size + 1] = 0xF0 | point >> 18, 0x80 | point >> 12 & 63
            letters[size + 2], letters[size + 3] = 0x80 | point >> 6 & 63, 0x80 | point & 63
            size += 4
    return size


@njit(nogil=True, cache=True)
def _blake2b(words, size):
    """First 8 bytes of the digest of `size` bytes, with zeros behind them, as a number."""
    h = _IV.copy()
    h[0] ^= np.uint64(0x01010008)
    n_blocks = max(1, -(-size // 128))
    for block in range(n_blocks):
        m = words[16 * block : 16 * block + 16]
        a0, a1, a2, a3, b0, b1, b2, b3 = h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7]
        c0, c1, c2, c3 = _IV[0], _IV[1], _IV[2], _IV[3]
        d0 = _IV[4] ^ np.uint64(min(size, 128 * block + 128))
        d1, d2, d3 = _IV[5], _IV[6] ^ (_ONES if block == n_blocks - 1 else np.uint64(0)), _IV[7]
        for s in _SIGMA:
            a0, b0, c0, d0 = _mix(a0, b0, c0, d0, m[s[0]], m[s[1]])
            a1, b1, c1, d1 = _mix(a1, b1, c1, d1, m[s[2]], m[s[3]])
            a2, b2, c2, d2 = _mix(a2, b2, c2, d2, m[s[4]], m[s[5]])
            a3, b3, c3, d3 = _mix(a3, b3, c3, d3, m[s[6]], m[s[7]])
            a0, b1, c2, d3 = _mix(a0, b1, c2, d3, m[s[8]], m[s[9]])
            a1, b2, c3, d0 = _mix(a1, b2, c3, d0, m[s[10]], m[s[11]])
            a2, b3, c0, d1 = _mix(a2, b3, c0, d1, m[s[12]], m[s[13]])
            a3, b0, c1, d2 = _mix(a3, b0, c1, d2, m[s[14]], m[s[15]])
        h[0] ^= a0 ^ c0
        h[1] ^= a1 ^ c1
        h[2] ^= a2 ^ c2
        h[3] ^= a3 ^ c3
        h[4] ^= b0 ^ d0
        h[5] ^= b1 ^ d1
        h[6] ^= b2 ^ d2
        h[7] ^= b3 ^ d3
    return h[0]


@njit(nogil=True, cache=True, inline="always")
def _mix(a, b, c, d, x, y):
    a = a + b + x
    d = d ^ a
    d = d >> np.uint64(32) | d << np.uint64(32)
    c = c + d
    b = b ^ c
    b = b >> np.uint64(24) | b << np.uint64(40)
    a = a + b + y
    d = d ^ a
    d = d >> np.uint64(16) | d << np.uint64(48)
    c = c + d
    b = b ^ c
    b = b >> np.uint64(63) | b << np.uint64(1)
    return a, b, c, d
