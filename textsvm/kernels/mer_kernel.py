"""What kernels of distances between l-mers have in common: see mer_rows.py."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from textsvm.device import Device
from textsvm.documents import Documents
from textsvm.errors import InputError
from textsvm.features.mers import Centred
from textsvm.kernels.attribution import Attribution, Contributions
from textsvm.kernels.base import Predictor, SymbolKernel, is_whole
from textsvm.kernels.mer_attribution import MERS, mer_contributions
from textsvm.kernels.mer_distances import HostMers
from textsvm.kernels.mer_rows import MerRows
from textsvm.parallel import Progress

#: Pairs of l-mers a second, of weight 1.
RATE = 8e9
#: Mismatches that may count.
MOST = 15


class MerKernel(SymbolKernel):
    """A kernel that sums a weight of the distance over all pairs of l-mers.

    A subclass has `length`, `weights` and its own `check`.
    """

    attribution: ClassVar[Attribution] = MERS
    canonical: bool
    alphabet: int
    normalised: bool

    @property
    @abstractmethod
    def length(self) -> int:
        """Symbols of an l-mer."""

    @property
    @abstractmethod
    def weights(self) -> NDArray[np.float64]:
        """w(0), w(1), ...: what pairs at these distances count, 0 beyond."""

    @property
    def centred(self) -> Centred | None:
        """Weights of positions, None: all alike."""
        return None

    @property
    def counts_letters(self) -> bool:
        """Whether the weights depend on the size of the alphabet."""
        return True

    @property
    def min_length(self) -> int:
        return self.length

    def check(self) -> None:
        super().check()
        if not isinstance(self.canonical, bool | np.bool_):
            raise InputError(f"canonical={self.canonical!r} of the {self.name} kernel must be True or False")
        if self.canonical and self.tokens != "characters":
            raise InputError(
                f"canonical=True reads letters of DNA or RNA, so tokens={self.tokens!r} cannot go with it"
            )
        if not is_whole(self.alphabet) or self.alphabet < 2:
            raise InputError(
                f"alphabet={self.alphabet!r} is no number of letters: give a whole number from 2"
            )
        if self.canonical and self.alphabet != 4:
            raise InputError(
                f"canonical=True reads the 4 letters of DNA, so alphabet={self.alphabet} must be 4"
            )

    def fit(self, documents: Documents) -> MerKernel:
        self.check()
        if self.counts_letters and not self.canonical:
            letters = np.count_nonzero(np.bincount(documents.codes))
            if letters > self.alphabet:
                raise InputError(
                    f"the texts have {letters:,} different symbols, and the {self.name} kernel counts over "
                    f"an alphabet of {self.alphabet}; give alphabet={letters}"
                )
        return self

    def rows(self, documents: Documents, device: Device) -> MerRows:
        self.check()
        if device.kind == "cuda":
            from textsvm.kernels.mer_distances_cuda import CudaMers

            return CudaMers(self, documents, device)
        return HostMers(self, documents, device)

    def predictor(self, support: Documents, coef: NDArray[np.float64], device: Device) -> Predictor:
        return self.rows(support, device).predictor(coef)

    def cost(self, row_lengths: NDArray[np.int64], column_lengths: NDArray[np.int64]) -> NDArray[np.float64]:
        rows, columns = (np.maximum(each - self.length + 1, 0.0) for each in (row_lengths, column_lengths))
        each = (2 if self.canonical else 1) * (self.length + 3 * len(self.weights)) / 22
        return rows * columns.sum() * each * (1 if self.centred is None else 4) / RATE

    def divides(self, documents: Documents, kind: str = "cpu") -> bool:
        return True

    def contributions(
        self,
        rows: Any,
        documents: Documents,
        coef: NDArray[np.float64],
        values: NDArray[np.float64],
        progress: Progress | None = None,
    ) -> Contributions:
        return mer_contributions(rows, documents, coef, progress)

    def contributions_cost(
        self, lengths: NDArray[np.int64], support_lengths: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        return 4 * self.cost(lengths, support_lengths)
