"""textsvm cv: cross-validation of one kernel and one machine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import textsvm
from textsvm.cli import examples, kernels, machines, model_files, options
from textsvm.cli.console import Console, json_line
from textsvm.cli.evaluate import ReportFile, write_report
from textsvm.cli.metric_columns import SHOWN, cells
from textsvm.cli.output import PREDICTIONS, Output
from textsvm.kernels.spelling import spell

if TYPE_CHECKING:
    from textsvm.readers import Corpus
    from textsvm.reporting.report import Report
    from textsvm.selection.cross_validation import CrossValidation


@dataclass(frozen=True)
class Wanted:
    """What is wanted besides the figures, and where it goes."""

    file: ReportFile
    predictions: Annotated[
        Path | None,
        typer.Option(
            help="Write what each document got from machines that were not trained on it, as JSON Lines; "
            "- is stdout."
        ),
    ] = None
    learning_curve: Annotated[
        bool,
        typer.Option(
            "--learning-curve",
            help="Would more texts help? Train on 10, 20, 40 and 80 % of the training texts too.",
        ),
    ] = False

    def output(self, corpus: list[Path]) -> Output | None:
        """The file, checked, if there is to be one."""
        if self.predictions is None:
            return None
        output = Output("--predictions", self.predictions, PREDICTIONS, self.file.force)
        output.check({"the corpus": corpus})
        return output


@options.with_groups
def cv(
    corpus: options.CorpusPath,
    reading: options.Reading,
    learning: options.Learning,
    folds: options.Folds,
    made_from: machines.SingleOptions,
    wanted: Wanted,
    printing: options.Printing,
) -> None:
    """Cross-validate: train on all folds but one, judge on that one, in turn; the kernel matrix is made once.

    A classifier whose kernel is not named chooses one anew on what each fold is trained on.

    textsvm cv mails.tar.gz --kernel gap --p 4 -C 10 --folds 10
    """
    from textsvm.evaluation.slices import make_slices
    from textsvm.reporting.sections import learning_sentence, learning_table
    from textsvm.selection.cross_validation import cross_validate
    from textsvm.selection.cross_validation import learning_curve as learn

    started = time.perf_counter()
    folds.check()
    made_from.cluster.check()
    wanted.file.check({"the corpus": corpus, "the predictions": wanted.predictions})
    output = wanted.output(corpus)
    console = Console(printing.quiet, output is not None and output.is_stdout)
    model = made_from.estimator(learning)
    kernel = examples.kernel_of(model)
    documents = options.read(console, corpus, reading, learning, groups=folds.groups, kernel=kernel)
    examples.settle(console, model, made_from.kernel.named, documents)
    truth = options.targets(documents, learning.multilabel)
    read = time.perf_counter() - started
    working = made_from.cluster.at_work(console)
    with working, console.progress(), console.warnings(), console.kept_in(model.store):
        result = cross_validate(
            model,
            documents.examples,
            truth,
            positive=reading.positive,
            progress=console.stage,
            **folds.arguments(documents),
        )
        curve = None
        if wanted.learning_curve:
            curve = learn(
                model, documents.examples, truth, result,
                sample_weight=documents.weights, progress=console.stage,
            )  # fmt: skip
    if output is not None:
        with output.place() as path:
            _write_predictions(path, documents, truth, result)
    for number, chosen in enumerate(result.chosen, 1):
        console.say(f"note: fold {number}: {chosen}")
    console.say_device(model_files.device_of(model))
    console.say(f"kernel matrix: {result.gram}")
    seconds = {"read": read, **result.seconds, "total": time.perf_counter() - started}
    alone = _length_alone(documents, result)
    if wanted.file.report is not None:
        title = f"Cross-validation of {examples.names_of(corpus)}"
        made = _report(model, documents, result, title, wanted.file.mistakes, reading.positive)
        groups = documents.groups
        slices = make_slices(made.results, str(folds.groups), groups) if groups is not None else None
        write_report(console, wanted.file, replace(made, slices=slices, learning=curve))
    if printing.json:
        beside = {} if alone is None else {"length_alone": alone}
        if curve is not None:
            beside["learning_curve"] = curve.as_dict()
        console.print_json(summarise(result, documents, model) | beside | {"seconds": seconds})
    else:
        show(console, f"{len(documents):,} documents of {documents.source}", result, alone)
        if curve is not None:
            head, rows = learning_table(curve)
            console.table("learning curve", [tuple(row) for row in rows], tuple(head))
            console.line(learning_sentence(curve))
        console.table("seconds", [(stage, f"{value:.2f}") for stage, value in seconds.items()])


def _report(
    model: Any, corpus: Corpus, result: CrossValidation, title: str, mistakes: int, positive: str | None
) -> Report:
    """What each document got, as a report."""
    from textsvm.reporting.report import report_of_folds, results_of

    with_texts = len(corpus.texts) == len(corpus)
    kernel = model.kernel if model.kernel in kernels.DEFAULTS else spell(model.kernel)
    facts = [
        ("machine", type(model).__name__), ("kernel", str(kernel)), ("C", f"{model.C:g}"),
        ("folds", f"{len(result.folds)}, each document judged by machines that were not trained on it"),
        ("corpus", corpus.source), ("kernel matrix", result.gram),
        ("device", model_files.device_of(model).description),
        ("written by", f"textsvm {textsvm.__version__}"),
    ]  # fmt: skip
    results = results_of(result, options.truth(corpus), positive)
    return report_of_folds(results, corpus.texts if with_texts else None, corpus.ids, title, facts, mistakes)


def summarise(result: CrossValidation, corpus: Corpus, model: Any) -> dict[str, Any]:
    """The figures as JSON values, documents by their ids; what each one got is in --predictions."""
    from textsvm.runtime.plain_json import to_json

    found = result.as_dict()
    return {
        "n": len(corpus),
        "kernel": to_json(model.kernel),
        "kernel_spelled": model.kernel if model.kernel in kernels.DEFAULTS else spell(model.kernel),
        "chosen": found["chosen"],
        "C": model.C,
        "device": model_files.device_of(model).description,
        "folds": [
            {"n_train": len(train), "n_test": len(test), "metrics": fold["metrics"]}
            for (train, test), fold in zip(result.folds, found["folds"], strict=True)
        ],
        "mean": found["mean"],
        "sd": found["sd"],
        "pooled": found["pooled"],
        "near_duplicates": leaks_by_id(found["leaks"], corpus),
        "kernel_matrix": result.gram,
    }


def leaks_by_id(leaks: list[dict[str, Any]], corpus: Corpus) -> list[dict[str, Any]]:
    """Near-duplicates across folds, folds from 1 and documents by their ids."""
    return [
        {"fold": number, "test": corpus.ids[test], "train": corpus.ids[train], "value": value}
        for number, leak in enumerate(leaks, 1)
        for test, train, value in leak["pairs"]
    ]


def _length_alone(corpus: Corpus, result: CrossValidation) -> dict[str, float] | None:
    """Of a regression on texts: mean metrics of what lengths alone predict, on the same folds."""
    from textsvm.evaluation.length_baseline import LengthBaseline
    from textsvm.selection.scoring import mean_and_sd

    if corpus.targets is None:
        return None
    table = []
    for train, test in result.folds:
        known, judged = corpus.subset(train), corpus.subset(test)
        baseline = LengthBaseline.fit(known.examples, known.targets or [])
        if baseline is None:
            return None
        table.append(baseline.judge(judged.examples, judged.targets or []))
    return mean_and_sd(table)[0]


def show(
    console: Console, title: str, result: CrossValidation, alone: dict[str, float] | None = None
) -> None:
    """The folds and their mean as a table, and below what lengths `alone` reach."""
    names = [name for name in SHOWN if name in result.mean]
    rows = [
        (str(number), f"{len(train):,}", f"{len(test):,}", *cells(fold, names))
        for number, ((train, test), fold) in enumerate(zip(result.folds, result.table, strict=True), 1)
    ]
    rows.append(("mean", "", "", *cells(result.mean, names)))
    rows.append(("SD", "", "", *cells(result.sd, names)))
    rows.append(("pooled", "", "", *cells(result.pooled, names)))
    if alone is not None:
        rows.append(("length alone", "", "", *cells(dict.fromkeys(names, float("nan")) | alone, names)))
    console.table(title, rows, ("fold", "trained on", "tested on", *(SHOWN[name] for name in names)))


def _write_predictions(path: Path, corpus: Corpus, truth: Sequence[Any], result: CrossValidation) -> None:
    import numpy as np

    from textsvm.estimators.labels import label_sets
    from textsvm.runtime.files import replacing

    found = result.as_dict()
    if isinstance(truth[0], tuple):
        found["predictions"] = label_sets(
            result.predictions, np.unique([one for each in truth for one in each])
        )
    fold_of: list[list[int]] = [[] for _ in corpus.ids]
    for number, (_, test) in enumerate(result.folds, 1):
        for i in test.tolist():
            fold_of[i].append(number)
    rows = zip(corpus.ids, truth, found["predictions"], found["decision"], fold_of, strict=True)
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as stream:
        for identifier, true, predicted, decision, of in rows:
            row = {"id": identifier, "truth": true, "predicted": predicted, "decision": decision, "folds": of}
            stream.write(json_line(row))
