"""The forms that texts are brought into, a text at a time and as tables of what every code point becomes.

NFKC(st) = NFKC(s) NFKC(t) wherever the compatibility decomposition of t begins with a starter (combining
class 0) that is not the second of any pair that composes: nothing is reordered across it, nothing composes
with it. So a text is cut before each such code point, and its pieces, most of them a single code point,
become what they become alone. Case folding and lower-casing go code point by code point (but for a final
sigma, which the papers' form has no use for), and casing changes nothing of where a text may be cut.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from textsvm.errors import InputError
from textsvm.runtime.parallel import Lock

NORMALISATIONS = ("unicode", "paper", "none")
#: What a code point becomes: nothing known yet; p + 1 for the code point p; a space that runs into others;
#: what it becomes is known with its neighbours only; SEVERAL + i: row i of `NormalForm.rows`.
UNKNOWN, SPACE, JOINED, SEVERAL = 0, sys.maxunicode + 2, sys.maxunicode + 3, sys.maxunicode + 4
_OUTSIDE_PAPER, _OUTSIDE_PAPER_CASED = re.compile(r"[^a-z0-9]+"), re.compile(r"[^A-Za-z0-9]+")
#: No code point from here on has a canonical decomposition; none below the first composes with one before it.
_FIRST_SECOND, _LAST_DECOMPOSED = 0x300, 0x30000


def normalise(text: str, form: str = "unicode", *, punctuation: bool = True, keep_case: bool = False) -> str:
    """Bring a text into the form that kernels compare.

    Parameters
    ----------
    text : str
    form : {"unicode", "paper", "none"}
        "unicode": NFKC, case folded, every run of white space one space, none at the ends.
        "paper": the form of the papers' experiments, lower case, every run of characters outside
        a-z0-9 one space. "none": as it is.
    punctuation : bool
        False puts a space in place of punctuation and symbols (Unicode categories P and S).
    keep_case : bool
        The same without case folding, or lower-casing; A-Z are letters of "paper" then.

    Raises
    ------
    InputError
        If `form` is not one of the three.
    """
    if form == "unicode":
        text = _compose(text, keep_case)
    elif form == "paper":
        return _OUTSIDE_PAPER_CASED.sub(" ", text) if keep_case else _OUTSIDE_PAPER.sub(" ", text.lower())
    elif form != "none":
        raise InputError(f"normalise={form!r} is not one of {', '.join(NORMALISATIONS)}")
    if not punctuation:
        text = text.translate(_punctuation_to_space())
    return " ".join(text.split()) if form == "unicode" else text


class NormalForm:
    """What `normalise` makes of every code point, learnt as code points are met.

    Parameters
    ----------
    form, punctuation, keep_case : as `normalise` takes them

    Attributes
    ----------
    changes : bool
        Whether any text is changed.
    strips : bool
        Whether there are no spaces at the ends.
    table : uint32 array, shape (number of code points,)
        What each becomes, see `UNKNOWN`.
    rows : uint32 array
        Of the code points that become several: how many, then each as in `table`.

    Raises
    ------
    InputError
        If `form` is not one of the three.
    """

    def __init__(self, form: str, punctuation: bool, keep_case: bool) -> None:
        normalise("", form)
        self.form, self.punctuation, self.keep_case = form, punctuation, keep_case
        self.changes, self.strips = form != "none" or not punctuation, form == "unicode"
        self.table = np.zeros(sys.maxunicode + 1, np.uint32)
        self.rows = np.zeros(0, np.uint32)
        self._learning = Lock()
        self.learn(range(128))

    def learn(self, points: Iterable[int]) -> None:
        """Fill in what these code points become; what is filled in stays, for others read it meanwhile."""
        with self._learning:
            for point in points:
                if self.table[point] == UNKNOWN:
                    joined = self.form == "unicode" and not begins(point)
                    made, place = [JOINED] if joined else self.of(chr(point)), SEVERAL + len(self.rows)
                    if len(made) != 1:
                        self.rows = np.append(self.rows, np.array([len(made), *made], np.uint32))
                    self.table[point] = made[0] if len(made) == 1 else place

    def of(self, piece: str) -> list[int]:
        """What a piece of a text becomes that nothing around it changes, each as in `table`."""
        if self.form == "paper":
            piece = normalise(piece, "paper", keep_case=self.keep_case)
        elif self.form == "unicode":
            piece = _compose(piece, self.keep_case)
        if self.form != "paper" and not self.punctuation:
            piece = piece.translate(_punctuation_to_space())
        runs = self.form != "none"
        return [SPACE if runs and symbol.isspace() else ord(symbol) + 1 for symbol in piece]


@lru_cache
def normal_form(form: str, punctuation: bool, keep_case: bool) -> NormalForm:
    """The table of a form; there is one of each."""
    return NormalForm(form, punctuation, keep_case)


def begins(point: int) -> bool:
    """Whether NFKC never joins or reorders a code point with what stands before it."""
    if point < _FIRST_SECOND:
        return True
    first = unicodedata.normalize("NFKD", chr(point))[0]
    return unicodedata.combining(first) == 0 and ord(first) not in _seconds()


def _compose(text: str, keep_case: bool) -> str:
    text = unicodedata.normalize("NFKC", text)
    return text if keep_case else unicodedata.normalize("NFKC", text.casefold())


@lru_cache(maxsize=1)
def _seconds() -> frozenset[int]:
    """The code points that may compose with one before them: seconds of canonical pairs, and Hangul jamo."""
    pairs = (unicodedata.decomposition(chr(point)).split() for point in range(_LAST_DECOMPOSED))
    vowels_and_finals = (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))
    canonical = (int(pair[1], 16) for pair in pairs if len(pair) == 2 and pair[0][0] != "<")
    return frozenset((*canonical, *vowels_and_finals))


@lru_cache(maxsize=1)
def _punctuation_to_space() -> dict[int, str]:
    return {point: " " for point in range(sys.maxunicode + 1) if unicodedata.category(chr(point))[0] in "PS"}
