"""Why a message was called what it was: the part of each of its words in the decision value.

f(x) = sum_u w_u x_u over the p-mers u of the text. What a p-mer adds is shared out equally over its
occurrences and over their bytes, so that the shares of all characters add up to f(x); those of a word are
summed, over all its occurrences.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from textsvm.mail.features import HEADER, P, blocks, features, parted
from textsvm.mail.weights import Weights

#: A word; of scripts without blanks a piece.
_WORD = re.compile(r"\S{1,40}")


def words_of(text: str, weights: Weights) -> list[tuple[str, float]]:
    """The words of a text and what each adds to the decision value, the strongest first."""
    read, shares = shares_of(text, weights)
    sums = np.concatenate([[0.0], np.cumsum(shares)])
    found: dict[str, float] = {}
    for match in _WORD.finditer(read):
        found[match[0]] = found.get(match[0], 0.0) + float(sums[match.end()] - sums[match.start()])
    return sorted(((word, share) for word, share in found.items() if share), key=lambda each: -abs(each[1]))


def shares_of(text: str, weights: Weights) -> tuple[str, NDArray[np.float64]]:
    """What the features are taken from, and what each character of it adds to the decision value."""
    keys, values = features(text)
    parts = weights.of(keys) * values
    shown, shares = [], []
    for whole, block, mark in zip(parted(text), blocks(text), (HEADER, 0), strict=True):
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
