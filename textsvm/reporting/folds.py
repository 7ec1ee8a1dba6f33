"""A cross-validation -> what a report shows: what each document got from machines not trained on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from textsvm.evaluation.results import Results, evaluate, evaluate_labels
from textsvm.reporting.report import MISTAKES, Mistake, Report, how_wrong, worst
from textsvm.selection.cross_validation import CrossValidation


def results_of(result: CrossValidation, truth: Sequence[Any], positive: Any = None) -> Results:
    """The documents that were tested, judged together.

    Parameters
    ----------
    result : CrossValidation
    truth : sequence of labels, tuples of labels or numbers, length n
    positive : label, optional
        Of two classes the one to be found.
    """
    tested = np.flatnonzero(result.tested)
    known, said = [truth[i] for i in tested.tolist()], result.predictions[tested]
    decision = result.decision[tested]
    if said.ndim == 2:
        classes = np.unique([label for labels in truth for label in labels])
        nothing = np.full(len(classes), np.nan)  # every fold has thresholds of its own
        found = evaluate_labels(known, said.astype(bool), decision, classes, nothing)
    elif "mae" in result.mean:
        found = evaluate(known, said.astype(float), decision, None)
    else:
        classes = np.unique(np.asarray(truth))
        found = evaluate(known, said.astype(classes.dtype), decision, classes, positive=positive)
    return replace(found, index=tested[found.index], seconds=result.seconds)


def make_report(
    results: Results,
    texts: Sequence[str] | None,
    ids: Sequence[str],
    title: str,
    facts: list[tuple[str, str]],
    mistakes: int = MISTAKES,
) -> Report:
    """A report of documents whose machines are not kept: mistakes are shown, and not explained.

    Parameters
    ----------
    results : Results
        Of `results_of`.
    texts : sequence of str, optional
        All documents; None: no texts are shown, and no lengths.
    ids : sequence of str
    title : str
    facts : list of (str, str)
    mistakes : int
        How many of the worst are shown, with their texts.
    """
    results = results if results.intervals else results.with_intervals()
    if texts is None:
        return Report(title, results, facts, np.zeros(results.n, np.int64), [])
    lengths = np.array([len(texts[i]) for i in results.index.tolist()])
    chosen = [] if results.task == "multilabel" else worst(results, mistakes)
    values = None if results.task == "multilabel" else how_wrong(results)
    shown = [
        Mistake(ids[j], *results.labels_of(i), float(values[i]), texts[j], None)
        for i, j in ((i, int(results.index[i])) for i in chosen)
        if values is not None
    ]
    return Report(title, results, facts, lengths, shown)
