"""What the twins of kernels of distances between l-mers have in common.

    k(s, t) = sum_(u in s, v in t) a(u) b(v) w(d(u, v)),

u and v the l-mers, d(u, v) at how many of the l positions they differ, w the weights of the distances
(mer_weights.py), a and b weights of positions, 1 but where a kernel is centred. A twin counts the pairs of
l-mers at every distance, whole numbers, so that a value has the same bits wherever it is computed: the sum of
w(d) times its count, in the order of d, times one product of both scales, rounded to float32.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from textsvm.kernels.contract import BLOCK_BYTES
from textsvm.kernels.mers.mers import Mers, mers_of
from textsvm.kernels.mers.scores import MerPredictor
from textsvm.kernels.normalisation import Normalisation
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress
from textsvm.text.documents import Documents


class Parameters(Protocol):
    """Parameters of a kernel of distances between l-mers."""

    canonical: bool
    normalised: bool

    @property
    def definition(self) -> Any:
        """`textsvm.kernels.mers.kernel.MerDefinition`."""

    @property
    def cost(self) -> Any:
        """`textsvm.kernels.contract.Cost`."""


class MerRows(ABC):
    """Kernel values against fixed documents (`KernelRows`).

    Parameters
    ----------
    kernel : Parameters
    documents : Documents
        The columns.
    device : Device
    """

    ahead = 16

    def __init__(self, kernel: Parameters, documents: Documents, device: Device) -> None:
        self.kernel, self.documents, self.device = kernel, documents, device
        self.n = len(documents)
        # Of the pairs of both strands of two sequences, half are compared.
        self.weights = kernel.definition.weights * (2 if kernel.canonical else 1)
        self.own, self.columns = self.mers(documents)
        with devices.use(device):
            self.prepare()

    def mers(self, documents: Documents) -> tuple[Mers, Mers]:
        """The l-mers of documents, as rows and as columns."""
        definition = self.kernel.definition
        return mers_of(documents, definition.length, bool(self.kernel.canonical), definition.centred)

    @abstractmethod
    def prepare(self) -> None:
        """Lay out the columns, where the work is done."""

    @abstractmethod
    def self_values(self, rows: Mers, columns: Mers) -> NDArray[np.float64]:
        """k(s, s) of documents, on the host."""

    @abstractmethod
    def products(self, rows: Mers, scale: NDArray[np.float64], progress: Progress | None = None) -> Any:
        """Of documents with the columns, times both scales: float32, shape (number of rows, n)."""

    @abstractmethod
    def half(self, progress: Progress | None = None) -> Any:
        """Those of the columns with themselves, one half computed."""

    @abstractmethod
    def table(self, of_mers: NDArray[np.float64]) -> Any:
        """Scores of all l-mers, from weights (n_machines, number of l-mers) of those of the columns."""

    @cached_property
    def normalisation(self) -> Normalisation:
        """k(s, s) of the columns."""
        with devices.use(self.device):
            values = self.self_values(self.own, self.columns)
        return Normalisation(self.documents, values, self.kernel.normalised)

    def normalise(self, others: Documents, rows: Mers, columns: Mers) -> Normalisation:
        """k(s, s) of other documents."""
        if not self.kernel.normalised:
            return Normalisation(others, np.zeros(len(others)), False)
        return Normalisation(others, self.self_values(rows, columns), True, self.normalisation)

    def diag(self) -> Any:
        with devices.use(self.device):
            return devices.array_module(self.device).asarray(self.normalisation.diagonal())

    def rows(self, indices: NDArray[np.int64]) -> Any:
        indices = np.asarray(indices, np.int64)
        own = self.normalisation.take(indices)
        with devices.use(self.device):
            xp = devices.array_module(self.device)
            found = self.products(self.own.take(indices), own.scale)
            own.finish_rows(found, self.normalisation)
            if self.kernel.normalised:
                found[xp.arange(len(indices)), xp.asarray(indices)] = 1
            return found

    def gram(self, progress: Progress | None = None) -> Any:
        columns = self.normalisation
        with devices.use(self.device):
            found = self.half(progress)
            columns.finish_gram(found)
            return found

    def cross(self, others: Documents, progress: Progress | None = None) -> Any:
        with devices.use(self.device):
            rows, columns = self.mers(others)
            own = self.normalise(others, rows, columns)
            found = self.products(rows, own.scale, progress)
            own.finish_rows(found, self.normalisation)
            return found

    def decision(
        self, others: Documents, coef: NDArray[np.float64], progress: Progress | None = None
    ) -> NDArray[np.float64]:
        return self.predictor(coef.T).values(others, progress)

    def by_rows(
        self, others: Documents, coef: NDArray[np.float64], progress: Progress | None = None
    ) -> NDArray[np.float64]:
        """k(others, documents) @ coef by kernel values, coef of shape (n, k)."""
        values = np.empty((len(others), coef.shape[1]))
        size = max(1, BLOCK_BYTES // (4 * max(1, self.n)))
        for start in range(0, len(others), size):
            block = others.take(np.arange(start, min(start + size, len(others))))
            values[start : start + size] = devices.to_host(self.cross(block)) @ coef
            if progress is not None:
                progress(start + len(block), len(others))
        return values

    def predictor(self, coef: NDArray[np.float64]) -> MerPredictor:
        """Machines on the columns, coef of shape (n_machines, n)."""
        return MerPredictor(self, coef)
