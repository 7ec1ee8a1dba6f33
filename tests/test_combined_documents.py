"""Sums and products whose parts read different things of a text: characters, words, with case or without."""

import shutil
from functools import cache

import numpy as np
import pytest
from command import fails, report
from contracts import check_search
from hypothesis import given, settings
from hypothesis import strategies as st
from loading import change, load, reloaded
from refusals import refuses
from test_tokens import TEXTS as SHORT

from textsvm import SVC, EditDistance, GapWeighted, InputError, Product, Spectrum, Sum, save, tune
from textsvm.evaluation.explanation import explain
from textsvm.gram.build import grams
from textsvm.kernels import inputs
from textsvm.kernels.edit import kernel as edit
from textsvm.kernels.spectrum import kernel as spectrum
from textsvm.kernels.spelling import spell
from textsvm.model.file import read_content
from textsvm.runtime.device import select
from textsvm.text.documents import Documents, MultiView, View, encode_as, normalise
from textsvm.training.train import prepare

CPU = select("cpu")
TEXTS = [*SHORT[:7], "New agenda: meeting of US and us"] * 2
LABELS = (["spam"] * 4 + ["ham"] * 4) * 2
NEW = ["Don't click: the WIN is at noon", "Straße, naïve", "!", "", "noon", "US"]
CHARACTERS = Spectrum((1, 3), "log", idf=True)
CASED = Spectrum(2, keep_case=True)
WORDS = Spectrum((1, 2), "log", idf=True, tokens="words")
SUM = Sum([CHARACTERS, WORDS, CASED], (2, 1, 1))
PRODUCT = Product([CASED, Spectrum(1, tokens="words")])
MIXED = Sum([PRODUCT, EditDistance(0.1, tokens="words")])
pytestmark = pytest.mark.filterwarnings("ignore:.*near-duplicate")


def gram_of(kernel):
    return prepare(SVC(kernel, device="cpu").settings, TEXTS).gram.window().values.astype(float)


def in_views(texts, views, known=None):
    return MultiView(
        {
            view: encode_as(
                [normalise(text, keep_case=view.keep_case) for text in texts],
                view.tokens,
                None if known is None else known.of(view),
            )
            for view in views
        }
    )


def test_parts_read_their_own_view_of_the_texts():
    parts = [gram_of(part) for part in (CHARACTERS, WORDS, CASED, Spectrum(1, tokens="words"))]
    expected = parts[0] / 2 + parts[1] / 4 + parts[2] / 4
    np.testing.assert_allclose(gram_of(SUM), expected, atol=1e-6)
    np.testing.assert_allclose(gram_of(PRODUCT), parts[2] * parts[3], atol=1e-6)
    both = Sum([SUM, PRODUCT])
    assert both.structure.views == (View(), View("words"), View(keep_case=True))
    np.testing.assert_allclose(gram_of(both), (expected + parts[2] * parts[3]) / 2, atol=1e-6)
    documents = in_views(TEXTS, both.structure.views)
    _, shared = next(grams([both], documents, CPU))
    np.testing.assert_allclose(shared.rows(np.arange(len(documents))), gram_of(both), atol=1e-6)


def test_the_length_of_a_document_is_that_of_its_longest_view():
    views = [View("words"), View(), View(keep_case=True)]
    assert in_views(["a word", "Straße"], views).lengths.tolist() == [6, 7]


def test_others_are_read_in_the_same_views():
    kernel = Sum([SUM, PRODUCT])
    documents = in_views(TEXTS, kernel.structure.views)
    others = in_views(NEW, kernel.structure.views, documents)
    rows = kernel.fit(documents).rows(documents, CPU)

    def cross(part):
        read = part.structure.read(documents)
        return part.fit(read).rows(read, CPU).cross(part.structure.read(others)).astype(float)

    total = cross(CHARACTERS) / 2 + cross(WORDS) / 4 + cross(CASED) / 4
    expected = (total + cross(CASED) * cross(PRODUCT.kernels[1])) / 2
    np.testing.assert_allclose(rows.cross(others), expected, atol=1e-6)
    coef = np.random.default_rng(0).normal(size=(1, len(documents)))
    np.testing.assert_allclose(rows.decision(others, coef.T), expected @ coef.T, atol=1e-5)
    decided = kernel.predictor(documents, coef, CPU).values(others)
    np.testing.assert_allclose(decided, expected @ coef.T, atol=1e-5)


@cache
def fitted():
    return SVC(SUM, C=10, device="cpu").fit(TEXTS, LABELS)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.text(min_size=1, max_size=20))
def test_contributions_of_any_text_add_up(text):
    [found] = explain(fitted(), [text])
    if found.text:
        assert found.symbols.sum() + found.bias == pytest.approx(found.value, abs=1e-6)


@pytest.mark.parametrize("kernel", [PRODUCT, MIXED, SUM], ids=spell)
def test_a_model_of_views_is_saved_and_explained(kernel, tmp_path):
    model = SVC(kernel, C=10, device="cpu").fit(TEXTS, LABELS)
    again = reloaded(model, tmp_path / "m.textsvm")
    assert again.kernel_.structure.key == model.kernel_.structure.key
    assert tuple(again.support_documents_.documents) == kernel.structure.views
    text = "Click NOW, straße"
    [found] = explain(again, [text])
    assert found.text == text
    assert {each.text for each in found.similar} <= set(TEXTS)
    if not found.exact:
        value, without = model.decision_function([text, "NOW, straße"])
        assert found.symbols[: len("Click ")].sum() == pytest.approx(value - without)


def test_a_product_in_a_sum_is_explained_in_the_text_with_case():
    one_view = Product([Spectrum(2), GapWeighted(2)])
    model = SVC(Sum([one_view, CASED]), C=10, device="cpu").fit(TEXTS, LABELS)
    [found] = explain(model, ["Straße WIN"])
    assert found.text == "Straße WIN"
    assert not found.exact
    alone = SVC(Sum([one_view, CASED], [1, 0]), C=10, device="cpu").fit(TEXTS, LABELS)
    [found] = explain(alone, ["Straße WIN"])
    assert found.text == "Straße WIN"
    value, without = alone.decision_function(["Straße WIN", "WIN"])
    assert found.symbols[: len("Straße ")].sum() == pytest.approx(value - without)


def counted(monkeypatch, module, name):
    calls, original = [], getattr(module, name)
    monkeypatch.setattr(module, name, lambda *args: calls.append(name) or original(*args))
    return calls


def test_tuning_over_views_shares_documents_and_grams(monkeypatch):
    made = counted(monkeypatch, spectrum, "host_grams")
    distances = [counted(monkeypatch, edit.HostEdit, name) for name in ("distances_gram", "gram")]
    encoded = counted(monkeypatch, inputs, "encode_as")
    words = Spectrum(2, tokens="words")
    kernels = [
        Spectrum(2),
        words,
        Sum([Spectrum(2), words]),
        Sum([Spectrum(2), words, EditDistance(0.1, tokens="words")]),
        Sum([CASED, EditDistance(0.1, tokens="words")]),
        EditDistance(0.1),
    ]
    found = tune(SVC(device="cpu"), TEXTS, LABELS, {"kernel": kernels, "C": [0.1, 10]}, cv=3)
    assert len(encoded) == 3  # characters with case and without, and words
    assert len(made) == 3  # of one view each, the equal lengths together
    assert sum(map(len, distances)) == 2
    check_search(found, TEXTS, LABELS, NEW)


def test_functions_of_tokens_that_look_alike_are_two_views():
    class Split:
        def __init__(self, letter):
            self.letter = letter

        def __call__(self, text):
            return text.split(self.letter)

        def __repr__(self):
            return "Split"

    kernels = [Sum([Spectrum(1, tokens=Split(letter)), Spectrum(3)]) for letter in "an"]
    documents = in_views(TEXTS, [view for kernel in kernels for view in kernel.structure.views])
    for number, gram in grams(kernels, documents, CPU):
        expected = gram_of(kernels[number])
        np.testing.assert_allclose(gram.rows(np.arange(len(TEXTS))), expected, atol=1e-6)


@pytest.mark.parametrize("kernel", [WORDS, Sum([WORDS]), Sum([CHARACTERS, WORDS])], ids=spell)
def test_the_best_of_a_grid_keeps_its_own_views_alone(kernel, tmp_path):
    model = tune(
        SVC(device="cpu"), TEXTS, LABELS, {"kernel": [kernel, EditDistance(50, keep_case=True)]}, cv=2
    ).best_estimator
    kept = model.support_documents_
    assert spell(model.kernel_) == spell(kernel)
    if len(kernel.structure.views) == 1:
        assert isinstance(kept, Documents)
        assert kept.of_tokens
    else:
        assert tuple(kept.documents) == kernel.structure.views
    save(model, tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").decision_function(NEW), model.decision_function(NEW))


def test_parts_of_other_views_that_fit_no_text():
    long = Sum([Spectrum(2), Spectrum(20, tokens="words")])
    refuses("shorter than p = 20 of its part words:20", SVC(long, device="cpu").fit, TEXTS, LABELS)
    with pytest.raises(InputError, match=r"no document has any token \(tokens='words'\)"):
        SVC(Sum([Spectrum(1), Spectrum(1, tokens="words")]), device="cpu").fit([" ", "\t"] * 4, [0, 1] * 4)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("views") / "m"
    save(SVC(SUM, device="cpu").fit(TEXTS, LABELS), path)
    return path


def refused(path, edit):
    change(path, edit)
    with pytest.raises(InputError) as error:
        load(path).predict(NEW)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_file_without_one_of_its_arrays_is_refused(saved, tmp_path):
    names = read_content(saved).arrays.keys()
    assert {"view_0.codes", "view_1.tokens", "view_2.alphabet"} <= names
    for name in names - {"training_digests"}:  # files of older versions have none
        path = shutil.copy(saved, tmp_path / "m")
        message = refused(path, lambda header, arrays, name=name: arrays.pop(name))
        assert "m is damaged: it has no '" in message or name.startswith("kernel.")


def fewer_rows(header, arrays):
    arrays["view_1.offsets"] = arrays["view_1.offsets"][:-1]
    arrays["view_1.codes"] = arrays["view_1.codes"][: arrays["view_1.offsets"][-1]]


def nested(header, arrays):
    for _ in range(20):
        header["kernel"] = {"name": "sum", "kernels": [header["kernel"]], "weights": None}


@pytest.mark.parametrize(
    "edit",
    [
        fewer_rows,
        nested,
        lambda header, arrays: header["kernel"]["kernels"].pop(),
        lambda header, arrays: header["kernel"]["kernels"][0].update(tokens="whitespace"),
        lambda header, arrays: header["kernel"]["kernels"][1].update(name="spectre"),
        lambda header, arrays: header["kernel"].update(weights=[1, 2]),
        lambda header, arrays: header["kernel"].update(kernels=5),
        lambda header, arrays: header["kernel"].update(kernels=[header["kernel"]["kernels"][0], None]),
    ],
)
def test_a_file_whose_views_or_kernel_do_not_fit_is_refused(edit, saved, tmp_path):
    message = refused(shutil.copy(saved, tmp_path / "m"), edit)
    assert edit is not fewer_rows or "its support indices do not fit its support vectors" in message


SPELLED = "spectrum:2-4,log,idf+words:1-2,log,idf"
REVIEWS = ("corpora/samples/reviews.csv", "--text", "text", "--label", "label")


def test_tune_on_the_command_line(tmp_path):
    given = ["words:1-2,log,idf", SPELLED, "spectrum:2-4,log,idf,keep-case+words:1"]
    options = [word for text in given for word in ("--kernel", text)]
    found = report("tune", *REVIEWS, *options, "-C", 1, "--folds", 2, "-o", tmp_path / "m")
    assert len(found["table"]) == 3
    assert found["best_kernel_spelled"] in [text.replace("-case", "_case") for text in given]
    assert spell(load(tmp_path / "m").kernel_) == found["best_kernel_spelled"]
    message = fails("tune", *REVIEWS, "--kernel", "words:1", "--tokens", "words", code=2)
    assert "--tokens does not go with --kernel words:1" in message
