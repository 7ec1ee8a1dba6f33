"""Predict documents as they arrive, and print JSON Lines or a table: the work of `textsvm predict`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from textsvm.arrays import Ints, Json
from textsvm.cli import corpora
from textsvm.cli.console import Console, WrongUsage, print_error
from textsvm.cli.model_files import Abilities, Training, examples_for
from textsvm.cli.options import TableOptions
from textsvm.errors import InputError
from textsvm.evaluation import judge
from textsvm.evaluation.drift import UNLIKE, Drift
from textsvm.model.rules import check_reject
from textsvm.model.trained import TrainedModel
from textsvm.readers.corpus import Corpus
from textsvm.readers.stream import incoming_documents

if TYPE_CHECKING:
    from textsvm.cli.task_options import CalibratedOptions, OutputForm

#: Cells of a row of the input table, by column.
Cells = Mapping[str, Any]


def with_unsure(model: TrainedModel, limits: list[float], training: Training) -> TrainedModel:
    """A calibrated model with the probabilities between which documents are unsure."""
    text = ",".join(f"{limit:g}" for limit in limits)
    if len(limits) > 2 or not all(0 <= limit <= 1 for limit in limits) or limits != sorted(limits):
        raise WrongUsage(f"--unsure must be one or two probabilities, the lower one first, got {text}")
    rule = model.calibrated()
    if len(limits) == 2 and len(rule.classes) > 2:
        raise WrongUsage(
            f"--unsure {text} is for two classes and the model has {len(rule.classes)}; give one "
            "probability, the minimum for the likeliest class"
        )
    if len(limits) == 2 and training.positive == rule.classes[0]:
        limits = [1 - limits[1], 1 - limits[0]]
    reject = limits[0] if len(limits) == 1 else tuple(limits)
    check_reject(reject, rule.classes)
    return replace(model, rule=replace(rule, reject=reject))


class Printer:
    """Predicts documents and prints them; counts failures."""

    def __init__(
        self, console: Console, model: TrainedModel, abilities: Abilities, training: Training,
        calibrated: CalibratedOptions, form: OutputForm,
    ) -> None:  # fmt: skip
        self.model = model
        self.failures = 0
        self._console, self._abilities, self._training = console, abilities, training
        self._calibrated, self._form = calibrated, form
        self._kernel = model.kernel
        self._drift = Drift(model, model.info.get("drift"))
        self._table = None if form.output_format.value == "jsonl" else _CsvWriter(console)
        self._without_text = 0  #: Number of rows without a text
        self._first_reason = ""  #: Of the first of these rows
        self._warned = False

    def incoming(self, files: list[str], table: TableOptions) -> Iterable[Corpus]:
        """The documents of files as they arrive; vectors are read as a whole."""
        settings: Json = {
            "headers": self._training.headers, "recorded": self._training.columns,
            "keep_rows": self._table is not None,
        }  # fmt: skip
        if table.vectors is not None:
            return [corpora.read_unlabelled(self._console, files, table, self._kernel, **settings)]
        if "-" in files:
            lines = "one text per line" if table.format == "lines" else None
            self._console.say_waiting(lines or table.format or "one document")
        settings |= {"id": table.id, "skip_invalid": table.skip_invalid, "header": table.header}
        settings |= corpora.columns(table, self._kernel)
        settings |= {"keep_invalid": True, "failed": self._fail, "say": self._say}
        return incoming_documents(files, table.format, **settings)

    def _say(self, line: str) -> None:
        doubt = line.removeprefix("warning: ")
        self._console.say(line) if doubt == line else self._console.warn(doubt)

    def _fail(self, error: InputError) -> None:
        self.failures += 1
        sys.stdout.flush()
        print_error(str(error))

    def print(self, batches: Iterable[Corpus]) -> None:
        """Print the predictions of documents, and the problems of reading them."""
        for documents in batches:
            for identifier, problem in documents.problems:
                self._console.say(f"note: {identifier}: {problem}")
            corpora.check_letters(self._console, self._kernel, documents)
            rows = self._rows(documents) if len(documents) else iter(())
            for row, cells in _with_invalid(documents, rows, self.model):
                if self._table is None:
                    self._console.print_json(row)
                else:
                    self._table.write(row, cells)
            sys.stdout.flush()
            if documents.invalid:
                self._first_reason = self._first_reason or str(documents.invalid[0][1].problem)
                self._without_text += len(documents.invalid)
        if self._table is not None:
            self._table.flush()

    def _rows(self, documents: Corpus) -> Iterator[Json]:
        """Printed values of each document, without its id."""
        self.model, examples = examples_for(self.model, documents)
        self._warn_of_foreign(documents, self._drift.add_texts(examples, self._form.drift))
        with self._console.progress(beside_stdout=True):
            classes, predicted, decision, probability = judge.predict(
                self.model, examples, [], self._training.positive, self._console.stage
            )
        if self._form.drift and classes is not None and predicted.ndim == 1 and self._abilities.classes:
            self._drift.add_decisions(decision)
        shown = probability if self._calibrated.proba else None
        rows = judge.rows_of(classes, predicted, decision, shown, self._training.positive)
        if self._form.top is not None:
            rows = judge.with_top(rows, classes, decision, probability, self._form.top)
        return self._calibrated.with_sets(self.model, decision, probability, rows)

    def _warn_of_foreign(self, documents: Corpus, foreign: Ints) -> None:
        """Warn once of texts unlike those of training; `foreign` are indices of texts with new symbols."""
        if self._warned or not (len(foreign) or self._drift.unlike):
            return
        self._warned = True
        if len(foreign):
            self._console.warn(
                f"{documents.ids[foreign[0]]}: most of its symbols never occurred in training "
                "(another language, script or encoding?): do not trust this prediction, nor others "
                "of such texts"
            )
            return
        self._console.warn(
            f"fewer than {100 * UNLIKE:.0f} % of the sequences of four characters in these "
            "documents occur in a sample of the training texts (another column or language?): do "
            "not trust the predictions"
        )

    def report(self) -> None:
        """Report the drift, columns that the table has no place for, and rows without a text."""
        if self._form.drift:
            _report_drift(self._console, self._drift)
        if self._table is not None and self._table.lost:
            self.failures += 1
            names = ", ".join(self._table.lost.values())
            print_error(
                "the columns of the output are those of the first table, and others have more: "
                f"{names}; predict the tables one by one"
            )
        if self._without_text:
            self.failures += 1
            first = self._first_reason + ", ..." * (self._without_text > 1)
            print_error(
                f"{self._without_text:,} of the rows have no text and got no label: {first} (see the "
                f"{'output' if self._table is None else 'notes'}); leave such rows out with --skip-invalid"
            )


def _report_drift(console: Console, drift: Drift) -> None:
    """Report how far the texts are from those of training, and warnings."""
    values, messages = drift.as_dict(), drift.findings()
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
    documents: Corpus, rows: Iterable[Json], model: TrainedModel
) -> Iterator[tuple[Json, Cells | None]]:
    """Printed values with ids, also of rows of the input without a text, and the cells of these rows."""
    valid = zip(documents.ids, rows, documents.rows or [None] * len(documents), strict=True)
    start = 0
    for stop, invalid in [*documents.invalid, (len(documents), None)]:
        for identifier, row, cells in islice(valid, stop - start):
            yield {"id": identifier, **row}, cells
        start = stop
        if invalid is not None:
            yield {"id": invalid.id, **judge.row_without_text(model, invalid.problem)}, invalid.row


class _CsvWriter:
    """Printed values as a table: the columns of the input, then a column for each value.

    The first row with a label determines the columns; rows before it wait.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._input_columns: list[str] = []
        self._columns: list[str] = []
        self._waiting: list[tuple[Json, Cells | None]] = []
        #: Columns of later rows that the table has no place for, by their name.
        self.lost: dict[str, str] = {}

    def write(self, row: Json, cells: Cells | None) -> None:
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
            self._input_columns = list(cells or ())
            self._columns = [name for name in values if name != "id"]
            names = [f"predicted_{name}" if name in self._input_columns else name for name in self._columns]
            self._console.print_csv([*self._own_id("id"), *self._input_columns, *names])
        for values, cells in self._waiting:
            cells = cells or {"id": values["id"]}
            for name in cells:
                if name not in self._input_columns and name != "id":
                    self.lost.setdefault(name, f"{name!r} ({values['id']})")
            copied = (_cell(cells.get(name)) for name in self._input_columns)
            added = (_cell(values.get(name)) for name in self._columns)
            self._console.print_csv([*self._own_id(values["id"]), *copied, *added])
        self._waiting = []

    def _own_id(self, identifier: str) -> list[str]:
        return [] if "id" in self._input_columns else [identifier]


def _flat(row: Json) -> Iterator[tuple[str, object]]:
    """Columns of the printed values of a document."""
    for name, value in row.items():
        if name == "top":
            for number, label in enumerate(value, 1):
                yield from ((f"{key}_{number}", item) for key, item in label.items())
        elif isinstance(value, dict):
            yield from ((f"{name}_{key}", item) for key, item in value.items())
        else:
            yield name, value


def _cell(value: object) -> object:
    """Cell of a CSV table; the labels of a list are separated by semicolons."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ";".join(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
