"""The public Python interface is that of tests/public_api.txt.

`python tests/test_public_api.py` writes the file. It has the names and methods that docs/reference.md shows,
with their signatures, and the fitted attributes that docstrings list (docs/stability.md).
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from pydoc import locate
from typing import Any

import textsvm

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "tests" / "public_api.txt"
HEAD = "# The public interface (docs/stability.md), written by `python tests/test_public_api.py`.\n"


REFERENCE = (ROOT / "docs" / "reference.md").read_text("utf-8")


def members_shown(name: str) -> list[str]:
    """Methods that the reference shows of a class, unless the class has none of them."""
    own = re.search(rf"^::: textsvm\.{name}\n    options:\n      members: \[(.*?)\]", REFERENCE, re.M)
    usual = re.search(r"\bmembers: \[(.*?)\]", (ROOT / "mkdocs.yml").read_text("utf-8"), re.S)
    return re.findall(r"\w+", (own or usual)[1])


def plain(function: Any) -> str:
    """A signature without types, which Python versions print differently."""
    signature = inspect.signature(function)
    empty = inspect.Parameter.empty
    parameters = [each.replace(annotation=empty) for each in signature.parameters.values()]
    return (
        str(signature.replace(parameters=parameters, return_annotation=empty))
        .replace("(self, ", "(")
        .replace("(self)", "()")
    )


def of_class(cls: type) -> Iterator[str]:
    """Methods, their own and inherited from this package, and fitted attributes."""
    for name in members_shown(cls.__name__):
        owner = next((each for each in cls.__mro__ if name in vars(each)), object)
        method = getattr(cls, name, None)
        # A property in place of a method only explains that there is none.
        if owner.__module__.startswith("textsvm") and callable(method):
            yield f"    .{name}{plain(method)}"
    text = inspect.cleandoc(cls.__doc__ or "")  # Python 3.13 removes the indentation itself
    listed = text.partition("\nAttributes\n")[2].partition("\nExamples\n")[0]
    for names in re.findall(r"^(\w+_(?:, \w+_)*) : ", listed, re.M):
        yield from (f"    .{name}" for name in names.split(", "))


def listing() -> str:
    """Every public name (tests/test_site.py: all of `textsvm.__all__`), and the public parts of classes."""
    lines = [HEAD]
    for name in sorted(re.findall(r"^::: (\S+)$", REFERENCE, re.M)):
        found = locate(name)
        lines.append(f"{name}{plain(found)}")
        if inspect.isclass(found):
            lines += of_class(found)
    return "\n".join(lines) + "\n"


def test_the_public_interface_is_that_of_the_list():
    due, now = FILE.read_text("utf-8"), listing()
    changes = difflib.unified_diff(due.splitlines(), now.splitlines(), "listed", "now", lineterm="", n=1)
    assert due == now, "\n".join(
        [
            "the public interface has changed; if that is meant: `python tests/test_public_api.py`, a line",
            "in CHANGELOG.md, and docs/stability.md says which changes need a deprecation first",
            *changes,
        ]
    )


def test_a_changed_signature_changes_the_list(monkeypatch):
    monkeypatch.setattr(textsvm, "save", lambda model, path: None, raising=False)
    assert "\ntextsvm.save(model, path)\n" in listing()
    assert listing() != FILE.read_text("utf-8")


if __name__ == "__main__":
    FILE.write_text(listing(), "utf-8", newline="\n")
