"""What one symbol of a text is: a character, a word, what a function finds; and where symbols stand.

Residues of proteins in groups that replace each other: what `tokens="blosum62"` reads.

The ten groups that Li, Fan, Wang and Wang (2003, Protein Engineering 16:323) found most alike by BLOSUM62,
Li-B(10) in Edgar's comparison (2004, Nucleic Acids Research 32:380):

    AST  C  DEQ  FWY  G  HN  IV  KR  LM  P

A group is written as its first letter. The other letters of IUPAC: U (selenocysteine) is a C and O
(pyrrolysine) a K, of which they are made; Z (E or Q) is the group of both; B (D or N) is read as D and J (I
or L) as L, as MMseqs2 reads them; X (any) is a symbol of its own, and so is * (a stop). Case tells nothing.
Every letter from A to Z is read; anything else, gaps of an alignment and white space too, is refused.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError

GROUPS = ("AST", "CU", "DEQBZ", "FWY", "G", "HN", "IV", "KRO", "LMJ", "P", "X", "*")
#: The code points of the groups' names, in the order of their codes.
GROUP_NAMES = np.array([ord(group[0].lower()) for group in GROUPS], np.uint32)
_CODE_OF = {ord(case): code for code, group in enumerate(GROUPS) for case in group + group.lower()}
_NONE = len(GROUPS)


def residue_groups(
    codes: NDArray[np.unsignedinteger], offsets: NDArray[np.int64], alphabet: NDArray[np.uint32]
) -> NDArray[np.uint8]:
    """The group of every character of some texts, as an index of `GROUPS`.

    Parameters
    ----------
    codes, offsets, alphabet : arrays
        Characters, as `textsvm.text.documents.Documents` has them.

    Raises
    ------
    InputError
        If a character stands for no residue.
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


#: What the symbols of a text are: a name, or a function from a text to its tokens.
Tokens = str | Callable[[str], Sequence[str]]
#: Where symbols stand in a text: first character and the one behind the last, shape (n, 2); -1 is nowhere.
Spans = NDArray[np.int64]
NAMES = ("characters", "words", "whitespace", "blosum62")
#: Those whose symbols are one character each.
SINGLE = ("characters", "blosum62")
#: What a character is in a text of words: nothing, part of a word, a word by itself.
BETWEEN, WITHIN, ALONE = 0, 1, 2
_WORDS, _WORD = re.compile(r"\w+|[^\w\s]"), re.compile(r"\w")


def check_tokens(tokens: Tokens) -> None:
    """Raise InputError if `tokens` is neither one of the names nor a function."""
    if callable(tokens):
        try:
            hash(tokens)
        except TypeError as error:
            raise InputError(f"tokens={tokens!r} cannot be hashed; give a plain function") from error
    elif not (isinstance(tokens, str) and tokens in NAMES):
        raise InputError(f"tokens={tokens!r} is not one of {', '.join(NAMES)}, nor a function")


def tokenise(text: str, tokens: Tokens) -> list[str]:
    """The tokens of a normalised text, in order.

    Parameters
    ----------
    text : str
    tokens : {"characters", "words", "whitespace", "blosum62"} or callable
        "words": every run of word characters, and every other character but white space by itself;
        "whitespace": what white space separates; "blosum62": the residues of a protein in groups
        (`textsvm.text.tokens`); a function returns a sequence of str.

    Raises
    ------
    InputError
        If the function fails, or returns anything else; if a character stands for no residue.
    """
    if tokens == "blosum62":
        points = np.array([*map(ord, text)], np.uint32)
        ends = np.array([0, len(points)])
        found = residue_groups(np.arange(len(points), dtype=np.uint32), ends, points)
        return [chr(point) for point in GROUP_NAMES[found]]
    if not callable(tokens):
        return (
            _WORDS.findall(text) if tokens == "words" else text.split() if tokens == "whitespace" else [*text]
        )
    try:
        made = tokens(text)
        pieces = list(made)
    except Exception as error:
        raise InputError(
            f"the function of tokens failed on {_shorten(text)} ({type(error).__name__}: {error}); it must "
            "return a list of str"
        ) from error
    other = next((type(one) for one in pieces if not isinstance(one, str)), None)
    if isinstance(made, str) or other is not None:
        what = "a single str" if other is None else f"a list with a {other.__name__} in it"
        raise InputError(
            f"the function of tokens returned {what} for {_shorten(text)}; it must return a list of str"
        )
    return pieces


def kinds(characters: Iterable[str], tokens: str) -> NDArray[np.uint8]:
    """What characters are to "words" or "whitespace": `BETWEEN`, `WITHIN` or `ALONE`."""
    other = ALONE if tokens == "words" else WITHIN
    return np.array(
        [BETWEEN if c.isspace() else WITHIN if _WORD.match(c) else other for c in characters], np.uint8
    )


def locate(text: str, tokens: Sequence[str]) -> Spans:
    """Where tokens stand in their text, each looked for behind the one before."""
    spans, behind = np.full((len(tokens), 2), -1, np.int64), 0
    for i, token in enumerate(tokens):
        first = text.find(token, behind) if token else -1
        if first >= 0:
            behind = first + len(token)
            spans[i] = first, behind
    return spans


def align(folded: str, text: str) -> Spans:
    """Where the characters of a text without case stand in the text with case.

    A character that folds to several ("ß" to "ss") has them all; where the two do not fit together,
    characters are taken in proportion.
    """
    n, m = len(folded), len(text)
    at = np.arange(n)
    if n == m and folded in (text, text.casefold()):
        return np.stack([at, at + 1], axis=1)
    starts = [i for i, c in enumerate(text) if i == 0 or not unicodedata.combining(c)]
    clusters = np.stack([starts, [*starts[1:], m]], axis=1).astype(np.int64) if m else np.empty((0, 2), int)
    pieces = [unicodedata.normalize("NFKC", text[a:b].casefold()) for a, b in clusters]
    joined = "".join(pieces)
    if pieces and (joined.startswith(folded) or folded.startswith(joined)):
        owner = np.repeat(np.arange(len(pieces)), [len(piece) for piece in pieces])
        owner = np.append(owner, np.full(max(0, n - len(owner)), len(pieces) - 1))
        return clusters[owner[:n]]
    first = at * m // max(n, 1)
    return np.stack([first, np.minimum(first + 1, m)], axis=1)


def spread(shares: NDArray[np.float64], spans: Spans, length: int) -> NDArray[np.float64]:
    """What symbols have, evenly over their characters; of those that stand nowhere, over all `length`."""
    nowhere = (spans[:, 1] <= spans[:, 0]) | (spans[:, 0] < 0)
    widths = np.where(nowhere, 0, spans[:, 1] - spans[:, 0])
    owner = np.repeat(np.arange(len(shares)), widths)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(widths) - widths, widths)
    each = (shares / np.maximum(widths, 1))[owner]
    out = np.bincount(spans[owner, 0] + within, each, minlength=length).astype(np.float64)
    return out + shares[nowhere].sum() / length if nowhere.any() and length else out


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 30 else text[:27] + "...")
