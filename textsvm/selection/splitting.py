"""How documents are to be split, and which of them a split must not part."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from textsvm.errors import InputError
from textsvm.machines.targets import Target
from textsvm.machines.training import Prepared
from textsvm.runtime.parallel import Progress
from textsvm.selection.folds import Fold, as_groups, make_folds
from textsvm.selection.leakage import (
    Leak,
    LeakageWarning,
    check_bound,
    find_leaks,
    leakage_message,
    merge_groups,
    near_duplicates,
)
from textsvm.selection.rare import RareClassWarning


@dataclass(frozen=True)
class Splitting:
    """The folds that are wished for; see `textsvm.selection.cross_validation.cross_validate`."""

    cv: Any = 5
    groups: ArrayLike | None = None
    repeats: int = 1
    random_state: int | None = 0
    group_duplicates: float | None = None

    def require_number(self, why: str) -> None:
        """Raise InputError if the folds are given, and so cannot be made anew."""
        if not isinstance(self.cv, int | np.integer) and not hasattr(self.cv, "split"):
            raise InputError(why)

    def folds(self, target: Target) -> list[Fold]:
        """The folds, as far as near-duplicates are known.

        Raises
        ------
        InputError
            If they cannot be made.
        """
        if self.group_duplicates is None:
            return make_folds(self.cv, target, self.groups, self.repeats, self.random_state)
        check_bound(self.group_duplicates)
        self.require_number("near-duplicates cannot be kept together in given folds; give a number of folds")
        return replace(self, group_duplicates=None).quietly(target)

    def quietly(self, target: Target) -> list[Fold]:
        """The same without a word on rare classes: other folds will be made, or have been told of."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RareClassWarning)
            return self.folds(target)

    def with_duplicates(self, prepared: Prepared | None, progress: Progress | None) -> Splitting:
        """The same, with near-duplicates and what is grouped already in one group.

        Raises
        ------
        InputError
            If there are no rows to find them by, the kernel comparing no texts.
        """
        assert self.group_duplicates is not None
        if prepared is None:
            raise InputError(
                "near-duplicates are looked for in texts, and the kernel compares numbers alone, of which "
                "many may be equal; leave group_duplicates out, or give groups"
            )
        groups = near_duplicates(prepared.gram, self.group_duplicates, progress)
        if self.groups is not None:
            groups = merge_groups(as_groups(self.groups, prepared.gram.n), groups)
        return replace(self, groups=groups, group_duplicates=None)


def report_leaks(
    prepared: Prepared | None, folds: Sequence[Fold], progress: Progress | None, stacklevel: int = 3
) -> list[Leak]:
    """Look for near-duplicates across folds, and warn of them; without rows to tell them by, for none."""
    if prepared is None:
        return []
    bound = prepared.kernel.alike
    leaks = find_leaks(prepared.gram, folds, bound, progress)
    if message := leakage_message(leaks, bound):
        warnings.warn(message, LeakageWarning, stacklevel=stacklevel)
    return leaks
