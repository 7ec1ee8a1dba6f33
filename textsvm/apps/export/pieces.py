"""WordPiece tokenizers of static encoders as tables, which the readers of exported models follow.

The library `tokenizers` has its own version of Unicode, so its normaliser is asked about every code point. A
reader replaces each code point by its image, puts combining characters into canonical order, splits at white
space and at punctuation, and takes the longest tokens of each word from left to right.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from textsvm.apps.export.characters import CHANGES, IGNORED, KEEPS, PUNCT, SPACE, CharacterTables
from textsvm.errors import InputError
from textsvm.text.encoders import library_of, tokenizer_state

#: Code points of which the tokenizer is asked; the last stands for all others of private use.
_ASKED = [*range(0xD800), *range(0xE000, 0x33000), *range(0xE0000, 0xE1000), 0xF0000]
#: Combining characters of classes 224 and 9 that BERT's normaliser keeps.
_MARK_224, _MARK_9 = "\u302e", "\u1b44"
#: Characters around an asked one.
_BETWEEN = "|0|"
#: Largest `max_input_chars_per_word` that textsvm.c supports.
MAX_WORD_CHARACTERS = 256


@dataclass(frozen=True)
class WordPiece:
    """A WordPiece tokenizer."""

    #: Images are in `decompositions`. Bits of a class: SPACE, PUNCT, CHANGES (has an image), KEEPS (removed),
    #: IGNORED (removed after canonical reordering, so it still blocks reordering).
    letters: CharacterTables
    tokens: tuple[str, ...]  #: By id
    max_word_characters: int  #: Longer words are the unknown token
    continuation_prefix: str  #: Of the tokens inside of words


@lru_cache(maxsize=3)
def word_piece(tokenizer: bytes) -> WordPiece:
    """The tables of a tokenizer, given as JSON; InputError if it is not BERT's."""
    state = tokenizer_state(tokenizer)
    model = state["model"]
    names = ("model", "normalizer", "pre_tokenizer")
    types = [(state[name] or {"type": f"no {name}"}).get("type") for name in names]
    added = [token["content"] for token in state["added_tokens"] if not token["special"]]
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
            f"most {MAX_WORD_CHARACTERS} characters and no added tokens can"
        )
    parts = library_of("tokenizers").Tokenizer.from_str(json.dumps(state))
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    letters = _letters(parts.normalizer.normalize_str, parts.pre_tokenizer.pre_tokenize_str)
    limits = model["max_input_chars_per_word"], model["continuing_subword_prefix"]
    return WordPiece(letters, tuple(tokens), *limits)


def _letters(normalise: Callable[[str], str], split: Callable[[str], list]) -> CharacterTables:
    """What a normaliser and a pre-tokenizer do with each code point."""

    def images(texts: Sequence[str]) -> list[str]:
        return normalise(_BETWEEN.join(["", *texts, ""])).split(_BETWEEN)[1:-1]

    classes, orders = np.zeros((2, sys.maxunicode + 1), np.uint8)
    chars = [*map(chr, _ASKED)]
    inside = np.zeros(2 * len(chars) + 1, np.int64)  # size of the piece that has a character
    for _, (first, end) in split("a" + "a".join(chars) + "a"):
        inside[first:end] = end - first
    sizes = inside[1::2]
    classes[_ASKED] = np.where(sizes == 0, SPACE, np.where(sizes == 1, PUNCT, 0))
    image_of = dict(zip(chars, images(chars), strict=True))
    removed = [char for char in chars if not image_of[char]]
    classes[[*map(ord, removed)]] = KEEPS
    # A removed character between two marks stops their reordering if the image is unchanged.
    stops = images([_MARK_224 + char + _MARK_9 for char in removed])
    stopping = [char for char, text in zip(removed, stops, strict=True) if text == _MARK_224 + _MARK_9]
    classes[[*map(ord, stopping)]] = IGNORED
    classes[[ord(char) for char in chars if image_of[char] == f" {char} "]] = PUNCT  # CJK
    for plane in (0xF0000, 0x100000):
        classes[plane : plane + 0xFFFE] = classes[0xF0000]
    changed = {ord(char): image.strip(" ") or " " for char, image in image_of.items() if image}
    changed = {point: image for point, image in changed.items() if image != chr(point)}
    classes[[*changed]] |= CHANGES
    marks = [char for char in chars if image_of[char] == char and unicodedata.combining(char)]
    ordered = [f"{_MARK_224}{mark}1{mark}{_MARK_9}" for mark in marks]
    for mark, text, image in zip(marks, ordered, images(ordered), strict=True):
        orders[ord(mark)] = unicodedata.combining(mark) if image != text else 0
    return CharacterTables(classes, orders, changed, {}, np.zeros((0, 3), np.uint32))
