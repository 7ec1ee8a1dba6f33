"""Every place of a report where something of documents, labels or files is shown: only shown, and watched."""

import importlib
import re
import sys
from html import unescape
from pathlib import Path

import hostile_pages
import pytest
from test_reporting import Page

from textsvm import reporting

FOLDER = Path(reporting.__file__).parent
#: Modules that write HTML, each after those it imports from.
MODULES = ("charts", "logo", "curves", "threshold", "mistakes", "html", "review", "comparison")
SINK = re.compile(r"(?<!def )\b(_safe|safe|escape)\(")
FORBIDDEN = {
    "img",
    "iframe",
    "object",
    "embed",
    "base",
    "link",
    "form",
    "a",
    "math",
    "video",
    "audio",
    "template",
}


def tags(page):
    """The tags of a page in order, with the names of their attributes."""
    return [(tag, tuple(attributes)) for tag, attributes in Page(page).tags]


@pytest.fixture(scope="module")
def whole():
    return hostile_pages.pages()


def test_there_are_enough_payloads():
    assert len(hostile_pages.ALL) >= 200


def test_payloads_make_no_tag_on_any_page(whole):
    for name, page in whole.items():
        parsed = Page(page)
        for tag, attributes in parsed.tags:
            assert tag not in FORBIDDEN, (name, tag)
            assert not [each for each in attributes if each.startswith("on")], (name, tag, attributes)
            assert not attributes.keys() & {"src", "href", "action", "srcdoc", "formaction", "background"}
        assert parsed.count("script") <= 2
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", unescape(page)), name
        page.encode()
        assert "window.owned=1" in "".join(parsed.words), name


def test_every_escape_is_watched(whole):
    """Without any one of them a page has other tags, or is not whole."""
    kept = {name: dict(vars(sys.modules[f"textsvm.reporting.{name}"])) for name in MODULES}
    before, off, called = {name: tags(page) for name, page in whole.items()}, [None], set()

    def sink(number, escaped, value):
        called.add(number)
        return str(value) if number == off[0] else escaped(value)

    sinks = []
    try:
        for name in MODULES:
            module = importlib.import_module(f"textsvm.reporting.{name}")
            source = (FOLDER / f"{name}.py").read_text("utf-8")

            def replaced(match, name=name):
                sinks.append(f"{name}: {match[0]}")
                return f"_sink({len(sinks) - 1}, {match[1]}, "

            vars(module)["_sink"] = sink
            exec(compile(SINK.sub(replaced, source), str(FOLDER / f"{name}.py"), "exec"), vars(module))
        hostile_pages.pages()
        assert not [each for number, each in enumerate(sinks) if number not in called], "never reached"
        unwatched = []
        for off[0], what in enumerate(sinks):
            if not changes(before):
                unwatched.append((off[0], what))
        assert not unwatched
    finally:
        for name, names in kept.items():
            module = sys.modules[f"textsvm.reporting.{name}"]
            vars(module).clear()
            vars(module).update(names)


def changes(before):
    """Whether a page is another one now, as far as its tags tell."""
    try:
        return any(tags(page) != before[name] for name, page in hostile_pages.pages().items())
    except (AssertionError, IndexError):  # tags that are not closed in order
        return True


def test_scripts_of_pages_write_text_only():
    for name in ("report.js", "review.js"):
        script = (FOLDER / name).read_text("utf-8")
        for word in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "Function(", "srcdoc",
                     "setTimeout", "location", "fetch(", "import(", "createElement", "DOMParser"):  # fmt: skip
            assert word not in script, (name, word)
        for attribute in re.findall(r'setAttribute\("(\w+)"', script):
            assert attribute in {"cx", "cy", "d", "x", "width"}
