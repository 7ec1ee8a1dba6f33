"""Applications import the public names of textsvm, a few shared modules, and the exceptions listed here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import textsvm

ROOT = Path(__file__).resolve().parent.parent
APPS = sorted(path.parent.name for path in (ROOT / "textsvm" / "apps").glob("*/__init__.py"))
#: Modules and packages that every application may import.
SHARED = ("textsvm.errors", "textsvm.version", "textsvm.arrays", "textsvm.runtime")
#: Application -> further module that it may import -> reason.
EXCEPTIONS: dict[str, dict[str, str]] = {
    "export": {
        "textsvm.kernels.contract": "tables of features and support vectors, which the formats contain",
        "textsvm.kernels.inputs": "TextForm: the normal form of the texts of a model",
        "textsvm.kernels.spelling": "spell: the name of a kernel in files and messages",
        "textsvm.machines.top_features": "TopFeatures: the heaviest features, in files and on the page",
        "textsvm.model.file": "load_machine: `textsvm.load` would import scikit-learn",
        "textsvm.reporting.formatting": "escaped text of the page",
        "textsvm.reporting.html": "page: style sheet and content security policy of reports",
        "textsvm.selection.conformal": "Conformity: prediction sets",
        "textsvm.text.documents": "View: the symbols that a kernel reads",
        "textsvm.text.normal_form": "the normal form, of which the Unicode tables are made",
    },
}


def imported_modules(path: Path) -> Iterator[str]:
    """Modules of textsvm that a file imports; public names and the file's own application are left out."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} has a relative import"
            for alias in node.names:
                module = f"{node.module}.{alias.name}"
                if node.module == "textsvm" and alias.name in textsvm.__all__:
                    continue
                file = ROOT.joinpath(*module.split("."))
                yield module if file.is_dir() or file.with_suffix(".py").is_file() else str(node.module)


def within(module: str, packages: tuple[str, ...]) -> bool:
    """Whether a module is in one of some packages, or is one of them."""
    return module.startswith(tuple(f"{package}." for package in packages)) or module in packages


@pytest.mark.parametrize("app", APPS)
def test_an_application_imports_public_names(app):
    allowed = (*SHARED, f"textsvm.apps.{app}")
    further: dict[str, list[str]] = {}
    for path in sorted((ROOT / "textsvm" / "apps" / app).rglob("*.py")):
        commands = ("textsvm.cli",) if path.name == "commands.py" else ()
        for module in imported_modules(path):
            if within(module, ("textsvm",)) and not within(module, allowed + commands):
                further.setdefault(module, []).append(path.name)
    assert further.keys() == EXCEPTIONS.get(app, {}).keys(), further


def test_every_exception_belongs_to_an_application():
    assert EXCEPTIONS.keys() <= set(APPS)
