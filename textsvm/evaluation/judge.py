"""A fitted estimator and documents whose labels or numbers are known -> results."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from textsvm.errors import InputError
from textsvm.evaluation.asked import machine_of as machine_of
from textsvm.evaluation.asked import predict as predict
from textsvm.evaluation.results import Results, evaluate, evaluate_labels
from textsvm.text.documents import Documents, Views

#: Warn when more than this share of the symbols is not in the model's alphabet.
UNSEEN = 0.05
#: Warn when more than this share of the documents are support vectors.
SEEN = 0.05


def judge(
    model: Any,
    texts: Any,
    truth: Sequence[Any],
    positive: Any = None,
    grades: tuple[int, int] | None = None,
    progress: Any = None,
    seconds: dict[str, float] | None = None,
) -> Results:
    """Predict labelled documents and compare; of a calibrated model its likeliest class, whatever it rejects.

    Parameters
    ----------
    model : SVC, MultilabelSVC, SVR, OneClassSVM or CalibratedSVC
        Fitted.
    texts : sequence of str, length n; or vectors, or a table
    truth : sequence, length n
        Labels, or numbers for an SVR; tuples of labels, or a bool indicator, for a MultilabelSVC.
    positive : label, optional
        Of two classes the one to be found. An OneClassSVM needs it: the class that it has learnt.
    grades : (int, int), optional
        Range of the quadratic weighted kappa.
    progress : callable, optional
        See `textsvm.runtime.parallel.StageProgress`.
    seconds : dict, optional
        Kept in the results, with "predict" added.

    Raises
    ------
    InputError
        If there are no documents, or their labels do not fit the model.
    """
    if len(truth) == 0:
        raise InputError("there are no labelled documents to evaluate on")
    clock = time.perf_counter()
    classes, predicted, decision, probability = predict(model, texts, truth, positive, progress)
    if classes is not None and predicted.ndim == 2:
        results = evaluate_labels(truth, predicted, decision, classes, model.thresholds_)
        return _with_notes(results, model, texts, {**(seconds or {}), "predict": time.perf_counter() - clock})
    if classes is not None and probability is not None:
        predicted = classes[probability.argmax(axis=1)]
    spent = time.perf_counter() - clock
    results = evaluate(
        truth, predicted, decision, classes, positive=positive, probability=probability, grades=grades
    )
    conformity = getattr(model, "conformity_", None)
    if conformity is not None and classes is not None and probability is not None:
        codes = np.searchsorted(classes, results.truth)
        sets, unlike = conformity.summary(probability[results.index], decision[results.index], codes)
        results.sets.extend(sets)
        results.rejected.update(unlike)
    return _with_notes(results, model, texts, {**(seconds or {}), "predict": spent})


def _with_notes(results: Results, model: Any, texts: Any, seconds: dict[str, float]) -> Results:
    results.seconds.update(seconds)
    results.warnings.extend(data_warnings(model, texts))
    return results


def _unseen(documents: Any, support: Any) -> float:
    """The share of the symbols that no support vector has; words and numbers that are new say nothing."""
    if not isinstance(support, Documents) or support.of_tokens or not len(documents.codes):
        return 0.0
    return float(np.mean(documents.codes >= len(support.alphabet)))


def data_warnings(model: Any, texts: Any) -> list[str]:
    """Warnings of documents that do not fit a model, or fit too well: it was trained on them."""
    support, machine = getattr(model, "support_documents_", None), machine_of(model)
    if not isinstance(support, Documents | Views):
        return []
    documents = machine.encode(machine.read(texts, fitting=False), support)
    found = []
    unseen = max([_unseen(documents.of(view), support.of(view)) for view in model.kernel_.structure.views])
    if unseen > UNSEEN:
        found.append(
            f"{100 * unseen:.0f} % of the symbols of these documents do not occur in the model's support "
            "vectors: another language, or another encoding?"
        )
    known = {support.text(i) for i in range(len(support))}
    seen = sum(documents.text(i) in known for i in range(len(documents))) / len(documents)
    if seen > SEEN:
        found.append(
            f"{100 * seen:.0f} % of these documents are support vectors of the model: it knows them "
            "and will do less well on others"
        )
    return found
