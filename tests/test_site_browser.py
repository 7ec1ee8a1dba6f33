"""The site in a real browser: every page without an error, as wide as the window, from this server alone."""

import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from test_report_browser import browser  # noqa: F401 (a fixture)

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
PHONE, DESK = (390, 800), (1280, 900)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder of the site."""
    for module in ("mkdocs", "material", "mkdocstrings", "latex2mathml"):
        pytest.importorskip(module, reason="the extra docs is not installed")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


class Quiet(SimpleHTTPRequestHandler):
    """A server of files that does not log."""

    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def address(built):
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=built)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def visit(browser, address):  # noqa: F811
    """A page of the browser; its errors and its requests to other servers fail the test."""
    complaints, contexts = [], []

    def new_page(size, scheme="light"):
        context = browser.new_context(
            viewport=dict(zip(("width", "height"), size, strict=True)), color_scheme=scheme
        )
        contexts.append(context)
        page = context.new_page()
        page.on(
            "console", lambda message: complaints.append(message.text) if message.type == "error" else None
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda each: None if address in each.url else complaints.append(each.url))
        return page

    yield new_page
    for context in contexts:
        context.close()
    assert [each for each in complaints if not each.startswith(("data:", "blob:"))] == []


@pytest.mark.parametrize(("size", "scheme"), [(PHONE, "light"), (DESK, "dark")], ids=["phone", "desk"])
def test_no_page_is_wider_than_the_window(visit, built, address, size, scheme):
    page, wide = visit(size, scheme), []
    paths = sorted(path.parent.relative_to(built).as_posix() for path in built.rglob("index.html"))
    assert len(paths) > 40
    for path in paths:
        page.goto(f"{address}{path}/")
        if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
            wide.append(path)
    assert wide == []


def test_the_search_finds_pages(visit, address):
    page = visit(DESK)
    page.goto(address)
    page.locator("input.md-search__input").click()
    page.keyboard.type("edit distance")
    page.wait_for_selector(".md-search-result__item a", timeout=20_000)
    assert page.locator(".md-search-result__item a").count() > 1


def test_the_colours_follow_the_button(visit, address):
    page = visit(DESK)
    page.goto(address)
    colour = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(colour)
    page.locator("label[title=Dark]").click()
    page.wait_for_function(f"{colour} != '{before}'")
