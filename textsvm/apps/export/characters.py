"""Unicode tables of exported models, from Python's database and `textsvm.text.normal_form`.

The binary file (for C and JavaScript) and ONNX graphs contain them. A reader decomposes a text (NFKD), puts
combining characters into canonical order and composes (NFC), then does the same with the folded case.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from textsvm.text.normal_form import IGNORABLE, JOINING, SPACED, begins, normalise

#: Bits of the class of a code point: white space; punctuation or symbol; word character; may combine with its
#: predecessor; changed by NFKC; changed by NFKC with case folding; default-ignorable; joiners stay behind it.
#: The last two together: joiners and ZWSP stay behind it.
SPACE, PUNCT, WORD, JOINS, CHANGES, CHANGES_FOLDED, IGNORED, KEEPS = (1 << bit for bit in range(8))
#: Hangul syllables, which are composed by their numbers.
HANGUL = range(0xAC00, 0xD7A4)
#: Hangul: first leading consonant and vowel, the code point before the first final consonant.
_LEADING, _VOWEL, _BEFORE_FINAL = 0x1100, 0x1161, 0x11A7
#: Numbers of leading consonants, of vowels, and of final consonants with that of no consonant.
_N_LEADING, _N_VOWELS, _N_FINALS = 19, 21, 28
#: Code points outside the planes without any property (unassigned, private use).
_ASSIGNED = (*range(0x40000), *range(0xE0000, 0xE1000))
_WORD = re.compile(r"\w")
_BITS = [
    (re.compile(f"[{points}]"), bits)
    for points, bits in ((IGNORABLE, IGNORED), (JOINING, KEEPS), (SPACED, IGNORED | KEEPS))
]


@dataclass(frozen=True, eq=False)
class CharacterTables:
    """Properties of code points; for classes alone all others are empty."""

    classes: NDArray[np.uint8]  #: shape (number of code points,)
    orders: NDArray[np.uint8]  #: shape (number of code points,): Canonical combining classes
    decompositions: dict[int, str]  #: NFKD of the code points that have one, without Hangul
    folds: dict[int, str]  #: NFKD of the folded case of code points without a decomposition
    pairs: NDArray[np.uint32]  #: shape (n, 3): First, second and composed code point without Hangul, sorted


@lru_cache(maxsize=2)
def character_tables(form: str) -> CharacterTables:
    """Tables for a normal form; "none": classes alone."""
    classes, orders = np.zeros((2, sys.maxunicode + 1), np.uint8)
    decompositions: dict[int, str] = {}
    folds: dict[int, str] = {}
    pairs: list[tuple[int, ...]] = []
    for point, char in zip(_ASSIGNED, map(chr, _ASSIGNED), strict=True):
        if char.isspace():
            classes[point] = SPACE
        elif _WORD.match(char):
            classes[point] = WORD
        if unicodedata.category(char)[0] in "PS":
            classes[point] |= PUNCT
        if form != "unicode":
            continue
        classes[point] |= _changes(char) | next((bits for points, bits in _BITS if points.match(char)), 0)
        orders[point] = unicodedata.combining(char)
        if (decomposed := image(char, "unicode", True)) != char:
            if point not in HANGUL:
                decompositions[point] = decomposed
        elif (folded := image(char, "unicode", False)) != char:
            folds[point] = folded
        parts = unicodedata.decomposition(char).split()
        if len(parts) == 2 and parts[0][0] != "<":
            first, second = (int(part, 16) for part in parts)
            if unicodedata.normalize("NFC", chr(first) + chr(second)) == char:
                pairs.append((first, second, point))
    composed = np.array(sorted(pairs), np.uint32).reshape(-1, 3)
    return CharacterTables(classes, orders, decompositions, folds, composed)


def image(char: str, form: str, keep_case: bool) -> str:
    """Normal form of a character by itself, decomposed."""
    if form == "unicode":
        return unicodedata.normalize("NFKD", char if keep_case else char.casefold())
    return normalise(char, form, keep_case=keep_case)


def _changes(char: str) -> int:
    """Bits JOINS, CHANGES and CHANGES_FOLDED of a character."""
    composed = unicodedata.normalize("NFKC", char)
    folded = unicodedata.normalize("NFKC", composed.casefold())
    bits = 0 if begins(ord(char)) else JOINS
    if composed != char:
        bits |= CHANGES
    if folded != char:
        bits |= CHANGES_FOLDED
    return bits


def hangul_pairs() -> Iterator[tuple[int, int, int]]:
    """First, second and composed code point of Hangul."""
    for number in range(_N_LEADING * _N_VOWELS):
        syllable = HANGUL.start + number * _N_FINALS
        yield _LEADING + number // _N_VOWELS, _VOWEL + number % _N_VOWELS, syllable
        for final in range(1, _N_FINALS):
            yield syllable, _BEFORE_FINAL + final, syllable + final
