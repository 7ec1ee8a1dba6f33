"""Pages of other commands, like those of `html`: doubtful labels, and a comparison of classifiers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from textsvm.evaluation.comparison import ClassifierScore
from textsvm.reporting.charts import IntervalLine, intervals_chart
from textsvm.reporting.formatting import cut, html_table, key, safe, section
from textsvm.reporting.html import json_element, page
from textsvm.selection.doubts import Doubt

MOST = 500  #: Maximum number of texts on a page
SHOWN = 2000  #: Symbols shown of a text
SHOWN_BESIDE = 800  #: Symbols shown of the text beside it
_ANY = '<option value="">any</option>'
_DECIDE = (
    '<p class="decide" hidden><button type="button" value="keep">Keep</button><button type="button" '
    'value="change">Change to</button><select aria-label="new label"></select><button type="button" '
    'value="unsure">Unsure</button></p>'
)
KINDS = {"label": "doubtful label", "copy": "near-copy of another label", "outlier": "resembles nothing"}


@dataclass(frozen=True)
class Review:
    """Content of a page of doubtful labels."""

    title: str
    doubts: Sequence[Doubt]  #: The most doubtful first
    ids: Sequence[str]  #: Of all texts
    labels: Sequence[object]  #: Of all texts
    text: Callable[[int], str]  #: ``text(index)`` returns a text, "" if there is none


def review_page(review: Review) -> str:
    """Page of doubtful labels: each text with the reasons, beside its most relevant neighbour."""
    doubts = review.doubts[:MOST]
    labels = sorted({str(label) for doubt in doubts for label in (doubt.label, doubt.suggested)})
    places = {label: str(k) for k, label in enumerate(labels)}
    all_labels = sorted({str(label) for label in review.labels} | places.keys())
    body = [_counts(review), _filters(places, all_labels) if doubts else ""]
    body += [_doubt_article(review, doubt, places) for doubt in doubts]
    if rest := len(review.doubts) - len(doubts):
        body.append(f'<p class="note">{rest:,} more are only in the list of the command.</p>')
    lead = f"{len(review.doubts):,} of {len(review.ids):,} texts to be looked at, the most doubtful first"
    # Exact ids and labels for the page's script, which saves the reader's decisions.
    decided = {
        "ids": [str(review.ids[doubt.index]) for doubt in doubts],
        "own": [all_labels.index(str(doubt.label)) for doubt in doubts],
        "likeliest": [all_labels.index(str(doubt.suggested)) for doubt in doubts],
        "labels": all_labels,
    }
    data = json_element("review", decided) if doubts else ""
    return page(review.title, lead, body, data, scripts=("review.js",))


def _counts(review: Review) -> str:
    if not review.doubts:
        text = "<p>No label is doubtful, and no near-copies differ in theirs.</p>"
        return section("Nothing to be looked at", text)
    counts = Counter(kind for doubt in review.doubts for kind in doubt.kinds)
    tiles = "".join(f"<div><dt>{title}</dt><dd>{counts[kind]:,}</dd></div>" for kind, title in KINDS.items())
    return section(
        "Texts by reason",
        f'<dl class="tiles">{tiles}</dl>',
        note="The score is the probability that another label is right, estimated from classifiers that were "
        "not trained on the text and from its most similar texts.",
    )


def _filters(places: dict[str, str], all_labels: list[str]) -> str:
    """Controls of the texts shown and of the decisions; `all_labels` are those that a text may get."""
    labels = "".join(f"<option>{safe(label)}</option>" for label in all_labels)
    names = "".join(f'<option value="{place}">{safe(label)}</option>' for label, place in places.items())
    kinds = "".join(f'<option value="{kind}">{title}</option>' for kind, title in KINDS.items())
    return (
        '<section id="filters" class="filters" hidden>'
        f'<label>label <select id="filter-label">{_ANY}{names}</select></label>'
        f'<label>suggested <select id="filter-suggested">{_ANY}{names}</select></label>'
        f'<label>reason <select id="filter-kind">{_ANY}{kinds}</select></label>'
        '<label>words <input id="filter-words" type="search"></label>'
        '<output id="filter-shown"></output>'
        f'<select id="labels" hidden>{labels}</select><p class="note">'
        '<output id="decided">0 decided</output> '
        '<button id="save-decisions" type="button" disabled>Save decisions</button> Keys: ↓ ↑ next and '
        "previous text, ← keep the label, → change it, u unsure. <code>textsvm train --corrections FILE"
        "</code> applies the saved file: it changes labels and leaves out unsure texts.</p></section>"
    )


def _doubt_article(review: Review, doubt: Doubt, places: dict[str, str]) -> str:
    label, suggested = safe(doubt.label), safe(doubt.suggested)
    change = f"<b>{label}</b>" + (f" → <b>{suggested}</b>?" if doubt.suggested != doubt.label else "")
    reasons = "".join(f"<li>{safe(reason)}</li>" for reason in doubt.reasons)
    text = safe(cut(review.text(doubt.index), SHOWN))
    return (
        f'<article data-kinds="{" ".join(doubt.kinds)}" data-label="{places[str(doubt.label)]}" '
        f'data-suggested="{places[str(doubt.suggested)]}"><h3>{safe(review.ids[doubt.index])}</h3>'
        f'<p class="note">{change} score {doubt.score:.3f}</p><ul class="reasons">{reasons}</ul>'
        f'<div class="pair"><div class="document" dir="auto">{text}</div>{_beside(review, doubt)}</div>'
        f"{_DECIDE}</article>"
    )


def _beside(review: Review, doubt: Doubt) -> str:
    if doubt.other == doubt.index or doubt.similarity <= 0:
        return ""
    name, label = safe(review.ids[doubt.other]), safe(review.labels[doubt.other])
    text = safe(cut(review.text(doubt.other), SHOWN_BESIDE))
    return (
        f'<div class="beside"><p class="note">similar ({doubt.similarity:.3f}): {name}, <b>{label}</b></p>'
        f'<div class="document" dir="auto">{text}</div></div>'
    )


def accuracy_chart(compared: Sequence[ClassifierScore]) -> str:
    """Accuracies with intervals, the best on top; a dashed line at the first classifier."""
    order = sorted(compared, key=lambda row: -row.accuracy)
    styles = {True: "c2", False: "c7"}
    lines = [IntervalLine(row.name, row.accuracy, row.interval, styles[row.is_textsvm]) for row in order]
    title = "Accuracy of each classifier, with 95 % intervals"
    chart = intervals_chart(title, "accuracy", "accuracy", lines, compared[0].accuracy)
    return section(
        "Accuracy",
        key([("textsvm", "c2"), ("scikit-learn", "c7")]),
        chart,
        note=f"On {compared[0].n:,} documents, with 95 % intervals (Wilson). Dashed: "
        f"{safe(compared[0].name)}. The intervals of two classifiers on the same documents may overlap "
        "although one is clearly better: see the paired test in the table.",
        style="wide",
    )


def comparison_table(compared: Sequence[ClassifierScore]) -> str:
    head = ("", "accuracy", "95 % interval", "macro F1", "difference", "p", "seconds")
    rows = [[safe(cell) for cell in (row.name, *comparison_cells(row))] for row in compared]
    parameters = "".join(f"<li>{safe(row.name)}: {safe(row.chosen)}</li>" for row in compared if row.chosen)
    return section(
        "Figures",
        html_table(head, rows),
        f'<ul class="reasons">{parameters}</ul>',
        note=f"Difference: points of accuracy against {safe(compared[0].name)}, with its 95 % interval; p: "
        f"{name_of_test(compared[0].n_groups)}. Seconds: training and prediction, from texts in memory.",
    )


def name_of_test(n: int | None) -> str:
    """Name of the test, over documents or n groups."""
    return "exact McNemar test" if n is None else f"exact sign test; intervals and p over {n:,} groups"


def comparison_cells(classifier: ClassifierScore) -> tuple[str, ...]:
    """Cells of a classifier's row after its name."""
    low, high = classifier.interval
    difference, p_value = "", ""
    if classifier.paired is not None:
        a, b = classifier.paired.interval
        difference = f"{100 * classifier.paired.difference:+.2f} ({100 * a:+.2f} to {100 * b:+.2f})"
        p_value = f"{classifier.paired.p_value:.2g}"
    accuracy = (f"{100 * classifier.accuracy:.2f} %", f"{100 * low:.2f} to {100 * high:.2f}")
    return *accuracy, f"{100 * classifier.macro_f1:.2f} %", difference, p_value, f"{classifier.seconds:.2f}"
