"""What the site and the man page show is what there is."""

import re
from pathlib import Path

import pytest

import textsvm

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


@pytest.fixture
def manual(monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "tools")
    return pytest.importorskip("manual")


def test_every_public_name_is_in_the_reference():
    page = (DOCS / "reference.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^::: textsvm\.(\w+)$", page, re.MULTILINE)) == set(textsvm.__all__) - {
        "__version__"
    }


def test_the_man_page_is_that_of_these_commands(manual):
    due = "run `python docs/tools/manual.py` and commit docs/textsvm.1"
    assert manual.MAN_PAGE.read_text(encoding="utf-8") == manual.man_page(), due


def test_the_man_page_names_every_command_and_option(manual):
    page = manual.man_page()
    for name, command in manual.commands():
        assert name.upper() in page
        for each in command.params:
            for option in each.opts if each.param_type_name == "option" else ():
                assert option.replace("-", r"\-") in page


def test_the_navigation_has_every_page_of_docs():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    notebooks = {f"notebooks/{path.stem}.md" for path in (DOCS / "notebooks").glob("*.ipynb")}
    assert pages | notebooks <= set(re.findall(r"- (\S+\.md)$", navigation, re.MULTILINE))
