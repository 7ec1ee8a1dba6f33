"""textsvm evaluate: a model and a labelled corpus -> metrics."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from textsvm.cli import corpora, machines, model_files, options
from textsvm.cli.console import Console, WrongUsage
from textsvm.cli.options import option
from textsvm.cli.output import Force, check_report
from textsvm.errors import InputError

if TYPE_CHECKING:
    from textsvm.evaluation.comparison import SideBySide
    from textsvm.evaluation.length_baseline import LengthBaseline
    from textsvm.evaluation.results import Results
    from textsvm.evaluation.slices import Slices
    from textsvm.readers.corpus import Corpus
    from textsvm.reporting.report import Report
    from textsvm.runtime.parallel import StageProgress

#: Most models in a comparison.
MOST_MODELS = 8
#: Most classes of a printed confusion matrix.
MOST_COLUMNS = 12


@dataclass(frozen=True)
class ReportFile:
    """The report."""

    report: Annotated[
        Path | None,
        option("Write a report with charts, intervals and explained mistakes: .html, .md or .json."),
    ] = None
    mistakes: Annotated[int, option("Number of worst mistakes in the report, with texts.", min=0)] = 10
    force: Force = False

    def check(self, inputs: dict[str, Any]) -> None:
        """Raise WrongUsage if the report cannot be written."""
        if self.report is not None:
            check_report("--report", self.report, self.force, inputs)


@dataclass(frozen=True)
class JudgingOptions:
    """Metrics and comparisons."""

    regress: options.Regress = None
    grades: Annotated[
        str | None,
        option(
            "Range of grades for the quadratic weighted kappa, such as 2,12 (default: observed grades).",
            metavar="LOW,HIGH",
        ),
    ] = None
    beside: Annotated[
        list[Path] | None, option("Compare another model on the same documents. Repeatable.", metavar="MODEL")
    ] = None
    slice: Annotated[
        str | None,
        option(
            "Tables, FASTA: metrics for each value of this column (source, language, year), worst first.",
            metavar="COLUMN",
        ),
    ] = None
    device: options.Device = "auto"

    def check(self, model: Path) -> tuple[int, int] | None:
        """Range of grades; raises WrongUsage."""
        if len(self.beside or []) >= MOST_MODELS:
            raise WrongUsage(f"--beside: at most {MOST_MODELS} models can be compared")
        if model in (self.beside or []):
            raise WrongUsage(f"--beside {model} is the evaluated model itself; name another model")
        return None if self.grades is None else _range(self.grades)


@options.with_groups
def evaluate(
    model: options.ModelPath,
    corpus: options.CorpusPath,
    reading: options.ReadingOptions,
    judging: JudgingOptions,
    file: ReportFile,
    printing: options.PrintingOptions,
) -> None:
    """Evaluate a model on a labelled corpus.

    Labels are reduced to two, or numbers read from a column, as in training unless options say otherwise.
    """
    started = time.perf_counter()
    console = Console(printing.quiet)
    span = judging.check(model)
    file.check({"the model": model, "the corpus": corpus, "another model": judging.beside})

    from textsvm.evaluation.comparison import side_by_side
    from textsvm.evaluation.judge import machine_of
    from textsvm.evaluation.slices import make_slices
    from textsvm.reporting.report import make_report

    fitted = model_files.load_model(console, model, judging.device)
    training = model_files.Training.of(fitted)
    several = hasattr(fitted, "label_form_")
    if reading.positive is None:
        reading = replace(reading, positive=training.positive, negative=reading.negative or training.negative)
    regress, separator = judging.regress or training.regress, training.label_separator
    learning = options.LearningOptions(regress, multilabel=several, label_separator=separator)
    documents = corpora.read(
        console, corpus, reading, learning,
        groups=judging.slice, headers=training.headers, kernel=machine_of(fitted).kernel_,
    )  # fmt: skip
    if not several or documents.labels is None:
        corpora.targets(documents)
    read = time.perf_counter() - started
    if reading.positive is not None:
        training = replace(training, positive=reading.positive, negative=reading.negative)
    with console.progress():
        results = judge(fitted, documents, training.positive, console.stage, {"read": read}, span)
        beside = None
        if judging.beside:
            texts = documents.texts if file.mistakes and len(documents.texts) else None
            results = results.with_intervals()
            compared = {model: results} | {
                path: judge(
                    model_files.load_model(console, path, judging.device), documents, training.positive,
                    console.stage, None, span,
                )
                for path in judging.beside
            }  # fmt: skip
            short = len({path.name for path in compared}) == len(compared)
            named = {path.name if short else str(path): each for path, each in compared.items()}
            beside = side_by_side(named, texts, documents.ids)
        slices = None
        if judging.slice is not None:
            if documents.groups is None:
                raise InputError(f"{documents.source} has no column {judging.slice!r} for --slice")
            slices = make_slices(results, judging.slice, documents.groups)
        if file.report is not None:
            title = f"{model.name} on {corpora.names_of(corpus)}"
            report = make_report(
                fitted, results, corpora.given_to(fitted, documents), documents.ids, title, file.mistakes,
                console.progress_of("explain"),
            )  # fmt: skip
            results = report.results
            write_report(console, file, replace(report, slices=slices, beside=beside))
    console.say_device(fitted.device_)
    if printing.json:
        more = {"slices": slices and slices.as_dict(), "beside": beside and beside.as_dict()}
        console.print_json(results.as_dict() | {name: each for name, each in more.items() if each})
    else:
        show_results(console, f"{model} on {documents.source}", results)
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
    """Predict a labelled corpus and compute metrics, with `positive` as the positive class.

    `baseline`: predictions from lengths, for regression (default: the baseline in the model file).
    """
    from textsvm.evaluation.judge import judge as compare
    from textsvm.evaluation.length_baseline import LengthBaseline

    given, truth = corpora.given_to(model, corpus), corpora.truth(corpus)
    results = compare(model, given, truth, positive, grades, progress, seconds)
    baseline = baseline or LengthBaseline.of(getattr(model, "info_", None))
    if baseline is None or results.task != "regression":
        return results
    return replace(results, length_alone=baseline.judge(corpus.examples, truth, grades))


def _range(grades: str) -> tuple[int, int]:
    bounds = machines.several("--grades", grades, int)
    if len(bounds) != 2 or bounds[0] >= bounds[1]:
        raise WrongUsage(f"--grades must be two integers, the lower first, got {grades}")
    return bounds[0], bounds[1]


def write_report(console: Console, file: ReportFile, report: Report) -> None:
    """Write a report and print its path."""
    from textsvm.reporting.files import write

    assert file.report is not None
    write(report, file.report)
    console.say(f"report: {file.report}")


def _show_more(console: Console, slices: Slices | None, beside: SideBySide | None) -> None:
    """Print comparisons of models and slices as tables."""
    from textsvm.reporting.sections import models_note, models_table, slices_note, slices_table

    if beside is not None:
        head, rows = models_table(beside)
        console.table("models side by side", rows, head)
        console.line(models_note(beside))
    if slices is not None:
        head, rows = slices_table(slices)
        console.table(f"by {slices.column}", rows, head)
        console.line(slices_note(slices))


def show_results(console: Console, title: str, results: Results) -> None:
    """Print metrics, classes and confusion matrix as tables."""
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
