"""p-mers of a few documents counted by NumPy, with the bits of `textsvm.features.pmers`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from textsvm.features.sparse import feature_type


@dataclass(frozen=True)
class Part:
    """The counts of one length: document d has the entries from `indptr[d]` to `indptr[d + 1]`."""

    indptr: NDArray[np.int64]
    features: NDArray[np.signedinteger]
    counts: NDArray[np.int32]


def pair(
    offsets: NDArray[np.int64],
    q: int,
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    b: int,
    size_b: int,
) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Distinct keys of the windows of length q, and the id of the window at every position."""
    at, ids = _places(offsets, q), np.zeros(len(left), np.int32)
    keys = left[at].astype(np.uint64) * np.uint64(size_b) + right[at + q - b].astype(np.uint64)
    distinct, ids[at] = np.unique(keys, return_inverse=True)
    return distinct, ids


def _places(offsets: NDArray[np.int64], q: int) -> NDArray[np.int64]:
    """Where a window of length q begins."""
    at = np.arange(offsets[-1])
    left = np.repeat(offsets[1:], np.diff(offsets)) - at
    return at[left >= q]


def count(offsets: NDArray[np.int64], q: int, ids: NDArray[np.int32], size: int, base: int) -> Part:
    """How often documents have each of `size` ids."""
    at = _places(offsets, q)
    owner = np.searchsorted(offsets, at, side="right") - 1
    _, firsts, counts = np.unique(owner * (size + 1) + ids[at], return_index=True, return_counts=True)
    order = np.argsort(firsts)
    entries = at[firsts[order]]
    indptr = np.searchsorted(owner[firsts[order]], np.arange(len(offsets)))
    features = (base + ids[entries].astype(np.int64)).astype(feature_type(base + size))
    return Part(indptr.astype(np.int64), features, counts[order].astype(np.int32))


def place(
    part: Part, begin: NDArray[np.int64], features: NDArray[np.signedinteger], counts: NDArray[np.int32]
) -> None:
    """Put the entries of one length among those of all, where each document has its next ones."""
    to = np.arange(len(part.features)) + np.repeat(begin - part.indptr[:-1], np.diff(part.indptr))
    features[to], counts[to] = part.features, part.counts
