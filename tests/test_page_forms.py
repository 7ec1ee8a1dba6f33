"""HTML pages as a reader sees them: forms of `page_forms`, scores of mails in them, bounds, and Chromium."""

import binascii
import os
import shutil
import time
from html import escape

import pytest
from page_forms import displayed, forms, words
from refusals import refuses

from textsvm.apps.mail.filter import Filter
from textsvm.apps.mail.message import plain_letters, read_message, shortened
from textsvm.apps.mail.raw_message import RawMessage
from textsvm.readers import mime, pages, sample
from textsvm.readers.files import read_files
from textsvm.readers.pages import TOO_MUCH, page_text

HEAD = "From: Ann <ann@example.org>\nSubject: Hello\n"


@pytest.mark.parametrize(("source", "seen"), [*forms()])
def test_words_that_are_displayed(source, seen):
    assert words(page_text(source)[0]) == seen


def test_sizes_that_a_browser_enlarges_are_hidden():
    """Chromium displays relative sizes with at least 6 pixels, and other programs do not."""
    for style in ("font-size:.1em", "font-size:5%", "font:.1em Arial"):
        assert page_text(f"<p style='{style}'>ham") == ("", ["hidden text"])


def test_lines_and_cells():
    source = "<p>one\ntwo<br>three<table><tr><td>a<td>b<tr><td>c</table><pre>x\ny</pre>"
    assert page_text(source)[0] == "one two\nthree\na\tb\nc\nx\ny"


@pytest.mark.slow
def test_chromium_displays_the_same_words():
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    path = os.environ.get("TEXTSVM_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    pages = [*forms()]
    with playwright.sync_playwright() as driver:
        try:
            browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        except playwright.Error:
            pytest.skip("Chromium does not start")
        texts = [*displayed(browser, [source for source, _ in pages])]
        browser.close()
    assert [words(text) for text in texts] == [seen for _, seen in pages]


# Whole mails: `seen` is displayed, `ham` is not.


def html(source):
    return HEAD + "Content-Type: text/html; charset=utf-8\n\n" + source


def parts(kind, *bodies):
    lines = "".join(f"--b\nContent-Type: {head}\n\n{body}\n" for head, body in bodies)
    return HEAD + f"Content-Type: multipart/{kind}; boundary=b\n\n{lines}--b--\n"


UU = "begin 644 {}\n" + binascii.b2a_uu(b"seen seen").decode() + "`\nend\n"
MAILS = {
    "text after 64 KB": html("<p>seen" + "<!-- x -->" * 8000 + "<p>last"),
    "text after 400 KB of a comment": html("<p>seen<!--" + "x " * 200_000 + "--><p>last"),
    "text after 400 KB of lines in a comment": html("<p>seen<!--" + "x\n" * 200_000 + "-->\n<p>last"),
    "text after many tags": html("<p>seen" + "<b></b>" * 9000 + "<p>last"),
    "text after blanks": HEAD + "\nseen" + " " * 400_000 + "last",
    "text after empty lines": HEAD + "\nseen" + "\n" * 100_000 + "last",
    "101 parts": parts("mixed", ("text/plain", "seen"), *[("image/gif", "x")] * 120, ("text/plain", "last")),
    "500 parts": parts("mixed", ("text/plain", "seen"), *[("image/gif", "x")] * 500, ("text/plain", "last")),
    "the only part is an attachment": HEAD + "Content-Disposition: attachment\n\nseen last",
    "uuencode": HEAD + "\nlast\n" + UU.format("a.txt"),
    "alternatives": parts(
        "alternative", ("text/plain", "ham of seven other words than here"), ("text/html", "seen last")
    ),
    "nested": parts("alternative", ("text/plain", "ham"), ("multipart/related; boundary=c",
                    "--c\nContent-Type: text/html\n\nseen last\n--c--")),
    "text is the last": parts("alternative", ("text/html", "seen last"), ("text/plain", "ham")),
    "no page": parts("alternative", ("text/plain", "ham"), ("text/plain", "seen last")),
    "an attached page": parts("alternative", ("text/html", "seen last"),
                              ("text/html\nContent-Disposition: attachment", "ham")),
    "an attached page within": parts(
                    "alternative", ("text/html", "seen last"), ("multipart/mixed; boundary=c",
                    "--c\nContent-Type: text/html\nContent-Disposition: attachment\n\nham\n--c--")),
}  # fmt: skip


@pytest.mark.parametrize("name", MAILS)
def test_parts_that_are_displayed(name):
    text = read_message(MAILS[name].encode()).text.partition("\n\n")[2].replace("Hello", "")
    assert "seen" in text
    assert "last" in text
    assert "\nham" not in text


@pytest.mark.parametrize("name", MAILS)
def test_shortened_mails_are_read_alike(name):
    raw = RawMessage(MAILS[name].encode())
    assert read_message(shortened(raw)).text == read_message(raw).text


def test_features_of_parts():
    def tricks(data):
        return {line for line in read_message(data.encode()).text.splitlines() if line[:1] == "["}

    assert "[alternative that says something else]" in tricks(MAILS["alternatives"])
    same = (
        ("text/plain", "Dear Ann, the meeting is on Friday."),
        ("text/html", "Dear <b>Ann</b>, the meeting is on Friday."),
    )
    assert tricks(parts("alternative", *same)) == set()
    for name in ("text after many tags", "101 parts", "text after 400 KB of a comment"):
        assert f"[{TOO_MUCH}]" in tricks(MAILS[name])
    assert "[attachment a.gif uuencoded under 1 KB]" in tricks(HEAD + "\n" + UU.format("a.gif"))


INSIDE = (
    "\u00ad", "\u034f", "\u061c", "\u180e", "\u200b", "\u200c", "\u200d", "\u2060", "\u2063", "\ufeff",
    "\ufe0f", "\u0336", "\u20dd", "\U000e0041", "\U000e0100", "\x08", "\u2800", "\u180f", "\ufffc",
    "\u200c\u0336", "\u0489",
)  # fmt: skip


@pytest.mark.parametrize("inside", INSIDE, ids=ascii)
def test_invisible_characters_in_words(inside):
    word = inside.join("viagrx")
    text = read_message((HEAD + f"Content-Type: text/plain; charset=utf-8\n\n{word}").encode()).text
    assert text.endswith("\nviagrx")


# No form that is displayed alike moves the score.


def alike(body):
    """Pages that show this text and nothing else."""
    ham = "Dear colleagues, the minutes of our meeting and the patch for the build are on the list. " * 20
    rows = "".join(f"<p style='font-size:1.2em'>{line}" for line in body.split("\n"))
    yield "em", f"<div style='font-size:0.9em;max-height:50in'>{rows}</div>"
    yield "empty comment", f"<!-->{rows}<!-- {ham} -->"
    yield "odd comment", f"<!-- {ham} --!>{rows}"
    yield "xml", f"<xml>{rows}</xml>"
    yield "attribute", f"<p title='<!--'>{rows}<p title='-->'>"
    yield "title", f"<title>{ham}</title>{rows}"
    yield "class", f"<style>.x{{display:none}}</style>{rows}<div class=x>{ham}</div>"
    yield "outside", f"{rows}<div style='position:absolute;left:-9999px'>{ham}</div>"
    yield "no width", f"{rows}<div style='width:0;overflow:hidden'>{ham}</div>"
    yield "unclosed", f"<ul><li hidden>{ham}<li>{rows}</ul>"
    yield "after 64 KB", "<!-- x -->" * 6600 + rows


def test_forms_that_are_displayed_alike_have_alike_scores(tmp_path):
    files = read_files(sample("mail")).files
    plain = [mime.parse_message(file.data) for file in files if file.name.startswith("spam")]
    bodies = [part.content().decode("latin-1") for part in plain if part.get_content_type() == "text/plain"]
    moved = {}
    with Filter(tmp_path, create=True) as mails:
        for file in files:
            mails.learn(file.data, file.name.partition("/")[0])
        for body in map(escape, ["Win a prize, click here to order cheap pills. Act today!", *bodies[:12]]):
            page = "<html>" + "".join(f"<p>{line}" for line in body.split("\n"))
            score = mails.classify(html(page).encode()).score
            for name, source in alike(body):
                change = mails.classify(html("<html>" + source).encode()).score - score
                if abs(change) > 0.05:
                    moved[name, body[:40]] = change
    assert moved == {}


# Bounds.

HOSTILE = (
    "<div>", "<b><p>", "<p><b a={0}>", "<li><ul>", "<table><td>", "a{0} ", "<i a={0}>", "<p a{0} ", "<!--",
    "</b>", "<style>a{{b:c", "<style>{{", "<style>.a{{display:none}}", "<p style='display:none' class=a>",
    "<svg>", "&#1;",
    "<p style=\"font-size:{0}em\">", "<a href=x>", "<template>", "<select><option>", "begin 644 x\n", "<",
)  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_pages_take_bounded_time(piece):
    source = "".join(piece.format(i) for i in range(130_000 // len(piece)))
    clock = time.process_time()
    page_text(source)
    page_text("<p " + source)
    assert time.process_time() - clock < 5


@pytest.mark.parametrize(
    "text",
    [
        "\x01" * 65_000, "\u200d" * 120_000 + "\u3042", "a" + "\u200d\u200b" * 40_000,
        "a" + "\u0301" * 40_000 + "\u0323" * 40_000, ("a" + "\u0301" * 40 + "\u0323" * 40) * 1000,
    ],
)  # fmt: skip
def test_runs_of_invisible_characters_take_linear_time(text):
    clock = time.process_time()
    plain_letters(text)
    plain_letters(text + "b")
    assert time.process_time() - clock < 1


@pytest.mark.parametrize("media", [" " * 100_000 + "x", "only" + " " * 100_000 + "x", ", " * 50_000])
def test_media_of_any_length(media):
    clock = time.process_time()
    assert "seen" in page_text(f'<style media="{media}">p{{display:none}}</style><p>seen')[0]
    assert "seen" in page_text(f"<style>@media {media} {{q{{display:none}}}}</style><p>seen")[0]
    assert time.process_time() - clock < 2


@pytest.mark.parametrize(
    "source",
    [
        "<style>a{z:" + "1" * 5000 + "}</style><p>seen<p>last",
        "<style>" + "(" * 500 + ")" * 500 + "{top:0}</style><p>seen<p>last",
        "<p style='z:" + "1" * 5000 + "'>seen<p>last",
        "<p title='" + "a " * 2500 + "'>seen</p><p title='x'>last",
        '<p title="' + "it's " * 2500 + '">seen</p><p>last',
        "<p style='display:none x'>seen<p style='font-size:0 x;color:white x;visibility:hidden !ie'>last",
    ],
)
def test_style_that_a_browser_ignores_hides_nothing(source):
    assert {*page_text(source)[0].split()} == {"seen", "last"}  # the end of a long page stands twice


def test_formats_that_open_again_in_each_block():
    source = "<p>" + "".join(f"<b a={i}>" for i in range(3000)) + "</p>" + "<p>x" * 4000
    clock = time.process_time()
    assert page_text(source)[0].count("x") > 3000
    assert time.process_time() - clock < 3


def test_a_missing_parser_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "find_spec", lambda name: None)
    refuses(r"textsvm\[mail\]: pip install selectolax tinycss2", Filter, tmp_path, create=True)


@pytest.mark.parametrize("combinator", ["~", "+", " ", ">", " > "])
@pytest.mark.parametrize("k", [6, 60])
def test_hostile_selectors_take_bounded_time(combinator, k):
    """Backtracking is exponential in the length of a selector."""
    style = f"<style>q {combinator.join(['i'] * k)}{{display:none}}</style>" * 30
    clock = time.process_time()
    for page in ("<i></i>" * 2000, "<i>" * 300):
        assert "hello" in page_text(style + page + "hello")[0]
    assert time.process_time() - clock < 5
