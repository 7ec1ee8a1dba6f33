"""What a user's program looks like: a type checker reads it (tests/test_release.py), and nobody runs it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from textsvm import (
    SVC,
    SVR,
    CalibratedSVC,
    Corpus,
    GapWeighted,
    InputError,
    MultilabelSVC,
    OneClassSVM,
    OnlineSVC,
    Spectrum,
    Sum,
    TrainedModel,
    as_estimator,
    cross_validate,
    doubts,
    evaluate,
    load,
    read_corpus,
    report,
    save,
    tune,
)


def train(path: Path) -> SVC:
    """A classifier of a table."""
    corpus: Corpus = read_corpus(path, text="text", label="label")
    texts: Sequence[str] = corpus.texts
    assert corpus.labels is not None
    kernel: Sum = Spectrum((1, 5), "log", idf=True) + 2 * GapWeighted(p=3)
    model: SVC = SVC(kernel, C=10.0, class_weight="balanced").fit(texts, corpus.labels)
    save(model, "model.textsvm", info={"corpus": str(path)})
    report(model, texts, corpus.labels).save("report.html")
    return model


def judge(model: SVC, texts: list[str], labels: list[str]) -> float:
    """Accuracy of cross-validation, after tuning."""
    found = tune(model, texts, labels, {"C": [1, 10]}, cv=5)
    best: float = found.best_score
    best_model: TrainedModel = found.best_model
    save(best_model, "best.textsvm")
    pooled: dict[str, float] = cross_validate(model, texts, labels, cv=5).pooled
    wrong: NDArray[np.int64] = doubts(model, texts, labels).order()
    return min(best, pooled["accuracy"]) if len(wrong) else 1.0


def predict(path: str, texts: list[str]) -> list[str]:
    """Classes of texts by a model that was saved."""
    try:
        model: TrainedModel = load(path)
        return list(model.on("cpu").predict(texts))
    except InputError as error:
        raise SystemExit(str(error)) from error


def recall(path: str, texts: list[str], labels: list[str]) -> float:
    """Recall of a saved model, and its accuracy by scikit-learn's interface."""
    model = load(path)
    decision: NDArray[np.float64] = model.decision_function(texts)
    results = evaluate(labels, model.predict(texts), decision, model.classes)
    accuracy: float = as_estimator(model).score(texts, labels)
    return min(results.metrics["recall"], accuracy)


def others(texts: list[str], labels: list[str], numbers: list[float]) -> int:
    """The other estimators, and a kernel on its own."""
    probabilities: NDArray[np.float64] = CalibratedSVC(SVC()).fit(texts, labels).predict_proba(texts)
    values: NDArray[np.float64] = SVR(Spectrum(3)).fit(texts, numbers).predict(texts)
    inside = OneClassSVM(nu=0.1).fit(texts).decision_function(texts)
    tags = MultilabelSVC().fit(texts, [("a", "b") for _ in texts]).predict(texts)
    online: OnlineSVC = OnlineSVC().partial_fit(texts, labels).unlearn(texts[:1])
    gram: NDArray[np.float32] = Spectrum(4)(texts, texts)
    return len(probabilities) + len(values) + len(inside) + len(tags) + len(gram) + len(online.predict(texts))
