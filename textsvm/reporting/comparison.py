"""A comparison of classifiers -> one HTML page: a picture of their accuracies with intervals, and a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from textsvm.evaluation.comparison import Compared
from textsvm.reporting import intervals
from textsvm.reporting.escape import safe
from textsvm.reporting.html import page
from textsvm.reporting.intervals import Line
from textsvm.runtime.files import replacing


def write(path: Path, title: str, lead: str, compared: Sequence[Compared]) -> None:
    """Write the page; the file is replaced only once the new one is complete."""
    body = [picture(compared), table(compared)]
    with replacing(path) as temporary:
        temporary.write_text(page(title, lead, body), "utf-8", newline="\n")


def picture(compared: Sequence[Compared]) -> str:
    """Accuracies with their intervals, the best on top; a dashed line through the first classifier."""
    order = sorted(compared, key=lambda each: -each.accuracy)
    lines = [Line(each.name, each.accuracy, each.interval, "c2" if each.ours else "c7") for each in order]
    title = "Accuracy of each classifier, with 95 % intervals"
    drawn = intervals.picture(
        title, "accuracy", "accuracy", lines, compared[0].accuracy, intervals.with_value("accuracy")
    )
    key = '<ul class="key"><li class="c2">textsvm</li><li class="c7">scikit-learn</li></ul>'
    return (
        f'<section class="wide"><h2>Accuracy</h2>{key}{drawn}<p class="note">On {compared[0].n:,} '
        f"documents, with 95 % intervals (Wilson). Dashed: {safe(compared[0].name)}. Intervals of two "
        "classifiers on the same documents may overlap where the one is surely better: the table has the "
        "paired test.</p></section>"
    )


def table(compared: Sequence[Compared]) -> str:
    """The figures of each classifier."""
    head = "".join(
        f"<th>{name}</th>"
        for name in ("accuracy", "95 % interval", "macro F1", "difference", "p", "seconds", "chosen")
    )
    rows = "".join(
        f"<tr><th>{safe(each.name)}</th>{''.join(f'<td>{safe(cell)}</td>' for cell in cells(each))}</tr>"
        for each in compared
    )
    return (
        f'<section><h2>Figures</h2><div class="scroll"><table><thead><tr><th></th>{head}</tr></thead><tbody>'
        f'{rows}</tbody></table></div><p class="note">Difference: points of accuracy against '
        f"{safe(compared[0].name)}, with its 95 % bootstrap interval over documents; p: exact McNemar test. "
        "Seconds: training and prediction, from texts in memory.</p></section>"
    )


def cells(each: Compared) -> tuple[str, ...]:
    """The figures of a classifier for people: all columns after its name."""
    low, high = each.interval
    if each.paired is None:
        difference, p_value = "", ""
    else:
        a, b = each.paired.interval
        difference = f"{100 * each.paired.difference:+.2f} ({100 * a:+.2f} to {100 * b:+.2f})"
        p_value = f"{each.paired.p_value:.2g}"
    return (
        f"{100 * each.accuracy:.2f} %",
        f"{100 * low:.2f} to {100 * high:.2f}",
        f"{100 * each.macro_f1:.2f} %",
        difference,
        p_value,
        f"{each.seconds:.2f}",
        each.chosen,
    )
