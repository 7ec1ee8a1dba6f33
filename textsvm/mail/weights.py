"""The weight vector of the machine on disk, for a process that decides on one mail.

f(x) = <w, x> + b with w = sum_i alpha_i y_i x_i, summed over the support vectors once and kept in a file
beside the lessons: keys ascending, weights behind them, mapped into memory, so that a mail of m features
reads m log n of n entries and no more. The file is made of the lessons and says of which store and generation
it is; one that is another's, or missing, is made anew by whoever needs it. It may be deleted at any time.

    64 bytes   "tsvmwts1", name of the store (32), generation, n (uint64 each), zeros
    8 n        keys, uint64
    4 n        weights, float32
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.runtime.files import replacing

_HEADER = struct.Struct("<8s32sQQ8x")
_MAGIC = b"tsvmwts1"


@dataclass(frozen=True)
class Weights:
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


def sum_of(vectors: Iterable[tuple[NDArray[np.uint64], NDArray[np.float32], float]]) -> Weights:
    """The sum of sparse vectors, each (keys, values, factor)."""
    keys, values = [np.zeros(0, np.uint64)], [np.zeros(0)]
    for each, weight, factor in vectors:
        keys.append(each)
        values.append(factor * weight.astype(np.float64))
    distinct, place = np.unique(np.concatenate(keys), return_inverse=True)
    sums = np.bincount(place, np.concatenate(values), len(distinct))
    return Weights(distinct, sums.astype(np.float32))


def read_weights(path: Path, store: str, generation: int) -> Weights | None:
    """The file's weights, mapped; None if it is of another store or generation, cut off, or not there."""
    with suppress(OSError, struct.error, ValueError), path.open("rb") as stream:
        magic, of, made, n = _HEADER.unpack(stream.read(_HEADER.size))
        whole = os.fstat(stream.fileno()).st_size == _HEADER.size + 12 * n
        if (magic, of, made) == (_MAGIC, store.encode(), generation) and whole:
            if n == 0:
                return sum_of([])
            keys = np.memmap(stream, "<u8", "r", _HEADER.size, (n,))
            return Weights(keys, np.memmap(stream, "<f4", "r", _HEADER.size + 8 * n, (n,)))
    return None
