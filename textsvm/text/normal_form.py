"""Normal forms of texts: `normalise` for a single text, `NormalForm` as a table by code point.

NFKC(st) = NFKC(s) NFKC(t) if the compatibility decomposition of t begins with a starter (combining class 0)
that is not the second character of a composing pair. A text is therefore cut before every such code point and
its pieces, mostly single code points, are normalised independently. Case folding and lower-casing work per
code point (except final sigma, which the papers' form does not have) and do not change where a text may be
cut.
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
#: Table entries: not yet filled in; p + 1: code point p; a collapsible space; depends on neighbours (JOINED);
#: SEVERAL + i: expansion at row i of `NormalForm.rows`.
UNKNOWN, SPACE, JOINED, SEVERAL = 0, sys.maxunicode + 2, sys.maxunicode + 3, sys.maxunicode + 4
_OUTSIDE_PAPER, _OUTSIDE_PAPER_CASED = re.compile(r"[^a-z0-9]+"), re.compile(r"[^A-Za-z0-9]+")
#: No code point below the first composes with its predecessor; none from the last on decomposes.
_FIRST_SECOND, _LAST_DECOMPOSED = 0x300, 0x30000


def normalise(text: str, form: str = "unicode", *, punctuation: bool = True, keep_case: bool = False) -> str:
    """Normalise a text to the form that kernels compare.

    Parameters
    ----------
    text : str
    form : {"unicode", "paper", "none"}
        "unicode": NFKC, case folded, runs of white space collapsed to a space, stripped.
        "paper": the form of the papers' experiments: lower case, every run of characters outside a-z0-9
        becomes a space. "none": unchanged.
    punctuation : bool
        False replaces punctuation and symbols (Unicode categories P and S) by spaces.
    keep_case : bool
        No case folding or lower-casing; "paper" then keeps A-Z.
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
    """Table of the normalised form of every code point, filled in as code points occur.

    changes, strips : whether the form changes any text, and whether it removes spaces at the ends
    table : uint32, (number of code points,), normal form of each code point, see `UNKNOWN`
    rows : uint32, expansions to several code points: their number, then each coded as in `table`
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
        """Fill in the entries of these code points. Filled entries never change: other threads read them."""
        with self._learning:
            for point in points:
                if self.table[point] == UNKNOWN:
                    joined = self.form == "unicode" and not begins(point)
                    codes, place = [JOINED] if joined else self.of(chr(point)), SEVERAL + len(self.rows)
                    if len(codes) != 1:
                        self.rows = np.append(self.rows, np.array([len(codes), *codes], np.uint32))
                    self.table[point] = codes[0] if len(codes) == 1 else place

    def of(self, piece: str) -> list[int]:
        """Normal form of a piece that does not interact with its neighbours, coded as in `table`."""
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
    """Shared `NormalForm` of these parameters."""
    return NormalForm(form, punctuation, keep_case)


def begins(point: int) -> bool:
    """Whether NFKC never composes or reorders a code point with its predecessor."""
    if point < _FIRST_SECOND:
        return True
    first = unicodedata.normalize("NFKD", chr(point))[0]
    return unicodedata.combining(first) == 0 and ord(first) not in _seconds()


def _compose(text: str, keep_case: bool) -> str:
    text = unicodedata.normalize("NFKC", text)
    return text if keep_case else unicodedata.normalize("NFKC", text.casefold())


@lru_cache(maxsize=1)
def _seconds() -> frozenset[int]:
    """Code points that may compose with their predecessor: seconds of canonical pairs, and Hangul jamo."""
    pairs = (unicodedata.decomposition(chr(point)).split() for point in range(_LAST_DECOMPOSED))
    vowels_and_finals = (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))
    canonical = (int(pair[1], 16) for pair in pairs if len(pair) == 2 and pair[0][0] != "<")
    return frozenset((*canonical, *vowels_and_finals))


@lru_cache(maxsize=1)
def _punctuation_to_space() -> dict[int, str]:
    return {point: " " for point in range(sys.maxunicode + 1) if unicodedata.category(chr(point))[0] in "PS"}
