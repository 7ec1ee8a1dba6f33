"""Encoders: texts -> vectors of numbers that carry meaning, for `textsvm.kernels.encoder`.

A static encoder has a vector for each token of its vocabulary, and a text has the mean of the vectors of its
tokens (model2vec's folders: config.json, model.safetensors, tokenizer.json). It is read with safetensors and
tokenizers alone. Special tokens are not added and unknown tokens not counted, as in model2vec; texts are
never cut, and a text without tokens has the vector 0.

Encoders read the normal form of a text with its case kept.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from hashlib import blake2b
from importlib import import_module
from itertools import chain
from pathlib import Path
from string import punctuation
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors import numpy as arrays_file

from textsvm.arrays import AnyArray, Arrays, Floats32, Ints
from textsvm.errors import InputError
from textsvm.runtime.compiled import njit, use_numpy
from textsvm.runtime.parallel import Progress, n_threads, run
from textsvm.text.documents import Documents, batches, encode, split_words
from textsvm.text.encoding import offsets_of
from textsvm.text.tokens import ALONE, BETWEEN, WITHIN, shorten

#: Parts of BERT's tokenizer, in tokenizer.json.
_BERT = ["BertNormalizer", "BertPreTokenizer", "WordPiece"]
#: Symbols of texts that are tokenised together.
_BATCH = 1 << 20
#: Code points of lone surrogates, which no library of encoders accepts, and their replacement.
_SURROGATES, _REPLACEMENT = (0xD800, 0xDFFF), 0xFFFD


class TextEncoder(ABC):
    """An encoder of texts; encoders with the same digest are equal."""

    name: str
    #: Digest of all that vectors depend on; "" of a Python function.
    digest: str = ""

    @abstractmethod
    def encode(self, characters: Documents, progress: Progress | None = None) -> Floats32:
        """Vectors of texts, shape (n, d)."""

    def __call__(self, texts: Sequence[str]) -> Floats32:
        """Vectors of texts as they are, without a normal form."""
        return self.encode(encode(texts))

    @property
    def __name__(self) -> str:
        return self.name

    @property
    def reference(self) -> str:
        """Name in a model file."""
        return self.name

    def arrays(self) -> Arrays:
        """Arrays of the encoder for a model file; empty if it refers to the encoder by name and digest."""
        return {}

    @property
    def _identity(self) -> Any:
        return self.digest or id(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TextEncoder) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, digest={self.digest!r})"


def without_surrogates(characters: Documents) -> Documents:
    """Texts with U+FFFD in place of lone surrogates."""
    alphabet, (low, high) = characters.alphabet, _SURROGATES
    lone = (alphabet >= low) & (alphabet <= high)
    if not lone.any():
        return characters
    return replace(characters, alphabet=np.where(lone, _REPLACEMENT, alphabet).astype(np.uint32))


class StaticEncoder(TextEncoder):
    """Mean of the vectors of the tokens of a text.

    Parameters
    ----------
    arrays : dict
        "embeddings", (V, d), a row for each token; of int8 with "scale", (V,). "tokenizer", the bytes of
        tokenizer.json.
    name : str
        For messages and notation.
    """

    def __init__(self, arrays: Arrays, name: str) -> None:
        self._arrays, self.name = arrays, name
        rows, scale = arrays["embeddings"], arrays.get("scale")
        if rows.ndim != 2 or not rows.size or rows.dtype.kind not in "fi":
            raise InputError(f"the encoder {name} has no matrix with a vector for each token")
        self.embeddings: Floats32 = rows.astype(np.float32)
        if scale is not None:
            self.embeddings *= scale.astype(np.float32).reshape(-1, 1)
        if not np.isfinite(self.embeddings).all():
            raise InputError(f"the encoder {name} has vectors that are not finite; take another copy of it")
        self.tokenizer = arrays["tokenizer"].tobytes()
        self.digest = _digest(self.embeddings, self.tokenizer)
        if self._tokenizer.get_vocab_size() > len(rows):
            raise InputError(
                f"the encoder {name} has {self._tokenizer.get_vocab_size():,} tokens and {len(rows):,} "
                "vectors; its files do not belong together"
            )

    @cached_property
    def _tokenizer(self) -> Any:
        library = library_of("tokenizers", "static encoders")
        try:
            tokenizer = library.Tokenizer.from_str(self.tokenizer.decode())
        except Exception as error:  # the library raises Exception itself
            raise InputError(f"tokenizer.json of the encoder {self.name} is damaged: {error}") from error
        tokenizer.no_padding()
        tokenizer.no_truncation()
        tokenizer.encode_special_tokens = True  # "[SEP]" in a text is text
        return tokenizer

    @cached_property
    def unknown(self) -> int:
        """Number of the unknown token, which is not counted; -1 without."""
        token = json.loads(self.tokenizer)["model"].get("unk_token")
        number = None if token is None else self._tokenizer.token_to_id(token)
        return -1 if number is None else int(number)

    @cached_property
    def _lowers(self) -> bool | None:
        """Whether BERT's tokenizer has no capitals; None for any other tokenizer."""
        parts = json.loads(self.tokenizer)
        types = [(parts.get(name) or {}).get("type") for name in ("normalizer", "pre_tokenizer", "model")]
        return bool(parts["normalizer"].get("lowercase")) if types == _BERT else None

    @cached_property
    def _words(self) -> dict[str, int]:
        """Numbers of the tokens of BERT's tokenizer that are whole words of ASCII, or punctuation."""
        tokens = {} if self._lowers is None else self._tokenizer.get_vocab()
        return {t: i for t, i in tokens.items() if t.isascii() and (t.isalnum() or t in punctuation)}

    def arrays(self) -> Arrays:
        return self._arrays

    def rounded(self) -> StaticEncoder:
        """The encoder with vectors of 8-bit numbers and a scale for each token."""
        scale = np.abs(self.embeddings).max(axis=1) / 127
        rows = np.rint(self.embeddings / np.maximum(scale, 1e-30)[:, None]).astype(np.int8)
        return StaticEncoder({**self._arrays, "embeddings": rows, "scale": scale}, self.name)

    def tokenise(self, texts: Sequence[str]) -> list[list[int]]:
        """Numbers of the tokens of each text, without unknown tokens."""
        keys = [text.lower() for text in texts] if self._lowers else texts
        numbers = [[self._words[key]] if key in self._words else [] for key in keys]
        rest = [i for i, own in enumerate(numbers) if not own]
        batch = self._tokenizer.encode_batch_fast([texts[i] for i in rest], add_special_tokens=False)
        for i, encoding in zip(rest, batch, strict=True):
            numbers[i] = encoding.ids
        unknown = self.unknown
        return [[n for n in own if n != unknown] if unknown in own else own for own in numbers]

    def encode(self, characters: Documents, progress: Progress | None = None) -> Floats32:
        characters = without_surrogates(characters)
        vectors = np.zeros((len(characters), self.embeddings.shape[1]), np.float32)
        for first, last in batches(characters, _BATCH):
            vectors[first:last] = self._means(characters.take(np.arange(first, last)))
            if progress is not None:
                progress(last, len(characters))
        return vectors

    def _means(self, characters: Documents) -> Floats32:
        """Vectors of a batch; a distinct word of BERT's tokenizer, which cuts at spaces, is read once."""
        kind_of = np.full(len(characters.alphabet), WITHIN, np.uint8)
        if self._lowers is not None:
            kind_of[np.isin(characters.alphabet, list(map(ord, punctuation)))] = ALONE
            kind_of[characters.alphabet == ord(" ")] = BETWEEN
        pieces, ids, words = split_words(characters, kind_of)
        tokens = self.tokenise(words)
        lengths = np.array(list(map(len, tokens)), np.int64)
        of_words = _sums(np.array(list(chain(*tokens)), np.int64), lengths, self.embeddings)
        numbers = np.concatenate([own[piece.numbers] for piece, own in zip(pieces, ids, strict=True)])
        n_words = np.concatenate([piece.lengths for piece in pieces])
        n_tokens = np.diff(offsets_of(lengths[numbers])[offsets_of(n_words)])
        vectors: Floats32 = _sums(numbers, n_words, of_words)
        vectors /= np.maximum(n_tokens, 1)[:, None].astype(np.float32)
        return vectors


def _sums(numbers: AnyArray, lengths: Ints, table: Floats32) -> Floats32:
    """Sums of rows of a table; row i of the result is the sum of the next ``lengths[i]`` numbered rows."""
    sums, offsets = np.zeros((len(lengths), table.shape[1]), np.float32), offsets_of(lengths)
    if use_numpy(len(numbers) * table.shape[1]):
        filled = np.flatnonzero(lengths)
        if len(filled):
            sums[filled] = np.add.reduceat(table[numbers], offsets[filled], axis=0)
        return sums
    step = -(-len(lengths) // (4 * n_threads()))
    firsts = range(0, len(lengths), max(step, 64))
    run(lambda a: _add_rows(a, min(a + firsts.step, len(lengths)), offsets, numbers, table, sums), firsts)
    return sums


@njit(nogil=True, cache=True)
def _add_rows(first, last, offsets, numbers, table, sums):
    for i in range(first, last):
        for k in range(offsets[i], offsets[i + 1]):
            row = numbers[k]
            for j in range(table.shape[1]):
                sums[i, j] += table[row, j]


def _digest(*parts: Any) -> str:
    hashed = blake2b(digest_size=8)
    for part in parts:
        hashed.update(part)
    return hashed.hexdigest()


def library_of(name: str, purpose: str) -> Any:
    """A library that is not installed with the package; InputError with the remedy if it is missing."""
    try:
        return import_module(name)
    except ImportError as error:
        extra = '"textsvm[encoders]"' if name in ("tokenizers", "huggingface_hub") else name.replace("_", "-")
        raise InputError(f"{purpose} need the library {name}: pip install {extra}") from error


class FunctionEncoder(TextEncoder):
    """A Python function of a list of texts that returns an array of shape (n, d)."""

    def __init__(self, function: Any) -> None:
        self.function, self.name = function, str(getattr(function, "__name__", type(function).__name__))

    @property
    def _identity(self) -> Any:
        return id(self.function)

    def encode(self, characters: Documents, progress: Progress | None = None) -> Floats32:
        characters = without_surrogates(characters)
        texts = [characters.text(i) for i in range(len(characters))]
        try:
            returned = self.function(texts)
        except Exception as error:
            raise InputError(
                f"the encoder {self.name} failed on {len(texts):,} texts ({type(error).__name__}: {error}); "
                "correct it, or catch what these texts may cause"
            ) from error
        return checked_vectors(self.name, texts, returned)


def checked_vectors(name: str, texts: Sequence[str], returned: Any) -> Floats32:
    """Vectors of texts as float32; InputError if an encoder returned anything else."""
    try:
        raw = np.asarray(returned)
        with np.errstate(over="ignore"):
            vectors = raw.astype(np.float32) if raw.dtype.kind in "fiub" else None
    except (TypeError, ValueError):
        vectors = None
    if vectors is None or vectors.ndim != 2 or len(vectors) != len(texts) or not vectors.shape[1]:
        shape = "" if vectors is None else f" of shape {vectors.shape}"
        raise InputError(
            f"the encoder {name} returned {type(returned).__name__}{shape} for {len(texts):,} texts; it must "
            f"return an array of numbers of shape ({len(texts)}, d)"
        )
    for i in np.flatnonzero(~np.isfinite(vectors).all(axis=1))[:1]:
        raise InputError(
            f"the encoder {name} returned a number that is not finite for the text {shorten(texts[i])}; it "
            "must return finite numbers for every text"
        )
    return vectors


def load_encoder(encoder: Any) -> TextEncoder:
    """The encoder of a folder or a Python function; InputError if there is none."""
    if isinstance(encoder, TextEncoder):
        return encoder
    if isinstance(encoder, str | os.PathLike):
        folder = Path(encoder).expanduser()
        if not folder.is_dir():
            raise InputError(
                f"the encoder {encoder} is {'a file' if folder.exists() else 'not there'}; name a folder"
            )
        stamp = max(path.stat().st_mtime_ns for path in [folder, *folder.iterdir()])
        return _load_folder(str(folder.resolve()), stamp)
    if callable(encoder):
        return FunctionEncoder(encoder)
    raise InputError(f"encoder={encoder!r} is neither the name of a folder nor a function of texts")


@lru_cache(maxsize=4)
def _load_folder(folder: str, stamp: int) -> TextEncoder:
    """The encoder of a folder whose files last changed at `stamp`."""
    path = Path(folder)
    try:
        arrays = arrays_file.load_file(path / "model.safetensors")
        tokenizer = (path / "tokenizer.json").read_bytes()
    except (OSError, SafetensorError, ValueError) as error:
        raise InputError(f"the encoder {path.name} is damaged: {error}") from error
    rows = arrays.get("embeddings", arrays.get("embedding.weight"))
    if rows is None:
        raise InputError(f"{path} holds no static encoder")
    if "mapping" in arrays:
        rows = rows[arrays["mapping"]]
    if "weights" in arrays:
        rows = rows * arrays["weights"].reshape(-1, 1)
    return StaticEncoder({"embeddings": rows, "tokenizer": np.frombuffer(tokenizer, np.uint8)}, path.name)
