"""Exported models in a browser: the page, and the JavaScript module with workers.

Needs Playwright and a Chromium, as tests/test_report_browser.py.
"""

import re
from dataclasses import replace

import numpy as np
import pytest
from encoders import static_folder, topics
from test_export import fitted
from test_export_characters import unigram_model, unigram_texts, wrong_unigrams
from test_export_page import CPU, LABELS, TEXTS, made
from test_report_browser import browser, visit  # noqa: F401 (fixtures)
from test_reporting import HOSTILE

import textsvm
from textsvm import SVC, SVR, CalibratedSVC, Encoder, MultilabelSVC, On, OneClassSVM, Spectrum, Sum, export
from textsvm.apps.export.binary import pack
from textsvm.apps.export.files import page_of
from textsvm.apps.export.plain import plain_model

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:the solver stopped")]

MODELS = [
    (SVC(**CPU), LABELS),
    (CalibratedSVC(SVC(Spectrum((1, 4)), **CPU)), LABELS),
    (SVC(**CPU), ["spam", "other", "ham"] * 8),
    (MultilabelSVC(Spectrum((1, 4)), **CPU), [("a", "b"), ("b",), ("a",)] * 8),
    (SVR(Spectrum((1, 4)), **CPU), np.arange(24.0)),
    (OneClassSVM(Spectrum((1, 4)), **CPU), None),
]


@pytest.mark.parametrize(("model", "labels"), MODELS, ids=lambda each: type(each).__name__)
def test_answers_while_typing(model, labels, tmp_path, visit):  # noqa: F811
    page = visit(made(model, labels, tmp_path))
    for text in ("free cash now", "see you at noon", "x", HOSTILE):
        page.locator("#text").fill(text)
        page.evaluate("new Promise(requestAnimationFrame)")
        typed = page.locator("#text").input_value()  # without a lone surrogate
        predicted = model.predict([typed])[0]
        said = page.locator("#answer strong").inner_text()
        if isinstance(model, SVR):
            assert float(said) == pytest.approx(predicted, rel=1e-3)
        elif isinstance(model, OneClassSVM):
            assert said == ("of the known kind" if predicted == 1 else "new")
        elif isinstance(model, MultilabelSVC):
            assert said == (", ".join(predicted) or "no label")
        else:
            assert said == predicted
        assert page.locator("#coloured").text_content() == typed
    page.locator("#text").fill("")
    page.evaluate("new Promise(requestAnimationFrame)")
    assert page.locator("#answer strong").count() == 0
    assert page.evaluate("window.owned") is None


def test_a_static_encoder(tmp_path, visit):  # noqa: F811
    pytest.importorskip("tokenizers")
    folder = static_folder(tmp_path / "tiny")
    model = SVC(Spectrum((1, 3)) + Encoder(str(folder)), **CPU).fit(*topics(60))
    [path] = export(model, tmp_path / "meaning.html")
    page = visit(path)
    for text in ("bread and soup", "the unseen truck!", "日本 Drive", HOSTILE):
        page.locator("#text").fill(text)
        page.evaluate("new Promise(requestAnimationFrame)")
        typed = page.locator("#text").input_value()
        assert page.locator("#answer strong").inner_text() == model.predict([typed])[0]
        assert page.locator("#coloured").text_content() == typed


def test_keyboard_widths_and_time(tmp_path, visit):  # noqa: F811
    model = CalibratedSVC(SVC(**CPU))
    path = made(model, ["spam", "other", "ham"] * 8, tmp_path)
    for width, scheme in ((1120, "light"), (1120, "dark"), (390, "light"), (390, "dark")):
        page = visit(path, width, color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.wait_for_function("document.activeElement.id === 'text'")
        page.keyboard.type("free cash")
        page.evaluate("new Promise(requestAnimationFrame)")
        assert page.locator("#answer strong").inner_text() == model.predict(["free cash"])[0]
        for _ in range(2):  # past the example
            page.keyboard.press("Tab")
        page.keyboard.press("ArrowDown")  # the class that is explained
        assert page.locator("#side").inner_text() == page.locator("#class option").nth(1).inner_text()
    assert page.get_by_role("status").inner_text().startswith(model.predict(["free cash"])[0])
    assert page.get_by_label("Text", exact=True).count() == 1
    milliseconds = page.evaluate(
        """() => {
          const text = document.getElementById("text"), times = [];
          window.requestAnimationFrame = (work) => work();
          text.value = "free cash prize at noon, see you soon ".repeat(60).slice(0, 2000);
          for (let i = 0; i < 41; i++) {
            text.value = text.value.slice(1) + "abc "[i % 4];
            const start = performance.now();
            text.dispatchEvent(new Event("input"));
            document.body.offsetHeight;
            times.push(performance.now() - start);
          }
          return times.sort((a, b) => a - b)[20];
        }"""
    )
    assert milliseconds < 16


def shown(model, labels, visit, tmp_path, calibration):  # noqa: F811
    """The page of a calibrated model with these sigmoid functions."""
    plain = plain_model(model.fit(TEXTS, labels))
    plain.calibration.clear()
    plain.calibration.update(calibration)
    (tmp_path / "page.html").write_bytes(b"".join(page_of(plain, pack(plain))))
    page = visit(tmp_path / "page.html")
    page.locator("#text").fill("cash at noon")
    page.wait_for_function("document.querySelector('#answer strong')")
    return page


THREE = ["spam", "other", "ham"] * 8


def test_page_explains_its_answer(tmp_path, visit):  # noqa: F811
    model = CalibratedSVC(SVC(Spectrum((1, 3))), cv=3)
    for likely in range(3):  # whatever the decision values are
        maps = {"a": np.zeros(3), "b": np.where(np.arange(3) == likely, -3.0, 3.0)}
        page = shown(model, THREE, visit, tmp_path, maps)
        assert page.locator("#answer strong").inner_text() == model.classes_[likely]
        assert page.locator("#side").inner_text() == model.classes_[likely]
    for sign in (-9.0, 9.0):
        page = shown(
            model, THREE[::3] + ["ham"] * 16, visit, tmp_path, {"a": np.zeros(1), "b": np.array([sign])}
        )
        assert page.locator("#answer strong").inner_text() == ("spam" if sign < 0 else "ham")
        assert page.locator("#side").inner_text() == ("spam" if sign < 0 else "ham")


def test_page_shows_the_likeliest_classes_of_an_unsure_text(tmp_path, visit):  # noqa: F811
    labels = [f"class {i % 6}" for i in range(24)]
    model = CalibratedSVC(SVC(Spectrum((1, 3))), cv=3, reject=0.9)
    page = shown(model, labels, visit, tmp_path, {"a": np.zeros(6), "b": np.array([3.0, 2, 1, 0, -1, -0.5])})
    assert page.locator("#answer strong").inner_text() == "unsure"
    assert re.findall(r"class \d", page.locator("#answer span").inner_text()) == [
        "class 4",
        "class 5",
        "class 3",
    ]


def test_page_explains_the_label_with_the_largest_margin(tmp_path, visit):  # noqa: F811
    model = MultilabelSVC(Spectrum((1, 3)))
    made(model, [("a", "b"), ("b",), ("a",)] * 8, tmp_path)
    rule = replace(model.model_.rule, thresholds=np.array([-50.0, 0.0]))
    export(replace(model.model_, rule=rule), tmp_path / "page.html", force=True)
    page = visit(tmp_path / "page.html")
    page.locator("#text").fill("see you at home")
    page.wait_for_function("document.querySelector('#answer strong')")
    assert page.locator("#side").inner_text() == "a"


def test_page_decides_once_for_a_key(tmp_path, visit):  # noqa: F811
    page = visit(made(SVC(Spectrum((1, 3))), THREE, tmp_path))
    page.evaluate(
        """() => {
          const { decide } = Model.prototype;
          window.n = 0;
          Model.prototype.decide = function (text) { window.n++; return decide.call(this, text); };
        }"""
    )
    page.locator("#text").fill("cash")
    page.wait_for_function("document.querySelector('#answer strong')")
    assert page.evaluate("window.n") == 1


@pytest.mark.parametrize("worker", [False, True])
@pytest.mark.parametrize("allowed", [True, False])
def test_javascript_in_a_browser(worker, allowed, tmp_path, browser):  # noqa: F811
    textsvm.export(fitted("default"), tmp_path, to="js", force=True)
    policy = "default-src 'self'; script-src 'self'" + " 'wasm-unsafe-eval'" * allowed
    (tmp_path / "index.html").write_text('<script type="module" src="main.mjs"></script>')
    load = (
        'import { Model } from "./textsvm.mjs";\nlet said;\n'
        'const data = await (await fetch("model.bin")).arrayBuffer();\n'
        'try { said = new Model(data).predict("win cash"); } catch (error) { said = error.name; }\n'
    )
    (tmp_path / "worker.mjs").write_text(load + "postMessage(said);")
    show = '(said) => document.body.appendChild(document.createElement("p")).append(said)'
    start = f'new Worker("worker.mjs", {{ type: "module" }}).onmessage = ({{ data }}) => ({show})(data);'
    (tmp_path / "main.mjs").write_text(start if worker else load + f"({show})(said);")
    types = {".html": "text/html", ".mjs": "text/javascript", ".bin": "application/octet-stream"}
    context = browser.new_context()

    def answer(route):
        path = tmp_path / route.request.url.rpartition("/")[2]
        headers = {"Content-Security-Policy": policy}
        route.fulfill(body=path.read_bytes(), content_type=types[path.suffix], headers=headers)

    context.route("http://localhost/*", answer)
    page = context.new_page()
    page.goto("http://localhost/index.html")
    said = page.locator("p").inner_text()
    assert said == (fitted("default").predict(["win cash"])[0] if allowed else "CompileError")
    context.close()


def test_page_of_columns(tmp_path, visit):  # noqa: F811
    """A field for each column; the colours are those of the texts, line by line."""
    table = {"title": TEXTS, "body": TEXTS[5:] + TEXTS[:5]}
    kernel = Sum([On("title", Spectrum((1, 4))), On(["title", "body"], Spectrum((1, 3)))], weights=[0.4, 0.6])
    model = SVC(Sum([kernel, On("body", Spectrum((1, 4)))]), **CPU).fit(table, LABELS)
    export(model, tmp_path / "page.html")
    page = visit(tmp_path / "page.html", 390)
    assert [page.get_by_label(name, exact=True).count() for name in table] == [1, 1]
    for title, body in (("win cash", "see you"), ("", "lunch at noon"), ("see \U0001f600 you", "cash")):
        page.locator("textarea").nth(0).fill(title)
        page.locator("textarea").nth(1).fill(body)
        page.evaluate("new Promise(requestAnimationFrame)")
        [predicted] = model.predict({"title": [title], "body": [body]})
        assert page.locator("#answer strong").inner_text() == predicted
        assert page.locator("#coloured").text_content() == f"{title}\n{body}"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("button", name="Example").click()
    assert page.locator("textarea").first.input_value()
    assert page.locator("#answer strong").count() == 1


def test_page_of_a_column_that_was_chosen(tmp_path, visit):  # noqa: F811
    """The default weighs columns: of a column that says nothing there is no field."""
    table = {"title": TEXTS, "body": TEXTS[5:] + TEXTS[:5]}
    page = visit(made(SVC(**CPU), LABELS, tmp_path, table))
    assert [page.get_by_label(name, exact=True).count() for name in table] == [1, 0]
    page.get_by_label("title").fill("win cash")
    assert page.locator("#answer strong").inner_text() == "spam"


@pytest.mark.parametrize("height", [640, 844])
def test_answer_is_above_the_fold_of_a_phone(height, tmp_path, browser):  # noqa: F811
    """Also with many classes, of long names."""
    labels = [f"a class with a rather long name, number {i % 12}" for i in range(24)]
    page = browser.new_page(viewport={"width": 360, "height": height})
    page.goto(made(SVC(**CPU), labels, tmp_path).as_uri())
    page.get_by_role("button", name="Example").click()
    page.wait_for_function("document.querySelector('#answer strong')")
    box = page.locator("#answer").bounding_box()
    assert box["y"] + box["height"] <= height
    assert page.locator("h1").bounding_box()["height"] < 40  # a line
    page.close()


def test_page_lists_the_heaviest_features(tmp_path, visit):  # noqa: F811
    """Of the first classes, with the names and weights of the model, as text."""
    model = SVC(Spectrum((1, 4)), **CPU)
    labels = [f"<b>class</b> {i % 36}" for i in range(72)]
    page = visit(made(model, labels, tmp_path, [f"{text} {i % 36}" for i, text in enumerate(TEXTS * 3)]))
    tops = plain_model(model).top
    assert page.locator("#grid h2").all_inner_texts() == [str(top.label) for top in tops[:12]]
    assert "The first 12 of 36 classes." in page.locator("#features").inner_text()
    expected = [f"{f.text.replace(' ', '␣')} {f.weight:.2f}" for f in tops[0].features[:12]]
    assert page.locator("#grid section").first.locator("li").all_inner_texts() == expected


def test_page_of_a_unigram_tokenizer(tmp_path, visit):  # noqa: F811
    encoder, plain, _ = unigram_model("words")
    (tmp_path / "page.html").write_bytes(b"".join(page_of(plain, pack(plain))))
    page = visit(tmp_path / "page.html")
    texts = unigram_texts(100)
    values = page.evaluate(
        """(texts) => {
          const data = document.getElementById("model").textContent;
          const model = new Model(Uint8Array.from(atob(data), (c) => c.charCodeAt(0)));
          return texts.map((text) => [...model.decide(text)]);
        }""",
        texts,
    )
    assert not wrong_unigrams(encoder, texts, values)
