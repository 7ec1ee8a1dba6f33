"""Words and other tokens as symbols: the three kernels, documents of several views, models, explanations."""

import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loading import change, load
from refusals import raising, refuses
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

import textsvm
from textsvm import SVC, EditDistance, GapWeighted, InputError, On, Spectrum
from textsvm.evaluation.explanation import explain
from textsvm.evaluation.judge import data_warnings
from textsvm.kernels import GappedKmers, Sum
from textsvm.kernels.edit.cpu import narrow_runs
from textsvm.runtime.device import select
from textsvm.text.documents import MultiView, View, encode_as, normalise
from textsvm.text.tokens import align, locate, spread
from textsvm.training.train import prepare

CPU = select("cpu")
WORDS = r"\w+|[^\w\s]"
TEXTS = [
    "Buy cheap pills now, don't wait!",
    "Cheap, cheap watches: buy now now",
    "WIN a prize - click now",
    "You don't win; buy a prize, now",
    "The meeting is at noon",
    "See you at the meeting, the agenda is new",
    "Don't be late at noon",
    "...",
    "",
]
LABELS = ["spam"] * 4 + ["ham"] * 5
NEW = ["Don't click: the WIN is at noon", "Straße, naïve", "!", "meeting now"]
KERNELS_OF_WORDS = [
    Spectrum((1, 2), "log", idf=True, tokens="words"),
    Spectrum(1, "intersection", tokens="whitespace", keep_case=True),
    GapWeighted(2, 0.5, tokens="words"),
    EditDistance(0.3, tokens="words"),
]


def words(text, keep_case=False):
    return tuple(oracles.tokenise(normalise(text, keep_case=keep_case), "words"))


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ("characters", list("don't be 5.5")),
        ("words", ["don", "'", "t", "be", "5", ".", "5"]),
        ("whitespace", ["don't", "be", "5.5"]),
        (lambda text: (text[:3], text[-3:]), ["don", "5.5"]),
    ],
)
def test_tokens_of_a_text(tokens, expected):
    assert list(encode_as(["don't be 5.5"], tokens).symbols(0)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("हिन्दी भाषा।", "हिन्दी|भाषा|।"),
        ("ఇంకా కలదు, తెలుగు", "ఇంకా|కలదు|,|తెలుగు"),
        ("க்ஷ தமிழ்", "க்ஷ|தமிழ்"),
        ("മലയാളം ভাষা ਪੰਜਾਬੀ ಕನ್ನಡ සිංහල", "മലയാളം|ভাষা|ਪੰਜਾਬੀ|ಕನ್ನಡ|සිංහල"),
        ("שָׁלוֹם, עולם", "שָׁלוֹם|,|עולם"),
        ("كِتَابٌ می\u200cروم", "كِتَابٌ|می\u200cروم"),
        ("вели\u0301кий ẹ\u0300kọ\u0301", "вели\u0301кий|ẹ\u0300kọ\u0301"),
        ("1\u20e3 don't co-opt", "1\u20e3|don|'|t|co|-|opt"),
        ("ภาษาไทย ខ្មែរ", "ภาษาไทย|ខ្មែរ"),  # runs between blanks, as of Chinese
    ],
)
def test_words_are_whole_in_every_script(text, expected):
    assert "|".join(encode_as([text], "words").symbols(0)) == expected
    model = SVC(Spectrum(1, tokens="words"), device="cpu").fit([text, "x"], ["a", "b"]).model_
    top = [feature.text for features in model.top_features(9) for feature in features.features]
    assert {*expected.split("|")} <= {*top}
    [explanation] = explain(model, [text])
    assert {substring.text for substring in explanation.substrings} == {*expected.split("|")}


def test_models_saved_before_keep_their_words(tmp_path):
    new, expected = ["हिन्दी तेलुगु", "రుచిగా"], [-0.04175161957844628, -0.5717384616193161]
    model = load(Path(__file__).parent / "before_words_2.textsvm")
    assert model.kernel_.kernels[1].tokens == "runs"
    assert model.decision_function(new).tolist() == pytest.approx(expected)
    textsvm.save(model, tmp_path / "again")
    assert load(tmp_path / "again").decision_function(new).tolist() == pytest.approx(expected)
    whole = Sum([On("a", Spectrum(1, tokens="words")), On("a", Spectrum(2, tokens="runs"))])
    textsvm.save(SVC(whole, device="cpu").fit({"a": TEXTS}, LABELS), tmp_path / "new")
    assert [leaf.tokens for leaf in load(tmp_path / "new").kernel_.structure.leaves] == ["words", "runs"]


ANY_TEXTS = st.lists(st.text(st.characters(), max_size=30), max_size=6)  # lone surrogates included


@pytest.mark.parametrize("tokens", ["characters", "words", "runs", "whitespace", str.splitlines])
@given(texts=ANY_TEXTS, more=ANY_TEXTS)
def test_encoding_is_exact(tokens, texts, more):
    documents = encode_as(texts, tokens)
    others = encode_as(more, tokens, documents)
    for encoded, plain in ((documents, texts), (others, more)):
        assert [list(encoded.symbols(i)) for i in range(len(plain))] == [
            oracles.tokenise(text, tokens) for text in plain
        ]
    assert others.alphabet[: len(documents.alphabet)].tolist() == documents.alphabet.tolist()
    assert len(set(others.alphabet)) == len(others.alphabet)
    backwards = documents.take(np.arange(len(texts))[::-1])
    assert [backwards.shown(i) for i in range(len(texts))] == texts[::-1]


@pytest.mark.parametrize("words_of", [(1, 1), (1, 2)])
def test_spectrum_of_words_is_what_scikit_learn_makes_of_them(words_of):
    texts = [text for text in TEXTS if text]
    shape = {"token_pattern": WORDS, "ngram_range": words_of}
    x = TfidfVectorizer(sublinear_tf=True, **shape).fit_transform(texts)
    model = SVC(Spectrum(words_of, "log", idf=True, tokens="words"), device="cpu").fit(texts, LABELS[:-1])
    gram = prepare(model.settings, texts).gram.window().values
    np.testing.assert_allclose(gram, (x @ x.T).toarray(), atol=1e-6)
    counts = CountVectorizer(lowercase=False, **shape).fit_transform(texts)
    cased = SVC(Spectrum(words_of, normalised=False, tokens="words", keep_case=True), device="cpu")
    np.testing.assert_array_equal(
        prepare(cased.settings, texts).gram.window().values, (counts @ counts.T).toarray()
    )


def large(tokens):
    """Documents over 70,000 symbols; numbers below that name them. Modulo 65,536 all rows are alike."""

    def text(codes):
        if tokens == "characters":
            return "".join(chr(0x10000 + code) for code in codes)
        return " ".join(f"{code:05d}" for code in codes)

    rows = [range(4), range(65_536, 65_540), [0, 65_537, 2, 65_539], [1, 65_536, 1, 3], [69_999], [4463]]
    everything = encode_as([text(range(70_000)), *map(text, rows)], tokens)
    new = [[65_536, 1, 70_001, 3], [70_001, 70_002, 70_001, 70_003], [4465, 4466, 4465, 4467]]
    others = encode_as(list(map(text, new)), tokens, everything)
    assert everything.codes.dtype == others.codes.dtype == np.uint32
    return everything.take(range(1, 1 + len(rows))), others, [*map(tuple, rows)], [*map(tuple, new)]


@pytest.mark.slow
@pytest.mark.parametrize("tokens", ["characters", "words"])
@pytest.mark.parametrize(
    ("kernel", "oracle"),
    [
        (Spectrum((1, 2)), lambda s, t: oracles.spectrum(s, t, 1, 2)),
        (GapWeighted(2, 0.5), lambda s, t: oracles.gap(s, t, 2, 0.5)),
        (EditDistance(0.1), lambda s, t: oracles.edit(s, t, 0.1)),
    ],
    ids=["spectrum", "gap", "edit"],
)
def test_more_than_65_536_symbols(kernel, oracle, tokens):
    documents, others, columns, rows = large(tokens)
    values = kernel.rows(documents, CPU)
    expected = [[oracles.normalised(oracle, s, t) for t in columns] for s in columns]
    np.testing.assert_allclose(values.gram(), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        values.rows(np.array([3, 1])), np.array(expected)[[3, 1]], rtol=1e-5, atol=1e-6
    )
    expected = [[oracles.normalised(oracle, s, t) for t in columns] for s in rows]
    np.testing.assert_allclose(values.cross(others), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("most", [4, 5, 9, 65_535])
def test_renumbered_to_16_bits_distances_are_the_same(most):
    documents, others, columns, rows = large("words")
    picks = np.array([3, 0, 1, 2, 5, 4, 0])
    found = np.full((len(picks), len(others)), -1)
    for run, some, texts in narrow_runs(documents, picks, others, most):
        assert some.codes.dtype == texts.codes.dtype == np.uint16
        assert len(some.alphabet) <= most
        assert len(texts.alphabet) == len(some.alphabet) + 1
        found[run] = EditDistance().rows(texts, CPU).distances(some)
    np.testing.assert_array_equal(
        found, [[oracles.edit_distance(columns[i], t) for t in rows] for i in picks]
    )


def test_a_document_of_too_many_symbols_for_a_gpu_is_named():
    documents, others, _, _ = large("words")
    refuses(r"4 distinct symbols.*--max-length", list, narrow_runs(documents, np.arange(3), others, most=3))


class TestModels:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"token_starts": np.array([0, 3], np.int64)}, "token offsets are out of bounds"),
            ({"token_starts": np.array([0.0])}, "token offsets are not"),
            ({"tokens": np.zeros((2, 2), np.uint8)}, "tokens are not a row of bytes"),
            ({"tokens": np.full(1, 0xFF, np.uint8), "token_starts": np.array([0, 1])}, "damaged"),
            ({"tokens": np.full(2, 65, np.uint8), "token_starts": np.arange(3)}, "a token twice"),
            ({"tokens": np.full(1, 65, np.uint8), "token_starts": np.arange(2)}, "outside its alphabet"),
            ({"codes": np.full(3, 1 << 20, np.uint32), "offsets": np.array([0, 3])}, "outside its alphabet"),
        ],
    )
    def test_damaged_tokens(self, changed, message, tmp_path):
        path = tmp_path / "m.textsvm"
        textsvm.save(SVC(Spectrum(1, tokens="words"), device="cpu").fit(TEXTS, LABELS), path)
        change(path, lambda header, arrays: arrays.update(changed))
        refuses(message, load, path)

    def test_a_function_of_tokens(self, tmp_path):
        kernel = Spectrum(1, tokens=lambda text: text.split("n"))
        assert clone(kernel).structure.view == kernel.structure.view
        model = SVC(kernel, device="cpu").fit(TEXTS, LABELS)
        assert model.support_documents_.symbols(0) == TEXTS[model.support_[0]].lower().split("n")
        assert model.predict(NEW).shape == (4,)
        refuses("cannot be saved, for a file holds no code", textsvm.save, model, tmp_path / "m.textsvm")

    def test_a_callable_object_is_not_copied(self):
        class Split:
            def __call__(self, text):
                return text.split()

        kernel = Spectrum(1, tokens=Split())
        assert clone(clone(kernel)).tokens is kernel.tokens
        assert SVC(kernel, device="cpu").fit(TEXTS, LABELS).score(TEXTS, LABELS) > 0.5

    def test_max_length_is_in_characters(self):
        model = SVC(Spectrum(1, tokens="words"), max_length=9, device="cpu").fit(TEXTS, LABELS)
        assert model.settings.source.encode(["one two three"]).symbols(0) == ["one", "two", "t"]

    def test_new_words_are_no_other_language(self):
        model = SVC(Spectrum(1, tokens="words"), device="cpu").fit(TEXTS, LABELS)
        assert data_warnings(model.model_, ["nobody knows"]) == []
        [told] = data_warnings(model.model_, [TEXTS[i] for i in model.support_])
        assert "100.0% of these documents were in the training" in told


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ("letters", r"tokens='letters' is not one of characters, words, runs, whitespace"),
        (7, "tokens=7 is not one of"),
        (lambda text: text, "returned a single str for .buy cheap pills now, don"),
        (lambda text: [1, text], "returned a list with a int in it"),
        (lambda text: [None], "returned a list with a NoneType in it"),
        (lambda text: None, "failed on .* must return a list of str"),
        (raising(KeyError("no such word")), "failed on .*KeyError: 'no such word'"),
        (lambda text: [], "no document has any token"),
    ],
)
def test_bad_tokens(tokens, message):
    refuses(message, SVC(Spectrum(1, tokens=tokens), device="cpu").fit, TEXTS, LABELS)


def test_other_bad_input():
    @dataclass
    class Split:
        def __call__(self, text):
            return text.split()

    refuses("cannot be hashed; give a plain function", Spectrum(tokens=Split()).check)
    with pytest.raises(InputError, match=r"no document has any token \(tokens='words'\)"):
        SVC(EditDistance(tokens="words"), device="cpu").fit(["", " ", "\t"], ["a", "b", "a"])
    refuses("keep_case='yes' of the gap kernel", GapWeighted(keep_case="yes").check)
    with pytest.raises(InputError, match="shorter than p = 9"):
        SVC(Spectrum(9, tokens="words"), device="cpu").fit(["a b", "c"], ["a", "b"])


def test_the_occlusion_of_a_word_leaves_the_word_out():
    model = SVC(EditDistance(0.3, tokens="words"), C=10, device="cpu").fit(TEXTS, LABELS)
    [found] = explain(model, ["Click now, don't wait"])
    value, without = model.decision_function(["Click now, don't wait", "now, don't wait"])
    assert found.symbols[: len("click ")].sum() == pytest.approx(value - without)


def test_tokens_are_located_in_order():
    assert locate("ab a b", ["a", "b", "a", "c", "b"]).tolist() == [[0, 1], [1, 2], [3, 4], [-1, -1], [5, 6]]
    shares = spread(np.array([1.0, 2, 3]), np.array([[0, 1], [2, 4], [-1, -1]]), 6)
    assert shares.tolist() == [1.5, 0.5, 1.5, 1.5, 0.5, 0.5]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Straße", [0, 1, 2, 3, 4, 4, 5]),
        ("ABC", [0, 1, 2]),
        ("İx", [0, 0, 2]),
        ("\u0397\u0345a", None),
        ("H\u0331x", [0, 2]),
        ("", []),
    ],
)
def test_folded_characters_in_the_text_with_case(text, expected):
    text = unicodedata.normalize("NFKC", text)
    folded = normalise(text, "none") if not text else unicodedata.normalize("NFKC", text.casefold())
    spans = align(folded, text)
    assert spans.shape == (len(folded), 2)
    if expected is not None:
        assert spans[:, 0].tolist() == [min(at, len(text) - 1) for at in expected]


@pytest.mark.slow
@given(st.text(max_size=30), st.integers(1, 12))
def test_no_contribution_is_lost_on_the_way_to_the_text_with_case(text, most):
    both = MultiView(
        {
            view: encode_as([normalise(text, keep_case=view.keep_case)[:most]], view.tokens)
            for view in (View(), View("words"), View("words", True))
        }
    )
    assert both.shown(0) == normalise(text, keep_case=True)[:most]
    for view, documents in both.documents.items():
        shares = np.arange(1.0, 1 + documents.lengths[0])
        own = documents.spread(0, shares)
        assert len(own) == len(documents.shown(0))
        assert own.sum() == pytest.approx(shares.sum())
        seen = both.to_shown(0, view, own)
        assert len(seen) == len(both.shown(0))
        assert seen.sum() == pytest.approx(shares.sum() if len(seen) else 0)


PROTEINS = ["MKVLAAGIVG", "mkilssgvig", "MRVMTTGLVG", "PPWYFHHNDE", "PPFWYNNHEQ", "ppyfwhnhqd"]
FAMILIES = ["x", "x", "x", "y", "y", "y"]


def test_tokens():
    documents = encode_as(["mkv", "", "rli", "MkvX*buzoj"], "blosum62")
    assert [documents.symbols(i) for i in range(4)] == ["lki", "", "kli", "lkix*dcdkl"]
    assert [documents.shown(i) for i in range(4)] == ["mkv", "", "rli", "MkvX*buzoj"]


def test_models_are_kept_and_explained(tmp_path):
    kernel = Sum(
        [Spectrum(2, tokens="blosum62"), Spectrum(1), GappedKmers(3, 1, tokens="blosum62", keep_case=True)]
    )
    for made in (kernel, Spectrum(2, tokens="blosum62"), GapWeighted(2, tokens="blosum62")):
        model = SVC(made, device="cpu").fit(PROTEINS, FAMILIES)
        textsvm.save(model, tmp_path / "m.textsvm")
        again, new = load(tmp_path / "m.textsvm"), ["MKVXXUBZ*", "ppyf", "", "ADEG"]
        np.testing.assert_array_equal(again.decision_function(new), model.decision_function(new))
        for one in explain(again, new):
            assert one.exact
            assert one.text in [*new, *map(str.lower, new)]
            assert one.symbols.sum() + one.bias == pytest.approx(one.value, abs=1e-6)
        (tmp_path / "m.textsvm").unlink()


@pytest.mark.parametrize("letter", ["-", ".", "1", " ", "é", "Ω"])
def test_other_symbols_are_refused_with_their_place(letter):
    wrong = "MKVLA" + letter + "GIVG"
    with pytest.raises(InputError, match=r"symbol 6 of the text that begins with 'mkvla.* no amino acid"):
        SVC(Spectrum(2, tokens="blosum62"), device="cpu").fit([*PROTEINS, wrong], [*FAMILIES, "x"])
    model = SVC(Spectrum(2, tokens="blosum62"), device="cpu").fit(PROTEINS, FAMILIES)
    refuses("symbol 6 of the text", model.predict, [wrong])


def test_words_without_optional_marks_by_the_expression_of_the_page():
    """Points of Hebrew and vowel signs of Arabic make other words, until they are removed."""
    page = (Path(__file__).parents[1] / "docs" / "choosing.md").read_text("utf-8")
    marks = re.search(r're\.sub\("(\[[^"]+\])"', page)[1].encode().decode("unicode_escape")
    hebrew = "\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd \u05d1\u05bc\u05b5\u05d9\u05ea\u05be\u05e1\u05b5"
    arabic = (
        "\u0643\u064e\u062a\u064e\u0628\u064e \u0645\u064e\u062f\u0652\u0631\u064e\u0633\u064e\u0629\u064c"
    )
    for pointed in (hebrew, arabic):
        plain = re.sub(marks, "", pointed)
        assert plain == "".join(c for c in pointed if unicodedata.category(c) != "Mn")
        assert normalise(plain) != normalise(pointed)
