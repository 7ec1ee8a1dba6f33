"""Documents: encoded texts, the array form that every kernel reads on every device.

A symbol is a Unicode code point of the normalised text (never a byte), or a token such as a word. Codes are
indices into an alphabet of distinct symbols, never hashes: uint8 for up to 256 symbols, uint16 up to 65,536,
uint32 beyond.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from textsvm.arrays import AnyArray, Floats, Ints, runs_of
from textsvm.runtime import device as devices
from textsvm.runtime.parallel import Progress
from textsvm.text import encoding
from textsvm.text.normal_form import NORMALISATIONS as NORMALISATIONS
from textsvm.text.normal_form import normal_form
from textsvm.text.normal_form import normalise as normalise
from textsvm.text.tokens import GROUP_NAMES as GROUP_NAMES
from textsvm.text.tokens import Spans, Tokens, align, call_on, kinds, locate, residue_groups, spread


@dataclass(frozen=True)
class View:
    """How a kernel reads a text; kernels with the same view share documents."""

    tokens: Tokens = "characters"  #: Kind of symbols; "numbers" for vectors
    keep_case: bool = False  #: Whether case is kept where the normal form would fold it
    #: Column of a table, numeric columns, or columns whose texts are joined; None without a table.
    column: str | tuple[str, ...] | None = None
    #: Encoder of the texts, or its name until it is loaded (`textsvm.text.encoders`); None without.
    encoder: Any = None

    @property
    def of_numbers(self) -> bool:
        """Whether the kernel reads vectors or columns of numbers."""
        return self.tokens == "numbers"

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns; none without a table."""
        return (self.column,) if isinstance(self.column, str) else self.column or ()

    def called(self, feature: str) -> str:
        """Name of a feature of the view, with its column."""
        return feature if self.column is None else f"{column_name(self.column)}: {feature}"


def column_name(column: str | tuple[str, ...]) -> str:
    """The column or columns of a view as text."""
    return column if isinstance(column, str) else ", ".join(column)


@dataclass(frozen=True)
class Documents:
    """Encoded texts, concatenated."""

    #: uint8, uint16 or uint32 array, shape (total number of symbols,): ``alphabet[codes]`` are the symbols.
    codes: NDArray[np.unsignedinteger]
    offsets: Ints  #: shape (n + 1,): Document ``i`` is ``codes[offsets[i]:offsets[i + 1]]``
    #: Distinct symbols: uint32 code points, or an object array of str for tokens. Documents encoded over
    #: another alphabet extend it, so codes of both are comparable.
    alphabet: AnyArray
    #: Characters of the normalised texts from which tokens or residue groups were derived, if available.
    characters: Documents | None = None
    classes: Ints | None = None  #: shape (n,): Class numbers, for kernels that learn from them

    @classmethod
    def none(cls, alphabet: AnyArray | None = None) -> Documents:
        """Empty documents over an alphabet."""
        alphabet = np.empty(0, np.uint32) if alphabet is None else alphabet
        return cls(np.empty(0, encoding.code_type(len(alphabet))), np.zeros(1, np.int64), alphabet)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Ints:
        """Number of symbols of each document, shape (n,)."""
        return np.diff(self.offsets)

    @property
    def of_tokens(self) -> bool:
        """Whether symbols are tokens rather than characters."""
        return self.alphabet.dtype == object

    @cached_property
    def code_of(self) -> dict[str, int]:
        """Code of every token."""
        return {token: code for code, token in enumerate(self.alphabet)}

    def of(self, view: View) -> Documents:
        """Documents of a view: themselves, as there is a single view."""
        return self

    def codes_for(self, *others: Documents) -> NDArray[np.unsignedinteger]:
        """Copy of the codes as uint16, or uint32 if these or `others` are, for compiled loops."""
        types = [documents.codes.dtype for documents in (self, *others)]
        return self.codes.astype(np.result_type(np.uint16, *types))

    def take(self, indices: Sequence[int] | NDArray[np.integer]) -> Documents:
        """The documents at `indices`, in that order, over the same alphabet."""
        indices = np.asarray(indices, dtype=np.int64)
        if np.array_equal(indices, np.arange(len(self))):
            return self
        codes, offsets = encoding.gather(self.codes, self.offsets[:-1][indices], self.offsets[1:][indices])
        characters = None if self.characters is None else self.characters.take(indices)
        classes = None if self.classes is None else self.classes[indices]
        return Documents(codes, offsets, self.alphabet, characters, classes)

    def with_classes(self, classes: Ints | None) -> Documents:
        """The same documents with class numbers."""
        return replace(self, classes=classes)

    def symbols(self, index: int) -> str | list[str]:
        """Symbols of a document: its normalised text, or its tokens."""
        symbols = self.alphabet[self.codes[self.offsets[index] : self.offsets[index + 1]]]
        return symbols.tolist() if self.of_tokens else encoding.decode(symbols)

    def join(self, symbols: Sequence[str]) -> str:
        """Join symbols to a text, tokens with spaces."""
        return (" " if self.of_tokens else "").join(symbols)

    def text(self, index: int) -> str:
        """Normalised text of a document, tokens joined with spaces."""
        return self.join(self.symbols(index))

    def shown(self, index: int) -> str:
        """Normalised text from which the symbols of a document were derived, as far as available."""
        return self.text(index) if self.characters is None else self.characters.text(index)

    def spread(self, index: int, shares: Floats) -> Floats:
        """Spread shares of the symbols of a document over the characters of ``shown(index)``."""
        if not self.of_tokens:
            return shares
        text = self.shown(index)
        return spread(shares, locate(text, self.symbols(index)), len(text))

    def to_shown(self, index: int, view: View, shares: Floats) -> Floats:
        """Move shares of a view's characters to those of ``shown(index)``: identical for a single view."""
        return shares

    def without(self, index: int, cuts: Sequence[tuple[int, int]]) -> Documents:
        """The document, then a copy for each range (a, b) of ``shown(index)`` without the symbols in it."""
        return self._without(index, self._places(index), cuts)

    def _places(self, index: int) -> Ints:
        """Start of each symbol in ``shown(index)``; -1: not located."""
        if not self.of_tokens:
            return np.arange(self.offsets[index + 1] - self.offsets[index])
        return locate(self.shown(index), self.symbols(index))[:, 0]

    def _without(self, index: int, places: Ints, cuts: Sequence[tuple[int, int]]) -> Documents:
        codes = self.codes[self.offsets[index] : self.offsets[index + 1]]
        rest = [codes, *(codes[(places < a) | (places >= b)] for a, b in cuts)]
        return Documents(np.concatenate(rest), encoding.offsets_of(map(len, rest)), self.alphabet)


@dataclass(frozen=True)
class MultiView:
    """The same documents in several views, for kernels whose parts read them differently."""

    documents: Mapping[View, Any]  #: Or vectors, see `textsvm.kernels.combined.table`

    def __getstate__(self) -> Any:
        return tuple(self.documents.items())  # skops writes no keys of dictionaries but names and numbers

    def __setstate__(self, state: Any) -> None:
        vars(self)["documents"] = dict(state)

    def __len__(self) -> int:
        return len(self._first)

    @property
    def _first(self) -> Any:
        return next(iter(self.documents.values()))

    @property
    def lengths(self) -> Ints:
        """Number of symbols of each document, maximum over the views, shape (n,)."""
        lengths: Ints = np.max([documents.lengths for documents in self.documents.values()], axis=0)
        return lengths

    def of(self, view: View) -> Any:
        """Documents of a view."""
        return self.documents[view]

    def take(self, indices: Sequence[int] | NDArray[np.integer]) -> MultiView:
        """The documents at `indices`, in that order."""
        return self._each(lambda documents: documents.take(indices))

    def with_classes(self, classes: Ints | None) -> MultiView:
        """The same documents with class numbers."""
        return self._each(lambda documents: documents.with_classes(classes))

    def _each(self, change: Callable[[Any], Any]) -> MultiView:
        return replace(self, documents={view: change(own) for view, own in self.documents.items()})

    def shown(self, index: int) -> str:
        """Text of a document that all views can be aligned with: with case if a view keeps it."""
        cased = [documents for view, documents in self.documents.items() if view.keep_case]
        text: str = next(iter(cased), self._first).shown(index)
        return text

    def to_shown(self, index: int, view: View, shares: Floats) -> Floats:
        """Move shares of a view's characters to those of ``shown(index)``; sums are preserved."""
        return spread(shares, self._aligned(index, view), len(self.shown(index)))

    def without(self, index: int, cuts: Sequence[tuple[int, int]]) -> MultiView:
        """The document, then a copy for each range (a, b) of ``shown(index)`` without the symbols in it."""
        left = {}
        for view, documents in self.documents.items():
            places, aligned = documents._places(index), np.append(self._aligned(index, view)[:, 0], -1)
            left[view] = documents._without(index, aligned[places], cuts)
        return replace(self, documents=left)

    def _aligned(self, index: int, view: View) -> Spans:
        return align(self.documents[view].shown(index), self.shown(index))


def encode(
    texts: Iterable[str],
    alphabet: NDArray[np.uint32] | None = None,
    reading: encoding.Reading | None = None,
    progress: Progress | None = None,
) -> Documents:
    """Encode texts as characters, over their own alphabet or an extension of `alphabet`.

    A generator is consumed a few million characters at a time. New symbols get new codes: they match no
    symbol of documents encoded over `alphabet`, but each other. By default texts are not normalised.
    """
    reading = reading or encoding.Reading(normal_form("none", True, False))
    first = np.empty(0, np.uint32) if alphabet is None else alphabet
    return Documents(*encoding.encode_characters(texts, reading, first, progress))


def without_case(cased: Documents, first: NDArray[np.uint32] | None) -> Documents:
    """`encode` of ASCII texts in lower case, over an extension of `first`, from their documents with case."""
    present = np.flatnonzero(np.bincount(cased.codes, minlength=len(cased.alphabet)))
    points = cased.alphabet[present]
    points = np.where((points >= ord("A")) & (points <= ord("Z")), points + 32, points)
    alphabet = encoding.extended(np.empty(0, np.uint32) if first is None else first, [points])
    of_point = np.zeros(128, encoding.code_type(len(alphabet)))
    ascii_codes = np.flatnonzero(alphabet < 128)
    of_point[alphabet[ascii_codes]] = ascii_codes
    code_of = np.zeros(len(cased.alphabet), of_point.dtype)
    code_of[present] = of_point[points]
    return Documents(code_of[cased.codes], cased.offsets, alphabet)


def encode_as(texts: Sequence[str] | Documents, tokens: Tokens, base: Documents | None = None) -> Documents:
    """Encode normalised texts, or `Documents` of their characters, as tokens.

    The alphabet of `base`, documents with the same kind of tokens, is extended. With ``"characters"``
    documents are returned unchanged: encode them over its alphabet.
    """
    of_characters = base.alphabet if base is not None and tokens == "characters" else None
    characters = texts if isinstance(texts, Documents) else encode(texts, of_characters)
    if tokens == "characters":
        return characters
    if tokens == "blosum62":
        groups = residue_groups(characters.codes, characters.offsets, characters.alphabet)
        return Documents(groups, characters.offsets, GROUP_NAMES, characters)
    if callable(tokens):
        pieces, ids, distinct_tokens = _call_on_texts(characters, tokens)
    else:
        kind_of = kinds(map(chr, characters.alphabet.tolist()), tokens)
        pieces, ids, distinct_tokens = split_words(characters, kind_of)
    code_of: Mapping[str, int] = {} if base is None else base.code_of
    new = sorted(token for token in distinct_tokens if token not in code_of)
    number = {token: code_of[token] for token in distinct_tokens if token in code_of}
    number |= zip(new, range(len(code_of), len(code_of) + len(new)), strict=True)
    code = np.fromiter(map(number.__getitem__, distinct_tokens), np.uint32)
    alphabet = np.array([None, *new], object)[1:]  # an object array even if empty
    if base is not None:
        alphabet = np.concatenate([base.alphabet, alphabet])
    numbers, tables = [piece.numbers for piece in pieces], [code[own] for own in ids]
    codes = encoding.translate(numbers, tables, encoding.code_type(len(alphabet)))
    lengths = np.concatenate([piece.lengths for piece in pieces])
    return Documents(codes, encoding.offsets_of(lengths), alphabet, characters)


#: Spans of documents, the token number of each distinct span, and the distinct tokens.
_Tokens = tuple[list[encoding.TokenSpans], list[NDArray[np.uint32]], list[str]]


def split_words(characters: Documents, kind_of: NDArray[np.uint8]) -> _Tokens:
    """Split documents into words, given the class of each symbol, see `textsvm.text.tokens.kinds`."""
    pieces = encoding.find_words(characters.codes, characters.offsets, kind_of)
    starts = np.concatenate([own.starts for own in pieces])
    stops = np.concatenate([own.stops for own in pieces])
    ids, firsts = encoding.distinct(characters.codes, starts, stops)
    codes, bounds = encoding.gather(characters.codes, starts[firsts], stops[firsts])
    text = encoding.decode(characters.alphabet[codes])
    ends = np.cumsum([len(piece.starts) for piece in pieces])
    return pieces, np.split(ids, ends[:-1]), [text[a:b] for a, b in pairwise(bounds.tolist())]


def _call_on_texts(characters: Documents, tokens: Callable[[str], Sequence[str]]) -> _Tokens:
    number: defaultdict[str, int] = defaultdict()
    number.default_factory = number.__len__
    parts = [
        np.fromiter(map(number.__getitem__, call_on(characters.text(i), tokens)), np.uint32)
        for i in range(len(characters))
    ]
    lengths, nowhere = np.array([len(part) for part in parts], np.int64), np.empty(0, np.int64)
    numbers = np.concatenate([np.empty(0, np.uint32), *parts])
    spans = encoding.TokenSpans(nowhere, nowhere, numbers, lengths)
    return [spans], [np.arange(len(number), dtype=np.uint32)], list(number)


def batches(documents: Documents, size: int) -> list[tuple[int, int]]:
    """Ranges of consecutive documents of about `size` symbols, at least a document each."""
    return runs_of(documents.offsets[:-1] // size)


class DeviceDocuments:
    """Documents on the current GPU; InputError if its memory does not suffice.

    n, size, n_symbols : number of documents, of their symbols, and of symbols in the alphabet
    lengths : int64, (n,), on the host
    codes : uint8, uint16 or uint32, (size,), of type `dtype` or as in the documents
    offsets : int64, (n + 1,)
    """

    def __init__(self, documents: Documents, dtype: DTypeLike | None = None) -> None:
        cp = devices.cupy()
        codes = np.asarray(documents.codes, dtype)
        self.n, self.size, self.n_symbols = len(documents), len(codes), len(documents.alphabet)
        self.lengths = documents.lengths
        devices.require_memory(codes.nbytes + documents.offsets.nbytes, "the documents")
        self.codes, self.offsets = cp.asarray(codes), cp.asarray(documents.offsets)
