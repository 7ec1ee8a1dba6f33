"""Choose the kernel and C of a classifier by cross-validation within a time budget.

The candidates differ from the default in the weight of the plain kernel and in C. Their features are counted
once, for as many texts as the budget allows. The smallest log loss of the held-out decision values wins, at
the best scale of the values of each trial: it tells close candidates apart where accuracy, a count, cannot.

The time of the trials is predicted from counts of operations, not measured, and texts and folds are drawn in
the order of digests of the texts: the same texts get the same kernel on any computer and in any order.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from textsvm.choice.candidates import Candidate
from textsvm.kernels.base import Kernel
from textsvm.kernels.spelling import spell
from textsvm.linalg.rows import FeatureRows, side_by_side
from textsvm.runtime.parallel import Progress, StageProgress, of_stage, run
from textsvm.solvers.columns import MachineColumns, solve_columns
from textsvm.text.documents import Documents, MultiView

#: Entries of the rows per symbol; seconds per entry for a fold of a trial, and in addition per column.
ENTRIES, READING, COLUMN = 5.0, 1.2e-7, 2.4e-8
#: Largest violation of the optimality conditions in a trial: decisions no longer change well above 1e-3.
TOLERANCE = 0.1
FOLDS = 3
#: Values of C of a trial, as multiples of a candidate's C.
FACTORS = (1.0, 2 / 3, 2.0)
#: Fewest texts of the trials.
FEWEST = 600
#: Smallest and largest logarithm of the scale of decision values.
SCALES = (-3.0, 4.0)


@dataclass(frozen=True)
class Choice:
    """The chosen kernel and C, a sentence that describes the choice, and all trials in their order."""

    kernel: Kernel
    C: float
    description: str
    trials: list[Trial]


def choose(
    default: Candidate,
    documents: Documents | MultiView,
    target: NDArray[np.int64],
    weight: NDArray[np.float64],
    C: float,
    seconds: float,
    progress: StageProgress | None = None,
) -> Choice:
    """Choose a kernel and C by cross-validation.

    `documents` have the views of the default's kernel, `target` are classes from 0, and `weight` factors of
    C. `C` multiplies the values of C of the candidates. `seconds` bounds the predicted time of the trials.
    """
    characters = default.characters(documents)
    if np.bincount(target).max() < 2:  # no tested text would have its class in the training part
        return Choice(default.kernel(), default.C * C, default.description(C), [])
    n_classes = int(target.max()) + 1
    candidates = default.alternatives()
    order = _content_order(characters, target, weight)
    rows = order[_subset(target[order], _affordable(characters, n_classes, len(candidates), seconds))]
    examples = TrialExamples(
        documents.take(rows).with_classes(target[rows]),
        target[rows],
        n_classes,
        weight[rows],
        _folds(target[rows]),
    )
    trials = Trials(examples).run(
        candidates, [C * factor for factor in FACTORS], of_stage(progress, "choose")
    )
    best = min(trials, key=lambda trial: trial.loss)  # among equals the first
    return Choice(best.candidate.kernel(), best.C, _sentence(trials, best, len(rows), len(target)), trials)


def _affordable(characters: Documents, n_classes: int, n_candidates: int, seconds: float) -> int:
    """Number of texts for trials within the allowed time."""
    columns = len(FACTORS) * (1 if n_classes == 2 else n_classes)
    entries = float(np.mean(characters.lengths)) * ENTRIES
    per_text = entries * FOLDS * n_candidates * (READING + COLUMN * columns)
    return max(FEWEST, n_classes * 2 * FOLDS, int(seconds / max(per_text, 1e-12)))


def _content_order(
    characters: Documents, target: NDArray[np.int64], weight: NDArray[np.float64]
) -> NDArray[np.int64]:
    """An order of the examples that depends on their texts, classes and weights, not on their positions."""
    texts = (characters.codes[start:stop].tobytes() for start, stop in pairwise(characters.offsets.tolist()))
    digests = b"".join(blake2b(text, digest_size=8).digest() for text in texts)
    return np.lexsort((weight, target, np.frombuffer(digests, np.uint64)))


def _subset(target: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """At most `most` examples, stratified by class, in their order."""
    n = len(target)
    if n <= most:
        return np.arange(n)
    order = np.random.default_rng(0).permutation(n)
    place = np.empty(n)
    for members in _by_class(target[order]):
        place[members] = np.arange(len(members)) / len(members)  # the first of each class has place 0
    return np.sort(order[np.argsort(place, kind="stable")[:most]])


def _folds(target: NDArray[np.int64]) -> NDArray[np.int64]:
    """The fold in which each example is tested, stratified by class."""
    order = np.random.default_rng(0).permutation(len(target))
    fold = np.empty(len(target), np.int64)
    dealt = 0
    for members in _by_class(target[order]):
        fold[order[members]] = (dealt + np.arange(len(members))) % FOLDS
        dealt += len(members)
    return fold


def _by_class(target: NDArray[np.int64]) -> Sequence[NDArray[np.int64]]:
    order = np.argsort(target, kind="stable")
    return np.split(order, np.cumsum(np.bincount(target))[:-1])


def _sentence(trials: Sequence[Trial], best: Trial, n: int, total: int) -> str:
    texts = f"{n:,} texts" if n == total else f"{n:,} of {total:,} texts"
    against = "" if best is trials[0] else f", the default {100 * trials[0].accuracy:.1f} %"
    return (
        f"{spell(best.candidate.kernel())} with C = {best.C:.3g}: the smallest log loss of {len(trials)} "
        f"trials, {100 * best.accuracy:.1f} % right in {FOLDS}-fold cross-validation on {texts}{against}"
    )


@dataclass(frozen=True)
class TrialExamples:
    """The examples of the trials."""

    documents: Documents | MultiView
    target: NDArray[np.int64]  #: shape (n,): Classes, from 0
    n_classes: int
    weight: NDArray[np.float64]  #: shape (n,): Factors of C
    fold: NDArray[np.int64]  #: shape (n,): The fold in which each example is tested


@dataclass(frozen=True)
class Trial:
    """A kernel with a C, judged on all examples, each by a machine that was not trained on it."""

    candidate: Candidate
    C: float
    accuracy: float
    loss: float  #: Mean log loss at the best scale of the decision values


class Trials:
    """Trials on the same examples, whose features are counted once."""

    def __init__(self, examples: TrialExamples) -> None:
        self.examples = examples
        self._counted: dict[Hashable, Any] = {}

    def run(
        self, candidates: Sequence[Candidate], factors: Sequence[float], progress: Progress | None = None
    ) -> list[Trial]:
        """Try candidates with their C times each factor; `progress` counts their folds."""
        examples, n_classes = self.examples, self.examples.n_classes
        width = 1 if n_classes == 2 else n_classes
        values = np.zeros((len(candidates), len(factors), len(examples.target), width), np.float32)
        kernels = [candidate.kernel() for candidate in candidates]
        for kernel in kernels:
            self.count(kernel)

        def run_fold(task: tuple[int, int]) -> None:
            k, fold = task
            penalties = [candidates[k].C * factor for factor in factors]
            values[k][:, examples.fold == fold] = self.decide(kernels[k], fold, penalties)

        run(run_fold, [(k, fold) for k in range(len(kernels)) for fold in range(FOLDS)], progress=progress)
        return [
            Trial(candidate, candidate.C * factor, *_judge(values[k, j].astype(float), examples.target))
            for k, candidate in enumerate(candidates)
            for j, factor in enumerate(factors)
        ]

    def count(self, kernel: Kernel) -> None:
        """Count the features of a kernel that are not counted yet."""
        for leaf in kernel.structure.leaves:
            if leaf.features.key not in self._counted:
                documents = leaf.structure.read(self.examples.documents)
                self._counted[leaf.features.key] = leaf.features.count(documents)

    def rows(self, kernel: Kernel, train: NDArray[np.int64]) -> FeatureRows:
        """Rows of all examples, with the weights that a kernel learns from the examples `train`."""
        terms = kernel.structure.terms
        parts = [term.features.rows_of(self._counted[term.features.key], train) for _, term in terms]
        return side_by_side(parts, [weight for weight, _ in terms])

    def decide(self, kernel: Kernel, fold: int, penalties: Sequence[float]) -> NDArray[np.float64]:
        """Decision values of the examples of a fold for each C, shape (number of C, number tested, width).

        The width is 1 with two classes, otherwise the number of classes.
        """
        examples, n_classes = self.examples, self.examples.n_classes
        train, test = np.flatnonzero(examples.fold != fold), np.flatnonzero(examples.fold == fold)
        classes = np.arange(1 if n_classes == 2 else 0, n_classes)
        rows = self.rows(kernel, train)
        signs = np.where(examples.target[:, None] == classes, 1, -1).astype(np.int8)
        box = (examples.weight[:, None] * np.repeat(penalties, len(classes))).astype(np.float32)
        columns = MachineColumns(train, np.tile(signs, len(penalties)), box)
        solution = solve_columns(rows, columns, TOLERANCE, max_epochs=50)
        values = rows.x.take(test).dot(solution.weights.astype(np.float64)) + solution.bias
        return values.reshape(len(test), len(penalties), len(classes)).swapaxes(0, 1)


def _judge(values: NDArray[np.float64], target: NDArray[np.int64]) -> tuple[float, float]:
    """Accuracy, and log loss at the best scale, of held-out decision values, shape (n, width)."""
    if values.shape[1] == 1:
        values = np.hstack([np.zeros_like(values), values])
    rows = np.arange(len(target))

    def loss(exponent: float) -> float:
        return -float(log_softmax(np.exp(exponent) * values, axis=1)[rows, target].mean())

    best = minimize_scalar(loss, bounds=SCALES, method="bounded")
    return float((values.argmax(axis=1) == target).mean()), float(best.fun)
