"""What kernels that know positions have in common: texts aligned at their starts, normalised, in lanes.

Position i of a text is compared with position i of another, or with one near it; behind the end of the
shorter text nothing matches. So texts of any lengths can be compared, and those that were cut around a site
(of splicing, of binding) have it at the same position.

The CPU twin takes documents in order of length, LANES columns of like length at a time (gap_sweep.py), and
cuts rows by columns into pieces of like work. What a piece computes is the kernel's own: a `Lanes`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.kernels.base import HostRows, KernelRows, SymbolKernel, is_whole
from textsvm.kernels.gap.sweep import PIECE, Picked, cut, in_lanes
from textsvm.kernels.normalisation import Normalisation
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress, run
from textsvm.runtime.simd import LANES
from textsvm.text.documents import Documents

#: Seconds that a piece of work may take, about.
SECONDS = 0.2


class Lanes(Protocol):
    """Column documents in lanes, ready to be compared."""

    def products(self, rows: Picked, groups: slice) -> NDArray[np.float64]:
        """k, not normalised: `which` of documents (codes, offsets, which) by all lanes of some groups."""


class PositionKernel(SymbolKernel):
    """A kernel that compares texts position by position; see the subclasses."""

    normalised: bool

    @abstractmethod
    def lanes(self, documents: Documents, groups: NDArray[np.int64]) -> Lanes:
        """Prepare documents as columns on the CPU: groups[g, lane] is a document, -1 none."""

    @abstractmethod
    def self_values(self, documents: Documents) -> NDArray[np.float64]:
        """k(s, s) of every document, not normalised."""

    @abstractmethod
    def on_card(self, longest: int) -> Any:
        """What the CUDA twin computes (`positions_cuda.Program`), of texts of that length at most."""

    def check_whole(self, name: str, least: int, most: int) -> None:
        """Raise InputError if a parameter is no whole number of a range."""
        value = getattr(self, name)
        if not (is_whole(value) and least <= value <= most):
            raise InputError(
                f"{name}={value!r} of the {self.name} kernel must be a whole number from {least} to {most:,}"
            )

    def check(self) -> None:
        super().check()
        if not isinstance(self.normalised, bool | np.bool_):
            raise InputError(
                f"normalised={self.normalised!r} of the {self.name} kernel must be True or False"
            )

    def divides(self, documents: Documents, kind: str = "cpu") -> bool:
        return True

    def rows(self, documents: Documents, device: Device) -> KernelRows:
        """Prepare `documents` as the columns of rows to come."""
        self.check()
        if device.kind == "cuda":
            from textsvm.kernels.positions.cuda import CudaPositions

            return CudaPositions(self, documents, device)
        return HostPositions(self, documents, device)

    def normalisation(self, documents: Documents, columns: Normalisation | None = None) -> Normalisation:
        """k(s, s) of documents; `columns`, that of those they are compared with, if these are others."""
        return Normalisation(documents, self.self_values(documents), bool(self.normalised), columns)


def overlaps(row_lengths: NDArray[np.int64], column_lengths: NDArray[np.int64]) -> NDArray[np.float64]:
    """Positions that each row document has in common with the column documents, in all."""
    lengths = np.sort(column_lengths)
    sums = np.concatenate([[0], np.cumsum(lengths)]).astype(np.float64)
    shorter = np.searchsorted(lengths, row_lengths)
    return sums[shorter] + (len(lengths) - shorter) * row_lengths.astype(np.float64)


class HostPositions(HostRows):
    """Rows on the CPU."""

    ahead = 1

    def __init__(self, kernel: PositionKernel, documents: Documents, device: Device) -> None:
        self.kernel, self.documents, self.device, self.n = kernel, documents, device, len(documents)
        self._groups, self._widths = in_lanes(documents)
        self._lanes = kernel.lanes(documents, self._groups)
        self.normalisation = kernel.normalisation(documents)

    def diag(self) -> NDArray[np.float32]:
        return self.normalisation.diagonal()

    def rows(self, indices: NDArray[np.int64]) -> NDArray[np.float32]:
        indices = np.asarray(indices, np.int64)
        values = np.empty((len(indices), self.n), np.float32)
        self._fill(values, self.documents.take(indices), self.normalisation.take(indices))
        return values

    def gram(self, progress: Progress | None = None) -> NDArray[np.float32]:
        values = np.empty((self.n, self.n), np.float32)
        self._fill(values, self.documents, self.normalisation, progress, half=True)
        values[np.diag_indices(self.n)] = self.diag()
        return values

    def cross(self, others: Documents, progress: Progress | None = None) -> NDArray[np.float32]:
        values = np.empty((len(others), self.n), np.float32)
        self._fill(values, others, self.kernel.normalisation(others, self.normalisation), progress)
        return values

    def _fill(
        self,
        values: NDArray[np.float32],
        others: Documents,
        own: Normalisation,
        progress: Progress | None = None,
        half: bool = False,
    ) -> None:
        """values[i, j] = k(others[i], documents[j]); with `half`, of every pair once and copied."""
        order = np.argsort(others.lengths, kind="stable")
        lengths, codes, offsets = others.lengths[order], others.codes_for(), np.array(others.offsets)

        def work(piece: tuple[slice, slice]) -> None:
            chunk, some = piece
            which, columns = order[chunk], self._groups[some].ravel()[: self.n - some.start * LANES]
            sums = self._lanes.products((codes, offsets, which), some)[:, : len(columns)]
            sums *= own.scale[which, None] * self.normalisation.scale[columns]
            own.take(which).finish_rows(sums, self.normalisation.take(columns))
            for k, row in enumerate(which):
                # Positions in the order of length; the pairs before this one are another row's.
                first = max(0, chunk.start + k - some.start * LANES) if half else 0
                values[row, columns[first:]] = sums[k, first:]
                if half:
                    values[columns[first:], row] = sums[k, first:]

        pieces, costs = [], []
        for chunk in cut(lengths, self._symbols):
            first = chunk.start // LANES if half else 0
            for some in cut(self._widths[first:] * LANES, self._symbols):
                pieces.append((chunk, slice(first + some.start, first + some.stop)))
                costs.append(float(lengths[chunk].sum() + 1) * float(self._widths[pieces[-1][1]].sum() + 1))
        # The longest documents first: cores then end together.
        run(work, pieces[::-1], costs[::-1], progress)

    @property
    def _symbols(self) -> int:
        """Symbols of rows, and of columns, that make a piece of work."""
        text = np.full(PIECE // 100, 100)
        return int(PIECE * np.clip((SECONDS / self.kernel.cost(text, text).sum()) ** 0.5, 0.02, 50))
