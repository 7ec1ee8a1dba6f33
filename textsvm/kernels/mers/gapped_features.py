"""What the twins of the kernel of gapped k-mers have in common: features, mask by mask; see gapped.py."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from textsvm.kernels.contract import BLOCK_BYTES, Predictor, RowsPredictor
from textsvm.kernels.mers.gapped_kmers import Mask
from textsvm.kernels.mers.gapped_tables import Tables, Texts, base_of
from textsvm.kernels.normalisation import Normalisation
from textsvm.kernels.spectrum.features import weigh
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress
from textsvm.text.documents import Documents

#: Bytes of the features of the column documents that are kept; where they are more, they are made again.
KEEP_BYTES, ENTRY_BYTES = 1 << 29, 48
#: Bytes of weight vectors; where they are more, a prediction compares with the support vectors.
WEIGHT_BYTES = 1 << 30
#: Symbols of documents that are predicted together.
BATCH = 1 << 23


class Parameters(Protocol):
    """The parameters of `textsvm.kernels.mers.gapped.GappedKmers`."""

    g: int
    weight: str
    canonical: bool
    normalised: bool

    @property
    def masks(self) -> tuple[Mask, ...]:
        """What is compared of a window."""


class OneMask(Protocol):
    """Documents as rows of the features of one mask, on either device."""

    @property
    def mask(self) -> Mask:
        """What is compared."""

    @property
    def vocabulary(self) -> Any:
        """Finds the features of these documents in others."""

    @property
    def x(self) -> Any:
        """X, a `Sparse` or `CudaSparse`."""

    @property
    def columns(self) -> Any:
        """X by columns."""

    @property
    def squares(self) -> NDArray[np.float64]:
        """|x|^2 of every row, `mask.times` times, on the host."""

    def over(self, vocabulary: Any) -> Any:
        """X over the features of other documents."""

    def products(self, x: Any) -> Any:
        """Products of the rows of `x`, over the same features, with those of X, `mask.times` times."""

    def rows(self, indices: NDArray[np.int64]) -> Any:
        """The same for some of its own rows."""


class GappedRows(ABC):
    """Kernel values against fixed documents (`KernelRows`); a twin says how one mask is done.

    Parameters
    ----------
    kernel : GappedKmers
    documents : Documents
        The columns.
    device : Device
    """

    ahead = 64  # a pass over the masks takes as long for one

    def __init__(self, kernel: Parameters, documents: Documents, device: Device) -> None:
        self.kernel, self.documents, self.device = kernel, documents, device
        self.n = len(documents)
        with devices.use(device):
            self.windows = self.windows_of(kernel, documents)
        self._kept: list[OneMask] = []

    @staticmethod
    @abstractmethod
    def windows_of(kernel: Parameters, documents: Documents) -> Any:
        """The windows of documents, where the work is done."""

    @staticmethod
    @abstractmethod
    def represent(kernel: Parameters, windows: Any, mask: Mask) -> OneMask:
        """What a mask makes of windows."""

    @staticmethod
    @abstractmethod
    def can_look_up(texts: Texts, keys: int) -> bool:
        """Whether `look_up` has room for the possible keys of a mask."""

    @staticmethod
    @abstractmethod
    def look_up(
        texts: Texts, tables: Tables, values: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """See `textsvm.kernels.mers.gapped_tables.look_up`."""

    @abstractmethod
    def gram(self, progress: Progress | None = None) -> Any:
        """See `KernelRows`."""

    def made(self) -> Iterator[OneMask]:
        """The column documents, one mask after the other, made as they are needed."""
        return (self.represent(self.kernel, self.windows, mask) for mask in self.kernel.masks)

    def parts(self) -> Iterator[OneMask]:
        """The same, kept where they are small."""
        small = len(self.kernel.masks) * len(self.windows.starts) * ENTRY_BYTES <= KEEP_BYTES
        if small and not self._kept:
            self._kept = list(self.made())
        return iter(self._kept) if small else self.made()

    @cached_property
    def normalisation(self) -> Normalisation:
        """k(s, s) of the columns."""
        with devices.use(self.device):
            return self._normalisation(sum((part.squares for part in self.parts()), np.zeros(self.n)))

    def _normalisation(self, squares: NDArray[np.float64]) -> Normalisation:
        return Normalisation(self.documents, squares, self.kernel.normalised)

    def diag(self) -> Any:
        with devices.use(self.device):
            return devices.array_module(self.device).asarray(self.normalisation.diagonal())

    def rows(self, indices: NDArray[np.int64]) -> Any:
        indices = np.asarray(indices, np.int64)
        with devices.use(self.device):
            xp = devices.array_module(self.device)
            total = xp.zeros((len(indices), self.n), np.float32)
            for part in self.parts():
                total += part.rows(indices)
            finish(total, self.normalisation.take(indices), self.normalisation)
            if self.kernel.normalised:
                total[xp.arange(len(indices)), xp.asarray(indices)] = 1
            return total

    def cross(self, others: Documents, progress: Progress | None = None) -> Any:
        columns = self.normalisation
        with devices.use(self.device):
            total = devices.array_module(self.device).zeros((len(others), self.n), np.float32)
            windows, squares = self.windows_of(self.kernel, others), np.zeros(len(others))
            for number, part in enumerate(self.parts() if len(others) else (), 1):
                own = self.represent(self.kernel, windows, part.mask)
                squares += own.squares
                total += part.products(own.over(part.vocabulary))
                report(progress, number, len(self.kernel.masks))
            finish(total, Normalisation(others, squares, self.kernel.normalised, columns), columns)
            return total

    def decision(
        self, others: Documents, coef: NDArray[np.float64], progress: Progress | None = None
    ) -> NDArray[np.float64]:
        if self.few_features(coef.shape[1]):
            return GappedPredictor(self, coef.T).values(others, progress)
        values = np.empty((len(others), coef.shape[1]))
        size = max(1, BLOCK_BYTES // (4 * max(1, self.n)))
        for start in range(0, len(others), size):
            block = others.take(np.arange(start, min(start + size, len(others))))
            values[start : start + size] = devices.to_host(self.cross(block)) @ coef
            report(progress, start + len(block), len(others))
        return values

    def predictor(self, coef: NDArray[np.float64]) -> Predictor:
        """In the space of the features, where they are not too many; coef has shape (n_machines, n)."""
        return GappedPredictor(self, coef) if self.few_features(len(coef)) else RowsPredictor(self, coef)

    def few_features(self, n_machines: int) -> bool:
        """Whether there is room for a weight vector of each machine."""
        kept = len(self.kernel.masks[0].kept)
        most = min(len(self.windows.starts), self.windows.n_symbols**kept)
        return most * len(self.kernel.masks) * 8 * (1 + n_machines) <= WEIGHT_BYTES


class GappedPredictor:
    """Prediction in feature space, on either device: see `Predictor`.

    Parameters
    ----------
    rows : GappedRows
        Of the support vectors.
    coef : float64 array, shape (n_machines, n_sv)
    """

    def __init__(self, rows: GappedRows, coef: NDArray[np.float64]) -> None:
        self.device, self.coef, self.kernel = rows.device, coef, rows.kernel
        self.twin, self.columns = type(rows), rows.normalisation
        scaled = self.columns.scale[:, None] * coef.T
        with devices.use(self.device):
            self.weights = [
                (part.mask, part.vocabulary, part.x.transposed_dot(part.mask.times * scaled))
                for part in rows.parts()
            ]
        self._made: dict[int, Tables] = {}

    def values(self, documents: Documents, progress: Progress | None = None) -> NDArray[np.float64]:
        """See `Predictor`."""
        values = np.empty((len(documents), len(self.coef)))
        with devices.use(self.device):
            for first, last in batches(documents):
                values[first:last] = self._values(documents.take(np.arange(first, last)))
                report(progress, last, len(documents))
        return values

    def _values(self, documents: Documents) -> NDArray[np.float64]:
        texts = Texts.of(documents, self.kernel.g, self.kernel.canonical)
        base = max(self._base, texts.n_symbols) if texts is not None and self._base else 0
        if texts is not None and base and self._has_room(texts, base):
            counts = values_of(self.kernel.weight, texts.windows).astype(np.float64)
            values, squares = self.twin.look_up(texts, self._tables(base), counts)
        else:
            values, squares = self._counted(documents)
        own_scale = Normalisation(documents, squares, self.kernel.normalised, self.columns)
        values *= own_scale.scale[:, None]
        own_scale.finish_values(values, self.coef, self.columns)
        return values

    def _counted(self, documents: Documents) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sums of weights and k(s, s), from counts of all features of the documents."""
        windows, squares = self.twin.windows_of(self.kernel, documents), np.zeros(len(documents))
        values = np.zeros((len(documents), len(self.coef)))
        for mask, vocabulary, weights in self.weights:
            own = self.twin.represent(self.kernel, windows, mask)
            squares += own.squares
            values += devices.to_host(own.over(vocabulary).dot(weights))
        return values, squares

    @cached_property
    def _base(self) -> int:
        return base_of(self.weights)

    def _has_room(self, texts: Texts, base: int) -> bool:
        keys = base ** len(self.weights[0][0].kept)
        fits = self.twin.can_look_up(texts, keys)
        return fits and 8 * keys * len(self.weights) * len(self.coef) <= WEIGHT_BYTES

    def _tables(self, base: int) -> Tables:
        if base not in self._made:
            self._made[base] = Tables.of(self.weights, base)
        return self._made[base]


def batches(documents: Documents) -> list[tuple[int, int]]:
    """Ranges of documents of at most about BATCH symbols, or of one document."""
    cuts = np.flatnonzero(np.diff(documents.offsets[:-1] // BATCH)) + 1
    begins = [0, *cuts.tolist()] if len(documents) else []
    return list(zip(begins, [*begins[1:], len(documents)], strict=True)) if begins else []


def finish(total: Any, own: Normalisation, columns: Normalisation) -> None:
    """Sums of products to kernel values, in place: matrix of (own, columns), NumPy or CuPy."""
    xp = devices.array_module(devices.device_of(total))
    if own.normalised:
        row_scale, scale = xp.asarray(own.scale), xp.asarray(columns.scale)
        size = max(1, (1 << 22) // max(1, len(scale)))
        for first in range(0, len(total), size):
            some = slice(first, first + size)
            total[some] = total[some] * (row_scale[some, None] * scale)
    own.finish_rows(total, columns)


def values_of(weight: str, most: int) -> NDArray[np.float32]:
    """What becomes of 0, 1, 2, ... and `most` occurrences; 0 of none."""
    return np.append(0, weigh(weight, np.arange(1, most + 1, dtype=np.int32))).astype(np.float32)


def report(progress: Progress | None, done: float, total: float) -> None:
    """Call `progress`, if there is one."""
    if progress is not None:
        progress(done, total)
