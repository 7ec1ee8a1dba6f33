"""Predict documents as they arrive, and print JSON Lines or a table: the work of `textsvm predict`.

Predictions of an input table are added to the text of each row of CSV or TSV, or to the workbook of .xlsx, so
the rest of the table does not change.
"""

from __future__ import annotations

import csv
import io
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import count, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from textsvm.arrays import AnyArray, Array, Floats, Ints, Json
from textsvm.cli import corpora
from textsvm.cli.console import Console, WrongUsage, print_error
from textsvm.cli.model_files import Abilities, Training, examples_for
from textsvm.cli.options import TableOptions
from textsvm.cli.output import DIALECTS, Output, fill, line_of, print_rows
from textsvm.errors import InputError
from textsvm.evaluation import judge
from textsvm.evaluation.drift import UNLIKE, Drift
from textsvm.model.rules import UNSURE, LabelRule, NumberRule, check_reject, has_probabilities, margins
from textsvm.model.trained import TrainedModel
from textsvm.readers.charsets import byte_order_mark, decode
from textsvm.readers.corpus import Corpus
from textsvm.readers.stream import incoming_documents
from textsvm.readers.tables import SourceRow, TableForm

if TYPE_CHECKING:
    from textsvm.cli.task_options import CalibratedOptions, OutputForm

#: Fewest documents of which training documents are reported.
FEW = 5
#: Cells of a row of the input table, by column.
Cells = Mapping[str, Any]


def with_unsure(model: TrainedModel, limits: list[float], training: Training) -> TrainedModel:
    """A calibrated model with the probabilities between which documents are unsure."""
    text = ",".join(f"{limit:g}" for limit in limits)
    if len(limits) > 2 or not all(0 <= limit <= 1 for limit in limits) or limits != sorted(limits):
        raise WrongUsage(f"--unsure must be one or two probabilities, the lower one first, got {text}")
    rule = model.rule
    assert has_probabilities(rule)
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
        self._format = form.kind.format
        self._table = None
        if self._format not in ("jsonl", "json"):
            names = _value_names(model, calibrated, form, training)
            labels = () if model.classes is None else [*map(str, model.classes), UNSURE, "rest"]
            self._table = LabelledRows(console, self._format, names, labels)
        self._listed: list[Json] = []  #: Rows of JSON
        self._missing = Counter[str]()  #: Texts that are names of a missing value
        self._without_text = 0  #: Number of rows without a text
        self._first_reason = ""  #: Of the first of these rows
        self._warned = False
        self._predicted, self._seen = 0, 0.0  #: Number of documents, and of training documents among them

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

    def print(self, batches: Iterable[Corpus], output: Output) -> None:
        """Print the predictions of documents, and the problems of reading them."""
        with output.printing():
            self._print(batches)
            if self._table is not None:
                self._table.close()
            elif self._format == "json":
                print_rows(self._format, (), self._listed)

    def _print(self, batches: Iterable[Corpus]) -> None:
        for documents in batches:
            for identifier, problem in documents.problems:
                self._console.say(f"note: {identifier}: {problem}")
            corpora.check_letters(self._console, self._kernel, documents)
            rows = self._rows(documents) if len(documents) else iter(())
            for row, cells in _with_invalid(documents, rows, self.model):
                if self._table is not None:
                    self._table.write(dict(_flat(row)), cells)
                elif self._format == "json":
                    self._listed.append(row)
                else:
                    self._console.print_json(row)
            sys.stdout.flush()
            if documents.invalid:
                self._first_reason = self._first_reason or str(documents.invalid[0][1].problem)
                self._without_text += len(documents.invalid)

    def _rows(self, documents: Corpus) -> Iterator[Json]:
        """Printed values of each document, without its id."""
        self.model, examples = examples_for(self.model, documents)
        self._predicted += len(documents)
        self._missing += corpora.names_of_missing(documents)
        self._seen += len(documents) * judge.share_of_training(self.model, examples)
        self._warn_of_foreign(documents, self._drift.add_texts(examples, self._form.drift))
        with self._console.progress(beside_stdout=True):
            classes, predicted, decision, probability = judge.predict(
                self.model, examples, [], self._training.positive, self._console.stage
            )
        if self._form.drift and classes is not None and predicted.ndim == 1 and self._abilities.classes:
            self._drift.add_decisions(decision)
        if self._calibrated.proba and has_probabilities(self.model.rule):
            probability = self.model.rule.probabilities(decision)
        shown = probability if self._calibrated.proba else None
        rows = judge.rows_of(classes, predicted, decision, shown, self._training.positive)
        if self._form.top is not None:
            rows = judge.with_top(rows, classes, decision, probability, self._form.top)
        rows = self._calibrated.with_sets(self.model, decision, probability, rows)
        if self._table is None or classes is None:
            return rows
        confidence = _confidence(self.model, classes, predicted, decision, probability).tolist()
        return ({**row, "confidence": round(x, 6)} for row, x in zip(rows, confidence, strict=True))

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
        corpora.say_missing_texts(self._console, self._missing)
        if self._predicted >= FEW and self._seen > judge.SEEN * self._predicted:
            self._console.warn(judge.KNOWN.format(self._seen / self._predicted))
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


def _value_names(
    model: TrainedModel, calibrated: CalibratedOptions, form: OutputForm, training: Training
) -> list[str]:
    """Names of the columns of a table of predictions."""
    if model.classes is None:
        one_class = training.positive is not None and not isinstance(model.rule, NumberRule)
        return ["label", "confidence", *["decision"] * form.all_classes] if one_class else ["value"]
    classes, several = [str(label) for label in model.classes], isinstance(model.rule, LabelRule)
    names = ["labels" if several else "label", "confidence"]
    if form.top is not None:
        kinds = ["label", "decision", *["probability"] * (model.probabilistic or calibrated.proba)]
        names += [f"{kind}_{k}" for k in range(1, min(form.top, len(classes)) + 1) for kind in kinds]
    elif form.all_classes:
        names += [f"decision_{name}" for name in classes] if len(classes) > 2 or several else ["decision"]
        names += [f"probabilities_{name}" for name in classes if calibrated.proba]
    return names + ["set"] * (calibrated.coverage is not None)


def _confidence(
    model: TrainedModel, classes: AnyArray, predicted: Array, decision: Floats, probability: Floats | None
) -> Floats:
    """Probability of each label; without calibration the margin, for labels that to the nearest threshold."""
    if isinstance(model.rule, LabelRule):
        thresholds = 0.0 if model.rule.thresholds is None else model.rule.thresholds
        nearest: Floats = np.abs(decision - thresholds).min(axis=1)
        return nearest
    if probability is None:
        return margins(decision)
    own = np.asarray(predicted)[:, None] == classes
    return np.where(own.any(axis=1), (own * probability).sum(axis=1), probability.max(axis=1))


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


@dataclass
class LabelledRows:
    """Rows of the input with columns for the predictions; the first row decides the columns and the form."""

    console: Console
    format: str
    added: Sequence[str]  #: Names of the values of the predictions
    labels: Sequence[str]  #: All labels that may occur
    #: Columns of later rows that the table has no place for, by their name.
    lost: dict[str, str] = field(default_factory=dict)
    _inputs: Sequence[str] = ()  #: Columns of the input; none before the first row
    _names: Sequence[str] = ()  #: Added columns
    _form: TableForm | None = None  #: Form of the input, if it is CSV or TSV and the output keeps it
    _charset: str = "utf-8"
    _end: str = "\n"
    _pending: str = ""  #: Line end that the last line lacks
    _collected: list[tuple[Json, Mapping[str, Any]]] = field(default_factory=list)

    def write(self, row: Json, cells: Mapping[str, Any] | None) -> None:
        """Write or collect the values of a document with its `cells` in the input, None if it is no row."""
        cells = {"id": row["id"]} if cells is None else cells
        if reason := row.get("reason"):
            self.console.say(f"note: {row['id']}: {reason}")
        if not self._inputs:
            self._begin(cells)
        for name in cells.keys() - set(self._inputs):
            self.lost.setdefault(name, f"{name!r} ({row['id']})")
        values = [row.get(name) for name in self.added]
        if self.format not in DIALECTS:
            self._collected.append((dict(zip(self._names, values, strict=True)), cells))
        elif self._form and isinstance(cells, SourceRow) and cells.form.dialect == self._form.dialect:
            self._print(self._extended(cells.raw, cells.fields, values))
        else:
            self._print(self._line([*map(cells.get, self._inputs), *values]) + self._end)

    def close(self) -> None:
        """Write the collected rows, or a table without rows."""
        if not self._inputs:
            self._begin({"id": None})
        forms = [cells.form for _, cells in self._collected if isinstance(cells, SourceRow)]
        same = len(forms) == len(self._collected) and all(form is forms[0] for form in forms)
        if self.format == "xlsx" and forms and same and b"xl/workbook.xml" in forms[0].file.data:
            self._extend_workbook(forms[0])
        elif self.format not in DIALECTS:
            print_rows(self.format, [*self._inputs, *self._names], ({**c, **v} for v, c in self._collected))

    def _begin(self, cells: Mapping[str, Any]) -> None:
        """Decide the columns and the form, and write the header."""
        form, names = cells.form if isinstance(cells, SourceRow) else None, list[str]()
        self._inputs = list(form.names if form else cells)
        taken = {name.strip().casefold() for name in self._inputs}
        for name in self.added:
            free = (f"predicted_{name}" + f"_{n}" * (n > 1) for n in count(1))
            names.append(name if name not in taken else next(new for new in free if new not in taken))
        self._names = names
        if names != list(self.added):
            self.console.say(f"note: some names are in the table; the new columns are {', '.join(names)}")
        if form and form.format == self.format:
            self._keep_form(form)
        if form and not form.headed:
            self.console.say(f"note: the table has no header; {' and '.join(names)} are its last columns")
        elif self._form:
            self._print(self._extended(self._form.header, self._form.names, names))
        elif self.format in DIALECTS:
            self._print(self._line([*self._inputs, *names]) + self._end)

    def _keep_form(self, form: TableForm) -> None:
        """Keep the form of a table in the output; InputError if its encoding cannot write a label."""
        head = form.file.head  # without the last line, which may end within a letter
        mark, self._charset = byte_order_mark(head)
        if not mark and decode(head[: head.rfind(b"\n") + 1] or head)[1]:
            self._charset = "cp1252"
        self._charset = form.file.charset or self._charset
        lacking = (x for x in self.labels if x.encode(self._charset, "ignore").decode(self._charset) != x)
        if (label := next(lacking, None)) is not None:
            raise InputError(
                f"the label {label!r} cannot be written in {self._charset}, the encoding of "
                f"{form.file.name}; name a .jsonl or .xlsx file, or convert the table to UTF-8"
            )
        self._form, self._end = form, _end_of(form.header) or "\n"
        sys.stdout.buffer.write(mark)

    def _extended(self, raw: str, cells: Sequence[str], values: Sequence[object]) -> str:
        """The text of a row and `values`, quoted if all its cells are; a row with too many is unchanged."""
        if len(cells) > len(self._inputs):
            return raw
        end, text = _end_of(raw), raw.removesuffix(_end_of(raw))
        quoted = self.format == "csv" and text.lstrip("\r\n") == self._line(cells, csv.QUOTE_ALL)
        padding = [""] * (len(self._inputs) - len(cells))
        added = self._line(values, csv.QUOTE_ALL if quoted else None)
        return self._delimiter.join([text, *padding, added]) + end

    @property
    def _delimiter(self) -> str:
        return self._form.delimiter if self._form else DIALECTS[self.format][0]

    def _line(self, cells: Sequence[object], quoting: int | None = None) -> str:
        return line_of(cells, self._delimiter, DIALECTS[self.format][1] if quoting is None else quoting)

    def _print(self, text: str) -> None:
        """Print text in the encoding of the table, or in UTF-8 if the encoding lacks a character."""
        text, self._pending = self._pending + text, "" if _end_of(text) else self._end
        try:
            data = text.encode(self._charset, "textsvm-windows-1252")
        except UnicodeEncodeError:
            data = text.encode("utf-8", "backslashreplace")
        self.console.count()
        sys.stdout.buffer.write(data)

    def _extend_workbook(self, form: TableForm) -> None:
        """Add the columns to the sheet of a workbook."""
        from openpyxl import load_workbook

        book = load_workbook(io.BytesIO(form.file.data), rich_text=True)
        sheet, column = book[form.sheet], form.first[1] + len(form.names)
        lines = [(cells.line, row) for row, cells in self._collected if isinstance(cells, SourceRow)]
        for line, values in [(form.header_line, {name: name for name in self._names}), *lines]:
            for place, value in enumerate(values.values() if line else (), column + 1):
                fill(sheet, form.first[0] + line, place, value)
                if line == form.header_line:
                    old, new = (sheet.cell(form.first[0] + line, k) for k in (column, place))
                    new._style = copy(old._style)
        if any(cell.data_type == "f" for row in sheet.iter_rows() for cell in row):
            self.console.say("note: its formulas have no values until a spreadsheet program opens the file")
        if b"xl/charts/" in form.file.data or b"xl/media/" in form.file.data:
            self.console.say(f"note: charts and pictures of {form.file.name} are not in the output")
        book.save(sys.stdout.buffer)


def _end_of(raw: str) -> str:
    """The line end of a text, empty if it has none."""
    return raw[len(raw.rstrip("\r\n")) :]
