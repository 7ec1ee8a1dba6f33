"""A number of folds where some classes (or groups) are too few for it.

A class with a single document stays in every training part: it can be learnt and not tested. One with two or
more, and fewer than folds, is tested in some of them. Folds become fewer only where no class has enough
documents. With groups the same is said of groups: a class that only one group has keeps that whole group in
every training part. One `RareClassWarning` says what was done.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.machines.base import Fold
from textsvm.machines.targets import Target

#: Classes that a message names.
NAMED = 5


class RareClassWarning(UserWarning):
    """Some classes have fewer documents than there are folds."""


class NumberedFolds:
    """Shuffled folds, stratified by class, that keep every class in every training part.

    Parameters
    ----------
    k : int
        Folds wished for.
    target : Target
    groups : int64 array, shape (n,), optional
        From 0; no group is on both sides of a fold.

    Raises
    ------
    InputError
        If two folds cannot be made, or less than two classes could be tested.
    """

    def __init__(self, k: int, target: Target, groups: NDArray[np.int64] | None) -> None:
        if k < 2:
            raise InputError(f"cv={k} folds are too few; there must be at least 2")
        self.wished, self.target, self.grouped = k, target, groups is not None
        #: What folds are stratified by: no numbers, and not several labels a document.
        self.classes = None if target.multilabel else target.classes
        n = len(target.values)
        self.groups = np.arange(n) if groups is None else groups
        #: Documents that stay in every training part, and the classes for whose sake.
        self.fixed, self.rare = self._lone()
        self.k = self._most()

    def split(self, seed: int | None) -> list[Fold]:
        """The folds of one shuffling."""
        everyone = np.arange(len(self.target.values))
        while True:
            rows = np.flatnonzero(~self.fixed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of rare classes; `warn` says more
                pairs = list(self._splitter(seed).split(rows, self.target.values[rows], self.groups[rows]))
            folds = [(np.setdiff1d(everyone, rows[test]), rows[test]) for _, test in pairs]
            if (lost := self._lost(folds)) is None:
                return folds
            # Both groups of a class came to one test part: its smaller one is for training from now on.
            self._fix_smallest_group(lost)
            self.k = self._most()

    def warn(self, stacklevel: int = 3) -> None:
        """Say which classes are not tested in every fold, if there are any."""
        if notes := [*self._fewer(), *self._never_tested(), *self._seldom_tested()]:
            warnings.warn("; ".join(notes), RareClassWarning, stacklevel=stacklevel)

    def _lone(self) -> tuple[NDArray[np.bool_], set[int]]:
        """Documents of the groups that are the only one of a class, and such classes."""
        if self.classes is None:
            return np.zeros(len(self.groups), bool), set()
        k = len(self.classes)
        group, label = np.divmod(np.unique(self.groups * k + self.target.values), k)
        lone = np.bincount(label)[label] == 1
        return np.isin(self.groups, group[lone]), set(label[lone].tolist())

    def _most(self) -> int:
        """The folds wished for, or as many as there can be."""
        free = ~self.fixed
        found = len(np.unique(self.groups[free]))
        if self.grouped and len(np.unique(self.groups)) == 1:
            raise InputError("all documents are in one group, and no fold may part it")
        if self.classes is not None:
            sizes = self._sizes(free)
            if (sizes > 0).sum() < 2:
                raise InputError(self._refusal(sizes))
            found = min(found, int(sizes.max()))
        if found < 2:
            what = "group" if self.grouped else "document"
            raise InputError(f"no class has documents in two {what}s that could be tested in turn")
        return min(self.wished, found)

    def _refusal(self, tested: NDArray[np.int64]) -> str:
        sizes, classes = self._sizes(), self.classes
        assert classes is not None
        smallest = int(np.where(tested > 0, len(self.groups) + 1, sizes).argmin())
        of = "in one group only" if self.grouped else _count(int(sizes[smallest]), "document")
        others = f"only class {classes[tested.argmax()]!s}" if tested.any() else "no class"
        return (
            f"class {classes[smallest]!s} has {'documents ' if self.grouped else ''}{of} and there are "
            f"{self.wished} folds: {others} could be tested; give it more documents, or leave it out"
        )

    def _splitter(self, seed: int | None) -> Any:
        from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

        if self.classes is None:
            made = GroupKFold if self.grouped else KFold
        else:
            made = StratifiedGroupKFold if self.grouped else StratifiedKFold
        return made(self.k, shuffle=True, random_state=seed)

    def _lost(self, folds: Sequence[Fold]) -> int | None:
        """A class that a training part lacks."""
        if self.classes is None:
            return None
        for train, _ in folds:
            missing = np.flatnonzero(
                np.bincount(self.target.values[train], minlength=len(self._sizes())) == 0
            )
            if len(missing):
                return int(missing[0])
        return None

    def _fix_smallest_group(self, label: int) -> None:
        groups = self.groups[self.target.values == label]
        sizes = np.bincount(self.groups)
        self.rare.add(label)
        self.fixed |= self.groups == min(np.unique(groups), key=lambda group: sizes[group])

    def _sizes(self, rows: Any = slice(None)) -> NDArray[np.int64]:
        """Documents of each class among some of all."""
        assert self.classes is not None
        return np.bincount(self.target.values[rows], minlength=len(self.classes))

    def _fewer(self) -> list[str]:
        if self.k == self.wished:
            return []
        return [f"{self.k} folds are made and not {self.wished}: there are not enough documents for more"]

    def _never_tested(self) -> list[str]:
        if not self.fixed.any():
            return []
        lone = np.array(sorted(self.rare))
        if self.grouped:
            return [
                f"{_count(int(self.fixed.sum()), 'document')} in the groups of classes that have too few "
                f"groups ({self._named(lone)}) are trained on in every fold and never tested"
            ]
        if len(lone) == 1:
            return [
                f"class {self._named(lone)} has 1 document: it is trained on in every fold and never tested"
            ]
        return [
            f"classes {self._named(lone)} have 1 document each: they are trained on in every fold and never "
            "tested"
        ]

    def _seldom_tested(self) -> list[str]:
        if self.classes is None:
            return []
        sizes = self._sizes(~self.fixed)
        few = np.flatnonzero((sizes > 0) & (sizes < self.k))
        if len(few) == 0:
            return []
        if len(few) == 1:
            number = _count(int(sizes[few[0]]), "document")
            return [f"class {self._named(few)} has {number} to test: not all of the {self.k} folds test it"]
        return [
            f"classes {self._named(few)} have fewer documents than folds: not all of the {self.k} test them"
        ]

    def _named(self, numbers: NDArray[np.int64]) -> str:
        assert self.classes is not None
        return names(self.classes[numbers].tolist())


def names(labels: Sequence[Any]) -> str:
    """Some labels in quotes, the first few of them."""
    more = f" and {len(labels) - NAMED} more" if len(labels) > NAMED else ""
    return ", ".join(f"'{label}'" for label in labels[:NAMED]) + more


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"
