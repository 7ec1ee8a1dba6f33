"""Thresholds of labels from decision values of documents that the machines were not trained on.

A machine with a bias puts its threshold at 0, where rare labels are hardly ever given. SCut (Yang 2001) takes
for each label the threshold with the best F1 on such values; of a label with few documents it takes what fits
those by chance. Two remedies of Yang (2001) and Fan and Lin (2007):

    fbr    where the best F1 is under 0.3, the threshold is the largest value: the label is hardly ever given
    mean   over five parts of the documents, each time without one of them

Measured on the training part of ModApte (90 labels, 7,770 documents, log idf 1-5), with thresholds from
four fifths of the values out of fold and F1 on the last fifth, four times, in per cent:

                                                          micro-F1   macro-F1
    zero                                                    86.8       34.2
    one threshold for all labels                            89.5       46.8
    SCut                                                    88.9       59.4
    SCut, fbr 0.1 / 0.3 / 0.5                        89.8 / 90.0 / 90.0   59.6 / 58.9 / 57.0
    SCut, labels of under 10 documents: one for all         90.1       57.0
    SCut, drawn to one for all, by 5 documents              90.2       57.9
    SCut, fbr 0.3, mean (taken)                             90.2       59.3
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: Labels whose best F1 is less are hardly ever given.
FBR = 0.3
#: Parts of the documents that are left out in turn.
PARTS = 5


def choose(decision: NDArray[np.float64], truth: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The threshold of each label, float64, shape (n_labels,); a document has it above that.

    Parameters
    ----------
    decision : float64 array, shape (n, n_labels)
        By machines that were not trained on the document. NaN is passed over: the machine was left out.
    truth : bool array, shape (n, n_labels)
    """
    n = len(decision)
    part = np.random.default_rng(0).permutation(n) % PARTS
    kept = [np.flatnonzero(part != number) for number in range(PARTS)] if n >= 2 * PARTS else [np.arange(n)]
    return np.mean(
        [[_best(decision[some, a], truth[some, a]) for a in range(truth.shape[1])] for some in kept], axis=0
    )


def _best(values: NDArray[np.float64], truth: NDArray[np.bool_]) -> float:
    """The threshold with the best F1, halfway between two values; the largest value if that F1 is low."""
    known = ~np.isnan(values)
    values, truth = values[known], truth[known]
    if not len(values):
        return 0.0
    order = np.argsort(-values, kind="stable")
    values = values[order]
    f1 = 2 * np.cumsum(truth[order]) / (np.arange(1, len(values) + 1) + truth.sum())
    # Equal values are given a label together.
    f1[:-1][values[:-1] == values[1:]] = -1.0
    best = int(f1.argmax())
    if f1[best] < FBR:
        return float(values[0])
    if best + 1 == len(values):
        return float(np.nextafter(values[best], -np.inf))
    return float((values[best] + values[best + 1]) / 2)
