"""Accuracy of kernels in cross-validation, on features that are counted once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.choice.shortlist import Recipe
from textsvm.gram.base import DenseGram
from textsvm.kernels.base import Kernel
from textsvm.linalg.rows import FeatureRows, side_by_side
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress, run
from textsvm.solvers.columns import MachineColumns, solve_columns
from textsvm.solvers.problems import Classification
from textsvm.solvers.solution import Stopping
from textsvm.solvers.solve import solve
from textsvm.text.documents import Documents, Views

#: Largest violation of the optimality conditions in a trial: decisions no longer change well above 1e-3.
TOLERANCE = 0.1
FOLDS = 3


@dataclass(frozen=True)
class TrialExamples:
    """The examples of the trials."""

    documents: Documents | Views
    target: NDArray[np.int64]  #: shape (n,): Classes, from 0
    n_classes: int
    weight: NDArray[np.float64]  #: shape (n,): Factors of C
    fold: NDArray[np.int64]  #: shape (n,): The fold in which each example is tested


@dataclass(frozen=True)
class Trial:
    """Accuracy of a kernel with a C, over all examples, each classified by machines not trained on it."""

    recipe: Recipe
    C: float
    accuracy: float


class Trials:
    """Trials on the same examples, whose features are counted once.

    Grams of kernels without features are computed on `device`.
    """

    def __init__(self, examples: TrialExamples, device: Device) -> None:
        self.examples, self.device = examples, device
        self._counted: dict[Hashable, Any] = {}
        self._grams: dict[Recipe, DenseGram] = {}

    def run(
        self, recipes: Sequence[Recipe], penalties: Sequence[float], progress: Progress | None = None
    ) -> list[Trial]:
        """Try kernels with each value of C; `progress` counts their folds."""
        right = np.zeros((len(recipes), FOLDS, len(penalties)))
        kernels = [recipe.kernel() for recipe in recipes]
        grams = [
            None if kernel.features is not None and kernel.features.countable else self._gram(recipe, kernel)
            for recipe, kernel in zip(recipes, kernels, strict=True)
        ]
        for kernel, gram in zip(kernels, grams, strict=True):
            if gram is None:
                self.count(kernel)

        def run_fold(task: tuple[int, int]) -> None:
            k, fold = task
            values = self._values(kernels[k], grams[k], fold, penalties)
            own = self.examples.target[self.examples.fold == fold][:, None]
            right[task] = (values == own).sum(axis=0)

        tasks = [(k, fold) for k in range(len(kernels)) for fold in range(FOLDS)]
        run(run_fold, tasks, progress=progress)
        accuracy = right.sum(axis=1) / len(self.examples.target)
        return [
            Trial(recipe, C, float(accuracy[k, j]))
            for k, recipe in enumerate(recipes)
            for j, C in enumerate(penalties)
        ]

    def rows(self, kernel: Kernel, train: NDArray[np.int64]) -> FeatureRows:
        """Rows of all examples, with the weights that a kernel learns from the examples `train`."""
        terms = kernel.structure.terms
        parts = [term.features.rows_of(self._counted[term.features.key], train) for _, term in terms]
        return side_by_side(parts, [weight for weight, _ in terms])

    def _gram(self, recipe: Recipe, kernel: Kernel) -> DenseGram:
        """The Gram of a kernel without features, computed once for all values of C."""
        if recipe not in self._grams:
            read: Any = kernel.structure.read(self.examples.documents)
            values = devices.to_host(kernel.fit(read).rows(read, self.device).gram())
            self._grams[recipe] = DenseGram(values)
        return self._grams[recipe]

    def count(self, kernel: Kernel) -> None:
        """Count the features of a kernel that are not counted yet."""
        for leaf in kernel.structure.leaves:
            if leaf.features.key not in self._counted:
                documents = leaf.structure.read(self.examples.documents)
                self._counted[leaf.features.key] = leaf.features.count(documents)

    def _values(
        self, kernel: Kernel, gram: DenseGram | None, fold: int, penalties: Sequence[float]
    ) -> NDArray[np.int64]:
        """Predicted classes of the examples of a fold for each C, shape (number tested, number of C)."""
        examples, n_classes = self.examples, self.examples.n_classes
        train, test = np.flatnonzero(examples.fold != fold), np.flatnonzero(examples.fold == fold)
        classes = np.arange(1 if n_classes == 2 else 0, n_classes)
        if gram is not None:
            values = _of_gram(examples, gram, train, test, penalties)
        else:
            rows = self.rows(kernel, train)
            signs = np.where(examples.target[:, None] == classes, 1, -1).astype(np.int8)
            box = (examples.weight[:, None] * np.repeat(penalties, len(classes))).astype(np.float32)
            columns = MachineColumns(train, np.tile(signs, len(penalties)), box)
            solution = solve_columns(rows, columns, TOLERANCE, max_epochs=50)
            values = rows.x.take(test).dot(solution.weights.astype(np.float64)) + solution.bias
        values = values.reshape(len(test), len(penalties), len(classes))
        if n_classes == 2:
            return (values[:, :, 0] > 0).astype(np.int64)
        classes_chosen: NDArray[np.int64] = values.argmax(axis=2)
        return classes_chosen


def _of_gram(
    examples: TrialExamples,
    gram: DenseGram,
    train: NDArray[np.int64],
    test: NDArray[np.int64],
    penalties: Sequence[float],
) -> NDArray[np.float64]:
    """Decision values from kernel values, shape (number tested, number of C, classes or 1)."""
    known, target = np.unique(examples.target[train], return_inverse=True)
    path = [
        Classification(train, target, len(known), C, examples.weight[train], "ovr") for C in sorted(penalties)
    ]
    [solved] = solve(gram, [path], Stopping(TOLERANCE))
    by_penalty = dict(zip(sorted(penalties), solved, strict=True))
    values = np.full((len(test), len(penalties), examples.n_classes), -np.inf)
    rows = gram.matrix[np.ix_(test, train)].astype(np.float64)
    for j, C in enumerate(penalties):
        known_values = rows @ by_penalty[C].coef.T + by_penalty[C].bias
        if len(known) == 2:
            known_values = np.hstack([-known_values, known_values])
        values[:, j, known] = known_values
    return values[:, :, 1:] if examples.n_classes == 2 else values
