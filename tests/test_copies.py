"""Copies of texts: on one side of every split, wherever an estimate comes from, and told from new texts."""

import random
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from command import report, run
from hypothesis import example, given, settings
from hypothesis import strategies as st

from textsvm import (
    SVC,
    SVR,
    CalibratedSVC,
    MultilabelSVC,
    On,
    Spectrum,
    cross_validate,
    doubts,
    load,
    save,
    tune,
)
from textsvm.choice import choose
from textsvm.choice.candidates import Candidate
from textsvm.errors import RareClassWarning
from textsvm.evaluation.judge import data_warnings, share_of_training
from textsvm.sources import copies
from textsvm.sources.copies import copy_groups, n_copies, n_separated, text_digests
from textsvm.text.documents import encode
from textsvm.training.folds import make_folds
from textsvm.training.leakage import LeakageWarning
from textsvm.training.targets import Target

#: Texts around the lengths where digits are left out (40) and blocks end (128), in several scripts.
HOSTILE = st.one_of(
    st.text(max_size=150),
    st.builds(
        lambda piece, n: (piece * n)[:n],
        st.text(st.sampled_from("aZ09., é日\U0001f600\u0301ﬁ\ud800"), min_size=1, max_size=5),
        st.sampled_from((1, 39, 40, 41, 127, 128, 129, 256, 300)),
    ),
)
WORDS = [
    "apple", "river", "stone", "cloud", "tiger", "piano", "candle", "garden", "window", "silver", "market",
    "engine",
]  # fmt: skip


def noise(n=40, times=4, seed=0):
    """Texts of random words and their random labels, each text several times."""
    rng = random.Random(seed)
    texts = [" ".join(rng.choices(WORDS, k=6)) + f" {i}" for i in range(n)]
    return texts * times, [rng.choice("xy") for _ in texts] * times


@pytest.mark.parametrize(
    ("first", "second", "equal"),
    [
        ("A fine day", "a fine day", True),
        ("a fine day", "a  fine\tday\n", True),
        ("a fine day", "a fine day!", True),
        ("a fine day", "\u201ca fine\u00a0day\u2026\u201d", True),
        ("Straße", "STRASSE", True),
        ("e\u0301t\u00e9", "\u00e9te\u0301", True),
        ("ｆｕｌｌ width", "full width", True),
        ("日本語。", "日本語", True),
        ("Dear customer 123, your parcel waits at the office in Berlin", "Dear customer 9, your parcel "
         "waits at the office in Berlin", True),
        ("order 12", "order 13", False),
        ("a fine day", "a fine night", False),
        ("3", "4", False),
        ("!!", "??", False),
        ("!!", "!! ", True),
        ("को", "की", False),
        ("人々", "人", False),
        ("二〇二〇年", "二二年", False),
        ("", "a", False),
    ],
)  # fmt: skip
def test_texts_that_are_copies(first, second, equal):
    a, b = text_digests([first, second])
    assert (a == b) == equal


@settings(deadline=None)  # the first is compiled
@example([("a" * size + "1", "é" * (size // 2) + "1") for size in (39, 40, 41)], True)
@given(st.lists(st.tuples(HOSTILE, HOSTILE), min_size=1, max_size=9), st.booleans())
def test_compiled_letters_have_the_digests_of_letters_found_by_python(rows, several):
    texts, width = [text for row in rows for text in row], 1 + several
    by_python, compiled = (copies._digests(texts, width, in_python) for in_python in (True, False))
    assert by_python.tolist() == compiled.tolist()


def test_control_characters_are_no_letters():
    """Also beside a text that is not ASCII, with which the compiled form reads them."""
    for code in (*range(33), 127):
        for rows in (["\x80", f"0{chr(code)}"], ["x", f"0{chr(code)}b"], [chr(code), "\u00e9"]):
            compiled = copies._digests(rows, 2, False).tolist()
            assert copies._digests(rows, 2, True).tolist() == compiled
    a, b = text_digests(["a fi\x1fne day", "a fine day"])
    assert a == b


def test_compiled_digests_are_those_of_blake2b():
    """Also at the borders of its blocks of 128 bytes."""
    sizes = np.array([0, 1, 127, 128, 129, 0, 255, 256, 257, 1000, *range(90)])
    letters, ends = np.random.default_rng(0).integers(0, 256, sizes.sum()).astype(np.uint8), sizes.cumsum()
    compiled = copies._blake2b_of(letters, ends, copies._BLAKE2B_IV, copies._BLAKE2B_SIGMA)
    rows = np.split(letters, ends[:-1])
    assert compiled.tolist() == [copies._blake2b(row.tobytes()) if len(row) else 0 for row in rows]


@pytest.mark.parametrize("hidden", ["\u200b", "\ufe0f", "\u00ad", "\u0085", "\U000e0041", "\u2062"])
def test_no_invisible_character_hides_a_copy(hidden):
    a, b = text_digests(["a fine day", f"a fi{hidden}ne day"])
    assert a == b


@given(st.text())
def test_any_text_has_a_digest(text):
    digests = text_digests([text, text.swapcase() if text.isascii() else text])
    assert digests[0] == digests[1]


def test_groups_and_their_counts():
    groups = copy_groups(text_digests(["a", "b", "A", "c", "b."]))
    assert groups[0] == groups[2] != groups[1] == groups[4]
    assert n_copies(groups) == 2
    assert copy_groups(text_digests(["a", "b"])) is None
    assert text_digests(np.ones((3, 2))) is None
    columns = text_digests({"title": ["a", "a", "b"], "body": ["c", "d", "c"]})
    assert len(np.unique(columns)) == 3
    assert text_digests([]) is None
    assert n_separated(groups, 2 * [(np.array([0, 1]), np.array([2, 3]))]) == 1  # also if tested twice
    assert n_separated(groups, [(np.array([0, 2]), np.array([1, 4]))]) == 0


@pytest.mark.parametrize(
    "estimate", ["classes", "numbers", "labels", "nested", "groups", "repeats", "columns"]
)
def test_folds_keep_copies_together(estimate):
    texts, labels = noise()
    options, model = {"cv": 4}, SVC(Spectrum(2), device="cpu")
    X, y = texts, labels
    if estimate == "numbers":
        model, y = (
            SVR(Spectrum(2), device="cpu"),
            [float(label == "x") + i % 3 for i, label in enumerate(labels)],
        )
    elif estimate == "labels":
        model, y = MultilabelSVC(Spectrum(2), device="cpu"), [(label,) for label in labels]
    elif estimate == "groups":
        options["groups"] = [i // 8 for i in range(len(texts))]
    elif estimate == "repeats":
        options["repeats"] = 3
    elif estimate == "columns":
        X = pd.DataFrame({"text": texts, "nr": range(len(texts))})
        model = SVC(On("text", Spectrum(2)), device="cpu")
    with warnings.catch_warnings(action="error", category=LeakageWarning):
        result = cross_validate(model, X, y, **options)
        if estimate == "nested":
            search = tune(model, texts, labels, {"C": [1, 10]}, nested=3, **options)
            assert search.nested.mean["accuracy"] < 0.7
    assert result.copies == 120
    for train, test in result.folds:
        assert not {texts[i] for i in train} & {texts[i] for i in test}
        if estimate == "groups":
            assert not {i // 8 for i in train} & {i // 8 for i in test}
    if estimate == "classes":
        assert result.pooled["accuracy"] < 0.7
        assert cross_validate(model, texts[:40], labels[:40], cv=4).copies == 0


def test_folds_without_copies_are_those_of_the_originals():
    texts, labels = noise()
    plain = cross_validate(SVC(Spectrum(2)), texts[:40], labels[:40], cv=4)
    copied = cross_validate(SVC(Spectrum(2)), texts, labels, cv=4)
    for (_, a), (_, b) in zip(plain.folds, copied.folds, strict=True):
        assert sorted(b) == sorted(np.concatenate([a + 40 * k for k in range(4)]))


def test_a_class_of_copies_of_one_text_stays_in_training():
    texts = [f"text {word} {i}" for i, word in enumerate(WORDS)] + ["same", "Same!"] * 3
    labels = ["a", "b"] * 6 + ["c"] * 6
    with pytest.warns(
        RareClassWarning, match=r"6 documents in the texts of classes .* too few texts \('c'\)"
    ):
        result = cross_validate(SVC(Spectrum(2)), texts, labels, cv=3)
    assert result.copies == 5
    assert all(set(range(12, 18)) <= set(train) for train, _ in result.folds)


def test_copies_that_cannot_be_kept_together_are_told():
    texts, labels = ["a text", "something else"] * 6, ["x", "y"] * 6
    with pytest.warns(
        LeakageWarning, match="12 of 12 documents are tested by machines that were trained on a c"
    ):
        assert cross_validate(SVC(Spectrum(2)), texts, labels, cv=3).copies == 0
    halves = [(np.arange(6), np.arange(6, 12))]
    with pytest.warns(LeakageWarning, match="do not keep copies together: 6 of 12"):
        make_folds(halves, Target(np.arange(12) % 2, np.array(["x", "y"]), digests=text_digests(texts)))


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_a_calibration_learns_nothing_from_copies(method):
    texts, labels = noise()
    model = CalibratedSVC(SVC(Spectrum(2)), method=method).fit(texts, labels)
    assert model.held_out_accuracy_ < 0.7
    halves = np.split(np.arange(len(texts)), 2)
    with pytest.warns(LeakageWarning, match="do not keep copies together"):
        model = CalibratedSVC(SVC(Spectrum(2)), method, cv=[halves, halves[::-1]]).fit(texts, labels)
    assert model.held_out_accuracy_ is None  # it would be that of copies


@pytest.mark.parametrize("classes", [2, 3])
def test_the_choice_of_the_kernel_has_no_copies_to_look_at(classes):
    texts, labels = noise(90, 4)
    labels = [f"{label}{i % 90 % (classes - 1)}" for i, label in enumerate(labels)]
    model = SVC(time_budget=10).fit(texts, labels)
    assert "270 copies of texts are kept in one fold with them" in model.chosen_
    assert model.model_.record.held_out_accuracy < 0.7


def test_a_choice_without_honest_folds_has_no_accuracy():
    documents = encode(["acgtacgtacgtacg", "ccggttaaccggtta"] * 30).with_classes(np.arange(60) % 2)
    groups = np.arange(60) % 2
    default = Candidate(dna=True, plain=1 / 3)
    choice = choose.choose(default, documents, (None, groups), np.ones(60), 1.0, 100.0)
    assert choice.accuracy is None
    assert "58 copies of texts are not kept in one fold" in choice.description
    assert choose.choose(default, documents, (None, None), np.ones(60), 1.0, 100.0).accuracy is not None


def test_doubts_do_not_take_a_copy_for_evidence():
    texts, labels = noise(60, 3)
    result = doubts(SVC(Spectrum(2)), texts, labels, cv=5)
    assert result.copies == 120
    assert (result.score > 0.2).mean() > 0.8  # of random labels none is certain


@pytest.mark.parametrize("options", ["--calibrate sigmoid", "--holdout 0.3", ""])
def test_noise_is_no_better_than_a_constant(options, tmp_path):
    """The last line of train, whichever way the model is judged."""
    texts, labels = noise(80)
    pd.DataFrame({"text": texts, "label": labels}).to_csv(tmp_path / "c.csv", index=False)
    done = run("train", tmp_path / "c.csv", "-o", tmp_path / "m", *options.split())
    last = done.stdout.decode().splitlines()[-1]
    value, constant = map(float, re.search(r"^([\d.]+) .*?always .*?: ([\d.]+)", last).groups())
    assert ("this may be chance" if value > constant else "this is no better") in last
    assert "240 copies" in last + done.stderr.decode()
    assert float(last.partition(" % right")[0]) < 65


# Digests of the training texts


@pytest.mark.parametrize(
    "model",
    [
        SVC(Spectrum(3)), SVC(), CalibratedSVC(SVC(Spectrum(2))), SVR(Spectrum(2)),
        MultilabelSVC(Spectrum(2)),
    ],
    ids=["named", "auto", "calibrated", "numbers", "labels"],
)  # fmt: skip
def test_a_model_knows_its_training_texts(model, tmp_path):
    texts, labels = noise(30, 1)
    y = [len(text) for text in texts] if isinstance(model, SVR) else labels
    model.fit(texts, [(label,) for label in y] if isinstance(model, MultilabelSVC) else y)
    save(model, tmp_path / "m")
    loaded = load(tmp_path / "m")
    changed = [f"{text.upper()}." for text in texts]
    new, _ = noise(10, 1, seed=7)
    assert share_of_training(loaded, changed) == 1
    assert share_of_training(loaded, new) == 0
    assert share_of_training(loaded, changed + new * 3) == 0.5
    assert "50.0% of these documents were in the training" in data_warnings(loaded, changed + new * 3)[0]
    assert not any("in the training" in warning for warning in data_warnings(loaded, new))


def test_a_model_without_texts_and_a_tuned_one_know_them_too(tmp_path):
    texts, labels = noise(30, 1)
    save(SVC(Spectrum(3)).fit(texts, labels), tmp_path / "m", texts=False)
    assert share_of_training(load(tmp_path / "m"), texts) == 1
    assert all(text.encode() not in (tmp_path / "m").read_bytes() for text in texts)
    best = tune(SVC(Spectrum(3)), texts, labels, {"C": [1, 10]}, cv=3).best_model
    assert share_of_training(best, texts[:10]) == 1
    assert share_of_training(SVC(Spectrum(3)).fit(iter(texts), labels).model_, texts) == 1


def test_columns_are_compared_by_the_columns_of_the_kernel(tmp_path):
    texts, labels = noise(20, 1)
    table = {"subject": texts, "nr": [str(i) for i in range(20)]}
    save(SVC(On("subject", Spectrum(2))).fit(table, labels), tmp_path / "m")
    other = {"subject": texts, "nr": ["x"] * 20}
    assert share_of_training(load(tmp_path / "m"), other) == 1
    assert share_of_training(load(tmp_path / "m"), {**other, "subject": [text[3:] for text in texts]}) == 0


def test_a_file_without_digests_and_one_with_wrong_ones(tmp_path):
    texts, labels = noise(20, 1)
    model = SVC(Spectrum(2)).fit(texts, labels).model_
    save(model.with_record(texts=None), tmp_path / "old")
    assert load(tmp_path / "old").record.texts is None
    assert data_warnings(load(tmp_path / "old"), texts) == []
    for wrong in (np.ones(3), np.ones((2, 2), np.uint64)):
        save(model.with_record(texts=wrong), tmp_path / "bad")
        with pytest.raises(ValueError, match="digests of training texts"):
            load(tmp_path / "bad")


@pytest.mark.parametrize("options", [[], ["-q"]])
def test_evaluate_warns_of_training_documents_also_with_quiet(options, tmp_path):
    texts, labels = noise(30, 1)
    pd.DataFrame({"text": texts, "label": labels}).to_csv(tmp_path / "c.csv", index=False)
    report("train", tmp_path / "c.csv", "-o", tmp_path / "m", "--kernel", "spectrum:3", "--without-texts")
    done = run("evaluate", tmp_path / "m", tmp_path / "c.csv", *options)
    assert b"warning: 100.0% of these documents were in the training of the model" in done.stderr
    assert (b"device" in done.stderr) == (not options)
