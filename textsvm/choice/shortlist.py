"""Short list of kernels to try on a corpus, the simplest first.

It was chosen on the training parts of 22 public sets (topics, intents, sentiment, dialects, authors, mail,
domain names, DNA): most of them gain from words beside characters or from weights learnt from the classes.
Kernels that were tried without gain are in reports/default_study.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from textsvm.kernels.base import Kernel, Sum
from textsvm.kernels.mers.gapped import GappedKmers
from textsvm.kernels.spectrum.kernel import Spectrum
from textsvm.text.documents import Documents, View

#: Mean number of characters up to which texts count as names or codes rather than sentences.
SHORT = 40
#: Mean number of words per text from which kernels on words are tried.
FEW_WORDS = 2.0
#: Most letters of an alphabet, and least mean number of characters, of sequences such as DNA.
FEW_LETTERS, LONG_ENOUGH = 8, 20
#: Most seconds that gapped k-mers may be predicted to take.
MOST_SECONDS = 120.0
STRANDS = frozenset("acgtun")
WORDS = View("words")


@dataclass(frozen=True)
class TextStatistics:
    """Statistics of a corpus that the short list depends on."""

    characters: float  #: Mean number per text
    words: float  #: Mean number per text
    letters: str  #: Distinct characters except spaces, if there are few; otherwise ""
    gapped_seconds: float  #: Predicted time of gapped k-mers

    @property
    def has_words(self) -> bool:
        """Whether kernels on words are tried."""
        return self.words >= FEW_WORDS

    @property
    def is_short(self) -> bool:
        """Whether the texts are names or codes rather than sentences."""
        return self.characters <= SHORT

    @property
    def is_sequence(self) -> bool:
        """Whether gapped k-mers are tried."""
        return bool(self.letters) and self.characters >= LONG_ENOUGH and self.gapped_seconds <= MOST_SECONDS


def describe(characters: Documents, words: Documents) -> TextStatistics:
    """Statistics of texts, given as characters and as words."""
    letters = "".join(map(chr, characters.alphabet)).replace(" ", "") if len(characters.alphabet) < 40 else ""
    letters = letters if len(letters) <= FEW_LETTERS else ""
    seconds = GappedKmers().cost.seconds(characters, characters) if letters else 0.0
    return TextStatistics(float(np.mean(characters.lengths)), float(np.mean(words.lengths)), letters, seconds)


@dataclass(frozen=True)
class Recipe:
    """Description of a kernel of the short list."""

    #: {"substrings", "presence", "overlap", "gapped"}: Substrings of up to five characters; presence of
    #: longer substrings (for sentiment); counts that two texts share (for names and codes); gapped k-mers
    #: (for DNA).
    first: str = "substrings"
    words: bool = False  #: Whether a kernel on words and pairs of words is added
    odds: bool = False  #: Whether features are weighted by their log odds in the classes
    strands: bool = False  #: Whether gapped k-mers count both strands

    def kernel(self) -> Kernel:
        """A new kernel object."""
        kernels: dict[str, Any] = {
            "substrings": lambda: Spectrum((1, 5), "log", idf=True, odds=self.odds),
            "presence": lambda: Spectrum((3, 8), "presence", idf=True, odds=self.odds),
            "overlap": lambda: Spectrum((1, 7), "intersection"),
            "gapped": lambda: GappedKmers(9, 3, canonical=self.strands),
        }
        first: Kernel = kernels[self.first]()
        if not self.words:
            return first
        return Sum([first, Spectrum((1, 2), "log", idf=True, tokens="words", odds=self.odds)])


def first_round(statistics: TextStatistics) -> list[Recipe]:
    """Characters, and characters with words if there are words."""
    plain = Recipe()
    return [plain, replace(plain, words=True)] if statistics.has_words else [plain]


def second_round(statistics: TextStatistics, best: Recipe) -> list[Recipe]:
    """Candidates given the best recipe of the first round."""
    recipes = [Recipe(odds=True)]
    if statistics.has_words:
        recipes.append(Recipe(words=True, odds=True))
    if statistics.is_short:
        recipes.append(Recipe("overlap", words=best.words))
    if statistics.is_sequence:
        recipes.append(Recipe("gapped", strands=STRANDS.issuperset(statistics.letters)))
    return recipes


def third_round(statistics: TextStatistics, best: Recipe) -> list[Recipe]:
    """Longer substrings, given the best recipe of both rounds."""
    return [] if statistics.is_short or best.first != "substrings" else [replace(best, first="presence")]
