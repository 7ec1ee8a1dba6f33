"""The content of the page of an exported model; tests/test_export_browser.py tests it in a browser."""

import base64
import hashlib
import json
import re

import pytest
from command import run
from refusals import refuses
from test_reporting import HOSTILE_LABEL

from textsvm import SVC, SVR, InputError, Spectrum, export, load, save
from textsvm.apps.export import commands
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
    labels = [HOSTILE_LABEL if label == "spam" else "<b>ham</b>" for label in LABELS]
    texts = [text.replace("cash", "<img src=x onerror=alert(1)>") for text in TEXTS]
    page = made(SVC(Spectrum((1, 4)), **CPU), labels, tmp_path, texts).read_text("utf-8")
    assert "<b>ham" not in page
    assert "<img" not in page
    assert page.count("<script") == 3  # model, facts and code


def test_tells_the_accuracy_that_the_model_recorded_and_no_path(tmp_path):
    pairs = enumerate(zip(TEXTS, LABELS, strict=True))
    rows = "\n".join(f"{text.replace(',', '')} {number},{label}" for number, (text, label) in pairs)
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
    [example] = json.loads(re.search(r'id="facts">(.*?)</script>', page)[1])["example"]
    assert {"cash", "prize"} & {*example.split()}
    assert not {"lunch", "noon", "home"} & {*example.split()}
    model = SVR(Spectrum(2), **CPU).fit(TEXTS, range(24))
    estimate = {"mae": 12.5, "n": 9, "held_out": "somewhere"}
    save(
        model, tmp_path / "numbers", info={"estimate": estimate, "classes": [{"class": "x", "documents": 7}]}
    )
    [path] = export(load(tmp_path / "numbers"), tmp_path / "numbers.html")
    page = path.read_text("utf-8")
    assert "Mean absolute error on documents held out of training (somewhere)</th><td>12.5 (9 texts)<" in page
    assert "By class</th><td>x: 7<" in page
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
        export(model.model_.with_record(info={"drift": drift}), tmp_path / "page.html", force=True)
        assert (warning in (tmp_path / "page.html").read_text("utf-8")) == warns


def test_note_about_a_large_page(tmp_path, monkeypatch, capsys):
    save(SVC(Spectrum((1, 3)), **CPU).fit(TEXTS, LABELS), tmp_path / "m")
    monkeypatch.setattr(commands, "LARGE_PAGE", 1000)
    commands.export.__wrapped__(tmp_path / "m", PrintingOptions(), output=tmp_path / "m.html")
    assert "a page of 0 MB is slow to load" in capsys.readouterr().err


def test_errors(tmp_path):
    model = SVC(Spectrum(2), **CPU).fit(TEXTS, LABELS)
    export(model, tmp_path / "page.html")
    refuses(r"page.html exists", export, model, tmp_path / "page.html")
    refuses("is not one of", export, model, tmp_path / "page.htm")


def test_title_and_lead_fit_a_phone(tmp_path):
    """Few short names are the title; the lead names as many classes as fit, and counts the others."""
    for labels, title, lead in (
        (LABELS, "ham or spam?", "between ham, spam."),
        (["a" * 100, *LABELS[1:]], "Try the model", " … and 2 others."),
        ([f"class {i % 24:02}" for i in range(24)], "Try the model", "class 07 and 16 others."),
    ):
        page = made(SVC(Spectrum(2), **CPU), labels, tmp_path).read_text("utf-8")
        assert f"<h1>{title}</h1>" in page
        assert f"<title>{title}</title>" in page
        assert lead in page
        (tmp_path / "page.html").unlink()
    export(SVC(Spectrum(2), **CPU).fit(TEXTS, LABELS), tmp_path / "page.html", title="<Spam> & ham")
    assert "<h1>&lt;Spam&gt; &amp; ham</h1>" in (tmp_path / "page.html").read_text("utf-8")


def example_of(path):
    return json.loads(re.search('id="facts">(.*?)</script>', path.read_text("utf-8"))[1])["example"]


def test_an_example_is_made_of_the_heaviest_words(tmp_path):
    """Not of a training text."""
    [example] = example_of(made(SVC(**CPU), LABELS, tmp_path))
    assert set(example.split()) & {"cash", "prize", "win", "free"}
    assert example not in TEXTS
    with pytest.raises(InputError, match="a title is for pages, not for the format bin"):
        export(SVC(**CPU).fit(TEXTS, LABELS), tmp_path / "m.bin", title="x")
    assert not (tmp_path / "m.bin").exists()
