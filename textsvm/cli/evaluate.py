"""textsvm evaluate: a model and a labelled corpus -> figures."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from textsvm.cli import options
from textsvm.cli.console import Console, print_json

if TYPE_CHECKING:
    from textsvm.estimators.svc import SVC, StageProgress
    from textsvm.evaluation.metrics import Results
    from textsvm.readers import Corpus


def evaluate(
    model: options.ModelPath,
    corpus: options.CorpusPath,
    positive: options.Positive = None,
    negative: options.Negative = None,
    part: options.Part = None,
    split: options.SplitOption = options.Split.modapte,
    format: options.Format = None,
    text: options.Text = None,
    label: options.Label = None,
    id: options.Id = None,
    headers: options.Headers = False,
    device: options.Device = "auto",
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Judge a model on a labelled corpus.

    Labels are reduced to two as in training, unless --positive and --negative say otherwise.
    """
    started = time.perf_counter()
    console = Console(quiet)

    from textsvm.model_file import load

    classifier = load(model)
    classifier.device = device
    training = options.Training.of(classifier)
    if positive is None:
        positive, negative = training.positive, negative or training.negative
    documents = options.read(
        console, corpus, positive=positive, negative=negative, part=part, format=format,
        text=text, label=label, id=id, headers=headers or training.headers,
        split=split.value,
    )  # fmt: skip
    options.require_labels(documents)
    read = time.perf_counter() - started
    with console.progress():
        results = judge(classifier, documents, positive, console.stage, {"read": read})
    console.say_device(classifier.device_)
    print_json(results.as_dict()) if json else show(console, f"{model} on {corpus}", results)


def judge(
    model: SVC,
    corpus: Corpus,
    positive: Any,
    progress: StageProgress,
    seconds: dict[str, float] | None = None,
) -> Results:
    """Predict a labelled corpus and compare, towards the class `positive`."""
    from textsvm.evaluation import metrics

    clock = time.perf_counter()
    decision = model.decision_function(corpus.texts, progress)
    predicting = time.perf_counter() - clock
    classes = model.classes_.tolist()
    first, second = classes if positive not in classes[:1] else classes[::-1]
    return metrics.evaluate(
        corpus.labels or [],
        decision if second == classes[1] else -decision,
        first,
        second,
        {**(seconds or {}), "predict": predicting},
    )


def show(console: Console, title: str, results: Results) -> None:
    """The figures and the confusion matrix as tables."""
    negative, positive = map(str, results.labels)
    console.table(
        f"{title}: {results.n:,} documents, positive is {positive}",
        [
            ("accuracy", f"{100 * results.accuracy:.2f} %"),
            ("precision", f"{100 * results.precision:.2f} %"),
            ("recall", f"{100 * results.recall:.2f} %"),
            ("F1", f"{100 * results.f1:.2f} %"),
            ("macro F1", f"{100 * results.macro_f1:.2f} %"),
            ("ROC AUC", "-" if results.roc_auc is None else f"{results.roc_auc:.4f}"),
        ],
    )
    (tn, fp), (fn, tp) = results.confusion
    console.table(
        "confusion matrix",
        [(f"truly {negative}", f"{tn:,}", f"{fp:,}"), (f"truly {positive}", f"{fn:,}", f"{tp:,}")],
        ("", f"said {negative}", f"said {positive}"),
    )
