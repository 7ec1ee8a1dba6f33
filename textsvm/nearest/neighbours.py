"""`textsvm.neighbours`: similar texts as sparse arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from textsvm.arrays import Floats32, Ints, Ints32
from textsvm.errors import InputError
from textsvm.kernels.base import Kernel
from textsvm.kernels.edit.kernel import EditDistance
from textsvm.kernels.user import KernelFunction
from textsvm.model.settings import ClassifierSettings, Compute
from textsvm.nearest.search import Criteria, K, joined, search
from textsvm.runtime.compiled import scipy
from textsvm.runtime.device import run_on
from textsvm.runtime.parallel import StageProgress
from textsvm.training.trainers import check


@dataclass(frozen=True)
class Neighbours:
    """Pairs of similar texts, in the order of their rows, nearest first."""

    #: shape (m,): Numbers of the two texts.
    rows: Ints
    columns: Ints
    values: Floats32  #: shape (m,): Normalised kernel values
    distances: Ints32 | None  #: shape (m,): Edit distances, where that is the kernel
    shape: tuple[int, int]  #: Number of texts, and of texts that they were compared with

    def __len__(self) -> int:
        return len(self.rows)

    def matrix(self) -> scipy.sparse.csr_array:
        """The values as a sparse matrix."""
        return scipy.sparse.csr_array((self.values, (self.rows, self.columns)), shape=self.shape)


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
    """Find similar texts: the k nearest of each, all above a threshold, or both.

    The result is exact. Similarity is the normalised kernel value K(s, t) / sqrt(K(s, s) K(t, t)), 1 for
    equal texts.

    Parameters
    ----------
    texts : sequence of str, n of them; vectors or a table for a kernel of these
    others : the same, m of them, optional
        Texts to search for neighbours. By default the texts themselves are searched, and no text is its own
        neighbour: with `k` each text has neighbours, without `k` each pair is returned once, rows < columns.
    kernel : Kernel, str or callable, optional
        See `textsvm.SVC`; by default the edit distance if `within` is given, else "fast".
    k : int, optional
        Number of neighbours per text; 10 if neither `at_least` nor `within` is given. Ties go to the first
        texts.
    at_least : float, optional
        Only pairs of at least this similarity, above 0 and at most 1.
    within : int, optional
        Only pairs within this edit distance.
    normalise, punctuation, max_length, memory, device, n_jobs
        See `textsvm.SVC`; `memory` bounds the pairs that are compared at a time.
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
    >>> pairs = neighbours(names, within=2)
    >>> list(zip(pairs.rows.tolist(), pairs.columns.tolist(), pairs.distances.tolist()))
    [(0, 1, 1), (0, 2, 2), (1, 2, 2)]
    """
    criteria = Criteria(K if k is at_least is within is None else k, at_least, within)
    settings = comparison_settings(
        kernel, criteria, normalise=normalise, punctuation=punctuation, max_length=max_length, memory=memory,
        device=device, n_jobs=n_jobs,
    )  # fmt: skip
    pairs = run_on(
        device, lambda place: joined(list(search(settings.on(place), texts, others, criteria, progress)))
    )
    shape = (len(texts), len(texts if others is None else others))
    return Neighbours(pairs.rows, pairs.columns, pairs.values, pairs.distances, shape)


def comparison_settings(
    kernel: Any, criteria: Criteria, memory: Any = None, **parameters: Any
) -> ClassifierSettings:
    """Settings that compare texts; InputError if a parameter or the kernel is invalid."""
    if kernel is None:
        kernel = EditDistance() if criteria.within is not None else "fast"
    if isinstance(kernel, str) and kernel == "precomputed":
        raise InputError('neighbours need texts to compare, and kernel="precomputed" has none')
    settings = ClassifierSettings(kernel, compute=Compute(memory=memory), **parameters)
    check(settings)
    criteria.check(settings.new_kernel())
    return settings
