"""Features of a mail, the sparse weight vector of the filter, and the contributions of words to a decision.

The UTF-8 bytes x_1 .. x_n of a text have the 4-mers x_i .. x_{i+3}. Sculley and Wachman (2007) won TREC's
spam track with 4-mers: they need no words, and so resist spelling tricks in any language. A mail has three
blocks of features: the 4-mers of the text below the header fields, the 4-mers of the header fields, and the
words of the text, hashed to 32 bits, which tell more than 4-mers while few mails are known. A feature counts
once, however often it occurs. With m distinct features in block b every value is sqrt(`SHARES`[b] / m), so
that the product of two mails is a mean of the cosines |A & B| / sqrt(|A| |B|) of their blocks, and a long
header does not outweigh a short text. Fields of mailing lists are left out of the header block: they are the
same in every mail of a list and would fill most of the block. ASCII letters are read as lower case, digits as
0, and only the beginnings of both parts are read. Measurements: reports/mail.md.

<w, x> with w = sum_i alpha_i y_i x_i, summed over the support vectors once and kept in a file
beside the lessons: keys ascending, weights behind them, so that a mail of m features reads m log n of n
entries. The file holds the sum of digests of the lessons that it was computed from, and a digest of itself; a
missing, damaged or foreign file is computed again.

    64 bytes   "tsvmwts2", SHA-256 of the rest (32), sum of the lessons' digests (16), n (uint64)
    8 n        keys, uint64
    4 n        weights, float32
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from textsvm.apps.mail.client import create_file
from textsvm.errors import InputError
from textsvm.text.byte_pmers import byte_pmers

if TYPE_CHECKING:
    from typing import TypeAlias

    from numpy.typing import NDArray

    from textsvm.arrays import AnyArray, Floats

    Keys: TypeAlias = NDArray[np.uint64]  #: Keys and values of features.
    Values: TypeAlias = NDArray[np.float32]

P = 4  #: Bytes of a feature
MAX_HEADER = 3000  #: Bytes that are read of the header fields
MAX_BYTES = 10_000  #: Bytes that are read of the text below
#: Bits of the keys of header fields and of words; above the bytes of a 4-mer, and near enough for keys to be
#: stored as gaps.
HEADER, WORD = 1 << 32, 2 << 32
#: Squared lengths of the blocks: 4-mers of the text, 4-mers of the header fields, words.
SHARES = (0.5, 0.2, 0.3)
_FOLDED = bytes(range(256)).lower().translate(bytes.maketrans(b"123456789", b"000000000"))
_FILE_HEADER = struct.Struct("<8s32s16sQ")
_MAGIC = b"tsvmwts2"
_WORD = re.compile(r"\S{1,40}")  #: A word for display; of scripts without blanks a piece
#: Fields that mailing list software writes.
_LIST_FIELD = re.compile(
    r"^(?:(?:x-)?list-[\w-]*|mailing-list|precedence|errors-to|sender|x-beenthere|x-mailman-[\w-]*|x-original-date|x-loop)"
    r":.*\n?(?:[ \t].*\n?)*",
    re.IGNORECASE | re.MULTILINE,
)
_TOKEN = re.compile(rb"[a-z0$!'\x80-\xff][a-z0$!'._\-\x80-\xff]*[a-z0$!'\x80-\xff]")  #: In folded bytes


def features(text: str) -> tuple[Keys, Values]:
    """Ascending keys of the features of the text of a mail, and their values, equal in each block.

    Keys of 4-mers are those of `textsvm.text.byte_pmers`; keys of header fields have the bit
    `HEADER`, hashed words the bit `WORD`.
    """
    fields, body = _blocks(text)
    words = sorted({_word_key(word) for word in set(_TOKEN.findall(body))})
    blocks = [byte_pmers(body, P), byte_pmers(fields, P) | np.uint64(HEADER), np.array(words, np.uint64)]
    sizes = np.array([len(block) for block in blocks])
    values = np.sqrt(np.array(SHARES) / np.maximum(sizes, 1)).astype(np.float32)
    return np.concatenate(blocks), np.repeat(values, sizes)


def _word_key(word: bytes) -> int:
    return P << 56 | WORD | zlib.crc32(word)


def _split(text: str) -> tuple[str, str]:
    """The header fields of a mail's text, and the text below the empty line; without it, no fields."""
    fields, empty, body = text.partition("\n\n")
    if not empty:
        return "", text
    return _LIST_FIELD.sub("", fields), body


def _blocks(text: str) -> tuple[bytes, bytes]:
    """The bytes that are read of both parts of a mail's text."""
    fields, body = _split(text)
    return _folded(fields, MAX_HEADER), _folded(body, MAX_BYTES)


def _folded(block: str, size: int) -> bytes:
    return block[:size].encode("utf-8", "surrogatepass")[:size].translate(_FOLDED)


class WeightVector(NamedTuple):
    """A sparse weight vector."""

    keys: Keys  #: shape (n,): Ascending
    values: Values  #: shape (n,)

    def of(self, keys: Keys) -> Floats:
        """Weights of features; 0 for features without a weight."""
        if not len(self.keys):
            return np.zeros(len(keys))
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[place] == keys, self.values[place], 0.0)

    def write(self, path: Path, checksum: int) -> None:
        """Write the file, for its owner alone; errors are ignored, because the file is only a cache."""
        from textsvm.runtime.files import replacing  # not above: `tempfile` takes 10 ms

        with suppress(OSError, InputError):
            create_file(os.fspath(path))  # `replacing` keeps its mode and owner
            with replacing(path) as temporary, temporary.open("wb") as stream:
                parts = checksum.to_bytes(16, "big"), self.keys.astype("<u8"), self.values.astype("<f4")
                stream.write(_FILE_HEADER.pack(_MAGIC, _digest(*parts), parts[0], len(self.keys)))
                stream.writelines(parts[1:])


def sum_vectors(vectors: Iterable[tuple[Keys, Values, float]]) -> WeightVector:
    """The weighted sum of sparse vectors, (keys, values, factor) each."""
    keys, values = [np.zeros(0, np.uint64)], [np.zeros(0)]
    for vector_keys, vector_values, factor in vectors:
        keys.append(vector_keys)
        values.append(factor * vector_values.astype(np.float64))
    distinct, place = np.unique(np.concatenate(keys), return_inverse=True)
    sums = np.bincount(place, np.concatenate(values), len(distinct))
    return WeightVector(distinct, sums.astype(np.float32))


def read_weights(path: Path, checksum: int) -> WeightVector | None:
    """The weights of a file; None if it is missing, damaged, or of lessons of another sum of digests."""
    with suppress(OSError, struct.error, ValueError), path.open("rb") as stream:
        data = memoryview(stream.read())
        magic, digest, origin, n = _FILE_HEADER.unpack_from(data)
        content = data[_FILE_HEADER.size :]
        complete = origin == checksum.to_bytes(16, "big") and len(content) == 12 * n
        if magic == _MAGIC and complete and digest == _digest(origin, content):
            return WeightVector(np.frombuffer(content, "<u8", n), np.frombuffer(content, "<f4", n, 8 * n))
    return None


def _digest(*parts: bytes | memoryview | AnyArray) -> bytes:
    state = sha256()
    for part in parts:
        state.update(part)
    return state.digest()


def word_contributions(text: str, weights: WeightVector) -> list[tuple[str, float]]:
    """The words of a text and the contribution of each to the decision value, the largest first."""
    read, contributions = character_contributions(text, weights)
    sums = np.concatenate([[0.0], np.cumsum(contributions)])
    words: dict[str, float] = {}
    for match in _WORD.finditer(read):
        words[match[0]] = words.get(match[0], 0.0) + float(sums[match.end()] - sums[match.start()])
    return sorted([item for item in words.items() if item[1]], key=lambda item: -abs(item[1]))


def character_contributions(text: str, weights: WeightVector) -> tuple[str, Floats]:
    """The part of a text that is read, and the contribution of each character to the decision value.

    The term w_u x_u of a feature u is divided equally among its occurrences and among their bytes, so that
    the contributions add up to <w, x>.
    """
    keys, values = features(text)
    terms = weights.of(keys) * values
    fields, body = _split(text)
    field_bytes, body_bytes = _blocks(text)
    of_fields = _contributions(field_bytes, HEADER, keys, terms)
    of_body = _contributions(body_bytes, 0, keys, terms)
    gap = "\n\n" if len(of_fields) else ""
    shown = fields[: len(of_fields)] + gap + body[: len(of_body)]
    return shown, np.concatenate([of_fields, np.zeros(len(gap)), of_body])


def _contributions(block: bytes, mark: int, keys: Keys, terms: Floats) -> Floats:
    """Terms of features, divided among their occurrences and bytes; a block with a mark has no words."""
    codes = np.frombuffer(block, np.uint8).astype(np.uint64)
    n, of_bytes = len(codes) - P + 1, np.zeros(len(codes))
    if n > 0:
        packed = np.full(n, P << 56 | mark, np.uint64)
        for k in range(P):
            packed |= codes[k : k + n] << np.uint64(8 * (P - 1 - k))
        place = np.searchsorted(keys, packed)
        share = (terms / np.maximum(np.bincount(place, minlength=len(keys)), 1))[place] / P
        for k in range(P):
            of_bytes[k : k + n] += share
    spans: dict[bytes, list[tuple[int, int]]] = {}
    if not mark:
        for match in _TOKEN.finditer(block):
            spans.setdefault(match[0], []).append(match.span())
    same = Counter(map(_word_key, spans))
    for word, places in spans.items():
        key = _word_key(word)
        term = float(terms[np.searchsorted(keys, np.uint64(key))]) / same[key] / len(places) / len(word)
        for start, stop in places:
            of_bytes[start:stop] += term
    starts = np.flatnonzero((codes & 0xC0) != 0x80)
    return np.add.reduceat(of_bytes, starts) if len(starts) else of_bytes
