"""Encoders: texts -> vectors of numbers that carry meaning, for `textsvm.kernels.encoder`.

A static encoder has a vector for each token of its vocabulary, and a text has the mean of the vectors of its
tokens (model2vec's folders: config.json, model.safetensors, tokenizer.json). It is read with safetensors and
tokenizers alone. Special tokens are not added and unknown tokens not counted, as in model2vec; texts are
never cut, and a text without tokens has the vector 0.

Encoders of sentence-transformers and ONNX models are used if the library is installed. Their vectors are
computed once for each text and kept on disk. Encoders read the normal form of a text with its case kept.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property, lru_cache
from hashlib import blake2b
from importlib import import_module
from importlib.util import find_spec
from inspect import isroutine
from itertools import chain
from pathlib import Path
from string import punctuation
from typing import Any, ClassVar

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors import numpy as arrays_file

from textsvm.arrays import AnyArray, Arrays, Floats32, Ints, Json, first_true
from textsvm.errors import InputError
from textsvm.runtime import memory as host_memory
from textsvm.runtime.compiled import njit, use_numpy
from textsvm.runtime.files import cache_folder, try_lock
from textsvm.runtime.parallel import Lock, Progress, n_threads, report, run
from textsvm.runtime.plain_json import unambiguous_json
from textsvm.text.documents import Documents, batches, encode, split_words
from textsvm.text.encoding import offsets_of
from textsvm.text.tokens import ALONE, BETWEEN, WITHIN, shorten

#: Parts of BERT's tokenizer, in tokenizer.json.
_BERT = ["BertNormalizer", "BertPreTokenizer", "WordPiece"]
_BATCH = 1 << 20  #: Symbols of texts that are tokenised together
#: Texts that an encoder of a library computes at a time; the cache grows by so many.
AT_A_TIME = 64
WINDOW = 512  #: Number of tokens that an encoder reads if it does not say so
MOST_BYTES = 256 << 20  #: Maximum cache size per encoder, in bytes
_MAGIC = b"textsvm1"  #: Beginning of a file of the cache, with its version
_HEAD = 16  #: Length of its header: this beginning and the dimension
#: Files on which vectors do not depend: of repositories, downloads, systems and interpreters.
_IGNORED = re.compile(r"(^|/)(\.git|\.cache/|\.DS_Store$|README\.md$|[^/]*\.pyc$)")
_NFKC = 18  #: Symbols of the longest normal form of a symbol, U+FDFA
#: Encoders that are packages of their own, and their folders in wheels/.
PACKAGES = {"english": "encoder_en", "multilingual": "encoder_multi"}
FEW_TEXTS, ENGLISH = 1000, 0.7  #: Most texts that advice is for, least share of known words; others have 0.6
#: Models in ONNX of folders of sentence-transformers: 8-bit weights first, none for a single processor.
ONNX_FILES = ("model_quantized.onnx", "model_int8.onnx", "model_quint8_avx2.onnx", "model.onnx")
_MEANS = {("pooling_mode_mean_tokens",): True, ("pooling_mode_cls_token",): False}  #: If it is the mean
_REPLACEMENT = 0xFFFD  #: In place of lone surrogates, which no library of encoders accepts


class TextEncoder(ABC):
    """An encoder of texts; encoders with the same digest are equal."""

    name: str
    reference: str  #: Name in a model file
    digest: str = ""  #: Digest of all that vectors depend on; "" of a Python function.

    @abstractmethod
    def encode(self, characters: Documents, progress: Progress | None = None) -> Floats32:
        """Vectors of texts, shape (n, d)."""

    def __call__(self, texts: Sequence[str]) -> Floats32:
        """Vectors of texts as they are, without a normal form."""
        return self.encode(encode(texts))

    @property
    def __name__(self) -> str:
        return self.name

    def arrays(self) -> Arrays:
        """Arrays of the encoder for a model file; empty if it refers to the encoder by name and digest."""
        return {}

    @property
    def _identity(self) -> Hashable:
        return self.digest or id(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TextEncoder) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, digest={self.digest!r})"


def without_surrogates(characters: Documents) -> Documents:
    """Texts with U+FFFD in place of lone surrogates."""
    alphabet = characters.alphabet
    lone = (alphabet >= 0xD800) & (alphabet <= 0xDFFF)
    if not lone.any():
        return characters
    return replace(characters, alphabet=np.where(lone, _REPLACEMENT, alphabet).astype(np.uint32))


class StaticEncoder(TextEncoder):
    """Mean of the vectors of the tokens of a text; `name` is for messages and notation.

    `arrays` are "embeddings", (V, d), a row for each token, of int8 with "scale", (V,); and "tokenizer", the
    bytes of tokenizer.json.
    """

    def __init__(self, arrays: Arrays, name: str) -> None:
        self._arrays, self.name, self.reference = arrays, name, name
        rows = arrays["embeddings"]
        if rows.ndim != 2 or not rows.size or rows.dtype.kind not in "fi":
            raise InputError(f"the encoder {name} has no matrix with a vector for each token")
        with np.errstate(over="ignore"):
            self.embeddings: Floats32 = rows.astype(np.float32)
            if "scale" in arrays:
                self.embeddings *= arrays["scale"].astype(np.float32).reshape(len(rows), 1)
        if not (np.abs(self.embeddings) <= _MOST_NUMBER).all():
            raise InputError(f"the encoder {name} has vectors that are not finite; take another copy of it")
        self.tokenizer = arrays["tokenizer"].tobytes()
        self.digest = _digest(self.embeddings, self.tokenizer)
        with _in_one_sentence(f"tokenizer.json of the encoder {name} is damaged"):
            state = tokenizer_state(self.tokenizer)
            self._tokenizer = library_of("tokenizers").Tokenizer.from_str(json.dumps(state))
        self._tokenizer.encode_special_tokens = True  # "[SEP]" in a text is text
        tokens = self._tokenizer.get_vocab()
        if sorted(tokens.values()) != [*range(len(rows))]:
            raise InputError(
                f"the encoder {name} has {len(rows):,} vectors, and the ids of its {len(tokens):,} "
                "tokens are not the numbers of these, each once; its files do not belong together"
            )
        #: Id of the unknown token, which is not counted; -1 without.
        self.unknown: int = tokens.get(state["model"].get("unk_token"), -1)
        parts = [state[part] or {} for part in ("normalizer", "pre_tokenizer", "model")]
        special = all(token["special"] for token in state["added_tokens"])
        self._is_bert = special and [part.get("type") for part in parts] == _BERT
        self._lowers = self._is_bert and parts[0].get("lowercase", True)
        self._longest: int = parts[2]["max_input_chars_per_word"] if self._is_bert else 0
        prefix = parts[2].get("continuing_subword_prefix") or ""
        words = (t for t in tokens if t.isascii() and (t.isalnum() or t in punctuation))
        #: Ids of the tokens of BERT's tokenizer that begin words of ASCII or are punctuation, and of others.
        self._words = {t: tokens[t] for t in words if len(t) <= self._longest}
        self._ends = {t.removeprefix(prefix): own for t, own in tokens.items() if t.startswith(prefix)}

    def __reduce__(self) -> tuple[object, ...]:
        return StaticEncoder, (self._arrays, self.name)  # the library's tokenizer would lose a setting

    def _encoded(self, function: Any, texts: Sequence[str]) -> Any:
        """Encodings of texts by a function of the library; InputError instead of the end of the process."""
        if (need := _SYMBOL_BYTES * sum(map(len, texts))) > _CHECKED_BYTES and need > host_memory.free():
            raise InputError(f"these texts may take {need:,} bytes, more than are free; shorten them")
        with _in_one_sentence(f"the tokenizer of the encoder {self.name} failed"):
            return function(texts, add_special_tokens=False)

    def arrays(self) -> Arrays:
        return self._arrays

    def rounded(self) -> StaticEncoder:
        """The encoder with vectors of 8-bit numbers and a scale for each token."""
        scale = np.abs(self.embeddings).max(axis=1) / 127
        rows = np.rint(self.embeddings / np.maximum(scale, 1e-30)[:, None]).astype(np.int8)
        return StaticEncoder({**self._arrays, "embeddings": rows, "scale": scale}, self.name)

    @cached_property
    def vocabulary(self) -> dict[str, int]:
        """Id of each token, in ascending order."""
        ids = self._tokenizer.get_vocab(with_added_tokens=False)
        return dict(sorted(ids.items(), key=lambda item: item[1]))

    def spans(self, text: str) -> list[tuple[int, int, int, int]]:
        """Token id, word index, start and end of each token of a text, without unknown tokens."""
        text = without_surrogates(encode([text])).text(0)
        [encoding] = self._encoded(self._tokenizer.encode_batch, [text])
        parts = zip(encoding.ids, encoding.word_ids, encoding.offsets, strict=True)
        return [(token, word, *span) for token, word, span in parts if token != self.unknown]

    def tokenise(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of the tokens of each text, without unknown tokens."""
        words, keys = self._words, [text.lower() for text in texts] if self._lowers else texts
        ids = [[words[key]] if key in words else self._pieces(key) for key in keys]
        rest = [i for i, of_text in enumerate(ids) if of_text is None]
        batch = self._encoded(self._tokenizer.encode_batch_fast, [texts[i] for i in rest])
        for i, encoding in zip(rest, batch, strict=True):
            ids[i] = encoding.ids
        rows = [row or [] for row in ids]
        return [[t for t in row if t != self.unknown] if self.unknown in row else row for row in rows]

    def _pieces(self, word: str) -> list[int] | None:
        """Ids that BERT's tokenizer gives a word of ASCII: the longest token that fits, repeatedly.

        None for other texts, which the library tokenises. A word that tokens do not cover has none.
        """
        if len(word) > self._longest or not (word.isascii() and word.isalnum()):
            return None
        ids, first, tokens = list[int](), 0, self._words
        while first < len(word):
            for end in range(len(word), first, -1):
                if (token := tokens.get(word[first:end])) is not None:
                    break
            else:
                return []
            ids.append(token)
            first, tokens = end, self._ends
        return ids

    def encode(self, characters: Documents, progress: Progress | None = None) -> Floats32:
        characters = without_surrogates(characters)
        vectors = np.zeros((len(characters), self.embeddings.shape[1]), np.float32)
        for first, last in batches(characters, _BATCH):
            vectors[first:last] = self._means(characters.take(np.arange(first, last)))
            report(progress, last, len(characters))
        return vectors

    def _means(self, characters: Documents) -> Floats32:
        """Vectors of a batch. With BERT's tokenizer each distinct word is tokenised once."""
        kind_of = np.full(len(characters.alphabet), WITHIN, np.uint8)
        if self._is_bert:
            kind_of[np.isin(characters.alphabet, list(map(ord, punctuation)))] = ALONE
            kind_of[characters.alphabet == ord(" ")] = BETWEEN
        pieces, ids, words = split_words(characters, kind_of)
        tokens = self.tokenise(words)
        lengths = np.array(list(map(len, tokens)), np.int64)
        of_words = _sums(np.array(list(chain(*tokens)), np.int64), lengths, self.embeddings)
        numbers = np.concatenate([at[piece.numbers] for piece, at in zip(pieces, ids, strict=True)])
        n_words = np.concatenate([piece.lengths for piece in pieces])
        n_tokens = np.diff(offsets_of(lengths[numbers])[offsets_of(n_words)])
        vectors: Floats32 = _sums(numbers, n_words, of_words)
        vectors /= np.maximum(n_tokens, 1)[:, None].astype(np.float32)
        return vectors


def _sums(numbers: AnyArray, lengths: Ints, table: Floats32) -> Floats32:
    """Sums of rows of a table; row i of the result is the sum of the next ``lengths[i]`` numbered rows."""
    sums, offsets = np.zeros((len(lengths), table.shape[1]), np.float32), offsets_of(lengths)
    if use_numpy(len(numbers) * table.shape[1]):
        for k in range(int(lengths.max(initial=0))):  # in the order of `_add_rows`: the same bits
            longer = np.flatnonzero(lengths > k)
            sums[longer] += table[numbers[offsets[longer] + k]]
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


def library_of(name: str) -> Any:
    """A library that an encoder needs; InputError with the remedy if it is missing."""
    try:
        return import_module(name)
    except ImportError as error:
        how = name.replace("_", "-")
        raise InputError(f"this encoder needs the library {name}: pip install {how}") from error


class VectorCache:
    """Vectors by text, in memory, and in a file if there is a path.

    The file has records of a digest of the text, a digest of the record and the vector. Damaged records are
    ignored, and the older half is dropped beyond `MOST_BYTES`. A file that cannot be written is left alone.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._vectors: dict[bytes, Floats32] = {}
        with suppress(OSError):
            data = b"" if path is None else path.read_bytes()
            if data[: len(_MAGIC)] == _MAGIC and len(data) >= _HEAD:
                rows = np.frombuffer(data, *_records(data))
                keys = [row.tobytes() for row in rows["key"]]
                pairs = zip(keys, rows["check"].tolist(), rows["vector"], strict=True)
                self._vectors = {key: v for key, check, v in pairs if check == _check(key, v)}

    def known(self, texts: Sequence[str]) -> dict[str, Floats32]:
        """The vectors of those texts that are in the cache."""
        keys = {text: _key(text) for text in texts}
        return {text: self._vectors[key] for text, key in keys.items() if key in self._vectors}

    def add(self, texts: Sequence[str], vectors: Floats32) -> None:
        """Keep vectors; a later process finds them even if this process is killed."""
        keys = list(map(_key, texts))
        self._vectors.update(zip(keys, vectors, strict=True))
        if len(self._vectors) * vectors[0].nbytes > MOST_BYTES:
            self._vectors = dict(list(self._vectors.items())[len(self._vectors) // 2 :])
        if self._path is None:
            return
        head = _MAGIC + vectors.shape[1].to_bytes(8, "little")
        rows = np.zeros(len(keys), _records(head)[0])
        rows["key"], rows["vector"] = np.array(keys, "V16"), vectors
        rows["check"] = [_check(key, vector) for key, vector in zip(keys, vectors, strict=True)]
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.touch(0o600)
            with self._path.open("r+b") as stream:
                if try_lock(stream.fileno()):
                    # Append after the last whole record; a file with another header is written anew.
                    same, size = stream.read(len(head)) == head, rows.dtype.itemsize
                    n = (stream.seek(0, os.SEEK_END) - len(head)) // size if same else 0
                    if n * size > MOST_BYTES:
                        stream.seek(len(head) + n // 2 * size)
                        rest = np.frombuffer(stream.read((n - n // 2) * size), rows.dtype)
                        rows, n = np.append(rest, rows), 0
                    stream.seek(0)
                    stream.write(head)
                    stream.truncate(stream.seek(len(head) + n * size))
                    stream.write(rows.tobytes())


def _records(data: bytes) -> tuple[Any, int, int]:
    """Type of the records of a file, their number, and their place."""
    d = int.from_bytes(data[len(_MAGIC) : _HEAD], "little")
    dtype = np.dtype([("key", "V16"), ("check", "<u8"), ("vector", "<f4", (min(d, 1 << 20),))])
    return dtype, max(0, len(data) - _HEAD) // dtype.itemsize, _HEAD


def _key(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _check(key: bytes, vector: Floats32) -> int:
    return int.from_bytes(blake2b(key + vector.tobytes(), digest_size=8).digest(), "little")


class BatchEncoder(TextEncoder):
    """An encoder that computes the vectors of some texts at a time, from the shortest text to the longest.

    Vectors are computed once: with a digest they are kept on disk, otherwise in memory.
    """

    _NOT_PICKLED: ClassVar = ("_cache", "_lock", "_model", "_parts")

    def __init__(self, name: str, digest: str = "", reference: str = "") -> None:
        self.name, self.digest, self.reference, self._lock = name, digest, reference, Lock()

    @cached_property
    def _cache(self) -> VectorCache:
        with suppress(RuntimeError):  # there is no home
            return VectorCache(cache_folder() / f"{self.digest}.vectors" if self.digest else None)
        return VectorCache(None)

    @abstractmethod
    def compute(self, texts: list[str]) -> tuple[Any, int]:
        """Vectors of a batch, and the number of texts that are cut."""

    def encode(self, characters: Documents, progress: Progress | None = None) -> Floats32:
        characters = without_surrogates(characters)
        texts = [characters.text(i) for i in range(len(characters))] or [""]
        with self._lock:  # the objects of the libraries are not made for several threads
            by_text, cut = self._cache.known(texts), 0
            missing = sorted(set(texts) - by_text.keys(), key=lambda text: (len(text), text))
            done, total = 0, sum(map(len, missing))  # short texts take less time
            for first in range(0, len(missing), AT_A_TIME):
                batch = missing[first : first + AT_A_TIME]
                vectors, n = self._computed(batch)
                by_text.update(zip(batch, vectors, strict=True))
                self._cache.add(batch, vectors)
                cut += n
                done += sum(map(len, batch))
                report(progress, done, total)
        if cut:
            message = f"the encoder {self.name} reads only the beginning of {cut:,} long texts"
            warnings.warn(message, stacklevel=2)
        if len({len(vector) for vector in by_text.values()}) > 1:
            raise InputError(f"the encoder {self.name} returned vectors of different lengths; correct it")
        return np.array([by_text[text] for text in texts], np.float32)[: len(characters)]

    def _computed(self, batch: list[str]) -> tuple[Floats32, int]:
        with _in_one_sentence(f"the encoder {self.name} failed on {len(batch):,} texts"):
            returned, cut = self.compute(batch)
        return checked_vectors(self.name, batch, returned), cut

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in self._NOT_PICKLED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=Lock())


class FunctionEncoder(BatchEncoder):
    """A Python function of a list of texts that returns an array of shape (n, d)."""

    def __init__(self, function: Any) -> None:
        super().__init__(function.__name__ if isroutine(function) else type(function).__name__)
        self._function = function

    @property
    def _identity(self) -> Hashable:
        return id(self._function)

    def compute(self, texts: list[str]) -> tuple[Any, int]:
        return self._function(texts), 0


class FolderEncoder(BatchEncoder):
    """An encoder of a library, which opens the files of a folder when it is first used."""

    def __init__(self, folder: Path, name: str, reference: str, file: str = "") -> None:
        super().__init__(name, folder_digest(folder, file), reference)
        self.folder, self.file = str(folder), file
        self._stamp: tuple[object, ...] = ()  #: When the digest was compared last

    def _computed(self, batch: list[str]) -> tuple[Floats32, int]:
        """Vectors of length 1; InputError if the files are not those of the digest any more."""
        (vectors, cut), folder = super()._computed(batch), Path(self.folder)
        lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
        if (stamp := _stamp(folder, self.reference)) != self._stamp:
            if folder_digest(folder, self.file) != self.digest:
                raise InputError(f"the files of the encoder {self.name} have changed; start again")
            self._stamp = stamp
        return (vectors / np.maximum(lengths, 1e-300)).astype(np.float32), cut


class SentenceEncoder(FolderEncoder):
    """A folder of sentence-transformers."""

    @cached_property
    def _model(self) -> Any:
        return library_of("sentence_transformers").SentenceTransformer(self.folder)

    def compute(self, texts: list[str]) -> tuple[Any, int]:
        model = self._model
        lengths = map(len, model.tokenizer(texts, verbose=False)["input_ids"])
        cut = sum(length > (model.max_seq_length or length) for length in lengths)
        return model.encode(texts, batch_size=len(texts), show_progress_bar=False), cut


class OnnxEncoder(FolderEncoder):
    """A folder with tokenizer.json and a model: its file, window (0: unknown), and if states are averaged."""

    def __init__(self, folder: Path, name: str, reference: str, model: tuple[str, int, bool]) -> None:
        super().__init__(folder, name, reference, model[0])
        _, self.window, self.mean = model

    @cached_property
    def _parts(self) -> tuple[Any, int, Any]:
        """Tokenizer, largest number of tokens, and session of the model."""
        state = tokenizer_state(_file_content(Path(self.folder)), special=True)
        tokenizer = library_of("tokenizers").Tokenizer.from_str(json.dumps(state))
        window = self.window or (tokenizer.truncation or {}).get("max_length", WINDOW)
        tokenizer.enable_padding(**(tokenizer.padding or {}) | {"length": None, "pad_to_multiple_of": None})
        runtime = library_of("onnxruntime")
        providers = runtime.get_available_providers()
        return tokenizer, window, runtime.InferenceSession(f"{self.folder}/{self.file}", providers=providers)

    def compute(self, texts: list[str]) -> tuple[Any, int]:
        tokenizer, window, session = self._parts
        tokenizer.enable_truncation(window)
        rows = tokenizer.encode_batch(texts)
        mask = np.array([row.attention_mask for row in rows], np.int64)
        inputs = {
            "input_ids": np.array([row.ids for row in rows], np.int64),
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(mask),
        }
        states = session.run(None, {node.name: inputs[node.name] for node in session.get_inputs()})[0]
        shares = mask if self.mean else np.eye(1, mask.shape[1], dtype=np.int64)
        if states.ndim == 3:
            states = (states * shares[..., None]).sum(axis=1) / np.maximum(shares.sum(axis=1), 1)[:, None]
        # `Encoding.overflowing` would tell, but is empty in some versions of tokenizers, such as 0.23.1.
        tokenizer.no_truncation()
        full = [text for text, size in zip(texts, mask.sum(axis=1), strict=True) if size >= window]
        return states, sum(sum(row.attention_mask) > window for row in tokenizer.encode_batch(full))


def checked_vectors(name: str, texts: Sequence[str], returned: object) -> Floats32:
    """Vectors of texts as float32; InputError if an encoder returned anything else."""
    vectors = None
    with suppress(TypeError, ValueError), np.errstate(over="ignore"):
        raw = np.asarray(returned)
        vectors = raw.astype(np.float32) if raw.dtype.kind in "fiub" else None
    if vectors is None or vectors.ndim != 2 or len(vectors) != len(texts) or not vectors.shape[1]:
        shape = "" if vectors is None else f" of shape {vectors.shape}"
        raise InputError(
            f"the encoder {name} returned {type(returned).__name__}{shape} for {len(texts):,} texts; it must "
            f"return an array of numbers of shape ({len(texts)}, d)"
        )
    if (i := first_true(~np.isfinite(vectors).all(axis=1))) is not None:
        raise InputError(
            f"the encoder {name} returned a number that is not finite for the text {shorten(texts[i])}; it "
            "must return finite numbers for every text"
        )
    return vectors


def load_encoder(encoder: object, download: bool = True) -> TextEncoder:
    """The encoder of a folder, of a package or the Hugging Face hub by its name, or of a Python function.

    Without `download`, a name is looked up among the encoders that are on this computer.
    """
    if isinstance(encoder, TextEncoder):
        return encoder
    if not isinstance(encoder, str | os.PathLike):
        return FunctionEncoder(encoder)
    folder, name = Path(os.path.expanduser(encoder)), str(encoder)
    if name in PACKAGES:
        if (place := packaged(name)) is None:
            how = f'in a checkout, pip install ".[encoders]" ./wheels/{PACKAGES[name]}'
            how = f"{how}, which computes its vectors for some minutes"
            raise InputError(f"the encoder {name} is a package that is not installed: {how}")
        return _load_folder(place, _stamp(place, name), name, name)
    there = os.path.exists(folder)  # False, too, for a name that no file can have
    if there and not folder.is_dir():
        raise InputError(f"the encoder {encoder} is a file; name its folder")
    folder = folder.resolve() if there else _downloaded(name, download)
    short, reference = (folder.name, str(folder)) if there else (name, name)
    return _load_folder(folder, _stamp(folder, name), short, reference)


def packaged(name: str) -> Path | None:
    """Folder of an encoder that is a package; None if it is not installed."""
    spec = find_spec(f"textsvm_{PACKAGES[name]}")
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def advice(texts: Sequence[str], names: Collection[str] = ()) -> str:
    """Advice on the English encoder if it is installed: for few texts, or if used (`names`) against it."""
    is_used = "encoder:english" in names
    if not (is_used or (not names and len(texts) <= FEW_TEXTS)) or (folder := packaged("english")) is None:
        return ""
    vocabulary = unambiguous_json(_file_content(folder))["model"]["vocab"]
    words = [word for text in texts[:FEW_TEXTS] for word in text[:500].lower().split() if word.isalpha()]
    n_english = sum(word in vocabulary for word in words)
    if is_used:
        foreign = "the encoder english is for English, and the texts seem to be in another language"
        return foreign * (n_english < ENGLISH * len(words))
    return "with few labels an encoder often helps: --encoder english" * (n_english > ENGLISH * len(words))


def _downloaded(name: str, download: bool) -> Path:
    """Folder of an encoder of the Hugging Face hub, which is downloaded if it is not there."""
    if not re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", name):
        how = "put its folder there again, or beside the model file"
        how = f"name {', '.join(PACKAGES)}, its folder, or owner/name of the hub" if download else how
        raise InputError(f"the encoder {name} is not there; {how}")
    hub = library_of("huggingface_hub")
    try:
        patterns = ["*.json", "*.txt", "*.model", "*.safetensors"]
        return Path(hub.snapshot_download(name, allow_patterns=patterns, local_files_only=not download))
    except Exception as error:
        problem = (
            f"there is no folder {name}, and the hub gives no such encoder ({type(error).__name__}); name a "
            "folder, or connect to the Hugging Face hub"
        )
        first = f"download the encoder {name} first, such as by Encoder({name!r})(['text'])"
        raise InputError(problem if download else f"loading a model downloads nothing; {first}") from error


@lru_cache(maxsize=4)
def _load_folder(path: Path, stamp: tuple[object, ...], name: str, reference: str) -> TextEncoder:
    """The encoder of a folder whose files have names, times and sizes `stamp`."""
    try:
        for place in (path, path / "0_StaticEmbedding"):
            if (place / "model.safetensors").is_file():
                with safe_open(place / "model.safetensors", "numpy") as file:
                    names = set(file.keys())
                if names & {"embeddings", "embedding.weight"}:
                    return _static_of(place, name)
        if (path / "model.onnx").is_file():
            return OnnxEncoder(path, name, reference, ("model.onnx", 0, True))
        if (path / "modules.json").is_file():
            model = _onnx_of(path)
            parts = path, name, reference
            return SentenceEncoder(*parts) if model is None else OnnxEncoder(*parts, model)
    except (OSError, SafetensorError, ValueError, TypeError, KeyError, IndexError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"the encoder {reference} is damaged: {error}; take another copy of it") from error
    raise InputError(
        f"{reference} is no encoder: it has neither model.safetensors of model2vec, nor model.onnx, nor "
        "modules.json of sentence-transformers"
    )


def _onnx_of(folder: Path) -> tuple[str, int, bool] | None:
    """File, window and pooling of a folder of sentence-transformers whose vectors need no PyTorch."""
    names = ("modules", "sentence_bert_config", "config_sentence_transformers", "1_Pooling/config")
    paths = [folder / f"{name}.json" for name in names]
    with suppress(OSError, ValueError, TypeError, LookupError, AttributeError):
        modules, own, prompts, pooling = (unambiguous_json(path.read_bytes()) for path in paths)
        kinds = [module["type"].rpartition(".")[2] for module in modules]
        mean = _MEANS[*(way for way, used in pooling.items() if way[:13] == "pooling_mode_" and used)]
        files = [f"onnx/{file}" for file in ONNX_FILES if (folder / "onnx" / file).is_file()]
        tokenizer_state(_file_content(folder), special=True)
        other = modules[0]["path"] or own.get("do_lower_case") or prompts.get("default_prompt_name")
        usual = kinds[:2] == ["Transformer", "Pooling"] and {*kinds[2:]} <= {"Normalize"} and not other
        if usual and find_spec("onnxruntime"):
            return files[0], int(own["max_seq_length"]), mean
    return None


def _static_of(folder: Path, name: str) -> StaticEncoder:
    if 3 * (size := (folder / "model.safetensors").stat().st_size) > host_memory.free():
        raise InputError(f"the encoder {name} takes {3 * size:,} bytes of memory, more than are free")
    tokenizer, arrays = _file_content(folder), arrays_file.load_file(folder / "model.safetensors")
    rows = arrays["embeddings"] if "embeddings" in arrays else arrays["embedding.weight"]
    if (mapping := arrays.get("mapping")) is not None:
        used = np.unique(mapping)  # tokens may share a vector, but no vector is without a token
        if not np.array_equal(used, np.arange(len(rows))) or len(mapping) > _MOST_SHARED * len(rows):
            raise ValueError(f"its mapping does not name {len(rows):,} vectors, each at least once")
        rows = rows[mapping.astype(np.int64)]
    scale = {"scale": arrays["weights"]} if "weights" in arrays else {}
    content = {"embeddings": rows, "tokenizer": np.frombuffer(tokenizer, np.uint8)}
    return StaticEncoder(content | scale, name)


def _file_content(folder: Path) -> bytes:
    """The bytes of tokenizer.json; ValueError if it is no file, such as a device, or too large."""
    path = folder / "tokenizer.json"
    if path.stat().st_size > _MOST_JSON or not path.is_file():
        raise ValueError(f"tokenizer.json is not a file of at most {_MOST_JSON:,} bytes")
    return path.read_bytes()


def _stamp(folder: Path, reference: str) -> tuple[object, ...]:
    """Names, times and sizes of the files of an encoder."""
    try:
        files = [(path, path.stat()) for path in [folder, *_files(folder)]]
    except OSError as error:
        raise InputError(f"the encoder {reference} cannot be read: {error}; correct its folder") from error
    return tuple((str(path), s.st_ctime_ns, s.st_mtime_ns, s.st_ino, s.st_size) for path, s in files)


def _files(folder: Path) -> list[Path]:
    """The files of an encoder; InputError for a link to a folder, whose files would not be among them."""
    paths = sorted(folder.rglob("*"), key=Path.as_posix)  # in the same order on any system
    if links := [path for path in paths if path.is_symlink() and path.is_dir()]:
        raise InputError(f"{links[0]} is a link to a folder; put the folder in its place")
    return [path for path in paths if path.is_file()]


def folder_digest(folder: Path, used: str = "") -> str:
    """Digest of the places and contents of files, of the form of vectors, and of the file that is used."""
    files = [(path.relative_to(folder).as_posix(), path) for path in _files(folder)]
    lines = [f"{place}\0{_digest(path.read_bytes())}" for place, path in files if not _IGNORED.search(place)]
    return _digest(b"length 1", *map(str.encode, [*lines, used]))


# Tokenizers: only components whose work is bounded, so that no tokenizer.json ends the process.

_MOST_JSON = 1 << 26  #: Bytes of tokenizer.json
_MOST_TOKEN = 2048  #: Symbols of a token
_MOST_WORD = 400  #: Symbols of a word of WordPiece, which takes quadratic time
_MOST_AFFIX = 16  #: Symbols that a model adds to tokens
_MOST_PARTS = 50  #: Components of a part
_MOST_SPECIAL = 4000  #: Symbols of the description of special tokens
_MOST_SHARED = 256  #: Tokens for each vector, on average
_MOST_NUMBER = 1e15  #: Largest number of a vector, so that products of sums are finite
#: Bytes that a symbol takes if it becomes 18 symbols, as U+FDFA does, and the bytes that are not compared.
_SYMBOL_BYTES, _CHECKED_BYTES = 2000, 1 << 30
_SUPPORTED = {
    *("BertNormalizer", "BertPreTokenizer", "ByteLevel", "CharDelimiterSplit", "Digits", "Lowercase"),
    *("Metaspace", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Precompiled", "Prepend", "Punctuation", "Replace"),
    *("Split", "Strip", "StripAccents", "UnicodeScripts", "Whitespace", "WhitespaceSplit"),
}
_ENDING = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_ENGLISH = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
#: Regular expressions of GPT-2, CLIP, GPT-4 and Llama 3, Qwen, and of spaces: each takes linear time.
_EXPRESSIONS = {
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
    *(f"{_ENGLISH}{{1,3}}|{_ENDING}", f"{_ENGLISH}|{_ENDING}", r"\s+", " {2,}"),
}


@contextmanager
def _in_one_sentence(problem: str) -> Iterator[None]:
    """Raise exceptions of a library as InputError, also its PanicException, which is no Exception."""
    try:
        yield
    except InputError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise InputError(f"{problem} ({type(error).__name__}: {error}); correct it") from error


def tokenizer_state(content: bytes, special: bool = False) -> Json:
    """Parts of tokenizer.json that are used; ValueError unless their work is known and bounded.

    With `special` also the parts that add special tokens, cut and pad.
    """
    state = unambiguous_json(content)
    names = ["normalizer", "pre_tokenizer", *(["post_processor", "truncation", "padding"] * special)]
    parts = {"version": "1.0", "model": state["model"], "added_tokens": state.get("added_tokens") or []}
    parts |= {name: state.get(name) for name in names}
    for name, inner in (("normalizer", "normalizers"), ("pre_tokenizer", "pretokenizers")):
        flat = components(parts[name], inner)
        # Equal components would multiply the length of a text.
        if len({*map(str, flat)}) < len(flat) or len(flat) > _MOST_PARTS:
            raise ValueError(f"its {name} has too many components, or equal ones")
        for component in flat:
            _check_component(component)
    template = str(parts.get("post_processor"))
    if len(template) > _MOST_SPECIAL or template.count("'Sequence'") > 4:  # of a text, a pair, and around
        raise ValueError("its post_processor adds too many tokens")
    _check_model(parts["model"], [token["content"] for token in parts["added_tokens"]])
    return parts


def components(part: Json | None, inner: str) -> list[Json]:
    """Components of a part, in their order."""
    if part is None or part["type"] != "Sequence":
        return [] if part is None else [part]
    return [component for nested in part[inner] for component in components(nested, inner)]


def _check_component(part: Json) -> None:
    """ValueError for other components, and for parameters that make many symbols of a symbol."""
    kind, pattern, content = part["type"], part.get("pattern", {}), part.get("content", "")
    if kind not in _SUPPORTED or pattern.get("Regex", " {2,}") not in _EXPRESSIONS:
        raise ValueError(f"its {kind} {pattern.get('Regex', '')} is not supported")
    old = pattern.get("String", " ")
    spaced = content == f" {old} " and old in [*punctuation]  # as model2vec does
    if not old or (len(content) > max(1, len(old)) and not spaced) or len(part.get("prepend", "")) > 1:
        raise ValueError(f"its {kind} makes texts longer than supported")
    if kind == "Precompiled":
        data = b64decode(part["precompiled_charsmap"], validate=True)
        _check_charsmap(data)
        part["precompiled_charsmap"] = b64encode(data).decode()  # the library is stricter


def _check_model(model: Json, added: list[str]) -> None:
    keys = {"merges": "BPE", "unk_id": "Unigram", "continuing_subword_prefix": "WordPiece"}
    kind = model.setdefault("type", next((keys[key] for key in keys if key in model), "WordLevel"))
    tokens = [*(dict(model["vocab"]) if kind == "Unigram" else model["vocab"])]
    unknown, prefix = model.get("unk_token"), model.get("continuing_subword_prefix") or ""
    if kind == "Unigram":
        unknown = tokens[model["unk_id"]] if len(tokens) == len(model["vocab"]) else None
    if not (unknown in model["vocab"] or kind == "Unigram" or (kind == "BPE" and unknown is None)):
        raise ValueError(f"its unknown token {unknown} is no token")
    if max(map(len, [*tokens, *added]), default=0) > _MOST_TOKEN:
        raise ValueError(f"it has a token of more than {_MOST_TOKEN} symbols")
    longest_prefix = 0 if kind == "BPE" else _MOST_AFFIX
    suffix = model.get("end_of_word_suffix") or ""
    if len(prefix) > longest_prefix or len(suffix) > _MOST_AFFIX:
        raise ValueError("its model adds too many symbols to tokens")
    if not 0 < model.setdefault("max_input_chars_per_word", 100) <= _MOST_WORD or model.get("dropout"):
        raise ValueError(f"its model reads words of more than {_MOST_WORD} symbols, or cuts them at random")


def double_array(data: bytes) -> tuple[Ints, Ints]:
    """Units of a map of SentencePiece, and the places that give those of children.

    It has a number of bytes, a double array (Darts) of so many bytes, and images that end with zeros.
    """
    units = np.frombuffer(data, "<u4", int.from_bytes(data[:4], "little") // 4, 4).astype(np.int64)
    return units, np.arange(len(units)) ^ ((units >> 10) << ((units & 512) >> 6))


def _check_charsmap(data: bytes) -> None:
    """ValueError if a map of SentencePiece leaves its tables, or has images of more than 18 symbols."""
    size, images = int.from_bytes(data[:4], "little"), b""
    if size and size % 1024 == 0:
        (units, children), images = double_array(data), data[4 + size :]
        inner = units >> 31 == 0
        starts = units.take(children[inner & (units >> 8 & 1 == 1)]) & 0x7FFFFFFF  # IndexError outside
        first = np.frombuffer(images + b"\0", np.uint8) & 0xC0 != 0x80  # byte of a symbol
    if not images or (children[inner] >= len(units)).any() or not first.take(starts).all():
        raise ValueError("its Precompiled map is damaged")
    if max(map(len, images.decode().split("\0"))) > _NFKC:
        raise ValueError(f"its Precompiled map makes more than {_NFKC} symbols of a symbol")
