"""Reports: whole without network or script, and what comes from documents stays text."""

import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
from growth import assert_at_most_linear
from refusals import refuses

from textsvm import SVC, EditDistance, GapWeighted, OneClassSVM, Spectrum
from textsvm.evaluation.judge import judge
from textsvm.evaluation.results import evaluate
from textsvm.reporting import charts, curves, files, html, report
from textsvm.reporting.files import write
from textsvm.reporting.formatting import levels, runs, safe
from textsvm.reporting.report import Report, make_report

HOSTILE = (
    '</div></script><script>document.title="owned"</script><img src=x onerror=alert(1)> "quoted" \'single\' '
    "&amp; ]]> <!-- <svg/onload=alert(2)> ```\n# not a heading\n| a | \ud800 \x1b[31m \x00 \u202e"
)
HOSTILE_LABEL = HOSTILE.replace("\ud800", "")  # a label with a lone surrogate is refused
VOID = {"meta", "input", "br", "link", "img", "hr"}


class Page(HTMLParser):
    """Whether tags are closed in order, and which there are, with their attributes."""

    #: Newer parsers find no tags in titles, as browsers in the title of a page; in that of a drawing they do.
    RCDATA_CONTENT_ELEMENTS = ("textarea",)

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.words = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def count(self, tag):
        return sum(tag == each for each, _ in self.tags)


def same_symbols(first, second):
    """A user's kernel."""
    return np.array([[len({*a} & {*b}) for b in second] for a in first], float)


def corpus(classes, n=60, seed=0):
    random = np.random.default_rng(seed)
    labels = [classes[i % len(classes)] for i in range(n)]
    words = ["red", "green", "blue", "cold", "warm", "river"]
    texts = [
        " ".join(random.choice(words, 12)) + (f" {label} " * int(random.random() < 0.7)) for label in labels
    ]
    return texts, labels


def made(classes=("ham", "spam"), kernel=None, **changes):
    texts, labels = corpus(classes)
    model = SVC(kernel or Spectrum(3), C=5, device="cpu").fit(texts[:40], labels[:40])
    texts = texts[40:]
    for i in changes.pop("hostile", ()):
        texts[i] = HOSTILE + texts[i]
    results = judge(model, texts, labels[40:])
    return make_report(model.model_, results, texts, [f"document {i}" for i in range(20)], **changes)


@pytest.fixture(scope="module")
def binary():
    return made(title="A filter", hostile=range(20))


def assert_self_contained(page):
    """Nothing is fetched, no handler is inline, and scripts are the page's own two."""
    parsed = Page(page)
    for tag, attributes in parsed.tags:
        assert tag not in {"img", "link", "iframe", "object", "embed", "base", "form", "a"}
        assert not attributes.keys() & {"src", "href", "srcset", "action", "ping"}, (tag, attributes)
        assert not [name for name in attributes if name.startswith("on")]
    assert "url(" not in page
    assert "@import" not in page
    policy = next(a["content"] for tag, a in parsed.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none';")
    assert "'unsafe-inline'" not in policy.split("script-src")[1].split(";")[0]
    return parsed


@pytest.mark.parametrize("hostile", ["documents", "names"])
def test_what_comes_from_data_stays_text(hostile, tmp_path):
    found = made(title="A filter", hostile=range(20))
    if hostile == "names":
        texts, labels = corpus((HOSTILE_LABEL, "<b>spam</b>"))
        model = SVC(Spectrum(2), device="cpu").fit(texts[:40], labels[:40])
        results = judge(model, texts[40:], labels[40:])
        found = make_report(model.model_, results, texts[40:], [HOSTILE] * 20, title=HOSTILE)
    page = html.render(found)
    parsed = assert_self_contained(page)
    assert parsed.count("script") == 2
    shown = "".join(parsed.words)
    assert '<script>document.title="owned"</script><img src=x onerror=alert(1)>' in shown
    assert ("<b>spam</b>" in shown) == (hostile == "names")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", page)
    for name in ("r.html", "r.md", "r.json"):
        write(found, tmp_path / name)
        (tmp_path / name).read_text("utf-8")


def test_markdown_keeps_documents_in_fences(binary):
    text = files.as_markdown(binary)
    outside, fence = [], None
    for line in text.splitlines():
        if fence is None and line.startswith("```"):
            fence = re.match("`+", line).group()
        elif line == fence:
            fence = None
        elif fence is None:
            outside.append(line)
    assert fence is None
    assert not [line for line in outside if "<" in line.replace("\\<", "")]
    assert "# A filter" in outside
    assert any(line.startswith("| accuracy | ") for line in outside)


def of_classes(k, wrong=7):
    """A report of k classes; every so manieth document is taken for one of the next class."""
    truth = np.repeat(np.arange(k), 3)
    predicted = np.where(np.arange(3 * k) % wrong == wrong - 1, (truth + 1) % k, truth)
    names = np.array([f"class {i:02}" for i in range(k)])
    results = evaluate(names[truth], names[predicted], np.eye(k)[predicted], names).with_intervals(50)
    return Report("classes", results, [], np.arange(1, 3 * k + 1), [])


@pytest.mark.parametrize(("k", "full"), [(3, False), (8, False), (9, True), (20, True), (40, False)])
def test_pages_of_many_classes(k, full):
    """The matrix has a row of its own, or confusions are listed; curves of the worst classes come first."""
    page = html.render(of_classes(k))
    assert ('<section class="full">' in page) == full
    assert ("<select data-first" in page) == (k > 6)
    assert ("Most frequent confusions" in page) == (k == 40)
    assert ("Shown at first: the 6 with the lowest F1." in page) == (k > 6)
    curves = [found for tag, found in Page(page).tags if tag == "g"]
    assert len(curves) == 2 * k
    assert sum(found.get("class") == "off" for found in curves) == 2 * max(0, k - 6)
    assert_self_contained(page)


def test_features_of_the_worst_classes_are_drawn():
    texts, labels = corpus([f"class{i}" for i in range(8)], n=160)
    model = SVC(Spectrum(4), device="cpu").fit(texts[:80], labels[:80])
    found = make_report(
        model.model_, judge(model, texts[80:], labels[80:]), texts[80:], [str(i) for i in range(80)]
    )
    assert {each.label for each in found.features} == {
        found.results.labels[a] for a in report.worst_classes(found.results)[:6]
    }
    top = {each.label: each for each in model.top_features(20)}
    assert all(each == top[each.label] for each in found.features)
    assert html.render(found).count(": substrings</h2>") == 6
    assert f"{found.features[0].features[0].weight:.4g}" in files.as_markdown(found)
    assert found.as_dict()["features"][0]["kind"] == "substrings"
    bare = make_report(model.model_, found.results, texts[80:], [str(i) for i in range(80)], mistakes=0)
    assert not bare.features


def test_charts_are_files_of_their_own(binary, tmp_path):
    page = html.render(binary)
    assert page.count("</svg>") == len(charts.figures(page))
    paths = charts.write_figures(tmp_path / "charts", page)
    assert {"roc-curves.svg", "substrings-for-spam.svg"} <= {path.name for path in paths}
    for path in paths:
        root = ElementTree.fromstring(path.read_text("utf-8"))
        names = {each.tag.partition("}")[2] for each in root.iter()}
        assert names <= {"svg", "title", "style", "rect", "path", "text", "g", "circle"}
        assert float(root.get("height")) > 0
    drawn = (tmp_path / "charts" / "roc-curves.svg").read_text("utf-8")
    assert "■ spam 0." in drawn
    assert "var(" not in drawn


def test_probabilities_are_counted_on_a_logarithmic_axis():
    """Of 990 documents near 0 and 1 those ten between were not seen."""
    p = np.concatenate([np.full(495, 0.001), np.linspace(0.2, 0.8, 10), np.full(495, 0.999)])
    truth = np.where(np.arange(1000) < 500, "ham", "spam")
    said = np.where(p > 0.5, "spam", "ham")
    results = evaluate(truth, said, p - 0.5, np.array(["ham", "spam"]), probability=np.stack([1 - p, p], 1))
    page = html.render(Report("p", results.with_intervals(20), [], np.arange(1, 1001), []))
    assert "documents (logarithmic)" in page
    chart = page[page.index("Histogram of the probability") :]
    heights = [float(y) for y in re.findall(r"V([\d.]+)H", chart[: chart.index("</svg>")])]
    floor = max(heights)
    assert min(floor - y for y in heights if y < floor) > 10  # a single document


def test_warnings_stand_at_the_top():
    texts, labels = corpus(("ham", "spam"))
    model = SVC(Spectrum(3), device="cpu").fit(texts, labels)
    other = ["зимой холодно и темно", "летом тепло", "red river"]
    results = judge(model, other, ["ham", "spam", "rest"])
    assert len(results.warnings) == 2
    page = html.render(make_report(model.model_, results, other, ["x", "y", "z"]))
    assert page.index("labels that the model does not know") < page.index("Headline")
    assert "% of the symbols of these documents do not occur" in page
    assert "100.0% of these documents were in the training" in judge(model, texts, labels).warnings[0]
    refuses("no labelled documents", judge, model, [], [])


@pytest.mark.parametrize(
    "kernel",
    [GapWeighted(2), EditDistance(), same_symbols, Spectrum(2)],
    ids=["gap", "edit", "user", "spectrum"],
)
def test_explanations_stop_in_time(monkeypatch, kernel):
    assert all(each.explanation is not None for each in made(kernel=kernel).mistakes)
    monkeypatch.setattr(report, "EXPLAINING", 1e-12)
    found = made(kernel=kernel)
    assert found.mistakes
    assert all(each.explanation is None for each in found.mistakes)
    assert "they would have taken too long" in html.render(found)
    assert found.mistakes[0].text in html.render(found)


@pytest.mark.parametrize("most", [0, 3])
def test_the_worst_mistakes_come_first(most):
    found = made(mistakes=most)
    wrong = found.results.truth != found.results.predicted
    values = [abs(each.value) for each in found.mistakes]
    assert values == sorted(np.abs(found.results.decision[wrong]), reverse=True)[:most]
    assert all(each.truth != each.predicted for each in found.mistakes)
    page = html.render(found)
    assert (f"{wrong.sum()} of 20 documents; texts are left out" in page) == (most == 0)
    assert ("red" in "".join(Page(page).words).split()) == (most > 0)


def test_a_one_class_model_is_judged():
    texts, labels = corpus(("ham", "spam"))
    model = OneClassSVM(Spectrum(3), nu=0.2, device="cpu").fit(
        [t for t, y in zip(texts, labels, strict=True) if y == "ham"]
    )
    results = judge(model, texts, labels, "ham")
    assert results.labels == ["spam", "ham"]
    assert results.recall == (model.predict(texts) > 0)[np.array(labels) == "ham"].mean()
    assert_self_contained(html.render(make_report(model.model_, results, texts, texts)))
    refuses("the label that it was trained on", judge, model, texts, labels)
    refuses("reduce them to two", judge, model, texts[:3], ["ham", "b", "c"], "ham")


@pytest.mark.parametrize("n", [50, 30_000])
def test_the_threshold_control_starts_at_the_models_figures(n):
    random = np.random.default_rng(0)
    truth = random.choice(["ham", "spam"], n)
    decision = random.normal(size=n) * 10.0 ** random.integers(-9, 2, n) + 0.5 * (truth == "spam")
    decision[:3] = 0
    results = evaluate(truth, np.where(decision > 0, "spam", "ham"), decision, np.array(["ham", "spam"]))
    data = curves.threshold_data(results)
    for side, label in (("positive", "spam"), ("negative", "ham")):
        scores = np.array(data[side]["scores"])
        counts = np.array(data[side].get("counts", np.ones(len(scores))))
        assert (np.diff(scores) >= 0).all()
        assert counts.sum() == (truth == label).sum()
        assert counts[scores > 0].sum() == ((truth == label) & (decision > 0)).sum()
    assert len(data["positive"]["scores"]) <= curves.MOST_SCORES


def report_of(n):
    """The page of n documents with probabilities."""
    random = np.random.default_rng(0)
    truth = random.choice(["ham", "spam"], n)
    decision = random.normal(size=n) + 2 * (truth == "spam") - 1
    p = 1 / (1 + np.exp(-decision))
    results = evaluate(
        truth, np.where(decision > 0, "spam", "ham"), decision, np.array(["ham", "spam"]),
        probability=np.stack([1 - p, p], axis=1),
    )  # fmt: skip
    return html.render(Report("big", results.with_intervals(), [], random.integers(1, 5000, n), []))


@pytest.mark.slow
def test_ten_thousand_documents_are_quick_and_small():
    assert_at_most_linear(report_of, 500)
    assert len(report_of(10_000)) < 1_000_000


def test_colours_follow_contributions():
    assert levels(np.array([0.0, 1, -1, 0.5, 0.05])).tolist() == [0, 4, -4, 2, 0]
    assert levels(np.zeros(3)).tolist() == [0, 0, 0]
    assert runs("abe\u0301c", np.array([1.0, 1, -1, 1, 0])) == [("ab", 4), ("e\u0301", -4), ("c", 0)]
    assert runs("", np.zeros(0)) == []


def test_ticks_are_round_and_inside():
    assert charts.ticks(0, 1) == [0, 0.2, 0.4, 0.6, 0.8, 1]
    assert charts.ticks(-1.3, 1.1) == [-1, -0.5, 0, 0.5, 1]
    assert charts.ticks(0, 1234) == [0, 500, 1000]
    assert charts.ticks(3, 3) == [3]
    for low, high in ((110.0, 190.0), (21.0, 29.0), (0.31, 0.34), (1.0, 1.4)):
        for values in (charts.ticks(low, high), charts.log_ticks(low, high)):
            assert len(values) >= 2
            assert low <= values[0] < values[-1] <= high
    assert charts.log_ticks(30, 3000) == [50, 100, 200, 500, 1000, 2000]
    assert safe("a\x00\ud800<") == "a\ufffd\ufffd&lt;"


@pytest.mark.parametrize("truth", [["ham"], ["ham", "ham"], ["spam", "spam", "spam"], ["ham", "spam"]])
@pytest.mark.parametrize("value", [0.0, 1.0, -3.5])
def test_few_documents_are_enough_for_a_report(truth, value):
    n = len(truth)
    decision = np.full(n, value)
    predicted = np.where(decision > 0, "spam", "ham")
    p = np.tile([0.5, 0.5], (n, 1))
    for results in (
        evaluate(truth, predicted, decision, np.array(["ham", "spam"])),
        evaluate(truth, predicted, decision, np.array(["ham", "spam"]), probability=p),
        evaluate(truth, predicted, np.eye(3)[[0] * n] * value, np.array(["ham", "new", "spam"])),
        evaluate(np.arange(n), decision, decision, None),
    ):
        found = Report("few", results.with_intervals(20), [], np.full(n, 7), [])
        assert_self_contained(html.render(found))
        files.as_markdown(found)
        json.dumps(found.as_dict(), allow_nan=False)
