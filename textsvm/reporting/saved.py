"""Reports in Python: made by `report` of an estimator, written as files, shown in a notebook."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from textsvm.errors import InputError
from textsvm.evaluation.asked import machine_of
from textsvm.evaluation.judge import judge
from textsvm.reporting import html
from textsvm.reporting.files import write
from textsvm.reporting.report import Report, make_report
from textsvm.sources.columns import Columns
from textsvm.sources.texts import as_texts, listed

#: Figures that a report is told by on a line.
MAIN = ("accuracy", "macro_f1", "micro_f1", "rmse")


class SavedReport(Report):
    """A `Report` that is written as a file, or shown."""

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it as .html, .md or .json, as the ending says; raises InputError if it is none of them."""
        write(self, path)
        return Path(path)

    def __repr__(self) -> str:
        metrics = self.results.metrics
        figures = [f"{name}={metrics[name]:.4g}" for name in MAIN if name in metrics]
        return f"SavedReport({self.results.n} examples, {', '.join(figures)})"

    def _repr_html_(self) -> str:
        # In a frame of its own: the page has a style, a script and a policy that are not the notebook's.
        page = escape(html.render(self), quote=True)
        style = "width:100%;height:50em;border:0"
        return f'<iframe srcdoc="{page}" sandbox="allow-scripts" style="{style}"></iframe>'


def report_of(
    model: Any, X: Any, y: Any, positive: Any, ids: Sequence[str] | None, title: str, mistakes: int
) -> SavedReport:
    """See `textsvm.SVC.report`."""
    model.require_fitted()
    given = _given(machine_of(model), X)
    truth, n = _plain(y), len(machine_of(model).read(given, fitting=False))
    names = [str(i) for i in (range(n) if ids is None else ids)]
    for what, values in (("labels", truth), ("ids", names)):
        if len(values) != n:
            raise InputError(f"there are {n:,} examples and {len(values):,} {what}; give one for each")
    results = judge(model, given, truth, positive)
    return SavedReport(**vars(make_report(model, results, given, names, title, mistakes)))


def _given(machine: Any, X: Any) -> Any:
    """Examples as reports take them: a list of texts, a dict of columns, or vectors."""
    if machine.kernel_ is None:
        raise InputError(
            "a report shows texts, and a machine on a kernel matrix has none; take textsvm.evaluation.judge"
        )
    if machine.kernel_.reads == "columns":
        return {name: _plain(column) for name, column in _columns(X)}
    return as_texts(X) if machine.kernel_.reads == "texts" else X


def _columns(table: Any) -> Iterator[tuple[str, Any]]:
    of_rows = isinstance(table, list | tuple)
    for name in Columns.of(table).names:
        yield name, [row.get(name) for row in table] if of_rows else table[name]


def _plain(column: Any) -> Any:
    """A column by place: a pandas one goes by its index. Vectors are rows of an array, and stay."""
    return listed(column) if getattr(column, "ndim", 1) == 1 else column
