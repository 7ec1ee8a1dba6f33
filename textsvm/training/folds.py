"""Folds of training and test documents, checked before any work.

A number of folds means shuffled folds, stratified by class, equal to scikit-learn's folds for the same seed.
Some classes may have too few documents (with groups: too few groups) for that number:

- a class with a single document stays in every training part: it can be learnt and not tested;
- a class with fewer documents than folds is tested in some of them;
- the number of folds is lowered only if no class has enough documents, or half of them too few groups.

A `RareClassWarning` names these classes.

Copies of a text (`textsvm.sources.copies`) are in the same part of every fold: the first copies are split as
if there were no others, which follow them. A `LeakageWarning` says if copies are on both sides of a fold.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from textsvm.arrays import AnyArray, Ints, first_true
from textsvm.errors import InputError, RareClassWarning, plural, warn_user
from textsvm.kernels.base import is_whole
from textsvm.model.settings import Fold
from textsvm.runtime.compiled import use_numba
from textsvm.runtime.parallel import Progress
from textsvm.sources.copies import BUT_FOR, in_lone_groups, merge_groups, n_copies, n_separated
from textsvm.training import leakage
from textsvm.training.grams import PreparedRows
from textsvm.training.targets import SEEDS, Target, check_seed

NAMED = 5  #: Classes that a message names.


@dataclass(frozen=True)
class Splitting:
    """Parameters of the folds; `textsvm.cross_validate` documents them."""

    cv: Any = 5
    groups: ArrayLike | None = None
    repeats: int = 1
    random_state: int | None = 0
    group_duplicates: float | None = None

    def require_number(self, message: str) -> None:
        """Raise InputError if `cv` is a list of folds, which cannot be drawn again."""
        if not isinstance(self.cv, int | np.integer) and not hasattr(self.cv, "split"):
            raise InputError(message)

    def folds(self, target: Target) -> list[Fold]:
        """Folds without regard to near-duplicates, which need a Gram."""
        if self.group_duplicates is None:
            return make_folds(self.cv, target, self.groups, self.repeats, self.random_state)
        leakage.check_bound(self.group_duplicates)
        self.require_number("near-duplicates cannot be kept together in given folds; give a number of folds")
        return replace(self, group_duplicates=None).quietly(target)

    def quietly(self, target: Target) -> list[Fold]:
        """Folds without warnings, for provisional folds or a repeated call."""
        with warnings.catch_warnings(action="ignore", category=RareClassWarning):
            warnings.simplefilter("ignore", leakage.LeakageWarning)
            return self.folds(target)

    def with_duplicates(self, prepared: PreparedRows | None, progress: Progress | None) -> Splitting:
        """Splitting that also keeps near-duplicates together; InputError without a Gram of texts."""
        assert self.group_duplicates is not None
        if prepared is None:
            raise InputError(
                "near-duplicates are looked for in texts, and the kernel compares numbers only; leave out "
                "group_duplicates, or give groups"
            )
        groups = leakage.near_duplicates(prepared.gram, self.group_duplicates, progress)
        return replace(self, groups=groups, group_duplicates=None)


def report_leaks(
    prepared: PreparedRows | None, folds: Sequence[Fold], progress: Progress | None
) -> list[leakage.Leak]:
    """Find near-duplicates across folds and warn about them; none without a Gram of texts."""
    if prepared is None:
        return []
    bound = prepared.kernel.structure.alike
    leaks = leakage.find_leaks(prepared.gram, folds, bound, progress)
    if message := leakage.leakage_message(leaks, bound):
        warn_user(message, leakage.LeakageWarning)
    return leaks


def make_folds(
    cv: Any, target: Target, groups: ArrayLike | None = None, repeats: int = 1, random_state: int | None = 0
) -> list[Fold]:
    """Split documents into training and test parts, as `textsvm.cross_validate` documents; int64 indices.

    A number of folds means shuffled folds, stratified by class (not for regression and several labels per
    document). Documents of the same group, of `target` or `groups`, are never on both sides of a fold, nor
    are copies if that is possible.
    """
    n, copies = len(target.values), target.copies
    numbers = merge_groups(target.groups, None if groups is None else as_groups(groups, n))
    if not is_whole(repeats) or repeats < 1:
        raise InputError(f"repeats={repeats!r} must be a whole number of at least 1")
    if is_whole(cv):
        seeds = [
            None if random_state is None else (check_seed(random_state) + r) % SEEDS for r in range(repeats)
        ]
        try:
            numbered = NumberedFolds(int(cv), target, numbers, copies)
            folds = [fold for seed in seeds for fold in numbered.split(seed)]
        except InputError:
            if copies is None:
                raise
            numbered = NumberedFolds(int(cv), target, numbers)
            folds = [fold for seed in seeds for fold in numbered.split(seed)]
        numbered.warn()
    elif repeats > 1:
        raise InputError("repeats needs a number of folds; repeat a splitter with RepeatedKFold or its like")
    else:
        folds = _split(cv, target, numbers)
    if not folds:
        raise InputError("there are no folds")
    use_numba(40_000 * n * len(folds))  # symbols and entries of the default kernel on short texts
    for number, (train, test) in enumerate(folds):
        if numbers is not None and len(both := np.intersect1d(numbers[train], numbers[test])):
            raise InputError(
                f"fold {number} has documents of {plural(len(both), 'group')} on both sides; give a number "
                "of folds, or a splitter that keeps groups together"
            )
        _check_fold(number, train, test, target)
    if separated := n_separated(copies, folds):
        warn_user(
            f"the folds do not keep copies together: {separated} of {n} documents are tested by machines "
            f"that were trained on a copy (equal {BUT_FOR}), which flatters the result",
            leakage.LeakageWarning,
        )
    return folds


def n_together(copies: Ints | None, folds: Sequence[Fold]) -> int:
    """Number of copies, if all are on the same side of every fold; else 0."""
    return 0 if n_separated(copies, folds) else n_copies(copies)


def as_groups(groups: ArrayLike, n: int) -> Ints:
    """Groups of n documents as numbers from 0; InputError unless there are n, none missing."""
    names = np.asarray(groups)
    if names.shape != (n,):
        raise InputError(f"there are {n} documents and groups of shape {names.shape}; give one a document")
    for i, group in enumerate(names.tolist()):
        if group is None or group != group:
            raise InputError(f"the group of document {i} is missing; give it a group of its own")
    try:
        return np.unique(names, return_inverse=True)[1].astype(np.int64)
    except TypeError as error:
        raise InputError("groups of different types cannot be sorted; use only strings or numbers") from error


def shuffle_split(
    n: int, share: float, seed: int, labels: Sequence[Any] | None = None
) -> tuple[list[int], list[int]]:
    """Draw a test part of a share of n documents; ascending indices of the training and the test part.

    Equal to scikit-learn's `train_test_split`. With labels it is stratified, and both parts need room for a
    document of each class.
    """
    random, n_test = np.random.RandomState(seed), ceil(share * n)
    if labels is None:
        order = random.permutation(n)
        return sorted(order[n_test:].tolist()), sorted(order[:n_test].tolist())
    codes, sizes = np.unique(labels, return_inverse=True, return_counts=True)[1:]
    in_training = _stratified_sizes(sizes, n - n_test, random)
    _stratified_sizes(sizes - in_training, n_test, random)  # all the rest; only consumes random numbers
    members = np.split(np.argsort(codes, kind="stable"), np.cumsum(sizes)[:-1])
    train, test = [], []
    for rows, size in zip(members, in_training.tolist(), strict=True):
        rows = rows[random.permutation(len(rows))]
        train += rows[:size].tolist()
        test += rows[size:].tolist()
    return sorted(train), sorted(test)


def _stratified_sizes(sizes: Ints, total: int, random: np.random.RandomState) -> Ints:
    """Members of each class among `total` draws: proportional, ties of the remainders drawn at random."""
    exact = sizes / sizes.sum() * total
    drawn = np.floor(exact)
    missing = int(total - drawn.sum())
    for remainder in np.unique(exact - drawn)[::-1] if missing else ():
        tied = np.flatnonzero(exact - np.floor(exact) == remainder)
        more = min(len(tied), missing)
        drawn[random.choice(tied, more, replace=False)] += 1
        missing -= more
        if not missing:
            break
    return drawn.astype(np.int64)


class NumberedFolds:
    """k shuffled folds, stratified by class, with every class in every training part.

    Groups, numbered from 0, and copies stay together. Raises InputError if two folds are impossible, or fewer
    than two classes could be tested.
    """

    def __init__(self, k: int, target: Target, groups: Ints | None, copies: Ints | None = None) -> None:
        if k < 2:
            raise InputError(f"cv={k} folds are too few; there must be at least 2")
        self.requested, self.target, self.grouped = k, target, groups is not None
        groups = merge_groups(groups, copies)
        self.unit = "document" if copies is None else "text"  #: What a message counts
        if self.grouped:
            self.unit = "group"
        #: Classes to stratify by: none for numbers and for several labels per document.
        self.classes = None if target.multilabel else target.classes
        self.groups = np.arange(len(target.values)) if groups is None else groups
        #: Documents that stay in every training part, and the rare classes that require it.
        self.fixed, self.rare = np.zeros(len(self.groups), bool), set[int]()
        if self.classes is not None:
            self.fixed, lone = in_lone_groups(self.groups, target.values)
            self.rare.update(lone.tolist())
        self.k = self._most()

    def split(self, seed: int | None) -> list[Fold]:
        """Draw the folds; None is another seed each time."""
        while True:
            rows = np.flatnonzero(~self.fixed)
            tests = [rows[test] for test in self._tests(self.target.values[rows], self.groups[rows], seed)]
            everyone = np.arange(len(self.target.values))
            folds = [(np.setdiff1d(everyone, test), test) for test in tests]
            if (lost := self._lost(folds)) is None:
                return folds
            # All groups of a class are in the same test part: keep the smallest in training from now on.
            self.rare.add(lost)
            groups, sizes = np.unique(self.groups[self.target.values == lost]), np.bincount(self.groups)
            self.fixed |= self.groups == groups[sizes[groups].argmin()]
            self.k = self._most()

    def _tests(self, values: AnyArray, groups: Ints, seed: int | None) -> list[Ints]:
        """Ascending indices of each test part."""
        if self.grouped:
            from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

            splitter = GroupKFold if self.classes is None else StratifiedGroupKFold
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # about rare classes; `warn` says more
                pairs = splitter(self.k, shuffle=True, random_state=seed).split(values, values, groups)
                return [test for _, test in pairs]
        # The first document of each group is split, and the others follow it.
        _, first, group = np.unique(groups, return_index=True, return_inverse=True)
        fold = np.empty(len(first), np.int64)
        order = np.argsort(first)
        fold[order] = self._folds_of(values[first[order]], seed)
        return [np.flatnonzero(fold[group] == i) for i in range(self.k)]

    def _folds_of(self, values: AnyArray, seed: int | None) -> Ints:
        """Fold that tests each document, stratified by class."""
        shuffle: Callable[..., None] = (np.random if seed is None else np.random.RandomState(seed)).shuffle
        fold = np.empty(len(values), np.int64)
        if self.classes is None:
            order = np.arange(len(values))
            shuffle(order)
            for number, test in enumerate(np.array_split(order, self.k)):
                fold[test] = number
            return fold
        _, first, codes = np.unique(values, return_index=True, return_inverse=True)
        codes = np.argsort(np.argsort(first))[codes]  # classes by their first document
        ordered = np.sort(codes)
        sizes = np.array([np.bincount(ordered[i :: self.k], minlength=len(first)) for i in range(self.k)])
        for a in range(len(first)):
            of_class = np.arange(self.k).repeat(sizes[:, a])
            shuffle(of_class)
            fold[codes == a] = of_class
        return fold

    def warn(self) -> None:
        """Warn about classes that are not tested in every fold."""
        notes = []
        if self.k < self.requested:
            notes.append(f"{self.k} folds are made and not {self.requested}: too few {self.unit}s for more")
        if self.fixed.any():
            names = self._named(sorted(self.rare))
            subject = f"classes of a single document ({names})"
            if self.unit != "document":
                count = plural(int(self.fixed.sum()), "document")
                subject = f"{count} in the {self.unit}s of classes that have too few {self.unit}s ({names})"
            notes.append(f"{subject} are trained on in every fold and never tested")
        sizes = np.zeros(0, np.int64) if self.classes is None else self._sizes(~self.fixed)
        if len(few := np.flatnonzero((sizes > 0) & (sizes < self.k))):
            classes = f"classes of fewer documents ({self._named(few)})"
            notes.append(f"not all of the {self.k} folds test {classes}")
        if notes:
            warn_user("; ".join(notes), RareClassWarning)

    def _most(self) -> int:
        """Number of folds: as requested, or as many as possible."""
        free = ~self.fixed
        possible = len(np.unique(self.groups[free]))
        if self.grouped and len(np.unique(self.groups)) == 1:
            raise InputError("all documents are in one group, and no fold may part it")
        if self.classes is not None:
            sizes = self._sizes(free)
            if (sizes > 0).sum() < 2:
                raise InputError(self._refusal(sizes))
            possible = min(possible, int(sizes.max()))
            if self.target.groups is not None:
                # If a part tested more groups of a class than of others, the class would seem too hard.
                pairs = np.unique(np.stack([self.target.values[free], self.groups[free]]), axis=1)
                counts = np.unique(pairs[0], return_counts=True)[1]
                possible = min(possible, max(2, int(np.quantile(counts, 0.5, method="lower"))))
        if possible < 2:
            raise InputError(f"no class has documents in two {self.unit}s that could be tested in turn")
        return min(self.requested, possible)

    def _refusal(self, tested: Ints) -> str:
        sizes, classes = self._sizes(), self.classes
        assert classes is not None
        smallest = int(np.where(tested > 0, len(self.groups) + 1, sizes).argmin())
        size = "in one group only" if self.grouped else plural(int(sizes[smallest]), "document")
        others = f"only class {classes[tested.argmax()]!s}" if tested.any() else "no class"
        return (
            f"class {classes[smallest]!s} has {'documents ' if self.grouped else ''}{size} and there are "
            f"{self.requested} folds: {others} could be tested; give it more documents, or leave it out"
        )

    def _lost(self, folds: Sequence[Fold]) -> int | None:
        """Code of a class that a training part lacks."""
        if self.classes is None:
            return None
        missing = [a for train, _ in folds for a in np.flatnonzero(self._sizes(train) == 0)[:1].tolist()]
        return missing[0] if missing else None

    def _sizes(self, rows: Any = slice(None)) -> Ints:
        """Number of documents of each class, among some or all."""
        assert self.classes is not None
        return np.bincount(self.target.values[rows], minlength=len(self.classes))

    def _named(self, codes: Iterable[int]) -> str:
        return "" if self.classes is None else quoted_names([self.classes[a] for a in codes])


def quoted_names(labels: Sequence[object]) -> str:
    """The first few labels in quotes."""
    more = f" and {len(labels) - NAMED} more" if len(labels) > NAMED else ""
    return ", ".join(f"'{label}'" for label in labels[:NAMED]) + more


def _split(splitter: Any, target: Target, groups: Ints | None) -> list[Fold]:
    """Folds of a splitter or a list of pairs."""
    n = len(target.values)
    if hasattr(splitter, "split") and not isinstance(splitter, str):
        try:
            pairs = list(splitter.split(np.zeros(n), target.values, groups))
        except ValueError as error:
            reason = " ".join(str(error).split())
            raise InputError(f"{splitter} cannot split {n} documents: {reason}") from error
    elif isinstance(splitter, Iterable) and not isinstance(splitter, str):
        pairs = list(splitter)
    else:
        raise InputError(f"cv={splitter!r} is not a number of folds, a splitter or a list of (train, test)")
    folds = []
    for number, pair in enumerate(pairs):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InputError(f"fold {number} is not a pair of training and test indices")
        train, test = (_rows(rows, number, n) for rows in pair)
        folds.append((train, test))
    return folds


def _rows(part: ArrayLike, number: int, n: int) -> Ints:
    """Check the indices of a part of a fold."""
    rows = np.asarray(part)
    if rows.dtype == bool and rows.shape == (n,):
        rows = np.flatnonzero(rows)
    if rows.ndim != 1 or len(rows) == 0 or rows.dtype.kind not in "iu":
        raise InputError(f"fold {number} has a part that is not a list of at least one index of a document")
    if rows.min() < 0 or rows.max() >= n:
        raise InputError(f"fold {number} has an index outside 0..{n - 1}")
    return rows.astype(np.int64)


def _check_fold(number: int, train: Ints, test: Ints, target: Target) -> None:
    if both := len(np.intersect1d(train, test)):
        raise InputError(f"fold {number} tests on {plural(both, 'document')} that it is trained on")
    if target.classes is None or target.multilabel:
        return
    sizes = np.bincount(target.values[train], minlength=len(target.classes))
    if (missing := first_true(sizes == 0)) is not None:
        raise InputError(
            f"class {target.classes[missing]!s} is missing from the training part of fold {number}; "
            "give it more documents (or groups), use other folds or leave it out"
        )
