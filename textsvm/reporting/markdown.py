"""A report -> Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable

from textsvm.evaluation.side_by_side import SideBySide
from textsvm.reporting import beside, learning, slices
from textsvm.reporting.escape import printable, visible
from textsvm.reporting.format_metrics import HEADS, NAMES, format_interval, format_metric, length_alone
from textsvm.reporting.report import Mistake, Report

#: Symbols of a document that are shown, and classes of a confusion matrix.
SHOWN, MOST_CLASSES = 600, 25


def render(report: Report) -> str:
    """The report as Markdown, in UTF-8; what comes from documents is escaped or in code blocks."""
    results = report.results
    parts = [f"# {plain(report.title)}", f"{results.n:,} documents."]
    parts += [f"> **Warning:** {plain(warning)}." for warning in results.warnings]
    parts.append(
        _table(
            ["", "", "95 % interval"],
            (
                [
                    NAMES[name],
                    format_metric(name, results.metrics[name]),
                    format_interval(name, results.intervals.get(name)),
                ]
                for name in NAMES
                if name in results.metrics
            ),
        )
    )
    parts += [length_alone(results.length_alone)] if results.length_alone else []
    if results.task != "regression":
        several = results.task == "multilabel"
        columns = ["precision", "recall", "f1", "average_precision", *["break_even"] * several]
        more = ["threshold"] * several
        parts.append("## Classes")
        parts.append(
            _table(
                ["", *(HEADS.get(name, name) for name in (*columns, *more)), "documents", "predicted"],
                (
                    [
                        plain(each["label"]),
                        *(format_metric(name, each[name]) for name in columns),
                        *(f"{each[name]:.3f}" for name in more),
                        *(f"{each[name]:,}" for name in ("support", "predicted")),
                    ]
                    for each in results.per_class
                ),
            )
        )
        if results.confusion and len(results.labels) <= MOST_CLASSES:
            labels = [plain(label) for label in results.labels]
            rows = zip(labels, results.confusion, strict=True)
            parts += ["## Confusion matrix", "Rows: the truth. Columns: what the model says."]
            parts.append(
                _table(["", *labels], ([label, *(f"{n:,}" for n in counts)] for label, counts in rows))
            )
    parts += _more(report)
    if report.mistakes:
        parts.append("## The worst mistakes")
        parts += [_mistake(each) for each in report.mistakes]
    parts.append("## How it was made")
    parts.append(_table(["", ""], ([plain(name), plain(value)] for name, value in report.facts)))
    return "\n\n".join(parts) + "\n"


def _more(report: Report) -> list[str]:
    """Models side by side, slices and the learning curve, as far as there are such."""
    parts = []
    if report.beside is not None:
        parts += ["## Models side by side", _plain_table(*beside.cells(report.beside))]
        parts += [plain(beside.explanation(report.beside)), _disagreements(report.beside)]
    if report.slices is not None:
        parts += [f"## By {plain(report.slices.column)}", _plain_table(*slices.cells(report.slices))]
        parts.append(plain(slices.explanation(report.slices)))
    if report.learning is not None:
        parts += ["## Would more texts help?", plain(learning.sentence(report.learning))]
        parts += [
            _plain_table(*learning.cells(report.learning)),
            plain(learning.explanation(report.learning)),
        ]
    return parts


def _disagreements(found: SideBySide) -> str:
    rows = [[each.id, each.truth, *each.predicted, each.text] for each in found.disagreements]
    if not rows:
        return ""
    head = ["where they disagree", "truth", *found.names, "text"]
    return _plain_table(head, [[beside.shown(cell) for cell in row] for row in rows])


def _plain_table(head: list[str], rows: Iterable[list[str]]) -> str:
    return _table([plain(cell) for cell in head], ([plain(cell) for cell in row] for row in rows))


def plain(value: object) -> str:
    """Text as Markdown that shows it, on one line."""
    return re.sub(r"([\\`*_{}\[\]()<>#+!|~&])", r"\\\1", " ".join(printable(str(value)).split()))


def code_block(text: str) -> str:
    """Text in a fence that it does not hold itself."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{printable(text)}\n{fence}"


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _mistake(mistake: Mistake) -> str:
    shown = mistake.text[:SHOWN] + (" …" if len(mistake.text) > SHOWN else "")
    lines = [
        f"### {plain(mistake.id)}",
        f"is {plain(mistake.truth)}, predicted {plain(mistake.predicted)} ({mistake.value:+.3f})",
        code_block(shown),
    ]
    if mistake.explanation is not None and mistake.explanation.substrings:
        counted = [
            f"{visible(each.text)}  {each.contribution:+.3f}" for each in mistake.explanation.substrings
        ]
        lines.append(code_block("\n".join(counted)))
    return "\n\n".join(lines)
