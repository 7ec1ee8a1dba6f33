"""Texts -> Documents: the one array form that every kernel, on every device, reads.

A symbol is one Unicode code point of the normalised text, never a byte; or a token, such as a word.
Symbols are numbered by an alphabet (sorted and distinct), so codes are small: uint8 while the alphabet has
at most 256 symbols, uint16 up to 65,536, uint32 beyond. All are exact: a code is an index, never a hash.

Documents on a card: the one form that every launch reads texts in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.runtime import device as devices
from textsvm.runtime.parallel import Progress
from textsvm.text.encoding import (
    Reading,
    Stretches,
    code_type,
    decode,
    distinct,
    encode_characters,
    find_words,
    gather,
    offsets_of,
    translate,
)
from textsvm.text.normal_form import NORMALISATIONS as NORMALISATIONS
from textsvm.text.normal_form import normal_form
from textsvm.text.normal_form import normalise as normalise
from textsvm.text.tokens import GROUP_NAMES as GROUP_NAMES
from textsvm.text.tokens import Spans, Tokens, align, kinds, locate, residue_groups, spread, tokenise


@dataclass(frozen=True)
class View:
    """What a kernel reads of a text; kernels of one view share its documents.

    Attributes
    ----------
    tokens : "characters", "words", "whitespace", "blosum62" or callable
        What one symbol is; "numbers" where vectors are read.
    keep_case : bool
        Whether upper and lower case are told apart where the normal form of texts would not.
    column : str or tuple of str, optional
        Which column, or columns of numbers, of a table; None where there is none.
    """

    tokens: Tokens = "characters"
    keep_case: bool = False
    column: str | tuple[str, ...] | None = None


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
    characters : Documents, optional
        The characters of the normalised texts that tokens, or groups of residues, were taken from, where they
        are still known.
    classes : int64 array, shape (n,), optional
        The numbers of the documents' classes, for kernels that learn from them.
    """

    codes: NDArray[np.unsignedinteger]
    offsets: NDArray[np.int64]
    alphabet: NDArray[Any]
    characters: Documents | None = None
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
    def texts(self) -> tuple[str, ...] | None:
        """The normalised texts that tokens were taken from, where they are still known."""
        characters = self.characters
        return None if characters is None else tuple(map(characters.text, range(len(characters))))

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
        codes, offsets = gather(self.codes, self.offsets[:-1][indices], self.offsets[1:][indices])
        characters = None if self.characters is None else self.characters.take(indices)
        classes = None if self.classes is None else self.classes[indices]
        return Documents(codes, offsets, self.alphabet, characters, classes)

    def with_classes(self, classes: NDArray[np.int64] | None) -> Documents:
        """The same documents, their classes known."""
        return replace(self, classes=classes)

    def symbols(self, index: int) -> str | list[str]:
        """The symbols of one document: its normalised text, or its tokens."""
        found = self.alphabet[self.codes[self.offsets[index] : self.offsets[index + 1]]]
        return found.tolist() if self.of_tokens else decode(found)

    def join(self, symbols: Sequence[str]) -> str:
        """Some symbols as one text: tokens with a space between them."""
        return (" " if self.of_tokens else "").join(symbols)

    def text(self, index: int) -> str:
        """The normalised text of one document, of tokens with a space between them."""
        return self.join(self.symbols(index))

    def shown(self, index: int) -> str:
        """The normalised text that the symbols of one document were found in, as far as it is known."""
        return self.text(index) if self.characters is None else self.characters.text(index)

    def spread(self, index: int, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the symbols of one document have -> what the characters of ``shown(index)`` have."""
        if not self.of_tokens:
            return shares
        text = self.shown(index)
        return spread(shares, locate(text, self.symbols(index)), len(text))

    def to_shown(self, index: int, view: View, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """What characters of a view's text have -> of the text that is shown: with one view, the same."""
        return shares

    def called(self, feature: str, view: View) -> str:
        """What a feature that was found in a view is called."""
        return feature

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
        return Documents(np.concatenate(rest), offsets_of(map(len, rest)), self.alphabet)


@dataclass(frozen=True)
class Views:
    """The same documents in several views, for kernels whose parts read them differently.

    Attributes
    ----------
    documents : dict of View -> Documents, n each
        Or what vectors are, see `textsvm.kernels.combined.table`.
    """

    documents: Mapping[View, Any]

    def __len__(self) -> int:
        return len(self._first)

    @property
    def _first(self) -> Any:
        return next(iter(self.documents.values()))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of symbols of each document in the view that has most of them, shape (n,)."""
        lengths: NDArray[np.int64] = np.max([each.lengths for each in self.documents.values()], axis=0)
        return lengths

    def of(self, view: View) -> Any:
        """What a kernel of this view reads."""
        return self.documents[view]

    def only(self, views: Sequence[View]) -> Any:
        """The same in these views alone."""
        if len(views) == 1:
            return self.of(views[0])
        return replace(self, documents={view: self.of(view) for view in views})

    def take(self, indices: Sequence[int] | NDArray[np.integer]) -> Views:
        """The documents at `indices`, in that order."""
        return self._each(lambda one: one.take(indices))

    def with_classes(self, classes: NDArray[np.int64] | None) -> Views:
        """The same documents, their classes known."""
        return self._each(lambda one: one.with_classes(classes))

    def _each(self, change: Callable[[Any], Any]) -> Views:
        return replace(self, documents={view: change(one) for view, one in self.documents.items()})

    def text(self, index: int) -> str:
        """The text of one document in the first view."""
        text: str = self._first.text(index)
        return text

    def shown(self, index: int) -> str:
        """The text of one document that all views can be found in: with its case, if one view keeps it."""
        cased = [each for view, each in self.documents.items() if view.keep_case]
        text: str = next(iter(cased), self._first).shown(index)
        return text

    def to_shown(self, index: int, view: View, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the characters of a view's text have -> what those of ``shown(index)`` have; sums stay."""
        text = self.shown(index)
        return spread(shares, self._aligned(index, view), len(text))

    def called(self, feature: str, view: View) -> str:
        """What a feature that was found in a view is called."""
        return feature

    def without(self, index: int, cuts: Sequence[tuple[int, int]]) -> Views:
        """One document, and behind it that without what begins in each stretch (a, b) of ``shown(index)``."""
        left = {}
        for view, each in self.documents.items():
            places, aligned = each._places(index), np.append(self._aligned(index, view)[:, 0], -1)
            left[view] = each._without(index, aligned[places], cuts)
        return replace(self, documents=left)

    def _aligned(self, index: int, view: View) -> Spans:
        return align(self.documents[view].shown(index), self.shown(index))


def encode(
    texts: Iterable[str],
    alphabet: NDArray[np.uint32] | None = None,
    reading: Reading | None = None,
    progress: Progress | None = None,
) -> Documents:
    """Encode texts by their characters, over their own alphabet or as an extension of another.

    Parameters
    ----------
    texts : iterable of str
        Of a generator, a few million characters are in memory at a time.
    alphabet : uint32 array, optional
        Keep the codes of these symbols; new symbols get codes after them, and so match nothing
        that was encoded over `alphabet` alone while documents still equal themselves.
    reading : Reading, optional
        The form that texts are brought into first; as they are, that is already normalised, by default.
    progress : callable, optional
        In texts, where their number is known.
    """
    reading = reading or Reading(normal_form("none", True, False))
    known = np.empty(0, np.uint32) if alphabet is None else alphabet
    return Documents(*encode_characters(texts, reading, known, progress))


def encode_as(texts: Sequence[str] | Documents, tokens: Tokens, known: Documents | None = None) -> Documents:
    """Encode texts by what their symbols are, over their own alphabet or as an extension of another.

    Parameters
    ----------
    texts : sequence of str, already normalised, or their characters
        Characters that are taken as they are have been encoded over the known alphabet.
    tokens : {"characters", "words", "whitespace", "blosum62"} or callable
    known : Documents, optional
        Of the same tokens: the symbols of their alphabet keep their codes.

    Raises
    ------
    InputError
        If a function of tokens returns anything but a sequence of str, or a text is no protein where residues
        are read.
    """
    of_characters = known.alphabet if known is not None and tokens == "characters" else None
    characters = texts if isinstance(texts, Documents) else encode(texts, of_characters)
    if tokens == "characters":
        return characters
    if tokens == "blosum62":
        groups = residue_groups(characters.codes, characters.offsets, characters.alphabet)
        return Documents(groups, characters.offsets, GROUP_NAMES, characters)
    pieces, ids, found = _called(characters, tokens) if callable(tokens) else _words(characters, tokens)
    code_of: Mapping[str, int] = {} if known is None else known.code_of
    new = sorted(token for token in found if token not in code_of)
    number = {token: code_of[token] for token in found if token in code_of}
    number |= zip(new, range(len(code_of), len(code_of) + len(new)), strict=True)
    code = np.fromiter(map(number.__getitem__, found), np.uint32)
    alphabet = np.array([None, *new], object)[1:]  # of objects, whatever is in it
    if known is not None:
        alphabet = np.concatenate([known.alphabet, alphabet])
    codes = translate([one.numbers for one in pieces], [code[own] for own in ids], code_type(len(alphabet)))
    lengths = np.concatenate([one.lengths for one in pieces])
    return Documents(codes, offsets_of(lengths), alphabet, characters)


#: Stretches of documents, the number of each distinct one among all, and the token of each number.
_Tokens = tuple[list[Stretches], list[NDArray[np.uint32]], list[str]]


def _words(characters: Documents, tokens: str) -> _Tokens:
    kind_of = kinds(map(chr, characters.alphabet.tolist()), tokens)
    pieces = find_words(characters.codes, characters.offsets, kind_of)
    starts, stops = (np.concatenate([getattr(one, name) for one in pieces]) for name in ("starts", "stops"))
    ids, firsts = distinct(characters.codes, starts, stops)
    codes, bounds = gather(characters.codes, starts[firsts], stops[firsts])
    text, ends = decode(characters.alphabet[codes]), np.cumsum([len(one.starts) for one in pieces])
    return pieces, np.split(ids, ends[:-1]), [text[a:b] for a, b in pairwise(bounds.tolist())]


def _called(characters: Documents, tokens: Callable[[str], Sequence[str]]) -> _Tokens:
    number: defaultdict[str, int] = defaultdict()
    number.default_factory = number.__len__
    parts = [
        np.fromiter(map(number.__getitem__, tokenise(characters.text(i), tokens)), np.uint32)
        for i in range(len(characters))
    ]
    lengths, nowhere = np.array([len(part) for part in parts], np.int64), np.empty(0, np.int64)
    numbers = np.concatenate([np.empty(0, np.uint32), *parts])
    return (
        [Stretches(nowhere, nowhere, numbers, lengths)],
        [np.arange(len(number), dtype=np.uint32)],
        list(number),
    )


class DeviceDocuments:
    """Documents, uploaded to the current card.

    Parameters
    ----------
    documents : Documents, n of them
    dtype : {numpy.uint8, numpy.uint16, numpy.uint32}, optional
        Of the codes on the card; as in `documents` by default, and at least as wide.

    Attributes
    ----------
    n : int
    size : int
        Symbols of all documents.
    n_symbols : int
        Size of the alphabet.
    lengths : int64 array, shape (n,)
        On the host.
    codes : CuPy uint8, uint16 or uint32 array, shape (size,)
    offsets : CuPy int64 array, shape (n + 1,)
        Document i is ``codes[offsets[i]:offsets[i + 1]]``.

    Raises
    ------
    InputError
        If the card has not the memory.
    """

    def __init__(self, documents: Documents, dtype: Any = None) -> None:
        cp = devices.cupy()
        codes = np.asarray(documents.codes, dtype)
        self.n, self.size, self.n_symbols = len(documents), len(codes), len(documents.alphabet)
        self.lengths = documents.lengths
        devices.require_memory(codes.nbytes + documents.offsets.nbytes, "the documents")
        self.codes, self.offsets = cp.asarray(codes), cp.asarray(documents.offsets)
