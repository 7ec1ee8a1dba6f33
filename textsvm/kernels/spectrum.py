"""p-spectrum kernel: what two documents share of their contiguous substrings.

    k(s, t) = sum_u phi_u(s) phi_u(t),    phi_u(s) = w_u f(c_u(s)),

u runs over the strings of p symbols (p1..p2 in a blended kernel), c_u(s) counts the occurrences of u
in s, f(c) is c, 1 (presence) or 1 + ln c (log), and w_u is 1 or, with idf, ln((1 + n) / (1 + df_u)) + 1
learnt from n training documents (p-mers they do not hold: ln(1 + n) + 1). The intersection kernel
sum_u w_u min(c_u(s), c_u(t)) has the same form over more features: in the unary code of the counts
[c >= 1], [c >= 2], ... the product of two codes is the minimum, so

    phi_(u, h)(s) = sqrt(w_u) [c_u(s) >= h].

Hence every variant is a product of one sparse matrix X (documents x features, values >= 0) with
itself, and a decision value sum_j a_j k(s, t_j) / |t_j| is phi(s) . (sum_j a_j phi(t_j) / |t_j|): one
product with a vector, whatever the number of support vectors.

The half Gram takes sum_u df_u^2 / 2 products, and most of them belong to few p-mers. So the columns
of X that many documents hold are kept dense, as a tile product (BLAS); the others are an inverted
index: row i adds x_iu x_ju to an accumulator of n values for every j > i on the list of u.

What is exact: counts, presence and intersection without idf are sums of integers, right to the last
bit below 2^53 (float64 accumulators; tile products in float32 only where all sums are below 2^24),
and rounded to float32 once a length. With log or idf X is rounded to float32 and the sums are float64.

The whole Gram is the sum of those of the lengths, one after the other: memory is for the p-mers of one
length, and the Grams of all ranges p1..p2 come by the way (`host_grams`).

Leslie, Eskin, Noble 2002 (spectrum kernel); Ionescu, Popescu, Cahill 2014 (presence, intersection).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from textsvm.documents import Documents
from textsvm.errors import InputError
from textsvm.kernels.attribution import Attribution, Contributions
from textsvm.kernels.base import Kernel, KernelRows, Sharing, featureless_groups
from textsvm.kernels.option import Option
from textsvm.kernels.pmers import Counts, Vocabulary, count, count_each, plan
from textsvm.kernels.sparse import (
    DENSE_SHARE,
    Half,
    Index,
    Sparse,
    add_rows,
    mirror,
    raise_to,
    scale_half,
)
from textsvm.kernels.spectrum_attribution import SUBSTRINGS, spread
from textsvm.kernels.spectrum_options import OPTIONS, WEIGHTS
from textsvm.parallel import Progress, part, run

if TYPE_CHECKING:
    from textsvm.device import Device

#: Rows of a piece of work.
TILE = 128
#: Substrings of documents that are predicted together.
BATCH = 1 << 26
#: Symbols a second that are counted and compared, for each length.
RATE = 3e8


@dataclass(frozen=True)
class SharedLengths(Sharing):
    """k_{p1..p2} is the running sum, not normalised, of the Grams of the lengths."""

    p1: int
    weight: str
    idf: bool

    def passes(self, kernels: Sequence[Spectrum], room: int) -> list[list[int]]:
        return [sorted(range(len(kernels)), key=lambda i: kernels[i].lengths[1])]

    def description(self, kernels: Sequence[Spectrum]) -> str:
        return "from the sum over lengths"

    def grams(
        self,
        kernels: Sequence[Spectrum],
        documents: Documents,
        device: Device,
        progress: Progress | None = None,
    ) -> Iterator[tuple[int, Any]]:
        if device.kind == "cuda":
            from textsvm.kernels.spectrum_cuda import cuda_grams

            return cuda_grams(kernels, documents, device, progress)
        return host_grams(kernels, documents, progress)


class Spectrum(Kernel):
    """p-spectrum kernel.

    Parameters
    ----------
    p : int or (int, int)
        Symbols of a substring; a range sums the kernels of its lengths (blended), then normalises.
    weight : {"count", "presence", "intersection", "log"}
        What becomes of the number of occurrences c: c, 1, min(c, c'), or 1 + ln c.
    idf : bool
        Weigh every p-mer by ln((1 + n) / (1 + df)) + 1, learnt by `fit`.
    normalised : bool
        Divide by sqrt(k(s, s) k(t, t)).
    """

    name: ClassVar[str] = "spectrum"
    options: ClassVar[tuple[Option, ...]] = OPTIONS
    attribution: ClassVar[Attribution] = SUBSTRINGS

    def __init__(
        self, p: int | tuple[int, int] = 4, weight: str = "count", idf: bool = False, normalised: bool = True
    ) -> None:
        self.p = p
        self.weight = weight
        self.idf = idf
        self.normalised = normalised

    @property
    def lengths(self) -> tuple[int, int]:
        """Shortest and longest substring that counts."""
        if isinstance(self.p, (tuple, list)):
            first, last = self.p
            return int(first), int(last)
        return int(self.p), int(self.p)

    @property
    def min_length(self) -> int:
        return self.lengths[0]

    def check(self) -> None:
        p = self.p if isinstance(self.p, (tuple, list)) else (self.p, self.p)
        whole = all(isinstance(q, (int, np.integer)) and not isinstance(q, bool) for q in p)
        if len(p) != 2 or not whole or not 1 <= p[0] <= p[1]:
            raise InputError(
                f"p={self.p!r} is no length of a substring: give a whole number from 1 or a range (p1, p2)"
            )
        if self.weight not in WEIGHTS:
            raise InputError(f"weight={self.weight!r} is not one of {', '.join(WEIGHTS)}")

    def fit(self, documents: Documents) -> Spectrum:
        self.check()
        if self.idf:
            vocabulary, counts = count(documents, *self.lengths)
            df = np.bincount(counts.features, minlength=vocabulary.first[-1])
            self.idf_ = Idf(vocabulary, df, len(documents))
        return self

    def rows(self, documents: Documents, device: Device) -> KernelRows:
        self.check()
        if device.kind == "cuda":
            from textsvm.kernels.spectrum_cuda import CudaSpectrum

            return CudaSpectrum(self, documents, device)
        return HostSpectrum(self, documents, device)

    def state(self) -> dict[str, NDArray[Any]]:
        if not self.idf:
            return {}
        self._check_fitted()
        vocabulary, df, n = self.idf_.vocabulary, self.idf_.df, self.idf_.n
        state = {f"keys_{q}": keys for q, keys in vocabulary.keys.items()}
        return state | {"df": df, "sizes": np.array([n, vocabulary.n_symbols])}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        if not self.idf:
            return
        self.check()
        try:
            self.idf_ = Idf.from_state(state, *self.lengths)
        except (KeyError, ValueError, TypeError, IndexError, OverflowError) as error:
            raise InputError(f"the saved idf weights are damaged ({error}); train the model again") from None

    def _check_fitted(self) -> None:
        if self.idf and not hasattr(self, "idf_"):
            raise InputError("idf weights are learnt from training documents: call fit before anything else")

    @property
    def sharing(self) -> SharedLengths:
        return SharedLengths(self.lengths[0], self.weight, bool(self.idf))

    def cost(self, row_lengths: NDArray[np.int64], column_lengths: NDArray[np.int64]) -> NDArray[np.float64]:
        symbols = len(column_lengths) * row_lengths.astype(float) + column_lengths.sum()
        return (self.lengths[1] - self.lengths[0] + 1) * symbols / RATE

    def contributions(
        self,
        rows: Any,
        documents: Documents,
        coef: NDArray[np.float64],
        values: NDArray[np.float64],
        progress: Progress | None = None,
    ) -> Contributions:
        vocabulary, counts = count(documents, *self.lengths)
        starts = rows._starts(counts, vocabulary)
        x = rows._matrix(counts, vocabulary, starts)
        scale = scale_of(self, x.squares())
        target = project_features(rows.starts, starts, rows.vocabulary.find(vocabulary))
        columns = rows.x.matrix(int(rows.starts[-1])).T.tocsr()
        weighted = columns @ (scale_of(self, rows.self_values)[:, None] * coef.T)
        at = target[x.features]
        owner = np.repeat(np.arange(len(documents)), np.diff(x.indptr))
        terms = np.where(at >= 0, x.values.astype(float) * weighted[at, owner] * scale[owner], 0.0)
        if self.weight == "intersection":  # the unary code of a count back to one number
            ends = np.concatenate([[0], np.cumsum(counts.counts, dtype=np.int64)])
            terms = np.diff(np.concatenate([[0.0], np.cumsum(terms)])[ends])
        return spread(documents, self.lengths, vocabulary.first, counts, terms)

    def contributions_cost(
        self, lengths: NDArray[np.int64], support_lengths: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        return self.cost(lengths + support_lengths.sum(), np.zeros(1, np.int64))


@dataclass(frozen=True)
class Idf:
    """Document frequencies of the training documents' p-mers.

    Attributes
    ----------
    vocabulary : Vocabulary
    df : int64 array, shape (number of p-mers,)
    n : int
        Number of training documents.
    """

    vocabulary: Vocabulary
    df: NDArray[np.int64]
    n: int

    def weights(self, vocabulary: Vocabulary) -> NDArray[np.float64]:
        """ln((1 + n) / (1 + df)) + 1 of every p-mer of `vocabulary`."""
        return self._weights(self.vocabulary.find(vocabulary), self.df)

    def weights_each(self, vocabulary: Vocabulary) -> Iterator[NDArray[np.float64]]:
        """The same for one length after the other; `vocabulary` may get its keys meanwhile."""
        first = self.vocabulary.first
        for known, a, b in zip(self.vocabulary.find_each(vocabulary), first, first[1:], strict=False):
            yield self._weights(known, self.df[a:b])

    def _weights(self, known: NDArray[np.int64], df: NDArray[np.int64]) -> NDArray[np.float64]:
        df = np.append(df, 0)[known]  # -1, not known, reads the 0
        return np.log((1 + self.n) / (1 + df)) + 1

    @classmethod
    def from_state(cls, state: dict[str, NDArray[Any]], p1: int, p2: int) -> Idf:
        """Read and check what `Spectrum.state` gave; raises ValueError or KeyError."""
        n, n_symbols = (int(x) for x in np.asarray(state["sizes"]).reshape(2))
        sizes = {1: n_symbols}
        keys = {}
        for q, a, b in plan(p1, p2):
            keys[q] = np.asarray(state[f"keys_{q}"])
            if keys[q].dtype != np.uint64 or keys[q].ndim != 1:
                raise ValueError(f"keys_{q} is no list of keys")
            rising = np.all(keys[q][1:] > keys[q][:-1])
            if not rising or (len(keys[q]) and int(keys[q][-1]) >= sizes[a] * sizes[b]):
                raise ValueError(f"keys_{q} is out of order or out of range")
            sizes[q] = len(keys[q])
        vocabulary = Vocabulary(p1, p2, n_symbols, keys)
        df = np.asarray(state["df"])
        if (
            df.shape != (vocabulary.first[-1],)
            or df.dtype.kind != "i"
            or n < 0
            or not 0 <= n_symbols <= 65_536
        ):
            raise ValueError("df does not match the keys")
        if len(df) and not 0 <= df.min() <= df.max() <= n:
            raise ValueError("df is out of range")
        return cls(vocabulary, df.astype(np.int64), n)


class HostSpectrum:
    """The CPU twin: see `KernelRows`.

    Parameters
    ----------
    kernel : Spectrum
        Fitted, if it learns idf weights.
    documents : Documents
        The columns.
    """

    def __init__(self, kernel: Spectrum, documents: Documents, device: Device) -> None:
        kernel._check_fitted()
        self.kernel, self.documents, self.device = kernel, documents, device
        self.n = len(documents)

    @cached_property
    def _counted(self) -> tuple[Vocabulary, NDArray[np.int64], Sparse]:
        vocabulary, counts = count(self.documents, *self.kernel.lengths)
        starts = self._starts(counts, vocabulary)
        return vocabulary, starts, self._matrix(counts, vocabulary, starts)

    @property
    def vocabulary(self) -> Vocabulary:
        """The p-mers of the columns."""
        return self._counted[0]

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where the features of each p-mer start."""
        return self._counted[1]

    @property
    def x(self) -> Sparse:
        """X of the columns, made when first needed: `gram` does without."""
        return self._counted[2]

    @cached_property
    def self_values(self) -> NDArray[np.float64]:
        """k(s, s) of the columns."""
        return self.x.squares()

    @cached_property
    def _grouped(self) -> tuple[NDArray[np.int32], dict[bytes, int]]:
        known: dict[bytes, int] = {}
        return featureless_groups(self.documents, self.self_values, known), known

    @property
    def groups(self) -> NDArray[np.int32]:
        """From `featureless_groups`."""
        return self._grouped[0]

    @cached_property
    def index(self) -> Index:
        """X by columns."""
        return Index(self.x, int(self.starts[-1]))

    def diag(self) -> NDArray[np.float32]:
        if self.kernel.normalised:
            return np.ones(self.n, np.float32)
        return self.self_values.astype(np.float32)

    def rows(self, indices: NDArray[np.int64]) -> NDArray[np.float32]:
        indices = np.asarray(indices, np.int64)
        out = np.empty((len(indices), self.n), np.float32)
        self._fill(out, self.x.take(indices), self.self_values[indices], self.groups[indices])
        if self.kernel.normalised:
            out[np.arange(len(indices)), indices] = 1
        return out

    def gram(self, progress: Progress | None = None) -> NDArray[np.float32]:
        ((_, matrix),) = host_grams([self.kernel], self.documents, progress)
        return matrix

    def cross(self, others: Documents, progress: Progress | None = None) -> NDArray[np.float32]:
        out = np.empty((len(others), self.n), np.float32)
        x, self_values, groups = self._project(others)
        self._fill(out, x, self_values, groups, progress)
        return out

    def decision(
        self, others: Documents, coef: NDArray[np.float64], progress: Progress | None = None
    ) -> NDArray[np.float64]:
        """sum_j k(others, documents[j]) coef[j], shape (len(others), k), for `coef` of shape (n, k).

        The sum is taken over the documents once, in feature space, and no kernel value is computed; the
        others come in batches of bounded memory.
        """
        n_features = int(self.starts[-1])
        weighted = self.x.matrix(n_features).T @ (scale_of(self.kernel, self.self_values)[:, None] * coef)
        values = np.empty((len(others), coef.shape[1]))
        p1, p2 = self.kernel.lengths
        turns = others.offsets[:-1] // max(1, BATCH // (p2 + 1 - p1))
        for batch in np.split(np.arange(len(others)), np.flatnonzero(np.diff(turns)) + 1):
            some = others if len(batch) == len(others) else others.take(batch)
            x, self_values, groups = self._project(some)
            values[batch] = scale_of(self.kernel, self_values)[:, None] * (x.matrix(n_features) @ weighted)
            for i in np.flatnonzero(groups) if self.kernel.normalised else ():
                values[batch[i]] = coef[self.groups == groups[i]].sum(axis=0)
            if progress is not None:
                progress(len(batch) + batch[0] if len(batch) else 1, max(1, len(others)))
        return values

    def _starts(self, counts: Counts, vocabulary: Vocabulary) -> NDArray[np.int64]:
        return feature_starts(self.kernel, counts, int(vocabulary.first[-1]))

    def _matrix(self, counts: Counts, vocabulary: Vocabulary, starts: NDArray[np.int64]) -> Sparse:
        weights = self.kernel.idf_.weights(vocabulary) if self.kernel.idf else None
        return matrix_of(self.kernel, counts, weights, starts)

    def _project(self, others: Documents) -> tuple[Sparse, NDArray[np.float64], NDArray[np.int32]]:
        """X of other documents over the columns' features, their k(s, s) over all, their groups."""
        vocabulary, counts = count(others, *self.kernel.lengths)
        starts = self._starts(counts, vocabulary)
        x = self._matrix(counts, vocabulary, starts)
        self_values = x.squares()
        groups = featureless_groups(others, self_values, dict(self._grouped[1]))
        target = project_features(self.starts, starts, self.vocabulary.find(vocabulary))
        return x.select(target.astype(np.int32)), self_values, groups

    def _fill(
        self,
        out: NDArray[np.float32],
        x: Sparse,
        self_values: NDArray[np.float64],
        groups: NDArray[np.int32],
        progress: Progress | None = None,
    ) -> None:
        """Values of the rows of `x` with all columns, into `out`."""
        row_scale, scale = scale_of(self.kernel, self_values), scale_of(self.kernel, self.self_values)
        # A tile product reads all of the dense columns: worth it for many rows only.
        dense = self.index.dense(DENSE_SHARE if len(out) >= TILE // 2 else 2.0)
        rest, _ = dense.remove(x, x.features)
        begin = self.index.indptr[rest.features]

        def full(piece: tuple[int, int]) -> None:
            first, last = piece
            tile = dense.rows(x, first, last) @ dense.matrix.T
            rows = (rest.indptr, rest.features, rest.values, begin)
            add_rows(first, last, 0, *rows, *self.index.lists, tile, row_scale, scale, out)

        pieces = _pieces(len(out))
        with threadpool_limits(1, user_api="blas"):
            run(full, pieces, [b - a for a, b in pieces], progress)
        self._featureless(out, groups)

    def _featureless(self, out: NDArray[np.float32], groups: NDArray[np.int32]) -> None:
        for i in np.flatnonzero(groups) if self.kernel.normalised else ():
            out[i] = self.groups == groups[i]


def host_grams(
    kernels: Sequence[Spectrum], documents: Documents, progress: Progress | None = None
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """The Grams of kernels that differ in p2 and `normalised` only, in ascending order of p2, numbered.

    One length after the other is counted and its products are added to a running sum, so that memory is for
    one length. Each addition rounds to float32: at most 2^-24 of the value for every length.
    """
    n, (p1, p2) = len(documents), (kernels[0].lengths[0], kernels[-1].lengths[1])
    kernel, waiting = kernels[-1], list(enumerate(kernels))
    total, self_values = np.zeros((n, n), np.float32), np.zeros(n)
    keys: dict[int, NDArray[np.uint64]] = {}
    vocabulary = Vocabulary(p1, p2, len(documents.alphabet), keys)
    weights = kernel.idf_.weights_each(vocabulary) if kernel.idf else None
    pieces = _pieces(n)
    work = [(b - a) * (n - a) for a, b in pieces]
    for q, size, counts in count_each(documents, p1, p2, keys):
        starts = feature_starts(kernel, counts, size)
        x = matrix_of(kernel, counts, next(weights) if weights is not None else None, starts)
        self_values += x.squares()
        half = Half(x, int(starts[-1]))

        def add(piece: tuple[int, int], half: Half = half) -> None:
            half.add(*piece, total)

        with threadpool_limits(1, user_api="blas"):
            run(add, pieces, work, part(progress, q - p1, 1, p2 + 1 - p1))
        while waiting and waiting[0][1].lengths[1] == q:
            position, wanted = waiting.pop(0)
            yield position, _finish(wanted, documents, total, self_values, in_place=not waiting)


def _finish(
    kernel: Spectrum,
    documents: Documents,
    total: NDArray[np.float32],
    self_values: NDArray[np.float64],
    in_place: bool,
) -> NDArray[np.float32]:
    """Kernel values of the upper half of the sums, both halves."""
    out = total if in_place else np.empty_like(total)
    scale = scale_of(kernel, self_values)

    def finish(piece: tuple[int, int]) -> None:
        scale_half(*piece, total, scale, out)
        mirror(*piece, out)

    run(finish, _pieces(len(out)))
    np.fill_diagonal(out, 1 if kernel.normalised else self_values)
    if kernel.normalised:
        groups = featureless_groups(documents, self_values, {})
        for i in np.flatnonzero(groups):
            out[i] = groups == groups[i]
            out[:, i] = out[i]
    return out


def feature_starts(kernel: Spectrum, counts: Counts, size: int) -> NDArray[np.int64]:
    """Where the features of each of `size` p-mers start: one each, or the unary code of its largest count."""
    numbers = np.ones(size, np.int64)
    if kernel.weight == "intersection":
        raise_to(counts.features, counts.counts, numbers)
    return np.concatenate([[0], np.cumsum(numbers)])


def matrix_of(
    kernel: Spectrum, counts: Counts, weights: NDArray[np.float64] | None, starts: NDArray[np.int64]
) -> Sparse:
    """X of the documents that were counted, given idf weights; the features of p-mers start at `starts`."""
    values: NDArray[np.floating] = np.ones(len(counts.counts), np.float32)
    if kernel.weight == "count":
        values = counts.counts.astype(np.float64)
    elif kernel.weight == "log":
        values = 1 + np.log(counts.counts)
    if weights is not None:
        w = weights[counts.features]
        values = np.sqrt(w) if kernel.weight == "intersection" else w * values
    x = Sparse(counts.indptr, counts.features, values.astype(np.float32, copy=False))
    return x.unary(counts.counts, starts) if kernel.weight == "intersection" else x


def scale_of(kernel: Spectrum, self_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """What the rows (and columns) of the products are multiplied by: 1 / sqrt(k(s, s)), or 1."""
    if not kernel.normalised:
        return np.ones(len(self_values))
    return np.divide(1, np.sqrt(self_values), out=np.zeros(len(self_values)), where=self_values > 0)


def project_features(
    columns: NDArray[np.int64], rows: NDArray[np.int64], found: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The column feature of each feature of other documents, -1 if there is none.

    Parameters
    ----------
    columns, rows : int64 arrays
        Where the features of each p-mer start, in the columns' numbering and in the others'.
    found : int64 array, shape (len(rows) - 1,)
        The columns' number of each p-mer of the others, -1 if they do not have it.
    """
    known = np.repeat(found, np.diff(rows))
    height = np.arange(rows[-1]) - np.repeat(rows[:-1], np.diff(rows))
    target = columns[known] + height
    target[(known < 0) | (target >= columns[known + 1])] = -1
    return target


def _pieces(n: int) -> list[tuple[int, int]]:
    size = min(TILE, max(1, -(-n // 8)))
    return [(first, min(first + size, n)) for first in range(0, n, size)]
