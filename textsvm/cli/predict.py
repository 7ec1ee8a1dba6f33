"""textsvm predict: a model and documents -> JSON Lines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from textsvm.cli import corpora, kernels, model_files, options
from textsvm.cli.console import Console, WrongUsage
from textsvm.cli.options import option
from textsvm.errors import InputError

if TYPE_CHECKING:
    from textsvm.readers.corpus import Corpus

_sets = partial(option, panel="Prediction sets (calibrated models)")


class _Outputs(NamedTuple):
    """Outputs of a model, see `textsvm.evaluation.judge.predict`."""

    classes: Any
    predicted: Any
    decision: Any
    probability: Any


@dataclass(frozen=True)
class CalibratedOptions:
    """Outputs of calibrated models, valid for documents like the training texts."""

    proba: Annotated[bool, option("Add the probability of each class.", "--proba")] = False
    coverage: Annotated[
        float | None,
        _sets(
            'Add the "set" of classes that contains the true class with this probability, such as 0.95.',
            metavar="SHARE",
        ),
    ] = None
    per_class: Annotated[
        bool,
        _sets(
            "Guarantee --coverage for each class; classes with few training texts are then in every set.",
            "--per-class",
        ),
    ] = False
    none: Annotated[
        float | None,
        _sets(
            "Give documents unlike every class no label (null), and at most this share of the others, such "
            "as 0.05.",
            metavar="SHARE",
        ),
    ] = None

    @property
    def conformal(self) -> bool:
        """Whether an option needs conformal prediction."""
        return self.per_class or self.coverage is not None or self.none is not None

    def require(self, model: Any, path: Path) -> None:
        """Raise InputError, before documents are read, if the model is not calibrated."""
        from textsvm.selection.conformal import require_share

        if self.per_class and self.coverage is None:
            raise WrongUsage("--per-class needs --coverage")
        for name, value in (("--coverage", self.coverage), ("--none", self.none)):
            if value is None:
                continue
            try:
                require_share(name, value)
            except InputError as error:
                raise WrongUsage(str(error).replace("=", " ", 1)) from error
            if not hasattr(model, "require_conformity"):
                raise InputError(
                    f"{path} is not calibrated, which {name} needs; train a classifier with "
                    "`textsvm train --calibrate sigmoid`"
                )
            model.require_conformity()

    def apply(
        self, model: Any, outputs: _Outputs, rows: Iterable[dict[str, Any]]
    ) -> Iterator[dict[str, Any]]:
        """Add the prediction sets to rows, and remove the labels of documents unlike every class."""
        if self.coverage is None and self.none is None:
            yield from rows
            return
        names, conformity = [str(label) for label in model.classes_], model.require_conformity()
        sets = known = None
        if self.coverage is not None:
            sets = conformity.sets(outputs.probability, self.coverage, self.per_class).tolist()
        if self.none is not None:
            known = conformity.known(outputs.decision, self.none).tolist()
        for i, row in enumerate(rows):
            if sets is not None:
                row = {**row, "set": [name for name, held in zip(names, sets[i], strict=True) if held]}
            yield row if known is None or known[i] else {**row, "label": None}


@options.with_groups
def predict(
    model: options.ModelPath,
    table: options.TableOptions,
    calibrated: CalibratedOptions,
    files: options.DocumentPaths = None,
    unsure: Annotated[
        str | None,
        option(
            "Label documents unsure if the probability of the positive class is in this range; with one "
            "number, if the largest probability is lower. Needs a calibrated model.",
            metavar="LOW,HIGH",
        ),
    ] = None,
    device: options.Device = "auto",
    quiet: options.Quiet = False,
) -> None:
    """Classify documents: one JSON object per line with id, label and decision, or id and value.

    cat message.eml | textsvm predict spam.textsvm -

    tail -f messages.jsonl | textsvm predict spam.textsvm --text body

    Tables, JSON Lines and, with --format lines, single lines are classified as they arrive. Unreadable inputs
    are reported, the others are classified, and the exit code is 1.

    A positive decision is for the positive class (--positive in training). With more than two classes there
    is a decision for each, and the largest wins. Multilabel models give all "labels" above their thresholds.
    """
    console = Console(quiet)
    bounds = None if unsure is None else kernels.several("--unsure", unsure, float)

    fitted = model_files.load_model(console, model, device)
    if (calibrated.proba or bounds) and not hasattr(fitted, "predict_proba"):
        raise InputError(
            f"{model} gives no probabilities; train it with `textsvm train --calibrate sigmoid`"
            if hasattr(fitted, "classes_")
            else f"{model} is not a classifier and gives no probabilities"
        )
    training = model_files.Training.of(fitted)
    if bounds:
        _reject(fitted, bounds, training)
    if calibrated.conformal:
        calibrated.require(fitted, model)
    from textsvm.evaluation.judge import machine_of

    kernel, failures = machine_of(fitted).kernel_, 0

    def failed(error: InputError) -> None:
        nonlocal failures
        failures += 1
        console.fail(error)

    for documents in _batches(console, files or ["-"], table, fitted, failed):
        for identifier, problem in documents.problems:
            console.say(f"note: {identifier}: {problem}")
        corpora.check_letters(kernel, documents)
        if len(documents):
            outputs = _predict(console, fitted, documents, training)
            rows = calibrated.apply(fitted, outputs, _rows(outputs, training, calibrated.proba))
            for identifier, row in zip(documents.ids, rows, strict=True):
                console.print_json({"id": identifier, **row})
            sys.stdout.flush()
    if hasattr(fitted, "device_"):  # at least one document was read
        console.say_device(fitted.device_)
    if failures:
        raise typer.Exit(1)


def _batches(
    console: Console,
    files: list[str],
    table: options.TableOptions,
    model: Any,
    failed: Callable[[InputError], None],
) -> Iterator[Corpus]:
    """Documents as they arrive; all at once if their vectors are in a separate file."""
    from textsvm.evaluation.judge import machine_of
    from textsvm.readers.read import read_documents
    from textsvm.readers.stream import incoming_documents

    settings: dict[str, Any] = {
        **corpora.columns(table, machine_of(model).kernel_), "id": table.id,
        "headers": model_files.Training.of(model).headers,
    }  # fmt: skip
    if table.vectors is not None:
        with console.progress():
            documents = read_documents(files, table.format, **settings, progress=console.progress_of("read"))
            yield corpora.with_files(documents, table)
        return
    if "-" in files:
        console.say_waiting(
            "one text per line" if table.format == "lines" else table.format or "one document"
        )
    yield from incoming_documents(files, table.format, **settings, failed=failed)


def _predict(console: Console, model: Any, documents: Corpus, training: model_files.Training) -> _Outputs:
    """Outputs for a batch of documents."""
    from textsvm.evaluation.judge import predict as outputs_of

    given = corpora.given_to(model, documents)
    with console.progress(beside_stdout=True):
        return _Outputs(*outputs_of(model, given, [], training.positive, console.stage))


def _reject(model: Any, bounds: list[float], training: model_files.Training) -> None:
    """Set the bounds of a calibrated model between which documents are unsure."""
    text = ",".join(f"{bound:g}" for bound in bounds)
    if len(bounds) > 2 or not all(0 <= bound <= 1 for bound in bounds) or bounds != sorted(bounds):
        raise WrongUsage(f"--unsure must be one or two probabilities, the lower one first, got {text}")
    if len(bounds) == 2 and len(model.classes_) > 2:
        raise WrongUsage(
            f"--unsure {text} is for two classes and the model has {len(model.classes_)}; give one "
            "probability, the minimum for the likeliest class"
        )
    if len(bounds) == 2 and training.positive == model.classes_[0]:
        bounds = [1 - bounds[1], 1 - bounds[0]]
    model.reject = bounds[0] if len(bounds) == 1 else tuple(bounds)


def _rows(outputs: _Outputs, training: model_files.Training, proba: bool) -> Iterator[dict[str, Any]]:
    """Printed values of each document."""
    import numpy as np

    if outputs.classes is None:
        yield from ({"value": value} for value in outputs.predicted.tolist())
        return
    classes = [str(label) for label in outputs.classes]
    if outputs.predicted.ndim == 2:
        names = np.array(classes, object)
        for present, values in zip(outputs.predicted, outputs.decision.tolist(), strict=True):
            yield {"labels": names[present].tolist(), "decision": dict(zip(classes, values, strict=True))}
        return
    sign = -1.0 if outputs.decision.ndim == 1 and training.positive == classes[0] else 1.0
    decisions = (sign * outputs.decision).tolist()
    for i, label in enumerate(outputs.predicted.tolist()):
        several = isinstance(decisions[i], list)
        row = {
            "label": label,
            "decision": dict(zip(classes, decisions[i], strict=True)) if several else decisions[i],
        }
        if proba:
            row["probabilities"] = dict(zip(classes, outputs.probability[i].tolist(), strict=True))
        yield row
