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
    "label": {
        "textsvm.choice.candidates": "has_words: whether texts have words, as the automatic choice sees it",
        "textsvm.evaluation.results": "clopper_pearson: the interval of reports",
        "textsvm.kernels.attribution": "pieces: how explanations cut a text",
        "textsvm.kernels.encoder": "as_encoder: vectors of an encoder beside substrings and words",
        "textsvm.kernels.inputs": "TextForm: the normal form of SpectrumFeatures",
        "textsvm.kernels.spectrum.feature_matrix": "SpectrumFeatures without scikit-learn: 100 MB less",
        "textsvm.sources.texts": "TextSource: the encoding of SpectrumFeatures",
        "textsvm.linalg.sparse": "Sparse: products of 50,000 rows on all cores",
        "textsvm.readers.annotations": "krippendorff_alpha: agreement as in notes on imported annotations",
        "textsvm.reporting.formatting": "runs: steps of colour as in explanations",
        "textsvm.reporting.html": "page: style sheet and content security policy of reports",
        "textsvm.reporting.tables": "cells of CSV as in every file for spreadsheets",
        "textsvm.model.rules": "fit_scale, fit_logistic: probabilities as in OnlineSVC and CalibratedSVC",
        "textsvm.text.documents": "normalise: the form of near-copies; Documents: the alphabet of features",
    },
    "serve": {
        "textsvm.evaluation.drift": "counts of foreign texts and low margins",
        "textsvm.model.rules": "margins of decisions",
        "textsvm.evaluation.judge": "predictions in the form of `textsvm predict`",
        "textsvm.kernels.spelling": "spell: name of the kernel in GET /models",
    },
    "mail": {
        "textsvm.solvers.online": "the machine of OnlineSVC, here on features of mails instead of texts",
        "textsvm.model.rules": "fit_logistic: the sigmoid of CalibratedSVC, with other targets and weights",
        "textsvm.text.byte_pmers": "the features of OnlineSVC, which a decision needs without Numba",
        "textsvm.readers.mail": "the boundaries of messages in an mbox, as `train` reads them",
        "textsvm.readers.mime": "headers and parts; the reader of mail corpora has the same rules",
        "textsvm.readers.pages": "the displayed text of HTML",
        "textsvm.readers.mail_header": "malformed headers, which the reader of mail corpora repairs too",
        "textsvm.readers.charsets": "decoding of bytes with a wrong charset, as in every reader",
        "textsvm.evaluation.explanation": "the report shows contributions of characters, as for other models",
        "textsvm.reporting.report": "parts of the report on decisions made before learning",
        "textsvm.reporting.files": "the report as a file; `textsvm.report` needs a fitted model",
    },
    "export": {
        "textsvm.kernels.contract": "tables of features, which the formats contain",
        "textsvm.kernels.inputs": "TextForm: the normal form of the texts of a model",
        "textsvm.kernels.spelling": "spell: the name of a kernel in files and messages",
        "textsvm.text.characters": "tables of code points and of tokenizers, which the formats contain",
        "textsvm.model.top_features": "TopFeatures: the heaviest features, in files and on the page",
        "textsvm.reporting.formatting": "escaped text of the page",
        "textsvm.reporting.html": "page: style sheet and content security policy of reports",
        "textsvm.model.conformal": "Conformity: prediction sets",
        "textsvm.model.rules": "the kinds of decisions that a file contains",
        "textsvm.model.settings": "Settings: all models but those of single texts can be exported",
        "textsvm.model.trained": "the trained model of an estimator",
        "textsvm.sources.base": "KernelSource: support vectors are counted, without an index",
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


IMPORTS = """
import textsvm.solvers.smo
from textsvm import SVC, gram
from textsvm.cli import options

def function():
    from textsvm.text.tokens import TOKENS
"""


def test_every_kind_of_import_is_seen(tmp_path):
    (tmp_path / "module.py").write_text(IMPORTS, "utf-8")
    assert set(imported_modules(tmp_path / "module.py")) == {
        "textsvm.solvers.smo", "textsvm.gram", "textsvm.cli.options", "textsvm.text.tokens",
    }  # fmt: skip
    assert within("textsvm.runtime.files", ("textsvm.runtime",))
    assert not within("textsvm.runtimes", ("textsvm.runtime",))
