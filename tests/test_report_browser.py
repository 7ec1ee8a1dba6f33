"""A report in a real browser: no console errors, working controls, hostile documents, light and dark.

Needs Playwright for Python and a Chromium: the one Playwright installs (`playwright install chromium`), one
on the PATH, or the one that TEXTSVM_CHROMIUM names.
"""

import json
import os
import shutil

import hostile_pages
import numpy as np
import pytest
from test_reporting import HOSTILE, corpus, made, of_classes
from test_reporting_sections import as_report, everything, numbers

from textsvm import SVC, CalibratedSVC, Spectrum
from textsvm.evaluation.comparison import side_by_side
from textsvm.evaluation.judge import judge
from textsvm.reporting.files import write
from textsvm.reporting.report import make_report

pytestmark = pytest.mark.slow

playwright = pytest.importorskip("playwright.sync_api", reason="no browser test: Playwright is not installed")
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")
def browser():
    found = os.environ.get("TEXTSVM_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    with playwright.sync_playwright() as driver:
        try:
            started = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        except playwright.Error as error:
            pytest.skip(f"no browser test: Chromium does not start ({str(error).splitlines()[0]})")
        yield started
        started.close()


@pytest.fixture
def visit(browser):
    """Open a file; whatever the page complains of, asks for or pops up fails the test."""
    complaints, pages = [], []

    def open_page(path, width=1120, **options):
        page = browser.new_page(viewport={"width": width, "height": 800}, **options)
        pages.append(page)
        page.on("console", lambda message: complaints.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: complaints.append(request.url) if request.url != address else None)
        address = path.as_uri()
        page.goto(address)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert complaints == []


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Reports of two classes, of hostile documents, with probabilities, and of three classes."""
    folder = tmp_path_factory.mktemp("reports")
    texts, labels = corpus(("ham", "spam"))
    names = [f"document {i}" for i in range(200)]
    calibrated = CalibratedSVC(SVC(Spectrum(3), device="cpu"), cv=3).fit(texts[:40], labels[:40])
    results = judge(calibrated, texts[40:], labels[40:])
    of_numbers = {"one": numbers(1.0), "other": numbers(2.0)}
    found = {
        "binary": made(title="A filter"),
        "hostile": made(title=HOSTILE, hostile=range(20)),
        "calibrated": make_report(calibrated.model_, results, texts[40:], names),
        "three": made(("a", "b", "c")),
        "twenty": of_classes(20),
        "right": of_classes(20, wrong=1000),
        "parts": everything(),
        "hostile parts": everything(HOSTILE),
        "numbers": as_report(numbers(1.0), beside=side_by_side(of_numbers, None, names)),
    }
    for name, each in found.items():
        write(each, folder / f"{name}.html")
    return folder, found


def slide(page, name, value):
    page.evaluate(
        "([name, value]) => { const s = document.getElementById(name); s.value = value; "
        "s.dispatchEvent(new Event('input')); }",
        [name, value],
    )


def shown(page, name):
    return page.inner_text(f"#now-{name}")


@pytest.mark.parametrize(
    "name", ["binary", "hostile", "calibrated", "three", "parts", "hostile parts", "numbers"]
)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_renders_without_complaints(visit, reports, name, scheme, tmp_path):
    page = visit(reports[0] / f"{name}.html", color_scheme=scheme)
    for chart in page.query_selector_all("svg"):
        box = chart.bounding_box()
        assert box["width"] > 300
        assert 150 < box["height"] < 600  # a narrow chart by itself would be blown up
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, background[4:-1].split(","))) / 3 > 200) == (scheme == "light")
    picture = tmp_path / "page.png"
    page.screenshot(path=picture, full_page=True)
    assert picture.stat().st_size > 20_000


@pytest.mark.parametrize("name", ["binary", "calibrated"])
def test_threshold_control(visit, reports, name):
    folder, found = reports
    results = found[name].results
    page = visit(folder / f"{name}.html")
    assert shown(page, "precision") == f"{100 * results.precision:.2f} %"
    assert shown(page, "recall") == f"{100 * results.recall:.2f} %"
    score = results.decision if results.probability is None else results.probability
    spam = results.truth == "spam"
    for threshold, band in ((0.35, 0.0), (0.6, 0.2), (float(score.min()) - 1, 0.0)):
        slide(page, "band", band)
        slide(page, "threshold", threshold)
        bounds = [float(page.get_attribute("#threshold", side)) for side in ("min", "max")]
        threshold = float(np.clip(threshold, *bounds))
        said, unsure = score > threshold + band, (score > threshold - band) & (score <= threshold + band)
        assert shown(page, "found") == str((said & spam).sum())
        assert shown(page, "missed") == str((~said & spam).sum())
        assert shown(page, "alarms") == str((said & ~spam).sum())
        assert shown(page, "recall") == f"{100 * (said & spam).sum() / spam.sum():.2f} %"
        assert shown(page, "unsure") == f"{100 * unsure.mean():.2f} %"
        precision = f"{100 * (said & spam).sum() / said.sum():.2f} %" if said.any() else "–"
        assert shown(page, "precision") == precision
    assert shown(page, "recall") == "100.00 %"
    # The point on the ROC curve has gone to the upper right corner.
    assert float(page.get_attribute("#roc-dot", "cx")) > 400
    assert float(page.get_attribute("#roc-dot", "cy")) < 40


def cost_at(results, threshold, missed, alarm):
    """Of a document, at a threshold of the scores that the page has."""
    score = results.decision if results.probability is None else results.probability
    spam, said = results.truth == results.labels[1], score > threshold
    return (missed * (spam & ~said).sum() + alarm * (said & ~spam).sum()) / results.n


@pytest.mark.parametrize("name", ["calibrated", "parts"])
def test_the_reader_says_what_errors_cost(visit, reports, name):
    folder, found = reports
    results = found[name].results
    page = visit(folder / f"{name}.html")
    table = page.inner_text(".confusion")
    assert shown(page, "cost") == "–"
    for missed, alarm in ((1, 10), (10, 1), (1, 1), (0, 1)):
        page.fill("#cost-missed", str(missed))
        page.fill("#cost-alarm", str(alarm))
        low, high = (float(page.get_attribute("#threshold", side)) for side in ("min", "max"))
        every = [cost_at(results, t, missed, alarm) for t in np.linspace(low, high, 5001)]
        threshold = float(page.input_value("#threshold"))
        assert cost_at(results, threshold, missed, alarm) <= min(every) + 1e-12
        assert float(shown(page, "cost")) == pytest.approx(min(every), rel=0.006)
        assert "least cost" in page.inner_text("#least")
        score = results.decision if results.probability is None else results.probability
        spam, said = results.truth == results.labels[1], score > threshold
        counts = [(~spam & ~said).sum(), (~spam & said).sum(), (spam & ~said).sum(), (spam & said).sum()]
        assert page.locator(".confusion td b").all_inner_texts() == [str(count) for count in counts]
        assert page.get_attribute("#cost-line", "d").count("L") == 200
        across = float(page.get_attribute("#roc-dot", "cx"))
        assert across == pytest.approx(52 + 370 * counts[1] / (~spam).sum(), abs=0.01)
    for nonsense in ("-1", ""):
        page.fill("#cost-missed", nonsense)
        assert page.inner_text("#least") == ""
        assert shown(page, "cost") == "–"
    slide(page, "threshold", 0.5 if results.probability is not None else 0.0)
    assert page.inner_text(".confusion") == table


@pytest.mark.parametrize("name", ["hostile", "hostile parts"])
def test_a_hostile_document_does_nothing(visit, reports, name):
    page = visit(reports[0] / f"{name}.html")
    assert page.evaluate("document.scripts.length") == 2
    assert page.evaluate("document.images.length") == 0
    if name == "hostile":
        assert page.title().startswith("</div></script><script>")
        assert "onerror=alert(1)" in page.inner_text("main")


def test_the_policy_stops_a_script_that_gets_in(browser, reports, tmp_path):
    text = (reports[0] / "binary.html").read_text("utf-8")
    attack = '<img src="x" onerror="document.title=1"><script>document.title = "owned"</script></main>'
    (tmp_path / "attacked.html").write_text(text.replace("</main>", attack), "utf-8")
    page = browser.new_page()
    refused = []
    page.on("console", lambda message: refused.append(message.text))
    page.goto((tmp_path / "attacked.html").as_uri())
    assert page.title() == "A filter"
    assert any("Content Security Policy" in message for message in refused)
    page.close()


def test_light_and_dark_at_a_button(visit, reports):
    page = visit(reports[0] / "binary.html", color_scheme="light")
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    assert page.inner_text("#theme") == "dark"
    page.click("#theme")
    assert page.evaluate(colour) != light
    assert page.inner_text("#theme") == "light"
    page.click("#theme")
    assert page.evaluate(colour) == light


@pytest.mark.parametrize("name", ["binary", "three", "parts", "twenty"])
def test_fits_a_phone(visit, reports, name):
    page = visit(reports[0] / f"{name}.html", width=360)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_twenty_classes_fit_beside_no_empty_space(visit, reports):
    for width, scrolls in ((1120, False), (360, True)):
        page = visit(reports[0] / "twenty.html", width=width)
        own, room = page.evaluate(
            "(() => { const s = document.querySelector('.full .scroll');"
            " return [s.scrollWidth, s.clientWidth]; })()"
        )
        assert (own > room) == scrolls
        assert len(page.query_selector_all(".full thead th")) == 21
    assert visit(reports[0] / "twenty.html", java_script_enabled=False).is_hidden("select >> nth=0")


def test_every_class_has_curves(visit, reports):
    page = visit(reports[0] / "twenty.html")
    for number in range(2):
        section = page.locator("section", has=page.locator("select")).nth(number)
        assert len([each for each in section.locator("g[data-curve]").all() if each.is_visible()]) == 6
        for label in ("class 19", "class 00"):
            section.locator("select").select_option(label=label)
            assert [each[:8] for each in section.locator("li:not(.off)").all_inner_texts()] == [label]
            assert section.locator("g[data-curve]:not(.off)").count() == 1
        section.locator("select").select_option("all")
        assert section.locator("g[data-curve]:not(.off)").count() == 20
        section.locator("select").select_option("first")
        assert section.locator("g[data-curve]:not(.off)").count() == 6


@pytest.mark.parametrize("name", ["binary", "calibrated", "three", "right"])
def test_tiles_of_a_row_are_level(visit, reports, name):
    """An interval that ends at 100 % took two lines, and a figure without one none."""
    for tiles in visit(reports[0] / f"{name}.html").locator("dl.tiles").all():
        tops = {}
        for tile in tiles.locator("dd").all():
            box = tile.bounding_box()
            tops.setdefault(round(box["y"] / 40), set()).add((round(box["y"]), round(box["height"])))
        assert all(len(found) == 1 for found in tops.values()), tops


def test_without_script_the_figures_are_there(visit, reports):
    folder, found = reports
    page = visit(folder / "binary.html", java_script_enabled=False)
    assert page.is_hidden("#controls")
    assert shown(page, "precision") == f"{100 * found['binary'].results.precision:.2f} %"
    assert page.is_visible("svg >> nth=0")


def test_filters_of_doubtful_labels(visit, tmp_path):
    from textsvm.reporting.pages import Review, review_page
    from textsvm.selection.doubts import Doubt

    labels = [HOSTILE, "ham", "spam"]
    found = [
        Doubt(0, HOSTILE, "ham", 0.9, [f"because {HOSTILE}"], 1, 0.5, ("label",)),
        Doubt(1, "ham", "spam", 0.8, ["nearly the same text"], 2, 0.99, ("label", "copy")),
        Doubt(2, "spam", "spam", 0.1, ["resembles no other text"], 0, 0.0, ("outlier",)),
    ]
    texts = [HOSTILE, "An apple a day", "A pear"]
    path = tmp_path / "doubts.html"
    path.write_text(
        review_page(Review(HOSTILE, found, ["a", HOSTILE, "c"], labels, texts.__getitem__)), "utf-8"
    )
    page = visit(path)

    def left():
        return page.locator("article:visible").count()

    assert left() == 3
    page.select_option("#filter-kind", "copy")
    assert left() == 1
    assert page.inner_text("#filter-shown") == "1 of 3 shown"
    page.select_option("#filter-kind", "")
    page.select_option("#filter-label", label="spam")
    assert left() == 1
    page.select_option("#filter-label", "")
    page.fill("#filter-words", "APPLE")
    assert left() == 2  # beside the first, and the second itself
    assert page.evaluate("document.scripts.length") == 2
    assert page.evaluate("document.images.length") == 0
    page.fill("#filter-words", "")
    page.evaluate("document.activeElement.blur()")
    for key in ("ArrowDown", "ArrowRight", "ArrowLeft", "u"):
        page.keyboard.press(key)
    assert page.inner_text("#decided") == "3 decided"
    with page.expect_download() as download:
        page.click("#save-decisions")
    lines = [json.loads(line) for line in download.value.path().read_text("utf-8").splitlines()]
    assert [line["decision"] for line in lines] == ["change", "keep", "unsure"]
    assert [line["label"] for line in lines] == ["ham", "ham", "spam"]
    assert [line["id"] for line in lines][::2] == ["a", "c"]


@pytest.fixture(scope="module")
def hostile_files(tmp_path_factory):
    """Every page of payloads, and pictures, as files."""
    folder = tmp_path_factory.mktemp("payloads")
    for name, make in hostile_pages.PAGES.items():
        page = make(len(hostile_pages.ALL))
        (folder / f"{name}{'.svg' if page.startswith('<svg') else '.html'}").write_text(page, "utf-8")
    return sorted(folder.iterdir())


#: Every element gets what handlers wait for.
PROVOKE = """() => {
  const events = ["click", "mouseover", "focus", "input", "change", "toggle", "load", "error", "keydown"];
  const every = [...document.querySelectorAll("*")];
  for (const each of every) for (const name of events) each.dispatchEvent(new Event(name));
  return every.length;
}"""


def test_two_hundred_payloads_do_nothing(visit, hostile_files):
    """No script of theirs runs and nothing is asked for, and that not by the grace of the page's policy."""
    for path in hostile_files:
        page = visit(path, bypass_csp=True)
        assert page.evaluate(PROVOKE) > 20
        page.wait_for_timeout(50)
        assert page.evaluate("window.owned") is None, path.name
        assert page.url == path.as_uri()
        odd = "script[src],[onload],[onerror],[href],img,iframe,object,embed,base,form,a,link,math,xss"
        assert page.evaluate("odd => document.querySelectorAll(odd).length", odd) == 0
        assert page.evaluate("window.getComputedStyle(document.documentElement).position") == "static"
