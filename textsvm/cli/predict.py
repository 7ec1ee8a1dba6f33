"""textsvm predict: a model and documents -> JSON Lines or CSV."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from textsvm.cli import options
from textsvm.cli.console import Console, WrongUsage, print_error
from textsvm.cli.kernels import several
from textsvm.cli.options import option_field
from textsvm.cli.output import MODEL, PREDICTIONS, STDOUT, Force, Kind, Output
from textsvm.errors import InputError

if TYPE_CHECKING:
    from textsvm.cli.model_files import Training
    from textsvm.evaluation.drift import Drift
    from textsvm.readers.corpus import Corpus

PREDICTION_TABLE = Kind("a table of predictions", rb"[^\n]*labels?,(decision|label_1)[^\n]*\n")
OutputFormat = Enum("OutputFormat", {"jsonl": "jsonl", "csv": "csv"})
_adapting = partial(option_field, panel="Adaptation")
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
        from textsvm.model.conformal import require_share

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


@dataclass(frozen=True)
class AdaptOptions:
    """Adaptation of the model to the documents."""

    adapt: bool = _adapting(
        "Adapt the model to these documents by self-training, if their median margin is 0.7 to 0.95 of that "
        "of held-out training texts. All documents are read before the first prediction.",
        "--adapt",
        default=False,
    )
    corpus: list[Path] | None = _adapting(
        "--adapt: training corpus, repeatable (default: the corpus recorded in the model, if unchanged).",
        metavar="PATH",
    )
    save: Path | None = _adapting("--adapt: also write the adapted model.", metavar="FILE")

    def checked(self, force: bool, model: Path, files: list[Path]) -> Output | None:
        """File of the adapted model; raises WrongUsage."""
        for name, value in (("--corpus", self.corpus), ("--save", self.save)):
            if value and not self.adapt:
                raise WrongUsage(f"{name} needs --adapt")
        if self.save is None:
            return None
        inputs: dict[str, Any] = {"the model": model, "the documents": files, "the corpus": self.corpus}
        return Output("--save", self.save, MODEL, force).checked(inputs)


@dataclass(frozen=True)
class OutputForm:
    """Labels and form of the output."""

    adapting: AdaptOptions
    top: int | None = option_field(
        "Print the K best labels, with decision values and the probabilities of a calibrated model.",
        metavar="K",
        min=1,
    )
    output_format: OutputFormat = option_field(
        "csv: a table, which begins with the columns of an input table.", default=OutputFormat.jsonl
    )
    output: Path = option_field("Output file; - is stdout.", "--output", "-o", default=STDOUT)
    force: Force = False
    drift: bool = option_field(
        "Compare the documents with those of training: share of new symbols and sequences of symbols, "
        "and margins. Differences are warnings on stderr.",
        "--drift",
        default=False,
    )

    def checked(self, model: Path, files: list[str]) -> Output:
        """Output file; raises WrongUsage."""
        kind = PREDICTIONS if self.output_format is OutputFormat.jsonl else PREDICTION_TABLE
        inputs: list[Path] = [Path(file) for file in files if file != "-"]
        checked = Output("-o", self.output, kind, self.force)
        return checked.checked({"the model": model, "the documents": inputs})


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

    textsvm predict dialects.textsvm new.tsv --adapt --save adapted.textsvm

    Tables, JSON Lines and, with --format lines, single lines are classified as they arrive. Unreadable inputs
    are reported, the others are classified, and the exit code is 1.

    A positive decision is for the positive class (--positive in training). With more than two classes there
    is a decision for each, and the largest wins. Multilabel models give all "labels" above their thresholds.
    """
    console = Console(quiet)
    bounds = None if calibrated.unsure is None else several("--unsure", calibrated.unsure, float)
    files = files or ["-"]
    output_file = form.checked(model, files)
    console.counts = output_file.is_stdout
    adapted_file = form.adapting.checked(form.force, model, [Path(file) for file in files if file != "-"])

    from textsvm.cli import corpora, model_files, update
    from textsvm.evaluation import judge
    from textsvm.evaluation.drift import UNLIKE, Drift
    from textsvm.readers.stream import incoming_documents

    fitted = model_files.load_model(console, model, device, online=True)
    if (calibrated.proba or bounds) and not hasattr(fitted, "predict_proba"):
        raise InputError(
            f"{model} gives no probabilities; train it with `textsvm train --calibrate sigmoid`"
            if hasattr(fitted, "classes_")
            else f"{model} is not a classifier and gives no probabilities"
        )
    if form.top is not None and not hasattr(fitted, "decision_function"):
        raise InputError(f"{model} predicts numbers and has no labels, which --top needs")
    if form.adapting.adapt and not hasattr(fitted, "adapt"):
        raise InputError(
            f"{model} cannot be adapted; --adapt takes a classifier with one label per document that was "
            "trained without --calibrate"
        )
    training = model_files.Training.of(fitted)
    table_writer = None if form.output_format is OutputFormat.jsonl else _CsvWriter(console)
    if bounds:
        _reject(fitted, bounds, training)
    if calibrated.conformal:
        calibrated.require(fitted, model)
    comparison, warned = Drift(fitted, fitted.info_.get("drift")), False
    kernel, failures, reasons = judge.fitted_machine(fitted).kernel_, 0, list[str]()

    def failed(error: InputError) -> None:
        nonlocal failures
        failures += 1
        sys.stdout.flush()
        print_error(str(error))

    settings: dict[str, Any] = {"headers": training.headers, "recorded": training.columns}
    settings["keep_rows"] = table_writer is not None
    if table.vectors is not None:
        if form.adapting.adapt:
            raise InputError("--adapt needs texts; it has no use for vectors")
        batches = iter([corpora.read_unlabelled(console, files, table, kernel, **settings)])
    else:
        if "-" in files:
            lines = "one text per line" if table.format == "lines" else None
            console.say_waiting(lines or table.format or "one document")
        settings |= corpora.columns(table, kernel) | {"id": table.id, "skip_invalid": table.skip_invalid}
        batches = incoming_documents(files, table.format, **settings, keep_invalid=True, failed=failed)
        if form.adapting.adapt:
            known = update.training_corpus(console, fitted, training, form.adapting.corpus, model)
            read = list(batches)
            texts = [text for each in read if len(each) for text in corpora.given_to(fitted, each)]
            fitted, batches = update.adapt(console, fitted, known, texts, adapted_file), iter(read)
    with output_file.printing():
        for documents in batches:
            for identifier, problem in documents.problems:
                console.say(f"note: {identifier}: {problem}")
            corpora.check_letters(console, kernel, documents)
            rows: Iterator[dict[str, Any]] = iter(())
            if len(documents):
                given = corpora.given_to(fitted, documents)
                foreign = comparison.add_texts(given, form.drift)
                if len(foreign) and not warned:
                    warned = True
                    console.warn(
                        f"{documents.ids[foreign[0]]}: most of its symbols never occurred in training "
                        "(another language, script or encoding?): do not trust this prediction, nor others "
                        "of such texts"
                    )
                elif not warned and comparison.unlike:
                    warned = True
                    console.warn(
                        f"fewer than {100 * UNLIKE:.0f} % of the sequences of four characters in these "
                        "documents occur in a sample of the training texts (another column or language?): do "
                        "not trust the predictions"
                    )
                with console.progress(beside_stdout=True):
                    classes, predicted, decision, probability = judge.predict(
                        fitted, given, [], training.positive, console.stage
                    )
                if form.drift and classes is not None and predicted.ndim == 1 and hasattr(fitted, "classes_"):
                    comparison.add_decisions(decision)
                shown = probability if calibrated.proba else None
                rows = judge.rows_of(classes, predicted, decision, shown, training.positive)
                if form.top is not None:
                    rows = judge.with_top(rows, classes, decision, probability, form.top)
                rows = calibrated.apply(fitted, decision, probability, rows)
            for row, cells in _with_invalid(documents, rows, fitted):
                if table_writer is None:
                    console.print_json(row)
                else:
                    table_writer.write(row, cells)
            sys.stdout.flush()
            reasons += [str(each.problem) for _, each in documents.invalid]
        if table_writer is not None:
            table_writer.flush()
    if form.drift:
        _say_drift(console, comparison)
    if table_writer is not None and table_writer.lost:
        failures += 1
        names = ", ".join(table_writer.lost.values())
        print_error(
            f"the columns of the output are those of the first table, and others have more: {names}; predict "
            "the tables one by one"
        )
    if reasons:
        failures += 1
        first = reasons[0] + ", ..." * (len(reasons) > 1)
        print_error(
            f"{len(reasons):,} of the rows have no text and got no label: {first} (see the "
            f"{'output' if table_writer is None else 'notes'}); leave such rows out with --skip-invalid"
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
    if not any(value is not None for value in values["training"].values()):
        shown.append(
            "the model records no numbers of its training texts to compare with (`textsvm train` does)"
        )
    console.say(f"drift: {', '.join(shown) or 'these texts cannot be compared with the training texts'}")
    for message in messages:
        console.warn(f"drift: {message}")
    if messages:
        console.warn(
            "drift: do not trust the model on these texts before you have judged some predictions by hand; "
            "`textsvm update` trains it on labelled texts of today too"
        )


def _with_invalid(
    documents: Corpus, rows: Iterable[dict[str, Any]], model: Any
) -> Iterator[tuple[dict[str, Any], Any]]:
    """Printed values with ids, also of rows of the input without a text, and the cells of these rows."""
    from textsvm.evaluation.judge import row_without_text

    valid = zip(documents.ids, rows, documents.rows or [None] * len(documents), strict=True)
    start = 0
    for stop, invalid in [*documents.invalid, (len(documents), None)]:
        for identifier, row, cells in islice(valid, stop - start):
            yield {"id": identifier, **row}, cells
        start = stop
        if invalid is not None:
            yield {"id": invalid.id, **row_without_text(model, invalid.problem)}, invalid.row


class _CsvWriter:
    """Printed values as a table: the columns of the input, then a column for each value.

    The first row with a label determines the columns; rows before it wait.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._given: list[str] = []
        self._columns: list[str] = []
        self._waiting: list[tuple[dict[str, Any], Any]] = []
        self.lost: dict[
            str, str
        ] = {}  #: Columns of later rows that the table has no place for, by their name

    def write(self, row: dict[str, Any], cells: Any) -> None:
        """Print a row, and before the first row the names of the columns."""
        if reason := row.pop("reason", None):
            self._console.say(f"note: {row['id']}: {reason}")
        self._waiting.append((dict(_flat(row)), cells))
        if self._columns or not reason:
            self.flush()

    def flush(self) -> None:
        """Print the rows that wait."""
        if self._waiting and not self._columns:
            values, cells = self._waiting[-1]
            self._given = list(cells or ())
            self._columns = [name for name in values if name != "id"]
            names = [f"predicted_{name}" if name in self._given else name for name in self._columns]
            self._console.print_csv([*self._own_id("id"), *self._given, *names])
        for values, cells in self._waiting:
            known = cells or {"id": values["id"]}
            for name in known:
                if name not in self._given and name != "id":
                    self.lost.setdefault(name, f"{name!r} ({values['id']})")
            given = (_cell(known.get(name)) for name in self._given)
            own = (_cell(values.get(name)) for name in self._columns)
            self._console.print_csv([*self._own_id(values["id"]), *given, *own])
        self._waiting = []

    def _own_id(self, identifier: str) -> list[str]:
        return [] if "id" in self._given else [identifier]


def _flat(row: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Columns of the printed values of a document."""
    for name, value in row.items():
        if name == "top":
            for number, best in enumerate(value, 1):
                yield from ((f"{key}_{number}", each) for key, each in best.items())
        elif isinstance(value, dict):
            yield from ((f"{name}_{key}", each) for key, each in value.items())
        else:
            yield name, value


def _cell(value: Any) -> Any:
    """Cell of a CSV table; the labels of a list are separated by semicolons."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ";".join(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value


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
