"""textsvm evaluate: a model and a labelled corpus -> metrics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from textsvm.cli import options
from textsvm.cli.console import Console, WrongUsage, print_error
from textsvm.cli.options import option_field
from textsvm.cli.output import ReportFile
from textsvm.errors import InputError

if TYPE_CHECKING:
    from textsvm.arrays import Json
    from textsvm.model.trained import TrainedModel

MOST_MODELS = 8  #: Most models in a comparison.


@dataclass(frozen=True)
class JudgingOptions:
    """Metrics and comparisons."""

    regress: options.Regress = None
    beside: list[Path] | None = option_field(
        "Compare another model on the same documents. Repeatable.", metavar="MODEL"
    )
    slice: str | None = option_field(
        "Tables, FASTA: metrics for each value of this column (source, language, year), worst first.",
        metavar="COLUMN",
    )
    device: options.Device = "auto"

    def check(self, model: Path) -> None:
        """Raise WrongUsage for models that cannot be compared."""
        if len(self.beside or []) >= MOST_MODELS:
            raise WrongUsage(f"--beside: at most {MOST_MODELS} models can be compared")
        if model in (self.beside or []):
            raise WrongUsage(f"--beside {model} is the evaluated model itself; name another model")


@partial(options.with_groups, without={"annotators", "headers", "negative", "id", "numbers", "groups"})
def evaluate(
    model: options.ModelPath, corpus: options.CorpusPath, reading: options.ReadingOptions,
    judging: JudgingOptions, file: ReportFile, printing: options.PrintingOptions,
) -> None:  # fmt: skip
    """Evaluate a model on a labelled corpus.

    Labels are reduced to two, or numbers read from a column, as in training unless options say otherwise.
    If documents are left out because the model does not know their labels, the exit code is 1.
    """
    console = Console(printing.quiet)
    judging.check(model)
    file.check({"the model": model, "the corpus": corpus, "another model": judging.beside})

    from textsvm.cli import corpora, model_files, results
    from textsvm.evaluation import comparison
    from textsvm.model.rules import LabelRule
    from textsvm.reporting.report import make_report

    fitted = model_files.load_model(console, model, judging.device)
    training = model_files.RecordedOptions.of(fitted)
    multilabel = isinstance(fitted.rule, LabelRule)
    if reading.positive is None:
        reading = replace(reading, positive=training.positive, negative=training.negative)
    reading = replace(reading, headers=training.headers, groups=judging.slice)
    regress, separator = judging.regress or training.regress, training.label_separator
    learning = options.LearningOptions(regress=regress, multilabel=multilabel, label_separator=separator)
    documents = corpora.read(
        console, corpus, reading, learning, kernel=fitted.kernel, recorded=training.columns
    )
    if not multilabel or documents.labels is None:
        corpora.targets(documents)
    console.lap("read")
    if reading.positive is not None:
        training = replace(training, positive=reading.positive)
    with console.work():
        judge = partial(model_files.judge, positive=training.positive, progress=console.stage)
        judged = judge(fitted, documents)
        console.lap(judged.seconds)
        judged.seconds.update(console.seconds)
        beside = None
        if judging.beside:
            texts = documents.texts if file.mistakes and len(documents.texts) else None
            judged = judged.with_intervals()
            compared = {model: judged}
            for path, other in _models_beside(console, model, fitted, judging):
                compared[path] = judge(other, documents)
            short = len({path.name for path in compared}) == len(compared)
            results_by_name = {path.name if short else str(path): value for path, value in compared.items()}
            beside = comparison.side_by_side(results_by_name, texts, documents.ids)
            console.lap("beside")
        by_value = results.by_value(fitted, judged, documents, judging.slice, training.positive)
        if file.requested:
            title = f"{model.name} on {corpora.names_of(corpus)}"
            report = make_report(
                fitted, judged, model_files.examples_for(fitted, documents)[1], documents.ids, title,
                file.mistakes, console.progress_of("explain"),
            )  # fmt: skip
            judged = report.results
            results.write_report(console, file, replace(report, slices=by_value, beside=beside))
            console.lap("report")
    console.say_device(fitted.device_in_use)
    left_out = len(documents) - judged.n
    if printing.json:
        more: Json = {"left_out": left_out, "reading": documents.reading, "seconds": console.lap("print")}
        more |= {"slices": by_value and by_value.as_dict(), "beside": beside and beside.as_dict()}
        console.print_json(judged.as_dict() | {name: value for name, value in more.items() if value})
    else:
        results.show_results(console, f"{model} on {documents.source}", judged, len(documents))
        results.show_comparisons(console, by_value, beside)
        console.lap("print")
    if left_out:
        if printing.json:  # otherwise a warning beside the figures
            print_error(judged.warnings[0])
        raise typer.Exit(1)


def _models_beside(
    console: Console, model: Path, fitted: TrainedModel, judging: JudgingOptions
) -> Iterator[tuple[Path, TrainedModel]]:
    """The models of --beside; InputError if they predict other kinds of values than the evaluated model."""
    from textsvm.cli import model_files

    own_kind = model_files.predicts(fitted)
    for path in judging.beside or []:
        other = model_files.load_model(console, path, judging.device)
        kind = model_files.predicts(other)
        if kind != own_kind:
            raise InputError(f"--beside {path} predicts {kind}, and {model} {own_kind}; compare equal kinds")
        yield path, other
