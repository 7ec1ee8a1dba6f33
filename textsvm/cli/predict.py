"""textsvm predict: a model and documents -> JSON Lines or a table."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path

import typer

from textsvm.cli import options
from textsvm.cli.console import Console, WrongUsage
from textsvm.cli.machines import several
from textsvm.cli.options import option_field
from textsvm.cli.output import PREDICTIONS, STDOUT, Force, Output, table_kind

OutputFormat = Enum("OutputFormat", {"jsonl": "jsonl", "csv": "csv", "tsv": "tsv"})


@dataclass(frozen=True)
class PredictOptions:
    """Values and format of the output. Probabilities and sets hold for documents like those of training."""

    values: options.PredictedValues
    unsure: str | None = option_field(
        "Label documents unsure if the probability of the positive class is in this range; with one "
        "number, if the largest probability is lower. Tables have the likeliest label and a column unsure. "
        "Or a whole number from 2 on: only so many documents, those with the least confidence first.",
        metavar="LOW,HIGH|N",
    )
    output: Path = option_field(
        "Output file; the suffix decides the format: .jsonl and .json, or .csv, .tsv, .xlsx and .parquet, "
        "which have the columns of an input table and the predictions. - is stdout.",
        "--output", "-o", default=STDOUT,
    )  # fmt: skip
    output_format: OutputFormat | None = option_field("Format of stdout and other suffixes (default: jsonl).")
    force: Force = False

    def checked(self, model: Path, files: list[str]) -> Output:
        """Output file; raises WrongUsage."""
        kind = table_kind("-o", self.output, PREDICTIONS, self.output_format and self.output_format.value)
        if self.values.all_classes and kind.format in ("jsonl", "json"):
            raise WrongUsage(f"--all-classes is for tables; {kind.format} has the values of all classes")
        inputs: list[Path] = [Path(file) for file in files if file != "-"]
        output = Output("-o", self.output, kind, self.force)
        return output.checked({"the model": model, "the documents": inputs})


@partial(options.with_groups, without={"numbers"})
def predict(
    model: options.ModelPath, table: options.TableOptions, predict_options: PredictOptions,
    files: options.DocumentPaths = None, device: options.Device = "auto", quiet: options.Quiet = False,
) -> None:  # fmt: skip
    """Classify documents: one JSON object per line with id, label and decision, or id and value.

    cat message.eml | textsvm predict spam.textsvm -

    tail -f messages.jsonl | textsvm predict spam.textsvm --text body

    Tables, JSON Lines and, with --format lines, single lines are classified as they arrive. Unreadable inputs
    are reported, the others are classified, and the exit code is 1.

    A positive decision is for the positive class (--positive in training). With more than two classes there
    is a decision for each, and the largest wins; a calibrated
    model predicts the likeliest class instead. Multilabel models give all "labels" above their thresholds.
    """
    console = Console(quiet)
    limits = None if predict_options.unsure is None else several("--unsure", predict_options.unsure, float)
    files = files or ["-"]
    output = predict_options.checked(model, files)
    console.counts = output.is_stdout

    from textsvm.cli import model_files, predictions

    fitted = model_files.load_model(console, model, device, online=True)
    least = (
        int(limits.pop())
        if limits and len(limits) == 1 and limits[0] >= 2 and limits[0].is_integer()
        else None
    )
    predictions.check(predict_options.values, fitted, model, bool(limits), least is not None)
    if limits:
        fitted = predictions.with_unsure(fitted, limits)
    printer = predictions.Printer(console, fitted, predict_options.values, output.kind.format, least)
    with console.warnings():
        printer.print(printer.incoming(files, table), output)
    printer.report()
    if used := printer.model.last_device:  # at least one document was read
        console.say_device(used)
    if printer.failures:
        raise typer.Exit(1)
