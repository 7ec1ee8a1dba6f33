"""textsvm predict: a model and documents -> JSON Lines or a table."""

from __future__ import annotations

import typer

from textsvm.cli import options
from textsvm.cli.console import Console
from textsvm.cli.task_options import CalibratedOptions, OutputForm


@options.with_groups
def predict(
    model: options.ModelPath,
    table: options.TableOptions,
    calibrated: CalibratedOptions,
    form: OutputForm,
    files: options.DocumentPaths = None,
    device: options.Device = "auto",
    quiet: options.Quiet = False,
) -> None:
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
    limits = calibrated.limits
    files = files or ["-"]
    output_file = form.checked(model, files)
    console.counts = output_file.is_stdout

    from textsvm.cli import model_files, predictions

    fitted = model_files.load_model(console, model, device, online=True)
    training, abilities = model_files.Training.of(fitted), model_files.Abilities.of(fitted)
    calibrated.check(fitted, abilities, model)
    form.check(abilities, model)
    if limits is not None:
        fitted = predictions.with_unsure(fitted, limits, training)
    printer = predictions.Printer(console, fitted, abilities, training, calibrated, form)
    printer.print(printer.incoming(files, table), output_file)
    printer.report()
    if used := printer.model.last_device:  # at least one document was read
        console.say_device(used)
    if printer.failures:
        raise typer.Exit(1)
