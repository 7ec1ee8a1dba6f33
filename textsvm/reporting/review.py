"""Doubtful labels -> a page to review them on: each text with what speaks against its label, and beside it
the near-copy, or the nearest text of the label that is suggested.

As every page of `textsvm.reporting.html`: one file, no network, no script but its own, whole without script.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from textsvm.reporting.escape import safe
from textsvm.reporting.html import page
from textsvm.selection.doubts import Doubt

#: Texts on a page, and symbols of a text and of the one beside it that are shown.
MOST, SHOWN, SHOWN_BESIDE = 500, 2000, 800
_ANY = '<option value="">any</option>'
KINDS = {"label": "doubtful label", "copy": "near-copy of another label", "outlier": "resembles nothing"}


@dataclass(frozen=True)
class Review:
    """What a page of doubtful labels shows.

    Attributes
    ----------
    title : str
    doubts : sequence of Doubt
        The most doubtful first.
    ids : sequence of str
        Of all texts, as `labels`.
    labels : sequence of label
    text : callable
        ``text(index)`` is the text of that number; "" where there is none.
    """

    title: str
    doubts: Sequence[Doubt]
    ids: Sequence[str]
    labels: Sequence[object]
    text: Callable[[int], str]


def render(review: Review) -> str:
    """The page.

    Parameters
    ----------
    review : Review

    Returns
    -------
    str
        To be written in UTF-8.
    """
    shown = review.doubts[:MOST]
    places = {label: str(k) for k, label in enumerate(_labels(shown))}
    body = [
        _counts(review),
        _filters(places) if shown else "",
        *(_article(review, each, places) for each in shown),
    ]
    if len(review.doubts) > len(shown):
        rest = len(review.doubts) - len(shown)
        body.append(
            f'<p class="note">{rest:,} more are in the list of the command, and not on this page.</p>'
        )
    lead = f"{len(review.doubts):,} of {len(review.ids):,} texts to be looked at, the most doubtful first"
    return page(review.title, lead, body, scripts=("report.js", "review.js"))


def _labels(doubts: Sequence[Doubt]) -> list[str]:
    return sorted({str(one) for each in doubts for one in (each.label, each.suggested)})


def _counts(review: Review) -> str:
    if not review.doubts:
        return (
            "<section><h2>Nothing to be looked at</h2><p>No label is doubtful, and no near-copies differ in "
            "theirs.</p></section>"
        )
    counts = Counter(kind for each in review.doubts for kind in each.kinds)
    tiles = "".join(f"<div><dt>{title}</dt><dd>{counts[kind]:,}</dd></div>" for kind, title in KINDS.items())
    return (
        f'<section><h2>What was found</h2><dl class="tiles">{tiles}</dl><p class="note">The score is the '
        "probability that another label is right, as classifiers that have not seen the text and its most "
        "similar texts have it.</p></section>"
    )


def _filters(places: dict[str, str]) -> str:
    names = "".join(f'<option value="{place}">{safe(label)}</option>' for label, place in places.items())
    kinds = "".join(f'<option value="{kind}">{title}</option>' for kind, title in KINDS.items())
    return (
        '<section id="filters" class="filters" hidden>'
        f'<label>label <select id="filter-label">{_ANY}{names}</select></label>'
        f'<label>suggested <select id="filter-suggested">{_ANY}{names}</select></label>'
        f'<label>reason <select id="filter-kind">{_ANY}{kinds}</select></label>'
        '<label>words <input id="filter-words" type="search"></label>'
        '<output id="filter-shown"></output></section>'
    )


def _article(review: Review, doubt: Doubt, places: dict[str, str]) -> str:
    label, suggested = safe(doubt.label), safe(doubt.suggested)
    change = f"<b>{label}</b>" + (f" → <b>{suggested}</b>?" if doubt.suggested != doubt.label else "")
    reasons = "".join(f"<li>{safe(reason)}</li>" for reason in doubt.reasons)
    text = safe(_cut(review.text(doubt.index), SHOWN))
    return (
        f'<article data-kinds="{" ".join(doubt.kinds)}" data-label="{places[str(doubt.label)]}" '
        f'data-suggested="{places[str(doubt.suggested)]}"><h3>{safe(review.ids[doubt.index])}</h3>'
        f'<p class="note">{change} score {doubt.score:.3f}</p><ul class="reasons">{reasons}</ul>'
        f'<div class="pair"><div class="document" dir="auto">{text}</div>{_beside(review, doubt)}</div>'
        "</article>"
    )


def _beside(review: Review, doubt: Doubt) -> str:
    if doubt.other == doubt.index or doubt.similarity <= 0:
        return ""
    name, label = safe(review.ids[doubt.other]), safe(review.labels[doubt.other])
    text = safe(_cut(review.text(doubt.other), SHOWN_BESIDE))
    return (
        f'<div class="beside"><p class="note">similar ({doubt.similarity:.3f}): {name}, <b>{label}</b></p>'
        f'<div class="document" dir="auto">{text}</div></div>'
    )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most] + " …"
