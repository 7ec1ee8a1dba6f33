"""Models without training texts: the same decisions from one weight a feature; nothing hostile gets in."""

import json
import pickle

import numpy as np
import pytest
from command import report, run, works
from loading import change, load
from refusals import refuses

import textsvm
from textsvm import (
    SVC,
    SVR,
    BoundedGap,
    CalibratedSVC,
    EditDistance,
    GapWeighted,
    MultilabelSVC,
    OneClassSVM,
    Product,
    Spectrum,
    Sum,
)
from textsvm.evaluation.explanation import explain
from textsvm.evaluation.judge import judge
from textsvm.kernels.mers.gapped import GappedKmers
from textsvm.kernels.shared.counting import count
from textsvm.kernels.spectrum.weight_vectors import WeightVectors
from textsvm.model.file import FORMAT_VERSION, WITHOUT_TEXTS, read_content
from textsvm.model.settings import STRATEGIES
from textsvm.readers import sample
from textsvm.readers.read import read_corpus
from textsvm.text.documents import encode

TEXTS = [
    "a banana",
    "the bandana",
    "banana bread",
    "on monday",
    "a sunday",
    "monday, tuesday",
    "ban the bread",
]
LABELS = ["fruit", "cloth", "fruit", "cloth", "cloth", "cloth", "fruit"]
THREE = ["fruit", "cloth", "fruit", "day", "day", "day", "cloth"]
NUMBERS = [1.0, 2.5, 1.5, 7.0, 8.0, 9.0, 2.0]
NEW = [*TEXTS, "", "日本 banana", "Ünseen sýmbols!", "bbbbbbbananananana", "x"]
KERNELS = [
    Spectrum(2),
    Spectrum(4),
    Spectrum((1, 3), normalised=False),
    Spectrum((1, 20)),
    Spectrum((1, 3), "log", idf=True),
    Spectrum((3, 6), "presence", idf=True),
    Spectrum((2, 4), "intersection"),
    Spectrum((1, 4), "intersection", idf=True),
    Spectrum((1, 3), "log", idf=True, odds=True),
    Spectrum((2, 3), "presence", odds=True),
    Spectrum((1, 2), "log", idf=True, tokens="words"),
    Spectrum(2, keep_case=True),
    Sum([Spectrum((1, 3), "log", idf=True), Spectrum((1, 2), tokens="words")], weights=[1, 3]),
    Sum([Spectrum(2), Sum([Spectrum(3, "intersection"), EditDistance()], weights=[1, 0])]),
]


def without(model, path):
    textsvm.save(model, path, {"a": 1}, texts=False)
    return load(path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "m.textsvm"


@pytest.mark.slow
@pytest.mark.parametrize("labels", [LABELS, THREE], ids=["2 classes", "3 classes"])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_decisions_and_explanations_are_the_same(kernel, labels, path):
    model = SVC(kernel, C=5, device="cpu").fit(TEXTS, labels)
    again = without(model, path)
    assert again.support_documents_ is not None
    assert (len(again.support_documents_), again.dual_coef_.size, len(again.support_)) == (0, 0, 0)
    assert again.n_support_.tolist() == model.n_support_.tolist()
    np.testing.assert_allclose(again.decision_function(NEW), model.decision_function(NEW), atol=1e-6)
    assert again.predict(NEW).tolist() == model.predict(NEW).tolist()
    assert again.model_.info == {"a": 1}
    for mine, theirs in zip(explain(again, NEW), explain(model, NEW), strict=True):
        np.testing.assert_allclose(mine.symbols, theirs.symbols, atol=1e-6)
        assert mine.value == pytest.approx(theirs.value, abs=1e-6)
        assert mine.prediction == theirs.prediction
        assert mine.similar == []
        found = {(each.text, each.count): each.contribution for each in mine.substrings}
        for each in theirs.substrings:
            if abs(each.contribution) > 1e-6 and (each.text, each.count) in found:
                assert found[each.text, each.count] == pytest.approx(each.contribution, abs=1e-6)
        assert len(mine.substrings) == len(theirs.substrings)


@pytest.mark.parametrize(
    ("estimator", "target", "decide"),
    [
        (SVR(Spectrum((1, 3), "log", idf=True), C=5), NUMBERS, "predict"),
        (OneClassSVM(Spectrum(2, "intersection"), nu=0.4), None, "decision_function"),
        (
            MultilabelSVC(Spectrum(2), thresholds="zero"),
            [(a, "short") if len(a) < 5 else (a,) for a in THREE],
            "predict",
        ),
        (MultilabelSVC(Spectrum(2), thresholds="zero"), [(a,) for a in THREE], "decision_function"),
        (CalibratedSVC(SVC(Spectrum(2)), cv=2), LABELS, "predict_proba"),
        (SVC("fast"), LABELS, "decision_function"),
        *(
            (SVC(Spectrum((1, 3)), multiclass=name, class_weight={"day": 2.0}), THREE, "decision_function")
            for name in STRATEGIES
        ),
    ],
)
def test_every_estimator(estimator, target, decide, path):
    model = estimator.fit(TEXTS, target)
    again = without(model, path)
    found, expected = getattr(again, decide)(NEW), getattr(model, decide)(NEW)
    if isinstance(expected, np.ndarray):
        np.testing.assert_allclose(found, expected, atol=1e-6)
    else:
        assert found == expected
    assert np.asarray(again.n_support_).tolist() == np.asarray(model.n_support_).tolist()
    assert len(explain(again, NEW)) == len(NEW)


def test_a_file_without_texts_is_small_and_has_no_training_text(path):
    corpus = read_corpus(sample("reviews"), text="text", label="label")
    model = SVC(Spectrum((1, 5), "log", idf=True)).fit(corpus.texts, corpus.labels)

    def pieces_in_the_file():
        content, documents = path.read_bytes(), model.support_documents_
        found = 0
        for i in range(len(documents)):
            text = documents.text(i)
            codes = documents.codes[documents.offsets[i] : documents.offsets[i + 1]]
            for at in range(0, len(text) - 12, 6):
                forms = [text[at : at + 12].encode(coding) for coding in ("utf-8", "utf-16-le", "utf-32-le")]
                forms += [codes[at : at + 12].astype(kind).tobytes() for kind in ("u1", "u2", "u4", "u8")]
                found += any(form in content for form in forms)
        return found

    textsvm.save(model, path)
    assert pieces_in_the_file() > 500
    textsvm.save(model, path, texts=False)
    assert pieces_in_the_file() == 0
    assert path.stat().st_size < 10 * len(model.kernel_.weights_.df) + 4000


def test_format_versions(path):
    model = SVC(Spectrum(2)).fit(TEXTS, LABELS)
    textsvm.save(model, path)
    assert read_content(path).header["format_version"] == FORMAT_VERSION == 2
    textsvm.save(model, path, texts=False)
    assert read_content(path).header["format_version"] == WITHOUT_TEXTS == 3


def test_it_can_be_saved_again_pickled_and_trained_anew(path, tmp_path):
    model = without(SVC(KERNELS[-2]).fit(TEXTS, LABELS), path)
    other = tmp_path / "other.textsvm"
    textsvm.save(model, other, {"a": 1})  # there are no texts to save
    assert other.read_bytes() == path.read_bytes()
    pickled = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(pickled.decision_function(NEW), model.decision_function(NEW))
    model.fit(TEXTS, LABELS)
    textsvm.save(model, other)
    assert len(load(other).support_documents_) == len(model.support_) > 0


def test_texts_without_features_are_left_out_with_a_warning(path):
    texts = ["on", *TEXTS, "no"]
    model = SVC(Spectrum(3)).fit(texts, ["fruit", *LABELS, "cloth"])
    with pytest.warns(UserWarning, match="2 support vectors have no feature"):
        textsvm.save(model, path, texts=False)
    found = load(path).decision_function(["on", "no", "ab", ""])
    assert set(found) == {model.intercept_[0]}
    assert model.decision_function(["on"])[0] != found[0]


def test_a_model_of_no_support_vector(path):
    model = SVR(Spectrum(3), epsilon=100.0).fit(TEXTS, NUMBERS)
    assert not len(model.support_)
    np.testing.assert_array_equal(without(model, path).predict(NEW), model.predict(NEW))


def lengths(a, b):
    return np.outer([len(s) for s in a], [len(t) for t in b])


@pytest.mark.parametrize(
    "kernel",
    [
        EditDistance(),
        GapWeighted(2),
        GappedKmers(3, 2),
        BoundedGap(2),
        Product([Spectrum(2), Spectrum(3)]),
        Sum([Spectrum(2), EditDistance()]),
        Sum([Spectrum(2), BoundedGap(2)]),
        lengths,
        "precomputed",
    ],
    ids=lambda kernel: "function" if kernel is lengths else str(kernel),
)
def test_kernels_without_weights_are_refused(kernel, path):
    for settings in (SVC(kernel).settings, CalibratedSVC(SVC(kernel)).settings.classifier):
        refuses(r"spectrum kernels|precomputed", settings.source.require_weights)
    given = np.eye(7) if isinstance(kernel, str) else TEXTS
    refuses(r"spectrum kernels|precomputed", textsvm.save, SVC(kernel).fit(given, LABELS), path, texts=False)
    assert not path.exists()


def test_judging_warns_of_training_texts_and_of_other_alphabets(path):
    """The file has digests of the training texts, not the texts."""
    model = without(SVC(Spectrum(2)).fit(TEXTS, LABELS), path)
    assert judge(model, [f"{text} banana" for text in TEXTS], LABELS).warnings == []
    [told] = judge(model, [TEXTS[0].upper(), *(f"{text} banana" for text in TEXTS[1:])], LABELS).warnings
    assert f"{1 / len(TEXTS):.1%} of these documents were in the training" in told
    told = judge(model, ["日本語の文書", *TEXTS[:3]], LABELS[:4]).warnings
    assert "do not occur" in told[1]
    assert "75.0% of these documents were in the training" in told[0]


@pytest.mark.parametrize("share", [0.02, 1.0])
def test_rows_that_are_mostly_zero_take_little_space(share):
    random = np.random.default_rng(3)
    known, _ = count(encode(["".join(random.choice(list("abcdef"), 4000))]), 1, 5)
    n = int(known.first[-1])
    dense = random.normal(size=(n, 30)) * (random.random((n, 30)) < share)
    vectors = WeightVectors.of(known, np.arange(n + 1), dense)
    state = vectors.state(1.0, unary=False)
    assert sum(each.nbytes for each in state.values()) < 1.1 * 4 * n * 30 * min(1, 2 * share)
    again = WeightVectors.from_state(state, known, unary=False)
    np.testing.assert_array_equal(again.row, vectors.row)
    np.testing.assert_array_equal(again.weights, dense[(dense != 0).any(axis=1)].astype(np.float32))


def test_terms_of_a_sum_share_the_tolerance_of_its_values():
    model = SVC(Sum([Spectrum(2), Spectrum(3)]), device="cpu").fit(TEXTS, LABELS).model_
    support = model.support
    weights = support.kernel.features.weights(support.documents, model.predictor.dual_coef)

    def is_rounded(own, tolerance):
        return all(array.dtype != np.float64 for array in own.state(tolerance).values())

    tolerances = np.geomspace(1e-12, 1, 500)
    least = max(min(t for t in tolerances if is_rounded(part, t)) for part in weights.parts)
    assert (is_rounded(weights, 1.9 * least), is_rounded(weights, 2.1 * least)) == (False, True)


HOSTILE = [
    Spectrum((1, 4), "intersection", idf=True),
    Spectrum((2, 3), "log", idf=True, odds=True),
    Spectrum(3),
]


@pytest.mark.parametrize("kernel", HOSTILE, ids=str)
def test_damaged_arrays_are_refused(kernel, path):
    textsvm.save(SVC(kernel).fit(TEXTS, LABELS), path, texts=False)
    content, tried = path.read_bytes(), 0
    for name, array in read_content(path).arrays.items():
        if not name.startswith("weights."):
            continue
        largest = np.iinfo(array.dtype).max if array.dtype.kind in "iu" else np.nan
        # Class odds without that of unknown p-mers, the last one, are of a model saved before there was one.
        changes = [
            array[: -2 if "odds" in name else -1],
            np.append(array, array[-1:], axis=0),
            array[None],
            np.full_like(array, largest),
        ]
        changes += (
            [array.astype(np.float16), array.astype(np.int8).view(bool)] if array.dtype.kind != "f" else []
        )
        for changed in changes:
            path.write_bytes(content)
            change(path, lambda _, arrays, name=name, changed=changed: arrays.update({name: changed}))
            refuses(r"m\.textsvm", load, path)
            tried += 1
        path.write_bytes(content)
        if not name.startswith("weights.ends"):  # of a length without them there are no p-mers
            change(path, lambda _, arrays, name=name: arrays.pop(name))
            refuses(r"m\.textsvm", load, path)
    assert tried > 20


EDITS = [
    lambda header: header.update(format_version=2),
    lambda header: header.update(format_version=4),
    lambda header: header.update(classes=["a", "b", "c"]),
    lambda header: header.update(n_support=[1, -1]),
    lambda header: header.update(kernel={"name": "edit"}),
    lambda header: header.update(kernel={"name": "sum", "kernels": []}),
    lambda header: header["kernel"].update(p=0),
    lambda header: header["kernel"].update(tokens="words"),
    lambda header: header["kernel"].update(weight="intersection"),
    lambda header: header["kernel"].update(idf=True),
    lambda header: header["kernel"].update(p=[3, 3]),
    lambda header: header.update(format_version=3),  # support vectors do not pass for weights
]


@pytest.mark.parametrize("edit", EDITS)
def test_hostile_headers(edit, path):
    textsvm.save(SVC(Spectrum(4)).fit(TEXTS, LABELS), path, texts=edit is EDITS[-1])
    change(path, lambda header, _: edit(header))
    refuses(r"m\.textsvm", load, path)


def test_sizes_beyond_the_memory_are_refused_before_they_are_made(path):
    textsvm.save(SVC(Spectrum(2)).fit(TEXTS, LABELS), path, texts=False)
    n = len(read_content(path).arrays["weights.weights"])
    packed = {
        "weights.weights": np.ones(1, np.float32),
        "weights.weights_of": np.zeros(1, np.uint8),
        "weights.weights_each": np.eye(1, n, dtype=np.uint8)[0],
        "weights.machines": np.array([1 << 60]),
    }
    change(path, lambda _, arrays: arrays.update(packed))
    refuses("bytes of memory", load, path)


class TestCommandLine:
    @pytest.mark.parametrize("options", [("--kernel", "spectrum:1-4,log,idf"), ("--kernel", "fast")])
    def test_train_predict_evaluate_explain(self, options, tmp_path):
        corpus = [sample("reviews"), "--text", "text", "--label", "label"]
        plain, bare = tmp_path / "plain", tmp_path / "bare"
        whole = report("train", *corpus, *options, "-o", plain)
        made = report("train", *corpus, *options, "--without-texts", "-o", bare)
        assert (whole["texts"], made["texts"]) == (True, False)
        assert (whole["bytes"], made["bytes"]) == (plain.stat().st_size, bare.stat().st_size)
        assert (
            report("evaluate", bare, *corpus)["confusion"] == report("evaluate", plain, *corpus)["confusion"]
        )
        works("predict", bare, "-", stdin=b"What a wonderful film.")
        why = run("explain", bare, "-", "--json", stdin=b"What a wonderful film.")
        assert json.loads(why.stdout)["similar"] == []
        assert b"no training documents are listed" in why.stderr
        works("evaluate", bare, *corpus, "--report", tmp_path / "r.html")
        assert "left out, with their texts" in (tmp_path / "r.html").read_text()

    def test_the_size_is_said(self, tmp_path):
        done = works(
            "train", sample("mail"), "--kernel", "spectrum:3", "--without-texts", "-o", tmp_path / "m"
        )
        assert b"B, no training text in it" in done.stderr
