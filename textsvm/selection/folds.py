"""Which documents are trained on and which tested on: scikit-learn's splitters, checked before any work."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textsvm.errors import InputError
from textsvm.machines.base import Fold
from textsvm.machines.targets import Target
from textsvm.selection.rare import NumberedFolds

__all__ = ["Fold", "as_groups", "make_folds"]


def make_folds(
    cv: Any,
    target: Target,
    groups: ArrayLike | None = None,
    repeats: int = 1,
    random_state: int | None = 0,
) -> list[Fold]:
    """Split documents into training and test parts.

    Parameters
    ----------
    cv : int, scikit-learn splitter, or sequence of (train, test) index pairs
        A number of folds means shuffled ones: stratified by class (regression and several labels a document:
        not), and with `groups` no group on both sides. Classes of too few documents are then tested in fewer
        folds, or (of one document) in none, and a `RareClassWarning` says so.
    target : Target
        Of all n documents.
    groups : array-like, shape (n,), optional
        Documents of one group (one author, one thread) stay together.
    repeats : int
        Times that a number of folds is made, each time shuffled anew.
    random_state : int, optional
        Seed of the shuffling; None is another one each time.

    Returns
    -------
    list of (train, test), int64 arrays

    Raises
    ------
    InputError
        If folds cannot be made, a training part of a given splitter lacks a class, or indices are no good.
    """
    n = len(target.values)
    numbers = None if groups is None else as_groups(groups, n)
    if isinstance(repeats, bool) or not isinstance(repeats, int | np.integer) or repeats < 1:
        raise InputError(f"repeats={repeats!r} must be a whole number of at least 1")
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        seeds = [None if random_state is None else random_state + r for r in range(repeats)]
        folds = _numbered(int(cv), target, numbers, seeds)
    elif repeats > 1:
        raise InputError("repeats needs a number of folds; repeat a splitter with RepeatedKFold or its like")
    else:
        folds = _split(cv, target, numbers)
    if not folds:
        raise InputError("there are no folds")
    for number, (train, test) in enumerate(folds):
        if numbers is not None and len(both := np.intersect1d(numbers[train], numbers[test])):
            raise InputError(
                f"fold {number} has documents of {_count(len(both), 'group')} on both sides; give a number "
                "of folds, or a splitter that keeps groups together"
            )
        _check_fold(number, train, test, target)
    return folds


def as_groups(groups: ArrayLike, n: int) -> NDArray[np.int64]:
    """Groups of n documents as numbers from 0.

    Raises
    ------
    InputError
        If there are not n, or one is missing.
    """
    given = np.asarray(groups)
    if given.shape != (n,):
        raise InputError(f"there are {n} documents and groups of shape {given.shape}; give one a document")
    for i, group in enumerate(given.tolist()):
        if group is None or group != group:
            raise InputError(f"the group of document {i} is missing; give it one of its own")
    try:
        return np.unique(given, return_inverse=True)[1].astype(np.int64)
    except TypeError as error:
        raise InputError("groups of different types cannot be sorted; use only strings or numbers") from error


def _numbered(
    k: int, target: Target, groups: NDArray[np.int64] | None, seeds: Iterable[int | None]
) -> list[Fold]:
    made = NumberedFolds(k, target, groups)
    folds = [fold for seed in seeds for fold in made.split(seed)]
    made.warn(stacklevel=4)
    return folds


def _split(splitter: Any, target: Target, groups: NDArray[np.int64] | None) -> list[Fold]:
    n = len(target.values)
    if hasattr(splitter, "split") and not isinstance(splitter, str):
        try:
            pairs = list(splitter.split(np.zeros(n), target.values, groups))
        except ValueError as error:
            raise InputError(f"{splitter} cannot split {n} documents: {_one_line(error)}") from error
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


def _rows(given: ArrayLike, number: int, n: int) -> NDArray[np.int64]:
    rows = np.asarray(given)
    if rows.dtype == bool and rows.shape == (n,):
        rows = np.flatnonzero(rows)
    if rows.ndim != 1 or len(rows) == 0 or rows.dtype.kind not in "iu":
        raise InputError(f"fold {number} has a part that is not a list of at least one index of a document")
    if rows.min() < 0 or rows.max() >= n:
        raise InputError(f"fold {number} has an index outside 0..{n - 1}")
    return rows.astype(np.int64)


def _check_fold(number: int, train: NDArray[np.int64], test: NDArray[np.int64], target: Target) -> None:
    if both := len(np.intersect1d(train, test)):
        raise InputError(f"fold {number} tests on {_count(both, 'document')} that it is trained on")
    if target.classes is None or target.multilabel:
        return
    sizes = np.bincount(target.values[train], minlength=len(target.classes))
    for missing in np.flatnonzero(sizes == 0)[:1]:
        raise InputError(
            f"class {target.classes[missing]!s} is missing from the training part of fold {number}; "
            "give it more documents (or groups), use other folds or leave it out"
        )


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
