"""textsvm cv: cross-validation of a kernel and a machine."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import textsvm
from textsvm.cli import corpora, kernels, machines, model_files, options
from textsvm.cli.console import Console, json_line
from textsvm.cli.evaluate import ReportFile, write_report
from textsvm.cli.options import option
from textsvm.cli.output import PREDICTIONS, Output
from textsvm.kernels.spelling import spell
from textsvm.reporting.formatting import format_metric

if TYPE_CHECKING:
    from textsvm.readers.corpus import Corpus
    from textsvm.reporting.report import Report
    from textsvm.selection.cross_validation import CrossValidation

#: Columns of the printed tables: short names of the metrics. JSON has all metrics.
SHOWN = {
    "accuracy": "accuracy", "micro_f1": "micro F1", "macro_f1": "macro F1", "mcc": "MCC",
    "roc_auc": "ROC AUC", "average_precision": "AUPRC", "qwk": "QWK", "subset_accuracy": "all right",
    "hamming_loss": "Hamming", "precision_at_1": "P@1", "mae": "MAE", "rmse": "RMSE", "r2": "R²",
    "pearson": "Pearson",
}  # fmt: skip


@dataclass(frozen=True)
class CvOptions:
    """Additional outputs."""

    file: ReportFile
    predictions: Annotated[
        Path | None,
        option("Write the out-of-fold prediction of each document as JSON Lines; - is stdout."),
    ] = None
    learning_curve: Annotated[
        bool,
        option("Also train on 10, 20, 40 and 80 % of the training texts.", "--learning-curve"),
    ] = False

    def output(self, corpus: list[Path]) -> Output | None:
        """File of predictions, checked."""
        if self.predictions is None:
            return None
        output = Output("--predictions", self.predictions, PREDICTIONS, self.file.force)
        return output.checked({"the corpus": corpus})


@options.with_groups
def cv(
    corpus: options.CorpusPath,
    reading: options.ReadingOptions,
    learning: options.LearningOptions,
    folds: options.FoldOptions,
    model_options: machines.SingleOptions,
    extra: CvOptions,
    printing: options.PrintingOptions,
) -> None:
    """Cross-validate: train on all folds but one and evaluate on this fold, in turn.

    The kernel matrix is computed once. A classifier without a named kernel chooses one for each fold, on its
    training part.

    textsvm cv mails.tar.gz --kernel gap --p 4 -C 10 --folds 10
    """
    started = time.perf_counter()
    folds.check()
    model_options.cluster.check()
    extra.file.check({"the corpus": corpus, "the predictions": extra.predictions})
    output = extra.output(corpus)
    console = Console(printing.quiet, output is not None and output.is_stdout)

    from textsvm.evaluation.slices import make_slices
    from textsvm.reporting.sections import learning_sentence, learning_table
    from textsvm.selection.cross_validation import cross_validate, learning_curve

    model = model_options.estimator(learning)
    kernel = corpora.kernel_of(model)
    documents = corpora.read(console, corpus, reading, learning, groups=folds.groups, kernel=kernel)
    corpora.settle(console, model, model_options.kernel.named, documents)
    truth = corpora.targets(documents, learning.multilabel)
    read = time.perf_counter() - started
    with model_options.cluster.at_work(console, model.compute_options.store):
        result = cross_validate(
            model,
            documents.examples,
            truth,
            positive=reading.positive,
            progress=console.stage,
            **folds.arguments(documents),
        )
        curve = None
        if extra.learning_curve:
            curve = learning_curve(
                model, documents.examples, truth, result,
                sample_weight=documents.weights, progress=console.stage,
            )  # fmt: skip
    if output is not None:
        output.write_lines(_prediction_lines(documents, truth, result))
    for number, chosen in enumerate(result.chosen, 1):
        console.say(f"note: fold {number}: {chosen}")
    console.say_device(model_files.device_of(model))
    console.say(f"kernel matrix: {result.gram}")
    seconds = {"read": read, **result.seconds, "total": time.perf_counter() - started}
    alone = _length_alone(documents, result)
    if extra.file.report is not None:
        title = f"Cross-validation of {corpora.names_of(corpus)}"
        report = _report(model, documents, result, title, extra.file.mistakes, reading.positive)
        groups = documents.groups
        slices = make_slices(report.results, str(folds.groups), groups) if groups is not None else None
        write_report(console, extra.file, replace(report, slices=slices, learning=curve))
    if printing.json:
        beside = {} if alone is None else {"length_alone": alone}
        if curve is not None:
            beside["learning_curve"] = curve.as_dict()
        console.print_json(_summary(result, documents, model) | beside | {"seconds": seconds})
    else:
        _show(console, f"{len(documents):,} documents of {documents.source}", result, alone)
        if curve is not None:
            head, rows = learning_table(curve)
            console.table("learning curve", rows, head)
            console.line(learning_sentence(curve))
        console.table("seconds", [(stage, f"{value:.2f}") for stage, value in seconds.items()])


def _report(
    model: Any, corpus: Corpus, result: CrossValidation, title: str, mistakes: int, positive: str | None
) -> Report:
    """Report on the out-of-fold predictions."""
    from textsvm.reporting.report import report_of_folds, results_of

    with_texts = len(corpus.texts) == len(corpus)
    kernel = model.kernel if model.kernel in kernels.DEFAULTS else spell(model.kernel)
    facts = [
        ("machine", model.estimator_name), ("kernel", str(kernel)), ("C", f"{model.C:g}"),
        ("folds", f"{len(result.folds)}, each document judged by machines that were not trained on it"),
        ("corpus", corpus.source), ("kernel matrix", result.gram),
        ("device", model_files.device_of(model).description),
        ("written by", f"textsvm {textsvm.__version__}"),
    ]  # fmt: skip
    results = results_of(result, corpora.truth(corpus), positive)
    return report_of_folds(results, corpus.texts if with_texts else None, corpus.ids, title, facts, mistakes)


def _summary(result: CrossValidation, corpus: Corpus, model: Any) -> dict[str, Any]:
    """JSON values of a cross-validation, with ids of documents."""
    from textsvm.runtime.plain_json import to_json

    values = result.as_dict()
    return {
        "n": len(corpus),
        "kernel": to_json(model.kernel),
        "kernel_spelled": model.kernel if model.kernel in kernels.DEFAULTS else spell(model.kernel),
        "chosen": values["chosen"],
        "C": model.C,
        "device": model_files.device_of(model).description,
        "folds": [
            {"n_train": len(train), "n_test": len(test), "metrics": fold["metrics"]}
            for (train, test), fold in zip(result.folds, values["folds"], strict=True)
        ],
        "mean": values["mean"],
        "sd": values["sd"],
        "pooled": values["pooled"],
        "near_duplicates": leaks_by_id(values["leaks"], corpus),
        "kernel_matrix": result.gram,
    }


def leaks_by_id(leaks: list[dict[str, Any]], corpus: Corpus) -> list[dict[str, Any]]:
    """Near-duplicates across folds, with numbers of folds from 1 and ids of documents."""
    return [
        {"fold": number, "test": corpus.ids[test], "train": corpus.ids[train], "value": value}
        for number, leak in enumerate(leaks, 1)
        for test, train, value in leak["pairs"]
    ]


def _length_alone(corpus: Corpus, result: CrossValidation) -> dict[str, float] | None:
    """Mean metrics of predictions from lengths alone on the same folds, for a regression on texts."""
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


def _show(console: Console, title: str, result: CrossValidation, alone: dict[str, float] | None) -> None:
    """Print a table of the folds, their mean, and the baseline of lengths `alone`."""

    def cells(metrics: Mapping[str, Any]) -> list[str]:
        return [format_metric(name, metrics.get(name)) for name in names]

    names = [name for name in SHOWN if name in result.mean]
    rows = [
        (str(number), f"{len(train):,}", f"{len(test):,}", *cells(fold))
        for number, ((train, test), fold) in enumerate(zip(result.folds, result.table, strict=True), 1)
    ]
    rows.append(("mean", "", "", *cells(result.mean)))
    rows.append(("SD", "", "", *cells(result.sd)))
    rows.append(("pooled", "", "", *cells(result.pooled)))
    if alone is not None:
        rows.append(("length alone", "", "", *cells(dict.fromkeys(names, float("nan")) | alone)))
    console.table(title, rows, ("fold", "trained on", "tested on", *(SHOWN[name] for name in names)))


def _prediction_lines(corpus: Corpus, truth: Sequence[Any], result: CrossValidation) -> Iterator[str]:
    import numpy as np

    from textsvm.machines.labels import label_sets

    values = result.as_dict()
    if isinstance(truth[0], tuple):
        classes = np.unique([label for labels in truth for label in labels])
        values["predictions"] = label_sets(result.predictions, classes)
    folds_of: list[list[int]] = [[] for _ in corpus.ids]
    for number, (_, test) in enumerate(result.folds, 1):
        for i in test.tolist():
            folds_of[i].append(number)
    rows = zip(corpus.ids, truth, values["predictions"], values["decision"], folds_of, strict=True)
    for identifier, true, predicted, decision, folds in rows:
        yield json_line(
            {"id": identifier, "truth": true, "predicted": predicted, "decision": decision, "folds": folds}
        )
