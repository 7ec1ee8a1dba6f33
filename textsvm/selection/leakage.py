"""Documents that are nearly the same, found from the Gram; a copy in the training part flatters a test.

Two documents are near-duplicates if their normalised kernel value

    K(s, t) / sqrt(K(s, s) K(t, t))

is at least a bound. Of a kernel on texts and numbers the parts on texts are asked
(`Structure.near_duplicate_kernel`), for equal numbers make no copy. Rows are read a block at a time, where
they live; only the pairs leave it. Groups are the connected components of the graph of all pairs: what has
been found so far is kept as one edge from each document to the first of its component, so a corpus of nothing
but copies takes no more memory than any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from textsvm.errors import InputError
from textsvm.gram.base import Gram
from textsvm.kernels.near import Nearest
from textsvm.machines.base import Fold, KernelMachine
from textsvm.runtime.device import select, to_host
from textsvm.runtime.parallel import Progress
from textsvm.selection.nearest import inverse_roots

#: Of kernels of texts.
BOUND = Nearest.alike
#: Kernel values that are looked at together.
BLOCK = 4 << 20


class LeakageWarning(UserWarning):
    """Documents are tested on whose near-duplicates are trained on."""


@dataclass(frozen=True)
class Leak:
    """What one fold would be trained on and tested on at once.

    Attributes
    ----------
    test, train : int64 arrays, shape (n_leaks,)
        Each test document with a near-duplicate in the training part, and the nearest of these.
    value : float64 array, shape (n_leaks,)
        Normalised kernel value of the two.
    share : float
        Of the fold's test documents.
    """

    test: NDArray[np.int64]
    train: NDArray[np.int64]
    value: NDArray[np.float64]
    share: float

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        pairs = zip(self.test.tolist(), self.train.tolist(), self.value.tolist(), strict=True)
        return {"share": self.share, "pairs": [list(pair) for pair in pairs]}


def check_bound(bound: object) -> None:
    """Raise InputError if this is no normalised kernel value above 0."""
    if isinstance(bound, bool) or not isinstance(bound, int | float | np.number) or not 0 < bound <= 1:
        raise InputError(f"the bound of near-duplicates is {bound!r}; it must be above 0 and at most 1")


def near_duplicates(gram: Gram, bound: float = BOUND, progress: Progress | None = None) -> NDArray[np.int64]:
    """Number the groups of documents that are nearly the same, directly or through others.

    Parameters
    ----------
    gram : Gram, n rows
    bound : float
        Normalised kernel value from which two documents are, above 0 and at most 1.
    progress : callable, optional

    Returns
    -------
    int64 array, shape (n,)
        Group of each document, from 0; most documents are alone in theirs.

    Raises
    ------
    InputError
        If the bound is out of range.
    """
    return groups_of(gram.n, (found[:2] for found in _pairs(gram, bound, progress)))


def find_leaks(
    gram: Gram, folds: Sequence[Fold], bound: float = BOUND, progress: Progress | None = None
) -> list[Leak]:
    """Test documents with a near-duplicate in the training part, fold by fold.

    Parameters
    ----------
    gram : Gram, n rows
    folds : sequence of (train, test)
    bound : float
        See `near_duplicates`.
    progress : callable, optional

    Raises
    ------
    InputError
        If the bound is out of range.
    """
    part = np.zeros((len(folds), gram.n), np.int8)  # 1 train, 2 test
    for number, (train, test) in enumerate(folds):
        part[number, train], part[number, test] = 1, 2
    nearest = np.full(part.shape, -1)
    best = np.zeros(part.shape)
    for first, second, value in _pairs(gram, bound, progress):
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
        found = np.flatnonzero(nearest[number] >= 0)
        share = len(found) / len(np.unique(test))
        leaks.append(Leak(found, nearest[number, found], best[number, found], share))
    return leaks


def held_out_leak(
    model: KernelMachine,
    training: Sequence[str],
    held: Sequence[str],
    bound: float | None = None,
    progress: Progress | None = None,
) -> Leak:
    """Held-out documents with a near-duplicate among those that a model was trained on.

    Kernel values of the two are computed a block at a time; training documents that are no support vectors
    are looked at too.

    Parameters
    ----------
    model : SVC, SVR or OneClassSVM
        Fitted to `training`; with a precomputed kernel matrix there are no texts to compare.
    training, held : sequences of str, or vectors
    bound : float, optional
        See `near_duplicates`; that of the kernel, if there is none.
    progress : callable, optional

    Returns
    -------
    Leak
        `test` are indices of `held`, `train` of `training`.

    Raises
    ------
    InputError
        If the bound is out of range.
    """
    assert model.kernel_ is not None
    kernel = model.kernel_.structure.near_duplicate_kernel
    if kernel is None:
        return Leak(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), 0.0)
    bound = kernel.nearest.alike if bound is None else bound
    check_bound(bound)
    device = select(model.device)
    with model.at_work(device):
        documents = model.encode(model.read(training, fitting=False), None)
        others = kernel.structure.read(model.encode(model.read(held, fitting=False), documents))
        rows = kernel.rows(kernel.structure.read(documents), device)
        scale, scale_of_held = (inverse_roots(each.diag()) for each in (rows, kernel.rows(others, device)))
        nearest, best = np.zeros(len(others), np.int64), np.zeros(len(others))
        size = max(1, BLOCK // max(1, rows.n))
        for start in range(0, len(others), size):
            block = slice(start, min(start + size, len(others)))
            values = rows.cross(others.take(np.arange(block.start, block.stop)))
            values *= scale_of_held[block, None]
            values *= scale
            nearest[block], best[block] = to_host(values.argmax(axis=1)), to_host(values.max(axis=1))
            if progress is not None:
                progress(block.stop, len(others))
    found = np.flatnonzero(best >= _least(bound))
    return Leak(found, nearest[found], best[found], len(found) / max(1, len(others)))


def leakage_message(
    leaks: Sequence[Leak], bound: float = BOUND, remedy: str = "group_duplicates keeps them together"
) -> str:
    """How many test documents have a near-duplicate in training, for people; "" if none has."""
    documents = np.unique(np.concatenate([leak.test for leak in leaks]))
    if not len(documents):
        return ""
    worst = max(leak.share for leak in leaks)
    return (
        f"{len(documents):,} document{'s are' if len(documents) > 1 else ' is'} tested by machines that were "
        f"trained on a near-duplicate (normalised kernel value of {bound:g} or more; up to {worst:.1%} of a "
        f"test part), which flatters the result; {remedy}"
    )


def merge_groups(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Groups that keep together what either keeps together, shape (n,)."""
    everyone = np.arange(len(first))
    _, leader = np.unique(second, return_index=True)
    return _join(first, everyone, leader[np.unique(second, return_inverse=True)[1]])


def groups_of(n: int, pairs: Iterable[tuple[NDArray[np.int64], NDArray[np.int64]]]) -> NDArray[np.int64]:
    """Number the groups of n texts that pairs put together, directly or through others, shape (n,)."""
    groups = np.arange(n)
    for first, second in pairs:
        if len(first):
            groups = _join(groups, first, second)
    return groups


def _join(
    groups: NDArray[np.int64], first: NDArray[np.int64], second: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Groups in which the documents `first` and `second` are together too, pair by pair."""
    n = len(groups)
    _, leader, number = np.unique(groups, return_index=True, return_inverse=True)
    rows = np.concatenate([np.arange(n), first])
    columns = np.concatenate([leader[number], second])
    graph = coo_matrix((np.ones(len(rows), np.int8), (rows, columns)), shape=(n, n))
    return connected_components(graph, directed=False)[1].astype(np.int64)


def _pairs(
    gram: Gram, bound: float, progress: Progress | None
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]]:
    """Pairs i < j of near-duplicates and their normalised values, a block of rows at a time, on the host."""
    check_bound(bound)
    scale, least = inverse_roots(gram.diag()), _least(bound)
    size = max(1, BLOCK // max(1, gram.n))
    for start in range(0, gram.n, size):
        block = np.arange(start, min(start + size, gram.n))
        values = gram.rows(block)
        values *= scale[start : start + size, None]
        values *= scale
        at, column = (values >= least).nonzero()
        later = column > at + start
        at, column = at[later], column[later]
        yield to_host(at + start), to_host(column), to_host(values[at, column]).astype(np.float64)
        if progress is not None:
            progress(int(block[-1]) + 1, gram.n)


def _least(bound: float) -> float:
    """Equal documents may differ from 1 by float32 rounding."""
    return min(float(bound), 1 - 1e-5)
