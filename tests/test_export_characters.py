"""Models with a static encoder outside of Python: texts are split as by the library tokenizers."""

from __future__ import annotations

import base64
import json
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from encoders import FOOD, MARKS, static_folder, topics
from encoders import tokenizer as json_of
from exported import (
    FORMS,
    CModel,
    OnnxModel,
    decides_as_python,
    in_node,
    needs_gcc,
    needs_node,
    panel_rows,
    random_text,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refuses
from safetensors.numpy import save_file
from test_export import HOSTILE

import textsvm
from textsvm import Encoder, InputError, Spectrum
from textsvm.apps.export.binary import VERSION, pack, with_checksum
from textsvm.apps.export.files import write_plain_model
from textsvm.apps.export.plain import PlainModel, plain_model
from textsvm.kernels.contract import FeatureTable, FeatureTerm
from textsvm.kernels.inputs import TextForm
from textsvm.text.characters import IGNORED, KEEPS, exported_tokenizer
from textsvm.text.documents import View
from textsvm.text.encoders import StaticEncoder
from textsvm.text.normal_form import normalise

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
    letters = exported_tokenizer(json_of([*SPECIAL, "a"]).encode()).letters
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
    return encoder, plain_of(encoder, "none")


def plain_of(encoder: StaticEncoder, normal_form: str) -> PlainModel:
    """A model whose decision values are the mean vector of the encoder."""
    n, ones = len(encoder.vocabulary), np.ones(len(encoder.vocabulary), np.int64)
    table = FeatureTable(
        np.zeros((1, 1), np.int64), 1, np.ones(1), 1, np.arange(n)[:, None], None, ones,
        encoder.embeddings.astype(float),
    )  # fmt: skip
    view = View(keep_case=True, encoder=encoder)
    term = FeatureTerm(
        "random", view, np.array([*encoder.vocabulary], object), "count", False, [table], mean=True
    )
    form = TextForm(normalise=normal_form, punctuation=True, max_length=None)
    parts = ("classes", form, [term], np.zeros(3), "identity", ["a", "b", "c"], None, None, (), None)
    return PlainModel(*parts, "encoder", {}, [])


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
    assert np.frombuffer(pack(older), np.uint32)[2] == VERSION - 2


@needs_gcc
@pytest.mark.parametrize("unigram", [False, True])
def test_damaged_tokenizers_with_a_right_checksum(unigram):
    words = np.frombuffer(pack(unigram_model("words")[1] if unigram else random_model()[1]), np.uint32)
    view = 2 * int(words[11])
    tokenizer = 2 * int(words[view + 3])
    rng, errors = np.random.default_rng(0), []
    for number in range(300):
        copy = words.copy()
        place = (
            tokenizer + int(rng.integers(13 if unigram else 11))
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
    copy = words.copy()
    copy[tokenizer + 11] = words[3] - 1  # scores that reach beyond the file; WordPiece has none
    assert CModel(with_checksum(bytearray(copy.tobytes()))).error == 1


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
    refuses(message, plain_model, textsvm.SVC(Encoder(str(folder))).fit(*topics(20)))


def test_encoders_that_cannot_be_exported(tmp_path):
    model = textsvm.SVC(Spectrum(2) + Encoder(lambda texts: [[len(text)] for text in texts])).fit(*topics(20))
    with pytest.raises(InputError, match="<lambda> has no weights of tokens to export; take a static one"):
        textsvm.export(model, tmp_path / "model.bin")


# Unigram

NMT = {"type": "Nmt"}
SPACE = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
MARKS_OF_SPACES = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}
STRIP = {"type": "Strip", "strip_left": False, "strip_right": True}
COMMA = {"type": "Replace", "pattern": {"String": ","}, "content": " , "}
METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
WORDS = {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, METASPACE]}
PAIRS = {
    "\ufffd": " ", "▁": " ", "\x01": "", "A": "a", "É": "é", "Σ": "σ", "ｱ": "ア", "ﬁ": "fi", "e\u0301": "é",
    "\u200b": " ", "\u200d": " ", "\U0001f600": "smile",
}  # fmt: skip


def charsmap(pairs: dict[str, str]) -> dict[str, str]:
    """A map of SentencePiece: a double array with a block of units for each beginning of a key."""
    encoded, images = {key.encode(): image.encode() for key, image in pairs.items()}, b""
    nodes = sorted({key[:end] for key in encoded for end in range(len(key) + 1)})
    bases = {node: 256 * (k + 1) for k, node in enumerate(nodes)}
    units = np.zeros(256 * (len(nodes) + 1), "<u4")
    for node in nodes:
        place, label = (bases[node[:-1]] ^ node[-1], node[-1]) if node else (0, 0)
        units[place] = (bases[node] ^ place) << 10 | (node in encoded) << 8 | label
        if node in encoded:
            units[bases[node]] = 1 << 31 | len(images)
            images += encoded[node] + b"\0"
    content = units.nbytes.to_bytes(4, "little") + units.tobytes() + images
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(content).decode()}


MAP = charsmap(PAIRS)
#: Components as in T5, XLM-RoBERTa (old and new), model2vec, with a map of SentencePiece, NFKC or Nmt.
UNIGRAMS = {
    "spaces": ([NMT, SPACE], METASPACE),
    "words": ([MAP], WORDS),
    "marks": ([MAP, STRIP, MARKS_OF_SPACES], METASPACE),
    "unsplit": ([NMT, COMMA, {"type": "Lowercase"}, SPACE, STRIP], METASPACE | {"split": False}),
    "compatible": ([{"type": "NFKC"}, NMT, {"type": "Lowercase"}, SPACE], METASPACE),
    "lower": ([MAP, {"type": "Lowercase"}, SPACE], METASPACE),
}
LANGUAGES = [
    "ar-dialect5", "chnsenti", "germeval18", "hebrew-sent", "hatebr", "id-hate", "itacola", "jrte-pn",
    "norec-sent", "ru-inappropriate", "masakhanews-som", "masakhanews-sna",
]  # fmt: skip


#: Characters whose images a file has no table for: some end a grapheme, or are in NFKC with a combining one.
ODD = ["☺", "क", "중", "\u0600", "e\u0483"]


def unigram_state(parts: str, **model: Any) -> dict[str, Any]:
    """tokenizer.json with random scores of characters, pairs and longer strings of the texts."""
    rng, read = np.random.default_rng(1), [normalise(text, "unicode", keep_case=True) for text in TEXTS]
    joined = "▁".join(read).replace(" ", "▁")
    chars = sorted({*joined} - {*joined[::17], " "})
    spans = (joined[i : i + k] for i in range(0, len(joined), 3) for k in (2, 3, 5, 8))
    longer = sorted({span for span in spans if " " not in span})
    tokens = ["<unk>", "<s>", *dict.fromkeys(["▁", *chars, *longer, "▁the", "ap", "▁ap", "ple", "aa", "aaa"])]
    vocabulary = [[token, 0.0 if k < 2 else -float(rng.uniform(2, 12))] for k, token in enumerate(tokens)]
    forms, splitter = UNIGRAMS[parts]
    return {
        "version": "1.0", "truncation": None, "padding": None, "post_processor": None, "decoder": None,
        "added_tokens": json.loads(json_of(tokens[:2]))["added_tokens"],
        "normalizer": {"type": "Sequence", "normalizers": forms}, "pre_tokenizer": splitter,
        "model": {"type": "Unigram", "unk_id": 0, "vocab": vocabulary, "byte_fallback": False, **model},
    }  # fmt: skip


@lru_cache
def unigram_model(parts: str) -> tuple[StaticEncoder, PlainModel, CModel]:
    content = json.dumps(unigram_state(parts)).encode()
    rows = np.random.default_rng(0).normal(size=(len(json.loads(content)["model"]["vocab"]), 3))
    arrays = {"embeddings": rows.astype(np.float32), "tokenizer": np.frombuffer(content, np.uint8)}
    encoder = StaticEncoder(arrays, "unigram")
    plain = plain_of(encoder, "unicode")
    return encoder, plain, CModel(pack(plain))


def unigram_texts(n: int) -> list[str]:
    rng = np.random.default_rng(2)
    odd = [*map(ord, "\ufffd▁\u0301\u0302\u05b4\u200d\u200c\u0600\u06ddAaZ ,fié©\ufe0f\x01\u1680ア")]
    odd += [0x1F600, 0x93E, 0xA7F1, ord("a")]
    made = ["".join(map(chr, rng.choice(odd, rng.integers(1, 9)))) for _ in range(n)]
    others = ["<unk> <s>a", "a<unk>b", " ", "!!!", "a , b,,c", "aaaaaaa"]
    return [*TEXTS, *made, *others, *(whole(random_text(rng)) for _ in range(n // 4))]


def wrong_unigrams(encoder: StaticEncoder, texts: list[str], values: Any) -> list[str]:
    read = [normalise(text, "unicode", keep_case=True) for text in texts]
    return wrong_texts(encoder, read, np.asarray(values))


@needs_gcc
@pytest.mark.parametrize("parts", UNIGRAMS)
def test_unigram_tokens_in_c(parts):
    encoder, _, exported = unigram_model(parts)
    texts = unigram_texts(2000)
    assert not wrong_unigrams(encoder, texts, [exported.decide(text) for text in texts])


@needs_gcc
@given(
    st.text(
        st.sampled_from("ap▁ ,ple\ufffd\u0301\u0483\u05b4\x01Aé中क्\u200d☺\u0600ｶﾞ각ᄀ<unk>s\u3000\t"),
        max_size=30,
    )
)
@settings(max_examples=300, deadline=None)
def test_unigram_tokens_of_any_text(text):
    for parts in ("words", "unsplit", "lower", "compatible"):
        encoder, _, exported = unigram_model(parts)
        assert not wrong_unigrams(encoder, [text], [exported.decide(text)])


@needs_gcc
def test_unigram_tokens_of_twelve_languages():
    encoder, _, exported = unigram_model("words")
    texts = [whole(text) for name in LANGUAGES for text in panel_rows(name, "train", 170)[1]]
    assert not wrong_unigrams(encoder, texts, [exported.decide(text) for text in texts])


@needs_node
def test_unigram_tokens_in_javascript(tmp_path):
    encoder, plain, _ = unigram_model("lower")
    write_plain_model(plain, tmp_path / "js", "js")
    texts = unigram_texts(300)
    answers = in_node(tmp_path / "js", texts)
    assert not wrong_unigrams(encoder, texts, [answer["decision"] for answer in answers])
    assert all(near(answer["explained"], answer["decision"]) for answer in answers)


@pytest.mark.parametrize(
    ("parts", "changes", "message"),
    [
        ("words", {"byte_fallback": True}, "the tokenizer Unigram"),
        ("behind", {}, "with NFKC or Precompiled only in first place"),
        ("apart", {}, r'Unigram that joins spaces \(Replace of " \{2,\}"\) and replaces ▁ \(Nmt\), with'),
        *((char, {}, "the tokenizer Unigram") for char in ODD),
        ("twice", {}, "the tokenizer Unigram"),
        ("literal", {}, "the tokenizer Unigram"),
    ],
)
def test_unigram_tokenizers_that_cannot_be_exported(parts, changes, message, monkeypatch):
    monkeypatch.setitem(UNIGRAMS, "behind", ([NMT, {"type": "NFKC"}, SPACE], METASPACE))
    for char in ODD:
        monkeypatch.setitem(UNIGRAMS, char, ([charsmap({**PAIRS, char: "e"}), SPACE], METASPACE))
    monkeypatch.setitem(UNIGRAMS, "apart", ([NMT, {"type": "Lowercase"}], METASPACE))
    monkeypatch.setitem(UNIGRAMS, "twice", ([NMT, SPACE, COMMA], METASPACE))
    monkeypatch.setitem(UNIGRAMS, "literal", ([SPACE], METASPACE))
    refuses(message, exported_tokenizer, json.dumps(unigram_state(parts, **changes)).encode())


def test_unigram_is_refused_by_onnx(tmp_path):
    with pytest.raises(InputError, match="a Unigram tokenizer cannot be exported to ONNX; take another"):
        write_plain_model(unigram_model("words")[1], tmp_path / "m.onnx", "onnx")


def test_unigram_is_refused_without_a_normal_form(tmp_path):
    content, (texts, labels) = json.dumps(unigram_state("words")), topics(20)
    folder = static_folder(tmp_path / "unigram")
    (folder / "tokenizer.json").write_text(content, "utf-8")
    n = len(json.loads(content)["model"]["vocab"])
    save_file({"embeddings": np.ones((n, 3), np.float32)}, folder / "model.safetensors")
    model = textsvm.SVC(Spectrum(2) + Encoder(str(folder)), normalise="none").fit(texts, labels)
    with pytest.raises(InputError, match=r"cannot be exported with normalise='none'; take 'unicode'"):
        textsvm.export(model, tmp_path / "model.bin")
