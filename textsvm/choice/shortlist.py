"""Which kernels are worth a trial on some texts: a short list, the simplest first.

Chosen on the training parts of 22 public sets (topics, intents, sentiment, dialects, authors, mail, domain
names, DNA), where sums of characters and words with learnt weights beat any single kernel; what was tried and
did not pay is in reports/panel.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from textsvm.documents import View
from textsvm.kernels.base import Kernel
from textsvm.kernels.spectrum import Spectrum
from textsvm.kernels.sums import Sum

#: Characters of a text, on average, up to which it is a name or a code rather than a sentence.
SHORT = 40
#: Words of a text, on average, from which words are tried.
FEW_WORDS = 2.0
WORDS = View("words")


@dataclass(frozen=True)
class Look:
    """What the short list depends on.

    Attributes
    ----------
    characters, words : float
        Of a text, on average.
    alphabet : int
        Distinct characters.
    """

    characters: float
    words: float
    alphabet: int


def look(characters: NDArray[np.int64], words: NDArray[np.int64], alphabet: int) -> Look:
    """The same from the lengths of the texts in characters and in words."""
    return Look(float(np.mean(characters)), float(np.mean(words)), alphabet)


def characters(odds: bool = False) -> Spectrum:
    """Substrings of up to five characters."""
    return Spectrum((1, 5), "log", idf=True, odds=odds)


def words(odds: bool = False) -> Spectrum:
    """Words and pairs of words."""
    return Spectrum((1, 2), "log", idf=True, tokens="words", odds=odds)


def presence(odds: bool = False) -> Spectrum:
    """Long substrings, however often: for sentiment."""
    return Spectrum((3, 8), "presence", idf=True, odds=odds)


def overlap() -> Spectrum:
    """Counts that two texts share: for names and codes."""
    return Spectrum((1, 7), "intersection")


def with_words(first: Spectrum, odds: bool) -> Sum:
    """A kernel of characters beside words."""
    return Sum([first, words(odds)])


def first_round(seen: Look) -> list[Kernel]:
    """What is compared first: characters, and characters beside words if there are words."""
    return [characters(), *([with_words(characters(), False)] if seen.words >= FEW_WORDS else [])]


def second_round(seen: Look, best: Kernel) -> list[Kernel]:
    """What may be better, given the best of the first round."""
    beside = len(best.terms) > 1
    tried: list[Kernel] = [characters(True)]
    if seen.words >= FEW_WORDS:
        tried.append(with_words(characters(True), True))
    if seen.characters <= SHORT:
        tried.append(with_words(overlap(), False) if beside else overlap())
    return tried


def third_round(seen: Look, best: Kernel) -> list[Kernel]:
    """And what may be better than the best of both: longer substrings."""
    if seen.characters <= SHORT:
        return []
    _, first = best.terms[0]
    odds = bool(getattr(first, "odds", False))
    return [with_words(presence(odds), odds) if len(best.terms) > 1 else presence(odds)]
