"""Predict documents as they arrive, and print JSON Lines or a table: the work of `textsvm predict`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from typing import Any

from textsvm.arrays import Ints, Json
from textsvm.cli import corpora
from textsvm.cli.console import Console, WrongUsage, print_error, wrong_usage
from textsvm.cli.model_files import RecordedOptions, examples_for
from textsvm.cli.options import PredictedValues, TableOptions
from textsvm.cli.output import Output
from textsvm.errors import InputError, first_few
from textsvm.evaluation import judge
from textsvm.evaluation.drift import UNLIKE, Drift, ShortTexts
from textsvm.model import rules
from textsvm.model.conformal import require_share
from textsvm.model.trained import TrainedModel
from textsvm.readers.corpus import NO_DOCUMENTS, Corpus
from textsvm.readers.delimited import NAMED
from textsvm.readers.plausible import is_total
from textsvm.readers.statistics import names_of_missing
from textsvm.readers.stream import ONE_DOCUMENT, incoming_documents
from textsvm.reporting.labelled_rows import LabelledRows
from textsvm.reporting.tables import write_table
from textsvm.runtime.compiled import use_numba

FEW = 5  #: Fewest documents of which training documents are reported.
#: Operations of NumPy per byte of a file: for many bytes `use_numba` imports Numba at once.
NUMPY_OPERATIONS = 100
Cells = Mapping[str, Any]  #: Cells of a row of the input table, by column.


def check(values: PredictedValues, model: TrainedModel, path: Path, unsure: bool, least: bool) -> None:
    """Raise InputError, before documents are read, if the model lacks what the options need."""
    rule = model.rule
    if (values.proba or unsure) and not rules.has_probabilities(rule):
        raise InputError(
            f"{path} gives no probabilities; train it with `textsvm train --calibrate sigmoid`"
            if rule.classes is not None
            else f"{path} is not a classifier and gives no probabilities"
        )
    for name, value in (("coverage", values.coverage), ("none", values.none)):
        if value is None:
            continue
        with wrong_usage():
            require_share(name, value)
        if not isinstance(rule, rules.CalibratedRule):
            raise InputError(
                f"{path} is not calibrated, which --{name} needs; train a classifier with "
                "`textsvm train --calibrate sigmoid`"
            )
    if values.pieces and (model.pieces is None or model.pieces.length is None):
        raise InputError(f"{path} does not cut texts, which --pieces needs; train it with --chunk")
    option = "--top" if values.top is not None else "--unsure" if least else ""
    if option and isinstance(rule, rules.NumberRule):
        raise InputError(f"{path} predicts numbers and has no labels, which {option} needs")


def with_unsure(model: TrainedModel, limits: list[float]) -> TrainedModel:
    """The model, which has probabilities, with those between which documents are unsure."""
    text = ",".join(f"{limit:g}" for limit in limits)
    if len(limits) > 2 or not all(0 <= limit <= 1 for limit in limits) or limits != sorted(limits):
        raise WrongUsage(f"--unsure must be one or two probabilities, the lower one first, got {text}")
    rule = model.rule
    assert rules.has_probabilities(rule)
    if len(limits) == 2 and RecordedOptions.of(model).positive == rule.classes[0]:
        limits = [1 - limits[1], 1 - limits[0]]
    reject = limits[0] if len(limits) == 1 else tuple(limits)
    with wrong_usage(f"--unsure {text}: "):
        rules.check_reject(reject, rule.classes)
    return replace(model, rule=replace(rule, reject=reject))


class Printer:
    """Predicts documents and prints them; counts failures."""

    def __init__(
        self, console: Console, model: TrainedModel, values: PredictedValues, format: str,
        least: int | None = None,
    ) -> None:  # fmt: skip
        self._pieces = model.pieces if values.pieces else None
        self.model = replace(model, pieces=None) if values.pieces else model
        self._classes = [] if model.classes is None else [*map(str, model.classes)]
        self.failures = 0
        self._console = console
        self._training = RecordedOptions.of(model)
        self._values, self._least = values, least
        self._drift = Drift(model, model.info.get("drift"))
        self._short, self._format = ShortTexts(self._drift.support), format
        self._table: LabelledRows | None = None
        self._written: dict[str, Any] = {}  #: Separator and decimal mark of CSV from spreadsheets
        self._listed: list[Json] = []  #: Rows of JSON
        self._missing = Counter[str]()  #: Texts that are names of a missing value
        self._n_without_label = 0  #: Rows without a text, or with another number of fields
        self._without_label: list[str] = []  #: Problems of the first of them
        self._no_documents: list[str] = []  #: Of the first rows that are no documents
        self._totals: list[str] = []  #: The first texts with a label that may be rows of totals
        self._warned = False
        self._predicted, self._seen = 0, 0.0  #: Number of documents, and of training documents among them

    def incoming(self, files: list[str], table: TableOptions) -> Iterable[Corpus]:
        """The documents of files as they arrive; vectors are read as a whole."""
        settings: Json = {
            "headers": self._training.headers, "recorded": self._training.columns,
            "keep_rows": self._format not in ("jsonl", "json"),
        }  # fmt: skip
        if table.vectors is not None:
            of = self.model.kernel, self._training.of_files
            return [corpora.read_unlabelled(self._console, files, table, *of, **settings)]
        paths = [Path(file) for file in files if file != "-"]
        use_numba(NUMPY_OPERATIONS * sum(path.stat().st_size for path in paths if path.is_file()))
        if "-" in files and sys.stdin is not None and sys.stdin.isatty():
            expected = "one text per line" if table.format == "lines" else table.format or "one document"
            self._console.say(f"note: waiting for {expected} on standard input; Ctrl-D ends it")
        settings |= corpora.columns(table, self.model.kernel)
        separator, decimal = (table.form.get(name, "") for name in ("separator", "decimal"))
        self._written = {"separator": NAMED.get(separator, separator), "comma": decimal in ("comma", ",")}
        settings |= {"failed": self._fail, "say": self._say, "keep_invalid": True, "classes": self._classes}
        return incoming_documents(files, table.format, **settings)

    def _say(self, line: str) -> None:
        doubt = line.removeprefix("warning: ")
        if not (self._training.of_files and line.endswith(ONE_DOCUMENT)):
            self._console.say(line) if doubt == line else self._console.warn(doubt)

    def _fail(self, error: InputError) -> None:
        self.failures += 1
        sys.stdout.flush()
        print_error(str(error))

    def print(self, batches: Iterable[Corpus], output: Output) -> None:
        """Print the predictions of documents, and the problems of reading them."""
        with output.printing():
            stream = sys.stdout.buffer
            if self._format not in ("jsonl", "json"):
                names, console = _value_names(self.model, self._values, self._training), self._console
                labels = [*self._classes, rules.UNSURE, "rest"] if self._classes else []
                self._table = LabelledRows(
                    stream, console.say, console.count, self._format, names, labels, self._least is None,
                    **self._written,
                )  # fmt: skip
            printed = self._printed(batches)
            if self._least is not None:
                rows = (pair for pairs in printed for pair in pairs if "confidence" in pair[0])
                printed = iter([nsmallest(self._least, rows, key=lambda pair: pair[0]["confidence"])])
            for pairs in printed:
                self._write(pairs)
            sys.stdout.flush()
            if self._table is not None:
                self._table.close()
            elif self._format == "json":
                write_table(stream, self._format, (), self._listed)
            self._console.lap("print")

    def _write(self, printed: Iterable[tuple[Json, Cells | None]]) -> None:
        if self._format == "jsonl":
            self._console.print_json_lines([row for row, _ in printed])
            printed = ()
        for row, cells in printed:
            if self._table is not None:
                self._table.write(row, cells)
            else:
                self._listed.append(row)
        sys.stdout.flush()
        self._console.lap("print")

    def _printed(self, batches: Iterable[Corpus]) -> Iterator[Iterable[tuple[Json, Cells | None]]]:
        for documents in batches:
            self._console.lap("read")
            self._console.say(*(f"note: {name}: {problem}" for name, problem in documents.problems))
            corpora.check_letters(self._console, self.model.kernel, documents)
            if self._pieces is not None and len(documents):
                documents = documents.cut(self._pieces)
            yield _with_invalid(documents, self._rows(documents) if len(documents) else iter(()), self.model)
            for problem in (str(row.problem) for _, row in documents.invalid):
                no_document = problem.endswith(NO_DOCUMENTS)
                self._n_without_label += not no_document
                first = self._no_documents if no_document else self._without_label
                first += [problem] * (len(first) <= FEW)

    def _rows(self, documents: Corpus) -> Iterator[Json]:
        """Printed values of each document, without its id."""
        self.model, examples = examples_for(self.model, documents)
        self._predicted += len(documents)
        self._missing += names_of_missing(documents)
        self._short.add(documents.ids, documents.texts)
        totals = (f"{x} ({y!r})" for x, y in zip(documents.ids, documents.texts, strict=False) if is_total(y))
        self._totals += islice(totals, FEW + 1 - len(self._totals))
        self._seen += len(documents) * judge.share_of_training(self.model, examples)
        self._warn_of_foreign(documents, self._drift.add_texts(examples, self._values.drift))
        self._console.lap("check")
        with self._console.progress(beside_stdout=True):
            classes, predicted, decision, probability = judge.predict(
                self.model, examples, [], self._training.positive, self._console.stage
            )
        self._console.lap("predict")
        rule, unsure = self.model.rule, None
        if self._values.drift and isinstance(rule, rules.ClassRule):
            self._drift.add_decisions(decision)
        if rules.has_probabilities(rule) and (self._values.proba or rule.reject is not None):
            probability = rule.probabilities(decision)
            if rule.reject is not None and self._table is not None:
                unsure, predicted = predicted == rules.UNSURE, rule.classes[probability.argmax(axis=1)]
        shown = probability if self._values.proba else None
        rows = judge.rows_of(classes, predicted, decision, shown, self._training.positive)
        if self._values.top is not None:
            rows = judge.with_top(rows, classes, decision, probability, self._values.top)
        values = self._values
        if values.coverage is not None or values.none is not None:
            rows = judge.with_sets(self.model, rows, decision, probability, values.coverage, values.none)
        if classes is None or (self._table is None and self._least is None):
            return rows
        confidence = judge.confidence(self.model, classes, predicted, decision, probability).tolist()
        more = [{"confidence": round(x, 6)} for x in confidence]
        if unsure is not None:
            more = [{**x, "unsure": "yes" * flag} for x, flag in zip(more, unsure.tolist(), strict=True)]
        return ({**row, **x} for row, x in zip(rows, more, strict=True))

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
        """Report the drift, and rows without a text or a document."""
        corpora.say_missing_texts(self._console, self._missing)
        if self._predicted >= FEW and self._seen > judge.SEEN * self._predicted:
            self._console.warn(judge.KNOWN.format(self._seen / self._predicted))
        if finding := self._short.finding:
            self._console.warn(finding)
        if self._values.drift:
            self._console.say(f"drift: {self._drift.summary()}")
            messages = self._drift.findings()
            advice = (
                "do not trust the model on these texts before you have judged some predictions by hand; "
                "`textsvm update` trains it on labelled texts of today too"
            )
            self._console.warn(*(f"drift: {x}" for x in (*messages, advice) if messages))
        if self._no_documents:
            self._console.warn(f"no documents, and without a label: {first_few(self._no_documents)}")
        if self._totals:
            self._console.warn(f"texts with a label that may be rows of totals: {first_few(self._totals)}")
        if self._without_label:
            self.failures += 1
            print_error(
                f"{self._n_without_label:,} of the rows got no label: {first_few(self._without_label)}; "
                "correct them, or leave them out with --skip-invalid"
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


def _value_names(model: TrainedModel, values: PredictedValues, training: RecordedOptions) -> list[str]:
    if model.classes is None:
        one_class = training.positive is not None and not isinstance(model.rule, rules.NumberRule)
        return ["label", "confidence", *["decision"] * values.all_classes] if one_class else ["value"]
    classes, several = [str(label) for label in model.classes], isinstance(model.rule, rules.LabelRule)
    names = ["labels" if several else "label", "confidence"]
    names += ["unsure"] * (isinstance(model.rule, rules.ClassRule) and model.rule.reject is not None)
    if values.top is not None:
        kinds = ["label", "decision", *["probability"] * (model.probabilities_by_default or values.proba)]
        names += [f"{kind}_{k}" for k in range(1, min(values.top, len(classes)) + 1) for kind in kinds]
    elif values.all_classes:
        names += [f"decision_{name}" for name in classes] if len(classes) > 2 or several else ["decision"]
        names += [f"probabilities_{name}" for name in classes if values.proba]
    return names + ["set"] * (values.coverage is not None)
