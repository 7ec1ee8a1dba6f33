"""textsvm train: a labelled corpus -> a model file."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from textsvm.cli import machines, options
from textsvm.cli.console import Console, seconds_row
from textsvm.cli.options import option_field
from textsvm.cli.task_options import ModelFile, TaskOptions

if TYPE_CHECKING:
    from textsvm.arrays import Json


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
    output = file.checked(inputs)
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
    doubtful = bool(corpora.doubtful_labels(corpora.label_counts(documents)))
    counts = corpora.label_counts(training_part)
    console.say(f"note: {corpora.summary(training_part, counts)}")
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
    report = {**saved, **summary, "seconds": seconds, "reading": documents.reading}
    report["warnings"] = console.warned
    if printing.json:
        console.print_json(report)
        return
    if printing.verbose:
        _show_facts(console, report)
    if outcome.results is not None:
        from textsvm.cli.results import show_results

        show_results(console, "holdout", outcome.results)
    if not printing.quiet:
        console.line(training.last_line(settings, outcome.training, verdict, doubtful))


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
