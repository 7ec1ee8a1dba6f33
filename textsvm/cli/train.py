"""textsvm train: a labelled corpus -> a model file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textsvm.cli import machines, options
from textsvm.cli.console import Console, WrongUsage
from textsvm.cli.options import option_field
from textsvm.cli.output import MODEL, Force, Output

if TYPE_CHECKING:
    from textsvm.cli.model_files import AnySettings
    from textsvm.sources.base import FirstPrediction

Calibration = Enum("Calibration", {"sigmoid": "sigmoid", "isotonic": "isotonic"})


@dataclass(frozen=True)
class TaskOptions:
    """Kind of model, its evaluation and its file."""

    one_class: str | None = option_field(
        "Train a one-class machine on the documents of this label.", metavar="LABEL", panel="Labels"
    )
    nu: float | None = option_field(
        "--one-class: upper bound on the share of training outliers (default: 0.5).", panel="Machine"
    )
    calibrate: Calibration | None = option_field(
        "Also learn probabilities, for `predict --proba`.", panel="Machine"
    )
    holdout: float | None = option_field("Share of the documents to hold out for evaluation, such as 0.2.")
    seed: int = options.seed_field("Random seed.")
    output: Path = option_field(
        "Model file to write; - is stdout.", "--output", "-o", default=Path("model.textsvm")
    )
    without_texts: bool = option_field(
        "Save one weight per feature instead of the support vectors, so that the model contains no "
        "training text; for spectrum kernels and sums of them.",
        default=False,
    )
    force: Force = False

    def check(self, reading: options.ReadingOptions, learning: options.LearningOptions) -> None:
        """Raise WrongUsage for options that contradict each other."""
        if self.holdout is not None and not 0 < self.holdout < 1:
            raise WrongUsage(f"--holdout must be between 0 and 1, got {self.holdout:g}")
        if reading.negative is not None and reading.positive is None:
            raise WrongUsage("--negative needs --positive")
        if self.nu is not None and self.one_class is None:
            raise WrongUsage("--nu needs --one-class")
        tasks: dict[str, Any] = {
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

    def last_line(self, size: int, cost: FirstPrediction | None) -> str:
        """Size of the model file, whether it holds no texts, and the cost of a prediction."""
        shown = f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"
        line = f"model {self.output}: {shown}"
        if self.without_texts:
            line += ", no training text in it"
        if cost is None:
            return line
        took = f"{cost.seconds:.1f} s and {cost.bytes / 1e6:.0f} MB"
        return f"{line}; a new process predicts a text (or piece) of mean length in about {took}"


@options.with_groups
def train(
    corpus: options.CorpusPath, reading: options.ReadingOptions, learning: options.LearningOptions,
    model_options: machines.ModelOptions, task: TaskOptions, printing: options.PrintingOptions,
) -> None:  # fmt: skip
    """Train a classifier on a labelled corpus, or a regression on numbers, and save it.

    A classifier has a kernel that suits most texts unless --kernel names another.

    textsvm train mails.tar.gz -o spam.textsvm

    textsvm train reuters21578.tar.gz --part train --positive earn --negative acq -o earn.textsvm

    textsvm train essays.tsv --regress score --kernel spectrum:1-15,intersection
    """
    task.check(reading, learning)
    inputs = [*corpus, *([] if learning.corrections is None else [learning.corrections])]
    output = Output("-o", task.output, MODEL, task.force).checked({"the corpus": inputs})
    console = Console(printing.quiet, output.is_stdout)

    from textsvm.cli import corpora, model_files, settings
    from textsvm.model.settings import CalibrationSettings, ClassifierSettings
    from textsvm.readers import statistics

    if task.one_class is not None:
        machine = settings.one_class(model_options, task.nu)
    else:
        machine = settings.single(model_options, learning)
    if task.without_texts:
        machine.source.require_weights()
    documents = corpora.read(console, corpus, reading, learning, kernel=machine.kernel)
    machine = settings.settle(console, machine, model_options.kernel.named, documents, auto=True)
    if task.without_texts:
        machine.source.require_weights()
    about = {"update": model_files.update_facts(documents, corpus, reading, learning)}
    if task.one_class is not None:
        documents = corpora.of_one_class(documents, task.one_class)
        reading = replace(reading, positive=task.one_class)
    corpora.targets(documents, learning.multilabel)
    training_part, test_part = corpora.hold_out(console, documents, task.holdout, task.seed)
    if task.one_class is not None:
        of_class = (i for i, label in enumerate(training_part.labels or []) if label == task.one_class)
        training_part = training_part.subset(of_class)
    training_part = corpora.cut(console, training_part, learning)
    counts = statistics.label_counts(training_part)
    console.say(f"note: {corpora.summary(training_part, counts)}")
    if training_part.labels is not None and not learning.multilabel:
        corpora.check_classes(training_part, reading.label)
    corpora.say_lone_classes(console, counts)
    corpora.say_encoder(console, training_part, machine.encoder, machine.kernel)
    trained_as: AnySettings = machine
    if task.calibrate is not None and isinstance(machine, ClassifierSettings):
        trained_as = CalibrationSettings(machine, method=task.calibrate.value, random_state=task.seed)
    console.lap("read")
    with console.work(machine.compute_options.store):
        of_labelling = any(Path(f"{path}.journal").exists() for path in corpus)
        parts = training_part, test_part
        outcome = model_files.fit(console, trained_as, *parts, reading.positive, of_labelling)
    model = outcome.model
    if model.record.chosen:
        console.say(*(f"note: {note}" for note in model.record.chosen.split("; ")))
    console.say_device(model.device_in_use)
    with console.warnings():
        about |= outcome.facts | outcome.saved
        texts = not task.without_texts
        size, cost = model_files.save_model(output, model, training_part, reading, learning, about, texts)
    seconds = console.lap("save")
    if printing.json:
        saved = {"model": str(task.output), "bytes": size, "texts": texts, "warnings": console.warned}
        saved["prediction"] = None if cost is None else cost._asdict()
        console.print_json({**saved, **outcome.facts, "seconds": seconds, "reading": documents.reading})
        return
    if outcome.results is not None:
        from textsvm.cli.results import show_results

        show_results(console, "holdout", outcome.results)
    if not printing.quiet:
        doubtful = bool(statistics.doubtful_labels(statistics.label_counts(documents)))
        console.line(model_files.last_line(trained_as, training_part, outcome, doubtful))
    console.say(task.last_line(size, cost))
    console.lap("print")
