"""Models with a static encoder outside of Python: texts are split as by the library tokenizers."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from encoders import FOOD, MARKS, static_folder, topics
from encoders import tokenizer as json_of
from exported import FORMS, CModel, OnnxModel, decides_as_python, needs_gcc, random_text
from test_export import HOSTILE

import textsvm
from textsvm import Encoder, InputError, Spectrum
from textsvm.apps.export.binary import VERSION, pack, with_checksum
from textsvm.apps.export.characters import IGNORED, KEEPS, word_piece
from textsvm.apps.export.plain import PlainModel, plain_model
from textsvm.kernels.contract import FeatureTable, FeatureTerm
from textsvm.kernels.inputs import TextForm
from textsvm.text.documents import View
from textsvm.text.encoders import StaticEncoder

tokenizers = pytest.importorskip("tokenizers")
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
NORMALISERS = [(True, True), (True, False), (False, True), (False, False)]  # lower case, accents removed


def whole(text: str) -> str:
    """A text without lone surrogates."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


TEXTS = [
    *map(whole, HOSTILE),
    "[MASK] [SEP]x", "x" * 100, "x" * 101 + " y", "a" + "\u302e\u1b44" * 49, "\ue000a b",
    "中a中", "\U000f0000b\U0010fffdc", "a\u0085b\u2028c", "Ǆ ǅ İ ẞ", *FOOD,
]  # fmt: skip


def odd_texts(n: int) -> list[str]:
    """Texts of characters whose order matters, of removed ones and of letters."""
    letters = word_piece(json_of([*SPECIAL, "a"]).encode()).letters
    odd = [*np.flatnonzero(letters.orders), 0x302E, 0x1B44, *np.flatnonzero(letters.classes & IGNORED)[:60]]
    odd += [*np.flatnonzero(letters.classes & KEEPS)[:40], *map(ord, "aeé中각ÅΣİ .,-" * 3)]
    rng = np.random.default_rng(0)
    return ["".join(map(chr, rng.choice(odd, rng.integers(1, 12)))) for _ in range(n)]


def encoder_of(texts: list[str], lower: bool, accents: bool) -> StaticEncoder:
    """An encoder with random rows: a token for each character of some texts, for some pairs and words."""
    form = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True}
    form |= {"lowercase": lower, "strip_accents": accents}
    library = tokenizers.Tokenizer.from_str(json_of([*SPECIAL, "a"], normalizer=form))
    chars = sorted({*library.normalizer.normalize_str("".join(texts))} - {" "})
    tokens = [*SPECIAL, *FOOD, *chars, *(f"##{char}" for char in chars)]
    tokens += [f"##{a}{b}" for a in chars[::7] for b in chars[::9]]
    rows = np.random.default_rng(0).normal(size=(len(tokens), 3)).astype(np.float32)
    content = np.frombuffer(json_of(tokens, normalizer=form).encode(), np.uint8)
    return StaticEncoder({"embeddings": rows, "tokenizer": content}, "random")


@lru_cache
def random_model(lower: bool = True, accents: bool = True) -> tuple[StaticEncoder, PlainModel]:
    """A model whose decision values are the mean vector, so that they differ for different tokens."""
    encoder = encoder_of([*TEXTS, *odd_texts(300)], lower, accents)
    n, ones = len(encoder.vocabulary), np.ones(len(encoder.vocabulary), np.int64)
    table = FeatureTable(
        np.zeros((1, 1), np.int64), 1, np.ones(1), 1, np.arange(n)[:, None], None, ones,
        encoder.embeddings.astype(float),
    )  # fmt: skip
    view = View(keep_case=True, encoder=encoder)
    term = FeatureTerm(
        "random", view, np.array([*encoder.vocabulary], object), "count", False, [table], mean=True
    )
    form = TextForm(normalise="none", punctuation=True, max_length=None)
    parts = ("classes", form, [term], np.zeros(3), "identity", ["a", "b", "c"], None, None, (), None)
    plain = PlainModel(*parts, "encoder", {}, [])
    return encoder, plain


def wrong_texts(encoder: StaticEncoder, texts: list[str], values: np.ndarray) -> list[str]:
    """The texts whose values are not the mean vectors by the library."""
    tokens = encoder.tokenise(texts)
    expected = [
        encoder.embeddings[own].astype(float).mean(axis=0) if len(own) else np.zeros(3) for own in tokens
    ]
    return [
        ascii(text) for text, a, b in zip(texts, values, expected, strict=True) if abs(a - b).max() > 1e-9
    ]


@needs_gcc
@pytest.mark.parametrize(("lower", "accents"), NORMALISERS)
def test_tokens_in_c(lower, accents):
    encoder, plain = random_model(lower, accents)
    texts = [*TEXTS, *odd_texts(2000)]
    exported = CModel(pack(plain))
    assert not wrong_texts(encoder, texts, np.array([exported.decide(text) for text in texts]))


@needs_gcc
@pytest.mark.slow
def test_tokens_of_every_code_point_and_20_000_texts_in_c():
    encoder, plain = random_model()
    exported, rng = CModel(pack(plain)), np.random.default_rng(0)
    texts = [
        "a" + chr(point) + "b " + chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000
    ]
    texts += [whole(random_text(rng)) for _ in range(20_000)]
    assert not wrong_texts(encoder, texts, np.array([exported.decide(text) for text in texts]))


@pytest.mark.parametrize(("lower", "accents"), NORMALISERS[::3])
def test_tokens_in_onnx(lower, accents):
    encoder, plain = random_model(lower, accents)
    texts = [
        *TEXTS,
        *odd_texts(300),
        *(f"a{chr(point)}b" for point in range(1, 0x30000, 371) if point >> 11 != 27),
    ]
    assert not wrong_texts(encoder, texts, OnnxModel(plain)(texts)["decision"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(static_folder(tmp_path_factory.mktemp("encoder") / "tiny"))


@pytest.fixture(scope="module")
def model(folder):
    texts, labels = topics(120)
    texts = [text + " ".join(MARKS[i % 20 : i % 20 + 2]) for i, text in enumerate(texts)]
    kernel = 0.7 * Spectrum((1, 3), "log", idf=True) + 0.3 * Encoder(folder)
    return textsvm.SVC(kernel).fit([*texts, "", "\u3000"], [*labels, "road", "food"])


def near(actual: Any, expected: Any) -> bool:
    return bool(np.all(np.abs(np.asarray(actual) - expected) <= 1e-5 * np.maximum(1, np.abs(expected))))


@needs_gcc
@pytest.mark.parametrize("task", ["alone", "several", "calibrated", "number", "cased"])
def test_models_in_c(task, folder, tmp_path):
    texts, labels = topics(60)
    if task == "alone":
        model = textsvm.SVC(Encoder(folder)).fit(texts, labels)
    elif task == "several":
        model = textsvm.SVC(Encoder(folder)).fit([*texts, *MARKS], [*labels, *["mark"] * len(MARKS)])
    elif task == "calibrated":
        model = textsvm.CalibratedSVC(textsvm.SVC(Encoder(folder))).fit(texts, labels)
    elif task == "number":
        model = textsvm.SVR(Encoder(folder)).fit(texts, np.arange(60.0))
    else:
        cased = static_folder(tmp_path / "cased", lowercase=False)
        model = textsvm.SVC(Spectrum(2) + Encoder(str(cased)), max_length=20).fit(texts, labels)
    decides_as_python("c", model, TEXTS, tmp_path, 1e-5)


@pytest.mark.parametrize("form", [pytest.param(form, marks=needs) for form, (_, needs) in FORMS.items()])
def test_every_form_decides_as_python(form, model, tmp_path):
    lone = ["lone \ud800 surrogate", "soup \udfff"] if form == "javascript" else []
    answers = decides_as_python(form, model, [*TEXTS, *lone], tmp_path, 1e-5)
    if form == "javascript":
        assert near(answers["explained"], answers["decision"])


def test_the_version_of_the_file(model):
    assert np.frombuffer(pack(plain_model(model)), np.uint32)[2] == VERSION
    older = plain_model(textsvm.SVC(Spectrum(2)).fit(["a b", "c d"], [0, 1]))
    assert np.frombuffer(pack(older), np.uint32)[2] == VERSION - 1


@needs_gcc
def test_damaged_tokenizers_with_a_right_checksum():
    _, plain = random_model()
    words = np.frombuffer(pack(plain), np.uint32)
    view = 2 * int(words[11])
    tokenizer = 2 * int(words[view + 3])
    rng, errors = np.random.default_rng(0), []
    for number in range(300):
        copy = words.copy()
        place = (
            tokenizer + int(rng.integers(11))
            if number < 200
            else 2 * int(words[tokenizer]) + int(rng.integers(15))
        )
        copy[place] = rng.choice([0, 1, 2, 5, 257, 1 << 16, 1 << 31, 0xFFFFFFFF, copy[place] ^ 4])
        exported = CModel(with_checksum(bytearray(copy.tobytes())))
        errors.append(exported.error)
        for text in TEXTS[:60] if not exported.error else []:
            exported.try_decide(text.encode())
    assert {*errors} == {0, 1}
    assert errors.count(1) > 80


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"pre_tokenizer": {"type": "Whitespace"}}, "WordPiece \\(BertNormalizer, Whitespace\\)"),
        ({"normalizer": None}, "WordPiece \\(no normalizer, BertPreTokenizer\\)"),
        ({"most": 300}, "encoder with max_input_chars_per_word = 300 cannot.* at most 256 characters"),
        ({"unknown": "soup"}, "the unknown token 'soup'"),
        ({"added": "bread"}, "the added token 'bread'"),
    ],
)
def test_tokenizers_that_cannot_be_exported(parts, message, tmp_path):
    folder = static_folder(tmp_path / "encoder")
    state = json.loads((folder / "tokenizer.json").read_text())
    state |= {name: part for name, part in parts.items() if name in state}
    state["model"] |= {
        "max_input_chars_per_word": parts.get("most", 100),
        "unk_token": parts.get("unknown", "[UNK]"),
    }
    if "added" in parts:
        added = {**state["added_tokens"][0], "content": parts["added"], "special": False}
        state["added_tokens"].append(added | {"id": state["model"]["vocab"][parts["added"]]})
    (folder / "tokenizer.json").write_text(json.dumps(state))
    model = textsvm.SVC(Encoder(str(folder))).fit(*topics(20))
    with pytest.raises(InputError, match=message):
        plain_model(model)


def test_encoders_that_cannot_be_exported(tmp_path):
    model = textsvm.SVC(Spectrum(2) + Encoder(lambda texts: [[len(text)] for text in texts])).fit(*topics(20))
    with pytest.raises(InputError, match="<lambda> has no weights of tokens to export; take a static one"):
        textsvm.export(model, tmp_path / "model.bin")
