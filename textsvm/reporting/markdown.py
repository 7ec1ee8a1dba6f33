"""Reports as Markdown; text from documents is escaped or in code blocks."""

from __future__ import annotations

import re
from collections.abc import Iterable

from textsvm.evaluation.comparison import SideBySide
from textsvm.reporting import sections
from textsvm.reporting.formatting import (
    HEADS,
    cut,
    format_metric,
    length_alone,
    metric_rows,
    printable,
    visible,
)
from textsvm.reporting.report import Mistake, Report

#: Symbols shown of a document, and most classes of a confusion matrix that is shown.
SHOWN, MOST_CLASSES = 600, 25


def render(report: Report) -> str:
    """The report as Markdown, to be written in UTF-8."""
    results = report.results
    parts = [f"# {plain(report.title)}", f"{results.n:,} documents."]
    parts += [f"> **Warning:** {plain(warning)}." for warning in results.warnings]
    parts.append(_table(["", "", "95 % interval"], metric_rows(results)))
    parts += [length_alone(results.length_alone)] if results.length_alone else []
    if results.task != "regression":
        several = results.task == "multilabel"
        columns = ["precision", "recall", "f1", "average_precision", *["break_even"] * several]
        more = ["threshold"] * several
        head = ["", *(HEADS.get(name, name) for name in (*columns, *more)), "documents", "predicted"]
        classes = []
        for each in results.per_class:
            cells = [format_metric(name, each[name]) for name in columns]
            cells += [f"{each[name]:.3f}" for name in more]
            counts = (f"{each[name]:,}" for name in ("support", "predicted"))
            classes.append([plain(each["label"]), *cells, *counts])
        parts += ["## Classes", _table(head, classes)]
        if results.confusion and len(results.labels) <= MOST_CLASSES:
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
        parts += [_mistake(each) for each in report.mistakes]
    parts.append("## How it was made")
    parts.append(_table(["", ""], ([plain(name), plain(value)] for name, value in report.facts)))
    return "\n\n".join(parts) + "\n"


def _more(report: Report) -> list[str]:
    """Optional sections."""
    parts = []
    if report.features:
        parts += ["## Features with the largest weights", plain(sections.features_note(report.features))]
        parts += [_plain_table(*sections.features_table(each)) for each in report.features]
    if report.beside is not None:
        parts += ["## Models side by side", _plain_table(*sections.models_table(report.beside))]
        parts += [plain(sections.models_note(report.beside)), _disagreements(report.beside)]
    if report.slices is not None:
        parts += [f"## By {plain(report.slices.column)}", _plain_table(*sections.slices_table(report.slices))]
        parts.append(plain(sections.slices_note(report.slices)))
    if report.learning is not None:
        parts += ["## Would more texts help?", plain(sections.learning_sentence(report.learning))]
        parts += [
            _plain_table(*sections.learning_table(report.learning)),
            plain(sections.learning_note(report.learning)),
        ]
    return parts


def _disagreements(models: SideBySide) -> str:
    rows = [[each.id, each.truth, *each.predicted, each.text] for each in models.disagreements]
    if not rows:
        return ""
    head = ["where they disagree", "truth", *models.names, "text"]
    return _plain_table(head, [[sections.label_text(cell) for cell in row] for row in rows])


def _plain_table(head: list[str], rows: Iterable[list[str]]) -> str:
    return _table([plain(cell) for cell in head], ([plain(cell) for cell in row] for row in rows))


def plain(value: object) -> str:
    """Text as Markdown, on a single line."""
    return re.sub(r"([\\`*_{}\[\]()<>#+!|~&])", r"\\\1", " ".join(printable(str(value)).split()))


def code_block(text: str) -> str:
    """Text in a fence longer than any in the text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{printable(text)}\n{fence}"


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _mistake(mistake: Mistake) -> str:
    lines = [
        f"### {plain(mistake.id)}",
        f"is {plain(mistake.truth)}, predicted {plain(mistake.predicted)} ({mistake.value:+.3f})",
        code_block(cut(mistake.text, SHOWN)),
    ]
    if mistake.explanation is not None and mistake.explanation.merged:
        counted = [f"{visible(each.text)}  {each.contribution:+.3f}" for each in mistake.explanation.merged]
        lines.append(code_block("\n".join(counted)))
    return "\n\n".join(lines)
