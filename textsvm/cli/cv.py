"""textsvm cv: cross-validation of one kernel and one machine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from textsvm.cli import examples, kernels, machines, model_files, options
from textsvm.cli.console import Console, json_line
from textsvm.cli.metric_columns import SHOWN, cells
from textsvm.cli.output import PREDICTIONS, Force, Output
from textsvm.kernels.spelling import spell

if TYPE_CHECKING:
    from textsvm.readers import Corpus
    from textsvm.selection.cross_validation import CrossValidation


@dataclass(frozen=True)
class Predictions:
    """Where the predictions go."""

    predictions: Annotated[
        Path | None,
        typer.Option(
            help="Write what each document got from machines that were not trained on it, as JSON Lines; "
            "- is stdout."
        ),
    ] = None
    force: Force = False

    def output(self, corpus: list[Path]) -> Output | None:
        """The file, checked, if there is to be one."""
        if self.predictions is None:
            return None
        output = Output("--predictions", self.predictions, PREDICTIONS, self.force)
        output.check({"the corpus": corpus})
        return output


@options.with_groups
def cv(
    corpus: options.CorpusPath,
    reading: options.Reading,
    learning: options.Learning,
    folds: options.Folds,
    made_from: machines.SingleOptions,
    predictions: Predictions,
    printing: options.Printing,
) -> None:
    """Cross-validate: train on all folds but one, judge on that one, in turn; the kernel matrix is made once.

    A classifier whose kernel is not named chooses one anew on what each fold is trained on.

    textsvm cv mails.tar.gz --kernel gap --p 4 -C 10 --folds 10
    """
    from textsvm.selection.cross_validation import cross_validate

    started = time.perf_counter()
    folds.check()
    made_from.cluster.check()
    output = predictions.output(corpus)
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
    if output is not None:
        with output.place() as path:
            _write_predictions(path, documents, truth, result)
    for number, chosen in enumerate(result.chosen, 1):
        console.say(f"note: fold {number}: {chosen}")
    console.say_device(model_files.device_of(model))
    console.say(f"kernel matrix: {result.gram}")
    seconds = {"read": read, **result.seconds, "total": time.perf_counter() - started}
    alone = _length_alone(documents, result)
    if printing.json:
        beside = {} if alone is None else {"length_alone": alone}
        console.print_json(summarise(result, documents, model) | beside | {"seconds": seconds})
    else:
        show(console, f"{len(documents):,} documents of {documents.source}", result, alone)
        console.table("seconds", [(stage, f"{value:.2f}") for stage, value in seconds.items()])


def summarise(result: CrossValidation, corpus: Corpus, model: Any) -> dict[str, Any]:
    """The figures as JSON values, documents by their ids; what each one got is in --predictions."""
    from textsvm.plain_json import to_json

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
    from textsvm.files import replacing

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
