"""The worst mistakes of a report: texts coloured by what their values come from, and similar ones."""

from __future__ import annotations

from typing import Any

from textsvm.evaluation.explanation import Explanation
from textsvm.reporting import logo
from textsvm.reporting.escape import runs, safe, visible
from textsvm.reporting.report import Mistake, Report

#: Symbols of a document, and of a similar one, that are shown.
SHOWN, SHOWN_SIMILAR = 2000, 300
#: Letters of DNA or RNA, and how many of them are no word; how many are drawn as a logo.
BASES, NO_WORD, DRAWN = set("acgtun"), 12, 300


def section(report: Report) -> str:
    """The worst mistakes as HTML."""
    results = report.results
    differ = results.predicted != results.truth
    wrong = int((differ.any(axis=1) if results.task == "multilabel" else differ).sum())
    if not report.mistakes:
        count = (
            f"{wrong:,} of {results.n:,} documents; texts are left out of this report." if wrong else "None."
        )
        return f"<section><h2>Mistakes</h2><p>{count}</p></section>"
    regression = results.task == "regression"
    title = "The largest errors" if regression else f"The worst of {wrong:,} mistakes"
    explained = [each.explanation for each in report.mistakes if each.explanation is not None]
    if not explained:
        why = "they would have taken too long, or no model with its texts is there to explain them"
        note = f"The first {SHOWN:,} symbols of each, without colours: {why}."
        intro = f'<section><h2>{title}</h2><p class="note">{note}</p></section>'
        return intro + "".join(_article(each, regression) for each in report.mistakes)
    method = f" The colours are {explained[0].attribution.description}."
    if len(explained) < len(report.mistakes):
        method += " Where a text has no colours, they would have taken too long."
    binary = results.task == "binary"
    towards, away = (
        (safe(results.labels[1]), safe(results.labels[0])) if binary else ("the prediction", "other classes")
    )
    if results.task == "multilabel":
        towards, away = "the label of the largest value", "the others"
    if regression:
        towards, away = "a higher number", "a lower one"
    key = f'<li class="c2">speaks for {towards}</li><li class="c1">speaks for {away}</li>'
    intro = (
        f'<section><h2>{title}</h2><ul class="key">{key}</ul><p class="note">Texts are shown as the model '
        f"reads them: normalised, and the first {SHOWN:,} symbols.{method}</p></section>"
    )
    return intro + "".join(_article(each, regression) for each in report.mistakes)


def _article(mistake: Mistake, regression: bool) -> str:
    what = (
        f"is {mistake.truth:.4g}, predicted {mistake.predicted:.4g} ({mistake.value:+.4g})"
        if regression
        else f"is {mistake.truth}, predicted {mistake.predicted} ({mistake.value:+.3f})"
    )
    head = f'<article><h3>{safe(mistake.id)}</h3><p class="note">{safe(what)}</p>'
    explanation = mistake.explanation
    if explanation is None:
        return f'{head}<div class="document" dir="auto">{safe(_cut(mistake.text, SHOWN))}</div></article>'
    shown = explanation.text[:SHOWN]
    coloured = "".join(
        f'<span class="{"f" if step > 0 else "a"}{abs(step)}">{safe(piece)}</span>' if step else safe(piece)
        for piece, step in runs(shown, explanation.symbols[:SHOWN])
    )
    more = len(explanation.text) - len(shown)
    rest = f'<p class="note">… {more:,} more symbols</p>' if more else ""
    body = f'<div class="document" dir="auto">{coloured}</div>{rest}{_logo(explanation)}'
    return f"{head}{body}{_evidence(explanation)}</article>"


def _logo(explanation: Explanation) -> str:
    """What the letters of a sequence of DNA or RNA contribute, as heights."""
    text = explanation.text[:DRAWN]
    if len(text) < NO_WORD or not set(text.lower()) <= BASES:
        return ""
    about = f"of the first {DRAWN} letters" if len(explanation.text) > DRAWN else "of the letters"
    panel = logo.panel_of_symbols(f"contributions {about}", text, explanation.symbols[: len(text)], "value")
    return logo.svg([panel], f"What the letters of {text} contribute")


def _evidence(explanation: Explanation) -> str:
    parts = []
    if explanation.substrings:
        items = "".join(
            f"<li><code>{safe(visible(each.text))}</code>{f' × {each.count}' if each.count > 1 else ''} "
            f"{_signed(each.contribution)}</li>"
            for each in explanation.substrings
        )
        parts.append(f"<details open><summary>substrings that count most</summary>"
                     f'<ul class="substrings">{items}</ul></details>')  # fmt: skip
    if explanation.similar:
        items = "".join(
            f"<li>{_signed(each.contribution)} training document {safe(each.name)}, "
            f"similarity {each.kernel:.3f}: {safe(_cut(each.text, SHOWN_SIMILAR))}</li>"
            for each in explanation.similar
        )
        parts.append(f"<details><summary>training documents that count most</summary>"
                     f'<ul class="similar">{items}</ul></details>')  # fmt: skip
    return "".join(parts)


def _signed(value: float) -> str:
    return f'<b class="{"for" if value > 0 else "against"}">{value:+.3f}</b>'.replace("-", "−")


def _cut(text: str, most: int) -> Any:
    return text if len(text) <= most else text[:most] + " …"
