"""Every place of a report where something of documents, labels or files is shown: only shown, and watched."""

import importlib
import re
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import hostile_pages
import pytest
from test_reporting import Page

from textsvm import reporting

pytestmark = pytest.mark.slow

#: Payloads of a page that is made many times.
FEW = 6
FOLDER = Path(reporting.__file__).parent
#: Modules that write HTML, each after those it imports from.
MODULES = ("charts", "curves", "sections", "html", "pages", "maps")
SINK = re.compile(r"(?<!def )\b(_safe|safe|escape)\(")
FORBIDDEN = {
    "img", "iframe", "object", "embed", "base", "link", "form", "a", "math", "video", "audio", "template",
}  # fmt: skip


#: What turns text into markup, code or a request.
WRITERS = (
    *("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "Function(", "srcdoc"),
    *("location", "setTimeout", "fetch(", "import(", "createElement", "DOMParser", "XMLHttpRequest"),
)


def tags(page):
    """The tags of a page in order, with the names of their attributes."""
    if page.startswith("<svg"):
        return [(each.tag, tuple(each.attrib)) for each in ElementTree.fromstring(page).iter()]
    return [(tag, tuple(attributes)) for tag, attributes in Page(page).tags]


@pytest.fixture(scope="module")
def whole():
    return {name: make(len(hostile_pages.ALL)) for name, make in hostile_pages.PAGES.items()}


def test_there_are_enough_payloads_and_no_module_is_forgotten():
    assert len(hostile_pages.ALL) >= 200
    writers = {path.stem for path in FOLDER.glob("*.py") if SINK.search(path.read_text("utf-8"))}
    assert writers - {"files", "formatting"} == {*MODULES}  # these two make no page


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


def instrumented(sink):
    """Have the modules call `sink(number, escape, value)` wherever they escape; what each of these is."""
    sinks = []
    for name in MODULES:
        module = importlib.import_module(f"textsvm.reporting.{name}")

        def replaced(match, name=name):
            sinks.append(f"{name}: {match[0]}")
            return f"_sink({len(sinks) - 1}, {match[1]}, "

        source = SINK.sub(replaced, (FOLDER / f"{name}.py").read_text("utf-8"))
        vars(module)["_sink"] = sink
        exec(compile(source, str(FOLDER / f"{name}.py"), "exec"), vars(module))
    return sinks


@pytest.fixture
def modules_come_back():
    modules = [importlib.import_module(f"textsvm.reporting.{name}") for name in MODULES]
    kept = [dict(vars(module)) for module in modules]
    yield
    for module, names in zip(modules, kept, strict=True):
        vars(module).clear()
        vars(module).update(names)


def test_every_escape_is_watched(modules_come_back):
    """Without any one of them a page has other tags, or is not whole."""
    off, reached = None, set()

    def sink(number, escaped, value):
        reached.add(number)
        return str(value) if number == off else escaped(value)

    sinks, before, on = instrumented(sink), {}, {}
    for name, make in hostile_pages.PAGES.items():
        reached.clear()
        before[name] = tags(make(FEW))
        on[name] = set(reached)
    unwatched = []
    for off, what in enumerate(sinks):
        pages = [name for name in on if off in on[name]]
        if not any(changes(hostile_pages.PAGES[name], before[name]) for name in pages):
            unwatched.append(f"{what} (number {off}, on {pages})")
    assert not unwatched


def changes(make, before):
    """Whether a page is another one now, as far as its tags tell."""
    try:
        return tags(make(FEW)) != before
    except (
        AssertionError,
        IndexError,
        ElementTree.ParseError,
        UnicodeEncodeError,
    ):  # tags that are not closed in order
        return True


def test_scripts_of_pages_write_text_only():
    for name in ("report.js", "review.js"):
        script = (FOLDER / name).read_text("utf-8").replace('document.createElement("a")', "")  # a download
        for word in WRITERS:
            assert word not in script, (name, word)
        for attribute in re.findall(r'setAttribute\("(\w+)"', script):
            assert attribute in {"cx", "cy", "d", "x", "y", "width", "height", "viewBox"}
