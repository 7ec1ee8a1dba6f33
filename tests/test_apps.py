"""Applications import the public names of textsvm; exceptions are listed with their reason."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import textsvm

ROOT = Path(textsvm.__file__).parent
APPS = sorted(path.name for path in (ROOT / "apps").iterdir() if any(path.glob("*.py")))
#: Modules that every application may import.
SHARED = ("textsvm.errors", "textsvm.version", "textsvm.arrays")
#: Other modules that an application imports, with the reason.
EXCEPTIONS: dict[str, dict[str, str]] = {
    "label": {
        "textsvm.apps.serve.server": "HTTP with limits for clients; it knows nothing of models",
        "textsvm.choice.candidates": "has_words: whether texts have words, as the automatic choice sees it",
        "textsvm.evaluation.results": "clopper_pearson: the interval of reports",
        "textsvm.gram.store": "try_lock of the journal, until it is in textsvm.runtime",
        "textsvm.kernels.attribution": "pieces: how explanations cut a text",
        "textsvm.linalg.sparse": "Sparse: products of 50,000 rows on all cores",
        "textsvm.reporting.formatting": "runs: steps of colour as in explanations",
        "textsvm.reporting.html": "page: style sheet and content security policy of reports",
        "textsvm.selection.online": "fit_scale: scale of probabilities as in OnlineSVC",
        "textsvm.text.documents": "normalise: near-copies are texts with the same normal form",
    },
    "serve": {
        "textsvm.evaluation.drift": "counts of foreign texts and low margins",
        "textsvm.evaluation.judge": "predictions in the form of `textsvm predict`",
        "textsvm.kernels.spelling": "spell: name of the kernel in GET /models",
        "textsvm.model.file": "load_machine: `textsvm.load` would import scikit-learn",
    },
}


def foreign(app: str, path: Path) -> set[str]:
    """Modules of textsvm that a file of an application imports without permission of the rule."""
    own, allowed = f"textsvm.apps.{app}", {*SHARED, *textsvm.__all__}
    imported = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno}: relative import"
            for alias in node.names:
                submodule = ROOT.parent.joinpath(*str(node.module).split("."), alias.name)
                is_module = submodule.is_dir() or submodule.with_suffix(".py").is_file()
                public = node.module == "textsvm" and alias.name in allowed
                imported |= (
                    set() if public else {f"{node.module}.{alias.name}" if is_module else str(node.module)}
                )
    names = {name for name in imported if name == "textsvm" or name.startswith("textsvm.")}
    packages = (own, "textsvm.runtime", *(["textsvm.cli"] if path.name == "commands.py" else []))
    return {
        name
        for name in names - {*SHARED}
        if not any(name == package or name.startswith(f"{package}.") for package in packages)
    }


@pytest.mark.parametrize("app", APPS)
def test_an_application_imports_public_names(app):
    imported = {name for path in (ROOT / "apps" / app).glob("*.py") for name in foreign(app, path)}
    assert imported == set(EXCEPTIONS.get(app, {}))
