"""Corpora of any size: documents made of sentences of a real corpus, drawn at random within a class."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.compiled import njit
from textsvm.documents import Documents
from textsvm.encoding import decode
from textsvm.parallel import run

Array = NDArray[Any]


def resampled_documents(
    documents: Documents, classes: NDArray[np.int64], n: int, length: int, seed: int = 0
) -> tuple[Documents, NDArray[np.int64]]:
    """Documents of exactly `length` characters and their classes, which are as frequent as in the corpus.

    Parameters
    ----------
    documents : Documents
        Of characters; sentences end with ".", "!" or "?" and a space.
    classes : int64 array, shape (len(documents),)
        From 0.
    n, length, seed : int
    """
    codes, offsets = documents.codes, documents.offsets
    ends = np.isin(documents.alphabet, np.array([ord(c) for c in ".!?"]))[codes[:-1]]
    behind = np.flatnonzero(ends & (documents.alphabet[codes[1:]] == ord(" "))) + 2
    starts = np.unique(np.concatenate([offsets[:-1][documents.lengths > 0], behind]))
    starts = starts[starts < len(codes)]
    owner = classes[np.searchsorted(offsets, starts, side="right") - 1]
    order = np.argsort(owner, kind="stable")
    number = np.bincount(owner)
    lengths = np.diff(np.append(starts, len(codes)))[order]
    rng = np.random.default_rng(seed)
    drawn = classes[rng.integers(0, len(classes), n)]
    made, seeds = np.empty((n, length), codes.dtype), rng.integers(1, 1 << 62, n)
    first = np.concatenate([[0], np.cumsum(number)[:-1]])
    step = max(1, n // 256)
    run(
        lambda i: _fill(made[i : i + step], seeds[i : i + step], drawn[i : i + step],
                        codes, starts[order], lengths, first, number),
        range(0, n, step),
    )  # fmt: skip
    return Documents(made.ravel(), np.arange(n + 1) * length, documents.alphabet), drawn


def texts_of(documents: Documents) -> list[str]:
    """The texts of documents of characters, all at once."""
    whole = decode(documents.alphabet[documents.codes])
    bounds = documents.offsets.tolist()
    return [whole[a:b] for a, b in pairwise(bounds)]


@njit(nogil=True, cache=True)
def _fill(
    made: Array,
    seeds: Array,
    drawn: Array,
    codes: Array,
    starts: Array,
    lengths: Array,
    first: Array,
    number: Array,
) -> None:
    for i in range(len(made)):
        state, at, c = np.uint64(seeds[i]), 0, drawn[i]
        while at < made.shape[1]:
            state ^= state >> np.uint64(12)  # xorshift64
            state ^= state << np.uint64(25)
            state ^= state >> np.uint64(27)
            k = first[c] + np.int64((state >> np.uint64(11)) % np.uint64(number[c]))
            size = min(lengths[k], made.shape[1] - at)
            made[i, at : at + size] = codes[starts[k] : starts[k] + size]
            at += size
