"""What a report is asked for besides: slices, models side by side, a learning curve; in every form."""

import json
from dataclasses import replace

import numpy as np
import pytest
from command import fails, run, works
from refusals import refuses
from scipy.stats import binomtest
from test_reporting import Page, assert_self_contained, corpus, of_classes
from test_reporting import made as made_report

from textsvm import SVC, SVR, CalibratedSVC, InputError, OneClassSVM, Spectrum
from textsvm.evaluation.comparison import side_by_side
from textsvm.evaluation.judge import judge
from textsvm.evaluation.results import evaluate, evaluate_labels
from textsvm.evaluation.slices import make_slices
from textsvm.reporting import files, html, sections
from textsvm.reporting.files import write
from textsvm.reporting.report import Report, make_report, report_of_folds, results_of
from textsvm.selection.cross_validation import cross_validate, fit_learning_curve, learning_curve

NAMES = np.array(["ham", "spam"])


def judged(wrong, n=200, seed=0, names=NAMES):
    """Results of two classes with so large a share of mistakes, truth the same for all."""
    truth = names[np.arange(n) % 2]
    values = np.where(truth == names[1], 1.0, -1.0) + np.linspace(-0.3, 0.3, n)
    values[np.random.default_rng(seed).random(n) < wrong] *= -1
    return evaluate(truth, names[(values > 0).astype(int)], values, names)


def numbers(noise, n=200, seed=0):
    truth = np.arange(n, dtype=float)
    said = truth + noise * np.random.default_rng(seed).standard_normal(n)
    return evaluate(truth, said, said, None)


def ids(n=200):
    return [f"d{i}" for i in range(n)]


def of_labels(seed):
    truth = np.random.default_rng(0).random((60, 3)) < 0.5
    values = truth + np.random.default_rng(seed).standard_normal((60, 3)) * 0.4
    return evaluate_labels(truth, values > 0.5, values, np.array(["a", "b", "c"]), np.full(3, 0.5))


def as_report(results, **parts):
    return Report("t", results.with_intervals(20), [], np.arange(1, results.n + 1), [], **parts)


def test_a_slice_has_the_figures_of_its_documents():
    results = judged(0.2)
    values = np.where(np.arange(200) < 60, "mail", "chat")
    found = make_slices(results, "source", values.tolist(), resamples=50)
    assert {each.value: each.n for each in found.slices} == {"mail": 60, "chat": 140}
    for each in found.slices:
        own = values == each.value
        alone = evaluate(results.truth[own], results.predicted[own], results.decision[own], NAMES)
        for name, value in each.metrics.items():
            assert value == pytest.approx(alone.metrics[name], abs=1e-12), name
        bounds = binomtest(round(alone.accuracy * each.n), each.n).proportion_ci(0.95, "exact")
        assert each.intervals["accuracy"] == pytest.approx((bounds.low, bounds.high))
        assert each.intervals["f1"][0] <= each.metrics["f1"] <= each.intervals["f1"][1]
    assert found.overall == results.accuracy


def test_a_slice_says_nothing_of_a_class_that_it_lacks():
    results = judged(0.0)
    values = np.where((results.truth == "ham") & (np.arange(200) < 150), "a", "b")
    found = {each.value: each for each in make_slices(results, "c", values.tolist(), resamples=20).slices}
    assert np.isnan(found["a"].metrics["recall"])
    assert found["a"].metrics["accuracy"] == found["b"].metrics["recall"] == 1.0
    assert json.loads(json.dumps(make_slices(results, "c", values.tolist(), 20).as_dict()))["column"] == "c"


def test_a_book_has_its_class_and_the_classes_that_its_pieces_are_mistaken_for():
    """Accuracy is the only metric of pieces of one class: F1 of classes that a book lacks says nothing."""
    names = np.array(["Ash", "Birch", "Cedar"])
    truth, books = names[[0] * 6 + [1] * 4 + [2] * 5], ["a1"] * 6 + ["b1"] * 4 + ["c1"] * 5
    said = names[[1, 1, 2, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2]]
    found = make_slices(evaluate(truth, said, np.zeros((15, 3)), names), "book", books)
    worst = found.slices[0]
    assert (worst.value, worst.classes, worst.mistakes) == ("a1", {"Ash": 6}, {"Birch": 2, "Cedar": 1})
    assert all(each.metrics.keys() == {"accuracy"} for each in found.slices)
    head, rows = sections.slices_table(found)
    assert head[-2:] == ["class", "most often mistaken for"]
    assert [row[-2:] for row in rows] == [["Ash", "Birch 2"], ["Birch", ""], ["Cedar", ""]]
    page = " ".join(Page(html.render(as_report(judged(0.1), slices=found))).words)
    assert "most often mistaken for" in page
    assert "Birch 2" in page
    mixed = make_slices(evaluate(truth, said, np.zeros((15, 3)), names), "book", ["x"] * 8 + ["y"] * 7, 20)
    assert [row[-2] for row in sections.slices_table(mixed)[1]] == ["2 classes", "2 classes"]
    assert mixed.slices[0].metrics.keys() == {"accuracy", "macro_f1"}


def test_slices_are_of_the_documents_that_were_judged():
    part = replace(judged(0.1), index=np.arange(200) + 50)
    values = ["left out"] * 50 + ["judged"] * 200
    assert [each.value for each in make_slices(part, "c", values, 20).slices] == ["judged"]
    refuses("give a value each", make_slices, part, "c", values[:100])


@pytest.mark.parametrize("results", [of_classes(4).results, numbers(3.0), of_labels(1)])
def test_every_task_has_slices(results):
    found = make_slices(results, "column", [str(i % 3) for i in range(results.n)], resamples=30)
    for each in found.slices:
        low, high = each.intervals[found.metric]
        assert low - 1e-9 <= each.metrics[found.metric] <= high + 1e-9
    assert "By column" in "".join(Page(html.render(as_report(results, slices=found))).words)


def test_models_side_by_side_are_paired_with_the_first():
    one, other = judged(0.3, seed=1), judged(0.05, seed=2)
    found = side_by_side({"one": one, "other": other}, ["text"] * 200, ids())
    right, better = one.predicted == one.truth, other.predicted == other.truth
    assert found.differences[0] is None
    assert found.differences[1].value == pytest.approx(better.mean() - right.mean())
    low, high = found.differences[1].interval
    assert 0 < low < found.differences[1].value < high
    assert found.differences[1].p_value < 1e-3
    assert found.n_only_correct == [(right & ~better).sum(), (better & ~right).sum()]
    assert found.all_wrong == (~right & ~better).sum()
    assert found.n_same == (one.predicted == other.predicted).sum()
    for each in found.disagreements:
        i = int(each.id[1:])
        assert each.predicted == [one.predicted[i], other.predicted[i]]
        assert each.correct == [right[i], better[i]]
        assert sum(each.correct) == 1
    assert {tuple(each.correct) for each in found.disagreements} == {(True, False), (False, True)}


def test_numbers_side_by_side():
    one, other = numbers(1.0), numbers(5.0, seed=1)
    found = side_by_side({"one": one, "other": other}, None, ids())
    assert found.differences[1].value == pytest.approx(other.metrics["mae"] - one.metrics["mae"])
    assert found.differences[1].interval[0] > 0
    assert found.n_only_correct[0] > found.n_only_correct[1] > 0
    worst = int(found.disagreements[0].id[1:])
    spread = np.abs(np.abs(one.predicted - one.truth) - np.abs(other.predicted - other.truth))
    assert worst == spread.argmax()


def test_what_cannot_be_compared_is_said():
    refuses("the same labels", side_by_side, {"a": judged(0.1), "b": numbers(1.0)}, None, ids())
    other = judged(0.1, names=np.array(["a", "b"]))
    with pytest.raises(InputError, match=r"binary \(ham, spam\), b binary \(a, b\)"):
        side_by_side({"a": judged(0.1), "b": other}, None, ids())
    refuses("different documents", side_by_side, {"a": judged(0.1), "b": judged(0.1, n=100)}, None, ids())


@pytest.mark.parametrize(
    ("pair", "titles"),
    [
        ((judged(0.1), judged(0.2)), ("ROC curves of all models", "Precision and recall of all models")),
        ((of_classes(12, 5).results, of_classes(12).results), ("The clearest decisions of all models",)),
        ((of_labels(1), of_labels(2)), ("Precision and recall of all models",)),
        ((numbers(1.0), numbers(2.0)), ("Errors of all models",)),
    ],
)
def test_all_models_are_in_one_chart(pair, titles):
    found = side_by_side(dict(zip(("one", "other"), pair, strict=True)), None, ids())
    page = html.render(as_report(pair[0], beside=found))
    assert_self_contained(page)
    for title in titles:
        section = page[page.index(f"<h2>{title}") :]
        section = section[: section.index("</section>")]
        assert section.count('<path class="line') == 2
        assert "one" in section
        assert "other" in section


def test_a_power_law_is_found_again():
    n = np.array([50, 100, 200, 400, 500.0])
    random = np.random.default_rng(0)
    for a, c in ((0.0, 0.5), (0.1, 0.8)):
        errors = a + 0.9 * n**-c + 0.002 * random.standard_normal((10, 5))
        found = fit_learning_curve("accuracy", n, errors)
        assert found.expected == pytest.approx(a + 0.9 * 1000**-c, abs=0.005)
        assert found.interval[0] < found.expected < found.interval[1]
        assert found.law(n) == pytest.approx(errors.mean(axis=0), rel=0.05)


def test_the_answer_of_a_learning_curve():
    n = np.array([50, 100, 200, 400, 500.0])
    noise = 0.002 * np.random.default_rng(0).standard_normal((5, 5))
    falls, flat = (
        fit_learning_curve("accuracy", n, 2 * n**-0.5 + noise),
        fit_learning_curve("accuracy", n, 0.1 + 0 * n + noise),
    )
    assert (falls.would_help, flat.would_help) == ("yes", "hardly")
    assert "would probably help" in sections.learning_sentence(falls)
    assert "(1,000)" in sections.learning_sentence(falls)
    assert fit_learning_curve("accuracy", n, np.abs(2 * n**-0.5 + 60 * noise)).would_help == "unclear"
    perfect = fit_learning_curve("accuracy", n, np.zeros((3, 5)))
    assert perfect.expected == 0.0
    assert html.render(as_report(judged(0.1), learning=perfect))


def test_a_learning_curve_trains_on_nested_parts_of_each_fold():
    random = np.random.default_rng(0)
    words = np.array(["red", "green", "blue", "cold", "warm"])
    labels = ["ab"[i % 2] for i in range(200)]
    texts = [" ".join(random.choice(words, 6)) + f" {x}{x}" * (random.random() < 0.8) for x in labels]
    model = SVC(Spectrum(2), device="cpu")
    result = cross_validate(model, texts, labels, cv=4)
    found = learning_curve(model, texts, labels, result)
    assert found.n.tolist() == [16, 30, 60, 120, 150]
    assert found.error[-1] == pytest.approx(1 - result.mean["accuracy"])
    assert found.error[0] > found.error[-1]
    few = cross_validate(model, texts[:20], labels[:20], cv=4)
    refuses("too few", learning_curve, model, texts[:20], labels[:20], few)
    lengths = [float(len(text)) for text in texts]
    svr = SVR(Spectrum(2), device="cpu")
    of_numbers = learning_curve(svr, texts, lengths, cross_validate(svr, texts, lengths, cv=4))
    assert of_numbers.metric == "mae"
    made = report_of_folds(results_of(result, labels), texts, ids(), "t", [])
    assert made.results.metrics["accuracy"] == pytest.approx(result.pooled["accuracy"])
    assert "Would more texts help?" in html.render(replace(made, learning=of_numbers))


def everything(hostile="plain"):
    """A report with all parts, every name of which comes from data."""
    names = np.array(sorted(["ham" + hostile, "spam" + hostile]))
    one, other = judged(0.1, names=names), judged(0.2, seed=3, names=names)
    values = [f"{hostile} {i % 3}" for i in range(200)]
    flat = fit_learning_curve("accuracy", np.array([50, 100, 200, 400, 500.0]), 0.1 + np.zeros((3, 5)))
    return as_report(
        one,
        slices=make_slices(one, hostile, values, resamples=20),
        beside=side_by_side(
            {f"one{hostile}": one, f"other{hostile}": other}, [hostile] * 200, [hostile] * 200
        ),
        learning=flat,
    )


def of_model(model, texts, truth, held):
    """The report of a model of the first forty examples."""
    model.fit(texts[:40], truth[:40])
    return make_report(model.model_, judge(model, texts[40:], held), texts[40:], ids(len(held)))


@pytest.fixture(scope="module")
def reports():
    texts, labels = corpus(("ham", "spam"))
    calibrated = CalibratedSVC(SVC(Spectrum(3), device="cpu"), cv=3)
    inside = OneClassSVM(Spectrum(3), nu=0.2, device="cpu").fit(texts[:40:2])
    return {
        "all parts": everything(),
        "two classes": made_report(),
        "three classes": made_report(("a", "b", "c")),
        "probabilities": of_model(calibrated, texts, labels, labels[40:]),
        "numbers": of_model(SVR(Spectrum(3), device="cpu"), texts, np.arange(60.0), np.arange(20.0)),
        "labels": as_report(of_labels(1)),
        "one class": make_report(inside.model_, judge(inside, texts, labels, "ham"), texts, ids(60)),
    }


NAMED = ["all parts", "two classes", "three classes", "probabilities", "numbers", "labels", "one class"]
#: Titles of sections on the page, each beside the reports that have it.
SECTIONS = {
    "Where to draw the line": {"all parts", "two classes", "probabilities", "one class"},
    "Confusion matrix": {"all parts", "two classes", "three classes", "probabilities", "one class"},
    "ROC curve": {*NAMED} - {"numbers"},
    "How clear the decisions are": {"three classes"},
    "Calibration": {"probabilities"},
    "probability of spam": {"probabilities"},
    "Predicted and true": {"numbers"},
    "Models side by side": {"all parts"},
    "By plain": {"all parts"},
    "Would more texts help?": {"all parts"},
}
SHARES = {"accuracy", "precision", "recall", "f1", "macro_f1", "micro_f1", "subset_accuracy"}


def shown(name, value):
    return f"{100 * value:.2f} %" if name in SHARES else f"{value:.4g}"


@pytest.mark.parametrize("name", NAMED)
def test_a_report_has_its_sections_and_figures_in_every_form(reports, name, tmp_path):
    found = reports[name]
    page = assert_self_contained(html.render(found))
    forms = {"html": " ".join(page.words), "md": files.as_markdown(found).replace("\\", "")}
    for title, owners in SECTIONS.items():
        assert (title in forms["html"]) == (name in owners), title
        if title in ("Confusion matrix", *list(SECTIONS)[-3:]):
            assert (title in forms["md"]) == (name in owners), title
    write(found, tmp_path / "r.json")
    whole = json.loads((tmp_path / "r.json").read_text("utf-8"))
    pairs = [(whole, found.results.metrics)]
    pairs += zip(whole.get("per_class", []), found.results.per_class or [], strict=True)
    if name == "all parts":
        pairs += [
            (row["metrics"], own.metrics)
            for row, own in zip(whole["slices"]["slices"], found.slices.slices, strict=True)
        ]
        shown_of_models = ("accuracy", "f1", "macro_f1")
        pairs += [
            ({metric: row[metric] for metric in shown_of_models}, own.metrics)
            for row, own in zip(whole["beside"]["models"], found.beside.results, strict=True)
        ]
        assert [row["name"] for row in whole["beside"]["models"]] == ["oneplain", "otherplain"]
        assert whole["learning_curve"]["would_help"] == "hardly"
    compared = 0
    for told, metrics in pairs:
        for metric in SHARES & metrics.keys() & told.keys():
            assert told[metric] == pytest.approx(metrics[metric], nan_ok=True)
            for form, text in forms.items():
                assert shown(metric, metrics[metric]) in text, (form, metric)
                compared += 1
    assert compared or name == "numbers"
    for mistake, told in zip(found.mistakes, whole["mistakes"], strict=True):
        if mistake.explanation is not None:
            parts = told["explanation"]
            assert sum(parts["symbols"]) + parts["bias"] == pytest.approx(parts["value"])
    assert (
        ("mean absolute error" in forms["html"])
        == ("mean absolute error" in forms["md"])
        == (name == "numbers")
    )


@pytest.mark.slow
def test_a_large_report_stays_below_a_megabyte():
    k, n = 20, 5000
    random = np.random.default_rng(0)
    names = np.array([f"a class of some length {i:02}" for i in range(k)])
    truth = random.integers(0, k, n)

    def one(noise):
        values = np.eye(k)[truth] + noise * random.standard_normal((n, k))
        return evaluate(names[truth], names[values.argmax(axis=1)], values, names).with_intervals(5)

    found = {f"model {i}": one(0.2 + 0.05 * i) for i in range(8)}
    results = found["model 0"]
    page = html.render(
        as_report(
            results,
            slices=make_slices(results, "author", [f"author {i % 500}" for i in range(n)], resamples=5),
            beside=side_by_side(found, ["many words " * 1000] * n, [f"document {i}" for i in range(n)]),
        )
    )
    assert len(page.encode()) < 1_000_000
    assert "400 more values are left out" in page


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    random = np.random.default_rng(0)
    rows = ["id,text,label,source"]
    for i in range(120):
        label = ("ham", "spam")[i % 2]
        words = " ".join(random.choice(["red", "green", "blue", "cold"], 6))
        rows.append(
            f"d{i},{words}{f' {label}' * int(random.random() < 0.8)},{label},{('mail', 'chat')[i % 3 % 2]}"
        )
    (folder / "t.csv").write_text("\n".join(rows) + "\n")
    for name, kernel in (("a", "spectrum:3"), ("b", "words:1")):
        works(
            "train", "t.csv", "--kernel", kernel, "--positive", "spam", "--device", "cpu", "-q",
            "-o", f"{name}.textsvm", cwd=folder,
        )  # fmt: skip
    return folder


def test_evaluate_several_models_by_a_column(table):
    options = ("--beside", "b.textsvm", "--slice", "source", "--report", "r.html", "--json")
    found = json.loads(works("evaluate", "a.textsvm", "t.csv", *options, cwd=table).stdout)
    assert [each["name"] for each in found["beside"]["models"]] == ["a.textsvm", "b.textsvm"]
    assert sum(each["n"] for each in found["slices"]["slices"]) == 120
    alone = json.loads(run("evaluate", "b.textsvm", "t.csv", "--device", "cpu", "--json", cwd=table).stdout)
    assert found["beside"]["models"][1]["accuracy"] == alone["accuracy"]
    page = (table / "r.html").read_text("utf-8")
    assert "Models side by side" in page
    assert "By source" in page
    without = run("evaluate", "a.textsvm", "t.csv", *options[:-1], "--mistakes", "0", "--force", cwd=table)
    assert b"models side by side" in without.stdout
    page = (table / "r.html").read_text("utf-8")
    assert "cold" not in page  # a word of the texts
    assert "nosuch" in fails("evaluate", "a.textsvm", "t.csv", "--slice", "nosuch", cwd=table)
    onto = ("--beside", "b.textsvm", "--report", "b.textsvm")
    assert "--report" in fails("evaluate", "a.textsvm", "t.csv", *onto, cwd=table, code=2)
    itself = fails("evaluate", "a.textsvm", "t.csv", "--beside", "a.textsvm", cwd=table, code=2)
    assert "is the evaluated model itself" in itself


def test_cross_validate_with_a_learning_curve_and_a_report(table):
    options = ("--kernel", "spectrum:3", "--device", "cpu", "--positive", "spam", "--folds", "2")
    more = ("--learning-curve", "--groups", "source", "--report", "cv.md", "--json")
    found = json.loads(works("cv", "t.csv", *options, *more, cwd=table).stdout)
    assert found["learning_curve"]["would_help"] in ("yes", "hardly", "unclear")
    text = (table / "cv.md").read_text("utf-8")
    for title in ("## Would more texts help?", "## By source", "## The worst mistakes"):
        assert title in text
