"""`textsvm.neighbours`: texts that are alike, as sparse arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from textsvm.errors import InputError
from textsvm.kernels.base import Kernel
from textsvm.kernels.edit.kernel import EditDistance
from textsvm.kernels.user import KernelFunction
from textsvm.machines.classifier import Classifier
from textsvm.machines.compute import Compute
from textsvm.nearest.search import joined, search
from textsvm.nearest.wanted import K, Wanted
from textsvm.runtime.parallel import StageProgress


@dataclass(frozen=True)
class Neighbours:
    """Pairs of texts that are alike, in the order of their rows, the nearest first.

    Attributes
    ----------
    rows, columns : int64 arrays, shape (m,)
        Numbers of the two texts.
    values : float32 array, shape (m,)
        Normalised kernel values.
    distances : int32 array, shape (m,), optional
        Edit distances, where that is the kernel.
    shape : (int, int)
        Texts, and texts that they were compared with.
    """

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: NDArray[np.float32]
    distances: NDArray[np.int32] | None
    shape: tuple[int, int]

    def __len__(self) -> int:
        return len(self.rows)

    def matrix(self) -> csr_array:
        """The values as a sparse matrix."""
        return csr_array((self.values, (self.rows, self.columns)), shape=self.shape)


def neighbours(
    texts: Sequence[str],
    others: Sequence[str] | None = None,
    kernel: Kernel | KernelFunction | str | None = None,
    *,
    k: int | None = None,
    at_least: float | None = None,
    within: int | None = None,
    normalise: str = "unicode",
    punctuation: bool = True,
    max_length: int | None = None,
    memory: int | str | None = None,
    device: str = "auto",
    n_jobs: int | None = None,
    progress: StageProgress | None = None,
) -> Neighbours:
    """Find the texts that are alike: the k nearest of each, all above a threshold, or both together.

    The result is exact. How alike two texts are is their normalised kernel value,
    K(s, t) / sqrt(K(s, s) K(t, t)), 1 for equal texts.

    Parameters
    ----------
    texts : sequence of str, n of them; vectors or a table for a kernel of these
    others : the same, m of them, optional
        What to find neighbours in. Without, neighbours are found among the texts themselves, none being its
        own neighbour: with `k` each text has its own, without `k` each pair comes once, rows < columns.
    kernel : Kernel, str or callable, optional
        As `textsvm.SVC` takes it; the edit distance if `within` is given and no kernel is.
    k : int, optional
        The so many nearest of each text, 10 if neither `at_least` nor `within` is given. Of equally near
        ones, the first.
    at_least : float, optional
        Only pairs of at least this value, above 0 and at most 1.
    within : int, optional
        Only pairs within this edit distance.
    normalise, punctuation, max_length, memory, device, n_jobs
        As `textsvm.SVC` takes them; `memory` bounds the tiles that are computed at a time.
    progress : callable, optional
        See `textsvm.runtime.parallel.StageProgress`.

    Raises
    ------
    InputError
        If a parameter is out of range, or `within` is given for a kernel without distances.

    Examples
    --------
    >>> from textsvm import neighbours
    >>> names = ["Jon Smith", "John Smith", "Joan Smyth", "Mary Jones"]
    >>> found = neighbours(names, within=2)
    >>> list(zip(found.rows.tolist(), found.columns.tolist(), found.distances.tolist()))
    [(0, 1, 1), (0, 2, 2), (1, 2, 2)]
    """
    wanted = Wanted(K if k is at_least is within is None else k, at_least, within)
    model = machine(
        kernel, wanted, normalise=normalise, punctuation=punctuation, max_length=max_length, memory=memory,
        device=device, n_jobs=n_jobs,
    )  # fmt: skip
    found = joined(list(search(model, texts, others, wanted, progress)))
    shape = (len(texts), len(texts if others is None else others))
    return Neighbours(found.rows, found.columns, found.values, found.distances, shape)


def machine(kernel: Any, wanted: Wanted, memory: Any = None, **parameters: Any) -> Classifier:
    """What compares texts, checked: an estimator that is not fitted.

    Raises
    ------
    InputError
        If a parameter is out of range, or the kernel is a matrix.
    """
    if kernel is None:
        kernel = EditDistance() if wanted.within is not None else "fast"
    if isinstance(kernel, str) and kernel == "precomputed":
        raise InputError("neighbours are found by comparing texts; kernel='precomputed' compares none")
    model = Classifier(kernel, compute=Compute(memory=memory), **parameters)
    model.check()
    wanted.check(model.make_kernel())
    return model
