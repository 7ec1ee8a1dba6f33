"""Doubtful labels: turned ones are found, no text judges itself, and the page shows hostile texts as text."""

import csv
import json
from dataclasses import replace

import numpy as np
import openpyxl
import pytest
from command import fails, run, works
from refusals import refuses
from test_reporting import HOSTILE, Page

from benchmarks import doubts as bench
from benchmarks.__main__ import main
from textsvm import SVC, CalibratedSVC, Corpus, Gaussian, Spectrum, doubts
from textsvm.gram import nearest as near
from textsvm.gram.base import DenseGram
from textsvm.readers.corrections import corrected
from textsvm.runtime.device import array_module, select
from textsvm.selection.doubts import Doubts, feature_weights, outliers
from textsvm.training.train import prepare

WORDS = {
    "fruit": ["apple", "cherry", "plum", "pear", "melon", "ripe", "sweet", "juice", "peel", "stone"],
    "car": ["engine", "wheel", "brake", "road", "fuel", "fast", "driver", "gear", "tyre", "horn"],
    "sea": ["wave", "sail", "harbour", "fish", "salt", "deep", "anchor", "tide", "storm", "shell"],
}


def corpus(n=90, seed=0, classes=3):
    """Texts of words of their class, and their labels."""
    rng, names = np.random.default_rng(seed), list(WORDS)[:classes]
    labels = [names[i % classes] for i in range(n)]
    return [" ".join(rng.choice(WORDS[label], 5)) for label in labels], labels


@pytest.mark.parametrize("classes", [2, 3])
def test_turned_labels_are_found(classes):
    texts, labels = corpus(classes=classes)
    names = list(WORDS)[:classes]
    turned = [4, 17, 40, 63]
    wrong = [
        names[(names.index(each) + 1) % classes] if i in turned else each for i, each in enumerate(labels)
    ]
    found = doubts(SVC(Spectrum(3)), texts, wrong, cv=5)
    assert sorted(found.order()[:4].tolist()) == turned
    assert (found.score[turned] > 0.5).all()
    assert found.suggested[turned].tolist() == [labels[i] for i in turned]
    assert np.allclose(found.probability.sum(axis=1), 1)
    first = found.ranked()[0]
    assert first.kinds[0] == "label"
    assert first.label == wrong[first.index]
    assert type(first.label) is str


def test_near_copies_of_other_labels_and_texts_that_resemble_nothing():
    texts, labels = corpus()
    texts += [texts[0], "ЖЩЫ ЪЭЮ"]
    labels += ["sea", "car"]
    found = doubts(SVC(Spectrum(2)), texts, labels, cv=5)
    listed = {each.index: each for each in found.ranked([f"d{i}" for i in range(len(texts))])}
    assert "copy" in listed[90].kinds
    assert listed[90].other == 0
    assert listed[90].similarity > 0.999
    assert any("d0, which is fruit" in reason for reason in listed[90].reasons)
    assert "copy" in listed[0].kinds
    for each in listed.values():  # the reason agrees with the score
        if "label" in each.kinds:
            assert f"{each.label} with {1 - each.score:.1%}" in each.reasons[0]
    assert any("label" in each.kinds for each in listed.values())
    assert "outlier" in listed[91].kinds
    assert np.flatnonzero(found.outlier).tolist() == [91]
    assert len(found.ranked(at_least=1.0)) == 3


def test_reasons_are_those_of_the_ten_nearest_and_a_near_copy_is_compared_with():
    names = np.array(list("abc"))
    labels = np.array(["a", *"bbbbbbaaaa", *"aac"])
    table = near.NeighbourTable(
        np.tile(np.arange(1, 14), (14, 1)), np.tile(np.linspace(0.9, 0.1, 13), (14, 1))
    )
    p = np.tile([0.3, 0.6, 0.1], (14, 1))
    found = Doubts(labels, np.full(14, "b"), np.full(14, 0.7), p, names, table, 0.98, np.zeros(14, bool))
    [first, *_] = found.ranked(at_least=0.7)
    assert first.reasons[1] == "6 of its 10 nearest texts are b"
    half = replace(found, labels=np.array(["a", *"bbbbbaaaaa", *"aac"]))
    assert len(half.ranked()[0].reasons) == 1
    assert (first.other, found.ranked(at_least=0.71)) == (1, [])
    copy = replace(found, nearest=replace(table, index=table.index[:, ::-1], value=table.value + 0.1))
    assert (copy.ranked()[0].other, copy.ranked()[0].kinds) == (13, ("label", "copy"))


def test_near_copies_of_the_same_label_are_not_listed():
    texts, labels = corpus()
    copies = doubts(SVC(Spectrum(2)), [*texts, texts[0]], [*labels, labels[0]], cv=5)
    assert (copies.nearest.index[90, 0], copies.nearest.index[0, 0]) == (0, 90)
    assert copies.nearest.value[90, 0] > copies.alike
    assert [each.index for each in copies.ranked() if "copy" in each.kinds] == []


def test_no_text_votes_on_itself_and_labels_of_others_do():
    texts, labels = corpus(40)
    gram = prepare(SVC(Spectrum(3)).settings, texts).gram
    codes = np.unique(labels, return_inverse=True)[1]
    table = near.nearest(gram, 10)
    weight, of_class = table.value[:, :5] ** 2, codes[table.index[:, :5]][..., None] == np.arange(3)
    expected = (weight[..., None] * of_class).sum(axis=1) / weight.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(table.votes(codes, 3, 5, 2), expected)
    before = table.votes(codes, 3, 10, 1)
    codes[7] = (codes[7] + 1) % 3
    after = near.nearest(gram, 10).votes(codes, 3, 10, 1)
    assert np.array_equal(before[7], after[7])
    assert not np.array_equal(before, after)


@pytest.mark.parametrize("block", [1, 1000])
def test_nearest_are_those_of_the_sorted_matrix(block, monkeypatch):
    monkeypatch.setattr(near, "BLOCK", block)
    points = np.random.default_rng(1).normal(size=(30, 4))
    matrix = points @ points.T
    found = near.nearest(DenseGram(matrix), 5)
    scale = np.sqrt(np.diag(matrix))
    cosines = matrix / scale / scale[:, None]
    np.fill_diagonal(cosines, -np.inf)
    expected = np.argsort(-cosines, axis=1)[:, :5]
    assert np.array_equal(found.index, expected)
    assert np.allclose(found.value, np.take_along_axis(cosines, expected, 1), atol=1e-6)
    assert near.nearest(DenseGram(matrix[:3, :3]), 5).index.shape == (3, 2)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_equal_values_come_in_the_order_of_the_examples(device):
    xp = array_module(select(device))
    values = np.random.default_rng(0).integers(0, 4, (50, 40)).astype(np.float32)
    for k in (1, 7, 40):
        index, value = near.largest(xp.asarray(values), k)
        expected = np.argsort(-values, axis=1, kind="stable")[:, :k]
        assert np.array_equal(index, expected)
        assert np.array_equal(value, np.take_along_axis(values, expected, 1))


def test_weights_of_judges_are_the_likeliest():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 200)
    good = np.eye(3)[codes] + rng.normal(size=(200, 3))
    judges = np.stack([good, rng.normal(size=(200, 3))], axis=2)

    def loss(weights, biases):
        values = judges @ weights + biases
        log_p = values - np.log(np.exp(values).sum(axis=1, keepdims=True))
        prior = 1e-3 * (weights @ weights + biases @ biases)
        return prior - log_p[np.arange(200), codes].mean()

    weights, biases = feature_weights(judges, codes)
    assert (weights >= 0).all()
    assert weights[0] > 5 * weights[1]
    for _ in range(20):
        step = 0.05 * rng.normal(size=5)
        assert loss(np.maximum(weights + step[:2], 0), biases + step[2:]) >= loss(weights, biases) - 1e-7


def test_outliers_lie_far_below_the_others():
    value = np.array([[0.5], [0.55], [0.6], [0.45], [0.001], [0.99]])
    assert outliers(value).tolist() == [False] * 4 + [True, False]
    assert outliers(np.empty((2, 0))).tolist() == [False, False]


def test_matrices_and_vectors_are_judged_like_texts():
    texts, labels = corpus(60)
    matrix = prepare(SVC(Spectrum(3)).settings, texts).gram.rows(np.arange(60))
    assert np.allclose(
        doubts(SVC("precomputed"), matrix, labels).score,
        doubts(SVC(Spectrum(3)), texts, labels).score,
        atol=1e-3,
    )
    points = np.random.default_rng(0).normal(size=(40, 2)) + 4 * (np.arange(40) % 2)[:, None]
    wrong = np.arange(40) % 2
    wrong[5] = 0
    assert doubts(SVC(Gaussian()), points, wrong, cv=4).order()[0] == 5


def test_the_model_stays_and_what_cannot_be_judged_is_told():
    texts, labels = corpus(30)
    model = SVC(Spectrum(2))
    doubts(model, texts, labels, cv=3)
    assert not hasattr(model, "kernel_")
    refuses("without odds", doubts, SVC(Spectrum(2, odds=True)), texts, labels)
    refuses("needs an SVC, got CalibratedSVC", doubts, CalibratedSVC(), texts, labels)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("doubts") / "t.jsonl"
    texts, labels = corpus(60)
    labels[5] = "fruit"
    texts[5] += HOSTILE
    rows = [
        {"id": f"<b>{i}", "text": t, "label": y} for i, (t, y) in enumerate(zip(texts, labels, strict=True))
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


@pytest.mark.slow
def test_the_command_lists_and_shows_them(table, tmp_path):
    page = tmp_path / "d.html"
    columns = ["--text", "text", "--label", "label", "--id", "id", "--kernel", "spectrum:3"]
    done = works("doubts", table, *columns, "--report", page)
    rows = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert {row["id"] for row in rows} >= {"<b>5"}
    shown = Page(page.read_text("utf-8"))
    assert shown.count("script") == 2  # the page's own, and the ids and labels for it
    assert shown.count("button") == 2 + 3 * len(rows)
    assert shown.count("img") == 0
    assert shown.count("b") < 200
    assert shown.count("article") == len(rows)
    assert run("doubts", table, *columns, "-o", tmp_path / "list.jsonl", "-q").stdout == b""
    assert (tmp_path / "list.jsonl").read_bytes() == done.stdout


DECISIONS = [
    {"id": "b", "decision": "change", "was": "x", "label": "y"},
    {"id": "c", "decision": "keep", "was": "x", "label": "x"},
    {"id": "d", "decision": "unsure", "was": "y", "label": "y"},
]


def write_decisions(path, *entries):
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def test_decisions_change_labels_and_leave_out_documents(tmp_path):
    given = Corpus(list("abcd"), ["1", "2", "3", "4"], ["x", "x", "x", "y"], [None] * 4, "t.csv")
    result, counts = corrected(given, write_decisions(tmp_path / "c.jsonl", *DECISIONS))
    assert (result.ids, result.labels) == (["a", "b", "c"], ["x", "y", "x"])
    assert result.texts == ["1", "2", "3"]
    assert counts == {"change": 1, "keep": 1, "unsure": 1}
    assert given.labels == ["x", "x", "x", "y"]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"id": "z", "decision": "keep"}, "line 2 of .*: t.csv has no document 'z'"),
        ({"id": "a", "decision": "change", "label": "w"}, "line 2 of .*: t.csv has no label 'w'.*are x, y"),
        ({"id": "a", "decision": "change"}, "line 2 of .*: t.csv has no label 'None'"),
        ({"id": "a", "decision": "maybe"}, "line 2 of .*: the decision must be keep, change or unsure"),
        (
            {"id": "a", "decision": "keep", "was": "y"},
            "line 2 of .*: the decision is for 'a' with the label 'y'",
        ),
        ({"id": "b", "decision": "keep"}, "line 2 of .*: line 1 is for 'b' too"),
        ({"decision": "keep"}, "line 2 of .* is no decision"),
        ([1], "line 2 of .* is no decision"),
    ],
)
def test_wrong_decisions_are_errors_with_their_line(tmp_path, entry, message):
    given = Corpus(list("abcd"), ["1", "2", "3", "4"], ["x", "x", "x", "y"], [None] * 4, "t.csv")
    refuses(message, corrected, given, write_decisions(tmp_path / "c.jsonl", DECISIONS[0], entry))


def test_train_applies_the_decisions(table, tmp_path):
    lines = [{"id": "<b>1", "decision": "unsure"}, {"id": "<b>5", "decision": "change", "label": "sea"}]
    file = write_decisions(tmp_path / "c.jsonl", *lines)
    arguments = ["train", table, "--text", "text", "--label", "label", "--id", "id"]
    arguments += ["--kernel", "spectrum:3", "--device", "cpu"]
    done = works(*arguments, "--corrections", file, "-o", tmp_path / "m")
    assert b"labels changed 1, kept 0; documents left out 1" in done.stderr
    assert b"59 documents of 3 classes" in done.stderr
    assert "do not go together" in fails(*arguments, "--multilabel", "--corrections", file, code=2)
    assert "would replace the corpus" in fails(*arguments, "--corrections", file, "-o", file, code=2)


@pytest.mark.slow
def test_the_benchmark_turns_labels_and_finds_them(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "has_cleanlab", lambda: False)
    codes = np.arange(100) % 4
    made, which = bench.turned(codes, 0.1, 0)
    assert which.sum() == 10
    assert np.array_equal(made != codes, which)
    assert bench.measures(which.astype(float), which)[[0, 2]].tolist() == [100, 100]
    main(["doubts", "--quick", "--seeds", "1", "--device", "cpu", "-o", str(tmp_path / "d")])
    rows = json.loads((tmp_path / "d.json").read_text())["rows"]
    assert [row["turned"] for row in rows] == ["5%", "10%"]
    assert min(row["area, textsvm"] for row in rows) > 70


@pytest.mark.parametrize("suffix", ["csv", "tsv", "xlsx"])
def test_doubts_as_a_table_have_the_text_and_all_columns(suffix, tmp_path):
    texts = [(f"win cash prize now {i}", "spam") for i in range(20)]
    texts += [(f"lunch at noon today {i}", "ham") for i in range(20)]
    rows = [
        {"nr": i, "body": text, "kind": kind, "score": i * 2, "amount": i / 2}
        for i, (text, kind) in enumerate(texts)
    ]
    rows[3]["kind"], folder = "ham", tmp_path / "folders"
    if suffix == "xlsx":
        book = openpyxl.Workbook()
        for row in (list(rows[0]), *(list(row.values()) for row in rows)):
            book.active.append(row)
        book.save(tmp_path / "t.xlsx")
    else:
        delimiter = {"csv": ",", "tsv": "\t"}[suffix]
        lines = [delimiter.join(rows[0]), *(delimiter.join(map(str, row.values())) for row in rows)]
        (tmp_path / f"t.{suffix}").write_text("\n".join(lines))
    for row in rows:
        (folder / row["kind"]).mkdir(parents=True, exist_ok=True)
        (folder / row["kind"] / f"{row['nr']}.txt").write_text(row["body"])
    options = ["--kernel", "spectrum:3", "--device", "cpu"]
    for corpus, names in ((tmp_path / f"t.{suffix}", ["--text", "body", "--label", "kind"]), (folder, [])):
        target = tmp_path / f"d.{suffix}"
        assert run("doubts", corpus, *names, *options, "-o", target, "--force").returncode == 0
        if suffix == "xlsx":
            table = [list(row) for row in openpyxl.load_workbook(target).active.iter_rows(values_only=True)]
        else:
            with target.open(newline="") as stream:
                table = list(csv.reader(stream, delimiter=delimiter))
        found = dict(zip(table[0], table[1], strict=True))
        own = ["id", "label", "suggested", "score", "kinds", "reasons", "similar", "similarity"]
        if not names:
            assert table[0] == [*own, "text"]
            assert found["text"] == rows[3]["body"]
            continue
        assert table[0] == [*own, "nr", "body", "kind", "table_score", "amount"]
        expected = {"nr": 3, "body": rows[3]["body"], "kind": "ham", "table_score": 6, "amount": 1.5}
        cells = {name: found[name] for name in expected}
        assert cells == (
            expected if suffix == "xlsx" else {name: str(value) for name, value in expected.items()}
        )
        assert (found["label"], found["suggested"]) == ("ham", "spam")
