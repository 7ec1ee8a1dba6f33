"""Which kernels are worth a trial on some texts: a short list, the simplest first.

Chosen on the training parts of 22 public sets (topics, intents, sentiment, dialects, authors, mail, domain
names, DNA): most of them gain from words beside characters or from weights learnt from the classes. What was
tried and did not pay is in reports/default_study.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from textsvm.kernels.base import Kernel, Sum
from textsvm.kernels.mers.gapped import GappedKmers
from textsvm.kernels.spectrum.kernel import Spectrum
from textsvm.text.documents import Documents, View

#: Characters of a text, on average, up to which it is a name or a code rather than a sentence.
SHORT = 40
#: Words of a text, on average, from which words are tried.
FEW_WORDS = 2.0
#: Letters of an alphabet, and characters of a text, from which it is a sequence such as DNA.
FEW_LETTERS, LONG_ENOUGH = 8, 20
#: Seconds that gapped k-mers may be predicted to take.
MOST_SECONDS = 120.0
STRANDS = frozenset("acgtun")
WORDS = View("words")


@dataclass(frozen=True)
class Look:
    """What the short list depends on.

    Attributes
    ----------
    characters, words : float
        Of a text, on average.
    letters : str
        Distinct characters but spaces, where they are few; "" where they are many.
    gapped_seconds : float
        What gapped k-mers are predicted to take.
    """

    characters: float
    words: float
    letters: str
    gapped_seconds: float

    @property
    def has_words(self) -> bool:
        """Whether words are tried."""
        return self.words >= FEW_WORDS

    @property
    def is_short(self) -> bool:
        """Whether a text is a name or a code rather than a sentence."""
        return self.characters <= SHORT

    @property
    def is_sequence(self) -> bool:
        """Whether gapped k-mers are tried."""
        return bool(self.letters) and self.characters >= LONG_ENOUGH and self.gapped_seconds <= MOST_SECONDS


def look(characters: Documents, words: Documents) -> Look:
    """The same from texts read as characters and as words."""
    letters = "".join(map(chr, characters.alphabet)).replace(" ", "") if len(characters.alphabet) < 40 else ""
    letters = letters if len(letters) <= FEW_LETTERS else ""
    seconds = GappedKmers().cost.seconds(characters, characters) if letters else 0.0
    return Look(float(np.mean(characters.lengths)), float(np.mean(words.lengths)), letters, seconds)


@dataclass(frozen=True)
class Recipe:
    """A kernel of the list, by what it is made of.

    Attributes
    ----------
    first : {"substrings", "presence", "overlap", "gapped"}
        Substrings of up to five characters; long ones, however often (for sentiment); counts that two
        texts share (for names and codes); gapped k-mers (for DNA).
    words : bool
        Words and pairs of words beside it.
    odds : bool
        Whether features weigh what they tell about the class.
    strands : bool
        Whether gapped k-mers are of both strands.
    """

    first: str = "substrings"
    words: bool = False
    odds: bool = False
    strands: bool = False

    def kernel(self) -> Kernel:
        """A fresh kernel."""
        made: dict[str, Any] = {
            "substrings": lambda: Spectrum((1, 5), "log", idf=True, odds=self.odds),
            "presence": lambda: Spectrum((3, 8), "presence", idf=True, odds=self.odds),
            "overlap": lambda: Spectrum((1, 7), "intersection"),
            "gapped": lambda: GappedKmers(9, 3, canonical=self.strands),
        }
        first: Kernel = made[self.first]()
        if not self.words:
            return first
        return Sum([first, Spectrum((1, 2), "log", idf=True, tokens="words", odds=self.odds)])


def first_round(seen: Look) -> list[Recipe]:
    """What is compared first: characters, and characters beside words if there are words."""
    plain = Recipe()
    return [plain, replace(plain, words=True)] if seen.has_words else [plain]


def second_round(seen: Look, best: Recipe) -> list[Recipe]:
    """What may be better, given the best of the first round."""
    tried = [Recipe(odds=True)]
    if seen.has_words:
        tried.append(Recipe(words=True, odds=True))
    if seen.is_short:
        tried.append(Recipe("overlap", words=best.words))
    if seen.is_sequence:
        tried.append(Recipe("gapped", strands=STRANDS.issuperset(seen.letters)))
    return tried


def third_round(seen: Look, best: Recipe) -> list[Recipe]:
    """And what may be better than the best of both: longer substrings."""
    return [] if seen.is_short or best.first != "substrings" else [replace(best, first="presence")]
