"""textsvm train: a labelled corpus -> a model file."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from dataclasses import asdict, dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from textsvm.cli import examples, machines, model_files, notes, options
from textsvm.cli.console import Console, WrongUsage
from textsvm.cli.holdout import hold_out
from textsvm.cli.output import LIBSVM_MODEL, MODEL, Force, Output
from textsvm.kernels.spelling import spell

if TYPE_CHECKING:
    from textsvm.evaluation.length_baseline import LengthBaseline
    from textsvm.evaluation.results import Results
    from textsvm.readers import Corpus


class Calibration(Enum):
    """How decision values become probabilities."""

    sigmoid = "sigmoid"
    isotonic = "isotonic"


class Solver(Enum):
    """What machines are trained from."""

    auto = "auto"
    gram = "gram"
    features = "features"


@dataclass(frozen=True)
class Task:
    """What kind of model is trained, and what it is judged on."""

    one_class: Annotated[
        str | None,
        typer.Option(
            help="Learn what documents of this label are like, from them alone.",
            metavar="LABEL",
            rich_help_panel="Labels",
        ),
    ] = None
    nu: Annotated[
        float | None,
        typer.Option(
            help="--one-class: bound on the share of its documents that stay outside (default: 0.5).",
            rich_help_panel="Machine",
        ),
    ] = None
    calibrate: Annotated[
        Calibration | None,
        typer.Option(
            help="Learn probabilities too; `predict --proba` gives them.", rich_help_panel="Machine"
        ),
    ] = None
    solver: Annotated[
        Solver | None,
        typer.Option(
            help="From a kernel matrix, or for kernels that have features (spectrum, bounded-gap, sums of "
            "them) from these alone: the same optimum, whatever the number of documents; auto takes what is "
            "predicted to be quicker (default: auto).",
            rich_help_panel="Machine",
        ),
    ] = None
    holdout: Annotated[
        float | None,
        typer.Option(help="Share of the documents kept from training, to evaluate on, such as 0.2."),
    ] = None
    seed: Annotated[int, typer.Option(help="Seed of whatever is drawn at random.")] = 0

    def check(self, reading: options.Reading, learning: options.Learning) -> None:
        """Wrong usage, before any work."""
        if self.holdout is not None and not 0 < self.holdout < 1:
            raise WrongUsage(f"--holdout {self.holdout:g} is not a share between 0 and 1")
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
        given = [option for option, value in tasks.items() if value is not None]
        if len(given) > 1:
            raise WrongUsage(f"{given[0]} and {given[1]} do not go together")
        if self.calibrate is not None and given and reading.positive is None:
            what = "classifiers of one label a document" if learning.multilabel else "classifiers"
            raise WrongUsage(f"--calibrate is for {what} and does not go with {given[0]}")


@dataclass(frozen=True)
class ModelFile:
    """Where the model goes."""

    output: Annotated[Path, typer.Option("--output", "-o", help="Where the model goes; - is stdout.")] = Path(
        "model.textsvm"
    )
    without_texts: Annotated[
        bool,
        typer.Option(
            "--without-texts",
            help="Save one weight a feature in place of the support vectors, so that no training text is in "
            "the model; for spectrum kernels and sums of them.",
        ),
    ] = False
    libsvm: Annotated[
        bool,
        typer.Option(
            "--libsvm",
            help="Write the model as svm-predict of LIBSVM reads it; of vectors, classes in pairs (ovo).",
        ),
    ] = False
    force: Force = False

    def checked(self, corpus: list[Path], calibrate: bool) -> Output:
        """The output; wrong usage, before any work."""
        for option in ["--without-texts"] * self.without_texts + ["--calibrate"] * calibrate:
            if self.libsvm:
                raise WrongUsage(f"--libsvm and {option} do not go together")
        output = Output("-o", self.output, LIBSVM_MODEL if self.libsvm else MODEL, self.force)
        output.check({"the corpus": corpus})
        return output


@options.with_groups
def train(
    corpus: options.CorpusPath,
    reading: options.Reading,
    learning: options.Learning,
    made_from: machines.SingleOptions,
    task: Task,
    file: ModelFile,
    printing: options.Printing,
) -> None:
    """Train a classifier on a labelled corpus, or a regression on numbers, and save it.

    A classifier chooses its kernel by cross-validation on the corpus unless one is named, or --fast is given.

    textsvm train mails.tar.gz -o spam.textsvm

    textsvm train reuters21578.tar.gz --part train --positive earn --negative acq -o earn.textsvm

    textsvm train essays.tsv --regress score --kernel spectrum --p 1-15 --weight intersection
    """
    from textsvm.model.file import require_weights
    from textsvm.model.libsvm import require_libsvms

    started = time.perf_counter()
    task.check(reading, learning)
    made_from.cluster.check()
    output = file.checked(corpus, task.calibrate is not None)
    console = Console(printing.quiet, output.is_stdout)
    model = _estimator(made_from, task, learning)
    if file.without_texts:
        require_weights(model)

    kernel = made_from.kernel
    documents = options.read(console, corpus, reading, learning, kernel=examples.kernel_of(model))
    examples.settle(console, model, kernel.named, documents)
    if file.without_texts:
        require_weights(model)
    if file.libsvm:
        require_libsvms(examples.kernel_of(model))
    if task.one_class is not None:
        documents = _of_one_class(documents, task.one_class)
    options.targets(documents, learning.multilabel)
    seconds = {"read": time.perf_counter() - started}
    if made_from.text.max_length is None and getattr(model, "estimator", model).make_kernel().quadratic:
        notes.long_documents(console, documents)
    training, held = hold_out(console, documents, task.holdout, task.seed)
    if task.one_class is not None:
        of_class = (i for i, label in enumerate(training.labels or []) if label == task.one_class)
        training = training.subset(of_class)
    with made_from.cluster.at_work(console):
        baseline = None
        if training.targets is not None:
            from textsvm.evaluation.length_baseline import LengthBaseline

            baseline = LengthBaseline.fit(training.examples, training.targets)
        results = _fit(console, model, training, held, task.one_class or reading.positive, baseline)
    summary = summarise(model, training) | {"holdout": None}
    if results is not None and held is not None:
        near = _near_duplicates(console, model, training, held)
        summary["holdout"] = results.as_dict() | {"near_duplicates": near}
    baselines = {} if baseline is None else {"length_baseline": asdict(baseline)}
    if task.one_class is not None:
        reading = replace(reading, positive=task.one_class)
    with console.warnings():
        if file.libsvm:
            size = model_files.save_as_libsvm(output, model)
        else:
            size = model_files.save_model(
                output, model, training, reading, learning, summary | baselines, texts=not file.without_texts
            )
    console.say(f"model {file.output}: {_megabytes(size)}{', no training text in it' * file.without_texts}")
    seconds |= {**model.seconds_, "total": time.perf_counter() - started}
    saved = {"model": str(file.output), "bytes": size, "texts": not file.without_texts}
    report = {**saved, **summary, "seconds": seconds}
    console.print_json(report) if printing.json else _show(console, report, results)


def _estimator(made_from: machines.SingleOptions, task: Task, learning: options.Learning) -> Any:
    """The estimator that the options describe, checked."""
    solver = None if task.solver is None else task.solver.value
    if task.one_class is not None:
        return made_from.one_class(task.nu, solver)
    model = made_from.estimator(learning, solver)
    if task.calibrate is None:
        return model
    from textsvm.selection.calibration import CalibratedClassifier

    return CalibratedClassifier(model, method=task.calibrate.value, random_state=task.seed)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"


def _of_one_class(corpus: Corpus, label: str) -> Corpus:
    """Labels reduced to that one and the rest; without labels every document has it."""
    if corpus.labels is None:
        return replace(corpus, labels=[label] * len(corpus))
    if all(each in (label, (label,)) for each in corpus.labels):
        return replace(corpus, labels=[label] * len(corpus))
    return corpus.reduce_labels(label)


def _fit(
    console: Console,
    model: Any,
    training: Corpus,
    held: Corpus | None,
    positive: str | None,
    baseline: LengthBaseline | None,
) -> Results | None:
    from textsvm.cli.evaluate import judge

    console.say(f"note: {_what_is_learnt(training)}")
    notes.lone_classes(console, {} if training.targets is not None else _counts(training))
    store = getattr(model, "estimator", model).compute.store
    with console.progress(), console.warnings(), console.kept_in(store):
        model.fit(
            training.examples,
            options.truth(training),
            sample_weight=training.weights,
            progress=console.stage,
        )
        results = None if held is None else judge(model, held, positive, console.stage, baseline=baseline)
    if chosen := getattr(model, "chosen_", ""):
        console.say(f"note: {chosen}")
    console.say_device(model.device_)
    console.say(f"kernel matrix: {model.gram_}")
    return results


def _near_duplicates(console: Console, model: Any, training: Corpus, held: Corpus) -> list[dict[str, Any]]:
    """Held-out documents that are nearly training ones, by their ids, and a warning of them."""
    from textsvm.evaluation.judge import machine_of
    from textsvm.selection.leakage import LeakageWarning, held_out_leak, leakage_message

    with console.progress(), console.warnings():
        machine: Any = machine_of(model)
        leak = held_out_leak(
            machine, training.examples, held.examples,
            progress=lambda done, total: console.stage("duplicates", done, total),
        )  # fmt: skip
        remedy = "`textsvm cv` with group_duplicates keeps them together"
        if told := leakage_message([leak], machine.kernel_.alike, remedy):
            warnings.warn(told, LeakageWarning, stacklevel=2)
    return [
        {"test": held.ids[test], "train": training.ids[train], "value": value}
        for test, train, value in leak.as_dict()["pairs"]
    ]


def _what_is_learnt(corpus: Corpus) -> str:
    """What was found in the documents."""
    if corpus.targets is not None:
        low, high = min(corpus.targets), max(corpus.targets)
        return f"{len(corpus):,} documents with numbers from {low:g} to {high:g}"
    counts = _counts(corpus).most_common()
    shown = ", ".join(f"{name} {count:,}" for name, count in counts[:10])
    more = f" and {len(counts) - 10} more" if len(counts) > 10 else ""
    return f"{len(corpus):,} documents of {len(counts)} class{'es' * (len(counts) > 1)}: {shown}{more}"


def summarise(model: Any, training: Corpus) -> dict[str, Any]:
    """What a training run is reported and remembered by."""
    solutions = model.solutions_
    return {
        "estimator": model.estimator_name,
        "device": model.device_.description,
        "kernel": model.kernel_.as_dict(),
        "kernel_spelled": spell(model.kernel_),
        "chosen": getattr(model, "chosen_", "") or None,
        "C": getattr(model, "C_", getattr(model, "C", None)),
        "kernel_matrix": model.gram_,
        "approximation": None if (found := _approximation(model)) is None else asdict(found),
        "n_train": len(training),
        "classes": _per_class(model, training),
        "n_support": len(model.support_),
        "machines": len(solutions),
        "iterations": model.n_iter_,
        "converged": all(solution.converged for solution in solutions),
        "status": "; ".join(dict.fromkeys(s.status for s in solutions if not s.converged)) or "converged",
        "objective": sum(solution.objective for solution in solutions),
        "duality_gap": max(solution.duality_gap for solution in solutions),
    }


def _approximation(model: Any) -> Any:
    """How well the kernel of a model is approximated; None if it is not."""
    from textsvm.evaluation.judge import machine_of

    return machine_of(model).approximation_


def _per_class(model: Any, training: Corpus) -> list[dict[str, Any]]:
    """Documents and support vectors of each class; nothing for regression."""
    if training.targets is not None:
        return []
    counts = _counts(training)
    names = getattr(model, "classes_", list(counts))
    return [
        {"class": str(name), "documents": counts[str(name)], "support_vectors": int(support)}
        for name, support in zip(names, model.n_support_, strict=True)
    ]


def _counts(corpus: Corpus) -> Counter[str]:
    """How many documents have each label."""
    labels = options.truth(corpus)
    return Counter(one for each in labels for one in (each if isinstance(each, tuple) else (each,)))


def _show(console: Console, report: dict[str, Any], results: Results | None) -> None:
    from textsvm.cli.evaluate import show

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
            ("seconds", ", ".join(f"{stage} {value:.2f}" for stage, value in report["seconds"].items())),
        ],
    )
    if report["classes"]:
        columns = ("class", "documents", "support_vectors")
        rows = [(each["class"], *(f"{each[name]:,}" for name in columns[1:])) for each in report["classes"]]
        console.table("classes", rows, ("class", "documents", "support vectors"))
    if results is not None:
        show(console, "holdout", results)
