"""A tiny static encoder in model2vec's form, and texts whose classes are meanings of its tokens."""

import json
import random
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

#: Words of two topics; no word has letters of another in common but by chance.
FOOD = ["bread", "soup", "apple", "rice", "cheese", "lunch", "cook", "salt", "meal", "kitchen"]
ROAD = ["car", "wheel", "train", "bus", "motor", "drive", "lane", "truck", "bike", "fuel"]
PIECES = [
    *"abcdefghijklmnopqrstuvwxyz0123456789",
    *(f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz0123456789"),
]
MARKS = list(".,;:!?'\"()-/#@&*+=%$<>[]_~")
OTHER = ["the", "a", "of", "is", "and", "my", "your", "##ing", "##ed", "##s", "un", "##able", "é", "日", "本"]


def vocabulary():
    """200 tokens."""
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *FOOD, *ROAD, *PIECES, *MARKS, *OTHER]
    tokens = list(dict.fromkeys(tokens))
    return tokens + [f"word{i}" for i in range(200 - len(tokens))]


def tokenizer(tokens, lowercase=True, **parts):
    """tokenizer.json of BERT's tokenizer; `parts` replaces parts of it."""
    form = {
        "version": "1.0",
        "truncation": {"max_length": 8, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
        "padding": None,
        "added_tokens": [
            {"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": True}
            for i, token in enumerate(tokens[:5])
        ],
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                       "strip_accents": None, "lowercase": lowercase},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": {token: i for i, token in enumerate(tokens)}},
    }  # fmt: skip
    return json.dumps(form | parts)


def static_folder(folder, d=16, seed=0, lowercase=True, **arrays):
    """Write the folder of an encoder in which words of a topic are near; `arrays` replaces its arrays."""
    folder, tokens, rng = Path(folder), vocabulary(), np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    rows = rng.normal(size=(len(tokens), d)) / np.sqrt(d)
    for sign, words in ((1, FOOD), (-1, ROAD)):
        rows[[tokens.index(word) for word in words], 0] = 3 * sign
    save_file({"embeddings": rows.astype(np.float16), **arrays}, folder / "model.safetensors")
    (folder / "tokenizer.json").write_text(tokenizer(tokens, lowercase))
    (folder / "config.json").write_text(json.dumps({"model_type": "model2vec", "normalize": True}))
    return folder


def topics(n, seed=0, words=3):
    """n texts of few words, and their topics; rarely a word of the test is in a training text."""
    rng = random.Random(seed)
    labels = [("food", "road")[i % 2] for i in range(n)]
    texts = [" ".join(["the", *rng.choices(FOOD if y == "food" else ROAD, k=words)]) for y in labels]
    return texts, labels


def onnx_folder(folder, d=8, seed=0, window=6):
    """Write an ONNX model whose last hidden states are rows of a table, and its tokenizer."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    folder, tokens = Path(folder), vocabulary()
    folder.mkdir(parents=True, exist_ok=True)
    table = np.random.default_rng(seed).normal(size=(len(tokens), d)).astype(np.float32)
    table[[tokens.index(word) for word in FOOD], 0] += 4
    shapes = [helper.make_tensor_value_info(name, TensorProto.INT64, ["n", "t"]) for name in ("input_ids",)]
    states = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["n", "t", d])
    node = helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])
    graph = helper.make_graph([node], "encoder", shapes, [states], [numpy_helper.from_array(table, "table")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, folder / "model.onnx")
    cut = {"max_length": window, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}
    (folder / "tokenizer.json").write_text(tokenizer(tokens, truncation=cut))
    return folder, table
