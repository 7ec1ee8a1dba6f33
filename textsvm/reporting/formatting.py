"""Text, metrics and tables as reports show them."""

from __future__ import annotations

import math
import sys
import time
import unicodedata
from collections.abc import Iterable, Sequence
from html import escape
from importlib import import_module
from itertools import groupby
from typing import TYPE_CHECKING, Any

from textsvm.errors import printable

if TYPE_CHECKING:
    from textsvm.arrays import Floats, Ints
    from textsvm.evaluation.explanation import Explanation
    from textsvm.evaluation.results import Results

#: Names of metrics, in the order of reports; F1 of single classes is in the table of classes.
NAMES = {
    "accuracy": "accuracy", "precision": "precision", "recall": "recall", "f1": "F1",
    "micro_f1": "micro F1", "macro_f1": "macro F1",
    "micro_precision": "micro precision", "micro_recall": "micro recall",
    "subset_accuracy": "all labels right", "hamming_loss": "Hamming loss",
    **{f"precision_at_{k}": f"precision at {k}" for k in (1, 3, 5)},
    "mcc": "MCC", "roc_auc": "ROC AUC", "average_precision": "AUPRC", "qwk": "QWK",
    "mae": "mean absolute error", "rmse": "root mean squared error", "r2": "R²",
    "pearson": "Pearson correlation", "brier": "Brier score", "log_loss": "log loss",
}  # fmt: skip
#: Shares, written in per cent.
SHARES = {
    "accuracy", "precision", "recall", "f1", "macro_f1", "micro_f1", "micro_precision", "micro_recall",
    "subset_accuracy", "precision_at_1", "precision_at_3", "precision_at_5", "break_even",
}  # fmt: skip
LEVELS = 4  #: Steps of colour for positive and for negative contributions


def safe(value: object) -> str:
    """Text as HTML: escaped, without control characters."""
    return escape(printable(str(value)))


def section(title: str, *body: str, note: str = "", style: str = "") -> str:
    """Section of a page: title, elements, and a note below them; `style` is a class of the style sheet."""
    below = f'<p class="note">{note}</p>' if note else ""
    kind = f' class="{style}"' if style else ""
    return f"<section{kind}><h2>{title}</h2>{''.join(body)}{below}</section>"


def key(entries: Iterable[tuple[str, str]], first: int | None = None) -> str:
    """Key of a chart: names and styles; the `first` entries are shown at first, None: all."""
    items = ""
    for i, (name, style) in enumerate(entries):
        style += "" if first is None or i < first else " off"
        items += f'<li class="{style}" data-curve="{i}">{safe(name)}</li>'
    return f'<ul class="key">{items}</ul>' if items else ""


def html_table(head: Iterable[str], rows: Iterable[Sequence[str]], style: str = "") -> str:
    """Table of HTML cells, the first of each row a heading; `style` is a class of the style sheet."""
    body = "".join(
        f"<tr><th>{name}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>" for name, *cells in rows
    )
    kind = f' class="{style}"' if style else ""
    return (
        f'<div class="scroll"><table{kind}><thead><tr>{"".join(f"<th>{cell}</th>" for cell in head)}</tr>'
        f"</thead><tbody>{body}</tbody></table></div>"
    )


def visible(text: str) -> str:
    """A substring with visible white space."""
    return printable(text.replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥"))


def cut(text: str, most: int) -> str:
    """The first symbols of a text."""
    return text if len(text) <= most else text[:most] + " …"


def levels(symbols: Floats) -> Ints:
    """Contributions as steps of colour, -LEVELS..LEVELS; the strongest symbols get the last step."""
    import numpy as np  # the help of commands imports this module, and needs no numpy

    if not np.any(symbols):
        return np.zeros(len(symbols), np.int64)
    strongest = np.percentile(np.abs(symbols), 98) or np.abs(symbols).max()
    steps = np.minimum(np.floor(np.abs(symbols) / strongest * LEVELS + 0.3), LEVELS)
    return (np.sign(symbols) * steps).astype(np.int64)


def runs(text: str, symbols: Floats) -> list[tuple[str, int]]:
    """Pieces of text with the same step of colour; a combining mark has that of its base."""
    steps = levels(symbols).tolist()
    for i, symbol in enumerate(text):
        if i and unicodedata.combining(symbol):
            steps[i] = steps[i - 1]
    pairs = groupby(zip(text, steps, strict=True), key=lambda pair: pair[1])
    return [("".join(symbol for symbol, _ in run), step) for step, run in pairs]


def label_text(label: object) -> str:
    """A label, several labels, or a number with four digits."""
    if isinstance(label, tuple):
        return ", ".join(map(str, label))
    return f"{label:.4g}" if isinstance(label, float) else str(label)


def sides(explanation: Explanation) -> tuple[str, str]:
    """Names of the sides for which positive and negative contributions speak."""
    if explanation.towards is None:
        return "a higher number", "a lower one"
    against = "other classes" if explanation.against is None else str(explanation.against)
    return str(explanation.towards), against


def format_metric(name: str, value: float | None) -> str:
    """Value of a metric: shares in per cent with two decimals, others with four decimals or four digits."""
    if value is None or not math.isfinite(value):
        return "-"
    if name in SHARES:
        return f"{100 * value:.2f} %"
    return f"{value:.4g}" if name in ("mae", "rmse") else f"{value:.4f}"


def format_interval(name: str, bounds: tuple[float, float] | None) -> str:
    """Bounds of a metric; "" if there are none."""
    if bounds is None or not all(map(math.isfinite, bounds)):
        return ""
    low, high = (format_metric(name, bound) for bound in bounds)
    return f"{low.removesuffix(' %')} to {high}"


def metric_rows(results: Results) -> list[list[str]]:
    """Name, value and interval of each metric."""
    metrics, intervals = results.metrics, results.intervals
    return [
        [title, format_metric(name, metrics[name]), format_interval(name, intervals.get(name))]
        for name, title in NAMES.items()
        if name in metrics
    ]


def classes_table(results: Results) -> tuple[list[str], list[list[str]]]:
    """Head, and figures of each class; of several labels per document also where precision is recall."""
    several, rows = results.task == "multilabel", []
    for figures in results.per_class:
        label, shares = figures["label"], ("precision", "recall", "f1")
        row = [str(label), *(format_metric(name, figures[name]) for name in shares)]
        row.append(format_interval("f1", results.intervals.get(f"f1[{label}]")))
        row.append(format_metric("average_precision", figures["average_precision"]))
        if several:
            row += [format_metric("break_even", figures["break_even"]), f"{figures['threshold']:.3f}"]
        rows.append([*row, f"{figures['support']:,}", f"{figures['predicted']:,}"])
    more = ["break-even point", "threshold"] if several else []
    return ["", "precision", "recall", "F1", "95 % interval", "AUPRC", *more, "documents", "predicted"], rows


def length_alone(metrics: dict[str, float]) -> str:
    """Sentence about the length baseline of a regression; "" if there is none."""
    if not metrics:
        return ""
    values = (f"{NAMES[name]} {format_metric(name, metrics[name])}" for name in NAMES if name in metrics)
    figures = ", ".join(values)
    return f"The length of a text alone, a monotone fit to the training documents, reaches {figures}."


class ProgressBars:
    """Callback that shows the progress of a long work: a bar in a notebook, lines on stderr elsewhere.

    It is the value of `progress` in any function that has this parameter.

    Examples
    --------
    >>> from textsvm import SVC, ProgressBars
    >>> model = SVC().fit(["win cash", "lunch at noon"], ["spam", "ham"], progress=ProgressBars())
    """

    def __init__(self) -> None:
        self._stage, self._shown, self._ended = "", 0.0, True  # of the last call that was shown
        self._output: Any = None  # in a notebook

    def __call__(self, *work: Any) -> None:
        """Show (stage, done, total) or (done, total), at most five times a second and at ends of stages."""
        stage, share = str(work[0]) if len(work) > 2 else "", work[-2] / (work[-1] or 1)
        same, now = stage == self._stage, time.monotonic()
        if same and now - self._shown < 0.2 and (share < 1 or self._ended):
            return
        start = "\r" if same or self._ended else "\n"
        self._stage, self._shown, self._ended = stage, now, share >= 1
        if "ipykernel" not in sys.modules:
            end = "\n" if self._ended else ""
            print(f"{start}{stage:12} {share:4.0%}", end=end, file=sys.stderr, flush=True)
            return
        shown = import_module("IPython.display")
        bar = shown.HTML(f"<progress value={share:.3f}></progress> {safe(stage)}")
        if self._output is None:
            self._output = shown.display(bar, display_id=True)
        else:
            self._output.update(bar)
