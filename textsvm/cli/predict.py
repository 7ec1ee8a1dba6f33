"""textsvm predict: a model and documents -> JSON Lines."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from textsvm.cli import options
from textsvm.cli.console import Console, WrongUsage, print_error
from textsvm.cli.kernels import several
from textsvm.cli.options import option, option_field
from textsvm.errors import InputError

if TYPE_CHECKING:
    from textsvm.cli.model_files import Training
    from textsvm.evaluation.drift import Drift

_sets = partial(option_field, panel="Prediction sets (calibrated models)")


@dataclass(frozen=True)
class CalibratedOptions:
    """Outputs of calibrated models, valid for documents like the training texts."""

    proba: bool = option_field("Add the probability of each class.", "--proba", default=False)
    unsure: str | None = option_field(
        "Label documents unsure if the probability of the positive class is in this range; with one "
        "number, if the largest probability is lower. Needs a calibrated model.",
        metavar="LOW,HIGH",
    )
    coverage: float | None = _sets(
        'Add the "set" of classes that contains the true class with this probability, such as 0.95.',
        metavar="SHARE",
    )
    per_class: bool = _sets(
        "Guarantee --coverage for each class; classes with few training texts are then in every set.",
        "--per-class",
        default=False,
    )
    none: float | None = _sets(
        "Give documents unlike every class no label (null), and at most this share of the others, such "
        "as 0.05.",
        metavar="SHARE",
    )

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
        self, model: Any, decision: Any, probability: Any, rows: Iterable[dict[str, Any]]
    ) -> Iterator[dict[str, Any]]:
        """Add the prediction sets to rows, and remove the labels of documents unlike every class."""
        if self.coverage is None and self.none is None:
            yield from rows
            return
        names, conformity = [str(label) for label in model.classes_], model.require_conformity()
        sets = known = None
        if self.coverage is not None:
            sets = conformity.sets(probability, self.coverage, self.per_class).tolist()
        if self.none is not None:
            known = conformity.known(decision, self.none).tolist()
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
    drift: Annotated[
        bool,
        option(
            "Compare the documents with those of training: share of new symbols and sequences of symbols, "
            "and margins. Differences are warnings on stderr.",
            "--drift",
        ),
    ] = False,
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
    bounds = None if calibrated.unsure is None else several("--unsure", calibrated.unsure, float)

    from textsvm.cli import corpora, model_files
    from textsvm.evaluation import judge
    from textsvm.evaluation.drift import Drift
    from textsvm.readers.stream import incoming_documents

    fitted = model_files.load_model(console, model, device, online=True)
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
    comparison, warned = Drift(fitted, fitted.info_.get("drift")), False
    kernel, failures, reasons = judge.machine_of(fitted).kernel_, 0, list[str]()

    def failed(error: InputError) -> None:
        nonlocal failures
        failures += 1
        sys.stdout.flush()
        print_error(str(error))

    files, headers = files or ["-"], training.headers
    settings: dict[str, Any] = {"headers": headers, "recorded": training.columns}
    if table.vectors is not None:  # the documents are read as a whole
        batches = iter([corpora.read_unlabelled(console, files, table, kernel, **settings)])
    else:
        if "-" in files:
            lines = "one text per line" if table.format == "lines" else None
            console.say_waiting(lines or table.format or "one document")
        settings |= corpora.columns(table, kernel) | {"id": table.id, "skip_invalid": table.skip_invalid}
        batches = incoming_documents(files, table.format, **settings, keep_invalid=True, failed=failed)
    for documents in batches:
        for identifier, problem in documents.problems:
            console.say(f"note: {identifier}: {problem}")
        corpora.check_letters(console, kernel, documents)
        rows: Iterator[dict[str, Any]] = iter(())
        if len(documents):
            given = corpora.given_to(fitted, documents)
            foreign = comparison.foreign(given, drift)
            if len(foreign) and not warned:
                warned = True
                console.warn(
                    f"{documents.ids[foreign[0]]}: most of its symbols never occurred in training (another "
                    "language, script or encoding?): do not trust this prediction, nor others of such texts"
                )
            with console.progress(beside_stdout=True):
                classes, predicted, decision, probability = judge.predict(
                    fitted, given, [], training.positive, console.stage
                )
            if drift and classes is not None and predicted.ndim == 1 and hasattr(fitted, "classes_"):
                comparison.add_decisions(decision)
            shown = probability if calibrated.proba else None
            rows = _rows(classes, predicted, decision, shown, training.positive)
            rows = calibrated.apply(fitted, decision, probability, rows)
        for row in _with_invalid(zip(documents.ids, rows, strict=True), documents.invalid, fitted):
            console.print_json(row)
        sys.stdout.flush()
        reasons += [reason for _, _, reason in documents.invalid]
    if drift:
        _say_drift(console, comparison)
    if reasons:
        failures += 1
        print_error(
            f"{len(reasons):,} rows hold no text and have no label ({reasons[0]}, ...: see the reasons in "
            "the output); leave such rows out with --skip-invalid"
        )
    if hasattr(fitted, "device_"):  # at least one document was read
        console.say_device(fitted.device_)
    if failures:
        raise typer.Exit(1)


def _say_drift(console: Console, comparison: Drift) -> None:
    """Report how far the texts are from those of training, and warnings."""
    values, messages = comparison.as_dict(), comparison.findings()
    shown = [
        f"{100 * values[name]:.1f} % new {noun}"
        for name, noun in (("symbols", "symbols"), ("features", "sequences of symbols"))
        if values[name] is not None
    ]
    margin, ratio = values["margin"], values["margin_ratio"]
    if ratio is not None:
        shown.append(f"median margin {margin:.3g}, {ratio:.2f} of that in training")
    nothing = "the model has no numbers to compare them with (train it again with this version)"
    console.say(f"drift: {', '.join(shown) or nothing}")
    for message in messages:
        console.warn(f"drift: {message}")
    if messages:
        console.warn(
            "drift: do not trust the model on these texts before you have judged some predictions by hand; "
            "`textsvm update` trains it on labelled texts of today too"
        )


def _with_invalid(
    rows: Iterable[tuple[str, dict[str, Any]]], invalid: list[tuple[int, str, str]], model: Any
) -> Iterator[dict[str, Any]]:
    """Rows with their ids, and between them a row without a label for each invalid row of the input."""
    name = (
        "value" if not hasattr(model, "classes_") else "labels" if hasattr(model, "label_form_") else "label"
    )
    waiting = iter([*invalid, (-1, "", "")])
    before, identifier, reason = next(waiting)
    for number, (own, row) in enumerate(rows):
        while before == number:
            yield {"id": identifier, name: None, "reason": reason}
            before, identifier, reason = next(waiting)
        yield {"id": own, **row}
    while before >= 0:
        yield {"id": identifier, name: None, "reason": reason}
        before, identifier, reason = next(waiting)


def _reject(model: Any, bounds: list[float], training: Training) -> None:
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


def _rows(
    classes: Any, predicted: Any, decision: Any, probability: Any, positive: str | None
) -> Iterator[dict[str, Any]]:
    """Printed values of each document; without the classes of a classifier, numbers."""
    if classes is None:
        yield from ({"value": value} for value in predicted.tolist())
        return
    names = [str(label) for label in classes]
    if predicted.ndim == 2:
        for present, values in zip(predicted.tolist(), decision.tolist(), strict=True):
            labels = [name for name, held in zip(names, present, strict=True) if held]
            yield {"labels": labels, "decision": dict(zip(names, values, strict=True))}
        return
    sign = -1.0 if decision.ndim == 1 and positive == names[0] else 1.0
    for i, (label, value) in enumerate(zip(predicted.tolist(), (sign * decision).tolist(), strict=True)):
        row = {"label": label, "decision": value}
        if isinstance(value, list):
            row["decision"] = dict(zip(names, value, strict=True))
        if probability is not None:
            row["probabilities"] = dict(zip(names, probability[i].tolist(), strict=True))
        yield row
