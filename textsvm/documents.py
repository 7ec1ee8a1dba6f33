"""Texts -> Documents: the one array form that every kernel, on every device, reads.

A symbol is one Unicode code point of the normalised text, never a byte; or a token, such as a word.
Symbols are numbered by an alphabet (sorted and distinct), so codes are small: uint8 while the alphabet has
at most 256 symbols, uint16 up to 65,536, uint32 beyond. All are exact: a code is an index, never a hash.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.tokens import Spans, Tokens, align, locate, spread, tokenise

NORMALISATIONS = ("unicode", "paper", "none")
_OUTSIDE_PAPER, _OUTSIDE_PAPER_CASED = re.compile(r"[^a-z0-9]+"), re.compile(r"[^A-Za-z0-9]+")


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
    codes : uint8, uint16 or uint32 array, shape (total number of symbols,)
        ``alphabet[codes]`` are the symbols.
    offsets : int64 array, shape (n + 1,)
        Document ``i`` is ``codes[offsets[i]:offsets[i + 1]]``.
    alphabet : uint32 array, or object array of str, shape (number of symbols,)
        Distinct code points, or tokens. The alphabet of documents encoded against another alphabet starts
        with that one, so codes of the two can be compared; symbols it did not have come after.
    texts : tuple of n str, optional
        The normalised texts that tokens were taken from, where they are still known.
    classes : int64 array, shape (n,), optional
        The numbers of the documents' classes, for kernels that learn from them.
    """

    codes: NDArray[np.unsignedinteger]
    offsets: NDArray[np.int64]
    alphabet: NDArray[Any]
    texts: tuple[str, ...] | None = None
    classes: NDArray[np.int64] | None = None

    @classmethod
    def none(cls, alphabet: NDArray[Any] | None = None) -> Documents:
        """No documents, over an alphabet."""
        alphabet = np.empty(0, np.uint32) if alphabet is None else alphabet
        return cls(np.empty(0, code_type(len(alphabet))), np.zeros(1, np.int64), alphabet)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of symbols of each document, shape (n,)."""
        return np.diff(self.offsets)

    @property
    def of_tokens(self) -> bool:
        """Whether a symbol is a token, not a character."""
        return self.alphabet.dtype == object

    @cached_property
    def code_of(self) -> dict[str, int]:
        """The code of every token."""
        return {token: code for code, token in enumerate(self.alphabet)}

    def of(self, view: View) -> Documents:
        """What a kernel of this view reads: documents of one view are themselves."""
        return self

    def only(self, views: Sequence[View]) -> Documents:
        """The same in these views alone."""
        return self

    def codes_for(self, *others: Documents) -> NDArray[np.unsignedinteger]:
        """A copy of the codes as compiled loops take them: uint16, or uint32 if these or `others` are."""
        types = [each.codes.dtype for each in (self, *others)]
        return self.codes.astype(np.result_type(np.uint16, *types))

    def take(self, indices: Sequence[int] | NDArray[np.integer]) -> Documents:
        """The documents at `indices`, in that order, over the same alphabet."""
        indices = np.asarray(indices, dtype=np.int64)
        lengths = self.lengths[indices]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        source = np.repeat(self.offsets[:-1][indices] - offsets[:-1], lengths)
        texts = None if self.texts is None else tuple(self.texts[i] for i in indices)
        classes = None if self.classes is None else self.classes[indices]
        return Documents(self.codes[source + np.arange(offsets[-1])], offsets, self.alphabet, texts, classes)

    def with_classes(self, classes: NDArray[np.int64] | None) -> Documents:
        """The same documents, their classes known."""
        return replace(self, classes=classes)

    def symbols(self, index: int) -> str | list[str]:
        """The symbols of one document: its normalised text, or its tokens."""
        found = self.alphabet[self.codes[self.offsets[index] : self.offsets[index + 1]]]
        return found.tolist() if self.of_tokens else _decode(found)

    def join(self, symbols: Sequence[str]) -> str:
        """Some symbols as one text: tokens with a space between them."""
        return (" " if self.of_tokens else "").join(symbols)

    def text(self, index: int) -> str:
        """The normalised text of one document, of tokens with a space between them."""
        return self.join(self.symbols(index))

    def shown(self, index: int) -> str:
        """The normalised text that the symbols of one document were found in, as far as it is known."""
        return self.text(index) if self.texts is None else self.texts[index]

    def spread(self, index: int, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the symbols of one document have -> what the characters of ``shown(index)`` have."""
        if not self.of_tokens:
            return shares
        text = self.shown(index)
        return spread(shares, locate(text, self.symbols(index)), len(text))

    def to_shown(self, index: int, view: View, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """What characters of a view's text have -> of the text that is shown: with one view, the same."""
        return shares

    def without(self, index: int, cuts: Sequence[tuple[int, int]]) -> Documents:
        """One document, and behind it that without what begins in each stretch (a, b) of ``shown(index)``."""
        return self._without(index, self._places(index), cuts)

    def _places(self, index: int) -> NDArray[np.int64]:
        """Where each symbol begins in ``shown(index)``; -1: nowhere."""
        if not self.of_tokens:
            return np.arange(self.offsets[index + 1] - self.offsets[index])
        return locate(self.shown(index), self.symbols(index))[:, 0]

    def _without(self, index: int, places: NDArray[np.int64], cuts: Sequence[tuple[int, int]]) -> Documents:
        codes = self.codes[self.offsets[index] : self.offsets[index + 1]]
        rest = [codes, *(codes[(places < a) | (places >= b)] for a, b in cuts)]
        return Documents(np.concatenate(rest), _offsets_of(rest), self.alphabet)


@dataclass(frozen=True)
class Views:
    """The same documents in several views, for kernels whose parts read them differently.

    Attributes
    ----------
    documents : dict of View -> Documents, n each
    """

    documents: Mapping[View, Documents]

    def __len__(self) -> int:
        return len(self._first)

    @property
    def _first(self) -> Documents:
        return next(iter(self.documents.values()))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of symbols of each document in the view that has most of them, shape (n,)."""
        lengths: NDArray[np.int64] = np.max([each.lengths for each in self.documents.values()], axis=0)
        return lengths

    def of(self, view: View) -> Documents:
        """What a kernel of this view reads."""
        return self.documents[view]

    def only(self, views: Sequence[View]) -> Documents | Views:
        """The same in these views alone."""
        return self.of(views[0]) if len(views) == 1 else Views({view: self.of(view) for view in views})

    def take(self, indices: Sequence[int] | NDArray[np.integer]) -> Views:
        """The documents at `indices`, in that order."""
        return Views({view: each.take(indices) for view, each in self.documents.items()})

    def with_classes(self, classes: NDArray[np.int64] | None) -> Views:
        """The same documents, their classes known."""
        return Views({view: each.with_classes(classes) for view, each in self.documents.items()})

    def text(self, index: int) -> str:
        """The text of one document in the first view."""
        return self._first.text(index)

    def shown(self, index: int) -> str:
        """The text of one document that all views can be found in: with its case, if one view keeps it."""
        cased = [each for view, each in self.documents.items() if view.keep_case]
        return next(iter(cased), self._first).shown(index)

    def to_shown(self, index: int, view: View, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the characters of a view's text have -> what those of ``shown(index)`` have; sums stay."""
        text = self.shown(index)
        return spread(shares, self._aligned(index, view), len(text))

    def without(self, index: int, cuts: Sequence[tuple[int, int]]) -> Views:
        """One document, and behind it that without what begins in each stretch (a, b) of ``shown(index)``."""
        left = {}
        for view, each in self.documents.items():
            places, aligned = each._places(index), np.append(self._aligned(index, view)[:, 0], -1)
            left[view] = each._without(index, aligned[places], cuts)
        return Views(left)

    def _aligned(self, index: int, view: View) -> Spans:
        return align(self.documents[view].shown(index), self.shown(index))


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
        text = unicodedata.normalize("NFKC", text)
        text = text if keep_case else unicodedata.normalize("NFKC", text.casefold())
    elif form == "paper":
        return _OUTSIDE_PAPER_CASED.sub(" ", text) if keep_case else _OUTSIDE_PAPER.sub(" ", text.lower())
    elif form != "none":
        raise InputError(f"normalise={form!r} is not one of {', '.join(NORMALISATIONS)}")
    if not punctuation:
        text = text.translate(_punctuation_to_space())
    return " ".join(text.split()) if form == "unicode" else text


def encode(texts: Iterable[str], alphabet: NDArray[np.uint32] | None = None) -> Documents:
    """Encode texts by their characters, over their own alphabet or as an extension of another.

    Parameters
    ----------
    texts : iterable of str, already normalised
    alphabet : uint32 array, optional
        Keep the codes of these symbols; new symbols get codes after them, and so match nothing
        that was encoded over `alphabet` alone while documents still equal themselves.
    """
    points = [_code_points(text) for text in texts]
    flat = np.concatenate(points) if points else np.empty(0, np.uint32)
    present = np.zeros(sys.maxunicode + 1, bool)
    present[flat] = True
    if alphabet is None:
        alphabet = np.empty(0, np.uint32)
    present[alphabet] = False
    alphabet = np.concatenate([alphabet, np.flatnonzero(present)]).astype(np.uint32)
    code_of: NDArray[np.unsignedinteger] = np.zeros(sys.maxunicode + 1, code_type(len(alphabet)))
    code_of[alphabet] = np.arange(len(alphabet))
    return Documents(code_of[flat], _offsets_of(points), alphabet)


def encode_as(texts: Sequence[str], tokens: Tokens, known: Documents | None = None) -> Documents:
    """Encode texts by what their symbols are, over their own alphabet or as an extension of another.

    Parameters
    ----------
    texts : sequence of str, already normalised
    tokens : {"characters", "words", "whitespace"} or callable
    known : Documents, optional
        Of the same tokens: the symbols of their alphabet keep their codes.

    Raises
    ------
    InputError
        If a function of tokens returns anything but a sequence of str.
    """
    if tokens == "characters":
        return encode(texts, None if known is None else known.alphabet)
    number: defaultdict[str, int] = defaultdict(None, {} if known is None else known.code_of)
    number.default_factory, first = number.__len__, len(number)
    parts = [np.fromiter(map(number.__getitem__, tokenise(text, tokens)), np.uint32) for text in texts]
    new = list(islice(number, first, None))
    order = sorted(range(len(new)), key=new.__getitem__)
    code = np.arange(len(number), dtype=code_type(len(number)))
    code[[first + i for i in order]] = np.arange(first, len(number))
    alphabet = np.array([None, *(new[i] for i in order)], object)[1:]  # of objects, whatever is in it
    if known is not None:
        alphabet = np.concatenate([known.alphabet, alphabet])
    flat = np.concatenate([np.empty(0, np.uint32), *parts])
    return Documents(code[flat], _offsets_of(parts), alphabet, tuple(texts))


def code_type(n_symbols: int) -> type[np.unsignedinteger]:
    """The type of codes over an alphabet of that many symbols."""
    return np.uint8 if n_symbols <= 1 << 8 else np.uint16 if n_symbols <= 1 << 16 else np.uint32


def _offsets_of(parts: Sequence[Sized]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)


def _code_points(text: str) -> NDArray[np.uint32]:
    # Lone surrogates (undecodable bytes kept by a reader) are symbols like any other.
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def _decode(points: NDArray[np.uint32]) -> str:
    return points.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")


@lru_cache(maxsize=1)
def _punctuation_to_space() -> dict[int, str]:
    return {point: " " for point in range(sys.maxunicode + 1) if unicodedata.category(chr(point))[0] in "PS"}
