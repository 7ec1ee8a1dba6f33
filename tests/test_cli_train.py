"""train, evaluate and predict: several classes, numbers, one class, weights, probabilities."""

import inspect
import json
import re
from dataclasses import fields

import numpy as np
import pytest
from command import fails, printed_rows, report, run, works
from loading import load

from textsvm import SVC, SVR, OneClassSVM
from textsvm.cli.machines import DEFAULTS, MachineOptions, TextOptions
from textsvm.cli.train import TaskOptions
from textsvm.evaluation import estimate
from textsvm.kernels.spelling import spell
from textsvm.model.settings import DEFAULT_KERNELS
from textsvm.model.trained import TrainedModel
from textsvm.readers import sample
from textsvm.readers.read import read_corpus
from textsvm.training.fold_grams import FoldGrams

ESSAYS = [sample("essays"), "--regress", "score"]


@pytest.mark.parametrize("group", [TextOptions, MachineOptions, TaskOptions])
def test_the_help_tells_the_defaults_of_the_estimators(group):
    compared = 0
    for option in fields(group):
        told = (
            re.search(r"\(default: ([^;)]+)", option.metadata["option"].help or "")
            if option.metadata
            else None
        )
        for estimator in (SVC, SVR, OneClassSVM):
            parameter = inspect.signature(estimator).parameters.get(option.name)
            if parameter is None:
                continue
            assert option.default in (None, parameter.default)
            if parameter.default is not None and option.default is None:
                assert type(parameter.default)(told[1]) == parameter.default, option.name
                compared += 1
    assert compared >= 1


@pytest.mark.parametrize(
    ("options", "estimator"),
    [
        ([sample("mail"), "--max-length", "50", "--kernel", "spectrum:4"], SVC("spectrum", max_length=50)),
        ([*ESSAYS, "--max-length", "50"], SVR(max_length=50)),
        ([sample("mail"), "--max-length", "50", "--one-class", "ham"], OneClassSVM(max_length=50)),
    ],
    ids=["classes", "numbers", "one class"],
)
def test_without_options_a_model_is_that_of_the_estimator(options, estimator, tmp_path):
    trained = report("train", *options, "-o", tmp_path / "m")
    assert trained["kernel"] == {"name": "spectrum", **estimator.settings.new_kernel().get_params()}
    fitted = load(tmp_path / "m").get_params(deep=False)
    assert {**fitted, "kernel": "spectrum"} == estimator.get_params(deep=False)


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    """A model of questions by the defaults, what training reported, and what it said."""
    path = tmp_path_factory.mktemp("questions") / "m"
    done = run("train", sample("questions"), "--json", "-o", path)
    return path, json.loads(done.stdout), " ".join(done.stderr.decode().split())


def test_without_a_kernel_a_classifier_chooses_one(questions):
    path, trained, said = questions
    corpus = read_corpus(sample("questions"))
    ours = SVC().fit(corpus.texts, corpus.labels)
    assert trained["chosen"] == ours.chosen_
    assert (trained["kernel_spelled"], trained["C"]) == (spell(ours.kernel_), ours.C_)
    assert trained["chosen"].endswith("the default for texts with words")
    fitted = load(path)
    assert fitted.kernel.structure.key == ours.kernel_.structure.key
    assert fitted.loss == ours.loss_ == "squared_hinge"
    given = {**fitted.get_params(deep=False), "kernel": "auto", "C": 1.0, "loss": None}
    assert given == SVC().get_params(deep=False)
    assert (fitted.C_, fitted.chosen_) == (ours.C_, ours.chosen_)
    np.testing.assert_allclose(
        fitted.decision_function(corpus.texts), ours.decision_function(corpus.texts), atol=1e-9
    )
    assert f"note: {ours.chosen_}" in said


def test_the_fast_kernel_is_a_part_of_the_default(tmp_path):
    trained = report("train", sample("questions"), "--kernel", "fast", "-o", tmp_path / "m")
    kernel = "spectrum:1-5,log,idf,odds,keep_case+words:1-2,log,idf,odds,keep_case"
    assert trained["kernel_spelled"] == kernel
    assert 1.5 < trained["C"] < 15  # of few texts
    penalty = f"with C = {trained['C']:.3g} and squared hinge loss"
    assert trained["chosen"] == f"{kernel} {penalty}: the default for texts with words"
    named = report("train", sample("reviews"), "--kernel", "fast", "-C", "3", "-o", tmp_path / "m")
    assert named["C"] == 45  # times 1.5 of the fast kernel, times 10 of few texts


def test_names_of_defaults_are_those_of_the_estimator():
    assert DEFAULTS == DEFAULT_KERNELS


def test_numbers(tmp_path):
    model = tmp_path / "m"
    options = ["--kernel", "spectrum:1-5,intersection", "--weights", "raters", "--epsilon", "0.2"]
    trained = report("train", *ESSAYS, *options, "--holdout", "0.25", "-o", model)
    assert trained["estimator"] == "SVR"
    assert trained["holdout"]["qwk"] > 0.8
    assert trained["holdout"]["mae"] < 0.8
    fitted = load(model)
    assert fitted.epsilon == 0.2
    figures = report("evaluate", model, sample("essays"))  # the column is remembered
    assert figures["n"] == 120
    corpus = read_corpus(sample("essays"), target="score")
    values = fitted.predict(corpus.texts)
    assert figures["mae"] == pytest.approx(np.abs(values - corpus.targets).mean())
    rows = printed_rows("predict", model, sample("essays"))
    assert [row["id"] for row in rows] == corpus.ids
    np.testing.assert_allclose([row["value"] for row in rows], values)


def test_one_class(tmp_path):
    model = tmp_path / "m"
    options = ["--one-class", "ham", "--nu", "0.3", "--kernel", "spectrum:3", "--holdout", "0.3", "-o", model]
    trained = report("train", sample("mail"), *options)
    assert trained["estimator"] == "OneClassSVM"
    assert [each["class"] for each in trained["classes"]] == ["ham"]
    assert trained["holdout"]["labels"] == ["rest", "ham"]
    assert trained["holdout"]["roc_auc"] > 0.7
    assert report("evaluate", model, sample("mail"))["labels"] == ["rest", "ham"]
    for row in printed_rows("predict", model, sample("mail")):
        assert row["label"] == ("ham" if row["decision"] >= 0 else "rest")
    # Documents without labels are all of the class.
    (tmp_path / "texts.jsonl").write_text('{"text": "one two three"}\n{"text": "one two four"}\n')
    assert report("train", tmp_path / "texts.jsonl", "--one-class", "normal", "-o", model)["n_train"] == 2


PROBABLE = {
    "sigmoid": ["mail", "--calibrate", "sigmoid", "--kernel", "spectrum:4"],
    "isotonic": ["mail", "--calibrate", "isotonic", "--kernel", "spectrum:4"],
    # the first class by name is the positive one
    "positive": ["newswire", "--positive", "earn", "--max-length", "200", "--calibrate", "sigmoid"],
    "several": ["questions", "--multiclass", "ovo", "--calibrate", "sigmoid", "--kernel", "spectrum:4"],
    # without --calibrate, of the folds that judge the model
    "folds": ["questions"],
}


@pytest.mark.parametrize("name", PROBABLE)
def test_probabilities(name, questions, tmp_path):
    corpus, *options = PROBABLE[name]
    model, path = tmp_path / "m", sample(corpus)
    if options:
        report("train", path, *options, "-o", model)
    else:
        model = questions[0]
    rows = printed_rows("predict", model, path, "--proba")
    assert [row["label"] for row in rows] == [row["label"] for row in printed_rows("predict", model, path)]
    best = [max(row["probabilities"].values()) for row in rows]
    least = round(float(np.median(best)), 4)
    band = f"{least}" if corpus == "questions" else "0.2,0.9"
    unsure = [row["label"] for row in printed_rows("predict", model, path, "--unsure", band)]
    for row, most, label in zip(rows, best, unsure, strict=True):
        probabilities = row["probabilities"]
        assert sum(probabilities.values()) == pytest.approx(1)
        assert probabilities[row["label"]] == most
        positive = probabilities.get({"mail": "spam", "newswire": "earn"}.get(corpus))
        sure = most >= least if positive is None else not 0.2 < positive < 0.9
        assert label == (row["label"] if sure else "unsure")
    assert 0 < unsure.count("unsure") < len(rows) or name == "isotonic"
    if corpus == "mail":
        figures = report("evaluate", model, path)
        assert figures["brier"] < 0.2
        assert figures["log_loss"] < 0.6


def test_bands_and_tables_of_probabilities(questions):
    model = questions[0]
    assert "for two classes" in fails("predict", model, "--unsure", "0.1,0.9", code=2)
    assert "lower one first" in fails("predict", model, "--unsure", "0.9,0.1", code=2)
    table = run("predict", model, "-", "--proba", "--top", "2", "--output-format", "csv", stdin=b"Why?")
    head, row = table.stdout.decode().splitlines()
    assert head == "id,label,confidence,label_1,decision_1,probability_1,label_2,decision_2,probability_2"
    assert float(row.split(",")[2]) == pytest.approx(float(row.split(",")[5]), abs=1e-6)


def test_quiet_training_prints_nothing(tmp_path):
    done = run("train", sample("mail"), "--kernel", "spectrum", "-o", tmp_path / "m", "-q")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.slow
def test_r8(data, tmp_path):
    options = ["--part", "train", "--kernel", "spectrum:1-5,log,idf", "-o", tmp_path / "m"]
    trained = report("train", data / "r8", *options, "--multiclass", "ovr")
    assert [each["documents"] for each in trained["classes"]] == [1596, 253, 2840, 41, 190, 206, 108, 251]
    figures = report("evaluate", tmp_path / "m", data / "r8", "--part", "test")
    assert figures["n"] == 2189
    assert figures["accuracy"] > 0.97


@pytest.mark.slow
def test_asap_essays(data, tmp_path):
    path = data / "asap-aes" / "training_set_rel3.tsv.xz"
    options = ["--text", "essay", "--regress", "domain1_score", "-C", "1", "--tol", "0.1"]
    trained = report("train", path, *options, "--max-length", "600", "-o", tmp_path / "m", "--holdout", "0.2")
    assert trained["n_train"] == 10_382
    assert trained["holdout"]["n"] == 2596
    assert trained["holdout"]["pearson"] > 0.8


@pytest.mark.slow
def test_a_class_of_one_document_is_trained_on_and_not_held_out(tmp_path):
    rows = "".join(f"{'ab'[i % 2] * 9} {i},{'ab'[i % 2]}\n" for i in range(8)) + "alone,c\n"
    (tmp_path / "x.csv").write_text("text,label\n" + rows)
    done = run("train", tmp_path / "x.csv", "--holdout", "0.5", "--json", "-o", tmp_path / "m")
    assert b"note: class 'c' has 1 document: it is trained on and never held out" in done.stderr
    found = json.loads(done.stdout)
    assert (found["n_train"], found["holdout"]["n"]) == (5, 4)
    assert {"class": "c", "documents": 1, "support_vectors": 1} in found["classes"]
    (tmp_path / "y.csv").write_text("text,label\none,a\ntwo,b\n")
    message = fails("train", tmp_path / "y.csv", "--holdout", "0.5", "-o", tmp_path / "m2")
    assert "--holdout 0.5 cannot be drawn" in message


def test_rare_classes_are_calibrated_too(tmp_path):
    rows = "".join(f"{'ab'[i % 2] * 9} {i},{'ab'[i % 2]}\n" for i in range(20)) + "alone,c\n"
    (tmp_path / "x.csv").write_text("text,label\n" + rows)
    done = run("train", tmp_path / "x.csv", "--calibrate", "sigmoid", "-o", tmp_path / "m")
    assert (
        b"note: classes of a single document ('c') are trained on in every fold and never tested"
        in done.stderr
    )
    [row] = printed_rows("predict", tmp_path / "m", tmp_path / "x.csv", "--proba")[-1:]
    assert row["probabilities"].keys() == {"a", "b", "c"}
    assert all(0 < p < 1 for p in row["probabilities"].values())


@pytest.mark.parametrize("kernel", ["spectrum", "edit:gamma=1"])
def test_near_copies_in_the_held_out_part_are_told(kernel, tmp_path, write):
    rows = [
        (f"the {word} of number {i} is {i * i} and is written so " * 4, word)
        for i in range(12)
        for word in ("banana", "monday")
    ]
    rows = [f"{text}{end},{word}\n" for end in ("", "x") for text, word in rows]
    path = write("x.csv", "text,label\n" + "".join(rows))
    done = run("train", path, "--kernel", kernel, "-o", tmp_path / "m", "--holdout", "0.25", "--json")
    found = json.loads(done.stdout)["holdout"]["near_duplicates"]
    warning = f"warning: {len(found)} documents are tested by machines that were trained on a near-duplicate"
    if kernel == "edit:gamma=1":  # one edit away is far at this gamma
        assert found == []
        assert b"near-duplicate" not in done.stderr
        return
    corpus = read_corpus(path)
    text_of = dict(zip(corpus.ids, corpus.texts, strict=True))
    assert len(found) >= 3
    assert all(text_of[each["test"]] != text_of[each["train"]] for each in found)
    assert warning in done.stderr.decode()
    assert b"--group-duplicates" in done.stderr


def last_line(*options, path):
    result = works("train", *options, "-o", path / "m", "--force")
    *_, line = result.stdout.decode().splitlines()
    assert "support vectors" not in result.stdout.decode()
    return line


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            [sample("questions"), "--kernel", "fast"],
            "(3-fold cross-validation, 9 copies kept together with the originals); always 'what'",
        ),
        (
            [sample("mail"), "--kernel", "spectrum:3", "--holdout", "0.25"],
            "(100 documents); always 'ham': 58.0 %; next",
        ),
        ([sample("questions"), "--multilabel", "--kernel", "spectrum:3"], "next: `textsvm explain"),
        ([*ESSAYS, "--kernel", "spectrum:3"], "(3-fold cross-validation); always the median 3: 1.4; next"),
        ([sample("mail"), "--one-class", "ham"], "next: `textsvm evaluate`"),
        (
            [sample("mail"), "--kernel", "spectrum:3", "--calibrate", "sigmoid"],
            "right on documents held out",
        ),
        ([sample("mail"), "--kernel", "gap", "--max-length", "3000"], "not tested: 3-fold cross-valid"),
    ],
    ids=["fast", "holdout", "multilabel", "numbers", "one class", "calibrated", "slow"],
)  # fmt: skip
def test_the_last_line_tells_how_good_the_model_is(options, words, tmp_path):
    assert words in last_line(*options, path=tmp_path)


def noise(i):
    return f"number {i * 7919 % 101} and {i * 104729 % 97}"


def rare(n, count):
    """Few texts of one class, and others that a machine tells apart from them."""
    texts = ["win cash now"] * count + ["lunch at noon"] * (n - count)
    return [f"{text} {i} {i * 7919 % 101},{int(i < count)}" for i, text in enumerate(texts)]


NEXT = "100.0 % right.* next: `textsvm explain MODEL"
TABLES = {
    "no mistakes": (rare(200, 3), ["--kernel", "spectrum:3"], NEXT),
    "no mistakes of the default": (rare(200, 3), [], NEXT),
    "no mistakes of the fast kernel": (rare(60, 30), ["--kernel", "fast"], NEXT),
    "a constant set of labels": (
        [f"{noise(i)},{'pqr'[i % 3]};{'pqr'[i * 31 % 7 % 3]}" for i in range(60)],
        ["--multilabel", "--kernel", "spectrum:2"],
        "always '.', '.', '.': [67].*this is no better",  # by micro F1
    ),
    "a constant": ([f"{noise(i)},{i * 31 % 7 % 2}" for i in range(60)], ["--kernel", "spectrum:1"],
                   "this is no better"),
    "nearly equal labels": (
        [f"{noise(i)},{int(i % 25 == 0)}" for i in range(150)],
        ["--kernel", "spectrum:2"],
        "next: `textsvm cv` shows macro F1, for nearly all labels are '0'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_the_last_line_compares_with_a_constant_answer(name, tmp_path):
    rows, options, words = TABLES[name]
    (tmp_path / "x.csv").write_text("\n".join(["text,label", *rows]))
    assert re.search(words, last_line(tmp_path / "x.csv", *options, path=tmp_path))


@pytest.mark.parametrize(
    ("labels", "noted"), [("1.5 2 3.5", True), ("2,3 1 4,5", True), ("1 2 3", False), ("a 1.5 2", False)]
)
def test_numbers_with_a_fraction_as_classes_are_noted(labels, noted, tmp_path):
    rows = [f'this is text {i},"{label}"\n' for i in range(8) for label in labels.split()]
    (tmp_path / "x.csv").write_text("text,label\n" + "".join(rows))
    said = run("train", tmp_path / "x.csv", "--kernel", "spectrum:2", "-o", tmp_path / "m").stderr.decode()
    assert bool(re.search(r"numbers with a fraction .*--regress\s+COLUMN\s+predicts numbers", said)) == noted


def test_a_cross_validation_that_takes_long_frees_its_gram(monkeypatch):
    made, released, initialise = [], [], FoldGrams.__init__
    monkeypatch.setattr(estimate, "SECONDS", -1.0)
    monkeypatch.setattr(FoldGrams, "release", lambda self: released.append(self))
    monkeypatch.setattr(
        FoldGrams,
        "__init__",
        lambda self, *given, **more: (made.append(self), initialise(self, *given, **more))[1],
    )
    # Of the tested sample, too: weights of all features would take memory for each machine.
    monkeypatch.setattr(TrainedModel, "decision_function", None)
    corpus = read_corpus(sample("reviews"), text="text")
    model = SVC("fast").fit(corpus.texts, corpus.labels)
    quality = estimate.estimate_quality(model.settings, model.model_, corpus, with_folds=True)[0]
    assert "documents" in quality.where
    assert len(made) == 2
    assert all(any(grams is freed for freed in released) for grams in made)


def test_the_estimate_with_many_classes_of_few_texts_tests_classes_of_training(tmp_path):
    rng = np.random.default_rng(0)
    words = rng.choice(list("abcdefghijklmnopqrstuvwxyz"), (1500, 21))
    rows = [f"{''.join(word)} {k},c{i}" for i, word in enumerate(words) for k in "xy"]
    (tmp_path / "two.csv").write_text("\n".join(["text,label", *[rows[i] for i in rng.permutation(3000)]]))
    line = last_line(tmp_path / "two.csv", "--kernel", "spectrum:3", path=tmp_path)
    assert float(line.split(" %")[0]) > 95, line
    assert re.search(r"\(\d+ documents, .* with [\d,]+ of 1,500 classes\)", line), line
    (tmp_path / "copies.csv").write_text("\n".join(["text,label", *rows[:800:2] * 2]))
    line = last_line(tmp_path / "copies.csv", "--kernel", "spectrum:3", path=tmp_path)
    assert line.startswith("not tested, for no class has two different texts; next: add"), line


def test_classes_of_one_document_and_empty_documents_are_mentioned(tmp_path):
    for i in range(40):
        (place := tmp_path / "t" / f"c{i if i < 10 else 10 + i % 2}").mkdir(parents=True, exist_ok=True)
        (place / f"{i}.txt").write_text("" if 0 < i < 10 else f"word{i} apple")
    result = run("train", tmp_path / "t", "--kernel", "fast", "-o", tmp_path / "m")
    said = result.stderr.decode()
    assert result.returncode == 0, said
    assert "warning: 10 of the 12 classes have a single document" in said
    assert re.search(r"9 of 40 documents are empty, first \S*c1/1.txt", said), said
    (tmp_path / "n.csv").write_text("text,title\ngood,a\n,b\nbad,c\n")
    said = run("explain", "m", "n.csv", cwd=tmp_path).stderr.decode()
    assert "1 of 3 documents are empty and left out, first n.csv, document 3\n" in said
    usual = run("train", sample("reviews"), "--kernel", "fast", "-o", tmp_path / "m").stderr.decode()
    assert "single document" not in usual
    assert "empty" not in usual
    assert "symbols" not in usual


def test_a_document_much_longer_than_the_others_is_named(tmp_path):
    rows = [f"text number {i},{'ab'[i % 2]}" for i in range(40)] + [f"{'long ' * 250_000},a"]
    (tmp_path / "t.csv").write_text("\n".join(["text,label", *rows]))
    said = run(
        "train", tmp_path / "t.csv", "--kernel", "fast", "--max-length", "100", "-o", tmp_path / "m"
    ).stderr.decode()
    assert "document 42 has 1,250,000 symbols, and the median is 14; --max-length cuts long documents" in said


def test_other_charsets_than_declared_are_told_calmly(tmp_path):
    for i in range(8):
        (tmp_path / "c" / ("ham", "spam")[i % 2]).mkdir(parents=True, exist_ok=True)
        head = b"From: a@b.c\nSubject: x\nContent-Type: text/plain; charset=us-ascii\n\n"
        (tmp_path / "c" / ("ham", "spam")[i % 2] / f"{i}").write_bytes(head + b"caf\xe9 %d" % i)
    said = run("train", tmp_path / "c", "--kernel", "fast", "-o", tmp_path / "m").stderr.decode()
    assert "some bytes are not us-ascii, which was declared, and were read as Windows-1252" in said
    assert "3 more notes of that kind" in said
    assert "damaged" not in said + run("corpus", tmp_path / "c").stdout.decode()


@pytest.mark.parametrize(
    ("corpus", "positive", "options", "negative"),
    [
        ("mail", "spam", [], "ham"),  # of two classes each keeps its name
        ("mail", "spam", ["--negative", "rest"], "rest"),
        ("questions", "when", [], "rest"),
    ],
)
def test_the_name_of_the_negative_class(corpus, positive, options, negative, tmp_path):
    path, model = sample(corpus), tmp_path / "m"
    said = report("train", path, "--positive", positive, *options, "--kernel", "fast", "-o", model)
    assert [each["class"] for each in said["classes"]] == [negative, positive]
    assert load(model).model_.info["negative"] == negative
    assert report("evaluate", model, path)["labels"] == [negative, positive]
    [row] = printed_rows("predict", model, stdin=b"the meeting is on monday")
    assert row["label"] == (positive if row["decision"] >= 0 else negative)


def test_joined_columns_are_one_text(tmp_path):
    """--text title,body, recorded in the model, is a text of both with a line break between them."""
    rows = [(f"win cash {i}", "claim it now") if i % 2 else (f"lunch {i}", "at noon") for i in range(20)]
    for name, head in (("two.csv", "title,body"), ("other.csv", "body,title")):
        cells = rows if name == "two.csv" else [row[::-1] for row in rows]
        lines = [f"{','.join(row)},{i % 2}" for i, row in enumerate(cells)]
        (tmp_path / name).write_text("\n".join([f"{head},label", *lines]))
    joined = [json.dumps({"text": "\n".join(row), "label": str(i % 2)}) for i, row in enumerate(rows)]
    (tmp_path / "one.jsonl").write_text("\n".join(joined))
    join = ["--text", "title,body"]
    report("train", "two.csv", *join, "--kernel", "spectrum:2", "-o", "two", cwd=tmp_path)
    report("train", "one.jsonl", "--kernel", "spectrum:2", "-o", "one", cwd=tmp_path)
    texts = ["\n".join(row) for row in rows]
    models = [load(tmp_path / name) for name in ("two", "one")]
    values = [model.decision_function(texts).tolist() for model in models]
    assert values[0] == values[1]
    for name in ("two.csv", "other.csv"):
        printed = run("predict", "two", name, cwd=tmp_path).stdout.splitlines()
        assert [json.loads(line)["decision"] for line in printed] == pytest.approx(values[0])
    for command in ("cv two.csv --folds 2", "tune two.csv --folds 2 --p 2 -C 1", "doubts two.csv"):
        assert b"text title + body" in works(*command.split(), *join, cwd=tmp_path).stderr
