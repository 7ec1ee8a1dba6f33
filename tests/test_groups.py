"""Groups (books, threads): no fold has a group on both sides, and promises hold for new groups."""

import json
from dataclasses import replace

import numpy as np
import pytest
import sklearn
from books import COMMON, markers, novels, table
from command import fails, report, run, works
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import textsvm
from textsvm.choice import choose
from textsvm.errors import RareClassWarning
from textsvm.evaluation import drift, estimate, judge
from textsvm.readers.corpus import Corpus
from textsvm.readers.read import read_corpus, read_documents
from textsvm.selection import cross_validation
from textsvm.selection import doubts as doubts_module
from textsvm.sources.copies import n_separated
from textsvm.text.documents import encode
from textsvm.text.pieces import Pieces
from textsvm.training import train as training
from textsvm.training.folds import make_folds
from textsvm.training.targets import Target

CHARACTERS = textsvm.Spectrum((1, 4), "log", idf=True)


def recorded(monkeypatch, module, name):
    """Targets and folds of the calls of a function of `module` that takes a `FoldTask`."""
    tasks, real = [], getattr(module, name)

    def call(*arguments, **keywords):
        tasks.extend(x for x in arguments if isinstance(x, training.FoldTask))
        return real(*arguments, **keywords)

    monkeypatch.setattr(module, name, call)
    return tasks


def apart(groups, folds):
    """Whether no fold has a group on both sides."""
    numbers = np.unique(groups, return_inverse=True)[1]
    return len(folds) > 1 and n_separated(numbers, folds) == 0


@pytest.mark.parametrize("grouped", [True, False])
def test_every_estimate_of_the_estimators_is_for_new_groups(grouped, monkeypatch):
    texts, labels, names = markers()
    groups = names if grouped else None

    def honest(accuracy):
        return accuracy < 0.75 if grouped else accuracy > 0.85

    assert honest(
        textsvm.CalibratedSVC(textsvm.SVC(CHARACTERS)).fit(texts, labels, groups=groups).held_out_accuracy_
    )
    model = textsvm.SVC(time_budget=1.0).fit(texts, labels, groups=groups)
    assert honest(model.model_.record.held_out_accuracy)
    assert ("each group is in one fold" in model.chosen_) == grouped
    for kernel in (CHARACTERS, "auto"):
        found = textsvm.cross_validate(textsvm.SVC(kernel), texts, labels, groups=groups, cv=4)
        assert honest(found.pooled["accuracy"])
        assert apart(names, found.folds) == grouped
    found = textsvm.tune(textsvm.SVC(CHARACTERS), texts, labels, {"C": [1, 10]}, groups=groups, nested=3)
    assert honest(found.best_score)
    assert honest(found.nested.mean["accuracy"])
    folds = []
    monkeypatch.setattr(
        doubts_module,
        "solve_folds",
        lambda *given, real=doubts_module.solve_folds: folds.extend(given[3]) or real(*given),
    )
    found = textsvm.doubts(textsvm.SVC(CHARACTERS), texts, labels, groups=groups)
    assert apart(names, folds) == grouped
    assert honest(np.mean(found.suggested == np.array(labels)))


@pytest.mark.parametrize("kernel", [CHARACTERS, "auto"])
def test_offsets_and_thresholds_come_from_folds_of_groups(kernel, monkeypatch):
    texts, labels, names = markers(12, 4)
    tasks = recorded(monkeypatch, training, "train_and_test")
    textsvm.SVC(kernel, scoring="f1_macro").fit(texts, labels, groups=names)
    if kernel is CHARACTERS:
        textsvm.MultilabelSVC(kernel).fit(texts, [(label,) for label in labels], groups=names)
    for task in tasks:
        # A training of all, without a test, may be beside the folds.
        assert apart(names, [fold for fold in task.folds if len(fold[1])])
    assert len(tasks) == 1 + (kernel is CHARACTERS)


def test_machines_of_folds_choose_by_groups(monkeypatch):
    texts, labels, names = markers(12, 4)
    seen = []

    def train_here(settings, texts, *arguments, real=training.train_here, **keywords):
        seen.append((texts, arguments[3] if len(arguments) > 3 else keywords["groups"]))
        return real(settings, texts, *arguments, **keywords)

    monkeypatch.setattr(cross_validation, "train_here", train_here)
    monkeypatch.setattr("textsvm.selection.search.train_here", train_here)
    found = textsvm.cross_validate(textsvm.SVC(), texts, labels, groups=names, cv=3)
    cross_validation.learning_curve(textsvm.SVC(), texts, labels, found, groups=names)
    textsvm.tune(textsvm.SVC(), texts, labels, {"kernel": [CHARACTERS, "auto"]}, groups=names, cv=2)
    assert len(seen) >= 3 + 12 + 2
    number = dict(zip(texts, np.unique(names, return_inverse=True)[1], strict=True))
    for given, groups in seen:
        assert np.array_equal(groups, [number[text] for text in given])


def test_the_scale_of_probabilities_is_that_of_new_groups():
    texts, labels, names = markers()
    new = np.array([name in ("group0", "group1", "group2", "group3") for name in names])
    X, y = np.array(texts, object), np.array(labels)
    sure = []
    for groups in (np.array(names)[~new], None):
        model = textsvm.SVC(time_budget=1.0).fit(list(X[~new]), y[~new], groups=groups)
        sure.append(model.predict_proba(list(X[new])).max(axis=1).mean())
    assert sure[0] < 0.52 < 0.55 < sure[1]


def test_the_weight_of_an_encoder_leaves_out_whole_groups():
    random = np.random.default_rng(0)
    groups = np.repeat(np.arange(10), 4)
    classes, x = groups % 2, random.normal(size=(40, 12))
    gram = x @ x.T / 12
    found = choose.Weighing(groups, classes, groups, encode).margins(gram)
    for group in range(10):
        train, test = np.flatnonzero(groups != group), np.flatnonzero(groups == group)
        inside = gram[np.ix_(train, train)] + 1 + choose.RIDGE * np.eye(36)
        coef = np.linalg.solve(inside, np.where(classes[train, None] == [0, 1], 1.0, -1.0))
        values = (gram[np.ix_(test, train)] + 1) @ coef
        own = values[np.arange(4), classes[test]] - values[np.arange(4), 1 - classes[test]]
        np.testing.assert_allclose(found[test], own, atol=1e-8)
    assert not np.allclose(found, choose.Weighing(groups, classes, None, encode).margins(gram))


def corpus_of(texts, labels, groups):
    return Corpus([str(i) for i in range(len(texts))], texts, labels, [None] * len(texts), groups=groups)


def test_a_sample_that_judges_a_large_corpus_is_of_new_groups(monkeypatch):
    texts, labels, names = markers(40, 5)
    model = textsvm.SVC(CHARACTERS).fit(texts, labels)
    monkeypatch.setattr(estimate, "MOST", 10)
    judged = []
    for groups in (names, None):
        corpus = corpus_of(texts, labels, groups)
        found = estimate.estimate_quality(model.settings, model.model_, corpus, with_folds=True)[0]
        judged.append(np.mean(found.predicted == np.array(labels)[found.indices]))
        assert len(found.indices) > 20
        train, test, *_ = drift.decide_sample(
            model.settings, model.model_, lambda rows: [texts[i] for i in rows], labels,
            None if groups is None else estimate.groups_of(corpus),
        )  # fmt: skip
        assert bool({names[i] for i in train} & {names[i] for i in test}) == (groups is None)
    assert judged[0] < 0.75 < 0.95 < judged[1]
    shares = [
        drift.record(model.model_, len(texts), lambda rows: [texts[i] for i in rows], None, groups)[
            "features"
        ]
        for groups in (estimate.groups_of(corpus_of(texts, labels, names)), None)
    ]
    assert shares[0] > 2 * shares[1]


@pytest.mark.parametrize("n_groups", [(2, 2), (2, 9), (1, 3, 2), (12, 2, 5)])
def test_a_sample_tests_each_class_with_two_groups(n_groups):
    """Of each class some groups are tested and some trained on, also where few groups are drawn."""
    pairs = [(f"c{c}", f"c{c}/{g}") for c, n in enumerate(n_groups) for g in range(n)]
    random = np.random.default_rng(3)
    labels, names = zip(*[pair for pair in pairs for _ in range(8)], strict=True)
    texts = [" ".join([*random.choice(COMMON, 9), label]) for label in labels]
    model = textsvm.SVC(CHARACTERS).fit(texts, labels)
    groups = np.unique(names, return_inverse=True)[1]
    train, test, *_ = drift.decide_sample(
        model.settings, model.model_, lambda rows: [texts[i] for i in rows], list(labels), groups
    )
    assert not {names[i] for i in train} & {names[i] for i in test}
    assert {labels[i] for i in train} == set(labels)
    assert {labels[i] for i in test} == {f"c{c}" for c, n in enumerate(n_groups) if n > 1}


def test_a_sample_of_groups_of_several_classes_trains_on_each_class():
    for seed in range(30):
        random = np.random.default_rng(seed)
        groups = np.sort(np.r_[np.arange(5), random.integers(0, 5, 15)])
        classes = np.unique(random.integers(0, 4, 20), return_inverse=True)[1]
        tested = drift._tested(groups, classes, random.permutation(5))[groups]
        assert set(classes[~tested]) == set(classes)


def test_a_group_may_have_several_classes_and_a_class_a_single_group():
    groups = np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 4])
    codes = np.array([0, 1, 0, 1, 0, 1, 0, 0, 2, 2])
    with pytest.warns(RareClassWarning, match="classes that have too few groups"):
        folds = make_folds(3, Target(codes, np.array(["a", "b", "c"]), groups=groups))
    assert apart(groups, folds)
    assert not np.isin([8, 9], np.concatenate([test for _, test in folds])).any()
    with pytest.raises(textsvm.InputError, match="class b has documents in one group only"):
        make_folds(
            3, Target(np.array([0, 0, 0, 1, 1]), np.array(["a", "b"]), groups=np.array([0, 1, 2, 3, 3]))
        )


def test_folds_test_as_many_groups_of_each_class():
    _, labels, names = novels(4, 3, 5)
    codes, groups = (np.unique(values, return_inverse=True)[1] for values in (labels, names))
    with pytest.warns(RareClassWarning, match="3 folds are made and not 5: too few groups for more"):
        folds = make_folds(5, Target(codes, np.unique(labels), groups=groups))
    for _, test in folds:
        assert np.bincount(codes[test]).tolist() == [5] * 4


@pytest.mark.parametrize("kernel", [CHARACTERS, "auto"])
def test_models_with_classes_of_one_group(kernel):
    texts, labels, names = novels(3, 4, 5)
    lone = [
        "author2/book0" if label == "author2" else name for label, name in zip(labels, names, strict=True)
    ]
    with pytest.warns(RareClassWarning, match="never tested"):
        model = textsvm.CalibratedSVC(textsvm.SVC(kernel)).fit(texts, labels, groups=lone)
    assert np.isfinite(model.predict_proba(texts)).all()
    model = textsvm.SVC(kernel, time_budget=1.0).fit(texts, labels, groups=lone)
    if kernel == "auto":
        assert 0.3 < model.model_.record.held_out_accuracy <= 1
        assert model.predict_proba(texts).shape == (60, 3)
    alone = textsvm.SVC(kernel, time_budget=1.0).fit(texts, labels, groups=labels)
    assert alone.model_.record.held_out_accuracy is None


def test_trials_without_a_second_group_are_none():
    documents = encode(["a text of words", "another text", "words", "some more"] * 3)
    classes = np.array([0, 1] * 6)
    default = choose.Candidate(plain=1.0)
    made = choose.choose(default, documents.with_classes(classes), (classes, None), np.ones(12), 1.0, 1.0)
    assert made.accuracy is None
    assert "no class has two groups" in made.description


def test_pipelines_and_searches_of_scikit_learn_pass_groups(monkeypatch):
    texts, labels, names = markers(12, 4)
    seen = []
    monkeypatch.setattr(
        "textsvm.estimators.base.train",
        lambda *given, real=training.train: seen.append(given[-1]) or real(*given),
    )
    with sklearn.config_context(enable_metadata_routing=True):
        model = make_pipeline(FunctionTransformer(list), textsvm.SVC(CHARACTERS).set_fit_request(groups=True))
        sklearn.model_selection.cross_validate(
            model, np.array(texts, object), labels, cv=GroupKFold(3), params={"groups": names}
        )
    assert [len(set(groups)) for groups in seen] == [8, 8, 8]
    seen.clear()
    assert make_pipeline(textsvm.SVC(CHARACTERS)).fit(texts, labels, svc__groups=names)
    assert seen == [names]
    with pytest.raises(textsvm.InputError, match="there are 48 documents and groups of shape"):
        textsvm.SVC(CHARACTERS).fit(texts, labels, groups=names[1:])


def test_at_most_the_promised_share_of_new_groups_is_rejected():
    rejected, covered, without = [], [], []
    for seed in range(6):
        texts, labels, names = (np.array(values, object) for values in novels(4, 10, 6, seed))
        new = np.array([name.endswith(("book8", "book9")) for name in names])
        old = {"X": list(texts[~new]), "y": labels[~new].tolist()}
        model = textsvm.CalibratedSVC(textsvm.SVC(CHARACTERS)).fit(**old, groups=names[~new].tolist())
        fresh, codes = list(texts[new]), np.searchsorted(model.classes_, labels[new])
        rejected.append(np.mean(~model.predict_known(fresh, 0.05)))
        covered.append(np.mean(model.predict_set(fresh, 0.9)[np.arange(len(codes)), codes]))
        without.append(
            np.mean(~textsvm.CalibratedSVC(textsvm.SVC(CHARACTERS)).fit(**old).predict_known(fresh, 0.05))
        )
    error = 2 * np.std(rejected) / np.sqrt(len(rejected))
    assert np.mean(rejected) <= 0.05 + error
    assert error < 0.05
    assert np.mean(covered) >= 0.9 - 0.05
    assert np.mean(without) > 0.5


def test_one_class_machines_of_an_update_leave_out_whole_groups(monkeypatch):
    texts, _, names = markers(6, 4)
    # The new texts are of two groups each, so that a fold tests pieces of groups.
    names = [*names[:12], *(name for k in range(12) for name in [f"new{k % 2}"])]
    seen = []
    machine = textsvm.OneClassSVM(CHARACTERS)
    model = machine.fit(texts[:12]).model_
    monkeypatch.setattr(
        training,
        "train_here",
        lambda settings, texts, *given, real=training.train_here: (
            seen.append(texts) or real(settings, texts, *given)
        ),
    )
    for groups in (names, None):
        combined = corpus_of(texts, ["a"] * 24, groups)
        judge.predict_one_class(machine.settings, model, combined, [True] * 24, 12, 3, "a")
    assert [len(given) for given in seen] == [12] * 3 + [20] * 3
    cut, long = replace(model, pieces=Pieces(100)), [text * 9 for text in texts]
    judge.predict_one_class(machine.settings, cut, corpus_of(long, ["a"] * 24, None), [True] * 24, 12, 3, "a")
    for given, test in zip(seen[6:], np.array_split(np.arange(12, 24), 3), strict=True):
        assert given == cut.pieces.cut_all(np.delete(long, test).tolist())[0]


# The commands


def last_line(*arguments):
    result = works("train", *arguments)
    return result.stdout.decode().splitlines()[-1], result.stderr.decode()


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--kernel", "spectrum:1-4,log"],
        ["--calibrate", "sigmoid"],
        ["--holdout", "0.3"],
        ["--scoring", "f1_macro"],
    ],
)
def test_train_says_how_good_the_model_is_on_new_groups(options, tmp_path):
    corpus, model = table(tmp_path / "a.csv", *markers()), ["-o", tmp_path / "a.textsvm", "--force"]
    said, _ = last_line(*corpus, *options, *model)
    assert float(said.split()[0]) > 95
    assert "new groups" not in said
    said, _ = last_line(*corpus, *options, *model, "--groups", "book")
    assert float(said.split()[0]) <= 75  # 4 groups are tested if folds are not
    assert "of new groups, held out of training" in said
    assert json.loads(run("model", tmp_path / "a.textsvm", "--json").stdout)["info"]["groups"] == "book"
    assert b"groups" in run("model", tmp_path / "a.textsvm").stdout


def test_hold_out_and_comparison_part_no_group(tmp_path):
    corpus = [*table(tmp_path / "a.csv", *markers()), "--json"]
    for options in ([], ["--cv", "4"]):
        for grouped in ([], ["--groups", "book"]):
            found = report("compare", *corpus, "--kernel", "auto", *options, *grouped)
            for entry in found["classifiers"]:
                assert entry["accuracy"] < 0.75 if grouped else entry["accuracy"] > 0.9
    few = table(tmp_path / "few.csv", *novels(3, 3, 4))
    message = fails("train", *few, "--groups", "book", "--holdout", "0.2")
    assert "both parts need each of the 3 classes; add documents, or change the share" in message


def test_update_keeps_groups_together(tmp_path, write):
    texts, labels, names = markers(28)
    parts = [
        table(tmp_path / f"{k}.csv", texts[a:b], labels[a:b], names[a:b])
        for k, (a, b) in enumerate([(0, 120), (118, 140)])
    ]
    for grouped in (["--groups", "book"], []):
        model = tmp_path / "a.textsvm"
        last_line(*parts[0], *grouped, "--kernel", "spectrum:1-4,log", "-o", model, "--force")
        found = report("update", model, parts[1][0], "--json")
        assert found["accuracy_after"] < 0.75 if grouped else found["accuracy_after"] > 0.9
        assert run("model", model, "--json").stdout.count(b'"groups": "book"') == len(grouped[:1])
    few = write("few.csv", "text,label\nno column of books here,class0\nand nor here,class1\n")
    last_line(*parts[0], "--groups", "book", "-o", model, "--force")
    assert "has no column 'book' for the group" in fails("update", model, few)


def test_a_class_of_one_group_is_said_in_a_sentence(tmp_path):
    texts, labels, names = novels(3, 4, 5)
    lone = ["one" if label == "author2" else name for label, name in zip(labels, names, strict=True)]
    corpus = table(tmp_path / "a.csv", texts, labels, lone)
    for options in ([], ["--calibrate", "sigmoid"]):
        said, notes = last_line(
            *corpus, "--groups", "book", *options, "-o", tmp_path / "a.textsvm", "--force"
        )
        assert "on 40 of 60 documents of new groups" in said
        assert "'author2'" in notes
        assert "one group" in notes


@pytest.mark.parametrize("command", ["corpus", "train"])
def test_columns_and_folders_that_seem_to_be_groups_are_named(command, tmp_path):
    texts, labels, names = novels(3, 4, 5)
    output = [] if command == "corpus" else ["-o", tmp_path / "a.textsvm", "--force"]

    def said(*arguments):
        result = works(command, *arguments, *output)
        return [line for line in result.stderr.decode().splitlines() if "--groups" in line]

    books = table(tmp_path / "books.csv", texts, labels, names)
    [note] = said(*books)
    assert "documents with the same book have the same class" in note
    assert "--groups 'book' keeps them on one side of every split" in note
    if command == "train":
        assert said(*books, "--groups", "book") == []
    for number, (text, name) in enumerate(zip(texts, names, strict=True)):
        path = tmp_path / "folders" / name / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    [note] = said(tmp_path / "folders", "--level", "1")
    assert "--groups 'folder'" in note
    assert (
        said(tmp_path / "folders", "--level", "2", *["--kernel", "spectrum:2"] * (command == "train")) == []
    )
    # The label by another name, unique values, values of several classes, few values, and an empty cell.
    others = {
        "label": labels,
        "id": range(60),
        "shelf": [number % 7 for number in range(60)],
        "half": [labels[i] + str(i % 5 > 2 and i < 20) for i in range(60)],
        "gap": [*names[:59], ""],
        "series": names,
    }
    for column, values in others.items():
        [note] = said(*table(tmp_path / "a.csv", texts, labels, map(str, values))) or [""]
        assert bool(note) == (column == "series"), column


def test_a_column_of_groups_is_looked_for_in_the_first_rows(tmp_path, monkeypatch):
    texts, labels, names = novels(3, 4, 5)
    path = table(tmp_path / "a.csv", texts, labels, names)[0]
    reading = {"text": "text", "label": "label"}
    assert read_corpus(path, **reading).reading["grouping"] == "book"
    assert "grouping" not in read_corpus(path, **reading, group="book").reading
    assert "grouping" not in read_documents(path, text="text").reading
    assert "book" not in read_corpus(path, **reading).reading_line
    monkeypatch.setattr("textsvm.readers.tables.SAMPLE", 20)
    assert "grouping" not in read_corpus(path, **reading).reading
