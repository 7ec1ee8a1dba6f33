"""textsvm predict: a model and documents -> JSON Lines or CSV."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from textsvm.cli import options
from textsvm.cli.console import Console, WrongUsage
from textsvm.cli.kernels import several
from textsvm.cli.options import option_field
from textsvm.cli.output import MODEL, PREDICTIONS, STDOUT, Force, Kind, Output
from textsvm.errors import InputError

if TYPE_CHECKING:
    from textsvm.arrays import AnyArray, Json
    from textsvm.cli.model_files import Abilities
    from textsvm.model.trained import TrainedModel

PREDICTION_TABLE = Kind("a table of predictions", rb"[^\n]*labels?,(decision|label_1)[^\n]*\n")
OutputFormat = Enum("OutputFormat", {"jsonl": "jsonl", "csv": "csv"})
_adapting = partial(option_field, panel="Adaptation")
_sets = partial(option_field, panel="Prediction sets (calibrated models)")


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

        for name, value in (("--coverage", self.coverage), ("--none", self.none)):
            if value is None:
                continue
            try:
                require_share(name, value)
            except InputError as error:
                raise WrongUsage(str(error).replace("=", " ", 1)) from error
            if not abilities.sets:
                raise InputError(
                    f"{path} is not calibrated, which {name} needs; train a classifier with "
                    "`textsvm train --calibrate sigmoid`"
                )
            model.calibrated().require_conformity()

    def with_sets(
        self, model: TrainedModel, decision: AnyArray, probability: AnyArray | None, rows: Iterable[Json]
    ) -> Iterator[Json]:
        """Rows with prediction sets, and without the labels of documents unlike every class."""
        if self.coverage is None and self.none is None:
            yield from rows
            return
        rule = model.calibrated()
        names, conformity = [str(label) for label in rule.classes], rule.require_conformity()
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
class AdaptOptions:
    """Adaptation of the model to the documents."""

    adapt: bool = _adapting(
        "Adapt the model to these documents by self-training, if their median margin is 0.7 to 0.95 of that "
        "of held-out training texts. All documents are read before the first prediction.",
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
        inputs: dict[str, Path | list[Path] | None]
        inputs = {"the model": model, "the documents": files, "the corpus": self.corpus}
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
        default=False,
    )

    def check(self, abilities: Abilities, path: Path, table: options.TableOptions) -> None:
        """Raise InputError if the model lacks what the options need."""
        if self.top is not None and not abilities.decisions:
            raise InputError(f"{path} predicts numbers and has no labels, which --top needs")
        if self.adapting.adapt and not abilities.adapts:
            raise InputError(
                f"{path} cannot be adapted; --adapt takes a classifier with one label per document that was "
                "trained without --calibrate"
            )
        if self.adapting.adapt and table.vectors is not None:
            raise InputError("--adapt needs texts; it has no use for vectors")

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
    limits = calibrated.limits
    files = files or ["-"]
    output_file = form.checked(model, files)
    console.counts = output_file.is_stdout
    adapted_file = form.adapting.checked(form.force, model, [Path(file) for file in files if file != "-"])

    from textsvm.cli import model_files, predictions

    fitted = model_files.load_model(console, model, device, online=True)
    training, abilities = model_files.Training.of(fitted), model_files.Abilities.of(fitted)
    calibrated.check(fitted, abilities, model)
    form.check(abilities, model, table)
    if limits is not None:
        fitted = predictions.with_unsure(fitted, limits, training)
    printer = predictions.Printer(console, fitted, abilities, training, calibrated, form)
    batches = printer.incoming(files, table)
    if form.adapting.adapt:
        from textsvm.cli import retraining

        old = retraining.training_corpus(console, fitted, form.adapting.corpus, model)
        batches = list(batches)
        read = (model_files.examples_for(fitted, documents)[1] for documents in batches if len(documents))
        texts = [text for examples in read for text in examples]
        printer.model = retraining.adapt(console, fitted, old, texts, adapted_file)
    with output_file.printing():
        printer.print(batches)
    printer.report()
    if used := printer.model.last_device:  # at least one document was read
        console.say_device(used)
    if printer.failures:
        raise typer.Exit(1)
