"""Machines as they decide: by kernel values with their support vectors, or by one weight a feature."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from textsvm.documents import Documents
from textsvm.kernels.rows import KernelRows
from textsvm.parallel import Progress

if TYPE_CHECKING:
    from textsvm.device import Device


class Predictor(Protocol):
    """Values of machines at any documents, sum_i coef[k, i] k(support_i, document), where `device` says.

    Whatever can be prepared once for all predictions has been.
    """

    device: Device

    def values(self, documents: Documents, progress: Progress | None = None) -> NDArray[np.float64]:
        """Values without bias, shape (len(documents), n_machines), on the host, in bounded memory.

        The alphabet of `documents` must extend that of the support vectors.
        """


class Weights(Protocol):
    """Machines as one weight a feature, on the host, and what their kernel learnt: no support vectors."""

    @property
    def left_out(self) -> int:
        """Support vectors that have no feature, and so are not in it."""

    @property
    def n_machines(self) -> int:
        """How many machines there are."""

    def predictor(self, device: Device) -> Predictor:
        """Prepare them for prediction; that of the CPU has `contributions` (`SpectrumPredictor`), too."""

    def state(self, tolerance: float) -> dict[str, NDArray[Any]]:
        """Arrays for `Kernel.restore_weight_vectors`; values, normalised, move by `tolerance` at most."""


class RowsPredictor:
    """The `Predictor` of kernels that have no weight vector: kernel values with the support vectors.

    Parameters
    ----------
    rows : KernelRows
        Of the support vectors.
    coef : float64 array, shape (n_machines, n_sv)
    """

    def __init__(self, rows: KernelRows, coef: NDArray[np.float64]) -> None:
        self.rows, self.coef, self.device = rows, coef, rows.device

    def values(self, documents: Documents, progress: Progress | None = None) -> NDArray[np.float64]:
        """See `Predictor`."""
        return self.rows.decision(documents, self.coef.T, progress)
