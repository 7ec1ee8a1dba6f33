"""textsvm train: a labelled corpus -> a model file."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict, dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from textsvm.cli import machines, options
from textsvm.cli.console import Console, WrongUsage, seconds_row
from textsvm.cli.options import option_field
from textsvm.cli.output import LIBSVM_MODEL, MODEL, Force, Output

if TYPE_CHECKING:
    from textsvm.arrays import Json
    from textsvm.readers.corpus import Corpus

Calibration = Enum("Calibration", {"sigmoid": "sigmoid", "isotonic": "isotonic"})
Solver = Enum("Solver", {"auto": "auto", "gram": "gram", "features": "features"})


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
    seed: int = option_field("Random seed.", default=0)

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
    libsvm: bool = option_field(
        "Write the model in LIBSVM's format; for vectors, with --multiclass ovo.", default=False
    )
    force: Force = False

    def checked(self, corpus: list[Path], calibrate: bool) -> Output:
        """Output file; raises WrongUsage."""
        for name in ["--without-texts"] * self.without_texts + ["--calibrate"] * calibrate:
            if self.libsvm:
                raise WrongUsage(f"--libsvm and {name} do not go together")
        kind = LIBSVM_MODEL if self.libsvm else MODEL
        return Output("-o", self.output, kind, self.force).checked({"the corpus": corpus})


@dataclass(frozen=True)
class TrainPrintingOptions(options.PrintingOptions):
    """Form of the output of `train`."""

    verbose: bool = option_field(
        "Also print the kernel matrix, the solver's iterations and objective, the support vectors and times.",
        default=False,
    )


@options.with_groups
def train(
    corpus: options.CorpusPath,
    reading: options.ReadingOptions,
    learning: options.LearningOptions,
    model_options: machines.ModelOptions,
    task: TaskOptions,
    file: ModelFile,
    printing: TrainPrintingOptions,
) -> None:
    """Train a classifier on a labelled corpus, or a regression on numbers, and save it.

    A classifier has a kernel that suits most texts unless --kernel names another.

    textsvm train mails.tar.gz -o spam.textsvm

    textsvm train reuters21578.tar.gz --part train --positive earn --negative acq -o earn.textsvm

    textsvm train essays.tsv --regress score --kernel spectrum:1-15,intersection
    """
    started = time.perf_counter()
    task.check(reading, learning)
    model_options.cluster.check()
    inputs = [*corpus, *([] if learning.corrections is None else [learning.corrections])]
    output = file.checked(inputs, task.calibrate is not None)
    console = Console(printing.quiet, output.is_stdout)

    from textsvm.cli import corpora, model_files, splits, training

    settings = training.settings_of(model_options, task, learning)
    settings, documents = training.read(console, settings, corpus, reading, learning, model_options, file)
    repeat = model_files.update_facts(documents, corpus, reading, learning)
    if task.one_class is not None:
        documents = corpora.of_one_class(documents, task.one_class)
        reading = replace(reading, positive=task.one_class)
    corpora.targets(documents, learning.multilabel)
    read = time.perf_counter() - started
    training_part, test_part = splits.hold_out(console, documents, task.holdout, task.seed)
    if task.one_class is not None:
        of_class = (i for i, label in enumerate(training_part.labels or []) if label == task.one_class)
        training_part = training_part.subset(of_class)
    counts = corpora.label_counts(training_part)
    console.say(f"note: {_describe(training_part, counts)}")
    if training_part.labels is not None and not learning.multilabel:
        corpora.check_classes(training_part, reading.label)
    corpora.say_lone_classes(console, counts)
    compute = model_files.classifier_of(settings).compute_options
    with model_options.cluster.at_work(console, compute.store):
        outcome = training.fit(console, settings, training_part, test_part, reading.positive)
    model = outcome.model
    if model.record.chosen:
        console.say(f"note: {model.record.chosen}")
    console.say_device(model.device_in_use)
    of_labelling = any(Path(f"{path}.journal").exists() for path in corpus)
    summary, verdict = training.summarise(console, outcome, of_labelling)
    about = summary | {"drift": outcome.drift, "update": repeat}
    if outcome.baseline is not None:
        about["length_baseline"] = asdict(outcome.baseline)
    size = training.save(console, output, file, outcome, reading, learning, about)
    shown = f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"
    console.say(f"model {file.output}: {shown}{', no training text in it' * file.without_texts}")
    saved = {"model": str(file.output), "bytes": size, "texts": not file.without_texts}
    seconds = {"read": read, **model.record.seconds, "total": time.perf_counter() - started}
    report = {**saved, **summary, "seconds": seconds}
    if printing.json:
        console.print_json(report)
        return
    if printing.verbose:
        _show_facts(console, report)
    if outcome.results is not None:
        from textsvm.cli.results import show_results

        show_results(console, "holdout", outcome.results)
    if not printing.quiet:
        console.line(training.last_line(settings, verdict))


def _describe(corpus: Corpus, counts: Counter[str]) -> str:
    """Number of documents, and their classes or range of numbers."""
    if corpus.targets is not None:
        low, high = min(corpus.targets), max(corpus.targets)
        return f"{len(corpus):,} documents with numbers from {low:g} to {high:g}"
    shown = ", ".join(f"{name} {count:,}" for name, count in counts.most_common(10))
    more = f" and {len(counts) - 10} more" if len(counts) > 10 else ""
    return f"{len(corpus):,} documents of {len(counts)} class{'es' * (len(counts) > 1)}: {shown}{more}"


def _show_facts(console: Console, report: Json) -> None:
    """Print the facts of the training as tables."""
    state = "converged" if report["converged"] else f"NOT converged: {report['status']}"
    several = f" in {report['machines']} machines" if report["machines"] > 1 else ""
    console.table(
        f"model {report['model']}",
        [
            ("machine", report["estimator"]),
            ("kernel", report["kernel_spelled"]),
            *([] if report["C"] is None else [("C", f"{report['C']:.3g}")]),
            ("device", report["device"]),
            ("kernel matrix", report["kernel_matrix"]),
            ("training documents", f"{report['n_train']:,}"),
            ("support vectors", f"{report['n_support']:,}"),
            ("iterations", f"{report['iterations']:,}{several} ({state})"),
            ("objective", f"{report['objective']:.6g}, duality gap {report['duality_gap']:.2g}"),
            seconds_row(report["seconds"]),
        ],
    )
    if report["classes"]:
        columns = ("class", "documents", "support_vectors")
        rows = [(row["class"], *(f"{row[name]:,}" for name in columns[1:])) for row in report["classes"]]
        console.table("classes", rows, ("class", "documents", "support vectors"))
