"""Kernel values and decision values of kernels with explicit sparse features X, k(s, t) = phi(s) . phi(t).

Kernel values are products of rows of X. A decision value sum_j a_j k(x, t_j) is phi(x) . w with the weight
vector w = sum_j a_j phi(t_j), so prediction computes no kernel value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np

from textsvm.arrays import Array, Floats, Floats32, Ints
from textsvm.kernels.shared.normalisation import Normalisation
from textsvm.linalg.factored import FactoredWeights, as_dense, should_factor, sum_of_products
from textsvm.linalg.products import InvertedIndex
from textsvm.linalg.sparse import Sparse
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress
from textsvm.text.documents import Documents

BATCH = 1 << 26  #: Occurrences of features in documents that are predicted together.


class ComparedRows(ABC):
    """Kernel values with fixed documents (`KernelRows`) that are products of documents, times both scales.

    Subclasses set `normalisation`, k(s, s) of the documents.
    """

    normalisation: Normalisation

    def __init__(self, kernel: Any, documents: Documents, device: Device) -> None:
        self.kernel, self.documents, self.device, self.n = kernel, documents, device, len(documents)

    @abstractmethod
    def gram(self, progress: Progress | None = None) -> Array:
        """The whole matrix, of which half is computed."""

    @abstractmethod
    def compare_own(self, indices: Ints, own: Normalisation) -> Array:
        """Products of some of the columns with all, times both scales."""

    @abstractmethod
    def compare_others(self, others: Documents, progress: Progress | None) -> tuple[Array, Normalisation]:
        """The same for other documents, and their normalisation."""

    def diag(self) -> Array:
        with devices.use(self.device):
            xp = devices.array_module(self.device)
            if self.kernel.normalised:
                return xp.ones(self.n, np.float32)
            return xp.asarray(self.normalisation.diagonal())

    def rows(self, indices: Ints) -> Array:
        indices = np.asarray(indices, np.int64)
        own = self.normalisation.take(indices)
        with devices.use(self.device):
            xp = devices.array_module(self.device)
            values = self.compare_own(indices, own)
            own.finish_rows(values, self.normalisation)
            values[xp.arange(len(indices)), xp.asarray(indices)] = xp.asarray(own.diagonal())
            return values

    def cross(self, others: Documents, progress: Progress | None = None) -> Array:
        with devices.use(self.device):
            values, own = self.compare_others(others, progress)
            own.finish_rows(values, self.normalisation)
            return values


class FeatureKernelRows(ComparedRows):
    """Kernel values that are products of features.

    Subclasses set `x`, the features of the documents, and `space`, an object with the `kernel` and the method
    `products` (see `FeaturePredictor`).
    """

    x: Array
    space: Any

    @abstractmethod
    def project(self, others: Documents) -> tuple[Any, Normalisation]:
        """X of other documents over the features of the columns."""

    @abstractmethod
    def compare(self, x: Any, own: Normalisation, progress: Progress | None = None) -> Array:
        """Products of documents with the columns, times both scales."""

    def compare_others(self, others: Documents, progress: Progress | None) -> tuple[Array, Normalisation]:
        x, own = self.project(others)
        return self.compare(x, own, progress), own

    def decision(self, others: Documents, coef: Floats, progress: Progress | None = None) -> Floats:
        return FeaturePredictor.of_support(self, coef.T).values(others, progress)


class HostFeatureRows(FeatureKernelRows):
    """Products of features on a CPU."""

    #: Ends of blocks of features, see `textsvm.linalg.products`; None for a single block.
    ends: Ints | None = None

    @cached_property
    def columns(self) -> InvertedIndex:
        """X by columns."""
        return InvertedIndex(self.x.on_grid(self.ends), self.ends)

    def compare(self, x: Sparse, own: Normalisation, progress: Progress | None = None) -> Floats32:
        values = np.empty((len(x), self.n), np.float32)
        scale = self.normalisation.scale
        self.columns.products(x.on_grid(self.ends), own.scale, scale, values, progress)
        return values

    def compare_own(self, indices: Ints, own: Normalisation) -> Floats32:
        return self.compare(self.x.take(indices), own)


class FeaturePredictor:
    """Prediction from a weight for each feature, on either device.

    ``space.products(documents, columns, weights)`` returns the features of documents times `weights`, on the
    host, and their `Normalisation`; ``space.project(documents, columns)`` returns the features themselves.
    `alone` are support vectors without any feature and their coefficients: a document without any feature has
    the kernel value 1 with equal ones. Without them the value of such a document is 0.
    """

    def __init__(
        self, device: Device, space: Any, weights: Array, alone: tuple[Normalisation, Floats] | None = None
    ) -> None:
        self.device, self.space, self.weights = device, space, weights
        none = Normalisation(Documents.none(), np.zeros(0), True)
        self.columns, self.coef = alone or (none, np.zeros((weights.shape[1], 0)))

    @classmethod
    def of_support(cls, rows: FeatureKernelRows, coef: Array) -> Self:
        """From the rows of support vectors and coef (n_machines, n_sv): w = sum_j a_j phi(t_j) / |t_j|."""
        columns = rows.normalisation
        if rows.device.kind == "cpu" and should_factor(rows.x, coef):
            weights: Array = FactoredWeights.of(rows.x, columns.scale, coef)
            return cls(rows.device, rows.space, weights, (columns, coef))
        with devices.use(rows.device):
            weights = rows.x.transposed_dot(columns.scale[:, None] * as_dense(coef).T)
            return cls(rows.device, rows.space, weights, (columns, coef))

    def dense_weights(self) -> Array:
        """`weights` as an array, for export; InputError if they do not fit into memory."""
        return self.weights.dense() if isinstance(self.weights, FactoredWeights) else self.weights

    def values(self, documents: Documents, progress: Progress | None = None) -> Floats:
        return sum_of_values([(self, documents, 1.0)], progress)


def sum_of_values(
    terms: Sequence[tuple[FeaturePredictor, Documents, float]], progress: Progress | None = None
) -> Floats:
    """Sum of the values of predictors, each for its reading of the same documents.

    Several have factored weights, and the same coefficients times a number, which is largest for the first.
    """
    predictors, read, factors = zip(*terms, strict=True)
    values, (main, *_) = np.empty((len(read[0]), predictors[0].weights.shape[1])), predictors
    sizes = [term.space.kernel.features.occurrences(own.lengths) for term, own, _ in terms]
    cuts = np.flatnonzero(np.diff(np.sum(sizes, axis=0).cumsum() // BATCH)) + 1
    for first, last in pairwise([0, *cuts.tolist(), len(values)] if len(values) else []):
        batch = [own if last - first == len(values) else own.take(np.arange(first, last)) for own in read]
        with devices.use(main.device):
            if isinstance(main.weights, FactoredWeights):
                pairs = zip(predictors, batch, strict=True)
                features = [term.space.project(own, term.columns) for term, own in pairs]
                of_terms = zip(predictors, features, np.divide(factors, factors[0]), strict=True)
                sums = sum_of_products([(term.weights, x, own.scale, by) for term, (x, own), by in of_terms])
            else:
                features = [main.space.products(batch[0], main.columns, main.weights)]
                sums = features[0][0]
                sums *= features[0][1].scale[:, None]
        for term, (_, own) in zip(predictors, features, strict=True):
            own.add_values(sums, term.coef, term.columns)
        values[first:last] = sums
        if progress is not None:
            progress(last, len(values))
    return values
