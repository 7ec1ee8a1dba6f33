"""Corpora of any size: documents made of sentences of a real corpus, drawn at random within a class."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_ENDS = re.compile(r"(?<=[.!?])\s+")


def resampled(
    texts: Sequence[str], labels: Sequence[str], n: int, length: int, seed: int = 0
) -> tuple[list[str], NDArray[np.object_]]:
    """Documents of exactly `length` characters and their labels, which are as frequent as in the corpus.

    Parameters
    ----------
    texts, labels : sequences of str
    n, length, seed : int
    """
    rng = np.random.default_rng(seed)
    sentences: dict[str, list[str]] = {}
    for text, label in zip(texts, labels, strict=True):
        sentences.setdefault(label, []).extend(part for part in _ENDS.split(text) if part)
    drawn = rng.choice(np.asarray(labels, object), n)
    made = [""] * n
    for label, parts in sentences.items():
        here = np.flatnonzero(drawn == label)
        enough = int(3 * length / np.mean([len(part) + 1 for part in parts])) + 4
        for i in here.tolist():
            text = " ".join([parts[k] for k in rng.integers(0, len(parts), enough).tolist()])
            while len(text) < length:
                text += " " + parts[rng.integers(0, len(parts))]
            made[i] = text[:length]
    return made, drawn
