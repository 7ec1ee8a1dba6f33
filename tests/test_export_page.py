"""The page of an exported model: its content, and in a browser (slow)."""

import base64
import hashlib
import re

import numpy as np
import pytest
from command import run
from test_report_browser import browser, visit  # noqa: F401 (fixtures)
from test_reporting import HOSTILE

from textsvm import SVC, SVR, CalibratedSVC, InputError, MultilabelSVC, OneClassSVM, Spectrum, export, save
from textsvm.apps.export import commands
from textsvm.apps.export.binary import pack
from textsvm.apps.export.files import page_of
from textsvm.apps.export.plain import plain_model
from textsvm.cli.options import PrintingOptions

CPU = {"device": "cpu"}
TEXTS = [
    "win cash now",
    "free prize, call now",
    "lunch at noon",
    "see you at home",
    "cash prize",
    "see you soon",
]
TEXTS = TEXTS * 4
LABELS = ["spam", "spam", "ham", "ham", "spam", "ham"] * 4


def made(model, labels, tmp_path, texts=TEXTS):
    path = tmp_path / "page.html"
    export(model.fit(texts, labels), path)
    return path


def test_allows_its_own_script_alone(tmp_path):
    page = made(SVC(Spectrum((1, 3)), **CPU), LABELS, tmp_path).read_text("utf-8")
    [script] = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    scripts = f"script-src 'sha256-{digest}' 'wasm-unsafe-eval'; base-uri"
    assert f"default-src 'none'; style-src 'unsafe-inline'; {scripts}" in page
    assert not re.search(r"https?://(?!example)", page.replace("http://www.w3.org/", ""))
    assert "export class" not in script


def test_hostile_labels_and_features_are_text(tmp_path):
    labels = [HOSTILE if label == "spam" else "<b>ham</b>" for label in LABELS]
    texts = [text.replace("cash", "<img src=x onerror=alert(1)>") for text in TEXTS]
    page = made(SVC(Spectrum((1, 4)), **CPU), labels, tmp_path, texts).read_text("utf-8")
    assert "<b>ham" not in page
    assert "<img" not in page
    assert page.count("<script") == 3  # model, facts and code


def test_tells_the_accuracy_that_the_model_recorded_and_no_path(tmp_path):
    rows = "\n".join(f"{text.replace(',', '')},{label}" for text, label in zip(TEXTS, LABELS, strict=True))
    (tmp_path / "secret.csv").write_text("text,label\n" + rows + "\n", "utf-8")
    assert run("train", "secret.csv", "--holdout", "0.25", "-o", "m.textsvm", cwd=tmp_path).returncode == 0
    assert run("export", "m.textsvm", "--to", "page", "-o", "m.html", cwd=tmp_path).returncode == 0
    page = (tmp_path / "m.html").read_text("utf-8")
    assert "Accuracy on held-out texts" in page
    assert "Training texts</th><td>18" in page
    assert "secret" not in page
    assert run("train", "secret.csv", "-o", "m.textsvm", cwd=tmp_path).returncode == 0
    assert run("export", "m.textsvm", "-o", "other.html", cwd=tmp_path).returncode == 0
    page = (tmp_path / "other.html").read_text("utf-8")
    assert "Accuracy on documents held out of training (3-fold cross-validation)" in page
    assert "not recorded" not in page
    assert b"held_out=3-fold cross-validation" in run("model", "m.textsvm", cwd=tmp_path).stdout


def test_promises_a_warning_only_where_the_page_has_one(tmp_path):
    warning = "warns if many strings of 4 characters are new"
    for kernel, drift, warns in (
        (Spectrum((3, 4)), {"features": 0.1}, True),
        (Spectrum((1, 3)), {"features": 0.1}, False),
        (Spectrum(4, tokens="words"), {"features": 0.1}, False),
        (Spectrum(4), {}, False),
    ):
        model = SVC(kernel, **CPU).fit([f"{text} or not" for text in TEXTS], LABELS)
        model.info_ = {"drift": drift}
        export(model, tmp_path / "page.html", force=True)
        assert (warning in (tmp_path / "page.html").read_text("utf-8")) == warns


def test_note_about_a_large_page(tmp_path, monkeypatch, capsys):
    save(SVC(Spectrum((1, 3)), **CPU).fit(TEXTS, LABELS), tmp_path / "m")
    monkeypatch.setattr(commands, "LARGE_PAGE", 1000)
    commands.export.__wrapped__(tmp_path / "m", PrintingOptions(), output=tmp_path / "m.html")
    assert "--max-size" in capsys.readouterr().err


def test_demo(tmp_path):
    done = run("demo", "--page", "demo.html", cwd=tmp_path)
    assert done.returncode == 0
    assert b"demo.html" in done.stdout
    assert (tmp_path / "demo.html").stat().st_size > 100_000
    again = run("demo", "--page", "demo.html", cwd=tmp_path)
    assert again.returncode == 2
    assert b"demo.html exists" in again.stderr


def test_errors(tmp_path):
    model = SVC(Spectrum(2), **CPU).fit(TEXTS, LABELS)
    export(model, tmp_path / "page.html")
    with pytest.raises(InputError, match=r"page.html exists"):
        export(model, tmp_path / "page.html")
    with pytest.raises(InputError, match="is not one of"):
        export(model, tmp_path / "page.htm")


MODELS = [
    (SVC(**CPU), LABELS),
    (CalibratedSVC(SVC(Spectrum((1, 4)), **CPU)), LABELS),
    (SVC(**CPU), ["spam", "other", "ham"] * 8),
    (MultilabelSVC(Spectrum((1, 4)), **CPU), [("a", "b"), ("b",), ("a",)] * 8),
    (SVR(Spectrum((1, 4)), **CPU), np.arange(24.0)),
    (OneClassSVM(Spectrum((1, 4)), **CPU), None),
]


@pytest.mark.slow
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


@pytest.mark.slow
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
    (tmp_path / "page.html").write_bytes(page_of(plain, pack(plain)))
    page = visit(tmp_path / "page.html")
    page.locator("#text").fill("cash at noon")
    page.wait_for_function("document.querySelector('#answer strong')")
    return page


THREE = ["spam", "other", "ham"] * 8


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_page_explains_the_label_with_the_largest_margin(tmp_path, visit):  # noqa: F811
    model = MultilabelSVC(Spectrum((1, 3)))
    made(model, [("a", "b"), ("b",), ("a",)] * 8, tmp_path)
    model.thresholds_ = np.array([-50.0, 0.0])
    export(model, tmp_path / "page.html", force=True)
    page = visit(tmp_path / "page.html")
    page.locator("#text").fill("see you at home")
    page.wait_for_function("document.querySelector('#answer strong')")
    assert page.locator("#side").inner_text() == "a"


@pytest.mark.slow
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
