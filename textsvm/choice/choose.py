"""Choose the kernel and C of a classifier by trials of a short list of kernels.

The trials of a short list (`shortlist`) measure accuracy in cross-validation, on features that are counted
once, with as many texts as the time budget allows. The times of the trials and of the usual alternative,
TF-IDF of characters with a linear machine, are predicted from counts of operations, not measured. Texts and
folds of the trials are drawn in the order of digests of the texts: the same texts get the same kernel on any
computer and in any order.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.choice import shortlist
from textsvm.choice.shortlist import Recipe, TextStatistics
from textsvm.gram.base import DenseGram
from textsvm.kernels.base import Kernel
from textsvm.kernels.spelling import spell
from textsvm.linalg.rows import FeatureRows, side_by_side
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress, StageProgress, of_stage, part, run
from textsvm.solvers.columns import MachineColumns, solve_columns
from textsvm.solvers.problems import Classification
from textsvm.solvers.solution import Stopping
from textsvm.solvers.solve import solve
from textsvm.text.documents import Documents, MultiView, View

#: Seconds of the alternative (scikit-learn's `TfidfVectorizer` of 1 to 5 characters, and `LinearSVC`) per
#: symbol, and per entry and class, measured on two cores.
VECTORISING, FITTING = 2.0e-6, 5.5e-8
#: Entries of the rows per symbol; seconds per entry for a fold of a trial, and in addition per column.
ENTRIES, READING, COLUMN = 2.5, 4e-8, 8e-9
#: Time budget of the trials: share of the alternative's time, and least number of seconds.
SHARE, ANYHOW = 0.5, 1.0
#: Largest violation of the optimality conditions in a trial: decisions no longer change well above 1e-3.
TOLERANCE = 0.1
FOLDS = 3
#: Other values of C for the best kernel, as multiples of the given C.
FACTORS = (1 / 3, 3.0)
#: Most trials, including trials of the best kernel with other values of C.
MOST_TRIED = 8
#: Fewest texts of a trial; and most, where no time is given: more texts do not improve the choice.
FEWEST, MOST = 600, 16_000


@dataclass(frozen=True)
class Choice:
    """The chosen kernel and C, a sentence that describes the choice, and all trials in their order."""

    kernel: Kernel
    C: float
    description: str
    trials: list[Trial]


def choose(
    documents: Documents | MultiView,
    target: NDArray[np.int64],
    weight: NDArray[np.float64],
    device: Device,
    C: float = 1.0,
    seconds: float | None = None,
    progress: StageProgress | None = None,
) -> Choice:
    """Choose a kernel and C (among C / 3, C and 3 C) by cross-validation.

    `documents` have views as characters and as words, `target` are classes from 0, and `weight` factors of C.
    `device` computes Grams of kernels without features. `seconds` bounds the predicted time of the trials;
    the default is half of the predicted time of the alternative, on at most `MOST` texts.
    """
    characters, words = documents.of(View()), documents.of(shortlist.WORDS)
    statistics = shortlist.describe(characters, words)
    if np.bincount(target).max() < 2:  # no tested text would have its class in the training part
        kernel = shortlist.first_round(statistics)[0].kernel()
        sentence = f"{spell(kernel)} with C = {C:.3g} was taken without trials: no class has two texts"
        return Choice(kernel, C, sentence, [])
    n_classes = int(target.max()) + 1
    allowed = max(ANYHOW, SHARE * alternative(characters, n_classes)) if seconds is None else seconds
    most = _affordable(characters, n_classes, statistics, allowed)
    most = most if seconds is not None else min(most, max(MOST, n_classes * 2 * FOLDS))
    order = _content_order(characters, target, weight)
    rows = order[_subset(target[order], most)]
    folds = _folds(target[rows])
    some = documents.take(rows).with_classes(target[rows])
    trials = Trials(TrialExamples(some, target[rows], n_classes, weight[rows], folds), device)
    results = _rounds(trials, statistics, C, progress)
    best = _best(results)
    return Choice(best.recipe.kernel(), best.C, _sentence(results, best, len(rows), len(target)), results)


def alternative(characters: Documents, n_classes: int) -> float:
    """Rough prediction of the seconds that TF-IDF with a linear machine takes."""
    symbols = float(characters.lengths.sum())
    machines = 1 if n_classes == 2 else n_classes
    return symbols * (VECTORISING + 2 * FITTING * machines)


def _affordable(characters: Documents, n_classes: int, statistics: TextStatistics, allowed: float) -> int:
    """Number of texts for trials within the allowed time."""
    columns = 1 if n_classes == 2 else n_classes
    n_trials = (5 if statistics.has_words else 3) + len(FACTORS)
    per_text = statistics.characters * ENTRIES * FOLDS * n_trials * (READING + COLUMN * columns)
    return max(FEWEST, n_classes * 2 * FOLDS, int(allowed / max(per_text, 1e-12)))


def _rounds(
    trials: Trials, statistics: TextStatistics, C: float, progress: StageProgress | None
) -> list[Trial]:
    """Run the rounds of trials, each around the best result so far."""
    step = of_stage(progress, "choose")
    first = shortlist.first_round(statistics)
    results = trials.run(first, [C], part(step, 0, len(first), MOST_TRIED))
    for next_round in (shortlist.second_round, shortlist.third_round):
        recipes = next_round(statistics, _best(results).recipe)
        results += trials.run(recipes, [C], part(step, len(results), len(recipes), MOST_TRIED))
    rest = part(step, len(results), MOST_TRIED - len(results), MOST_TRIED)
    return results + trials.run([_best(results).recipe], [C * factor for factor in FACTORS], rest)


def _best(results: Sequence[Trial]) -> Trial:
    """The most accurate trial; among equals the first, which has the simplest kernel."""
    return max(results, key=lambda trial: trial.accuracy)


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
    first = trials[0]
    gain = 100 * (best.accuracy - first.accuracy)
    simple = f"{spell(first.recipe.kernel())} with C = {first.C:.3g}"
    against = "" if best is first else f", {gain:.1f} points more than {simple}"
    return (
        f"{spell(best.recipe.kernel())} with C = {best.C:.3g} was chosen in {len(trials)} trials: "
        f"{100 * best.accuracy:.1f} % right in {FOLDS}-fold cross-validation on {texts}{against}"
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
