"""Kernels that compare texts position by position: base class, attribution and rows on a CPU.

Position i of a text is compared with position i of another, or with positions near it; nothing matches behind
the end of the shorter text. Texts of any lengths can be compared, and texts cut around a site (of splicing,
of binding) have it at the same position.

Documents are taken in order of length, LANES columns of similar length at a time (shared/lanes.py). Rows by
columns are cut into pieces of similar work.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Protocol

import numpy as np

from textsvm.arrays import AnyArray, Floats, Floats32, Ints
from textsvm.kernels.attribution import Attributor, Contributions
from textsvm.kernels.base import SymbolKernel
from textsvm.kernels.contract import HostRows, KernelRows
from textsvm.kernels.positions.cuda import CudaPositions
from textsvm.kernels.shared.lanes import PIECE, Picked, cut, in_lanes
from textsvm.kernels.shared.normalisation import Normalisation, longest_of, normalisation_of
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress, run
from textsvm.runtime.simd import LANES
from textsvm.text.documents import Documents

#: Seconds that a piece of work takes, about.
SECONDS = 0.2


class Lanes(Protocol):
    """Column documents in lanes, ready to be compared."""

    def products(self, rows: Picked, groups: slice) -> Floats:
        """Values, not normalised, of rows (codes, offsets, indices) with all lanes of some groups."""


class Definition(Protocol):
    """Parameters of a kernel for texts up to some length."""

    source: ClassVar[str]  #: File of the GPU twin

    @property
    def table(self) -> Floats:
        """Look-up table of the GPU twin."""

    @property
    def numbers(self) -> dict[str, float]:
        """Fields of the GPU twin's Task."""

    def self_values(self, documents: Documents) -> Floats:
        """k(s, s) of every document, not normalised."""

    def share(self, x: AnyArray, codes: AnyArray, offsets: Ints, factors: Floats) -> Floats:
        """Contributions of the symbols x to the sum of factors times values with documents."""


class PositionAttributor(Attributor):
    """Exact attribution by matches."""

    def contributions(
        self, rows: KernelRows, documents: Documents, coef: Floats, values: Floats, progress: Progress | None
    ) -> Contributions:
        support, symbols = rows.documents, []
        codes, offsets = support.codes_for(documents), np.array(support.offsets)
        scale = normalisation_of(self.kernel, support).scale
        own, others = normalisation_of(self.kernel, documents).scale, documents.codes_for(support)
        definition = self.kernel.definition(max(longest_of(documents), longest_of(support)))
        for d in range(len(documents)):
            x = others[documents.offsets[d] : documents.offsets[d + 1]]
            shares = definition.share(x, codes, offsets, coef[d] * scale * own[d])
            symbols.append(documents.spread(d, shares))
            if progress is not None:
                progress(d + 1, len(documents))
        return Contributions(symbols)


class PositionKernel(SymbolKernel):
    """A kernel that compares texts position by position."""

    normalised: bool

    @abstractmethod
    def definition(self, longest: int) -> Definition:
        """Parameters for texts of at most this length."""

    @abstractmethod
    def _lanes(self, documents: Documents, groups: Ints) -> Lanes:
        """Prepare documents as columns on the CPU: groups[g, lane] is a document, -1 none."""

    def rows(self, documents: Documents, device: Device) -> KernelRows:
        self.check()
        return (CudaPositions if device.kind == "cuda" else HostPositions)(self, documents, device)


def overlaps(row_lengths: Ints, column_lengths: Ints) -> Floats:
    """Total number of common positions of each row document with the column documents."""
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
        self._lanes = kernel._lanes(documents, self._groups)
        self.normalisation = normalisation_of(kernel, documents)

    def diag(self) -> Floats32:
        return self.normalisation.diagonal()

    def rows(self, indices: Ints) -> Floats32:
        indices = np.asarray(indices, np.int64)
        values = np.empty((len(indices), self.n), np.float32)
        self._fill(values, self.documents.take(indices), self.normalisation.take(indices))
        return values

    def gram(self, progress: Progress | None = None) -> Floats32:
        values = np.empty((self.n, self.n), np.float32)
        self._fill(values, self.documents, self.normalisation, progress, half=True)
        values[np.diag_indices(self.n)] = self.diag()
        return values

    def cross(self, others: Documents, progress: Progress | None = None) -> Floats32:
        values = np.empty((len(others), self.n), np.float32)
        self._fill(values, others, normalisation_of(self.kernel, others, self.normalisation), progress)
        return values

    def _fill(
        self,
        values: Floats32,
        others: Documents,
        own: Normalisation,
        progress: Progress | None = None,
        half: bool = False,
    ) -> None:
        """values[i, j] = k(others[i], documents[j]); with `half`, each pair once and its mirror image."""
        order = np.argsort(others.lengths, kind="stable")
        lengths, codes, offsets = others.lengths[order], others.codes_for(), np.array(others.offsets)

        def work(piece: tuple[slice, slice]) -> None:
            chunk, groups = piece
            which, columns = order[chunk], self._groups[groups].ravel()[: self.n - groups.start * LANES]
            sums = self._lanes.products((codes, offsets, which), groups)[:, : len(columns)]
            sums *= own.scale[which, None] * self.normalisation.scale[columns]
            own.take(which).finish_rows(sums, self.normalisation.take(columns))
            for k, row in enumerate(which):
                # Positions in the order of length; earlier pairs belong to other rows.
                first = max(0, chunk.start + k - groups.start * LANES) if half else 0
                values[row, columns[first:]] = sums[k, first:]
                if half:
                    values[columns[first:], row] = sums[k, first:]

        pieces, costs = [], []
        for chunk in cut(lengths, self._symbols):
            first = chunk.start // LANES if half else 0
            for groups in cut(self._widths[first:] * LANES, self._symbols):
                pieces.append((chunk, slice(first + groups.start, first + groups.stop)))
                costs.append(float(lengths[chunk].sum() + 1) * float(self._widths[pieces[-1][1]].sum() + 1))
        # The longest documents first, so that all cores end together.
        run(work, pieces[::-1], costs[::-1], progress)

    @property
    def _symbols(self) -> int:
        """Symbols of the rows, and of the columns, of a piece of work."""
        text = np.full(PIECE // 100, 100)
        return int(PIECE * np.clip((SECONDS / self.kernel.cost.of_rows(text, text).sum()) ** 0.5, 0.02, 50))
