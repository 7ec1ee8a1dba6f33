"""Normal forms of texts: `normalise` for a single text, `NormalForm` as a table by code point.

NFKC(st) = NFKC(s) NFKC(t) if the compatibility decomposition of t begins with a starter (combining class 0)
that is not the second character of a composing pair. A text is therefore cut before every such code point and
its pieces, mostly single code points, are normalised independently. Case folding and lower-casing work per
code point (except final sigma, which the papers' form does not have) and do not change where a text may be
cut.

A default-ignorable code point (zero width, soft hyphen, direction marks) is removed first, so that a text
with it equals the text without it. The first joiner (ZWNJ, ZWJ, the Mongolian vowel separator) behind a
letter of a script that needs joiners, or behind an emoji, stays, as does a ZWSP in scripts that separate
words by it. Combining marks do not count as letters here, since NFKC reorders them.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain, groupby

import numpy as np

from textsvm.errors import InputError
from textsvm.runtime.parallel import Lock

NORMALISATIONS = ("unicode", "paper", "none")
#: Table entries: not yet filled in; p + 1: code point p; a collapsible space; depends on neighbours (JOINED);
#: SEVERAL + i: expansion at row i of `NormalForm.rows`.
UNKNOWN, SPACE, JOINED, SEVERAL = 0, sys.maxunicode + 2, sys.maxunicode + 3, sys.maxunicode + 4
_OUTSIDE_PAPER, _OUTSIDE_PAPER_CASED = re.compile(r"[^a-z0-9]+"), re.compile(r"[^A-Za-z0-9]+")
_FIRST_SECOND = 0xAD  #: Code points below do not depend on their predecessor.
_LAST_DECOMPOSED = 0x30000  #: Code points from here on do not decompose.
#: Default_Ignorable_Code_Point of DerivedCoreProperties.txt, Unicode 16.
IGNORABLE = (
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
#: Blocks of scripts that need joiners (Arabic, Syriac, N'Ko, Mongolian, Indic and others), and of emoji.
JOINING = (
    "\u0600-\u0dff\u0f00-\u0fff\u1700-\u177f\u1800-\u18af\u1900-\u194f\u1a00-\u1a1f\u1b00-\u1c4f\u1cd0-\u1cff"
    "\u2600-\u27bf\ua800-\ua95f\ua980-\ua9df\uaa00-\uaa5f\uaae0-\uaaff\uabc0-\uabff\ufb50-\ufdff\ufe70-\ufefe"
    "\U00010a00-\U00010a5f\U00010ac0-\U00010aff\U00010b80-\U00010baf\U00010d00-\U00010d3f\U00010f30-\U00010fff"
    "\U00011000-\U00011fff\U0001e900-\U0001e95f\U0001ee00-\U0001eeff\U0001f300-\U0001faff"
)
#: Blocks of scripts that separate words by ZWSP, and need joiners too: Thai, Lao, Myanmar, Khmer, Tai.
SPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\ua9e0-\ua9ff\uaa60-\uaadf"
#: A letter of a script without spaces between words: those, kana and ideographs.
UNSPACED = re.compile(f"[{SPACED}\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
#: Zero-width non-joiner and joiner, Mongolian vowel separator; zero-width space.
JOINERS, ZWSP = "\u200c\u200d\u180e", "\u200b"
#: A run that may have many combining marks; two letters (half-width voiced sound marks) decompose to marks.
_LONG_RUN = re.compile(r"(?:[^\w\s]|[\uff9e\uff9f]){64,}")
_IGNORABLE, _JOINING, _SPACED = (
    re.compile(f"[{points}]") for points in (IGNORABLE, JOINING + SPACED, SPACED)
)


def normalise(text: str, form: str = "unicode", *, punctuation: bool = True, keep_case: bool = False) -> str:
    """Normalise a text to the form that kernels compare.

    "unicode": NFKC without default-ignorable code points (soft hyphens, zero-width characters) where the
    script does not need them, case folded, runs of white space collapsed to a space, stripped. "paper": the
    form of the papers' experiments: lower case, every run of characters outside a-z0-9 becomes a space; with
    `keep_case` outside A-Za-z0-9. "none": unchanged. Without `punctuation` the Unicode categories P and S
    become spaces.
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
    """Whether a code point is not ignorable, and NFKC never composes or reorders it with its predecessor."""
    if point < _FIRST_SECOND:
        return True
    if _IGNORABLE.match(chr(point)):
        return False
    first = unicodedata.normalize("NFKD", chr(point))[0]
    return unicodedata.combining(first) == 0 and ord(first) not in _seconds()


def without_ignorable(text: str) -> str:
    """Remove default-ignorable code points where the script does not need them."""
    if text.isascii() or not _IGNORABLE.search(text):
        return text
    symbols, letter = [], ""
    for char in text:
        if not _IGNORABLE.match(char):
            letter = letter if unicodedata.combining(char) else char
        elif _JOINING.match(letter) and (char in JOINERS or (char == ZWSP and _SPACED.match(letter))):
            letter = ""
        else:
            continue
        symbols.append(char)
    return "".join(symbols)


def _compose(text: str, keep_case: bool) -> str:
    text = nfkc(without_ignorable(text))
    return text if keep_case else unicodedata.normalize("NFKC", text.casefold())


def nfkc(text: str) -> str:
    """NFKC in linear time: `unicodedata` sorts a run of combining marks by insertion."""
    text = text if text.isascii() else _LONG_RUN.sub(_sorted_marks, text)
    return unicodedata.normalize("NFKC", text)


def _sorted_marks(run: re.Match[str]) -> str:
    """A run of symbols that are no letters, decomposed, with combining marks in canonical order."""
    symbols = "".join(unicodedata.normalize("NFKD", symbol) for symbol in run[0])
    pieces = groupby(symbols, lambda symbol: unicodedata.combining(symbol) > 0)
    ordered = (sorted(own, key=unicodedata.combining) if marks else own for marks, own in pieces)
    return "".join(chain.from_iterable(ordered))


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
