"""Encoders of texts, and the kernel of their vectors."""

import json
import os
import pickle
import random
import re
import shutil
import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from command import fails, run
from encoders import FOOD, ROAD, onnx_folder, static_folder, tokenizer, topics, vocabulary
from loading import change
from refusals import refuses
from safetensors.numpy import load_file
from sklearn.base import clone

from textsvm import (
    SVC,
    SVR,
    CalibratedSVC,
    Corpus,
    Encoder,
    InputError,
    MultilabelSVC,
    On,
    OneClassSVM,
    Spectrum,
    Sum,
    cross_validate,
    doubts,
    explain,
    load,
    save,
    tune,
)
from textsvm.choice.choose import MOST_WEIGHED, RIDGE, Weighing, _weighed
from textsvm.kernels.encoder import _moved, as_encoder
from textsvm.kernels.spelling import parse, spell
from textsvm.model.file import read_content
from textsvm.text.documents import encode, normalise
from textsvm.text.encoders import VectorCache, _load_folder, folder_digest, load_encoder

pytest.importorskip("tokenizers")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """The folder of the cache of vectors."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "textsvm"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(static_folder(tmp_path_factory.mktemp("encoders") / "tiny"))


@pytest.fixture(scope="module")
def encoder(folder):
    return as_encoder(folder).encoder


def lengths(texts):
    """A function as an encoder."""
    return np.array([[len(text), text.count(" "), text.count("e")] for text in texts], float)


def hostile(n, seed=0):
    """Texts of words, marks, accents, controls, ideographs and lone surrogates."""
    rng = random.Random(seed)
    symbols = [*"aeiou bcdf  .,'-/[]#éßİ日本\u200b\u3000\ufffd\ud800", "e\u0301"]
    words = ["the", "bread", "Car", "BUSED", "unable", "word7", "[SEP]", "[UNK]", "don't", "x" * 101]
    return [
        "".join(rng.choices([*symbols, *(f" {w} " for w in words)], k=rng.randrange(25))) for _ in range(n)
    ]


def means(folder, texts):
    """The definition: the mean of the rows of all tokens but the unknown."""
    from tokenizers import Tokenizer

    rows = load_file(f"{folder}/model.safetensors")["embeddings"].astype(float)
    library = Tokenizer.from_file(f"{folder}/tokenizer.json")
    library.no_truncation()
    library.encode_special_tokens = True
    vectors = np.zeros((len(texts), rows.shape[1]))
    for i, text in enumerate(texts):
        ids = library.encode(text.replace("\ud800", "\ufffd"), add_special_tokens=False).ids
        ids = [number for number in ids if number != vocabulary().index("[UNK]")]
        vectors[i] = rows[ids].mean(axis=0) if ids else 0
    return vectors


def test_static_vectors_are_means_of_token_vectors(folder, encoder):
    texts = ["", "the", "bread bread car", "unable!", "日本 soup", *hostile(2000)]
    np.testing.assert_allclose(encoder(texts), means(folder, texts), atol=1e-6)


@pytest.mark.parametrize("case", ["cased", "other pre-tokenizer"])
def test_static_vectors_of_other_tokenizers(tmp_path, case):
    folder = static_folder(tmp_path / "e", lowercase=case != "cased")
    if case != "cased":
        split = {"pre_tokenizer": {"type": "Whitespace"}}
        (folder / "tokenizer.json").write_text(tokenizer(vocabulary(), **split))
    texts = [*hostile(500), "Bread bread"]
    np.testing.assert_allclose(as_encoder(str(folder)).encoder(texts), means(folder, texts), atol=1e-6)


@pytest.mark.parametrize("lowercase", [True, False])
def test_words_of_ascii_have_the_tokens_of_the_library(tmp_path, monkeypatch, lowercase):
    """The library tokenises other words only, as it takes longer."""
    from tokenizers import Tokenizer

    folder, rng, calls = static_folder(tmp_path / "e", lowercase=lowercase), random.Random(0), []
    encoder, tokens = as_encoder(str(folder)).encoder, [*vocabulary(), "q", "W", "Bread", "x" * 60]
    words = ["".join(rng.choices(tokens, k=rng.randrange(1, 5))).replace("##", "") for _ in range(3000)]
    words = [word for word in words if word.isascii() and word.isalnum() and len(word) <= 100]
    library = Tokenizer.from_file(f"{folder}/tokenizer.json")
    library.no_truncation()
    ids = [library.encode(word, add_special_tokens=False).ids for word in words]
    encoded = type(encoder)._encoded
    monkeypatch.setattr(type(encoder), "_encoded", lambda *own: calls.append(own[2]) or encoded(*own))
    found = encoder.tokenise([*words, "é", "y" * 101])
    assert found[:-2] == [[number for number in own if number != encoder.unknown] for own in ids]
    assert calls == [["é", "y" * 101]]
    assert sum(len(own) > 2 for own in found) > 300
    assert lowercase or not all(found[:-2])


def test_sums_have_the_order_of_the_words(encoder):
    words = ["bread", "unable", "word7", "of", "car", "soup"] * 40
    of_words, total = encoder(words), np.zeros(16, np.float32)
    n = [len(tokens) for tokens in encoder.tokenise(words)]
    for vector, size in zip(of_words, n, strict=True):
        total += vector * np.float32(size)
    np.testing.assert_array_max_ulp(encoder([" ".join(words)])[0], total / np.float32(sum(n)), 40)
    assert (encoder([" ".join(words)]) == encoder(["x", " ".join(words), "y"])[1]).all()  # in any batch
    assert encoder([]).shape == (0, 16)


def test_equal_to_model2vec(folder):
    model = pytest.importorskip("model2vec").StaticModel.from_pretrained(folder)
    texts = ["the bread is unable", "my car", "日本", "", "un##able"]
    ours = as_encoder(folder).encoder(texts)
    np.testing.assert_allclose(ours, model.encode(texts, normalize=False, max_length=None), atol=2e-3)


def test_kernel_is_the_centred_product_of_mean_square_one(folder, encoder):
    train, test = topics(20)[0], topics(9, seed=5)[0]
    x, y = encoder(train).astype(float), encoder(test).astype(float)
    mean = x.mean(axis=0)
    expected = (y - mean) @ (x - mean).T / np.square(x - mean).sum(axis=1).mean()
    np.testing.assert_allclose(Encoder(folder)(test, train), expected, rtol=1e-5, atol=1e-6)
    assert np.diag(Encoder(folder)(train)).mean() == pytest.approx(1, abs=1e-6)


def test_a_text_without_tokens_is_similar_to_none(folder):
    values = Encoder(folder)(["", "bread"], [*topics(10)[0], "\u2603"])
    assert not values[0].any()
    assert not values[:, -1].any()
    assert values[1, :-1].all()


def test_texts_are_read_in_the_normal_form_with_case():
    seen = []

    def record(texts):
        seen.extend(texts)
        return lengths(texts)

    Encoder(record)(["  Big\u00ad\tCAR\ud800 "])
    assert seen == ["Big CAR\ufffd"]


@pytest.mark.parametrize("n_classes", [2, 5])
def test_features_and_gram_train_the_same_machine(folder, n_classes):
    from textsvm import Compute

    texts = topics(60)[0]
    labels = [len(text) % n_classes for text in texts]
    kernel = 2 * Spectrum(3) + Encoder(folder)
    values = [
        SVC(kernel, tol=1e-6, compute=Compute(solver=solver)).fit(texts, labels).decision_function(texts)
        for solver in ("features", "gram")
    ]
    np.testing.assert_allclose(*values, atol=1e-4)


def test_meaning_helps_where_words_differ(folder):
    """Training and test have no word in common."""
    train = [" ".join(FOOD[i : i + 2]) for i in range(4)] + [" ".join(ROAD[i : i + 2]) for i in range(4)]
    test, labels = FOOD[6:] + ROAD[6:], ["food"] * 4 + ["road"] * 4
    strings = SVC().fit(train, labels).predict(test) == labels
    assert (SVC(encoder=folder).fit(train, labels).predict(test) == labels).all()
    assert strings.mean() < 0.9


def test_the_weight_is_chosen_for_the_texts(folder):
    texts, labels = FOOD + ROAD, ["food"] * 10 + ["road"] * 10
    model = SVC(encoder=folder).fit(texts, labels)
    assert re.search(r"encoder with weight 0\.\d+: .*, on 20 texts .errors", model.chosen_)
    assert re.search(r" \+ 0\.\d+ encoder:tiny$", spell(model.kernel_))
    shuffled = np.random.default_rng(0).permutation(20)
    again = SVC(encoder=folder).fit([texts[i] for i in shuffled], [labels[i] for i in shuffled])
    assert again.chosen_ == model.chosen_
    style = [text.upper() if i % 2 else text for i, text in enumerate(topics(60)[0])]
    model = SVC(encoder=lambda texts: [[hash(text) % 97, hash(text) % 89] for text in texts])
    model.fit(style, ["low", "up"] * 30)
    assert "encoder with weight 0: " in model.chosen_
    assert "encoder" not in spell(model.kernel_)


def test_an_encoder_of_weight_0_is_in_no_estimate(folder, tmp_path):
    """The kernel of the model does not have it, and held-out texts are judged by that kernel."""
    rng, file = np.random.default_rng(0), tmp_path / "t.tsv"
    texts = [" ".join("".join(rng.choice([*"abcdefgh"], 5)) for _ in range(4)) for _ in range(60)]
    file.write_text(
        "".join(f"up\t{text.upper()}\n" if i % 2 else f"low\t{text}\n" for i, text in enumerate(texts))
    )
    done = run("train", file, "-o", tmp_path / "m", "--encoder", folder)
    assert b"encoder with weight 0:" in done.stderr
    assert b"right on documents held out of training" in done.stdout


def weighed(texts, labels, vectors):
    """The sentence about the weight of an encoder with a vector for each text."""
    table = dict(zip(texts, vectors, strict=True))
    return SVC(encoder=lambda wanted: [table[t] for t in wanted]).fit(texts, labels).chosen_


def test_copies_do_not_decide_the_weight(folder):
    """A copy in the training part makes strings perfect on the text that is left out."""
    texts, labels = FOOD + ROAD, ["food"] * 10 + ["road"] * 10
    for copies in (texts, [f"{text.upper()}!" for text in texts]):
        sentence = SVC(encoder=folder).fit(texts + copies, labels * 2).chosen_
        assert re.search(r"encoder with weight 0\.\d+: .*, on 20 texts .errors", sentence)


def test_weight_with_many_classes():
    """Texts of 600 classes, two of each: no class has a single text among those that are left out."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(600), 2)
    texts = ["".join(rng.choice([*"abcdefghijklmnopqrstuvwxyz"], 12)) for _ in labels]
    sentence = weighed(texts, labels, np.repeat(np.eye(600), 2, axis=0))
    assert re.search(r"weight 0\.\d+: .*, on 500 texts .*, with encoder 0.0%\)", sentence)
    uneven = np.r_[labels, np.zeros(2000, int), 600:700, np.repeat(np.arange(700, 720), 100)]
    for classes in (labels, uneven, np.repeat([0, 1, 2], [5000, 2, 1]), np.repeat(np.arange(3000), 2)):
        sampled = np.bincount(classes[_weighed(classes)])
        assert sampled[sampled > 0].min() >= 2
        assert MOST_WEIGHED / 2 < sampled.sum() <= MOST_WEIGHED
    assert not len(_weighed(np.array([3, 0, 0, 0])))


@pytest.mark.parametrize("labels", [[0, 1], [0, 0, 0, 1], [0, 1, 2, 3], [0, 0, 1, 1]])
def test_weight_of_too_few_texts(labels):
    """The last two texts are copies, and one counts."""
    texts = ["bread", "soup", "car", "car!"][: len(labels)]
    sentence = weighed(texts, labels, np.eye(4)[: len(labels)])
    assert "weight 0.3 (too few different texts to choose it)" in sentence


@pytest.mark.parametrize("n_classes", [2, 4])
def test_left_out_margins_are_those_of_regressions_without_the_text(n_classes):
    rng = np.random.default_rng(0)
    x, classes = rng.normal(size=(30, 5)), rng.integers(n_classes, size=30)
    gram, expected = x @ x.T, np.empty(30)
    for i in range(30):
        rest = np.delete(np.arange(30), i)
        signs = np.where(classes[rest][:, None] == np.unique(classes), 1.0, -1.0)
        inner = gram[np.ix_(rest, rest)] + 1 + RIDGE * np.eye(29)
        values = (gram[i, rest] + 1) @ np.linalg.solve(inner, signs)
        expected[i] = values[classes[i]] - np.delete(values, classes[i]).max()
    np.testing.assert_allclose(Weighing(classes, classes, None, encode).margins(gram), expected, rtol=1e-9)


@pytest.mark.parametrize("texts", [True, False])
@pytest.mark.parametrize("bits", [None, 8])
def test_a_static_encoder_is_in_the_model_file(tmp_path, bits, texts):
    place = static_folder(tmp_path / "gone")
    train, labels = topics(40)
    model = SVC(2 * Spectrum(2) + Encoder(str(place), bits=bits)).fit(train, labels)
    save(model, tmp_path / "m", texts=texts)
    shutil.rmtree(place)
    loaded = load(tmp_path / "m")
    np.testing.assert_allclose(
        loaded.decision_function(hostile(50)), model.decision_function(hostile(50)), atol=0 if texts else 1e-5
    )
    save(loaded, tmp_path / "again")  # no loss of a second writing
    again = load(tmp_path / "again")
    assert (again.decision_function(train) == loaded.decision_function(train)).all()
    assert spell(again.kernel) == "0.667 spectrum:2 + 0.333 encoder:gone"


def test_8_bits_halve_the_rows_and_hardly_change_them(folder, encoder):
    rounded = encoder.rounded()
    assert rounded.arrays()["embeddings"].dtype == np.int8
    error = np.abs(rounded.embeddings - encoder.embeddings).max(axis=1)
    assert (error <= np.abs(encoder.embeddings).max(axis=1) / 127).all()
    assert rounded != encoder


def test_values_are_means_of_weights_of_tokens(tmp_path, folder, encoder):
    """What exports compute."""
    train, labels = topics(40)
    save(SVC(Encoder(folder)).fit(train, labels), tmp_path / "m", texts=False)
    loaded = load(tmp_path / "m")
    tokens = loaded.support.weights.tokens
    names = tokens.names(np.arange(len(tokens.weights)))
    by_token = dict(zip(names, tokens.weights[:, 0], strict=True))
    by_id = np.array([by_token[token] for token in encoder.vocabulary])
    test = [*train, *hostile(100)]
    ids = encoder.tokenise([normalise(text, keep_case=True).replace("\ud800", "\ufffd") for text in test])
    values = [by_id[own].mean() if own else 0 for own in ids]
    np.testing.assert_allclose(
        values + loaded.predictor.intercept[0], loaded.decision_function(test), rtol=1e-5, atol=1e-5
    )


def test_notation(folder):
    kernel = parse(f"spectrum:1-3,log+encoder:{folder},bits=8")
    assert kernel.kernels[1].encoder == folder
    assert kernel.kernels[1].bits == 8
    quoted = parse('encoder:"a+b,c"')
    assert quoted.encoder == "a+b,c"
    assert spell(quoted) == 'encoder:"a+b,c"'
    assert spell(as_encoder(folder)) == "encoder:tiny"
    refuses("encoder=''", parse, "encoder")
    form = (Spectrum(2) + as_encoder(folder)).structure.as_dict()
    assert json.loads(json.dumps(form))["kernels"][1]["encoder"] == "tiny"
    assert Sum([Spectrum(2), as_encoder(folder)]).structure.comparable


def test_a_weight_of_0_3_beside_named_kernels(folder):
    texts, labels = topics(20)
    for machine, target in ((SVC, labels), (SVR, np.arange(20.0)), (OneClassSVM, None)):
        model = machine("spectrum:2", encoder=folder).fit(texts, target)
        assert spell(model.kernel_) == "0.7 spectrum:2 + 0.3 encoder:tiny"
    sets = [[label] if i % 4 else ["food", "road"] for i, label in enumerate(labels)]
    model = MultilabelSVC(encoder=folder).fit(texts, sets)
    assert spell(model.kernel_) == "0.7 spectrum:1-5,log,idf + 0.3 encoder:tiny"


def test_a_kernel_of_an_encoder_as_the_parameter(folder):
    texts, labels = FOOD + ROAD, ["food"] * 10 + ["road"] * 10
    model = SVC(encoder=Encoder(folder, bits=8)).fit(texts, labels)
    assert model.kernel_.structure.leaves[-1].encoder.arrays()["embeddings"].dtype == np.int8
    with pytest.raises(
        InputError, match="must be a folder, owner/name of the Hugging Face hub, or a function"
    ):
        SVC(encoder=Spectrum(3)).fit(texts, labels)


def test_on_a_table_the_joined_text_is_encoded(tmp_path, folder):
    texts, labels = topics(20)
    table = {"title": texts, "body": texts[::-1], "n": np.arange(20)}
    model = SVC(encoder=folder).fit(table, labels)
    assert re.search(r"title with weight .*, n with weight 0, encoder with weight \d", model.chosen_)
    save(model, tmp_path / "m")
    assert (load(tmp_path / "m").decision_function(table) == model.decision_function(table)).all()
    assert SVC(On("title", Encoder(folder))).fit(table, labels).predict(table).tolist() == labels


def test_calibration_folds_and_searches(folder):
    words, meanings = FOOD + ROAD, ["food"] * 10 + ["road"] * 10
    calibrated = CalibratedSVC(SVC(encoder=folder), cv=3).fit(words, meanings)
    assert "encoder:tiny" in spell(calibrated.model_.kernel)
    assert calibrated.predict(words).tolist() == meanings
    assert calibrated.predict_set(words).any(axis=1).all()
    assert calibrated.predict_known(words).mean() > 0.8
    assert cross_validate(SVC(encoder=folder), words, meanings, cv=3).pooled["accuracy"] > 0.9
    texts, labels = topics(60)
    for kernel in ("auto", "spectrum:3"):
        assert cross_validate(SVC(kernel, encoder=folder), texts, labels, cv=3).pooled["accuracy"] == 1
    search = tune(SVC(encoder=folder), texts, labels, {"kernel": [Spectrum(2), Spectrum(3)]}, cv=3)
    assert spell(search.best_params_["kernel"]) in [f"0.7 spectrum:{p} + 0.3 encoder:tiny" for p in (2, 3)]
    labels[4] = "road"
    assert doubts(SVC(encoder=folder), texts, labels, cv=3).order()[0] == 4


def test_threads_share_an_encoder(folder, encoder):
    texts, labels = topics(40)
    model = SVC(encoder=folder).fit(texts, labels)
    expected = model.decision_function(texts)
    with ThreadPoolExecutor(8) as pool:
        results = [*pool.map(model.decision_function, [texts] * 8)]
    assert all((values == expected).all() for values in results)


def test_pickles_and_equality(folder, encoder):
    again = pickle.loads(pickle.dumps(encoder))
    assert again == encoder
    assert hash(again) == hash(encoder)
    assert (again(["bread"]) == encoder(["bread"])).all()
    texts, labels = topics(20)
    model = pickle.loads(pickle.dumps(SVC(encoder=folder).fit(texts, labels)))
    assert model.predict(texts).tolist() == labels


@pytest.mark.parametrize("kernel", ["auto", "spectrum:3"])
@pytest.mark.parametrize("calibrated", [False, True])
def test_a_fitted_model_needs_no_folder(tmp_path, monkeypatch, kernel, calibrated):
    place = static_folder(tmp_path / "here" / "gone")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    texts, labels = topics(20)
    model = SVC(kernel, encoder="gone")
    model = (CalibratedSVC(model, cv=2) if calibrated else model).fit(texts, labels)
    expected, pickled = model.decision_function(texts), pickle.dumps(model)
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert (model.decision_function(texts) == expected).all()
    shutil.rmtree(place)
    save(model, tmp_path / "m")
    for again in (model, pickle.loads(pickled), pickle.loads(pickle.dumps(model)), load(tmp_path / "m")):
        assert (again.decision_function(texts) == expected).all()
    assert explain(model, texts[:1])
    assert "predict" in dir(SVC(kernel, encoder="gone"))
    assert (model.get_params()["estimator"] if calibrated else model).get_params()["encoder"] == "gone"
    if calibrated:
        assert model.estimator_.predict(texts).tolist() == labels
    refuses("the encoder gone is not there", clone(model).fit, texts, labels)


def test_a_function_as_an_encoder(tmp_path):
    texts, labels = topics(20)
    model = SVC("spectrum", encoder=lengths).fit(texts, labels)
    assert model.predict(texts).tolist() == labels
    refuses("function as its encoder cannot be saved", save, model, tmp_path / "m")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda texts: [[np.nan if t == texts[-1] else 1] for t in texts], "for the text 'the lunch kitchen"),
        (lambda texts: np.zeros((len(texts) + 1, 2)), r"of shape \(21, 2\) for 20 texts"),
        (lambda texts: np.zeros(len(texts)), r"of shape \(20,\) for 20 texts; it must return an array"),
        (lambda texts: ["a"] * len(texts), "returned list for 20 texts"),
        (lambda texts: 1 / 0, "failed on 20 texts .ZeroDivisionError"),
        (Encoder(lengths, bits=8), "bits=8 needs a static encoder"),
        (7, "must be a folder, owner/name of the Hugging Face hub, or a function"),
        ("nowhere", "the encoder nowhere is not there"),
    ],
)
def test_bad_encoders(function, message):
    texts, labels = topics(20)
    refuses(message, SVC(encoder=function).fit, texts, labels)


def test_another_dimension_when_predicting():
    width = [2]
    texts, labels = topics(20)
    model = SVC(Encoder(lambda texts: np.ones((len(texts), width[0])))).fit(texts, labels)
    width[0] = 3
    refuses("there are 3 numbers for each text or row, and 2 in the training", model.predict, ["bread"])


def replaced(old, new):
    return {"type": "Replace", "pattern": {"String": old}, "content": new}


REGEX = {"pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
#: Parts of tokenizer.json that would end the process, take long, or give other vectors in every run.
HOSTILE = {
    "growth": {"normalizer": {"type": "Sequence", "normalizers": [replaced("z", "z" * 1000)] * 3}},
    "many small steps": {"normalizer": {"type": "Sequence", "normalizers": [replaced("z", "zz")] * 40}},
    "hidden by a key": {"normalizer": replaced("z", "z" * 1000) | {"normalizers": []}},
    "a longer symbol": {"normalizer": replaced("z", "zy")},
    "empty pattern": {"normalizer": replaced("", "x")},
    "prepend": {"normalizer": {"type": "Prepend", "prepend": "aa"}},
    "expression": {"pre_tokenizer": {"type": "Split"} | REGEX},
    "pieces of no symbol": {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
    "no map": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},
    "prefix inside a symbol": {
        "model": {"type": "BPE", "vocab": {"a": 0, "\u65e5": 1, "a\u65e5": 2}, "merges": [["a", "\u65e5"]],
                  "continuing_subword_prefix": "#"}
    },
    "at random": {"model": {"type": "BPE", "vocab": {"a": 0, "aa": 1}, "merges": [["a", "a"]],
                            "dropout": 0.5}},
    "unknown token": {"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "b"}},
    "long words": {"model": {"type": "WordPiece", "vocab": {"a": 0}, "unk_token": "a",
                             "continuing_subword_prefix": "", "max_input_chars_per_word": 10**18}},
}  # fmt: skip


def ids_with(number):
    """A tokenizer with this id of the word `word7`."""
    state = json.loads(tokenizer(vocabulary()))
    state["model"]["vocab"]["word7"] = number
    return json.dumps(state)


#: By name: contents of files (None: absent; a path: a link to it) or arrays of the model, and the refusal.
DAMAGES = {
    "no arrays": ({"model.safetensors": None}, "damaged"),
    "cut off": ({"model.safetensors": "\x40" + 7 * "\0" + "{"}, "damaged"),
    "no tokenizer": ({"tokenizer.json": None}, "damaged"),
    "tokenizer is text": ({"tokenizer.json": "{"}, "damaged"),
    "a key twice": ({"tokenizer.json": tokenizer(vocabulary())[:-1] + ', "model": {}}'}, "the key .* twice"),
    "a device": ({"tokenizer.json": Path("/dev/zero")}, "is not a file of at most"),
    "too few rows": ({"embeddings": np.ones((7, 4), np.float16)}, "damaged"),
    "not finite": ({"embeddings": np.full((200, 4), np.inf, np.float16)}, "damaged"),
    "one row": ({"embeddings": np.ones(200, np.float16)}, "damaged"),
    "too many rows": ({"embeddings": np.ones((201, 4), np.float32)}, "ids of its 200 tokens"),
    "negative row": ({"mapping": np.array([-1, *range(1, 200)])}, "damaged"),
    "whole weights": ({"mapping": np.zeros(200, np.int64)}, "damaged"),
    "too few weights": ({"weights": np.ones(1)}, "damaged"),
    "too large": ({"embeddings": np.full((200, 4), 1e30, np.float32)}, "not finite"),
    **{
        f"id {number}": ({"tokenizer.json": ids_with(number)}, "ids of its|expected u32")
        for number in (-1, 3, 200, 3000, (1 << 32) - 1)
    },
    **{name: ({"tokenizer.json": tokenizer(vocabulary(), **HOSTILE[name])}, "damaged") for name in HOSTILE},
}


@pytest.mark.parametrize(("damages", "says"), DAMAGES.values(), ids=DAMAGES)
def test_damaged_and_hostile_folders(tmp_path, damages, says, capfd):
    """The library, alone, would abort, panic (with a message of Rust), or run for minutes."""
    arrays = {name: damage for name, damage in damages.items() if "." not in name}
    folder = static_folder(tmp_path / "damaged", **arrays)
    for name in damages.keys() - arrays.keys():
        (folder / name).unlink()
        if isinstance(damages[name], Path):
            (folder / name).symlink_to(damages[name])
        elif damages[name] is not None:
            (folder / name).write_text(damages[name])
    refuses(says, Encoder(str(folder)), ["zz bread word7"])
    assert capfd.readouterr().err == ""


def test_tokens_may_share_vectors(tmp_path):
    """As model2vec's quantised vocabularies."""
    rows = np.random.default_rng(0).normal(size=(10, 4)).astype(np.float32)
    folder = static_folder(tmp_path / "e", embeddings=rows, mapping=np.arange(200) % 10)
    vector = as_encoder(str(folder)).encoder(["word7"])[0]
    np.testing.assert_allclose(vector, rows[vocabulary().index("word7") % 10], rtol=1e-6)


def test_common_tokenizers_are_supported(tmp_path):
    """Each seed of the fuzzer, and the punctuation of model2vec, has the vectors of the library's tokens."""
    from string import punctuation

    from fuzz import tokenizers as fuzzed

    spaced = [replaced(mark, f" {mark} ") for mark in punctuation]
    spaced += [{"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "}]
    states = [*fuzzed.tokenizers(), json.loads(tokenizer(vocabulary()))]
    states[-1]["normalizer"] = {"type": "Sequence", "normalizers": [states[-1]["normalizer"], *spaced]}
    for i, state in enumerate(states):
        rows = np.random.default_rng(i).normal(size=(len(state["model"]["vocab"]), 4)).astype(np.float32)
        folder = static_folder(tmp_path / str(i), embeddings=rows)
        (folder / "tokenizer.json").write_text(json.dumps(state))
        fuzzed._encode(folder)
        state["model"].pop("type")  # as early versions wrote it
        (folder / "tokenizer.json").write_text(json.dumps(state))
        fuzzed._encode(folder)


def test_a_panic_of_the_library_is_a_sentence(encoder):
    class PanicException(BaseException):
        pass

    with pytest.raises(InputError, match=r"the tokenizer of the encoder tiny failed .*index out of bounds"):
        encoder._encoded(Mock(side_effect=PanicException("index out of bounds")), ["bread"])


def test_special_tokens_are_text_after_pickling(encoder):
    texts = ["[SEP] bread", "[UNK] car"]
    assert (pickle.loads(pickle.dumps(encoder))(texts) == encoder(texts)).all()


def test_an_encoder_that_changes_before_its_first_use(tmp_path, cache):
    pytest.importorskip("onnxruntime")
    folder, _ = onnx_folder(tmp_path / "e")
    encoder = as_encoder(str(folder)).encoder
    onnx_folder(folder, seed=1)
    refuses("the files of the encoder e have changed", encoder, ["bread"])
    assert not list(cache.glob("*.vectors"))
    encoder = as_encoder(str(folder)).encoder
    encoder(["bread"])
    onnx_folder(folder, seed=2)
    refuses("have changed", encoder, ["car"])


@pytest.mark.parametrize("name", [".x", "README.bin", "__pycache__/w", "a/.y", ".caches", "xREADME.md"])
@pytest.mark.parametrize(
    "ignored", ["README.md", "a/README.md", ".gitattributes", ".git/x", ".cache/x", "a/b.pyc"]
)
def test_files_of_the_digest(tmp_path, name, ignored):
    folder, digests = tmp_path / "e", []
    for content in (b"1", b"2"):
        for file in (name, ignored):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / ignored).write_bytes(b"3")
        (folder / name).write_bytes(content)
        digests.append(folder_digest(folder))
        (folder / ignored).write_bytes(b"4")
        assert folder_digest(folder) == digests[-1]
    assert digests[0] != digests[1]


def test_empty_texts_have_the_vector_zero(folder, encoder):
    assert not encoder(["", " ", "\u200b"]).any()
    assert np.isfinite(SVC(encoder=folder).fit(*topics(20)).decision_function(["", "\u2603"])).all()
    refuses("every document is empty", SVC(encoder=folder).fit, ["", " "], [0, 1])


def test_a_precomputed_matrix_and_vectors_have_no_texts(folder):
    refuses("no texts for an encoder", SVC("precomputed", encoder=folder).fit, np.eye(4), [0, 1, 0, 1])


def test_damaged_model_files(tmp_path, folder):
    save(SVC(Encoder(folder)).fit(*topics(20)), tmp_path / "m")
    arrays = read_content(tmp_path / "m").arrays
    name = next(name for name in arrays if name.endswith("embeddings"))
    for changed in (
        {name: arrays[name][:5]},
        {name: arrays[name].astype(np.float32) * np.float32(np.nan)},
        {"vectors": arrays["vectors"][:2]},
        {"vectors": arrays["vectors"] * np.float32(np.inf)},
        {name.replace("embeddings", "tokenizer"): np.frombuffer(b"{}", np.uint8)},
        {"kernel.standard.mean": np.zeros(3)},
    ):
        bad = shutil.copy(tmp_path / "m", tmp_path / "bad")
        change(bad, lambda _, arrays, changed=changed: arrays.update(changed))
        refuses("bad", lambda bad: load(bad).predict(["bread"]), bad)
    change(tmp_path / "m", lambda _, arrays: [arrays.pop(name) for name in [*arrays] if "encoder." in name])
    refuses("the encoder tiny is not there", load, tmp_path / "m")


def test_the_digest_names_the_encoder(folder, tmp_path):
    other = static_folder(tmp_path / "other", seed=1)
    digest = as_encoder(folder).encoder.digest
    assert as_encoder(Encoder(folder, digest=digest)).encoder.digest == digest
    refuses("put the encoder of the training in its place", as_encoder, Encoder(str(other), digest=digest))


def test_a_change_in_a_subfolder_is_noticed(tmp_path):
    folder = tmp_path / "e"
    static_folder(folder / "0_StaticEmbedding")
    before = as_encoder(str(folder)).encoder
    (folder / "broken").symlink_to(tmp_path / "nowhere")
    assert as_encoder(str(folder)).encoder == before
    static_folder(folder / "0_StaticEmbedding", seed=1)
    assert as_encoder(str(folder)).encoder != before


def test_labelling_uses_the_encoder(folder):
    from textsvm.apps.label.learner import Learner

    learner = Learner(FOOD[:6] + ROAD[:6], ["food", "road"], encoder=folder)
    for i in (0, 1, 6, 7):
        learner.answer(i, "food" if i < 6 else "road")
    learner.refresh()
    assert [learner.guess(i).scores[0][0] for i in (2, 3, 4, 5, 8, 9)] == ["food"] * 4 + ["road"] * 2


@pytest.mark.parametrize("seed", range(5))
def test_the_first_texts_to_label_are_of_different_meanings(folder, seed):
    from textsvm.apps.label.learner import Learner

    texts, labels = topics(60, seed, words=2)
    learner = Learner(texts, random_share=0, seed=seed, encoder=folder)
    first = learner.next().index
    learner.answer(first, labels[first])
    learner.refresh()
    assert labels[learner.next().index] != labels[first]


def useless(texts):
    """Vectors that tell nothing."""
    return np.array([np.random.default_rng(list(text.encode())).normal(size=8) for text in texts])


@pytest.mark.slow
@pytest.mark.parametrize("encoder", [useless, lambda texts: np.full((len(texts), 3), 0.1, np.float32)])
def test_labelling_with_a_useless_encoder_is_as_good_as_without(encoder):
    from textsvm.apps.label.learner import Learner

    texts, labels = topics(200, words=4)
    right = []
    for use in (None, encoder):
        learner = Learner(texts, random_share=0, encoder=use)
        for _ in range(24):
            index = learner.next().index
            learner.answer(index, labels[index])
            learner.refresh()
        right.append(np.mean([learner.guess(i).scores[0][0] == labels[i] for i in range(len(texts))]))
    assert right[0] > 0.85
    assert right[1] >= right[0] - 0.03


def test_labelling_goes_on_with_another_encoder_and_not_without(tmp_path):
    """Nothing of an encoder is stored; a folder that has vanished is named in one sentence."""
    from textsvm.apps.label.files import Journal
    from textsvm.apps.label.learner import Learner
    from textsvm.apps.label.session import Session

    texts, labels = topics(40)
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    corpus = Corpus([str(i + 1) for i in range(40)], texts, None, [None] * 40, source="texts.txt")
    place = tmp_path / "labels.jsonl"
    for seed in (0, 1):
        encoder = str(static_folder(tmp_path / "e", seed=seed))
        journal = Journal(place, False)
        assert (len(journal.answers) >= 4) == (seed == 1)
        session = Session(corpus, journal, Learner(corpus.texts, ["food", "road"], encoder=encoder))
        for _ in range(4):
            shown = session.next()["text"]
            session.answer(shown["index"], shown["seen"], labels[shown["index"]])
        session.close()
    shutil.rmtree(tmp_path / "e")
    before = place.read_bytes()
    arguments = ("--format", "lines", "-o", place, "--encoder", tmp_path / "e")
    assert "is not there; name english, multilingual, its folder" in fails(
        "label", tmp_path / "texts.txt", *arguments, code=2
    )
    assert place.read_bytes() == before


# Encoders of libraries, and the cache of their vectors


class Sentences:
    """The part of sentence-transformers that is used."""

    calls = 0
    max_seq_length = 4

    def __init__(self, folder):
        self.folder = folder

    def tokenizer(self, texts, verbose):
        return {"input_ids": [text.split() for text in texts]}

    def encode(self, texts, batch_size, show_progress_bar):
        assert texts == sorted(texts, key=len)  # little padding
        Sentences.calls += len(texts)
        return np.array([[text.count(letter) for letter in "abcde"] for text in texts], np.float32)


@pytest.fixture
def sentences(tmp_path, monkeypatch):
    """A folder of sentence-transformers."""
    module = types.SimpleNamespace(SentenceTransformer=Sentences)
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    Sentences.calls = 0
    folder = tmp_path / "sentences"
    folder.mkdir()
    (folder / "modules.json").write_text("[]")
    return folder


def test_an_onnx_model_gives_means_of_its_last_states(tmp_path):
    pytest.importorskip("onnxruntime")
    folder, table = onnx_folder(tmp_path / "e")
    vocab = vocabulary()
    ids = [vocab.index("bread"), vocab.index("car"), vocab.index("car")]
    means = np.array([table[ids].mean(axis=0), table[ids[0]]])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    vectors = as_encoder(str(folder)).encoder(["bread car car", "bread"])
    np.testing.assert_allclose(vectors, means, rtol=1e-6)
    with pytest.warns(UserWarning, match="e reads only the beginning of 1 long texts"):
        cut = as_encoder(str(folder)).encoder(["bread " * 7])
    np.testing.assert_allclose(cut, means[1:], rtol=1e-6)


def sentences_in_onnx(folder, pooling="mean_tokens", file="model.onnx", seed=0, **changes):
    """Write a folder of sentence-transformers with a model in ONNX; `changes` of its settings."""
    folder, table = onnx_folder(folder, seed=seed)
    (folder / "onnx").mkdir(exist_ok=True)
    (folder / "model.onnx").rename(folder / "onnx" / file)
    kinds = changes.get("kinds", ["Transformer", "Pooling", "Normalize"])
    paths = ["", "1_Pooling", "2_Normalize"]
    modules = [
        {"type": f"sentence_transformers.models.{k}", "path": p}
        for k, p in zip(kinds, paths[: len(kinds)], strict=True)
    ]
    (folder / "1_Pooling").mkdir(exist_ok=True)
    settings = {
        "modules.json": modules,
        "1_Pooling/config.json": {"pooling_mode_mean_tokens": False, f"pooling_mode_{pooling}": True, "d": 8},
        "sentence_bert_config.json": {"max_seq_length": 3, "do_lower_case": changes.get("lower", False)},
        "config_sentence_transformers.json": {"default_prompt_name": changes.get("prompt")},
    }
    for place, content in settings.items():
        (folder / place).write_text(json.dumps(content))
    return folder, table


@pytest.mark.parametrize("pooling", ["mean_tokens", "cls_token"])
def test_sentence_transformers_with_onnx_need_no_pytorch(pooling, tmp_path):
    pytest.importorskip("onnxruntime")
    folder, table = sentences_in_onnx(tmp_path / "e", pooling)
    rows = table[[vocabulary().index(word) for word in ("car", "bread", "soup", "bus")]]
    encoder, texts = load_encoder(str(folder)), ["car", "car bread", "car bread soup"]
    expected = np.array(
        [rows[0], *([rows[0]] * 2 if pooling[0] == "c" else [rows[:2].mean(0), rows[:3].mean(0)])]
    )
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder(texts), expected, rtol=1e-5)
    with pytest.warns(UserWarning, match="e reads only the beginning of 1 long texts"):
        np.testing.assert_allclose(encoder(["car bread soup bus"])[0], expected[2], rtol=1e-5)
    rounded, _ = sentences_in_onnx(tmp_path / "e", pooling, "model_quantized.onnx", seed=1)  # comes first
    assert load_encoder(str(rounded)).digest != encoder.digest
    assert abs(load_encoder(str(rounded))(texts) - expected).max() > 0.1
    (rounded / "onnx" / "model_quantized.onnx").rename(rounded / "onnx" / "model_qint8_avx512_vnni.onnx")
    np.testing.assert_allclose(load_encoder(str(rounded))(texts), expected, rtol=1e-5)


@pytest.mark.parametrize(
    "changes",
    [
        {"pooling": "max_tokens"}, {"kinds": ["Transformer", "Pooling", "Dense"]}, {"lower": True},
        {"kinds": ["Transformer"]}, {"prompt": "query"}, {"file": "model_fp16.onnx"},
    ],
)  # fmt: skip
def test_other_folders_of_sentence_transformers_use_the_library(changes, tmp_path, sentences):
    pytest.importorskip("onnxruntime")
    folder, _ = sentences_in_onnx(tmp_path / "e", **changes)
    assert as_encoder(str(folder)).encoder(["a bad cab"]).shape == (1, 5)
    assert Sentences.calls == 1


def test_models_refer_to_encoders_of_libraries(tmp_path):
    pytest.importorskip("onnxruntime")
    folder, _ = onnx_folder(tmp_path / "e")
    texts, labels = topics(20)
    model = SVC("spectrum", encoder=str(folder)).fit(texts, labels)
    save(model, tmp_path / "m")
    assert (tmp_path / "m").stat().st_size < 50_000
    assert (load(tmp_path / "m").decision_function(texts) == model.decision_function(texts)).all()
    onnx_folder(folder, seed=1)
    refuses("put the encoder of the training in its place", load, tmp_path / "m")
    shutil.rmtree(folder)
    refuses("is not there", load, tmp_path / "m")


def test_sentence_transformers_are_used_if_installed(sentences):
    vectors = as_encoder(str(sentences)).encoder(["a bad cab", "b", "a bad cab", "zzz"])
    counts = np.array([[3, 2, 1, 1], [0, 1, 0, 0], [3, 2, 1, 1]])
    np.testing.assert_allclose(vectors[:3, :4], counts / np.sqrt([[15], [1], [15]]), rtol=1e-6)
    assert not vectors[3].any()
    assert Sentences.calls == 3  # once for each distinct text


def test_missing_libraries(sentences, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(InputError, match="needs the library sentence_transformers: pip install sentence-tr"):
        as_encoder(str(sentences)).encoder(["a"])


def test_static_encoders_without_their_library(folder, monkeypatch):
    encoder = as_encoder(folder).encoder
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    refuses(r"tokenizers: pip install tokenizers", type(encoder), encoder.arrays(), "e")


@pytest.mark.parametrize("name", ["owner/name", "nowhere", "a/b/c"])
def test_names_of_the_hub_offline(monkeypatch, name):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    refuses(r"is not there; name english|no folder owner/name, and the hub", as_encoder, name)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub with one encoder, owner/name; `calls` are the arguments of its calls."""
    snapshot = static_folder(tmp_path / "snapshots" / "8fd3a1")
    calls = []

    def snapshot_download(name, allow_patterns, local_files_only):
        calls.append(local_files_only)
        if not snapshot.exists():
            raise OSError
        return str(snapshot)

    module = types.SimpleNamespace(snapshot_download=snapshot_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return types.SimpleNamespace(snapshot=snapshot, calls=calls)


def test_encoders_of_the_hub_keep_their_name(hub, sentences, tmp_path):
    kernel = as_encoder("owner/name")
    assert spell(kernel) == "encoder:owner/name"
    assert parse(spell(kernel)).encoder == "owner/name"
    save(SVC("spectrum:2", encoder="owner/name").fit(*topics(20)), tmp_path / "m")
    shutil.rmtree(hub.snapshot)
    assert spell(load(tmp_path / "m").kernel) == "0.7 spectrum:2 + 0.3 encoder:owner/name"
    shutil.copytree(sentences, hub.snapshot)
    assert as_encoder("owner/name").encoder.name == "owner/name"


def test_a_model_file_downloads_nothing(hub, sentences, tmp_path):
    shutil.rmtree(hub.snapshot)
    shutil.copytree(sentences, hub.snapshot)
    texts, labels = topics(20)
    for kernel in (Encoder("owner/name"), 2 * Spectrum(2) + Encoder("owner/name")):
        model = SVC(kernel).fit(texts, labels)
        save(model, tmp_path / "m")
        assert not any(hub.calls)
        hub.calls.clear()
        assert (load(tmp_path / "m").decision_function(texts) == model.decision_function(texts)).all()
        assert set(hub.calls) == {True}
        hub.calls.clear()
    shutil.rmtree(hub.snapshot)
    refuses("a model downloads nothing; download the encoder owner/name first", load, tmp_path / "m")
    assert set(hub.calls) == {True}


def test_a_model_finds_its_encoder_from_anywhere_and_beside_its_file(sentences, tmp_path, monkeypatch):
    """The path was stored as it was typed, so a model was broken by `cd`."""
    (tmp_path / "work").mkdir()
    place = shutil.copytree(sentences, tmp_path / "work" / "own")
    monkeypatch.chdir(tmp_path / "work")
    texts, labels = topics(20)
    for typed in ("own", "./own"):
        model = SVC("spectrum:2", encoder=typed).fit(texts, labels)
        save(model, tmp_path / "m")
        monkeypatch.chdir(tmp_path)
        assert (load("m").decision_function(texts) == model.decision_function(texts)).all()
        monkeypatch.chdir(tmp_path / "work")
    (tmp_path / "moved").mkdir()  # the whole project, elsewhere: the path from its folder is as before
    shutil.copytree(tmp_path / "work", tmp_path / "moved" / "work")
    shutil.move(place, tmp_path / "own")
    save(model, tmp_path / "moved" / "m")
    monkeypatch.chdir(tmp_path / "moved" / "work")
    for name in ("../m", tmp_path / "moved" / "m"):
        assert (load(name).decision_function(texts) == model.decision_function(texts)).all()
    monkeypatch.chdir(tmp_path / "work")
    for name in (tmp_path / "m", "../m"):
        assert (load(name).decision_function(texts) == model.decision_function(texts)).all()
    (tmp_path / "own" / "other.json").write_text("{}")
    refuses("put the encoder of the training in its place", load, tmp_path / "m")
    shutil.rmtree(tmp_path / "own")
    refuses(
        rf"the encoder {place} is not there; put its folder there again, or beside the", load, tmp_path / "m"
    )


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("./enc", "enc"),
        ("a/enc", "a/enc"),
        ("/gone/a/enc", "a/enc"),
        (r"C:\a\enc", "enc"),
        ("owner/enc", None),
    ],
)
def test_an_encoder_that_has_gone_is_where_the_end_of_its_path_leads(path, place, tmp_path):
    (tmp_path / (place or "enc")).mkdir(parents=True)
    found = tmp_path / place if place else path
    assert os.path.normpath(_moved(path, str(tmp_path))) == os.path.normpath(found)


def test_a_long_path_of_an_encoder_takes_no_time():
    clock = time.process_time()
    path = "/" + "a/" * 100_000
    assert _moved(path, "folder") == path
    assert time.process_time() - clock < 5


def test_a_model_without_the_library_is_not_called_unusable(folder, tmp_path, monkeypatch):
    save(SVC("spectrum:2", encoder=folder).fit(*topics(20)), tmp_path / "m")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    refuses("needs more than is installed: .* tokenizers: pip install tokenizers", load, tmp_path / "m")


def test_commands_take_one_encoder_and_name_the_packages(folder, tmp_path):
    file = tmp_path / "t.tsv"
    file.write_text("".join(f"{y}\t{text}\n" for text, y in zip(*topics(20), strict=True)))
    for verb in (["train", file, "-o", tmp_path / "m"], ["compare", file], ["cv", file], ["tune", file]):
        message = fails(*verb, "--encoder", folder, "--encoder", folder, code=2)
        assert "--encoder stands twice, and the command takes it once" in message
        assert "is not there; name english, multilingual, its" in fails(*verb, "--encoder", "en", code=2)
    shown = run("compare", file, "--kernel", "fast", "--encoder", folder).stdout.decode()
    assert f"fast --encoder {folder}" in shown


def test_errors_of_few_texts_are_said_to_be_too_high(folder):
    for n, sentence in ((20, "(errors, too high with few texts a class: "), (80, "(errors ")):
        assert sentence in SVC(encoder=folder).fit(*topics(n)).chosen_


def test_a_folder_of_something_else(tmp_path):
    refuses("is no encoder: it has neither", as_encoder, str(tmp_path))


def test_vectors_are_computed_once(sentences, cache):
    texts, labels = topics(40)
    for _ in range(2):
        model = SVC("spectrum:2", encoder=str(sentences)).fit(texts, labels)
        assert Sentences.calls == len(set(texts))
        _load_folder.cache_clear()  # as in another process
    cross_validate(SVC(encoder=str(sentences)), texts, labels, cv=3)
    doubts(SVC(encoder=str(sentences)), texts, labels, cv=3)
    assert Sentences.calls == len(set(texts))
    assert len(list(cache.glob("*.vectors"))) == 1
    calls = []

    def count(texts):
        calls.extend(texts)
        return lengths(texts)

    cross_validate(SVC(encoder=count), texts, labels, cv=3)
    assert sorted(calls) == sorted(set(texts))
    assert model is not None


def test_an_interrupted_encoding_continues(sentences, monkeypatch):
    monkeypatch.setattr("textsvm.text.encoders.AT_A_TIME", 10)
    texts, done = [f"text {i}" for i in range(100)], []

    def interrupt(n, total):
        done.append((n, total))
        if n >= 340:  # of the symbols: five batches
            raise KeyboardInterrupt

    encoder = as_encoder(str(sentences)).encoder
    with pytest.raises(KeyboardInterrupt):
        encoder.encode(encode(texts), interrupt)
    assert done[-1] == (340, 690)
    _load_folder.cache_clear()
    as_encoder(str(sentences)).encoder(texts)
    assert Sentences.calls == 100


@pytest.mark.parametrize(
    "damage", ["cut off", "changed", "other version", "empty", "part of the head", "unwritable"]
)
def test_a_damaged_cache_is_noticed(sentences, cache, damage):
    texts = [f"a bad text {i}" for i in range(20)]
    expected = as_encoder(str(sentences)).encoder(texts)
    [path] = cache.glob("*.vectors")
    data = bytearray(path.read_bytes())
    if damage == "cut off":
        del data[-7:]
    elif damage == "changed":
        data[len(data) // 2] ^= 1
    elif damage == "other version":
        data[:8] = b"textsvm0"
    elif damage == "empty":
        data.clear()
    elif damage == "part of the head":
        del data[11:]
    path.write_bytes(data)
    if damage == "unwritable":
        path.unlink()
        path.mkdir()
    for computed in (1 if damage in ("cut off", "changed") else 20, 0 if damage != "unwritable" else 20):
        Sentences.calls = 0
        _load_folder.cache_clear()
        assert (as_encoder(str(sentences)).encoder(texts) == expected).all()
        assert Sentences.calls == computed


def test_the_cache_is_bounded(sentences, cache, monkeypatch):
    monkeypatch.setattr("textsvm.text.encoders.MOST_BYTES", 5000)
    encoder = as_encoder(str(sentences)).encoder
    for i in range(20):
        encoder([f"text {i} {j}" for j in range(30)])
    [path] = cache.glob("*.vectors")
    assert 2500 < path.stat().st_size < 5000 + 3 * 30 * 44
    Sentences.calls = 0
    _load_folder.cache_clear()
    as_encoder(str(sentences)).encoder([f"text 19 {j}" for j in range(30)])
    assert not Sentences.calls


@pytest.mark.parametrize("on_disk", [True, False])
def test_the_cache_in_memory_is_bounded(cache, monkeypatch, on_disk):
    monkeypatch.setattr("textsvm.text.encoders.MOST_BYTES", 12 * 100)
    kept = VectorCache(cache / "kept" if on_disk else None)
    for i in range(30):
        kept.add([f"{i} {j}" for j in range(10)], np.zeros((10, 3), np.float32))
        assert len(kept.known([f"{k} {j}" for k in range(i + 1) for j in range(10)])) <= 100
        latest = [f"{k} {j}" for k in range(max(i - 3, 0), i + 1) for j in range(10)]
        assert len(kept.known(latest)) == len(latest)


def test_two_processes_share_a_cache(sentences, cache):
    first, second = (VectorCache(cache / "both") for _ in range(2))
    first.add(["a"], np.ones((1, 3), np.float32))
    second.add(["b"], np.zeros((1, 3), np.float32))
    assert VectorCache(cache / "both").known(["a", "b", "c"]).keys() == {"a", "b"}


def test_threads_do_not_enter_a_function_together(sentences):
    inside, most = [0], []

    def watched(texts):
        inside[0] += 1
        most.append(inside[0])
        time.sleep(0.002)
        inside[0] -= 1
        return lengths(texts)

    encoder = as_encoder(watched).encoder
    with ThreadPoolExecutor(4) as pool:
        [*pool.map(encoder, [[f"text {k} {i}" for i in range(200)] for k in range(4)])]
    assert max(most) == 1
    again = pickle.loads(pickle.dumps(as_encoder(str(sentences)).encoder))
    assert again(["a bad"]).tolist() == as_encoder(str(sentences)).encoder(["a bad"]).tolist()


def test_a_function_of_changing_width():
    def varied(texts):
        return np.ones((len(texts), 2 if len(texts[0]) < 5 else 3))

    with pytest.raises(InputError, match="vectors of different lengths"):
        as_encoder(varied).encoder(["a"] + [f"long text {i}" for i in range(200)])
