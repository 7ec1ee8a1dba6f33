"""Kernel rows and prediction of the gap-weighted kernel of bounded span; see bounded.py."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.kernels.gap.subsequences import Subsequences
from textsvm.kernels.normalisation import Normalisation
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress
from textsvm.text.documents import Documents

#: Occurrences of patterns in documents that are predicted together.
BATCH = 1 << 26


class BoundedGapRows(ABC):
    """Kernel values of `BoundedGap` with fixed documents (`KernelRows`); a twin counts and multiplies
    features.
    """

    def __init__(self, kernel: Any, documents: Documents, device: Device) -> None:
        self.kernel, self.documents, self.device = kernel, documents, device
        self.n = len(documents)
        with devices.use(device):
            self.features, self.x = self.represent(kernel, documents)

    @staticmethod
    @abstractmethod
    def represent(kernel: Any, documents: Documents) -> tuple[Subsequences, Any]:
        """Features of documents, and X over them, on the device."""

    @staticmethod
    @abstractmethod
    def squares(x: Any) -> NDArray[np.float64]:
        """Squared norm of every row, on the host."""

    @abstractmethod
    def products(self, x: Any, scale: NDArray[np.float64], progress: Progress | None = None) -> Any:
        """Products of other rows with the columns, over the same features, times `scale` of both."""

    @abstractmethod
    def gram(self, progress: Progress | None = None) -> Any:
        """The whole matrix."""

    @cached_property
    def normalisation(self) -> Normalisation:
        """k(s, s) of the columns."""
        with devices.use(self.device):
            return normalisation_of(self.kernel, self.documents, self.squares(self.x))

    def diag(self) -> Any:
        with devices.use(self.device):
            return devices.array_module(self.device).asarray(self.normalisation.diagonal())

    def rows(self, indices: NDArray[np.int64]) -> Any:
        which = np.asarray(indices, np.int64)
        own = self.normalisation.take(which)
        with devices.use(self.device):
            xp = devices.array_module(self.device)
            out = self.own_products(which, own.scale)
            own.finish_rows(out, self.normalisation)
            if self.kernel.normalised:
                out[xp.arange(len(which)), xp.asarray(which)] = 1
            return out

    @abstractmethod
    def own_products(self, indices: NDArray[np.int64], scale: NDArray[np.float64]) -> Any:
        """`products` of some of the columns."""

    def cross(self, others: Documents, progress: Progress | None = None) -> Any:
        columns = self.normalisation
        with devices.use(self.device):
            x, own = self.project(self.features, others, columns)
            out = self.products(x, own.scale, progress)
            own.finish_rows(out, columns)
            return out

    def decision(
        self, others: Documents, coef: NDArray[np.float64], progress: Progress | None = None
    ) -> NDArray[np.float64]:
        return BoundedGapPredictor(self, coef.T).values(others, progress)

    def project(
        self, features: Subsequences, others: Documents, columns: Normalisation
    ) -> tuple[Any, Normalisation]:
        """X of other documents over the features of the columns, and their k(s, s) over all their own."""
        own, x = self.represent(self.kernel, others)
        normalisation = normalisation_of(self.kernel, others, self.squares(x), columns)
        return self.over(x, features.find(own), features.size), normalisation

    @staticmethod
    @abstractmethod
    def over(x: Any, target: Any, n_features: int) -> Any:
        """X with its features renumbered to `target` of `n_features`; -1 drops a feature."""


class BoundedGapPredictor:
    """Predictor from a weight vector per machine, on either device; coef has shape (n_machines, n_sv)."""

    def __init__(self, rows: BoundedGapRows, coef: NDArray[np.float64]) -> None:
        self.device, self.coef, self.rows = rows.device, coef, rows
        self.columns = rows.normalisation
        with devices.use(self.device):
            self.weights = rows.x.transposed_dot(self.columns.scale[:, None] * coef.T)

    def values(self, documents: Documents, progress: Progress | None = None) -> NDArray[np.float64]:
        values = np.empty((len(documents), len(self.coef)))
        ends = np.cumsum(self.rows.kernel.patterns.occurrences(documents.lengths))
        cuts = np.flatnonzero(np.diff(ends // BATCH)) + 1
        for first, last in pairwise([0, *cuts.tolist(), len(documents)] if len(documents) else []):
            some = documents.take(np.arange(first, last))
            with devices.use(self.device):
                x, own = self.rows.project(self.rows.features, some, self.columns)
                sums = own.scale[:, None] * devices.to_host(x.dot(self.weights))
            own.finish_values(sums, self.coef, self.columns)
            values[first:last] = sums
            if progress is not None:
                progress(last, len(documents))
        return values


def normalisation_of(
    kernel: Any, documents: Documents, squares: NDArray[np.float64], columns: Normalisation | None = None
) -> Normalisation:
    """Scales of products of documents: without normalisation, X lacks a factor decay^p."""
    if kernel.normalised:
        return Normalisation(documents, squares, True, columns)
    unit = float(kernel.decay) ** int(kernel.p)
    own = Normalisation(documents, squares * unit**2, False, columns)
    own.scale = np.full(len(documents), unit)
    check_range(own.self_values, documents.lengths >= kernel.p)
    return own


def check_range(self_values: NDArray[np.float64], featured: NDArray[np.bool_]) -> None:
    """Raise InputError if unnormalised k(s, s) of documents with features pass the range of float32."""
    raw = self_values[featured]
    if len(raw) and not (raw.min() > 1e-30 and raw.max() < 1e38):
        raise InputError(
            f"k(s, s) of the bounded-gap kernel, {raw.min():.3g} to {raw.max():.3g}, pass the range of "
            "float32; leave normalised=True, or take another p or decay"
        )
