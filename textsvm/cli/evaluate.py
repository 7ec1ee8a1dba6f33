"""textsvm evaluate: a model and a labelled corpus -> figures."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from textsvm.cli import examples, machines, model_files, options
from textsvm.cli.console import Console, WrongUsage
from textsvm.cli.output import REPORTS, STDOUT, Force, Output
from textsvm.errors import InputError

if TYPE_CHECKING:
    from textsvm.estimators.base import StageProgress
    from textsvm.evaluation.comparison import SideBySide
    from textsvm.evaluation.length_baseline import LengthBaseline
    from textsvm.evaluation.results import Results
    from textsvm.evaluation.slices import Slices
    from textsvm.readers import Corpus
    from textsvm.reporting.report import Report

#: Models side by side.
MOST_MODELS = 8
#: A wider confusion matrix does not fit a terminal.
MOST_COLUMNS = 12


@dataclass(frozen=True)
class ReportFile:
    """Where the report goes, and what is in it."""

    report: Annotated[
        Path | None,
        typer.Option(
            help="Write a report with charts, intervals and explained mistakes: .html, .md or .json."
        ),
    ] = None
    mistakes: Annotated[
        int, typer.Option(min=0, help="Report: so many of the worst mistakes with their texts; 0 for none.")
    ] = 10
    force: Force = False

    def check(self, inputs: dict[str, Any]) -> None:
        """Wrong usage, before any work."""
        if self.report is None:
            return
        kind = REPORTS[".html"] if self.report == STDOUT else REPORTS.get(self.report.suffix.lower())
        if kind is None:
            raise WrongUsage(
                f"--report {self.report}: a report is .html, .md or .json, and the name ends in none of them"
            )
        Output("--report", self.report, kind, self.force).check(inputs)


@dataclass(frozen=True)
class Judging:
    """What the figures are of, and where they are computed."""

    regress: options.Regress = None
    grades: Annotated[
        str | None,
        typer.Option(
            metavar="LOW,HIGH",
            help="Grades of the quadratic weighted kappa, such as 2,12 (default: those that occur).",
        ),
    ] = None
    beside: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="MODEL",
            help="Another model to judge on the same documents: differences, and where they disagree; may be "
            "given several times.",
        ),
    ] = None
    slice: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Tables, FASTA: figures of each value of this column (source, language, year), the worst "
            "first.",
        ),
    ] = None
    device: options.Device = "auto"

    def check(self) -> tuple[int, int] | None:
        """Wrong usage, before any work; the grades."""
        if len(self.beside or []) >= MOST_MODELS:
            raise WrongUsage(f"--beside: a comparison has room for {MOST_MODELS} models")
        return None if self.grades is None else _range(self.grades)


@options.with_groups
def evaluate(
    model: options.ModelPath,
    corpus: options.CorpusPath,
    reading: options.Reading,
    judging: Judging,
    file: ReportFile,
    printing: options.Printing,
) -> None:
    """Judge a model on a labelled corpus.

    Labels are reduced to two, or numbers read from a column, as in training, unless options say otherwise.
    """
    started = time.perf_counter()
    from textsvm.evaluation.judge import machine_of

    console = Console(printing.quiet)
    span = judging.check()
    file.check({"the model": model, "the corpus": corpus, "another model": judging.beside})

    fitted = model_files.load_model(console, model, judging.device)
    training = options.Training.of(fitted)
    several = hasattr(fitted, "label_form_")
    if reading.positive is None:
        reading = replace(reading, positive=training.positive, negative=reading.negative or training.negative)
    documents = options.read(
        console,
        corpus,
        reading,
        options.Learning(
            judging.regress or training.regress,
            multilabel=several,
            label_separator=training.label_separator,
        ),
        groups=judging.slice,
        headers=training.headers,
        kernel=machine_of(fitted).kernel_,
    )
    if not several or documents.labels is None:
        options.targets(documents)
    read = time.perf_counter() - started
    if reading.positive is not None:
        training = replace(training, positive=reading.positive, negative=reading.negative)
    with console.progress():
        results = judge(fitted, documents, training.positive, console.stage, {"read": read}, span)
        beside = None
        if judging.beside:
            texts = documents.texts if file.mistakes and len(documents.texts) else None
            results = results.with_intervals()
            found = {model: results} | {
                path: judge(
                    model_files.load_model(console, path, judging.device), documents, training.positive,
                    console.stage, None, span,
                )
                for path in judging.beside
            }  # fmt: skip
            beside = _beside(found, texts, documents.ids)
        slices = _slices(judging, results, documents)
        if file.report is not None:
            title = f"{model.name} on {examples.names_of(corpus)}"
            made = _report(console, file, fitted, results, documents, title)
            results = made.results
            write_report(console, file, replace(made, slices=slices, beside=beside))
    console.say_device(fitted.device_)
    if printing.json:
        more = {"slices": slices and slices.as_dict(), "beside": beside and beside.as_dict()}
        console.print_json(results.as_dict() | {name: each for name, each in more.items() if each})
    else:
        show(console, f"{model} on {documents.source}", results)
        _show_more(console, slices, beside)


def judge(
    model: Any,
    corpus: Corpus,
    positive: Any,
    progress: StageProgress,
    seconds: dict[str, float] | None = None,
    grades: tuple[int, int] | None = None,
    baseline: LengthBaseline | None = None,
) -> Results:
    """Predict a labelled corpus and compare; towards the class `positive`, if there is one.

    `baseline`: that of a regression; else the one in the model's file.
    """
    from textsvm.evaluation.judge import judge as compare
    from textsvm.evaluation.length_baseline import LengthBaseline

    given, truth = examples.given_to(model, corpus), options.truth(corpus)
    results = compare(model, given, truth, positive, grades, progress, seconds)
    baseline = baseline or LengthBaseline.of(getattr(model, "info_", None))
    if baseline is None or results.task != "regression":
        return results
    return replace(results, length_alone=baseline.judge(corpus.examples, truth, grades))


def _range(grades: str) -> tuple[int, int]:
    bounds = machines.several("--grades", grades, int)
    if len(bounds) != 2 or bounds[0] >= bounds[1]:
        raise WrongUsage(f"--grades {grades} are not two whole numbers, the lower one first")
    return bounds[0], bounds[1]


def _beside(found: dict[Path, Results], texts: Any, ids: list[str]) -> SideBySide:
    """Models by the names of their files, or where two have one by their paths."""
    from textsvm.evaluation.comparison import side_by_side

    short = len({path.name for path in found}) == len(found)
    return side_by_side({path.name if short else str(path): each for path, each in found.items()}, texts, ids)


def _slices(judging: Judging, results: Results, corpus: Corpus) -> Slices | None:
    from textsvm.evaluation.slices import make_slices

    if judging.slice is None:
        return None
    if corpus.groups is None:
        raise InputError(f"{corpus.source} has no column {judging.slice!r}; --slice names one of a table")
    return make_slices(results, judging.slice, corpus.groups)


def _report(
    console: Console, file: ReportFile, model: Any, results: Results, corpus: Corpus, title: str
) -> Report:
    """The report of one model, its results with intervals."""
    from textsvm.reporting.report import make_report

    def progress(done: float, total: float) -> None:
        console.stage("explain", done, total)

    return make_report(
        model, results, examples.given_to(model, corpus), corpus.ids, title, file.mistakes, progress
    )


def write_report(console: Console, file: ReportFile, made: Report) -> None:
    """Write it, and say so."""
    from textsvm.reporting.files import write

    assert file.report is not None
    write(made, file.report)
    console.say(f"report: {file.report}")


def _show_more(console: Console, slices: Slices | None, beside: SideBySide | None) -> None:
    """Models side by side and slices as tables."""
    from textsvm.reporting.sections import models_note, models_table, slices_note, slices_table

    if beside is not None:
        head, rows = models_table(beside)
        console.table("models side by side", [tuple(row) for row in rows], tuple(head))
        console.line(models_note(beside))
    if slices is not None:
        head, rows = slices_table(slices)
        console.table(f"by {slices.column}", [tuple(row) for row in rows], tuple(head))
        console.line(slices_note(slices))


def show(console: Console, title: str, results: Results) -> None:
    """The figures, the classes and the confusion matrix as tables."""
    from textsvm.reporting.formatting import NAMES, format_interval, format_metric, length_alone

    for warning in results.warnings:
        console.say(f"warning: {warning}")
    positive = f", positive is {results.labels[1]}" if results.task == "binary" else ""
    rows = [
        (
            title,
            format_metric(name, results.metrics[name]),
            format_interval(name, results.intervals.get(name)),
        )
        for name, title in NAMES.items()
        if name in results.metrics
    ]
    console.table(f"{title}: {results.n:,} documents{positive}", rows)
    if results.task == "regression":
        if results.length_alone:
            console.line(length_alone(results.length_alone))
        return
    labels = [str(label) for label in results.labels]
    if results.task != "binary":
        several = results.task == "multilabel"
        shares = ("precision", "recall", "f1", "average_precision", *("break_even",) * several)
        classes = [
            (
                str(each["label"]),
                *(format_metric(n, each[n]) for n in shares),
                *(f"{each[n]:.3f}" for n in ("threshold",) * several),
                f"{each['support']:,}",
            )
            for each in results.per_class
        ]
        more = ("break-even", "threshold") if several else ()
        console.table("classes", classes, ("", "precision", "recall", "F1", "AUPRC", *more, "documents"))
    if results.confusion and len(labels) <= MOST_COLUMNS:
        console.table(
            "confusion matrix",
            [(f"truly {label}", *(f"{count:,}" for count in row))
             for label, row in zip(labels, results.confusion, strict=True)],
            ("", *(f"said {label}" for label in labels)),
        )  # fmt: skip
