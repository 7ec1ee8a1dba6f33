"""What a filter knows a mail by: which strings of four bytes its header fields and its text hold.

The UTF-8 bytes x_1 .. x_n of a text have the 4-mers x_i .. x_{i+3}. A feature counts once, however often it
occurs, and the vector of a mail has unit length: with m distinct 4-mers every value is 1 / sqrt(m), and the
product of two mails is the cosine of their sets, |A & B| / sqrt(|A| |B|). These are the features with
which Sculley and Wachman (2007) won TREC's spam track: they need no words, and so stand spelling tricks, and
any language. What `read_message` gives up to its first empty line are the header fields; their 4-mers are
other features than those of the text below. ASCII letters are read as small ones, digits as 0. Only the
beginnings of both are read: what a mail is shows there, and a long one costs no more than they do.

Measured: reports/mail.md.

This file needs NumPy alone, for a process that decides on one mail.

The weight vector of the machine on disk, for a process that decides on one mail.

f(x) = <w, x> + b with w = sum_i alpha_i y_i x_i, summed over the support vectors once and kept in a file
beside the lessons: keys ascending, weights behind them, mapped into memory, so that a mail of m features
reads m log n of n entries and no more. The file is made of the lessons and says of which store and generation
it is; one that is another's, or missing, is made anew by whoever needs it. It may be deleted at any time.

    64 bytes   "tsvmwts1", name of the store (32), generation, n (uint64 each), zeros
    8 n        keys, uint64
    4 n        weights, float32

Why a message was called what it was: the part of each of its words in the decision value.

f(x) = sum_u w_u x_u over the p-mers u of the text. What a p-mer adds is shared out equally over its
occurrences and over their bytes, so that the shares of all characters add up to f(x); those of a word are
summed, over all its occurrences.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.kernels.spectrum.pmers import byte_pmers, spelled, unit
from textsvm.runtime.files import replacing

__all__ = ["HEADER", "MOST_BYTES", "MOST_HEADER", "P", "blocks", "features", "parted", "spelled"]

#: Bytes of a feature.
P = 4
#: Bytes that are read of the header fields, and of the text below.
MOST_HEADER, MOST_BYTES = 3000, 10_000
#: In the keys of header fields; above the bytes of a 4-mer, and near enough for keys to be kept as gaps.
HEADER = 1 << 32
#: What each byte is read as.
_READ = bytes(range(256)).lower().translate(bytes.maketrans(b"123456789", b"000000000"))


def features(text: str) -> tuple[NDArray[np.uint64], NDArray[np.float32]]:
    """The distinct 4-mers of a mail, and values of unit length.

    Parameters
    ----------
    text : str
        As `textsvm.mail.message.read_message` gives it.

    Returns
    -------
    keys : uint64 array, shape (m,)
        Ascending; see `textsvm.kernels.spectrum.pmers`. Those of header fields have `HEADER` besides.
    values : float32 array, shape (m,)
        All equal, of unit length together.
    """
    fields, below = (byte_pmers(block, P) for block in blocks(text))
    keys = np.concatenate([below, fields | np.uint64(HEADER)])
    return keys, unit(keys)


def split_text(text: str) -> tuple[str, str]:
    """A mail's header fields, and the text below the empty line; without one there are no fields."""
    fields, empty, below = text.partition("\n\n")
    return (fields, below) if empty else ("", text)


def blocks(text: str) -> tuple[bytes, bytes]:
    """What is read of both parts of a mail."""
    fields, below = split_text(text)
    return _read(fields, MOST_HEADER), _read(below, MOST_BYTES)


def _read(block: str, most: int) -> bytes:
    return block[:most].encode("utf-8", "surrogatepass")[:most].translate(_READ)


_HEADER = struct.Struct("<8s32sQQ8x")
_MAGIC = b"tsvmwts1"


@dataclass(frozen=True)
class WeightVector:
    """A sparse weight vector.

    Attributes
    ----------
    keys : uint64 array, shape (n,)
        Ascending.
    values : float32 array, shape (n,)
    """

    keys: NDArray[np.uint64]
    values: NDArray[np.float32]

    def of(self, keys: NDArray[np.uint64]) -> NDArray[np.float64]:
        """The weights of features; 0 of those that no support vector has."""
        if not len(self.keys):
            return np.zeros(len(keys))
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[place] == keys, self.values[place], 0.0)

    def write(self, path: Path, store: str, generation: int) -> None:
        """Write the file, for its owner alone; where that cannot be there is none, which is no failure."""
        with suppress(OSError, InputError):
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))  # `replacing` keeps its mode
            with replacing(path) as temporary, temporary.open("wb") as stream:
                stream.write(_HEADER.pack(_MAGIC, store.encode(), generation, len(self.keys)))
                self.keys.astype("<u8").tofile(stream)
                self.values.astype("<f4").tofile(stream)


def sum_vectors(vectors: Iterable[tuple[NDArray[np.uint64], NDArray[np.float32], float]]) -> WeightVector:
    """The sum of sparse vectors, each (keys, values, factor)."""
    keys, values = [np.zeros(0, np.uint64)], [np.zeros(0)]
    for each, weight, factor in vectors:
        keys.append(each)
        values.append(factor * weight.astype(np.float64))
    distinct, place = np.unique(np.concatenate(keys), return_inverse=True)
    sums = np.bincount(place, np.concatenate(values), len(distinct))
    return WeightVector(distinct, sums.astype(np.float32))


def read_weights(path: Path, store: str, generation: int) -> WeightVector | None:
    """The file's weights, mapped; None if it is of another store or generation, cut off, or not there."""
    with suppress(OSError, struct.error, ValueError), path.open("rb") as stream:
        magic, of, made, n = _HEADER.unpack(stream.read(_HEADER.size))
        whole = os.fstat(stream.fileno()).st_size == _HEADER.size + 12 * n
        if (magic, of, made) == (_MAGIC, store.encode(), generation) and whole:
            if n == 0:
                return sum_vectors([])
            keys = np.memmap(stream, "<u8", "r", _HEADER.size, (n,))
            return WeightVector(keys, np.memmap(stream, "<f4", "r", _HEADER.size + 8 * n, (n,)))
    return None


#: A word; of scripts without blanks a piece.
_WORD = re.compile(r"\S{1,40}")


def word_contributions(text: str, weights: WeightVector) -> list[tuple[str, float]]:
    """The words of a text and what each adds to the decision value, the strongest first."""
    read, shares = character_contributions(text, weights)
    sums = np.concatenate([[0.0], np.cumsum(shares)])
    found: dict[str, float] = {}
    for match in _WORD.finditer(read):
        found[match[0]] = found.get(match[0], 0.0) + float(sums[match.end()] - sums[match.start()])
    return sorted(((word, share) for word, share in found.items() if share), key=lambda each: -abs(each[1]))


def character_contributions(text: str, weights: WeightVector) -> tuple[str, NDArray[np.float64]]:
    """What the features are taken from, and what each character of it adds to the decision value."""
    keys, values = features(text)
    parts = weights.of(keys) * values
    shown, shares = [], []
    for whole, block, mark in zip(split_text(text), blocks(text), (HEADER, 0), strict=True):
        starts, found = _shares(block, mark, keys, parts)
        shown.append(whole[: len(starts)])
        shares.append(found)
    gap = "\n\n" if shown[0] else ""
    return gap.join(shown), np.concatenate([shares[0], np.zeros(len(gap)), shares[1]])


def _shares(
    block: bytes, mark: int, keys: NDArray[np.uint64], parts: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Where the characters of a block begin, and what each adds to the decision value."""
    codes = np.frombuffer(block, np.uint8).astype(np.uint64)
    n = len(codes) - P + 1
    of_bytes = np.zeros(len(codes))
    if n > 0:
        packed = np.full(n, P << 56 | mark, np.uint64)
        for k in range(P):
            packed |= codes[k : k + n] << np.uint64(8 * (P - 1 - k))
        place = np.searchsorted(keys, packed)
        shared = (parts / np.maximum(np.bincount(place, minlength=len(keys)), 1))[place] / P
        for k in range(P):
            of_bytes[k : k + n] += shared
    starts = np.flatnonzero((codes & 0xC0) != 0x80)
    return starts, np.add.reduceat(of_bytes, starts) if len(starts) else of_bytes
