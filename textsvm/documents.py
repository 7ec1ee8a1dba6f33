"""Texts -> Documents: the one array form that every kernel, on every device, reads.

A symbol is one Unicode code point of the normalised text, never a byte. Symbols are numbered by an
alphabet (the sorted distinct code points), so codes are small: uint8 while the alphabet has at most
256 symbols, uint16 up to 65,536. Both are exact: a code is an index, never a hash.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError

NORMALISATIONS = ("unicode", "paper", "none")
MAX_ALPHABET = 65_536
_OUTSIDE_PAPER = re.compile(r"[^a-z0-9]+")


#: What the symbols of a text are: a name, or a function from a text to its tokens.
Tokens = str | Callable[[str], Sequence[str]]


@dataclass(frozen=True)
class View:
    """What a kernel reads of a text; kernels of one view share its documents.

    Attributes
    ----------
    tokens : "characters", "words", "whitespace" or callable
        What one symbol is.
    keep_case : bool
        Whether upper and lower case are told apart where the normal form of texts would not.
    """

    tokens: Tokens = "characters"
    keep_case: bool = False


@dataclass(frozen=True)
class Documents:
    """Encoded texts, concatenated.

    Attributes
    ----------
    codes : uint8 or uint16 array, shape (total number of symbols,)
        ``alphabet[codes]`` are the code points.
    offsets : int64 array, shape (n + 1,)
        Document ``i`` is ``codes[offsets[i]:offsets[i + 1]]``.
    alphabet : uint32 array, shape (number of symbols,)
        Distinct code points. The alphabet of documents encoded against another alphabet starts with
        that one, so codes of the two can be compared; symbols it did not have come after.
    """

    codes: NDArray[np.unsignedinteger]
    offsets: NDArray[np.int64]
    alphabet: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of symbols of each document, shape (n,)."""
        return np.diff(self.offsets)

    def of(self, view: View) -> Documents:
        """What a kernel of this view reads: documents of one view are themselves."""
        return self

    def take(self, indices: Sequence[int] | NDArray[np.integer]) -> Documents:
        """The documents at `indices`, in that order, over the same alphabet."""
        indices = np.asarray(indices, dtype=np.int64)
        lengths = self.lengths[indices]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        source = np.repeat(self.offsets[:-1][indices] - offsets[:-1], lengths)
        return Documents(self.codes[source + np.arange(offsets[-1])], offsets, self.alphabet)

    def text(self, index: int) -> str:
        """The normalised text of one document."""
        codes = self.codes[self.offsets[index] : self.offsets[index + 1]]
        return _decode(self.alphabet[codes])


def normalise(text: str, form: str = "unicode", *, punctuation: bool = True) -> str:
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

    Raises
    ------
    InputError
        If `form` is not one of the three.
    """
    if form == "unicode":
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    elif form == "paper":
        return _OUTSIDE_PAPER.sub(" ", text.lower())
    elif form != "none":
        raise InputError(f"normalise={form!r} is not one of {', '.join(NORMALISATIONS)}")
    if not punctuation:
        text = text.translate(_punctuation_to_space())
    return " ".join(text.split()) if form == "unicode" else text


def encode(texts: Iterable[str], alphabet: NDArray[np.uint32] | None = None) -> Documents:
    """Encode texts, over their own alphabet or as an extension of another.

    Parameters
    ----------
    texts : iterable of str, already normalised
    alphabet : uint32 array, optional
        Keep the codes of these symbols; new symbols get codes after them, and so match nothing
        that was encoded over `alphabet` alone while documents still equal themselves.

    Raises
    ------
    InputError
        If there are more than 65,536 distinct symbols.
    """
    points = [_code_points(text) for text in texts]
    offsets = np.concatenate([[0], np.cumsum([len(p) for p in points])]).astype(np.int64)
    flat = np.concatenate(points) if points else np.empty(0, np.uint32)
    present = np.zeros(sys.maxunicode + 1, bool)
    present[flat] = True
    if alphabet is None:
        alphabet = np.empty(0, np.uint32)
    present[alphabet] = False
    alphabet = np.concatenate([alphabet, np.flatnonzero(present)]).astype(np.uint32)
    if len(alphabet) > MAX_ALPHABET:
        raise InputError(
            f"the texts have {len(alphabet):,} distinct symbols and at most {MAX_ALPHABET:,} can be "
            "told apart exactly; is this text, or decoded binary data?"
        )
    dtype = np.uint8 if len(alphabet) <= 256 else np.uint16
    code_of: NDArray[np.unsignedinteger] = np.zeros(sys.maxunicode + 1, dtype)
    code_of[alphabet] = np.arange(len(alphabet))
    return Documents(code_of[flat], offsets, alphabet)


def _code_points(text: str) -> NDArray[np.uint32]:
    # Lone surrogates (undecodable bytes kept by a reader) are symbols like any other.
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def _decode(points: NDArray[np.uint32]) -> str:
    return points.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")


@lru_cache(maxsize=1)
def _punctuation_to_space() -> dict[int, str]:
    return {point: " " for point in range(sys.maxunicode + 1) if unicodedata.category(chr(point))[0] in "PS"}
