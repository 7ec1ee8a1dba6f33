"""Hostile encoder folders: changed tokenizer.json and vectors of common tokenizers.

A case changes values and components of a tokenizer (BERT's WordPiece, Unigram with a map of SentencePiece,
BPE of bytes, words), its vectors, or bytes of its files. The encoder gives finite vectors that are the means
of the vectors of the library's tokens, or `InputError` of one printable line. The library writes nothing to
stderr, where the message of a panic would be.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
from base64 import b64encode
from contextlib import suppress
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save as tensor_bytes

from textsvm.text.documents import encode
from textsvm.text.encoders import load_encoder

from ._mutations import mutated
from ._reading import judge

Json = dict[str, Any]
D = 4
LETTERS = [*"abcdefghijklmnopqrstuvwxyz.,!▁é日"]
TEXTS = [
    "a banana, zz!",
    "",
    " ",
    "ﷺ" * 50,
    "日本 é e\u0301 İ",
    "[UNK] [SEP]",
    "z" * 3000,
    "ab " * 500,
    "\ud800a",
]
#: Components and values that are put anywhere, harmless or not.
COMPONENTS: list[Any] = [
    {"type": "Replace", "pattern": {"String": "z"}, "content": "z" * 1000},
    {"type": "Replace", "pattern": {"String": "z"}, "content": "zz"},
    {"type": "Replace", "pattern": {"String": ","}, "content": " , "},
    {"type": "Replace", "pattern": {"String": ""}, "content": "x"},
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"},
    {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": ""},
    {"type": "Replace", "normalizers": [], "pattern": {"String": "z"}, "content": "z" * 1000},
    {"type": "Prepend", "prepend": "▁"},
    {"type": "Prepend", "prepend": "a" * 100_000},
    *(
        {"type": kind}
        for kind in ("NFKC", "NFD", "Lowercase", "StripAccents", "ByteLevel", "Nmt", "BertNormalizer")
    ),
    {"type": "Strip", "strip_left": True, "strip_right": True},
    {"type": "Precompiled", "precompiled_charsmap": "AAAA"},
    {"type": "Whitespace"},
    {"type": "WhitespaceSplit"},
    {"type": "BertPreTokenizer"},
    {"type": "Digits", "individual_digits": True},
    {"type": "FixedLength", "length": 0},
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
    {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False},
    {"type": "Split", "pattern": {"Regex": "(a|aa)+$"}, "behavior": "Isolated", "invert": True},
    {
        "type": "Sequence",
        "normalizers": [{"type": "Replace", "pattern": {"String": "z"}, "content": "zz"}] * 60,
    },
    {"type": "Sequence", "pretokenizers": []},
    {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "B", "type_id": 0}}] * 9, "pair": []},
]
VALUES: list[Any] = [
    None, True, False, 0, 1, 2, 7, 33, 255, 3000, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 64, 10**400, -1, 0.5,
    1e300, "", "z", "##", "é", "日" * 20, "z" * 100_000, [], {}, [[]], [0] * 1000, {"type": "x"},
    {"String": "z"},
    {"Regex": "(z|z)*$"},
]  # fmt: skip


def charsmap(pairs: dict[bytes, str]) -> bytes:
    """A map of SentencePiece of one-byte keys."""
    units, images = np.zeros(512, "<u4"), b""
    units[0] = 256 << 10
    for key, image in pairs.items():
        # The unit of the byte: its label, a leaf at the root of the other block.
        units[256 ^ key[0]] = key[0] | 1 << 8 | ((256 ^ key[0] ^ key[0]) << 10)
        units[key[0]] = 1 << 31 | len(images)
        images += image.encode() + b"\0"
    return units.nbytes.to_bytes(4, "little") + units.tobytes() + images


@lru_cache(maxsize=1)
def tokenizers() -> list[Json]:
    """Small tokenizers of the common kinds."""
    words = ["[UNK]", "[SEP]", *LETTERS, *(f"##{c}" for c in LETTERS[:26]), "banana", "##an", "ab"]
    bert = _form(
        {"type": "WordPiece", "vocab": _ids(words), "unk_token": "[UNK]", "continuing_subword_prefix": "##",
         "max_input_chars_per_word": 100},
        {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
         "lowercase": True},
        {"type": "BertPreTokenizer"},
    )  # fmt: skip
    bert["added_tokens"] = [_added(i, token) for i, token in enumerate(words[:2])]
    spaces = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    images = {
        "type": "Precompiled",
        "precompiled_charsmap": b64encode(charsmap({b"q": "k", b"\t": " "})).decode(),
    }
    squeeze = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
    pieces = [["<unk>", 0.0], *([c, -float(i)] for i, c in enumerate([*LETTERS, "▁a", "▁banana", "an"]))]
    unigram = _form(
        {"type": "Unigram", "unk_id": 0, "vocab": pieces, "byte_fallback": False},
        {"type": "Sequence", "normalizers": [images, squeeze]},
        {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, spaces]},
    )
    of_bytes = [chr(i) for i in (*range(33, 127), *range(161, 173), *range(174, 323))]
    merges = [["a", "n"], ["an", "an"], ["Ġ", "b"]]
    bpe = _form(
        {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
         "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False,
         "vocab": _ids([*of_bytes, "Ġ", *("".join(m) for m in merges)]),
         "merges": merges},
        {"type": "NFC"},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    )  # fmt: skip
    llama = _form(
        {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "merges": [["▁", "a"]],
         "vocab": _ids(["<unk>", *(f"<0x{i:02X}>" for i in range(256)), *LETTERS, "▁a"])},
        {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
        None,
    )  # fmt: skip
    level = _form(
        {"type": "WordLevel", "vocab": _ids(words), "unk_token": "[UNK]"},
        {"type": "NFKC"},
        {"type": "Whitespace"},
    )
    return [bert, unigram, bpe, llama, level]


def _form(model: Json, normalizer: Any, pre_tokenizer: Any) -> Json:
    rest = dict.fromkeys(("truncation", "padding", "post_processor", "decoder"))
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "model": model,
    } | rest


def _ids(tokens: list[str]) -> dict[str, int]:
    return {token: i for i, token in enumerate(dict.fromkeys(tokens))}


def _added(number: int, content: str, special: bool = True) -> Json:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": content, **flags, "special": special}


def run(seed: int) -> None:
    """One case; AssertionError with the case if the promise is broken."""
    rng = random.Random(seed)
    state = deepcopy(tokenizers()[rng.randrange(5)])
    rows = np.random.default_rng(seed).normal(size=(len(state["model"]["vocab"]), D)).astype(np.float32)
    arrays, said = {"embeddings": rows}, []
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        with suppress(AttributeError, KeyError, TypeError):  # an earlier change took the part away
            said.append(_change_arrays(arrays, rng) if rng.random() < 0.15 else _change(state, rng))
    content = json.dumps(state).encode()
    if rng.random() < 0.1:
        content = mutated(rng, [content], [b'"model":{}', b'"vocab":', b"\\ud800", b"null"])
    case = f"seed {seed}: {'; '.join(said)}"
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as messages:
        Path(folder, "tokenizer.json").write_bytes(content)
        Path(folder, "model.safetensors").write_bytes(tensor_bytes(arrays))
        if rng.random() < 0.02:
            Path(folder, "tokenizer.json").unlink()
            Path(folder, "tokenizer.json").symlink_to("/dev/zero")
        saved = os.dup(2)
        os.dup2(messages.fileno(), 2)
        try:
            judge(lambda: _encode(Path(folder)), case)
        finally:
            os.dup2(saved, 2)
            os.close(saved)
        messages.seek(0)
        assert not (text := messages.read()), f"{case}: written to stderr: {text!r:.300}"


def _encode(folder: Path) -> None:
    """Load an encoder, and compare its vectors with the means of the library's tokens."""
    encoder: Any = load_encoder(str(folder))
    texts = [text.replace("\ud800", "\ufffd") for text in TEXTS]
    vectors = encoder.encode(encode(texts))
    assert np.isfinite(vectors).all(), "vectors that are not finite"
    library = encoder._tokenizer
    for text, vector in zip(texts, vectors, strict=True):
        ids = [i for i in library.encode(text, add_special_tokens=False).ids if i != encoder.unknown]
        expected = encoder.embeddings[ids].astype(float).mean(axis=0) if ids else np.zeros(vectors.shape[1])
        size = max(1e-30, np.abs(encoder.embeddings).max())
        assert np.abs(vector - expected).max() <= 1e-4 * size, f"{vector} and not {expected} of {text!r:.80}"
        encoder.spans(text)


def _change_arrays(arrays: dict[str, Any], rng: random.Random) -> str:
    n, way = len(arrays["embeddings"]), rng.randrange(7)
    if way == 0:
        arrays["embeddings"] = arrays["embeddings"][: rng.randrange(n + 1)]
    elif way == 1:
        arrays["embeddings"] = np.concatenate([arrays["embeddings"]] * 2)
    elif way in (2, 3):
        numbers = np.arange(n)
        numbers[rng.randrange(n)] = rng.choice((-1, 0, n, 1 << 40))
        arrays["mapping"] = numbers if way == 2 else numbers[: rng.randrange(n)]
    elif way == 4:
        arrays["weights"] = np.ones(rng.choice((1, n, n + 1)), rng.choice((np.float32, np.float64, np.int64)))
    else:
        arrays["embeddings"] = arrays["embeddings"] * rng.choice((np.nan, np.inf, 1e30, -1e14))
    return f"arrays changed ({way})"


def _change(state: Json, rng: random.Random) -> str:
    places = _places({k: v for k, v in state.items() if k != "model"}) + _places({"model": state["model"]})
    small = [
        place for place in places if not isinstance(place[1], int) and place[1] not in state["model"]["vocab"]
    ]
    way, (holder, key) = rng.randrange(6), rng.choice(small if rng.random() < 0.8 else places)
    if way == 0:
        part = rng.choice(("normalizer", "pre_tokenizer", "post_processor"))
        state[part] = deepcopy(rng.choice(COMPONENTS))
        return f"{part}: {state[part]!s:.80}"
    if way == 1:
        inner = rng.choice((("normalizer", "normalizers"), ("pre_tokenizer", "pretokenizers")))
        parts = [state[inner[0]], *(deepcopy(rng.choice(COMPONENTS)) for _ in range(rng.randint(1, 3)))]
        state[inner[0]] = {"type": "Sequence", inner[1]: [part for part in parts if part]}
        return f"{inner[1]}: {parts!s:.200}"
    if way == 2:
        tokens = state["model"]["vocab"]
        if isinstance(tokens, dict) and tokens:
            tokens[rng.choice([*tokens, "new", "a" * 600])] = rng.choice(
                (-1, 0, 1, len(tokens), 3000, (1 << 32) - 1)
            )
        return "a token"
    if way == 3:
        content = rng.choice(("a", "ana", "日", "[UNK]", " ", "", "z" * 2000, ". "))
        state["added_tokens"].append(_added(rng.randrange(400), content, rng.random() < 0.5))
        return f"added token {content:.20}"
    if isinstance(holder, dict) and holder.get(key) is state.get(key) and key in state:
        holder = state
    holder[key] = deepcopy(rng.choice(VALUES + COMPONENTS))
    return f"{key!s:.40}: {holder[key]!s:.60}"


def _places(value: Any) -> list[tuple[Any, Any]]:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    return [place for key in keys for place in ((value, key), *_places(value[key]))]
