"""Reports as files, and in Python: `report` judges a fitted model and returns a report to save or show."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from textsvm.errors import InputError, json_escaped
from textsvm.evaluation.judge import fitted_machine, judge
from textsvm.kernels.inputs import InputTable, as_texts, listed
from textsvm.reporting import html, markdown
from textsvm.reporting.figures import write_figures
from textsvm.reporting.report import MISTAKES, Report, make_report
from textsvm.runtime.files import replacing

FORMATS = {".html": html.render, ".htm": html.render, ".md": markdown.render}
#: Metrics in the `repr` of a report.
MAIN = ("accuracy", "macro_f1", "micro_f1", "rmse")


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
        return write_figures(Path(folder), html.render(self))

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
    model: Any,
    X: Any,
    y: Any,
    positive: Any = None,
    *,
    ids: Sequence[str] | None = None,
    title: str = "Evaluation",
    mistakes: int = MISTAKES,
) -> SavedReport:
    """Judge a fitted model on labelled examples: the report that ``textsvm evaluate --report`` writes.

    Parameters
    ----------
    model : SVC, MultilabelSVC, SVR, OneClassSVM or CalibratedSVC
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
    model.require_fitted()
    machine = fitted_machine(model)
    examples, truth = _examples(machine, X), _plain(y)
    n = len(machine.validate(examples, fitting=False))
    names = [str(i) for i in (range(n) if ids is None else ids)]
    for unit, values in (("labels", truth), ("ids", names)):
        if len(values) != n:
            raise InputError(f"there are {n:,} examples and {len(values):,} {unit}; give one for each")
    results = judge(model, examples, truth, positive)
    return SavedReport(**vars(make_report(model, results, examples, names, title, mistakes)))


def _examples(machine: Any, X: Any) -> Any:
    """Examples as `make_report` takes them: a list of texts, a dict of columns, or vectors."""
    if machine.kernel_ is None:
        raise InputError(
            "a report shows texts, and a machine on a kernel matrix has none; take textsvm.evaluation.judge"
        )
    if machine.kernel_.structure.reads_tables:
        return {name: _plain(column) for name, column in _columns(X)}
    return as_texts(X) if machine.kernel_.structure.reads_texts else X


def _columns(table: Any) -> Iterator[tuple[str, Any]]:
    of_rows = isinstance(table, list | tuple)
    for name in InputTable.of(table).names:
        yield name, [row.get(name) for row in table] if of_rows else table[name]


def _plain(column: Any) -> Any:
    """A column by position, as pandas uses an index; rows of an array of vectors stay."""
    return listed(column) if getattr(column, "ndim", 1) == 1 else column
