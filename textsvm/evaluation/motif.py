"""The best k-mers -> one motif: aligned to each other, and how much each position says.

The best one is laid down; each further one, in the order of its score, is added where it fits best what lies
there (shifted by at most half of its length, on either strand where both are read), with its score as weight;
then all are laid again, until none moves. A k-mer that does not reach a position says nothing of it: its
weight is spread over all letters there. Bits of a position: log2 of the number of letters, less its entropy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.evaluation.mutations import Kmers, pairs_of

Array = NDArray[np.float64]
#: k-mers of a motif where nobody says how many: those of half of the highest score, at most so many.
MOST = 200
#: Times that all are laid again.
ROUNDS = 5


@dataclass(frozen=True)
class Motif:
    """A motif of W positions.

    Attributes
    ----------
    letters : str
    towards : label, optional
        What its k-mers speak for.
    kmers : int
        How many it is made of.
    frequencies : float64 array, shape (W, len(letters))
    """

    letters: str
    towards: Any
    kmers: int
    frequencies: Array = field(repr=False)

    @property
    def bits(self) -> Array:
        """Heights of the letters in a sequence logo, shape (W, len(letters))."""
        p = self.frequencies
        heights: Array = p * (np.log2(p.shape[1]) + (p * np.log2(p)).sum(axis=1))[:, None]
        return heights

    @property
    def consensus(self) -> str:
        """The most frequent letter of each position."""
        return "".join(self.letters[a] for a in self.frequencies.argmax(axis=1).tolist())


def motifs(found: Kmers, most: int | None = None) -> list[Motif]:
    """One motif for each of what scores speak for, and with two classes one for the other class.

    Parameters
    ----------
    found : Kmers
    most : int, optional
        k-mers of a motif: the highest. By default those of half of the highest score, at most 200.

    Returns
    -------
    list of Motif
        None for what no k-mer speaks for.
    """
    sides = [(found.scores[:, a], label) for a, label in enumerate(found.towards)]
    if found.against is not None:
        sides.append((-found.scores[:, 0], found.against))
    return [_motif(found, scores, label, most) for scores, label in sides if scores.max() > 0]


def _motif(found: Kmers, scores: Array, towards: Any, most: int | None) -> Motif:
    order = np.argsort(-scores, kind="stable")[: MOST if most is None else most]
    order = order[scores[order] > (scores[order[0]] / 2 if most is None else 0)]
    places = {letter: a for a, letter in enumerate(found.letters)}
    digits = np.array([[places[c] for c in kmer] for kmer in found.kmers[order].tolist()])
    pairs = pairs_of(found.letters) if found.both_strands else None
    strands = digits[:, None] if pairs is None else np.stack([digits, pairs[digits][:, ::-1]], axis=1)
    counts = align(strands, scores[order], len(found.letters))
    total = scores[order].sum()
    pseudo = total / len(order) / len(found.letters)
    unknown = total - counts.sum(axis=1, keepdims=True) + pseudo
    kept = np.flatnonzero(counts.sum(axis=1) > total / 2)
    frequencies = (counts + unknown / len(found.letters)) / (total + pseudo)
    return Motif(found.letters, towards, len(order), frequencies[kept[0] : kept[-1] + 1])


def align(strands: NDArray[np.int64], weights: Array, n_letters: int) -> Array:
    """Weights of letters at positions, shape (k + 2 (k // 2), n_letters), where k-mers lie as they fit best.

    Parameters
    ----------
    strands : int64 array, shape (n, 1 or 2, k)
        Places of the letters in the alphabet; of both strands where both may be laid.
    weights : float64 array, shape (n,)
    n_letters : int
    """
    n, _, k = strands.shape
    counts = np.zeros((k + 2 * (k // 2), n_letters))
    lies: list[tuple[int, int] | None] = [None] * n
    for _ in range(ROUNDS):
        before = list(lies)
        for i, (kmer, weight) in enumerate(zip(strands, weights.tolist(), strict=True)):
            if lies[i] is not None:
                _lay(counts, kmer, lies[i], -weight)
            lies[i] = _best(counts, kmer, float(weights[0]))
            _lay(counts, kmer, lies[i], weight)
        if lies == before:
            break
    return counts


def _best(counts: Array, kmer: NDArray[np.int64], unit: float) -> tuple[int, int]:
    """The strand and the shift of the largest log-odds against equal frequencies; at first the middle."""
    k = kmer.shape[1]
    if not counts.max() > 1e-9:
        return 0, k // 2
    smoothed = np.maximum(counts, 0) + unit / counts.shape[1]
    odds = np.log(smoothed / smoothed.mean(axis=1, keepdims=True))
    shifts = np.arange(2 * (k // 2) + 1)
    fits = odds[shifts[:, None] + np.arange(k), kmer[:, None]].sum(axis=2)
    strand, shift = np.unravel_index(int(fits.argmax()), fits.shape)
    return int(strand), int(shift)


def _lay(counts: Array, kmer: NDArray[np.int64], where: tuple[int, int] | None, weight: float) -> None:
    assert where is not None
    strand, shift = where
    counts[shift + np.arange(kmer.shape[1]), kmer[strand]] += weight
