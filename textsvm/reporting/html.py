"""Reports as a single HTML file: no network access, no library, complete without script.

Text from documents, labels and files goes through `safe`. The page's security policy allows only its own
script (by hash) and no connection. Data for the script is JSON without "<".
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.resources import files
from string import Template

from textsvm.evaluation.results import Results
from textsvm.reporting import curves, sections
from textsvm.reporting.formatting import classes_table, html_table, length_alone, metric_rows, safe, section
from textsvm.reporting.maps import map_sections
from textsvm.reporting.report import Report

MOST_CLASSES = 25  #: Maximum number of classes of a confusion matrix that is shown
MOST_BESIDE = 8  #: Maximum number of classes of a matrix that fits beside a chart


def render(report: Report) -> str:
    """The report as a page, to be written in UTF-8."""
    results = report.results
    facts = "".join(f"<tr><th>{safe(name)}</th><td>{safe(value)}</td></tr>" for name, value in report.facts)
    body = [
        _warnings(results), _headline(results), sections.models_section(report.beside),
        curves.threshold_section(results), _charts(report), _classes(results),
        sections.features_section(report.features), sections.slices_section(report.slices),
        sections.learning_section(report.learning),
        *(map_sections(report.class_map, report.map_ids) if report.class_map else ()),
        sections.mistakes_section(report),
        section("How it was made", f'<table class="facts">{facts}</table>'),
    ]  # fmt: skip
    scores = curves.threshold_data(results)
    return page(report.title, _lead(results), body, "" if scores is None else json_element("scores", scores))


def charts(report: Report) -> str:
    """The page and the charts that are tables on it, for `textsvm.reporting.charts.write_figures`."""
    return f"{render(report)}<section>{curves.confusion(report.results)}</section>"


def page(
    title: str, lead: str, body: Iterable[str], data: str = "", scripts: Sequence[str] = (), script: str = "",
    connections: str = "",
) -> str:  # fmt: skip
    """A page of HTML sections, light and dark.

    `data` is elements for the scripts: report.js, other files of this folder, and the text of a script.
    `connections` is a directive of the security policy for scripts that connect to a server, with its ";".
    The policy allows WebAssembly if the text of the script has it.
    """
    script = "".join(map(_file, ("report.js", *scripts))) + script
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return Template(_file("template.html")).substitute(
        title=safe(title), lead=safe(lead),
        style=Template(_file("report.css")).substitute(curves.slider_place()),
        body="\n".join(part for part in body if part), data=data, script=script,
        script_hash=f"sha256-{digest}", more_scripts=" 'wasm-unsafe-eval'" if "WebAssembly" in script else "",
        connections=connections,
    )  # fmt: skip


def json_element(name: str, data: object) -> str:
    content = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{content}</script>'


@lru_cache
def _file(name: str) -> str:
    return files("textsvm.reporting").joinpath(name).read_text("utf-8")


def _lead(results: Results) -> str:
    if results.task == "regression":
        return f"{results.n:,} documents, numbers predicted"
    if results.task == "binary":
        negative, positive = results.labels
        return f"{results.n:,} documents; {positive} is to be told from {negative}"
    if results.task == "multilabel":
        return f"{results.n:,} documents, each with any of {len(results.labels)} labels"
    return f"{results.n:,} documents of {len(results.labels)} classes"


def _warnings(results: Results) -> str:
    if not results.warnings:
        return ""
    paragraphs = "".join(f"<p>{safe(warning)}.</p>" for warning in results.warnings)
    title = "<h2>Take these figures with care</h2>"
    return f'<section class="warning" role="alert">{title}{paragraphs}</section>'


def _headline(results: Results) -> str:
    tiles = "".join(
        f"<div><dt>{title}</dt><dd>{value}<small>{interval or '&nbsp;'}</small></dd></div>"
        for title, value, interval in metric_rows(results)
    )
    grades = f" Grades from {results.span[0]} to {results.span[1]}." if results.span else ""
    positive = ""
    if results.task == "binary":
        positive = f" Precision, recall, F1 and AUPRC are those of {safe(results.labels[1])}."
    method = "percentile bootstrap over documents"
    if results.task != "regression":
        exact = "shares and F1 of a class: Clopper and Pearson"
        method = f"{exact}; others: {method}, none if all resamples agree"
    area = "average precision, the area under the precision-recall curve"
    terms = {
        "average_precision": f" AUPRC: {area}.",
        "mcc": " MCC: Matthews correlation.",
        "qwk": " QWK: quadratic weighted kappa.",
    }
    terms_used = "".join(meaning for name, meaning in terms.items() if name in results.metrics)
    note = f"Below each figure its 95 % interval ({method}).{positive}{terms_used}{grades}"
    alone = length_alone(results.length_alone)
    return section("Headline", f'<dl class="tiles">{tiles}</dl>', note=f"{note} {alone}")


def _charts(report: Report) -> str:
    """Two charts a row; the last chart is as wide as the page if it would be alone in its row."""
    results = report.results
    if results.task == "multilabel":
        charts = [curves.roc(results), curves.precision_recall(results)]
        return f'<div class="grid">{"".join(charts)}</div>' if any(charts) else ""
    if results.task == "regression":
        charts = [curves.scatter(results), curves.error_histogram(results)]
    else:
        kinds = (_confusion, curves.roc, curves.precision_recall, curves.calibration, curves.margins)
        charts = [chart for kind in kinds if (chart := kind(results))]
    even = (len(charts) - charts[0].startswith('<section class="full">')) % 2 == 0
    last = curves.by_length(results, report.lengths, wide=even)
    beside, below = ("", last) if even else (last, "")
    return f'<div class="grid">{"".join(charts)}{beside}</div>{below}'


def _confusion(results: Results) -> str:
    if len(results.labels) > MOST_CLASSES:
        return _common_confusions(results)
    head = "".join(f"<th>{safe(label)}</th>" for label in results.labels)
    two, rows = len(results.labels) == 2, []
    for a, (label, counts) in enumerate(zip(results.labels, results.confusion, strict=True)):
        total, cells = max(1, sum(counts)), ""
        for b, count in enumerate(counts):
            name = f' id="cell-{a}{b}"' if two else ""  # for the page's script
            cells += (
                f'<td{name} class="{"hit" if a == b else "miss"}" style="--a:{count / total:.2f}">'
                f"<b>{count:,}</b><small>{100 * count / total:.1f} %</small></td>"
            )
        rows.append(f"<tr><th>{safe(label)}</th>{cells}</tr>")
    size = ""
    if two:
        size = " two"
    elif len(results.labels) > 5:
        size = " many"
    shares = "Colour: share of the row." if size == " many" else "Below: share of the row, in per cent."
    return section(
        "Confusion matrix",
        '<p class="note">Number of documents. Rows: true class. Columns: predicted class. ',
        f'{shares}</p><div class="scroll"><table class="confusion{size}"><thead><tr><th></th>{head}</tr>',
        f"</thead><tbody>{''.join(rows)}</tbody></table></div>",
        style="full" if len(results.labels) > MOST_BESIDE else "",
    )


def _common_confusions(results: Results) -> str:
    pairs = [
        (count, results.labels[a], results.labels[b])
        for a, counts in enumerate(results.confusion)
        for b, count in enumerate(counts)
        if a != b and count
    ]
    pairs.sort(key=lambda pair: -pair[0])
    rows = [[safe(truth), safe(predicted), f"{count:,}"] for count, truth, predicted in pairs[:15]]
    table = html_table(["true class", "predicted class", "documents"], rows)
    return section("Most frequent confusions", table)


def _classes(results: Results) -> str:
    if results.task == "regression":
        return ""
    head, rows = classes_table(results)
    meaning = (
        '<p class="note">Break-even point: where precision is recall. A document gets a label whose decision '
        "value is above its threshold.</p>"
    )
    table = html_table(head, [[safe(name), *cells] for name, *cells in rows])
    return section("Classes", meaning if results.task == "multilabel" else "", table)
