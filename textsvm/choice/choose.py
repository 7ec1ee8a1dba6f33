"""Choose the kernel and C of a classifier by cross-validation within a time budget.

The candidates differ from the default in the weight of the plain kernel and in C. Their features are counted
once, for as many texts as the budget allows. The smallest log loss of the held-out decision values wins,
after the values of each trial are scaled to minimise it. Log loss separates candidates of equal accuracy.
`weigh_parts` chooses the columns of a table, and the weights of other kernels, before, also without a budget.

The time of the trials is predicted from counts of operations, not measured, and texts and folds are drawn in
the order of digests of the texts: the same texts get the same kernel on any computer and in any order. Only
these weights may depend on the rounding of a BLAS, where two weights have nearly equal gains.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from textsvm.arrays import Floats, Floats32, Ints
from textsvm.choice.candidates import Candidate
from textsvm.kernels.base import Kernel
from textsvm.kernels.contract import fitted_rows
from textsvm.kernels.spelling import spell
from textsvm.linalg.rows import FeatureRows, side_by_side
from textsvm.runtime import device as devices
from textsvm.runtime.compiled import scipy
from textsvm.runtime.parallel import Progress, StageProgress, of_stage, one_blas_thread, run
from textsvm.solvers.columns import solve_columns
from textsvm.solvers.dual import MOST_SLACK, loss_diagonal
from textsvm.sources.copies import in_lone_groups, merge_groups, n_copies
from textsvm.text.documents import Documents, MultiView, View

ENTRIES = 5.0  #: Entries of the rows per symbol
READING = 2.0e-7  #: Seconds per entry for a fold of a trial
COLUMN = 1.4e-8  #: Seconds per entry and column, in addition
#: Largest violation of the optimality conditions in a trial: already at a tolerance far above 1e-3 the
#: decisions stay the same.
TOLERANCE = 0.1
FOLDS = 3
FACTORS = (1.0, 2 / 3, 2.0)  #: Values of C of a trial, as multiples of a candidate's C.
#: Kernel value from which texts are near-copies, such as versions of an article, which share a fold.
COPY_SIMILARITY = 0.7
#: Smallest time limit of the trials and of the search for near-copies, in seconds.
MIN_SECONDS = 1.0
COMPARED = 6e8  #: Search for near-copies: symbols, times the texts that each is compared with, a second
MOST_COMPARED = 10_000  #: Search for near-copies: most texts
FEWEST = 600  #: Fewest texts of the trials
WEIGHTS = (0.15, 0.3, 0.5)  #: Weights of a kernel beside the others that are compared
MOST_WEIGHED = 500  #: Maximum number of texts on which these weights are compared
RIDGE = 0.5  #: Ridge of the regressions by which they are compared
ROUNDING = 1e-5  #: Above the gains of equal kernels, which are of float32 rounding (about 1e-7)
FEW_LABELS = 20  #: Texts of a class below which errors of texts left out one by one are far too high
FEW_WEIGHED = 50  #: Number of texts below which a standard error counts in proportion to their number
GroupPair: TypeAlias = tuple[Ints | None, Ints | None]  #: Groups of the user, and of copies
SCALES = (-3.0, 4.0)  #: Smallest and largest logarithm of the scale of decision values.


@dataclass(frozen=True)
class Choice:
    """The chosen kernel, C and loss, all trials, and the results of the chosen trial."""

    kernel: Kernel
    C: float
    loss: str
    description: str  #: Kernel and C in a sentence
    trials: Sequence[Trial] = ()
    accuracy: float | None = None  #: Held-out accuracy
    decision: Floats | None = None  #: Held-out decision values of all examples, if it tested all


def choose(
    default: Candidate,
    documents: Documents | MultiView,
    groups: GroupPair,
    weight: Floats,
    C: float,
    seconds: float,
    progress: StageProgress | None = None,
) -> Choice:
    """Choose a kernel and C by cross-validation.

    `documents` have the views of the default's kernel and classes, `groups` stay in one fold, and `weight`
    are factors of C. `C` multiplies the values of C of the candidates. `seconds`, at least
    `MIN_SECONDS`, bounds the predicted time of the trials; if it is too short for `FEWEST` texts, the default
    is chosen without trials. If folds that keep copies together are impossible, the choice has no accuracy.
    """
    characters = default.characters(documents)
    assert characters.classes is not None
    target = characters.classes
    if np.bincount(target).max() < 2:  # no tested text would have its class in the training part
        return default_choice(default, C)
    n_classes = int(target.max()) + 1
    candidates = default.alternatives()
    order = _content_order(characters, target, weight)
    rows = order[_subset(target[order], _affordable(characters, n_classes, len(candidates), seconds))]
    needed = len(rows) * _seconds_per_text(characters, n_classes, len(candidates))
    if needed > max(seconds, MIN_SECONDS):
        return default_choice(
            default,
            C,
            f", without trials: those of {len(rows):,} texts are predicted to take {needed:,.0f} s, longer "
            "than the budget",
        )
    sample = documents.take(rows).with_classes(target[rows])
    of_user, copies = (None if numbers is None else numbers[rows] for numbers in groups)
    near = near_copies(sample.of(View(column=default.column)), seconds, of_user)
    fold = _folds(target[rows], merge_groups(near, copies), of_user is not None)
    # Each fold tests some examples, and leaves two classes to learn from.
    tests = ((fold == k).any() and len(np.unique(target[rows][fold != k])) > 1 for k in range(FOLDS))
    honest = (copies is None and of_user is None) or all(tests)
    if not honest:
        fold = _folds(target[rows], of_user, True)
    if (fold < 0).all():
        return default_choice(default, C, ", without trials: no class has two groups")
    trials = Trials(sample, target[rows], n_classes, weight[rows], fold).run(
        candidates, [C * factor for factor in FACTORS], of_stage(progress, "choose")
    )
    best = min(trials, key=lambda trial: trial.loss)  # among equals the first
    texts = f"{len(rows):,}{f' of {len(target):,}' * (len(rows) < len(target))} texts"
    against = "" if best is trials[0] else f", the default {100 * trials[0].accuracy:.1f} %"
    sentence = (
        f"{spell(best.candidate.kernel())} with C = {best.C:.3g}: the smallest log loss of {len(trials)} "
        f"trials, {100 * best.accuracy:.1f} % right in {FOLDS}-fold cross-validation on {texts}{against}"
    )
    if of_user is not None:
        sentence += "; each group is in one fold"
    if n := n_copies(copies):
        sentence += f"; {n:,} copies of texts are {'' if honest else 'not '}kept in one fold with them"
    accuracy, decision = (best.accuracy, best.values) if honest else (None, None)
    if decision is not None:
        decision = np.squeeze(decision[np.argsort(rows)]) if len(rows) == len(target) else None
    return Choice(best.candidate.kernel(), best.C, default.loss, sentence, trials, accuracy, decision)


def default_choice(default: Candidate, C: float, remark: str = "") -> Choice:
    """The default without trials; the remark ends the sentence about it."""
    kernel = default.kernel()
    return Choice(kernel, default.C * C, default.loss, default.description(C, kernel) + remark)


@dataclass(frozen=True)
class Weighing:
    """Examples on which the weights of kernels are chosen, by leave-one-out values of ridge regression.

    These have a closed form, so a Gram matrix of each kernel serves all weights. Log odds are left out
    because they are learnt from the label of the left-out text.
    """

    rows: Ints  #: Examples of the training; none if they are too few
    classes: Ints
    groups: Ints | None  #: Of the user: left out as a whole
    encoded: Callable[[Kernel], Any]  #: These examples for a kernel

    @classmethod
    def of(
        cls, documents: Documents, groups: GroupPair, weight: Floats, encode: Callable[[Ints, Kernel], Any]
    ) -> Weighing:
        """At most `MOST_WEIGHED` of the texts, of copies a single one.

        A class needs two texts, and two groups.
        """
        assert documents.classes is not None
        order = _content_order(documents, documents.classes, weight)
        order = order[weight[order] > 0]
        of_user, copies = groups
        if copies is not None:
            order = order[np.sort(np.unique(copies[order], return_index=True)[1])]
        if of_user is not None:
            order = order[~in_lone_groups(of_user[order], documents.classes[order])[0]]
        rows = order[_weighed(documents.classes[order])]
        of_user = None if of_user is None else of_user[rows]
        return cls(rows, documents.classes[rows], of_user, lambda kernel: encode(rows, kernel))

    def gram(self, kernel: Kernel) -> Floats32:
        """The kernel matrix of the examples."""
        kernel = without_odds(kernel)
        read = kernel.structure.read(self.encoded(kernel))
        return kernel.fit(read).rows(read, devices.select("cpu")).gram()

    def joined(
        self, default: Candidate, of: Callable[[tuple[str, ...]], Candidate]
    ) -> tuple[Candidate, Floats32]:
        """The default for the joined texts of columns that do not lower the margins, and its matrix.

        `of` makes the default for some of the columns.
        """
        plain = default.plain if default.columns else 0.0  # the weights of other kernels hardly depend on it
        gram = self.gram(replace(default, parts=(), plain=plain).kernel())
        for name in default.columns[1:] and default.columns:
            if not (columns := tuple(other for other in default.columns if other != name)):
                break
            fewer = replace(of(columns), parts=default.parts)
            without = self.gram(replace(fewer, parts=()).kernel())
            if _gain(self.margins(gram), self.margins(without)) > 0:
                default, gram = fewer, without
        return default, gram

    def weights(self, grams: Sequence[Floats32]) -> tuple[list[float], list[tuple[int, float]]]:
        """Weights of kernel matrices beside the first, and the errors after each step: (matrix, errors).

        In each step the matrix and the weight with the largest gain in a smooth loss of the left-out margins,
        less its standard error, are taken: weights are 0 unless a kernel clearly helps.
        """
        total, weights, margins = grams[0], [0.0] * len(grams), self.margins(grams[0])
        steps = [(0, float(np.mean(margins <= 0)))]
        while rest := [k for k in range(1, len(grams)) if not weights[k]]:
            tries = [(k, w, self.margins((1 - w) * total + w * grams[k])) for k in rest for w in WEIGHTS]
            k, weight, best = max(tries, key=lambda step: _gain(margins, step[2]))
            if _gain(margins, best) <= 0:
                break
            weights = [(1 - weight) * own for own in weights]
            weights[k], total, margins = weight, (1 - weight) * total + weight * grams[k], best
            steps.append((k, float(np.mean(margins <= 0))))
        return weights[1:], steps

    def margins(self, gram: Floats32) -> Floats:
        """Margin of the true class of each text if its group is left out, shape (n,)."""
        is_class = self.classes[:, None] == np.unique(self.classes)
        signs = np.where(is_class, 1.0, -1.0).astype(gram.dtype)
        with one_blas_thread():  # the same bits with any number of threads
            potrf, trtri = scipy.linalg.get_lapack_funcs(("potrf", "trtri"), [gram])
            lower, _ = potrf(gram + 1 + RIDGE * np.eye(len(gram), dtype=gram.dtype), lower=1)
            root, _ = trtri(lower, lower=1)  # root.T @ root is the inverse
            coef = root.T @ (root @ signs)
            values = signs - coef / np.square(root).sum(axis=0)[:, None]
            for group in np.unique(self.groups) if self.groups is not None else ():
                left = np.flatnonzero(self.groups == group)
                block = root[:, left].T @ root[:, left]
                values[left] = signs[left] - scipy.linalg.solve(block, coef[left], assume_a="pos")
        return np.asarray(values[is_class] - np.where(is_class, -np.inf, values).max(axis=1))


def without_odds(kernel: Kernel) -> Kernel:
    """A new kernel that does not learn from labels."""
    kernel = kernel.structure.resolved()
    for leaf in kernel.structure.leaves:
        if "odds" in leaf.get_params():
            leaf.set_params(odds=False)
    return kernel


def weigh_parts(
    default: Candidate, weighing: Weighing, names: Sequence[str], of: Callable[[tuple[str, ...]], Candidate]
) -> tuple[Candidate, str]:
    """The default with weights of its parts, which have names, and a sentence about the weights.

    `of` makes the default for columns of a table.
    """
    kernels, errors = [kernel for _, kernel in default.parts], "too few different texts to choose it"
    reason = ""
    if n := len(weighing.rows):
        default, gram = weighing.joined(default, of)
        weights, steps = weighing.weights([gram, *map(weighing.gram, kernels)])
        default = replace(default, parts=tuple(zip(weights, kernels, strict=True)))
        reason = f": the largest gain in left-out margins less its standard error, on {n:,} texts"
        shares = (f"{f'with {names[k - 1]} ' if k else ''}{error:.1%}" for k, error in steps)
        few = ", too high with few texts a class:" * (n < FEW_LABELS * len(np.unique(weighing.classes)))
        errors = f"errors{few} {', '.join(shares)}"
    joined = f"the joined text of {' + '.join(default.columns)}; beside it " if default.columns else ""
    pairs = zip(names, default.parts, strict=True)
    weights_text = ", ".join(f"{name} with weight {weight:.2g}" for name, (weight, _) in pairs)
    return default, f"; {joined}{weights_text}{reason} ({errors})"


def _weighed(classes: Ints) -> Ints:
    """At most `MOST_WEIGHED` examples, two or more of each of their classes; none of a single class."""
    several = np.flatnonzero(np.bincount(classes) > 1)[: MOST_WEIGHED // 2]
    rows = np.flatnonzero(np.isin(classes, several))
    return rows[_subset(classes[rows], MOST_WEIGHED, 2)] if len(several) > 1 else rows[:0]


def _gain(margins: Floats, others: Floats) -> float:
    """Lower bound of the gain of other margins in a smooth loss: the mean less its error, and rounding."""
    losses = [scipy.special.expit(-own / max(np.abs(own).mean(), 1e-12)) for own in (margins, others)]
    gain = losses[0] - losses[1]
    errors = min(len(gain) / FEW_WEIGHED, 1)
    return float(gain.mean() - errors * gain.std() / np.sqrt(len(gain))) - ROUNDING


def _affordable(characters: Documents, n_classes: int, n_candidates: int, seconds: float) -> int:
    """Number of texts for trials within the allowed time, and at least `FEWEST`."""
    per_text = _seconds_per_text(characters, n_classes, n_candidates)
    return max(FEWEST, n_classes * 2 * FOLDS, int(seconds / max(per_text, 1e-12)))


def _seconds_per_text(characters: Documents, n_classes: int, n_candidates: int) -> float:
    columns = len(FACTORS) * (1 if n_classes == 2 else n_classes)
    entries = float(np.mean(characters.lengths)) * ENTRIES
    return entries * FOLDS * n_candidates * (READING + COLUMN * columns)


def _content_order(characters: Documents, target: Ints, weight: Floats) -> Ints:
    """An order of the examples that depends on their texts, classes and weights, not on their positions."""
    texts = (characters.codes[start:stop].tobytes() for start, stop in pairwise(characters.offsets.tolist()))
    digests = b"".join(blake2b(text, digest_size=8).digest() for text in texts)
    return np.lexsort((weight, target, np.frombuffer(digests, np.uint64)))


def _subset(target: Ints, most: int, least: int = 1) -> Ints:
    """At most `most` examples, stratified by class, in their order; `least` of each class come first."""
    n = len(target)
    if n <= most:
        return np.arange(n)
    order = np.random.default_rng(0).permutation(n)
    place = np.empty(n)
    for members in _by_class(target[order]):
        place[members] = np.arange(len(members)) / len(members)
        place[members[:least]] = 0
    return np.sort(order[np.argsort(place, kind="stable")[:most]])


def near_copies(documents: Documents | MultiView, seconds: float, groups: Ints | None = None) -> Ints | None:
    """The group of each text; near-copies have the same, and so have texts of a group of `groups`.

    `groups` if there are too many texts, comparing is predicted to take too long, or a group has more than a
    sixth of the texts.
    """
    if len(documents) > MOST_COMPARED:
        return groups
    kernel = Candidate(plain=1.0).kernel()
    read = kernel.structure.read(documents)
    if len(read) * float(read.lengths.sum()) > COMPARED * max(seconds, MIN_SECONDS):
        return groups
    kernel.fit(read)
    alike = scipy.sparse.csr_array(kernel.rows(read, devices.select("cpu")).gram() >= COPY_SIMILARITY)
    near = scipy.sparse.csgraph.connected_components(alike, directed=False)[1].astype(np.int64)
    near = np.asarray(merge_groups(groups, near))
    return near if np.bincount(near).max() * 2 * FOLDS <= len(near) else groups


def _folds(target: Ints, groups: Ints | None = None, of_user: bool = False) -> Ints:
    """The fold in which each example is tested, stratified by class; examples of a group share a fold.

    With groups of the user, examples in the only group of a class are in no fold (-1): all trials learn them.
    """
    if groups is not None:
        _, first, group = np.unique(groups, return_index=True, return_inverse=True)
        fold, lone = np.full(len(first), -1), of_user & in_lone_groups(groups, target)[0][first]
        fold[~lone] = _folds(target[first[~lone]])
        return fold[group]
    order = np.random.default_rng(0).permutation(len(target))
    fold = np.empty(len(target), np.int64)
    dealt = 0
    for members in _by_class(target[order]):
        fold[order[members]] = (dealt + np.arange(len(members))) % FOLDS
        dealt += len(members)
    return fold


def _by_class(target: Ints) -> Sequence[Ints]:
    return np.split(np.argsort(target, kind="stable"), np.cumsum(np.bincount(target))[:-1])


@dataclass(frozen=True)
class Trial:
    """A kernel with a C, judged on all examples, each by a machine that was not trained on it."""

    candidate: Candidate
    C: float
    accuracy: float
    loss: float  #: Mean log loss at the best scale of the decision values
    values: Floats | None = None  #: Decision values of all examples, shape (n, width); NaN without a test


@dataclass(frozen=True)
class Trials:
    """Trials on the same examples, whose features are counted once."""

    documents: Documents | MultiView
    target: Ints  #: shape (n,): Classes, from 0
    n_classes: int
    weight: Floats  #: shape (n,): Factors of C
    fold: Ints  #: shape (n,): The fold in which each example is tested; -1 for none
    _counted: dict[Hashable, Any] = field(default_factory=dict, init=False)

    def run(
        self, candidates: Sequence[Candidate], factors: Sequence[float], progress: Progress | None = None
    ) -> list[Trial]:
        """Try candidates with their C times each factor; `progress` counts their folds."""
        width = 1 if self.n_classes == 2 else self.n_classes
        values = np.full((len(candidates), len(factors), len(self.target), width), np.nan, np.float32)
        tested = (self.fold >= 0) & (self.weight > 0)
        kernels = [candidate.kernel() for candidate in candidates]
        for kernel in kernels:
            self.count(kernel)

        def run_fold(task: tuple[int, int]) -> None:
            k, fold = task
            penalties = [candidates[k].C * factor for factor in factors]
            values[k][:, self.fold == fold] = self.decide(kernels[k], fold, penalties, candidates[k].loss)

        run(run_fold, [(k, fold) for k in range(len(kernels)) for fold in range(FOLDS)], progress=progress)
        return [
            Trial(candidate, candidate.C * factor, *_judge(own[tested], self.target[tested]), own)
            for k, candidate in enumerate(candidates)
            for j, factor in enumerate(factors)
            for own in [values[k, j].astype(float)]
        ]

    def count(self, kernel: Kernel) -> None:
        """Count the features of a kernel that are not counted yet."""
        for leaf in kernel.structure.leaves:
            if leaf.features.key not in self._counted:
                documents = leaf.structure.read(self.documents)
                self._counted[leaf.features.key] = leaf.features.count(documents)

    def rows(self, kernel: Kernel, train: Ints) -> FeatureRows:
        """Rows of all examples, with the weights that a kernel learns from the examples `train`."""
        terms = kernel.structure.terms
        parts = [fitted_rows(copy(term), self._counted, train) for _, term in terms]
        return side_by_side(parts, [weight for weight, _ in terms])

    def decide(self, kernel: Kernel, fold: int, penalties: Sequence[float], loss: str) -> Floats:
        """Decision values of the examples of a fold for each C, shape (number of C, number tested, width).

        The width is 1 with two classes, otherwise the number of classes.
        """
        train, test = np.flatnonzero(self.fold != fold), np.flatnonzero(self.fold == fold)
        classes = np.arange(1 if self.n_classes == 2 else 0, self.n_classes)
        rows = self.rows(kernel, train)
        signs = np.where(self.target[:, None] == classes, 1, -1).astype(np.int8)
        weights, bias = list[Floats32](), list[Floats32]()
        for C in penalties:
            box, rows_with_loss = self.weight * C, rows
            if loss == "squared_hinge":
                rows_with_loss = replace(rows, ridge=rows.ridge + loss_diagonal(box))
                box = box * 2 * MOST_SLACK
            machines = train, signs, box.astype(np.float32)
            solution = solve_columns(rows_with_loss, *machines, TOLERANCE, max_epochs=50)
            weights.append(solution[0])
            bias.append(solution[1])
        values = rows.x.take(test).dot(np.vstack(weights).T.astype(np.float64)) + np.concatenate(bias)
        return values.reshape(len(test), len(penalties), len(classes)).swapaxes(0, 1)


def _judge(values: Floats, target: Ints) -> tuple[float, float]:
    """Accuracy, and log loss at the best scale, of held-out decision values, shape (n, width)."""
    if values.shape[1] == 1:
        values = np.hstack([np.zeros_like(values), values])
    rows = np.arange(len(target))

    def loss(exponent: float) -> float:
        return -float(scipy.special.log_softmax(np.exp(exponent) * values, axis=1)[rows, target].mean())

    best = scipy.optimize.minimize_scalar(loss, bounds=SCALES, method="bounded")
    return float((values.argmax(axis=1) == target).mean()), float(best.fun)
