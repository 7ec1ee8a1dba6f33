"""Options of `train`, `update` and `predict` that the modules of their work read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textsvm.cli import options
from textsvm.cli.console import WrongUsage, wrong_usage
from textsvm.cli.kernels import several
from textsvm.cli.options import option_field
from textsvm.cli.output import MODEL, PREDICTIONS, STDOUT, Force, Kind, Output, table_kind
from textsvm.errors import InputError

if TYPE_CHECKING:
    from textsvm.arrays import AnyArray, Json
    from textsvm.cli.model_files import Abilities
    from textsvm.model.trained import TrainedModel

Calibration = Enum("Calibration", {"sigmoid": "sigmoid", "isotonic": "isotonic"})
Solver = Enum("Solver", {"auto": "auto", "gram": "gram", "features": "features"})
OutputFormat = Enum("OutputFormat", {"jsonl": "jsonl", "csv": "csv", "tsv": "tsv"})
_sets = partial(option_field, panel="Prediction sets (calibrated models)")


@dataclass(frozen=True)
class TaskOptions:
    """Kind of model and its evaluation."""

    one_class: str | None = option_field(
        "Train a one-class machine on the documents of this label.", metavar="LABEL", panel="Labels"
    )
    nu: float | None = option_field(
        "--one-class: upper bound on the share of training outliers (default: 0.5).", panel="Machine"
    )
    calibrate: Calibration | None = option_field(
        "Also learn probabilities, for `predict --proba`.", panel="Machine"
    )
    solver: Solver | None = option_field(
        "Train on the kernel matrix (gram) or, for kernels with sparse features such as spectrum, on "
        "these (features): same optimum. auto: lower predicted time (default: auto).",
        panel="Machine",
    )
    holdout: float | None = option_field("Share of the documents to hold out for evaluation, such as 0.2.")
    seed: int = options.seed_field("Random seed.")

    def check(self, reading: options.ReadingOptions, learning: options.LearningOptions) -> None:
        """Raise WrongUsage for options that contradict each other."""
        if self.holdout is not None and not 0 < self.holdout < 1:
            raise WrongUsage(f"--holdout must be between 0 and 1, got {self.holdout:g}")
        if reading.negative is not None and reading.positive is None:
            raise WrongUsage("--negative needs --positive")
        if self.nu is not None and self.one_class is None:
            raise WrongUsage("--nu needs --one-class")
        tasks = {
            "--positive": reading.positive,
            "--regress": learning.regress,
            "--one-class": self.one_class,
            "--multilabel": learning.multilabel or None,
        }
        requested = [name for name, value in tasks.items() if value is not None]
        if len(requested) > 1:
            raise WrongUsage(f"{requested[0]} and {requested[1]} do not go together")
        if self.calibrate is not None and requested and reading.positive is None:
            kind = "classifiers with one label per document" if learning.multilabel else "classifiers"
            raise WrongUsage(f"--calibrate is for {kind} and does not go with {requested[0]}")


@dataclass(frozen=True)
class ModelFile:
    """The model file."""

    output: Path = option_field(
        "Model file to write; - is stdout.", "--output", "-o", default=Path("model.textsvm")
    )
    without_texts: bool = option_field(
        "Save one weight per feature instead of the support vectors, so that the model contains no "
        "training text; for spectrum kernels and sums of them.",
        default=False,
    )
    force: Force = False

    def checked(self, corpus: list[Path]) -> Output:
        """Output file; raises WrongUsage."""
        return Output("-o", self.output, MODEL, self.force).checked({"the corpus": corpus})


@dataclass(frozen=True)
class UpdateOptions:
    """The old corpus, columns of the new documents, and the model file to write."""

    corpus: list[Path] | None = option_field(
        "Old corpus, repeatable (default: the corpus recorded in the model, if it is unchanged).",
        metavar="PATH",
    )
    text: options.Text = None
    label: str | None = option_field("Tables: label column of the new documents.")
    header: options.Header = None
    level: options.Level = None
    output: Path | None = option_field("Model file to write (default: MODEL is replaced).", "--output", "-o")
    force: Force = False
    folds: int = option_field("Folds of the cross-validation.", min=2, default=5)
    device: options.Device = "auto"


@dataclass(frozen=True)
class CalibratedOptions:
    """Outputs of calibrated models, valid for documents like the training texts."""

    proba: bool = option_field("Add the probability of each class.", default=False)
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
        default=False,
    )
    none: float | None = _sets(
        "Give documents unlike every class no label (null), and at most this share of the others, such "
        "as 0.05.",
        metavar="SHARE",
    )

    @property
    def limits(self) -> list[float] | None:
        """The numbers of --unsure."""
        return None if self.unsure is None else several("--unsure", self.unsure, float)

    def check(self, model: TrainedModel, abilities: Abilities, path: Path) -> None:
        """Raise InputError, before documents are read, if the model lacks what the options need."""
        if (self.proba or self.unsure is not None) and not abilities.probabilities:
            raise InputError(
                f"{path} gives no probabilities; train it with `textsvm train --calibrate sigmoid`"
                if abilities.classes
                else f"{path} is not a classifier and gives no probabilities"
            )
        if self.per_class and self.coverage is None:
            raise WrongUsage("--per-class needs --coverage")
        if self.coverage is None and self.none is None:
            return
        from textsvm.model.conformal import require_share

        for name, value in (("coverage", self.coverage), ("none", self.none)):
            if value is None:
                continue
            with wrong_usage():
                require_share(name, value)
            if not abilities.sets:
                raise InputError(
                    f"{path} is not calibrated, which --{name} needs; train a classifier with "
                    "`textsvm train --calibrate sigmoid`"
                )

    def with_sets(
        self, model: TrainedModel, decision: AnyArray, probability: AnyArray | None, rows: Iterable[Json]
    ) -> Iterator[Json]:
        """Rows with prediction sets, and without the labels of documents unlike every class."""
        if self.coverage is None and self.none is None:
            yield from rows
            return
        rule = model.calibrated()
        names, conformity = [str(label) for label in rule.classes], rule.conformity
        sets = familiar = None
        if self.coverage is not None:
            assert probability is not None
            sets = conformity.sets(probability, self.coverage, self.per_class).tolist()
        if self.none is not None:
            familiar = conformity.known(decision, self.none).tolist()
        for i, row in enumerate(rows):
            if sets is not None:
                row = {**row, "set": [name for name, inside in zip(names, sets[i], strict=True) if inside]}
            yield row if familiar is None or familiar[i] else {**row, "label": None}


@dataclass(frozen=True)
class OutputForm:
    """Labels and form of the output."""

    top: int | None = option_field(
        "Print the K best labels, with decision values and the probabilities of a calibrated model.",
        metavar="K",
        min=1,
    )
    output: Path = option_field(
        "Output file; the suffix decides the format: .jsonl and .json, or .csv, .tsv, .xlsx and .parquet, "
        "which have the columns of an input table and the predictions. - is stdout.",
        "--output", "-o", default=STDOUT,
    )  # fmt: skip
    output_format: OutputFormat | None = option_field(
        "Format of stdout, or of a file with another suffix (default: jsonl)."
    )
    all_classes: bool = option_field(
        "Tables: a column for the decision value of each class, and with --proba for its probability.",
        default=False,
    )
    force: Force = False
    drift: bool = option_field(
        "Compare the documents with those of training: share of new symbols and sequences of symbols, "
        "and margins. Differences are warnings on stderr.",
        default=False,
    )

    def check(self, abilities: Abilities, path: Path) -> None:
        """Raise InputError if the model lacks what the options need."""
        if self.top is not None and not abilities.decisions:
            raise InputError(f"{path} predicts numbers and has no labels, which --top needs")

    @property
    def kind(self) -> Kind:
        """Kind of the output; raises WrongUsage."""
        return table_kind("-o", self.output, PREDICTIONS, self.output_format and self.output_format.value)

    def checked(self, model: Path, files: list[str]) -> Output:
        """Output file; raises WrongUsage."""
        kind = self.kind
        if self.all_classes and kind.format in ("jsonl", "json"):
            raise WrongUsage(f"--all-classes is for tables; {kind.format} has the values of all classes")
        inputs: list[Path] = [Path(file) for file in files if file != "-"]
        checked = Output("-o", self.output, kind, self.force)
        return checked.checked({"the model": model, "the documents": inputs})
