"""How well kernels do on texts they were not trained on: cross-validation in feature space, counted once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.documents import Documents, Views
from textsvm.features.rows import FeatureRows, side_by_side
from textsvm.kernels.base import Kernel
from textsvm.kernels.spectrum_counted import CountedDocuments
from textsvm.parallel import Progress, run
from textsvm.solvers.columns import Columns, solve_columns

#: Largest violation of the optimality conditions in a trial: decisions of texts are settled long before 1e-3.
TOLERANCE = 0.1
FOLDS = 3


@dataclass(frozen=True)
class Examples:
    """What trials are made on.

    Attributes
    ----------
    documents : Documents or Views, n of them
    target : int64 array, shape (n,)
        Classes, from 0.
    n_classes : int
    weight : float64 array, shape (n,)
        Factors of C.
    fold : int64 array, shape (n,)
        Where each is tested.
    """

    documents: Documents | Views
    target: NDArray[np.int64]
    n_classes: int
    weight: NDArray[np.float64]
    fold: NDArray[np.int64]


@dataclass(frozen=True)
class Trial:
    """What came of a kernel.

    Attributes
    ----------
    kernel : Kernel
    C : float
    accuracy : float
        Over all examples, each decided by machines not trained on it.
    """

    kernel: Kernel
    C: float
    accuracy: float


class Trials:
    """Trials on the same examples, whose p-mers are counted once.

    Parameters
    ----------
    examples : Examples
    """

    def __init__(self, examples: Examples) -> None:
        self.examples = examples
        self._counted: dict[Hashable, CountedDocuments] = {}

    def counted(self, leaf: Any) -> CountedDocuments:
        """The documents as a spectrum kernel reads them, counted."""
        key = leaf.view, leaf.lengths
        if key not in self._counted:
            self._counted[key] = CountedDocuments(leaf, self.examples.documents.of(leaf.view))
        return self._counted[key]

    def rows(self, kernel: Kernel, train: NDArray[np.int64]) -> FeatureRows:
        """All examples, weighed by what the kernel learns from some."""
        terms = kernel.terms
        return side_by_side(
            [self.counted(leaf).rows(leaf, train) for _, leaf in terms], [weight for weight, _ in terms]
        )

    def entries(self, kernel: Kernel) -> int:
        """Entries of its rows, a bound."""
        return sum(len(self.counted(leaf).counts.counts) for _, leaf in kernel.terms)

    def run(
        self, kernels: Sequence[Kernel], penalties: Sequence[float], progress: Progress | None = None
    ) -> list[Trial]:
        """Try kernels with some values of C; `progress` counts the folds of each."""
        for kernel in kernels:
            self.entries(kernel)
        right = np.zeros((len(kernels), FOLDS, len(penalties)))

        def one_fold(task: tuple[int, int]) -> None:
            right[task] = self._right(kernels[task[0]], task[1], penalties)

        tasks = [(k, fold) for k in range(len(kernels)) for fold in range(FOLDS)]
        run(one_fold, tasks, progress=progress)
        accuracy = right.sum(axis=1) / len(self.examples.target)
        return [
            Trial(kernel, C, float(accuracy[k, j]))
            for k, kernel in enumerate(kernels)
            for j, C in enumerate(penalties)
        ]

    def _right(self, kernel: Kernel, fold: int, penalties: Sequence[float]) -> NDArray[np.float64]:
        """How many examples of a fold are decided right, for each C."""
        examples = self.examples
        train, test = np.flatnonzero(examples.fold != fold), np.flatnonzero(examples.fold == fold)
        rows = self.rows(kernel, train)
        first = 1 if examples.n_classes == 2 else 0
        classes = np.arange(first, examples.n_classes)
        signs = np.where(examples.target[:, None] == classes, 1, -1).astype(np.int8)
        box = examples.weight[:, None] * np.repeat(penalties, len(classes))
        columns = Columns(train, np.tile(signs, len(penalties)), box.astype(np.float32))
        found = solve_columns(rows, columns, TOLERANCE, max_epochs=50)
        values = rows.x.take(test).dot(found.weights.astype(np.float64)) + found.bias
        values = values.reshape(len(test), len(penalties), len(classes))
        predicted = (values[:, :, 0] > 0).astype(np.int64) if first else values.argmax(axis=2)
        return (predicted == examples.target[test][:, None]).sum(axis=0).astype(np.float64)


def counted_rows(kernel: Kernel, documents: Documents | Views) -> FeatureRows:
    """Rows of features of all documents; the kernel learns from them what it learns."""
    parts, terms = [], kernel.terms
    everyone = np.arange(len(documents))
    for _, leaf in terms:
        spectrum: Any = leaf
        counted = CountedDocuments(spectrum, documents.of(leaf.view))
        if spectrum.weighted:
            spectrum.weights_ = counted.weights(spectrum, everyone)
        parts.append(counted.rows(spectrum, everyone))
    return side_by_side(parts, [weight for weight, _ in terms])
