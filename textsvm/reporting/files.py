"""Reports as files, and in Python: `report` judges a fitted model and returns a report to save or show.

In Markdown, text from documents is escaped or in code blocks.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from textsvm.errors import InputError, json_escaped
from textsvm.evaluation.comparison import SideBySide
from textsvm.evaluation.judge import judge
from textsvm.kernels.inputs import InputTable, as_texts, listed
from textsvm.model.rules import LabelRule
from textsvm.model.trained import TrainedModel, as_model
from textsvm.reporting import formatting, html, sections
from textsvm.reporting.charts import write_figures
from textsvm.reporting.report import MISTAKES, Mistake, Report, make_report
from textsvm.runtime.files import replacing

MAIN = ("accuracy", "macro_f1", "micro_f1", "rmse")  #: Metrics in the `repr` of a report


def write(report: Report, path: str | os.PathLike[str]) -> None:
    """Write a report as .html, .md or .json, by the ending of the path.

    An existing file is replaced when the new file is complete. Raises InputError for another ending.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in (*FORMATS, ".json"):
        raise InputError(f"a report is written as .html, .md or .json, and {path} ends in none of them")
    if suffix == ".json":
        text = json_escaped(json.dumps(report.as_dict(), ensure_ascii=False, indent=1)) + "\n"
    else:
        text = FORMATS[suffix](report)
    with replacing(path) as temporary:
        temporary.write_text(text, "utf-8", newline="\n")


class SavedReport(Report):
    """A `Report` that can be saved as a file, and shows itself in a notebook."""

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the report as .html, .md or .json, by the ending of the path."""
        write(self, path)
        return Path(path)

    def save_figures(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write each chart as an SVG file into a folder, which is created; returns the paths."""
        return write_figures(Path(folder), html.charts(self))

    def __repr__(self) -> str:
        metrics = self.results.metrics
        figures = [f"{name}={metrics[name]:.4g}" for name in MAIN if name in metrics]
        return f"SavedReport({self.results.n} examples, {', '.join(figures)})"

    def _repr_html_(self) -> str:
        # In a frame: the page has its own style, script and security policy.
        page = escape(html.render(self), quote=True)
        style = "width:100%;height:50em;border:0"
        return f'<iframe srcdoc="{page}" sandbox="allow-scripts allow-downloads" style="{style}"></iframe>'


def report(
    model: object, X: object, y: object, positive: object = None, *, ids: Sequence[str] | None = None,
    title: str = "Evaluation", mistakes: int = MISTAKES,
) -> SavedReport:  # fmt: skip
    """Judge a fitted model on labelled examples: the report that ``textsvm evaluate --report`` writes.

    Parameters
    ----------
    model : TrainedModel, or fitted SVC, MultilabelSVC, SVR, OneClassSVM or CalibratedSVC
        Fitted.
    X : n examples
        As `fit` takes them, but no kernel matrix.
    y : array-like, shape (n,)
        Labels or numbers.
    positive : label, optional
        Positive class of two; default ``classes_[1]``. For a OneClassSVM, the label of its class.
    ids : sequence of str, optional
        Names of the examples; default their numbers from 0.
    title : str
    mistakes : int
        Number of the worst mistakes shown and explained.

    Returns
    -------
    SavedReport
        ``save("report.html")`` writes it as .html, .md or .json; a notebook shows the page.

    Raises
    ------
    InputError
        If X or y cannot be used.

    Examples
    --------
    >>> from textsvm import SVC, Spectrum, report
    >>> model = SVC(Spectrum(2)).fit(["win a prize", "a prize", "at noon", "lunch at noon"], [1, 1, 0, 0])
    >>> report(model, ["prize!", "at lunch"], [1, 0])  # .save("report.html") writes the page
    SavedReport(2 examples, accuracy=1, macro_f1=1)
    """
    trained = as_model(model)
    examples, truth = _examples(trained, X), _plain(np.asarray(y) if hasattr(y, "columns") else y)
    if isinstance(truth, np.ndarray) and not isinstance(trained.rule, LabelRule):
        truth = truth.ravel().tolist()
    n = len(trained.source.validate(examples, trained.support.n_features))
    names = [str(i) for i in (range(n) if ids is None else ids)]
    for unit, values in (("labels", truth), ("ids", names)):
        if len(values) != n:
            raise InputError(f"there are {n:,} examples and {len(values):,} {unit}; give one for each")
    results = judge(trained, examples, truth, positive)
    return SavedReport(**vars(make_report(trained, results, examples, names, title, mistakes)))


def _examples(model: TrainedModel, X: Any) -> Any:
    """Examples as `make_report` takes them: a list of texts, a dict of columns, or vectors."""
    if model.kernel is None:
        raise InputError("a report shows texts, which a kernel matrix lacks; take textsvm.evaluation.judge")
    if model.kernel.structure.reads_tables:
        of_rows, names = isinstance(X, list | tuple), InputTable.of(X).names
        return {name: _plain([row.get(name) for row in X] if of_rows else X[name]) for name in names}
    return as_texts(X) if model.kernel.structure.examples == "texts" else X


def _plain(column: Any) -> Any:
    """A column by position, as pandas uses an index; rows of an array of vectors stay."""
    return listed(column) if getattr(column, "ndim", 1) == 1 else column


# Markdown
SHOWN = 600  #: Symbols shown of a document


def as_markdown(report: Report) -> str:
    """The report as Markdown, to be written in UTF-8."""
    results = report.results
    parts = [f"# {plain(report.title)}", f"{results.n:,} documents."]
    parts += [f"> **Warning:** {plain(warning)}." for warning in results.warnings]
    parts.append(_table(["", "", "95 % interval"], formatting.metric_rows(results)))
    parts += [formatting.length_alone(results.length_alone)] if results.length_alone else []
    if results.task != "regression":
        parts += ["## Classes", _plain_table(*formatting.classes_table(results))]
        if results.confusion and len(results.labels) <= html.MOST_CLASSES:
            labels = [plain(label) for label in results.labels]
            rows = zip(labels, results.confusion, strict=True)
            table = _table(["", *labels], ([label, *(f"{n:,}" for n in row)] for label, row in rows))
            parts += [
                "## Confusion matrix",
                "Number of documents. Rows: true class. Columns: predicted class.",
                table,
            ]
    parts += _more(report)
    if report.mistakes:
        parts.append("## The worst mistakes")
        parts += [_mistake(mistake) for mistake in report.mistakes]
    parts.append("## How it was made")
    parts.append(_table(["", ""], ([plain(name), plain(value)] for name, value in report.facts)))
    return "\n\n".join(parts) + "\n"


def _more(report: Report) -> list[str]:
    parts = []
    if report.features:
        parts += ["## Features with the largest weights", plain(sections.features_note(report.features))]
        parts += [_plain_table(*sections.features_table(features)) for features in report.features]
    if report.beside is not None:
        parts += ["## Models side by side", _plain_table(*sections.models_table(report.beside))]
        parts += [plain(sections.models_note(report.beside)), _disagreements(report.beside)]
    if report.slices is not None:
        parts += [f"## By {plain(report.slices.column)}", _plain_table(*sections.slices_table(report.slices))]
        parts.append(plain(sections.slices_note(report.slices)))
    if report.learning is not None:
        parts += ["## Would more texts help?", plain(sections.learning_sentence(report.learning))]
        parts.append(_plain_table(*sections.learning_table(report.learning)))
        parts.append(plain(sections.learning_note(report.learning)))
    return parts


def _disagreements(models: SideBySide) -> str:
    rows = [[row.id, row.truth, *row.predicted, row.text] for row in models.disagreements]
    if not rows:
        return ""
    head = ["where they disagree", "truth", *models.names, "text"]
    return _plain_table(head, [[formatting.label_text(cell) for cell in row] for row in rows])


def _plain_table(head: list[str], rows: Iterable[list[str]]) -> str:
    return _table([plain(cell) for cell in head], ([plain(cell) for cell in row] for row in rows))


def plain(value: object) -> str:
    """Text as Markdown, on a single line."""
    return re.sub(r"([\\`*_{}\[\]()<>#+!|~&])", r"\\\1", " ".join(formatting.printable(str(value)).split()))


def code_block(text: str) -> str:
    """Text in a fence longer than any in the text."""
    fence = "`" * max(3, max((len(run) for run in re.findall(r"`+", text)), default=0) + 1)
    return f"{fence}text\n{formatting.printable(text)}\n{fence}"


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _mistake(mistake: Mistake) -> str:
    lines = [
        f"### {plain(mistake.id)}",
        f"is {plain(mistake.truth)}, predicted {plain(mistake.predicted)} ({mistake.value:+.3f})",
        code_block(formatting.cut(mistake.text, SHOWN)),
    ]
    if mistake.explanation is not None and mistake.explanation.merged:
        counted = [
            f"{formatting.visible(part.text)}  {part.contribution:+.3f}"
            for part in mistake.explanation.merged
        ]
        lines.append(code_block("\n".join(counted)))
    return "\n\n".join(lines)


FORMATS = {".html": html.render, ".htm": html.render, ".md": as_markdown}
