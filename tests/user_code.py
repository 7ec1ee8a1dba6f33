"""What a user's program looks like: a type checker reads it (tests/test_release.py), and nobody runs it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import textsvm


def train(path: Path) -> textsvm.SVC:
    """A classifier of a table."""
    corpus: textsvm.Corpus = textsvm.read_corpus(path, text="text", label="label")
    texts: Sequence[str] = corpus.texts
    assert corpus.labels is not None
    kernel: textsvm.Sum = textsvm.Spectrum((1, 5), "log", idf=True) + 2 * textsvm.GapWeighted(p=3)
    model: textsvm.SVC = textsvm.SVC(kernel, C=10.0, class_weight="balanced").fit(texts, corpus.labels)
    textsvm.save(model, "model.textsvm", info={"corpus": str(path)})
    textsvm.report(model, texts, corpus.labels).save("report.html")
    return model


def judge(model: textsvm.SVC, texts: list[str], labels: list[str]) -> float:
    """Accuracy of cross-validation, after tuning."""
    found = textsvm.tune(model, texts, labels, {"C": [1, 10]}, cv=5)
    best: float = found.best_score
    best_model: textsvm.TrainedModel = found.best_model
    textsvm.save(best_model, "best.textsvm")
    pooled: dict[str, float] = textsvm.cross_validate(model, texts, labels, cv=5).pooled
    wrong: NDArray[np.int64] = textsvm.doubts(model, texts, labels).order()
    return min(best, pooled["accuracy"]) if len(wrong) else 1.0


def predict(path: str, texts: list[str]) -> list[str]:
    """Classes of texts by a model that was saved."""
    try:
        model: textsvm.TrainedModel = textsvm.load(path)
        return list(model.on("cpu").predict(texts))
    except textsvm.InputError as error:
        raise SystemExit(str(error)) from error


def recall(path: str, texts: list[str], labels: list[str]) -> float:
    """Recall of a saved model, and its accuracy by scikit-learn's interface."""
    model = textsvm.load(path)
    decision: NDArray[np.float64] = model.decision_function(texts)
    results = textsvm.evaluate(labels, model.predict(texts), decision, model.classes)
    accuracy: float = textsvm.as_estimator(model).score(texts, labels)
    return min(results.metrics["recall"], accuracy)


def others(texts: list[str], labels: list[str], numbers: list[float]) -> int:
    """The other estimators, and a kernel on its own."""
    probabilities: NDArray[np.float64] = (
        textsvm.CalibratedSVC(textsvm.SVC()).fit(texts, labels).predict_proba(texts)
    )
    values: NDArray[np.float64] = textsvm.SVR(textsvm.Spectrum(3)).fit(texts, numbers).predict(texts)
    inside = textsvm.OneClassSVM(nu=0.1).fit(texts).decision_function(texts)
    tags = textsvm.MultilabelSVC().fit(texts, [("a", "b") for _ in texts]).predict(texts)
    online: textsvm.OnlineSVC = textsvm.OnlineSVC().partial_fit(texts, labels).unlearn(texts[:1])
    gram: NDArray[np.float32] = textsvm.Spectrum(4)(texts, texts)
    return len(probabilities) + len(values) + len(inside) + len(tags) + len(gram) + len(online.predict(texts))
