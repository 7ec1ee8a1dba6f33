"""What holds for reports: what a chart, a table or a sentence shows are the figures of the results."""

import html as unescaping
import json
import re

import numpy as np
import pytest
from command import run
from sklearn import metrics
from test_reporting import corpus, of_classes
from test_reporting_sections import judged, numbers

from textsvm import SVC, Spectrum, class_map, report, save
from textsvm.evaluation.comparison import side_by_side
from textsvm.evaluation.results import evaluate
from textsvm.evaluation.slices import make_slices
from textsvm.reporting import charts, curves, files, html, maps, sections
from textsvm.reporting.charts import BOTTOM, LEFT, RIGHT, TOP
from textsvm.reporting.formatting import classes_table
from textsvm.reporting.pages import Review, review_page
from textsvm.reporting.report import Report, report_of_folds
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


@pytest.mark.parametrize("positive", ["ham", "spam"])
def test_explanations_of_mistakes_speak_for_the_positive_class(positive):
    texts, labels = corpus(("ham", "spam"))
    model = SVC(Spectrum(3), device="cpu").fit(texts[:40], labels[:40])
    found = report(model, texts[40:], labels[40:], positive=positive)
    assert len(found.mistakes) > 1
    for mistake in found.mistakes:
        sign = 1 if mistake.predicted == positive else -1
        assert sign * mistake.value > 0
        assert mistake.explanation.towards == positive
        assert mistake.explanation.value == pytest.approx(mistake.value)
        total = mistake.explanation.symbols.sum() + mistake.explanation.bias
        assert total == pytest.approx(mistake.value, abs=1e-6)


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


def test_new_columns_of_a_sheet_look_like_the_others(tmp_path):
    """A header in bold letters; charts and pictures, which are not kept, are said."""
    openpyxl = pytest.importorskip("openpyxl")
    texts, labels = corpus(("ham", "spam"))
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
    assert all(cell.font.bold for cell in first if cell.value)
    assert not any(cell.font.bold for cell in second)
