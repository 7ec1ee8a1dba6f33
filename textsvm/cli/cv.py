"""textsvm cv: cross-validation of a kernel and a machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textsvm.cli import machines, options
from textsvm.cli.console import Console
from textsvm.cli.options import option_field
from textsvm.cli.output import PREDICTIONS, Output, ReportFile, table_kind, write_rows
from textsvm.reporting.formatting import format_metric

if TYPE_CHECKING:
    from textsvm.arrays import Json
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

    cluster: machines.ClusterOptions
    file: ReportFile
    predictions: Path | None = option_field(
        "Write the out-of-fold prediction of each document: .jsonl (also stdout, -), .json, .csv, .tsv, "
        ".xlsx or .parquet."
    )
    learning_curve: bool = option_field(
        "Also train on 10, 20, 40 and 80 % of the training texts.", default=False
    )

    def output(self, corpus: list[Path]) -> Output | None:
        """File of predictions, checked."""
        if self.predictions is None:
            return None
        kind = table_kind("--predictions", self.predictions, PREDICTIONS)
        output = Output("--predictions", self.predictions, kind, self.file.force)
        return output.checked({"the corpus": corpus})


_WITHOUT = {"tol", "store", "solver", "figures", "mistakes"}  #: Fields of groups that are no options of `cv`.


@partial(options.with_groups, without=_WITHOUT)
def cv(
    corpus: options.CorpusPath, reading: options.ReadingOptions, learning: options.LearningOptions,
    folds: options.FoldOptions, model_options: machines.ModelOptions, extra: CvOptions,
    printing: options.PrintingOptions,
) -> None:  # fmt: skip
    """Cross-validate: train on all folds but one and evaluate on this fold, in turn.

    The kernel matrix is computed once. A classifier without a named kernel chooses one for each fold, on its
    training part.

    textsvm cv mails.tar.gz --kernel gap:4 -C 10 --folds 10
    """
    extra.cluster.check()
    extra.file.check({"the corpus": corpus, "the predictions": extra.predictions})
    output = extra.output(corpus)
    console = Console(printing.quiet, output is not None and output.is_stdout)

    from textsvm.cli import corpora, results, settings
    from textsvm.readers import statistics
    from textsvm.selection.cross_validation import cross_validate, learning_curve

    tested = settings.single(model_options, learning)
    documents = corpora.read(console, corpus, reading, learning, kernel=tested.kernel)
    tested = settings.settle(console, tested, model_options.kernel.named, documents, auto=True)
    documents = corpora.cut(console, documents, learning)
    truth = corpora.targets(documents, learning.multilabel)
    console.say(f"note: {corpora.summary(documents, statistics.label_counts(documents))}")
    corpora.check_classes(documents, reading.label)
    corpora.say_grouping(console, documents)
    corpora.say_encoder(console, documents, tested.encoder, tested.kernel)
    curve = None
    console.lap("read")
    with extra.cluster.at_work(console):
        result = cross_validate(
            tested, documents.examples, truth, positive=reading.positive, progress=console.stage,
            **corpora.fold_arguments(console, folds, documents),
        )  # fmt: skip
        console.lap(result.seconds)
        if extra.learning_curve:
            curve = learning_curve(
                tested, documents.examples, truth, result,
                groups=documents.groups, sample_weight=documents.weights, progress=console.stage,
            )  # fmt: skip
            console.lap("learning curve")
    if output is not None:
        columns = ("id", "truth", "predicted", "decision", "folds")
        write_rows(output, columns, results.fold_predictions(documents, truth, result))
    console.say(*(f"note: fold {number}: {choice}" for number, choice in enumerate(result.chosen, 1)))
    console.say_device(results.select(tested.device))
    console.say(f"kernel matrix: {result.gram}")
    corpora.say_copies(console, result.copies)
    length_alone = results.length_alone_on_folds(documents, result)
    texts = results.results_on_texts(documents, result, reading.positive)
    pooled, by_group = results.results_of(result, truth, reading.positive), None
    if documents.groups is not None:
        by_group = results.make_slices(pooled, reading.groups or "text", documents.groups)
    if extra.file.requested:
        title = f"Cross-validation of {corpora.names_of(corpus)}"
        report = results.report_on_folds(tested, documents, result, pooled, title, extra.file.mistakes)
        results.write_report(console, extra.file, replace(report, slices=by_group, learning=curve))
    seconds = console.lap("report" if extra.file.requested else "score")
    levels = pooled.levels
    if printing.json:
        more: Json = {} if length_alone is None else {"length_alone": length_alone}
        more |= {"levels": levels} if levels else {}
        more |= {} if texts is None else {"texts": texts.metrics}
        sections = {"learning_curve": curve, "groups": by_group}
        more |= {name: section.as_dict() for name, section in sections.items() if section is not None}
        console.print_json(results.summary_of_folds(result, documents, tested) | more | {"seconds": seconds})
        return
    _show(console, f"{len(documents):,} documents of {documents.source}", result, length_alone)
    results.show_levels(console, levels)
    results.show_comparisons(console, by_group, None)
    if texts is not None:
        results.show_results(console, "texts, each by the mean of its pieces", texts)
    if curve is not None:
        results.show_learning_curve(console, curve)
    console.table("seconds", [(stage, f"{value:.2f}") for stage, value in seconds.items()])


def _show(console: Console, title: str, result: CrossValidation, baseline: dict[str, float] | None) -> None:
    """Print a table of the folds, their mean, and predictions from lengths alone."""

    def cells(metrics: Mapping[str, float]) -> list[str]:
        return [format_metric(name, metrics.get(name)) for name in names]

    names = [name for name in SHOWN if name in result.mean]
    rows = [
        (str(number), f"{len(train):,}", f"{len(test):,}", *cells(fold))
        for number, ((train, test), fold) in enumerate(zip(result.folds, result.table, strict=True), 1)
    ]
    rows.append(("mean", "", "", *cells(result.mean)))
    rows.append(("SD", "", "", *cells(result.sd)))
    rows.append(("pooled", "", "", *cells(result.pooled)))
    if baseline is not None:
        rows.append(("length alone", "", "", *cells(dict.fromkeys(names, float("nan")) | baseline)))
    console.table(title, rows, ("fold", "trained on", "tested on", *(SHOWN[name] for name in names)))
