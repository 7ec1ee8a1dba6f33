"""Evaluate models on labelled corpora: results, their tables in the terminal, reports in files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from textsvm.arrays import Json
from textsvm.cli import corpora
from textsvm.cli.console import Console
from textsvm.cli.output import ReportFile
from textsvm.errors import InputError
from textsvm.evaluation.comparison import SideBySide
from textsvm.evaluation.estimate import LengthBaseline, truth_of
from textsvm.evaluation.judge import judge
from textsvm.evaluation.results import Results, exact_intervals
from textsvm.evaluation.slices import Slices, make_slices
from textsvm.kernels.base import Kernel
from textsvm.kernels.spelling import spell
from textsvm.model.labels import label_sets
from textsvm.model.rules import ClassRule, NumberRule, Rule
from textsvm.model.settings import Settings
from textsvm.model.trained import TrainedModel
from textsvm.readers.corpus import Corpus
from textsvm.reporting import html, sections
from textsvm.reporting.charts import write_figures
from textsvm.reporting.files import write
from textsvm.reporting.formatting import NAMES, classes_table, format_metric, length_alone, metric_rows
from textsvm.reporting.report import Report, report_of_folds, results_of
from textsvm.runtime.device import select
from textsvm.runtime.plain_json import to_json
from textsvm.selection.cross_validation import CrossValidation, LearningCurve
from textsvm.selection.scoring import mean_and_sd
from textsvm.text.pieces import mean_of_pieces
from textsvm.version import __version__

MOST_COLUMNS = 12  #: Most classes of a printed confusion matrix.
MOST_ROWS = 24  #: Most rows of a printed table of slices.


def write_report(console: Console, file: ReportFile, report: Report) -> None:
    """Write a report and its figures, and print their paths."""
    if file.report is not None:
        write(report, file.report)
        console.say(f"report: {file.report}")
    if file.figures is not None:
        console.say(f"figures: {len(write_figures(file.figures, html.charts(report)))} in {file.figures}")


def show_comparisons(console: Console, slices: Slices | None, beside: SideBySide | None) -> None:
    """Print the tables of compared models and of slices."""
    if beside is not None:
        head, rows = sections.models_table(beside)
        console.table("models side by side", rows, head)
        console.line(sections.models_note(beside))
    if slices is not None:
        head, rows = sections.slices_table(slices, MOST_ROWS)
        console.table(f"by {slices.column}", rows, head)
        console.line(sections.slices_note(slices, MOST_ROWS))


def show_results(console: Console, title: str, results: Results, n_given: int | None = None) -> None:
    """Print metrics, classes and confusion matrix as tables; of `n_given` documents some may be left out."""
    console.warn(*results.warnings)
    positive = f", positive is {results.labels[1]}" if results.task == "binary" else ""
    of_all = f" of {n_given:,}" if n_given not in (None, results.n) else ""
    if not results.intervals and results.task != "regression":
        results = replace(results, intervals=exact_intervals(results))
    header = ("", "", "95 % interval") if results.intervals else ()
    console.table(f"{title}: {results.n:,}{of_all} documents{positive}", metric_rows(results), header)
    if results.task == "regression":
        if results.length_alone:
            console.line(length_alone(results.length_alone))
        return
    labels = [str(label) for label in results.labels]
    if results.task != "binary":
        head, rows = classes_table(results)
        console.table("classes", rows, head)
    show_levels(console, results.levels)
    if results.confusion and len(labels) <= MOST_COLUMNS:
        console.table(
            "confusion matrix",
            [(f"truly {label}", *(f"{count:,}" for count in row))
             for label, row in zip(labels, results.confusion, strict=True)],
            ("", *(f"said {label}" for label in labels)),
        )  # fmt: skip


def show_levels(console: Console, levels: list[Json]) -> None:
    """Print the figures of each level of a hierarchy of labels."""
    names = [name for name in NAMES if levels and name in levels[0]]
    rows = [[str(x["level"]), f"{x['classes']:,}", *(format_metric(y, x[y]) for y in names)] for x in levels]
    if rows:
        console.table("levels of the labels", rows, ("level", "labels", *(NAMES[x] for x in names)))


def by_value(
    fitted: TrainedModel, judged: Results, corpus: Corpus, column: str | None, positive: str | None
) -> Slices | None:
    """Results for each value of a column, or on the pieces of each text; None without both."""
    if column is not None:
        if corpus.groups is None:
            raise InputError(f"{corpus.source} has no column {column!r} for --slice")
        return make_slices(judged, column, corpus.groups)
    if fitted.pieces is None or fitted.pieces.length is None:
        return None
    pieces = corpus.cut(fitted.pieces)
    of_pieces = judge(replace(fitted, pieces=None), pieces.texts, truth_of(pieces), positive)
    return make_slices(of_pieces, "text", [corpus.ids[i] for i in pieces.piece_of or ()])


# Cross-validation


def show_learning_curve(console: Console, curve: LearningCurve) -> None:
    """Print a learning curve, and what it says about more documents."""
    head, rows = sections.learning_table(curve)
    console.table("learning curve", rows, head)
    console.line(sections.learning_sentence(curve))


def report_on_folds(
    settings: Settings, corpus: Corpus, result: CrossValidation, pooled: Results, title: str, mistakes: int
) -> Report:
    """Report on the out-of-fold predictions."""
    facts = [
        ("machine", settings.estimator), ("kernel", spelled(settings)), ("C", f"{settings.as_dict()['C']:g}"),
        ("folds", f"{len(result.folds)}, each document judged by machines that were not trained on it"),
        ("corpus", corpus.source), ("kernel matrix", result.gram),
        ("device", select(settings.device).description),
        ("written by", f"textsvm {__version__}"),
    ]  # fmt: skip
    return report_of_folds(pooled, corpus.texts, corpus.ids, title, facts, mistakes)


def results_on_texts(corpus: Corpus, result: CrossValidation, positive: str | None) -> Results | None:
    """Results on texts by the means of the out-of-fold values of their pieces; None without pieces."""
    if corpus.piece_of is None or result.predictions.ndim == 2:
        return None
    truth = truth_of(corpus.first_pieces)
    rule = NumberRule() if corpus.targets is not None else ClassRule(np.unique(np.asarray(truth)), "ovr")
    return results_of(on_texts(result, corpus, rule), truth, positive)


def on_texts(result: CrossValidation, corpus: Corpus, rule: Rule) -> CrossValidation:
    """The values and predictions of texts, by the means of the values of their pieces."""
    if corpus.piece_of is None:
        return result
    numbers = np.array(corpus.piece_of)
    decision, first = mean_of_pieces(result.decision, numbers), np.unique(numbers, return_index=True)[1]
    return replace(
        result, decision=decision, predictions=rule.predictions(decision), tested=result.tested[first]
    )


def summary_of_folds(result: CrossValidation, corpus: Corpus, settings: Settings) -> Json:
    """JSON values of a cross-validation, with ids of documents."""
    values = result.as_dict()
    return {
        "n": len(corpus),
        "reading": corpus.reading,
        "kernel": to_json(settings.kernel),
        "kernel_spelled": spelled(settings),
        "chosen": values["chosen"],
        "C": settings.as_dict()["C"],
        "device": select(settings.device).description,
        "folds": [
            {"n_train": len(train), "n_test": len(test), "metrics": fold["metrics"]}
            for (train, test), fold in zip(result.folds, values["folds"], strict=True)
        ],
        "mean": values["mean"],
        "sd": values["sd"],
        "pooled": values["pooled"],
        "near_duplicates": corpora.leaks_by_id(values["leaks"], corpus),
        "copies": result.copies,
        "kernel_matrix": result.gram,
    }


def length_alone_on_folds(corpus: Corpus, result: CrossValidation) -> dict[str, float] | None:
    """Mean metrics of predictions from lengths alone on the same folds, for a regression on texts."""
    if corpus.targets is None:
        return None
    table = []
    for train, test in result.folds:
        training, tested = corpus.subset(train), corpus.subset(test)
        if (baseline := LengthBaseline.fit(training.examples, training.targets or [])) is None:
            return None
        table.append(baseline.judge(tested.examples, tested.targets or []))
    return mean_and_sd(table)[0]


def fold_predictions(corpus: Corpus, truth: Sequence[Any], result: CrossValidation) -> Iterator[Json]:
    """The out-of-fold predictions of each document."""
    values = result.as_dict()
    if isinstance(truth[0], tuple):
        classes = np.unique([label for labels in truth for label in labels])
        values["predictions"] = label_sets(result.predictions, classes)
    folds_of: list[list[int]] = [[] for _ in corpus.ids]
    for number, (_, test) in enumerate(result.folds, 1):
        for i in test.tolist():
            folds_of[i].append(number)
    rows = zip(corpus.ids, truth, values["predictions"], values["decision"], folds_of, strict=True)
    for identifier, true, predicted, decision, folds in rows:
        yield {"id": identifier, "truth": true, "predicted": predicted, "decision": decision, "folds": folds}


def spelled(settings: Settings) -> str:
    """Kernel of an estimator spelled out, or the name of the way to choose it."""
    kernel = settings.kernel
    return spell(kernel) if isinstance(kernel, Kernel) else str(kernel)
