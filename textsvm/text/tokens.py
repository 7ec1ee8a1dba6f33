"""Symbols of a text (characters, words, groups of residues, or the tokens of a function) and their spans.

`tokens="blosum62"` reads proteins as groups of residues that substitute each other: the ten groups that Li,
Fan, Wang and Wang (2003, Protein Engineering 16:323) derived from BLOSUM62. A group has the name of its first
letter, and case is ignored. docs/sequences.md has the groups of other IUPAC letters.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from textsvm.arrays import Floats, Ints
from textsvm.errors import InputError
from textsvm.text.normal_form import JOINERS, nfkc

GROUPS = ("AST", "CU", "DEQBZ", "FWY", "G", "HN", "IV", "KRO", "LMJ", "P", "X", "*")
#: The code points of the groups' names, in the order of their codes.
GROUP_NAMES = np.array([ord(group[0].lower()) for group in GROUPS], np.uint32)
_CODE_OF = {ord(case): code for code, group in enumerate(GROUPS) for case in group + group.lower()}
_NONE = len(GROUPS)


def residue_groups(
    codes: NDArray[np.unsignedinteger], offsets: Ints, alphabet: NDArray[np.uint32]
) -> NDArray[np.uint8]:
    """Group of every character of some texts, as an index into `GROUPS`.

    Takes the arrays of the characters' `Documents`.
    """
    group_of = np.array([_CODE_OF.get(point, _NONE) for point in alphabet.tolist()] + [_NONE], np.uint8)
    groups: NDArray[np.uint8] = group_of[codes]
    if (groups == _NONE).any():
        place = int(np.argmax(groups == _NONE))
        text = int(np.searchsorted(offsets, place, side="right")) - 1
        begin = "".join(map(chr, alphabet[codes[offsets[text] : offsets[text + 1]][:30]].tolist()))
        raise InputError(
            f"symbol {place - offsets[text] + 1} of the text that begins with {begin!r} is "
            f"{chr(alphabet[codes[place]])!r}, which stands for no amino acid: tokens='blosum62' reads the "
            "letters A to Z and *"
        )
    return groups


#: Kind of symbols: a name, or a function from a text to its tokens. "words" are runs of letters, digits,
#: combining marks and joiners, and every other non-space character by itself; "runs" are cut at marks, as the
#: words of models that were saved before; "whitespace" separates by white space; "blosum62" are residues.
Tokens = str | Callable[[str], Sequence[str]]
#: Half-open character ranges of symbols in a text, shape (n, 2); -1: not located.
Spans = Ints
NAMES = ("characters", "words", "runs", "whitespace", "blosum62")
SINGLE = ("characters", "blosum62")  #: Kinds whose symbols are single characters.
#: Class of a character: between words, within a word, a word by itself.
BETWEEN, WITHIN, ALONE = 0, 1, 2


def check_tokens(tokens: Tokens) -> None:
    """Raise InputError if `tokens` is neither a known name nor a hashable function."""
    if callable(tokens):
        try:
            hash(tokens)
        except TypeError as error:
            raise InputError(f"tokens={tokens!r} cannot be hashed; give a plain function") from error
    elif not (isinstance(tokens, str) and tokens in NAMES):
        raise InputError(f"tokens={tokens!r} is not one of {', '.join(NAMES)}, nor a function")


def call_on(text: str, tokens: Callable[[str], Sequence[str]]) -> list[str]:
    """The tokens of a normalised text by a function of the user; InputError if it does not return them."""
    try:
        result = tokens(text)
        pieces = list(result)
    except Exception as error:
        raise InputError(
            f"the function of tokens failed on {shorten(text)} ({type(error).__name__}: {error}); it must "
            "return a list of str"
        ) from error
    other = next((type(piece) for piece in pieces if not isinstance(piece, str)), None)
    if isinstance(result, str) or other is not None:
        returned = "a single str" if other is None else f"a list with a {other.__name__} in it"
        raise InputError(
            f"the function of tokens returned {returned} for {shorten(text)}; it must return a list of str"
        )
    return pieces


def kinds(characters: Iterable[str], tokens: str) -> NDArray[np.uint8]:
    """Class of each character for "words", "runs" or "whitespace": `BETWEEN`, `WITHIN` or `ALONE`."""

    def kind(character: str) -> int:
        if character.isspace():
            return BETWEEN
        within = tokens == "whitespace" or character.isalnum() or character == "_"
        if tokens == "words":
            within |= character in JOINERS or unicodedata.category(character)[0] == "M"
        return WITHIN if within else ALONE

    return np.array(list(map(kind, characters)), np.uint8)


def locate(text: str, tokens: Sequence[str]) -> Spans:
    """Spans of tokens in their text, each searched for after the previous token."""
    spans, behind = np.full((len(tokens), 2), -1, np.int64), 0
    for i, token in enumerate(tokens):
        first = text.find(token, behind) if token else -1
        if first >= 0:
            behind = first + len(token)
            spans[i] = first, behind
    return spans


def align(folded: str, text: str) -> Spans:
    """Spans of the characters of a case-folded text in the original text.

    The expansion of a character ("ß" to "ss") shares its span. If the texts do not match, spans are assigned
    proportionally.
    """
    n, m = len(folded), len(text)
    at = np.arange(n)
    if n == m and folded in (text, text.casefold()):
        return np.stack([at, at + 1], axis=1)
    starts = [i for i, c in enumerate(text) if i == 0 or not unicodedata.combining(c)]
    clusters = np.stack([starts, [*starts[1:], m]], axis=1).astype(np.int64) if m else np.empty((0, 2), int)
    pieces = [nfkc(text[a:b].casefold()) for a, b in clusters]
    joined = "".join(pieces)
    if pieces and (joined.startswith(folded) or folded.startswith(joined)):
        owner = np.repeat(np.arange(len(pieces)), [len(piece) for piece in pieces])
        owner = np.append(owner, np.full(max(0, n - len(owner)), len(pieces) - 1))
        return clusters[owner[:n]]
    first = at * m // max(n, 1)
    return np.stack([first, np.minimum(first + 1, m)], axis=1)


def spread(shares: Floats, spans: Spans, length: int) -> Floats:
    """Spread each symbol's share evenly over its characters; shares without a span over all `length`."""
    nowhere = (spans[:, 1] <= spans[:, 0]) | (spans[:, 0] < 0)
    widths = np.where(nowhere, 0, spans[:, 1] - spans[:, 0])
    owner = np.repeat(np.arange(len(shares)), widths)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(widths) - widths, widths)
    weight = (shares / np.maximum(widths, 1))[owner]
    out = np.bincount(spans[owner, 0] + within, weight, minlength=length).astype(np.float64)
    return out + shares[nowhere].sum() / length if nowhere.any() and length else out


def shorten(text: str) -> str:
    """The beginning of a text in quotes, for messages."""
    return repr(text if len(text) <= 30 else text[:27] + "...")
