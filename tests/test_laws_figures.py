"""One figure, one place: what a command prints is what --json, files, reports and Python have."""

import csv
import io
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from command import report, run
from loading import load
from mails import mail, taught_store
from scipy import stats
from sklearn import metrics
from sklearn.base import clone
from test_label_session import learning, say
from test_laws_cli import MESSAGES, table
from test_laws_estimators import ESTIMATORS, data, values
from test_verification import library

import textsvm
from textsvm.apps.mail.filter import Filter
from textsvm.apps.mail.report import filter_report
from textsvm.readers.statistics import describe
from textsvm.reporting.charts import percent
from textsvm.reporting.formatting import format_metric
from textsvm.runtime.plain_json import to_json

READ = ("--text", "text", "--label", "label")
FAST = ("--kernel", "spectrum:3")
ROWS = [{"id": f"d{i}", **row} for i, row in enumerate(MESSAGES[:90])]
TEXTS, LABELS = [row["text"] for row in ROWS], [row["label"] for row in ROWS]


@pytest.fixture
def corpus(tmp_path):
    return table(tmp_path / "t.csv", ROWS)


def lines(*arguments):
    """What a command prints, a line each with single spaces."""
    result = run(*arguments)
    assert result.returncode == 0, result.stderr.decode()
    return [" ".join(line.split()) for line in result.stdout.decode().splitlines()]


def cells(name, *values):
    return " ".join(format_metric(name, value) for value in values)


@pytest.mark.parametrize("positive", ["ham", "spam"])
def test_cross_validation(positive, corpus, tmp_path):
    options = [corpus, *READ, *FAST, "--folds", "3", "--seed", "5", "--positive", positive]
    page, rows = tmp_path / "r.html", tmp_path / "p.jsonl"
    values = report("cv", *options, "--report", page, "--predictions", rows)
    machine = textsvm.SVC(textsvm.Spectrum(3), device="cpu")
    result = textsvm.cross_validate(machine, TEXTS, LABELS, cv=3, random_state=5, positive=positive)
    own = result.as_dict()
    assert [fold["metrics"] for fold in values["folds"]] == [fold["metrics"] for fold in own["folds"]]
    assert [(x["n_train"], x["n_test"]) for x in values["folds"]] == [
        (len(a), len(b)) for a, b in result.folds
    ]
    for part in ("mean", "sd", "pooled"):
        assert values[part] == pytest.approx(own[part], nan_ok=True)
    shown, names = lines("cv", *options), ("accuracy", "macro_f1", "mcc", "roc_auc")
    for k, fold in enumerate(values["folds"], 1):
        numbers = [format_metric(name, fold["metrics"][name]) for name in names]
        assert any(
            x.startswith(" ".join([str(k), str(fold["n_train"]), str(fold["n_test"]), *numbers]))
            for x in shown
        )
    for part, name in (("mean", "mean"), ("sd", "SD"), ("pooled", "pooled")):
        assert any(
            x.startswith(" ".join([name, *(format_metric(m, values[part][m]) for m in names)])) for x in shown
        )
    table_of = [json.loads(row) for row in rows.read_text("utf-8").splitlines()]
    assert [row["id"] for row in table_of] == [row["id"] for row in ROWS]
    assert [row["truth"] for row in table_of] == LABELS
    predicted = [row["predicted"] for row in table_of]
    assert metrics.accuracy_score(LABELS, predicted) == pytest.approx(values["pooled"]["accuracy"])
    assert metrics.f1_score(LABELS, predicted, pos_label=positive) == pytest.approx(values["pooled"]["f1"])
    for k, (_, test) in enumerate(result.folds, 1):
        assert [i for i, row in enumerate(table_of) if k in row["folds"]] == test.tolist()
    assert format_metric("accuracy", values["pooled"]["accuracy"]) in page.read_text("utf-8")


@pytest.mark.parametrize("positive", ["ham", "spam"])
def test_an_evaluation(positive, corpus, tmp_path):
    """A row for each class, and the figures of the positive one."""
    rows = [row if i % 9 else {**row, "label": "ham"} for i, row in enumerate(MESSAGES[90:150])]
    model, new = tmp_path / "m.textsvm", table(tmp_path / "n.csv", rows)
    run("train", corpus, *READ, *FAST, "--positive", positive, "-o", model)
    values, shown = report("evaluate", model, new, *READ), lines("evaluate", model, new, *READ)
    truth, said = [row["label"] for row in rows], load(model).predict([row["text"] for row in rows]).tolist()
    labels = ["spam" if positive == "ham" else "ham", positive]
    matrix = metrics.confusion_matrix(truth, said, labels=labels)
    assert (values["n"], values["labels"], values["confusion"]) == (60, labels, matrix.tolist())
    assert values["precision"] == metrics.precision_score(truth, said, pos_label=positive)
    assert values["recall"] == metrics.recall_score(truth, said, pos_label=positive) != values["precision"]
    assert any(line.endswith(f": 60 documents, positive is {positive}") for line in shown), shown
    for name in ("accuracy", "precision", "recall"):
        assert any(line.startswith(f"{name} {format_metric(name, values[name])} ") for line in shown), name
    assert f"said {labels[0]} said {labels[1]}" in shown
    for label, counts in zip(labels, matrix, strict=True):
        assert f"truly {label} {counts[0]} {counts[1]}" in shown


def test_comparison(corpus, tmp_path):
    page = tmp_path / "r.html"
    values = report("compare", corpus, *READ, *FAST, "--cv", "3", "--report", page)
    shown, html = lines("compare", corpus, *READ, *FAST, "--cv", "3"), page.read_text("utf-8")
    machine = textsvm.cross_validate(textsvm.SVC(textsvm.Spectrum(3), device="cpu"), TEXTS, LABELS, cv=3)
    ours = next(row for row in values["classifiers"] if row["is_textsvm"])
    assert ours["accuracy"] == machine.pooled["accuracy"]
    assert ours["macro_f1"] == pytest.approx(machine.pooled["macro_f1"])
    first = values["classifiers"][0]["accuracy"]
    for row in values["classifiers"]:
        low, high = row["interval"]
        assert low < row["accuracy"] < high
        figures = f"{100 * row['accuracy']:.2f} {100 * low:.1f}-{100 * high:.1f}"
        if paired := row["paired"]:
            only_first, only_second = paired["only_first"], paired["only_second"]
            assert paired["difference"] == pytest.approx(row["accuracy"] - first)
            assert paired["difference"] == pytest.approx((only_first - only_second) / paired["n"])
            n = only_first + only_second
            assert paired["p_value"] == pytest.approx(stats.binomtest(only_first, n).pvalue if n else 1)
            figures += f" {100 * paired['difference']:+.2f} {paired['p_value']:.2g}"
        assert any(figures in line for line in shown), (figures, shown)
        assert f"{100 * row['accuracy']:.2f}" in html


@pytest.mark.parametrize("positive", ["ham", "spam"])
def test_tuning(positive, corpus):
    settings = "--kernel spectrum --p 2,3 -C 0.01,1 --folds 3 --metric macro_f1 --positive"
    options = [corpus, *READ, *settings.split(), positive]
    values, shown = report("tune", *options), lines("tune", *options)
    grid = [{"kernel": [textsvm.Spectrum(2), textsvm.Spectrum(3)], "C": [0.01, 1]}]
    result = textsvm.tune(
        textsvm.SVC(device="cpu"), TEXTS, LABELS, grid, cv=3, metric="macro_f1", positive=positive
    )
    assert len(values["table"]) == 4
    assert "4 settings by mean macro F1 over 3 folds of 90 documents" in shown
    means = [
        {(row["params"]["C"], round(row["mean"], 9), round(row["metrics"]["recall"], 9)) for row in part}
        for part in (values["table"], result.table)
    ]
    assert means[0] == means[1]
    assert values["best_score"] == max(row["mean"] for row in values["table"])
    for row in values["table"]:
        assert row["mean"] == pytest.approx(np.mean(row["folds"]))
        assert row["sd"] == pytest.approx(np.std(row["folds"], ddof=1))
        assert row["metrics"]["macro_f1"] == row["mean"]
        setting = f"spectrum:{row['params']['kernel']['p']}, C {row['params']['C']:g}"
        assert any(f"{setting} {cells('macro_f1', row['mean'], row['sd'])}" in line for line in shown)
    best = next(row for row in values["table"] if row["mean"] == values["best_score"])
    mean, sd = (format_metric("macro_f1", best[name]) for name in ("mean", "sd"))
    assert any(line.startswith("macro F1, mean of folds") and f"{mean} (SD {sd})" in line for line in shown)


@pytest.mark.parametrize("kind", ["svc", "calibrated"])
def test_predictions(kind, corpus, tmp_path):
    model, new = (
        tmp_path / "m.textsvm",
        table(tmp_path / "n.csv", [{"text": row["text"]} for row in MESSAGES[90:130]]),
    )
    run("train", corpus, *READ, *FAST, "-o", model, *(["--calibrate", "sigmoid"] * (kind == "calibrated")))
    fitted, texts = load(model), [row["text"] for row in MESSAGES[90:130]]
    command = ["predict", model, new, "--text", "text", "--proba"]
    rows = [json.loads(line) for line in run(*command).stdout.decode().splitlines()]
    decision, probability = fitted.decision_function(texts), fitted.predict_proba(texts)
    assert [row["label"] for row in rows] == fitted.predict(texts).tolist()
    assert [row["decision"] for row in rows] == decision.tolist()
    assert [list(row["probabilities"].values()) for row in rows] == probability.tolist()
    assert all([*row["probabilities"]] == fitted.classes_.tolist() for row in rows)
    shown = run(*command, "--all-classes", "--output-format", "csv").stdout.decode()
    for row, cell in zip(rows, csv.DictReader(io.StringIO(shown)), strict=True):
        assert cell["label"] == row["label"]
        assert float(cell["decision"]) == pytest.approx(row["decision"], abs=1e-5)
        assert float(cell["probabilities_spam"]) == pytest.approx(row["probabilities"]["spam"], abs=1e-5)
        assert float(cell["confidence"]) == pytest.approx(max(row["probabilities"].values()), abs=1e-5)
    for k in (1, 2):
        best = [json.loads(line)["top"] for line in run(*command, "--top", k).stdout.decode().splitlines()]
        for row, top in zip(rows, best, strict=True):
            order = sorted(row["probabilities"].items(), key=lambda item: -item[1])[:k]
            assert [(part["label"], part["probability"]) for part in top] == order


def test_doubtful_labels(corpus, tmp_path):
    rng = np.random.default_rng(0)
    wrong = [
        {**row, "label": "ham" if row["label"] == "spam" and rng.random() < 0.3 else row["label"]}
        for row in ROWS
    ]
    path, page = table(tmp_path / "w.csv", wrong), tmp_path / "r.html"
    given = [row["label"] for row in wrong]
    for least in (0.0, 0.6):
        done = run(
            "doubts", path, *READ, "--id", "id", *FAST, "--at-least", least, "--report", page, "--force"
        )
        rows = [json.loads(line) for line in done.stdout.decode().splitlines()]
        result = textsvm.doubts(textsvm.SVC(textsvm.Spectrum(3), device="cpu"), TEXTS, given)
        listed = result.ranked([row["id"] for row in ROWS], least)
        assert [row["id"] for row in rows] == [ROWS[doubt.index]["id"] for doubt in listed]
        for row, doubt in zip(rows, listed, strict=True):
            assert (row["label"], row["suggested"]) == (given[doubt.index], doubt.suggested)
            assert row["score"] == pytest.approx(doubt.score, abs=1e-6)
            assert row["similar"] == ROWS[doubt.other]["id"] != row["id"]
            assert row["similarity"] == pytest.approx(doubt.similarity, abs=1e-6)
            assert row["kinds"] == list(doubt.kinds)
        n = sum("label" in row["kinds"] for row in rows)
        assert f"{n:,} of 90 labels are doubtful; {len(rows)} texts are listed" in done.stderr.decode()
        out = tmp_path / "d.csv"
        run("doubts", path, *READ, "--id", "id", *FAST, "--at-least", least, "-o", out, "--force")
        cells = list(csv.DictReader(io.StringIO(out.read_text("utf-8"))))
        assert [(x["id"], x["suggested"], float(x["score"])) for x in cells] == [
            (x["id"], x["suggested"], x["score"]) for x in rows
        ]


def test_verified_authors(tmp_path):
    writers, texts, labels = library(4, 3)
    for i, (text, label) in enumerate(zip(texts, labels, strict=True)):
        path = tmp_path / "authors" / label / f"{i:02}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "d.txt").write_text(writers[1](9, 600))
    arguments = ["verify", tmp_path / "authors", tmp_path / "d.txt"]
    [facts], shown = report(*arguments)["texts"], lines(*arguments)
    result = textsvm.verify(texts, labels, writers[1](9, 600))
    own = result.as_dict()
    assert facts["scores"] == pytest.approx(own["scores"])
    assert facts["verdicts"] == own["verdicts"]
    for author, score, verdict in zip(result.authors, facts["scores"], facts["verdicts"], strict=True):
        [line] = [x for x in shown if x.startswith(author)]
        assert verdict in line
        assert f"{score:.2f}" in line or f"{100 * score:.0f} %" in line, line


def test_an_update_is_a_training_on_all_texts_and_its_figures_are_those_of_both(corpus, tmp_path):
    """For every kind of model that is updated."""
    three = []
    for row in ROWS:
        n, many = len(row["text"]), ("a", "a;b", "b", "c;b")[len(row["text"]) % 4]
        three.append({**row, "label": "abc"[n % 3], "n": n / 50, "many": many})
    old, new = table(tmp_path / "old.csv", three[:60]), table(tmp_path / "new.csv", three[60:])
    both = table(tmp_path / "both.csv", three)
    kinds = {
        "classes": ["--label", "label"],
        "numbers": ["--regress", "n"],
        "labels": ["--label", "many", "--multilabel", "--label-separator", ";"],
        "calibrated": ["--label", "label", "--calibrate", "sigmoid"],
        "one": ["--label", "label", "--one-class", "a"],
    }
    for kind, options in kinds.items():
        model, whole = tmp_path / f"{kind}.textsvm", tmp_path / f"{kind}-both.textsvm"
        run("train", old, "--text", "text", *options, *FAST, "-o", model)
        before = load(model).predict([row["text"] for row in three[60:]])
        values = report("update", model, new)
        run("train", both, "--text", "text", *options, *FAST, "-o", whole)
        first, second = (load(path).model_.decision_function(TEXTS) for path in (model, whole))
        assert np.ravel(first) == pytest.approx(np.ravel(second), abs=2e-3), kind
        assert values["new_documents"] == 30
        if kind in ("classes", "calibrated"):
            right = np.mean(before == np.array([row["label"] for row in three[60:]]))
            assert values["accuracy_before"] == pytest.approx(right)
            assert all(row["before"] != row["after"] for row in values["changed"])
            change = values["accuracy_after"] - values["accuracy_before"]
            gained = sum((x["after"] == x["label"]) - (x["before"] == x["label"]) for x in values["changed"])
            assert change == pytest.approx(gained / 30)


@pytest.mark.slow
def test_a_second_process_predicts_the_same_bits(tmp_path):
    expected = {}
    for number, (name, (model, kind)) in enumerate(ESTIMATORS.items()):
        texts, targets, new = data(kind)
        textsvm.save(clone(model).fit(texts, targets), tmp_path / f"{number}.textsvm")
        expected[str(number)] = (name, values(load(tmp_path / f"{number}.textsvm"), new).tolist(), new)
    (tmp_path / "texts.json").write_text(json.dumps({key: new for key, (_, _, new) in expected.items()}))
    code = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_laws_estimators import values
from loading import load
from mails import mail, taught_store
folder = Path(sys.argv[1])
texts = json.loads((folder / "texts.json").read_text())
print(json.dumps({key: values(load(folder / f"{key}.textsvm"), new).tolist() for key, new in texts.items()}))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path, Path(__file__).parent],
        capture_output=True,
        text=True,
        check=True,
    )
    other = json.loads(done.stdout)
    for key, (name, numbers, _) in expected.items():
        assert other[key] == numbers, name


def test_the_estimate_of_a_training_is_a_cross_validation_with_its_weights(tmp_path):
    rows = [{**row, "w": 30 if row["label"] == "spam" else 0.01} for row in ROWS]
    path, found = table(tmp_path / "t.csv", rows), []
    for options in ([], ["--weights", "w"]):
        trained = report("train", path, *READ, *FAST, "-o", tmp_path / "m.textsvm", "--force", *options)
        folds = report("cv", path, *READ, *FAST, "--folds", "3", *options)
        assert trained["estimate"]["accuracy"] == pytest.approx(folds["pooled"]["accuracy"])
        found.append(trained["estimate"]["accuracy"])
    assert found[0] != found[1]


@pytest.mark.parametrize("positive", ["ham", "spam"])
def test_a_cross_validation_of_pieces_judges_texts_by_the_positive_class(positive, tmp_path):
    of = {name: [row["text"] for row in MESSAGES if row["label"] == name] for name in ("ham", "spam")}
    pairs = [
        (name, ". ".join(of[name][i : i + 3])) for name in of for i in range(0, 20 + 40 * (name == "ham"))
    ]
    long = noisy([{"text": text, "label": name} for name, text in pairs], 9)
    arguments = [table(tmp_path / "t.csv", long), *READ, *FAST, "--folds", "3", "--chunk", "120"]
    texts = report("cv", *arguments, "--positive", positive)["texts"]
    assert texts["f1[ham]"] != texts["f1[spam]"]
    assert texts["f1"] == texts[f"f1[{positive}]"]
    assert 2 * texts["precision"] * texts["recall"] / (texts["precision"] + texts["recall"]) == pytest.approx(
        texts["f1"]
    )


def test_statistics_of_a_corpus(corpus):
    values, shown = report("corpus", corpus, *READ), lines("corpus", corpus, *READ)
    own = describe(textsvm.read_corpus(corpus, text="text", label="label"))
    assert {**values, "seconds": 0, "source": ""} == {**to_json(own), "seconds": 0, "source": ""}
    sizes, lengths = [len(text) for text in TEXTS], values["lengths"]
    assert (values["n"], values["labels"]) == (90, Counter(LABELS))
    assert (lengths["min"], lengths["max"]) == (min(sizes), max(sizes))
    assert lengths["mean"] == pytest.approx(np.mean(sizes))
    span = f"{lengths['min']} to {lengths['max']}, median {round(np.median(sizes))}"
    copies = len(TEXTS) - len({*TEXTS})
    for line in (
        "documents 90",
        f"symbols a document {span}",
        f"symbols, mean {np.mean(sizes):.1f}",
        f"alphabet {values['alphabet']} symbols",
        f"exact copies {copies} in {len(values['duplicates'])} groups",
        *(f"{name} {count}" for name, count in values["labels"].items()),
    ):
        assert line in shown, (line, shown)


def test_a_map(corpus, tmp_path):
    page = tmp_path / "map.html"
    values = report("map", corpus, *READ, *FAST, "-o", page)
    shown = lines("map", corpus, *READ, *FAST, "-o", page)
    rows = textsvm.SpectrumFeatures(3).fit_transform(TEXTS)
    mapped = textsvm.class_map(np.asarray((rows @ rows.T).todense(), np.float64), LABELS).as_dict()
    assert values["rows"] == 90
    assert "documents 90" in shown
    for name in ("classes", "label"):
        assert values["map"][name] == mapped[name]
    for name in ("distances", "tree"):
        np.testing.assert_allclose(values["map"][name], mapped[name], atol=1e-5)
    points = np.array(mapped["documents"]["points"])
    assert np.abs(values["map"]["documents"]["points"]) == pytest.approx(np.abs(points), abs=1e-4)
    html = page.read_text("utf-8")
    for share in values["map"]["documents"]["variance"]:
        assert f"{percent(float(f'{share:.3g}'))} of the variance" in html


def test_an_update_prints_its_report(corpus, tmp_path):
    model, new = tmp_path / "m.textsvm", table(tmp_path / "n.csv", noisy(MESSAGES[90:130]))
    run("train", corpus, *READ, *FAST, "-o", model)
    output = ["-o", tmp_path / "o.textsvm", "--force"]
    values, shown = report("update", model, new, *output), lines("update", model, new, *output)
    assert values["changed"]
    for line in (
        f"new documents {values['new_documents']}",
        f"accuracy on new documents, before {100 * values['accuracy_before']:.1f} %",
        f"accuracy on new documents, after {100 * values['accuracy_after']:.1f} %",
        f"changed predictions {len(values['changed'])}",
        *(" ".join(map(str, row.values())) for row in values["changed"][:20]),
    ):
        assert line in shown, (line, shown)


def noisy(rows, step=4):
    """Rows of which every `step`-th has the other label."""
    other = {"ham": "spam", "spam": "ham"}
    return [{**row, "label": other[row["label"]]} if i % step == 0 else row for i, row in enumerate(rows)]


def test_lessons_of_mail(tmp_path):
    """Counts of `learn`, `status` and `import`; decisions of `classify`."""
    store, paths = ("--store", tmp_path / "s"), {}
    for kind in ("spam", "ham"):
        paths[kind] = [tmp_path / f"{kind}{i}.eml" for i in range(9 + (kind == "ham"))]
        for i, path in enumerate(paths[kind]):
            path.write_bytes(mail(kind, i))
    for kind, files in paths.items():
        said = run("mail", "learn", "--as", kind, *files, files[0], *store).stderr.decode()
        assert said.startswith(f"{len(files)} messages learnt as {kind}, 1 known already; "), said
    run("mail", "learn", "--as", "orders", *paths["ham"][:4], *store)
    late = [write(tmp_path / f"l{i}.eml", mail("ham", 50 + i)) for i in range(5)]
    assert run("mail", "learn", "--as", "spam", *late, *store).returncode == 0
    values, shown = report("mail", "status", *store), lines("mail", "status", *store)
    with Filter(tmp_path / "s") as opened:
        status, counts = opened.status(), opened.counts()
        new = [mail(kind, 80 + i) for kind in ("spam", "ham") for i in range(3)]
        decisions = [opened.classify(data) for data in new]
    assert (values["spam"], values["ham"]) == (counts["spam"], counts["ham"]) == (14, 10)
    assert values["recent"] == status.recent
    n, wrong, unsure, false_positives = status.recent.values()
    shares = f"{100 * (n - wrong - unsure) / n:.0f} % right, {100 * unsure / n:.0f} % unsure, "
    shares += f"{100 * wrong / n:.0f} % wrong; {false_positives} ham as spam"
    assert "lessons 14 spam, 10 ham" in shown
    assert f"{n} messages before they were learnt: {shares}" in " ".join(shown), shown
    row = values["categories"]["orders"]
    assert row["lessons"] == 4
    assert " ".join(["orders", *map(str, row.values())]) in shown
    assert [*row] == ["lessons", "judged", "recognised"]
    assert "category lessons judged unseen recognised" in shown
    assert sum(re.match(r"\d{4}-\d\d-\d\d ", line) is not None for line in shown) == 5
    for row in values["last"][:5]:
        score = "" if row["score"] is None else f" {row['score']:.6f}"
        assert any(f"{row['kind']}{score} {row['subject']}" in line for line in shown), row
    files = [write(tmp_path / f"n{i}.eml", data) for i, data in enumerate(new)]
    rows = [
        json.loads(line) for line in run("mail", "classify", *files, *store, "--json").stdout.splitlines()
    ]
    plain = run("mail", "classify", *files, *store).stdout.decode().splitlines()
    for path, row, line, decision in zip(files, rows, plain, decisions, strict=True):
        assert (row["id"], row["kind"]) == (str(path), decision.kind)
        assert (row["score"], row["value"]) == pytest.approx((decision.score, decision.value), abs=1e-6)
        assert line.startswith(f"{path} {decision.kind} {decision.score:.6f}")
    run("mail", "export", tmp_path / "l.jsonl", *store)
    written = [json.loads(line) for line in (tmp_path / "l.jsonl").read_text("utf-8").splitlines()]
    assert Counter(row["kind"] for row in written) == {"spam": 14, "ham": 10, "orders": 4}
    said = run("mail", "import", tmp_path / "l.jsonl", "--store", tmp_path / "t").stderr.decode()
    assert f"{len(written)} messages learnt; there are 14 spam, 10 ham now" in said


def write(path, data):
    path.write_bytes(data)
    return path


def test_a_report_of_mail_has_the_figures_of_its_status(tmp_path):
    folder = taught_store(tmp_path / "s", 15)
    with Filter(folder) as opened:
        opened.learn_all([mail("ham", i) for i in range(50, 54)], "spam")
        opened.learn_all([mail("spam", i) for i in range(50, 53)], "ham")
        recent, made = opened.status().recent, filter_report(opened)
    assert len(made.lengths) == made.results.n > 6
    assert np.corrcoef(made.results.probability, made.results.decision)[0, 1] > 0.8
    assert run("mail", "report", tmp_path / "r.json", "--store", folder).returncode == 0
    values = json.loads((tmp_path / "r.json").read_text("utf-8"))
    facts = values["facts"]
    assert values["n"] == recent["n"]
    assert facts["called unsure"] == str(recent["unsure"])
    assert int(facts["ham called spam"]) == recent["false_positives"]
    assert int(facts["ham called spam"]) + int(facts["spam called ham"]) == recent["wrong"]


def test_a_session_of_labels_ends_with_its_figures(tmp_path):
    session = learning(tmp_path, texts=TEXTS[:30])
    session._shared = 1.0
    for i in range(12):
        for name in ("anna", "ben"):
            text = session.next(name)["text"]
            wrong = name == "ben" and i % 5 == 0
            label = LABELS[text["index"]]
            say(session, name, {"ham": "spam", "spam": "ham"}[label] if wrong else label, text["index"])
    figures, state = session.agreement(), session.overview("anna")
    n_labels = sum(answer.label is not None for answer in session.journal.answers.values())
    assert 0 < figures["equal"] < figures["n"]
    said = session.close()
    agreement = f"{figures['equal']} of {figures['n']} labels, Krippendorff's alpha {figures['alpha']:.3f}"
    assert f"{n_labels} labelled texts" in said[0]
    assert agreement in said[1]
    assert said[1].endswith(f"to decide: {figures['open']}")
    assert state["people"]["names"] == figures["names"]
    assert state["people"]["alpha"] == figures["alpha"]
