"""The p-mers of a vocabulary as texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.features.vocabulary import Vocabulary, plan


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
