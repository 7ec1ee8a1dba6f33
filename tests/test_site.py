"""What the site and the man page show is what there is."""

import ast
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import textsvm
from textsvm.kernels import KERNELS

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
LINK = re.compile(r"\]\((?!\w+:|#|/)([^)#\s]+)")


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


@pytest.mark.parametrize("command", [["groff", "-ww", "-man", "-Tutf8"], ["mandoc", "-Tlint", "-Wwarning"]])
def test_the_man_page_has_no_warnings(command, manual):
    if shutil.which(command[0]) is None:
        pytest.skip(f"needs {command[0]} (Debian package)")
    said = subprocess.run([*command, str(manual.MAN_PAGE)], capture_output=True, text=True)
    assert (said.returncode, said.stderr) == (0, "")
    assert command[0] == "groff" or said.stdout == ""


def test_the_man_page_names_every_command_and_option(manual):
    page = manual.man_page()
    for name, command in manual.commands():
        assert name.upper() in page
        for each in command.params:
            for option in each.opts if each.param_type_name == "option" else ():
                assert option.replace("-", r"\-") in page


#: Options of other programs that pages name.
FOREIGN = {
    "--create-home", "--data", "--group", "--home", "--no-cache-dir", "--no-deps", "--now", "--nthreads",
    "--nworkers", "--read-only", "--rm", "--server", "--system", "--to", "--upgrade", "--user",
}  # fmt: skip


def test_options_in_pages_exist(manual):
    """Each option after `textsvm COMMAND` is one of the command, any other is one of some command."""
    options = {
        name.split(" ", 1)[-1]: {"--help", "--help-all"}.union(
            *(each.opts + each.secondary_opts for each in command.params)
        )
        for name, command in manual.commands()
    }
    option, wrong = re.compile(r"(?<![\w-])--?[a-zA-Z][\w-]*"), []
    for page in [ROOT / "README.md", *DOCS.rglob("*.md")]:
        text = page.read_text(encoding="utf-8")
        known = FOREIGN.union(*options.values())
        wrong += [
            (page.name, name) for name in option.findall(text) if name[:2] == "--" and name not in known
        ]
        for line in re.findall(r"textsvm ([a-z][^\n`|#<]*)", text):
            first, second = [*line.split(), "", ""][:2]
            command = f"{first} {second}" if f"{first} {second}" in options else first
            used = option.findall(line.partition("textsvm ")[0])
            wrong += [(page.name, command, name) for name in used if name not in options.get(command, used)]
    assert wrong == []


def test_length_of_the_pages():
    """The limit only falls (CONTRIBUTING.md)."""
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in DOCS.rglob("*.md")) <= 35_000


def test_links_of_a_checkout_lead_to_files():
    """Also those to pages that only the site has: the links name the files with their content."""
    pages = [*ROOT.glob("*.md"), *(page for folder in ("docs", "reports", "corpora", "packaging")
             for page in (ROOT / folder).rglob("*.md"))]  # fmt: skip
    links = [(page, match[1]) for page in pages for match in LINK.finditer(page.read_text(encoding="utf-8"))]
    assert len(links) > 100
    assert [(page.name, link) for page, link in links if not (page.parent / link).exists()] == []


def test_messages_name_no_page_of_the_documentation():
    """Who has installed the package has no checkout."""
    for path in (ROOT / "textsvm").rglob("*.py"):
        if ".md" not in (text := path.read_text(encoding="utf-8")):
            continue
        tree = ast.parse(text)
        strings = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        of_commands = path.parent.name == "cli" or path.name == "commands.py"  # docstrings are help
        kinds = ast.Module if of_commands else ast.Module | ast.ClassDef | ast.FunctionDef
        hidden = [ast.get_docstring(node, clean=False) for node in ast.walk(tree) if isinstance(node, kinds)]
        shown = [text for text in strings if isinstance(text, str) and text not in hidden]
        assert [text for text in shown if re.search(r"(docs|corpora|reports)/\S+\.md", text)] == [], path


def test_the_navigation_has_every_page_of_docs():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    notebooks = {f"notebooks/{path.stem}.md" for path in (DOCS / "notebooks").glob("*.ipynb")}
    assert pages | notebooks <= set(re.findall(r"- (\S+\.md)$", navigation, re.MULTILINE))


def test_kernels_of_vectors_are_in_their_table():
    page = (DOCS / "vectors.md").read_text(encoding="utf-8")
    names = {name for name, kernel in KERNELS.items() if kernel().structure.reads_vectors}
    table = page[page.index("| kernel |") : page.index('`gamma="scale"`, the default')]
    assert names == set(re.findall(r"\| `([a-z]+)[:`]", table))
