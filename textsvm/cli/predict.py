"""textsvm predict: a model and documents -> JSON Lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from textsvm.cli import examples, kernels, model_files, options
from textsvm.cli.console import Console, WrongUsage
from textsvm.cli.promises import Promises
from textsvm.errors import InputError

if TYPE_CHECKING:
    from textsvm.readers import Corpus


class _Outputs(NamedTuple):
    """What a model says of documents, see `textsvm.evaluation.judge.predict`."""

    classes: Any
    predicted: Any
    decision: Any
    probability: Any


@options.with_groups
def predict(
    model: options.ModelPath,
    table: options.Table,
    promises: Promises,
    files: options.DocumentPaths = None,
    unsure: Annotated[
        str | None,
        typer.Option(
            metavar="LOW,HIGH",
            help="Call documents unsure where the probability of the positive class lies between these; "
            "or one number: where that of the likeliest class is less. Needs a calibrated model.",
        ),
    ] = None,
    device: options.Device = "auto",
    quiet: options.Quiet = False,
) -> None:
    """Classify documents: one JSON object a line with id, label and decision, or id and value.

    cat message.eml | textsvm predict spam.textsvm -

    tail -f messages.jsonl | textsvm predict spam.textsvm --text body

    Tables, JSON Lines and, with --format lines, texts of a line each are classified as they come. Of several
    inputs, one that cannot be read is named and the others are classified; the exit code is 1 then.

    A positive decision means the model's positive class (the one given by --positive in training). With more
    than two classes there is a decision for each, and the largest wins. Where documents may have several
    labels, "labels" lists those whose decisions are above their thresholds.
    """
    console = Console(quiet)
    bounds = None if unsure is None else kernels.several("--unsure", unsure, float)

    fitted = model_files.load_model(console, model, device, fitted=not promises.made)
    if (promises.proba or bounds) and not hasattr(fitted, "predict_proba"):
        raise InputError(
            f"{model} gives no probabilities; train it with `textsvm train --calibrate sigmoid`"
            if hasattr(fitted, "classes_")
            else f"{model} is no classifier and gives no probabilities"
        )
    training = options.Training.of(fitted)
    if bounds:
        _reject(fitted, bounds, training)
    if promises.made:
        promises.require(fitted, model)
    from textsvm.evaluation.judge import machine_of

    kernel, failures = machine_of(fitted).kernel_, 0

    def failed(error: InputError) -> None:
        nonlocal failures
        failures += 1
        console.fail(error)

    for documents in _batches(console, files or ["-"], table, fitted, failed):
        for identifier, problem in documents.problems:
            console.say(f"note: {identifier}: {problem}")
        examples.check_letters(kernel, documents)
        if len(documents):
            found = _ask(console, fitted, documents, training)
            rows = promises.kept(fitted, found, _rows(found, training, promises.proba))
            for identifier, row in zip(documents.ids, rows, strict=True):
                console.print_json({"id": identifier, **row})
            console.flush()
    if hasattr(fitted, "device_"):  # something could be read
        console.say_device(fitted.device_)
    if failures:
        raise typer.Exit(1)


def _batches(
    console: Console, files: list[str], table: options.Table, model: Any, failed: Callable[[InputError], None]
) -> Iterator[Corpus]:
    """The documents as they come; all at once where another file holds their vectors."""
    from textsvm.evaluation.judge import machine_of
    from textsvm.readers import incoming_documents, read_documents

    wishes: dict[str, Any] = {
        **examples.columns(table, machine_of(model).kernel_), "id": table.id,
        "headers": options.Training.of(model).headers,
    }  # fmt: skip
    if table.vectors is not None:
        with console.progress():
            documents = read_documents(files, table.format, **wishes, progress=console.reading)
            yield examples.beside(documents, table)
        return
    if "-" in files:
        console.say_waiting("a text a line" if table.format == "lines" else table.format or "one document")
    yield from incoming_documents(files, table.format, **wishes, failed=failed)


def _ask(console: Console, model: Any, documents: Corpus, training: options.Training) -> _Outputs:
    """What the model says of a batch of documents."""
    from textsvm.evaluation.judge import predict as ask

    given = examples.given_to(model, documents)
    with console.progress(beside_stdout=True):
        return _Outputs(*ask(model, given, [], training.positive, console.stage))


def _reject(model: Any, bounds: list[float], training: options.Training) -> None:
    """Have a calibrated model call documents unsure."""
    text = ",".join(f"{bound:g}" for bound in bounds)
    if len(bounds) > 2 or not all(0 <= bound <= 1 for bound in bounds) or bounds != sorted(bounds):
        raise WrongUsage(f"--unsure {text} is neither a probability nor two, the lower one first")
    if len(bounds) == 2 and len(model.classes_) > 2:
        raise WrongUsage(
            f"--unsure {text} is for two classes and the model has {len(model.classes_)}; give one "
            "probability, which that of the likeliest class must reach"
        )
    if len(bounds) == 2 and training.positive == model.classes_[0]:
        bounds = [1 - bounds[1], 1 - bounds[0]]
    model.reject = bounds[0] if len(bounds) == 1 else tuple(bounds)


def _rows(found: _Outputs, training: options.Training, proba: bool) -> Iterator[dict[str, Any]]:
    """What is printed of each document."""
    import numpy as np

    if found.classes is None:
        yield from ({"value": value} for value in found.predicted.tolist())
        return
    classes = [str(label) for label in found.classes]
    if found.predicted.ndim == 2:
        names = np.array(classes, object)
        for given, values in zip(found.predicted, found.decision.tolist(), strict=True):
            yield {"labels": names[given].tolist(), "decision": dict(zip(classes, values, strict=True))}
        return
    sign = -1.0 if found.decision.ndim == 1 and training.positive == classes[0] else 1.0
    decisions = (sign * found.decision).tolist()
    for i, label in enumerate(found.predicted.tolist()):
        several = isinstance(decisions[i], list)
        row = {
            "label": label,
            "decision": dict(zip(classes, decisions[i], strict=True)) if several else decisions[i],
        }
        if proba:
            row["probabilities"] = dict(zip(classes, found.probability[i].tolist(), strict=True))
        yield row
