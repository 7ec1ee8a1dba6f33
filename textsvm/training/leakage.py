"""Near-duplicates: a copy of a test document in the training part flatters the test.

Two documents are near-duplicates if their normalised kernel value

    K(s, t) / sqrt(K(s, s) K(t, t))

is at least a bound. For a kernel of texts and numbers the parts on texts decide
(`Structure.near_duplicate_kernel`), because documents with equal numbers are no copies. Groups are the
connected components of the graph of all pairs, stored as an edge from each document to the first of its
component, so memory does not depend on the number of copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from textsvm.arrays import Floats, Ints, Json
from textsvm.errors import InputError
from textsvm.gram.base import Gram
from textsvm.gram.nearest import most_similar, similar_pairs
from textsvm.kernels.contract import ALIKE
from textsvm.model.settings import Fold
from textsvm.model.trained import as_model
from textsvm.runtime.device import select
from textsvm.runtime.parallel import Progress
from textsvm.sources.base import Source
from textsvm.sources.copies import groups_of
from textsvm.training.targets import is_number


class LeakageWarning(UserWarning):
    """Test documents have near-duplicates in the training data."""


@dataclass(frozen=True)
class Leak:
    """Near-duplicates across the training and test part of a fold."""

    test: Ints  #: shape (n_leaks,): Test documents with a near-duplicate in the training part
    train: Ints  #: shape (n_leaks,): Their nearest training documents
    value: Floats  #: shape (n_leaks,): Normalised kernel value of the two
    share: float  #: Share of the fold's test documents

    def as_dict(self) -> Json:
        """JSON values."""
        pairs = zip(self.test.tolist(), self.train.tolist(), self.value.tolist(), strict=True)
        return {"share": self.share, "pairs": [list(pair) for pair in pairs]}


def check_bound(bound: object) -> float:
    """Least kernel value of near-duplicates, which may differ from 1 by rounding; 0 < bound <= 1."""
    if not is_number(bound) or not 0 < bound <= 1:
        raise InputError(f"the bound of near-duplicates must be above 0 and at most 1, got {bound!r}")
    return min(float(bound), 1 - 1e-5)


def near_duplicates(gram: Gram, bound: float = ALIKE, progress: Progress | None = None) -> Ints:
    """Group of each document, shape (n,), from 0: near-duplicates are connected directly or through others.

    `bound` is the least normalised kernel value of near-duplicates, above 0 and at most 1.
    """
    return groups_of(gram.n, (pairs[:2] for pairs in similar_pairs(gram, check_bound(bound), progress)))


def find_leaks(
    gram: Gram, folds: Sequence[Fold], bound: float = ALIKE, progress: Progress | None = None
) -> list[Leak]:
    """Test documents with a near-duplicate in the training part, fold by fold."""
    least, part = check_bound(bound), np.zeros((len(folds), gram.n), np.int8)  # 1 train, 2 test
    for number, (train, test) in enumerate(folds):
        part[number, train], part[number, test] = 1, 2
    nearest = np.full(part.shape, -1)
    best = np.zeros(part.shape)
    for first, second, value in similar_pairs(gram, least, progress):
        order = np.argsort(value, kind="stable")
        first, second, value = first[order], second[order], value[order]
        for number in range(len(folds)):
            for a, b in ((first, second), (second, first)):
                leak = (part[number, a] == 2) & (part[number, b] == 1)
                leak[leak] = value[leak] > best[number, a[leak]]
                # The last assignment stays: the largest value, as they ascend.
                nearest[number, a[leak]] = b[leak]
                best[number, a[leak]] = value[leak]
    leaks = []
    for number, (_, test) in enumerate(folds):
        leaked = np.flatnonzero(nearest[number] >= 0)
        share = len(leaked) / len(np.unique(test))
        leaks.append(Leak(leaked, nearest[number, leaked], best[number, leaked], share))
    return leaks


def held_out_leak(
    model: object,
    training: Sequence[str],
    held: Sequence[str],
    bound: float | None = None,
    progress: Progress | None = None,
) -> Leak:
    """Held-out documents with a near-duplicate among the training documents of a model.

    `model` is a `TrainedModel` or a fitted estimator. The default bound is the kernel's. In the result `test`
    are indices of `held`, and `train` of `training`.
    """
    trained = as_model(model)
    assert trained.kernel is not None
    kernel, reader = trained.kernel.structure.near_duplicate_kernel, trained.reader
    if kernel is None:
        return Leak(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), 0.0)
    assert isinstance(reader, Source)
    least = check_bound(kernel.structure.alike if bound is None else bound)
    device, n_features = select(trained.device), trained.support.n_features
    with trained.at_work(device):
        documents = reader.encode(reader.validate(training, n_features), None)
        others = kernel.structure.read(reader.encode(reader.validate(held, n_features), documents))
        nearest, best = most_similar(kernel, kernel.structure.read(documents), others, device, progress)
    leaked = np.flatnonzero(best >= least)
    return Leak(leaked, nearest[leaked], best[leaked], len(leaked) / max(1, len(others)))


def leakage_message(
    leaks: Sequence[Leak], bound: float = ALIKE, remedy: str = "group_duplicates keeps them together"
) -> str:
    """Number of test documents with a near-duplicate in training, for people; empty if there are none."""
    documents = np.unique(np.concatenate([leak.test for leak in leaks]))
    if not len(documents):
        return ""
    worst = max(leak.share for leak in leaks)
    return (
        f"{len(documents):,} document{'s are' if len(documents) > 1 else ' is'} tested by machines that were "
        f"trained on a near-duplicate (normalised kernel value of {bound:g} or more; up to {worst:.1%} of a "
        f"test part), which flatters the result; {remedy}"
    )
