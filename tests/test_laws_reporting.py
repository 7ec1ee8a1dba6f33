"""What holds for reports: what a chart, a table or a sentence shows are the figures of the results."""

import html as unescaping
import json
import re

import numpy as np
import pytest
from command import run
from scipy.stats import binomtest
from sklearn import metrics
from test_reporting import corpus, of_classes
from test_reporting_sections import judged, numbers

from textsvm import SVC, MultilabelSVC, Spectrum, class_map, explain, report, save
from textsvm.evaluation.comparison import side_by_side
from textsvm.evaluation.results import evaluate
from textsvm.evaluation.slices import make_slices
from textsvm.reporting import charts, curves, files, html, maps, sections
from textsvm.reporting.charts import BOTTOM, LEFT, RIGHT, TOP
from textsvm.reporting.formatting import classes_table
from textsvm.reporting.pages import Review, review_page
from textsvm.reporting.report import Report, how_wrong, report_of_folds
from textsvm.selection.cross_validation import fit_learning_curve
from textsvm.selection.doubts import Doubt


def values_at(svg, x, y):
    """The values of a point of a chart of linear axes."""
    width, height = map(int, re.search(r'viewBox="0 0 (\d+) (\d+)"', svg).groups())
    axes = re.search(r'data-x="(\S+) (\S+)" data-y="(\S+) (\S+)"', svg)
    low, high, bottom, top = map(float, axes.groups())
    return (
        low + (x - LEFT) / (width - LEFT - RIGHT) * (high - low),
        bottom + (height - BOTTOM - y) / (height - BOTTOM - TOP) * (top - bottom),
    )


@pytest.mark.parametrize("wrong", [0.1, 0.4])
def test_markers_stand_at_the_rates_of_the_model(wrong):
    """Shares that differ for both classes, so that none stands for another."""
    results = judged(wrong, n=240)
    kept = np.flatnonzero((results.predicted == "spam") | (np.arange(240) % 3 > 0))
    parts = (results.truth[kept], results.predicted[kept], results.decision[kept])
    results = evaluate(*parts, results.labels)
    positive, said = results.truth == "spam", results.predicted == "spam"
    for svg, name, expected in (
        (curves.roc(results), "roc-dot", (said[~positive].mean(), said[positive].mean())),
        (curves.precision_recall(results), "pr-dot", (said[positive].mean(), positive[said].mean())),
    ):
        place = re.search(rf'id="{name}" class="marker" cx="([\d.]+)" cy="([\d.]+)"', svg)
        assert values_at(svg, *map(float, place.groups())) == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize(("k", "every"), [(3, 7), (5, 4)])
def test_leads_are_counted_by_whether_the_prediction_is_right(k, every):
    results = of_classes(k, wrong=every).results
    svg = curves.margins(results)
    counts = {}
    for style in ("c3", "c2"):
        path = re.search(rf'class="area line {style}" d="([^"]+)"', svg)[1]
        counts[style] = sum(values_at(svg, 0, float(y))[1] for y in re.findall(r"V([\d.]+)H", path))
    right = int((results.truth == results.predicted).sum())
    assert counts == pytest.approx({"c3": right, "c2": results.n - right}, abs=0.5)


def test_charts_of_the_same_title_are_files_of_their_own():
    page = "<section>" + '<svg viewBox="0 0 9 9"><title>A chart</title></svg>' * 3 + "</section>"
    assert list(charts.figures(page)) == ["a-chart", "a-chart-2", "a-chart-3"]
    heights = [int(height) for height in re.findall(r'height="(\d+)"', charts.stacked(page))]
    assert heights[0] == sum(heights[1::2]) == 27


def test_axes_of_shares_end_at_one_and_those_of_numbers_do_not():
    for metric, most in (("accuracy", 1.0), ("mae", 9.0)):
        lines = [charts.IntervalLine("m", 0.99 * most, (0.97 * most, most), "c1")]
        svg = charts.intervals_chart("t", metric, metric, lines, 0.9 * most)
        high = float(re.search(r'data-x="\S+ (\S+)"', svg)[1])
        assert (high == 1.0) == (metric == "accuracy")
        assert high >= most


@pytest.mark.parametrize("k", [26, 30])
def test_confusions_are_listed_as_they_were_counted(k):
    made = of_classes(k)
    page = html.render(made)
    table = page[page.index("Most frequent confusions") :]
    rows = re.findall(r"<tr><th>(class \d+)</th><td>(class \d+)</td><td>(\d+)</td></tr>", table)
    names = [str(label) for label in made.results.labels]
    wrong = np.array(made.results.confusion)
    np.fill_diagonal(wrong, 0)
    assert len(rows) == min(15, np.count_nonzero(wrong))
    for truth, predicted, count in rows:
        assert made.results.confusion[names.index(truth)][names.index(predicted)] == int(count) > 0


def test_a_report_of_two_classes_names_both():
    page = html.render(Report("t", judged(0.2).with_intervals(20), [], np.arange(1, 201), []))
    assert "200 documents; spam is to be told from ham" in page


def test_warnings_are_in_every_form_of_a_report(tmp_path):
    results = judged(0.2).with_intervals(20)
    results.warnings.append("the labels <are> odd")
    made = Report("t", results, [], np.arange(1, 201), [])
    assert "the labels &lt;are&gt; odd." in html.render(made)
    assert "> **Warning:** the labels \\<are\\> odd." in files.as_markdown(made)
    assert made.as_dict()["warnings"] == ["the labels <are> odd"]


@pytest.mark.parametrize("results", [judged(0.1), numbers(3.0)], ids=["classes", "numbers"])
def test_differences_are_in_the_unit_of_their_metric(results):
    """Points of shares, and numbers themselves."""
    other = judged(0.3, seed=1) if results.task == "binary" else numbers(9.0, seed=1)
    models = side_by_side({"a": results, "b": other}, None, [f"d{i}" for i in range(200)])
    metric = models.differences[1].metric
    scale = 100 if metric == "accuracy" else 1
    _, rows = sections.models_table(models)
    difference = other.metrics[metric] - results.metrics[metric]
    assert float(rows[1][-2].split()[0]) == pytest.approx(scale * difference, rel=0.01)


def test_a_note_counts_the_values_that_are_left_out():
    values = [f"v{i // 4}" for i in range(200)]
    slices = make_slices(judged(0.2), "source", values, resamples=20)
    for most in (10, 49):
        assert f"{slices.n_values - most} more values are left out" in sections.slices_note(slices, most)
        assert len(sections.slices_table(slices, most)[1]) == most
    assert "left out" not in sections.slices_note(slices, 50)


def test_mistakes_of_folds_have_the_names_of_their_texts():
    """Also if some texts were not tested."""
    results = judged(0.3, n=60)
    results = results.__class__(**{**vars(results), "index": np.arange(60) * 2 + 1})
    texts = [f"text {i}" for i in range(120)]
    made = report_of_folds(results.with_intervals(20), texts, [f"id {i}" for i in range(120)], "t", [])
    assert len(made.mistakes) == 10
    for mistake in made.mistakes:
        assert mistake.text.removeprefix("text ") == mistake.id.removeprefix("id ")
        assert int(mistake.id.removeprefix("id ")) % 2


def test_the_name_of_a_class_stands_at_the_mean_of_its_documents():
    rng = np.random.default_rng(0)
    codes = np.arange(120) % 3
    X = rng.normal(size=(120, 4)) + 6 * rng.normal(size=(3, 4))[codes]
    mapped = class_map(X @ X.T, [f"c{code}" for code in codes])
    svg = re.search("<svg .*?</svg>", maps.map_sections(mapped, [])[-1], re.DOTALL)[0]
    for number, share in enumerate(mapped.documents.variance, 1):
        assert f"component {number}: {100 * float(f'{share:.3g}'):.4g} % of the variance" in svg
    for code in range(3):
        x = mapped.documents.points[codes == code, 0].mean()
        style = f"name {maps.colour_of(code)}"
        place = re.search(rf'<text class="{style}(?: end)?" x="([\d.]+)" y="([\d.]+)">', svg)
        at = values_at(svg, *map(float, place.groups()))
        low, high = map(float, re.search(r'data-x="(\S+) (\S+)"', svg).groups())
        assert at[0] == pytest.approx(x, abs=0.15 * (high - low))  # the text is beside its point


def test_a_page_of_doubts_has_the_labels_of_each():
    labels = ["a", "b", "c", "a"]
    found = [
        Doubt(i, label, suggested, 0.9 - i / 10, ["why"], other, similarity, ("label",))
        for i, label, suggested, other, similarity in [(0, "a", "b", 1, 0.5), (3, "a", "c", 2, 0.0)]
    ]
    page = review_page(Review("t", found, ["x", "y", "z", "w"], labels, lambda i: f"text {i}"))
    data = json.loads(unescaping.unescape(re.search(r'id="review">(.*?)</script>', page, re.DOTALL)[1]))
    assert [data["labels"][i] for i in data["own"]] == ["a", "a"]
    assert [data["labels"][i] for i in data["likeliest"]] == ["b", "c"]
    assert data["ids"] == ["x", "w"]
    assert "similar (0.500): y, <b>b</b>" in page
    assert page.count("similar (") == 1  # a text that resembles nothing has no neighbour


@pytest.mark.parametrize("k", [2, 4])
def test_the_table_of_classes_has_the_figures_of_each(k):
    results = judged(0.3) if k == 2 else of_classes(k, wrong=4).results
    head, rows = classes_table(results)
    columns = dict(zip(head, zip(*rows, strict=True), strict=True))
    assert columns[""] == tuple(map(str, results.labels))
    for name, said in (("documents", results.truth), ("predicted", results.predicted)):
        assert columns[name] == tuple(str((said == label).sum()) for label in results.labels)
    for name, metric in (("precision", metrics.precision_score), ("recall", metrics.recall_score)):
        expected = metric(results.truth, results.predicted, average=None)
        assert columns[name] == tuple(f"{100 * value:.2f} %" for value in expected)


def test_a_text_of_several_labels_is_as_wrong_as_its_worst_label():
    """Wrong labels by their distance to the threshold, right ones not at all."""
    texts, labels = corpus(("ham", "spam"))
    truth = np.array([[label == "ham", label == "spam"] for label in labels], int)
    model = MultilabelSVC(Spectrum(3), device="cpu").fit(texts[:40], truth[:40])
    results = report(model, texts[40:], 1 - truth[40:]).results
    distances = np.abs(results.decision - model.thresholds_)
    wrong = results.predicted != 1 - truth[40:]
    assert (distances * wrong).max(axis=1).min() < 1
    assert how_wrong(results).tolist() == (distances * wrong).max(axis=1).tolist()


@pytest.mark.parametrize("positive", ["ham", "spam"])
def test_explanations_of_mistakes_speak_for_the_positive_class(positive):
    texts, labels = corpus(("ham", "spam"))
    model = SVC(Spectrum(3), device="cpu").fit(texts[:40], labels[:40])
    found = report(model, texts[40:], labels[40:], positive=positive)
    assert len(found.mistakes) > 1
    for mistake in found.mistakes:
        assert (1 if mistake.predicted == positive else -1) * mistake.value > 0
        assert mistake.explanation.towards == positive
        assert mistake.explanation.value == pytest.approx(mistake.value)
        total = mistake.explanation.symbols.sum() + mistake.explanation.bias
        assert total == pytest.approx(mistake.value, abs=1e-6)


def test_page_and_markdown_have_the_facts_of_the_model_and_the_counts_of_each_cell():
    texts, labels = corpus(("ham", "spam"))
    model = SVC(Spectrum(3), C=3, device="cpu").fit(texts[:40], labels[:40])
    made = report(model, texts[35:], labels[35:])
    names = ("machine", "kernel", "C", "support vectors", "documents judged")
    expected = ["SVC", "spectrum:3", "3", str(len(model.support_)), "25"]
    assert [dict(made.facts)[name] for name in names] == expected
    text, page = files.as_markdown(made).replace("\\", ""), html.render(made)
    for name, value in made.facts:
        assert f"| {name} | {value} |" in text
        assert f"<tr><th>{name}</th><td>{value}</td></tr>" in page
    counts = metrics.confusion_matrix(labels[35:], made.results.predicted)
    for a, (label, row) in enumerate(zip(("ham", "spam"), counts, strict=True)):
        assert f"| {label} | {row[0]} | {row[1]} |" in text
        for b, n in enumerate(row):
            cell = re.search(rf'id="cell-{a}{b}"[^>]*><b>(\d+)</b><small>([\d.]+) %', page)
            assert cell.groups() == (str(n), f"{100 * n / row.sum():.1f}")
    assert made.mistakes
    for mistake in made.mistakes:
        verdict = f"is {mistake.truth}, predicted {mistake.predicted} ({mistake.value:+.3f})"
        assert f"### {mistake.id}\n\n{verdict}" in text
        assert f'<h3>{mistake.id}</h3><p class="note">{verdict}</p>' in page


def test_bars_are_as_long_as_their_values_and_do_not_meet():
    """Each stands around its text, and below the one before."""
    svg = charts.bars_chart("t", ["one", "two", "three"], [2.0, 0.5, 1.23456])
    width, height = map(int, re.search(r'viewBox="0 0 (\d+) (\d+)"', svg).groups())
    bars = [[*map(float, bar)] for bar in re.findall(r'd="M0 (\S+)H(\S+)V(\S+)H0Z"', svg)]
    assert [bar[1] for bar in bars] == pytest.approx([width, width / 4, width * 0.61728], abs=0.1)
    edges = [edge for top, _, bottom in bars for edge in (top, bottom)]
    assert [0, *edges, height] == sorted({0, *edges, height})
    texts = re.findall(r'<text class="[a-z ]+" x="(\S+)" y="(\S+)">([^<]+)</text>', svg)
    assert [text for _, _, text in texts] == ["one", "2", "two", "0.5", "three", "1.23"]
    assert [sum(top < float(y) < bottom for top, _, bottom in bars) for _, y, _ in texts] == [1] * 6


def points_of(html_of_chart, kind):
    """Values of the points of a path of dots, of both ends of whiskers, or of dashes."""
    path = re.search(rf'class="{kind}[^"]*"[^>]* d="([^"]*)"', html_of_chart)[1]
    ends = re.findall(r"M([\d.]+) ([\d.]+)(?:V([\d.]+))?", path)
    svg = re.search("<svg .*?</svg>", html_of_chart, re.DOTALL)[0]
    return np.array([values_at(svg, float(x), float(y)) for x, *ys in ends for y in filter(None, ys)])


@pytest.mark.parametrize("k", [2, 4])
def test_a_chart_of_calibration_has_the_shares_of_tenths(k):
    """Of the positive class, of more classes of the predicted one; with Wilson's intervals."""
    rng, names = np.random.default_rng(0), np.array(list("abcd"[:k]))
    probability = rng.dirichlet(np.ones(k), 200)
    truth = np.array([rng.choice(k, p=row**2 / (row**2).sum()) for row in probability])
    said = probability.argmax(axis=1)
    values = probability[:, 1] - 0.5 if k == 2 else probability
    results = evaluate(names[truth], names[said], values, names, probability=probability)
    shown, right = (probability[:, 1], truth == 1) if k == 2 else (probability.max(axis=1), truth == said)
    tenths = np.argsort(shown).reshape(10, 20)
    chart = curves.calibration(results)
    found = points_of(chart, "dots c3")
    np.testing.assert_allclose(found, np.c_[shown[tenths].mean(1), right[tenths].mean(1)], atol=2e-3)
    bounds = [binomtest(n, 20).proportion_ci(method="wilson") for n in right[tenths].sum(1)]
    ends = points_of(chart, "whisker c3")[:, 1]
    np.testing.assert_allclose(ends, [end for bound in bounds for end in bound], atol=3e-3)
    assert f"probability of {'b' if k == 2 else 'the predicted class'}" in chart


def test_a_chart_of_numbers_has_truth_below_and_the_prediction_at_the_left():
    results = numbers(30.0, n=40)
    found = points_of(curves.scatter(results), "dots c1")
    np.testing.assert_allclose(found, np.c_[results.truth, results.predicted], atol=0.3)
    error = results.predicted - results.truth
    chart = curves.error_histogram(results)
    assert f"Mean {error.mean():+.3g}, {np.abs(error).mean():.4g} off on average" in chart
    heights = [values_at(chart, 0, float(y))[1] for y in re.findall(r"V([\d.]+)H", chart)]
    bound = np.percentile(np.abs(error), 99.5)
    expected = np.histogram(np.clip(error, -bound, bound), len(heights), (-bound, bound))[0]
    np.testing.assert_allclose(heights, expected, atol=0.1)
    drawn = curves.scatter(numbers(3.0, n=3100))
    assert (len(points_of(drawn, "dots c1")), "3,000 documents drawn" in drawn) == (3000, True)


@pytest.mark.parametrize("results", [judged(0.2), numbers(9.0)], ids=["classes", "numbers"])
def test_errors_by_length_are_those_of_eighths(results):
    numeric = results.task == "regression"
    lengths = np.random.default_rng(0).permutation(200) * 10 + 10
    wrong = np.abs(results.predicted - results.truth) if numeric else results.truth != results.predicted
    parts = [wrong[np.minimum((lengths - 10) * 8 // 1990, 7) == part] for part in range(8)]
    chart = curves.by_length(results, lengths)
    assert "8 groups of documents" in chart
    found = points_of(chart, "dots c1")[:, 1]
    np.testing.assert_allclose(found, [part.mean() for part in parts], atol=0.05 if numeric else 3e-3)
    ends = points_of(chart, "whisker c1")[:, 1].reshape(8, 2)
    if numeric:
        half = np.array([1.96 * part.std() / len(part) ** 0.5 for part in parts])
        np.testing.assert_allclose(ends, np.maximum(found[:, None] + np.c_[-half, half], 0), atol=0.1)
    else:
        bounds = [binomtest(int(part.sum()), len(part)).proportion_ci(method="wilson") for part in parts]
        np.testing.assert_allclose(ends, bounds, atol=4e-3)
    assert points_of(chart, "dash")[0, 1] == pytest.approx(wrong.mean(), abs=0.05 if numeric else 3e-3)


def test_a_drawn_confusion_has_rows_of_the_truth():
    results = of_classes(3, wrong=4).results
    svg = curves.confusion(results)
    cells = re.findall(r'style="fill-opacity:([\d.]+)" d="M([\d.]+) ([\d.]+)h', svg)
    start = min(float(x) for _, x, _ in cells)
    side = sorted({float(x) for _, x, _ in cells})[1] - start
    counts = {
        (round((float(y) - start) / side - 0.6), round((float(x) - start) / side - 0.5)): int(n)
        for x, y, n in re.findall(r'<text class="name mid" x="([\d.]+)" y="([\d.]+)">(\d+)<', svg)
    }
    matrix = metrics.confusion_matrix(results.truth, results.predicted, labels=results.labels)
    assert counts == {(a, b): n for (a, b), n in np.ndenumerate(matrix) if n}
    shares = matrix / matrix.sum(axis=1, keepdims=True)
    np.testing.assert_allclose([float(x) for x, *_ in cells], 0.04 + 0.8 * shares.ravel(), atol=1e-3)
    assert f"{results.n:,} documents" in svg


def test_what_is_said_of_two_models_is_what_was_counted():
    rng, names = np.random.default_rng(0), np.array(["a", "b", "c"])
    truth = rng.integers(0, 3, 120)
    values = [np.eye(3)[truth] + noise * rng.standard_normal((120, 3)) for noise in (0.5, 0.8)]
    one, other = (evaluate(names[truth], names[x.argmax(axis=1)], x, names).with_intervals(5) for x in values)
    found = side_by_side({"one": one, "other": other}, None, [f"d{i}" for i in range(one.n)])
    right, better = one.truth == one.predicted, other.truth == other.predicted
    same = int((one.predicted == other.predicted).sum())
    alone = f"alone right: one {(right & ~better).sum()}, other {(better & ~right).sum()}."
    said = f"agree on {same} documents, and are all wrong on {(~right & ~better).sum()}. Documents on which"
    assert f"{said} a model is {alone}" in sections.models_note(found)
    page = sections.models_section(found)
    marks = ["good" if right else "bad" for row in found.disagreements for right in row.correct]
    assert re.findall(r'<td class="(good|bad)">', page) == marks
    chart = page[page.index("<title>The clearest decisions") - 200 :]
    for number, (results, good) in enumerate(((one, right), (other, better)), 1):
        clearest = good[np.argsort(-curves.leads(results), kind="stable")]
        path = re.search(rf'class="line c{number}" d="M([^"]+)"', chart)[1]
        svg = re.search("<svg .*?</svg>", chart, re.DOTALL)[0]
        drawn = [values_at(svg, *map(float, point.split())) for point in path.split("L")]
        for share, value in (drawn[0], drawn[len(drawn) // 2], drawn[-1]):
            n = max(1, int(np.ceil(round(share, 2) * results.n)))
            assert value == pytest.approx(clearest[:n].mean(), abs=6e-3)


def test_a_learning_curve_is_told_as_it_was_measured():
    n = np.array([50, 100, 200, 400, 500.0])
    errors = 2 * n**-0.5 + 0.01 * np.random.default_rng(0).standard_normal((5, 5))
    curve = fit_learning_curve("accuracy", n, errors)
    gain, low, high = (f"{100 * value:.2f}" for value in curve.gain)
    assert (
        f"twice as many (1,000) would take the share wrong down by {gain} points (95 % interval over folds: "
        f"{low} to {high} points), from {100 * errors[:, -1].mean():.2f} % now."
    ) in sections.learning_sentence(curve)
    head, rows = sections.learning_table(curve)
    assert head == ["training texts", "share wrong", "SD over folds"]
    shown = zip(n, errors.mean(axis=0), errors.std(axis=0, ddof=1), strict=True)
    assert rows == [[f"{int(k)}", f"{100 * x:.2f} %", f"{100 * sd:.2f} %"] for k, x, sd in shown]
    chart = sections.learning_section(curve)
    np.testing.assert_allclose(points_of(chart, "dots c1")[:, 1], errors.mean(axis=0), atol=1e-3)
    assert points_of(chart, "dots c2")[0, 1] == pytest.approx(curve.expected, abs=1e-3)
    ends = points_of(chart, "whisker c2")[:, 1]
    np.testing.assert_allclose(ends, np.maximum(curve.interval, 0), atol=1e-3)


def test_the_figures_at_a_threshold_are_those_of_the_predictions():
    results = judged(0.2)
    page = curves.threshold_section(results)
    hits, found = results.truth == "spam", results.predicted == "spam"
    tiles = dict(re.findall(r'<dd id="now-(\w+)">([^<]*)</dd>', page))
    counts = {"found": hits & found, "missed": hits & ~found, "alarms": found & ~hits}
    assert {name: int(tiles[name]) for name in counts} == {x: y.sum() for x, y in counts.items()}
    shares = {"precision": results.precision, "recall": results.recall, "f1": results.f1}
    assert {name: tiles[name] for name in shares} == {x: f"{100 * y:.2f} %" for x, y in shares.items()}
    level = points_of(curves.precision_recall(judged(0.2, n=199)), "dash")[0, 1]
    assert level == pytest.approx(99 / 199, abs=2e-3)  # chance is the share of the positive class


def test_parts_of_an_explanation_speak_for_the_side_of_their_sign():
    """Passages come by their size, whatever their sign; a report of mistakes has the colours of the key."""
    texts, labels = corpus(("ham", "spam"))
    model = SVC(Spectrum(3), device="cpu").fit(texts[:40], labels[:40])
    [told] = explain(model, [". ".join(texts[40:])], positive="spam", similar=3)
    page = sections.explanation_section("t", told)
    assert '<li class="c2" data-curve="0">speaks for spam</li><li class="c1"' in page
    values = [float(x.replace("−", "-")) for x in re.findall(r'<b class="\w+">([^<]+)</b>', page)]
    signs = re.findall(r'<b class="(\w+)">', page)
    assert signs == ["for" if value > 0 else "against" for value in values]
    passages = sorted((value for value, _ in sections.passages(told)), key=lambda value: -abs(value))
    assert values[: len(passages[:10])] == pytest.approx(passages[:10], abs=6e-4)
    assert values[-3:] == pytest.approx([text.contribution for text in told.similar], abs=6e-4)
    coloured = re.search('class="document" dir="auto">(.*?)</div>', page, re.DOTALL)[1]
    for side, sign in (("f", 1), ("a", -1)):
        for piece in re.findall(rf'<span class="{side}[1-4]">([^<]*)</span>', coloured):
            places = [m.start() for m in re.finditer(re.escape(piece), told.text)]
            assert any((sign * told.symbols[i : i + len(piece)] > 0).all() for i in places)


def test_slices_are_coloured_by_how_they_differ():
    results = judged(0.3, n=200)
    values = np.where(np.arange(200) % 4 < 2, np.where(results.wrong, "bad", "good"), "all")
    slices = make_slices(results, "source", values.tolist(), resamples=20)
    page = sections.slices_section(slices)
    styles = {re.search(rf">({x.value}) ", page)[1]: x.apart for x in slices.slices}
    assert styles == {"bad": "worse", "good": "better", "all": ""}
    drawn = re.findall(r'class="dots (c\d)".*?>(\w+) \(\d+\): ', page)
    assert sorted(drawn) == [("c2", "bad"), ("c3", "good"), ("c7", "all")]
    assert [x for _, x in drawn] == [x.value for x in slices.slices[::-1]]
    keys = re.findall(r'<li class="(c\d)" data-curve="\d">([^<]+)</li>', page)
    assert keys == [("c2", "worse than all documents"), ("c3", "better"), ("c7", "no clear difference")]


def test_new_columns_of_a_sheet_look_like_the_others(tmp_path):
    """A header in bold letters; charts and pictures, which are not kept, are said."""
    openpyxl = pytest.importorskip("openpyxl")
    texts, labels = corpus(("0.5", "1.5"))  # which are numbers in Excel
    save(SVC(Spectrum(3), device="cpu").fit(texts[:40], labels[:40]), tmp_path / "m")
    book = openpyxl.Workbook()
    for row in [["text", "n"], *([text, i] for i, text in enumerate(texts[40:]))]:
        book.active.append(row)
    for cell in book.active[1]:
        cell.font = openpyxl.styles.Font(bold=True)
    chart = openpyxl.chart.BarChart()
    chart.add_data(openpyxl.chart.Reference(book.active, min_col=2, min_row=1, max_row=9))
    book.active.add_chart(chart, "F2")
    book.save(tmp_path / "t.xlsx")
    options = ("--text", "text", "-o", tmp_path / "o.xlsx")
    done = run("predict", tmp_path / "m", tmp_path / "t.xlsx", *options)
    assert done.returncode == 0, done.stderr
    assert "charts and pictures of t.xlsx are not in the output" in done.stderr.decode()
    first, second, *_ = openpyxl.load_workbook(tmp_path / "o.xlsx").active.iter_rows()
    assert [cell.value for cell in first[:3]] == ["text", "n", "label"]
    assert second[2].value in (0.5, 1.5)
    assert all(cell.font.bold for cell in first if cell.value)
    assert not any(cell.font.bold for cell in second)
