"""Unicode tables of exported models, and tables of WordPiece and Unigram tokenizers.

The binary file (for C and JavaScript) and ONNX graphs contain them. Those of texts come from the database of
Python and `textsvm.text.normal_form`: a reader decomposes a text (NFKD), puts combining characters into
canonical order and composes (NFC), then does the same with the folded case.

The library `tokenizers` has its own version of Unicode, so its normaliser is asked about every code point. A
reader replaces each code point by its image, puts combining characters into canonical order, splits at white
space and at punctuation, and takes the longest tokens of each word from left to right (WordPiece), or puts
marks in place of spaces, and takes the tokens with the largest sum of scores (Unigram).
"""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.arrays import Floats, Json
from textsvm.errors import InputError
from textsvm.text.encoders import components, double_array, library_of, tokenizer_state
from textsvm.text.normal_form import IGNORABLE, JOINING, SPACED, begins, normalise
from textsvm.text.tokens import BETWEEN, WITHIN, kinds

#: Bits of the class of a code point: white space; punctuation or symbol; word character; may combine with its
#: predecessor; changed by NFKC; changed by NFKC with case folding; default-ignorable; joiners stay behind it.
#: The last two together: joiners and ZWSP stay behind it.
SPACE, PUNCT, WORD, JOINS, CHANGES, CHANGES_FOLDED, IGNORED, KEEPS = (1 << bit for bit in range(8))
HANGUL = range(0xAC00, 0xD7A4)  #: Hangul syllables, which are composed by their numbers
#: Code points outside the planes without any property (unassigned, private use).
_ASSIGNED = (*range(0x40000), *range(0xE0000, 0xE1000))
#: Those that are no ideographs, which have no case, parts, marks or punctuation.
_OTHERS = [i for i in _ASSIGNED if not (0x3400 <= i < 0xA000 and i >> 6 != 0x137) and i >> 16 not in (2, 3)]
_OTHERS += range(0x2F800, 0x2FA20)  # compatibility ideographs
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


@lru_cache(maxsize=4)
def character_tables(form: str, words: str) -> CharacterTables:
    """Tables for a normal form and tokens, "words" or "runs"; "none": classes alone."""
    classes, orders = np.zeros((2, sys.maxunicode + 1), np.uint8)
    kind_of = kinds(map(chr, _ASSIGNED), words)
    classes[[*_ASSIGNED]] = np.where(kind_of == BETWEEN, SPACE, np.where(kind_of == WITHIN, WORD, 0))
    decompositions: dict[int, str] = {}
    folds: dict[int, str] = {}
    pairs: list[tuple[int, ...]] = []
    for point, char in zip(_OTHERS, map(chr, _OTHERS), strict=True):
        if unicodedata.category(char)[0] in "PS":
            classes[point] |= PUNCT
        if form != "unicode":
            continue
        cased = unicodedata.normalize("NFKC", char)
        changes = CHANGES_FOLDED * (unicodedata.normalize("NFKC", cased.casefold()) != char)
        classes[point] |= JOINS * (not begins(point)) | CHANGES * (cased != char) | changes
        classes[point] |= next((bits for points, bits in _BITS if points.match(char)), 0)
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


# Tokenizers

#: Characters of which the tokenizer is asked; the last stands for all others of private use.
_ASKED = [*map(chr, (*range(0xD800), *range(0xE000, 0x33000), *range(0xE0000, 0xE1000), 0xF0000))]
#: Combining characters of classes 224 and 9 that BERT's normaliser keeps.
_MARK_224, _MARK_9 = "\u302e", "\u1b44"
_BETWEEN = "\U00010000zz0"  #: Characters around an asked one
_TITLO = "\u0483"  #: A combining character of two bytes that composes with no other
#: Characters that begin a grapheme wherever they stand, unless the character before says so: of these
#: categories, or these.
_CASED, _HEADS = ("Lu", "Ll", "Lt"), "\u1680\u2581\ufffd"
MAX_WORD_CHARACTERS = 256  #: Largest `max_input_chars_per_word` that textsvm.c supports
MARK = "\u2581"  #: In place of a space
_PENALTY = 10.0  #: How much worse than the worst token the score of an unknown character is
#: Components of Unigram that read characters one by one, runs of spaces, or the ends of texts.
_SINGLE = {"Lowercase", "Metaspace", "Nmt", "Replace", "Strip", "WhitespaceSplit"}
_FIRST = {"NFKC", "Precompiled"}  #: Components that read texts in NFKC so if they are the first


@dataclass(frozen=True)
class ExportedTokenizer:
    """A WordPiece tokenizer, or Unigram (SentencePiece): then `MARK` precedes a text and replaces spaces."""

    #: Images are in `decompositions`. Bits of a class: SPACE, PUNCT, CHANGES (has an image), KEEPS (removed),
    #: IGNORED (removed after canonical reordering, so it still blocks reordering); of Unigram the last three,
    #: JOINS (in the grapheme of its predecessor), CHANGES_FOLDED (its successor is in its own), and WORD (its
    #: image stands for its grapheme if that has less than 6 bytes).
    letters: CharacterTables
    tokens: tuple[str, ...]  #: By id
    #: Of tokens inside of words; of Unigram, the token for neighbouring characters that are no tokens
    prefix: str
    max_word_characters: int = 1  #: Longer words are the unknown token
    scores: Floats | None = None  #: Of Unigram, of the tokens, and of a character that is no token
    strips: bool = False  #: Whether spaces at the end are removed
    splits: bool = False  #: Whether tokens end before marks


@lru_cache(maxsize=3)
def exported_tokenizer(tokenizer: bytes) -> ExportedTokenizer:
    """The tables of a tokenizer, as JSON; InputError if it has other components."""
    state = tokenizer_state(tokenizer)
    model, names = state["model"], ("model", "normalizer", "pre_tokenizer")
    types = [(state[name] or {"type": f"no {name}"}).get("type") for name in names]
    added = [token["content"] for token in state["added_tokens"] if not token["special"]]
    if types[0] == "Unigram" and not added and (unigram := _unigram(state)):
        return unigram
    problem = f"the added token {added[0]!r}" if added else ""
    if types != ["WordPiece", "BertNormalizer", "BertPreTokenizer"]:
        problem = f"the tokenizer {types[0]} ({types[1]}, {types[2]})"
    elif model["max_input_chars_per_word"] > MAX_WORD_CHARACTERS:
        problem = f"max_input_chars_per_word = {model['max_input_chars_per_word']}"
    elif model["unk_token"].isalnum():
        problem = f"the unknown token {model['unk_token']!r}"
    if problem:
        raise InputError(
            f"an encoder with {problem} cannot be exported; WordPiece with BERT's normaliser, words of at "
            f"most {MAX_WORD_CHARACTERS} characters and no added tokens can, and Unigram that joins spaces ("
            f'Replace of " {{2,}}") and replaces {MARK} (Nmt), with NFKC or Precompiled only in first place'
        )
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    limits = model["continuing_subword_prefix"], model["max_input_chars_per_word"]
    return ExportedTokenizer(_letters(_functions(state), _ASKED, " "), tuple(tokens), *limits)


def _functions(state: Json) -> tuple[Callable[[str], str], Callable[[str], Any]]:
    """The normalizer and the pre-tokenizer of the library."""
    parts = library_of("tokenizers").Tokenizer.from_str(json.dumps(state))
    return parts.normalizer.normalize_str, parts.pre_tokenizer.pre_tokenize_str


def _unigram(state: Json) -> ExportedTokenizer | None:
    """The tables of a Unigram tokenizer; None unless it reads texts as `ExportedTokenizer` says."""
    model, parts = state["model"], components(state["normalizer"], "normalizers")
    splitters = components(state["pre_tokenizer"], "pretokenizers")
    patterns = [part["pattern"] for part in parts if part["type"] == "Replace"]
    single = all(len(p.get("String", "")) == 1 or p.get("Regex") in (r"\s+", " {2,}") for p in patterns)
    types = [part["type"] for part in [*parts, *splitters]]
    if not (single and parts and splitters) or {*types[types[0] in _FIRST :]} - _SINGLE:
        return None
    chars = [char for char in _ASKED if unicodedata.is_normalized("NFKC", char)]
    (normalise, split), unknown = _functions(state), model["unk_id"]
    letters = _letters((normalise, split), chars, "")
    letters.orders[:] = 0  # texts are in canonical order
    images = letters.decompositions
    if model.get("byte_fallback") or normalise(_BETWEEN) != _BETWEEN or images.keys() & {*HANGUL}:
        return None
    if types[0] == "Precompiled" and not _add_graphemes(letters.classes, chars, state, parts[0]):
        return None
    tokens, scores = zip(*model["vocab"], strict=True)
    spaced = {image: chr(point) for point, image in images.items() if " " in image}
    probes = ["".join(p) for char in (MARK, *spaced.values()) for p in product(" a" + char, repeat=4)]
    texts = [probe.translate(images) for probe in probes]
    words = [[word for word, _ in split(normalise(probe))] for probe in probes]
    for strips, splits in product((False, True), repeat=2):
        ends = [[MARK] * (text[-1] == " " and not strips) for text in texts]
        marked = [[MARK + word for word in text.split()] + end for text, end in zip(texts, ends, strict=True)]
        if words == [own if splits or not own else ["".join(own)] for own in marked]:
            of_all = np.append(scores, min(scores) - _PENALTY)
            return ExportedTokenizer(letters, tokens, tokens[unknown], 1, of_all, strips, splits)
    return None


def _add_graphemes(classes: NDArray[np.uint8], chars: Sequence[str], state: Json, part: Json) -> bool:
    """Add the bits for the graphemes of a map of SentencePiece; whether they describe it."""
    normalise, _ = _functions(state | {"normalizer": part})
    image_of = dict(zip(chars, _images(normalise, chars), strict=True))
    marked = zip(chars, _images(normalise, [char + _TITLO for char in chars]), strict=True)
    # Graphemes of less than 6 bytes that have 6 or more with another character that joins.
    heads = {char: char + _TITLO * (1 + char.isascii()) for char, image in marked if image == image_of[char]}
    for head in [*heads][-1:]:
        after = _images(normalise, [heads[head] + char for char in chars])
        before = _images(normalise, [char + heads[head] for char in chars])
        for char, image, other in zip(chars, after, before, strict=True):
            bits = JOINS * (image != image_of[head] + image_of[char]) | WORD * (char in heads)
            classes[ord(char)] |= bits | CHANGES_FOLDED * (other != image_of[char] + image_of[head])
    units, children = double_array(b64decode(part["precompiled_charsmap"]))
    texts = [key.decode("utf-8", "replace") for key in _keys(units.tolist(), children.tolist())]
    several = any(len(text) > 1 and unicodedata.is_normalized("NFKC", text) for text in texts)
    return not several and all(char in _HEADS or unicodedata.category(char) in _CASED for char in heads)


def _keys(units: list[int], children: list[int], place: int = 0, key: bytes = b"") -> Iterator[bytes]:
    """Keys of less than 6 bytes of a map of SentencePiece that do not begin with others."""
    for byte in range(1, 256):
        below = children[place] ^ byte
        if units[below] & 0x800000FF == byte and units[below] >> 8 & 1:
            yield key + bytes([byte])
        elif units[below] & 0x800000FF == byte and len(key) < 4:
            yield from _keys(units, children, below, key + bytes([byte]))


def _images(normalise: Callable[[str], str], texts: Sequence[str]) -> list[str]:
    """Normal forms of texts that do not touch."""
    return normalise(_BETWEEN.join(["", *texts, ""])).split(_BETWEEN)[1:-1]


def _letters(
    functions: tuple[Callable[[str], str], Callable[[str], Any]], chars: Sequence[str], spaces: str
) -> CharacterTables:
    """What a normaliser and a pre-tokenizer do with characters; these `spaces` around images are removed."""
    normalise, split = functions
    classes, orders = np.zeros((2, sys.maxunicode + 1), np.uint8)
    inside = np.zeros(2 * len(chars) + 1, np.int64)  # size of the piece that has a character
    for _, (first, end) in split("a" + "a".join(chars) + "a"):
        inside[first:end] = end - first
    sizes = inside[1::2]
    classes[[*map(ord, chars)]] = np.where(sizes == 0, SPACE, np.where(sizes == 1, PUNCT, 0))
    image_of = dict(zip(chars, _images(normalise, chars), strict=True))
    removed = [char for char in chars if not image_of[char]]
    classes[[*map(ord, removed)]] = KEEPS
    # A removed character between two marks stops their reordering if the image is unchanged.
    stops = _images(normalise, [_MARK_224 + char + _MARK_9 for char in removed])
    stopping = [char for char, text in zip(removed, stops, strict=True) if text == _MARK_224 + _MARK_9]
    classes[[*map(ord, stopping)]] = IGNORED
    classes[[ord(char) for char in chars if image_of[char] == f" {char} "]] = PUNCT  # CJK
    for plane in (0xF0000, 0x100000):
        classes[plane : plane + 0xFFFE] = classes[0xF0000]
    changed = {ord(char): image.strip(spaces) or " " for char, image in image_of.items() if image}
    changed = {point: image for point, image in changed.items() if image != chr(point)}
    classes[[*changed]] |= CHANGES
    marks = [char for char in chars if image_of[char] == char and unicodedata.combining(char)]
    ordered = [f"{_MARK_224}{mark}1{mark}{_MARK_9}" for mark in marks]
    for mark, text, image in zip(marks, ordered, _images(normalise, ordered), strict=True):
        orders[ord(mark)] = unicodedata.combining(mark) if image != text else 0
    return CharacterTables(classes, orders, changed, {}, np.zeros((0, 3), np.uint32))
