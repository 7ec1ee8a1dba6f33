"""Base classes of kernels of vectors, functions of |x|^2, |y|^2 and <x, y>.

    k(x, y) = value(<x, y>, |x|^2, |y|^2)

`VectorFunction` is such a function, for arrays of either device. cpu.py and cuda.py compute products and rows
of kernel values; a GPU applies the functions of finish.cuh where products are computed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.kernels.base import Kernel, is_number
from textsvm.kernels.contract import Ability, Cost, Lengths, Structure, Values
from textsvm.kernels.near import Nearest
from textsvm.kernels.vectors.cpu import HostVectorRows
from textsvm.linalg.vectors import NUMBERS, Vectors

if TYPE_CHECKING:
    from typing_extensions import Self

    from textsvm.runtime.device import Device

#: Seconds that a core takes for a value, and for each number of a vector in it.
VALUE_RATE, NUMBER_RATE = 2e-9, 3e-11


@dataclass(frozen=True)
class VectorFunction(ABC):
    """Kernel values from products; the fields are its parameters."""

    name: ClassVar[str] = ""  #: Name in finish.cuh; empty if it is not there
    shifts: ClassVar[bool] = False  #: Whether values do not change if all vectors are shifted alike

    @property
    def numbers(self) -> tuple[float, ...]:
        """The parameters, in the order of finish.cuh."""
        return astuple(self)

    @abstractmethod
    def value(self, products: Any, rows: Any, columns: Any) -> Any:
        """Kernel values, (m, n), from <x, y>, (m, n), |x|^2, (m, 1), and |y|^2, (n,).

        The products may be overwritten.
        """

    def put(self, products: NDArray[np.float64], rows: Any, columns: Any, out: NDArray[np.float32]) -> None:
        """Write kernel values to `out`, (m, n), on the host."""
        with np.errstate(over="ignore"):  # solvers report infinite values
            out[...] = self.value(products, rows, columns)


class VectorCost(Cost):
    """Cost of a kernel of vectors."""

    def of_rows(self, row_lengths: Lengths, column_lengths: Lengths) -> Values:
        # The time of a product of sparse vectors depends on the numbers that both have.
        return (VALUE_RATE + NUMBER_RATE * np.asarray(row_lengths, np.float64)) * len(column_lengths)


class VectorNearest(Nearest):
    """Search for copies of vectors: with a small gamma all vectors are close."""

    alike = 1 - 1e-5


class VectorKernel(Kernel):
    """A kernel of the form f(<x, y>, |x|^2, |y|^2)."""

    cost = Ability(VectorCost)
    nearest = Ability(VectorNearest)

    @property
    def structure(self) -> Structure:
        return Structure(self, NUMBERS)

    @property
    @abstractmethod
    def function(self) -> VectorFunction:
        """The function of a fitted kernel."""

    def rows(self, documents: Any, device: Device) -> Any:
        if device.kind == "cuda":
            from textsvm.kernels.vectors.cuda import CudaVectorRows

            return CudaVectorRows(self, documents, device)
        return HostVectorRows(self, documents, device)


class ScaledKernel(VectorKernel):
    """A kernel of vectors with a factor gamma; "scale" and "auto" are computed as in scikit-learn.

    Parameters
    ----------
    gamma : float > 0, "scale" or "auto"
        "scale" is 1 / (d * variance of all numbers of the training vectors), "auto" is 1 / d.
    """

    gamma: float | str

    @property
    def _factor(self) -> float:
        """The value of gamma."""
        return self._gamma if isinstance(self.gamma, str) else float(self.gamma)

    @property
    def _learns(self) -> bool:
        return isinstance(self.gamma, str) and self.gamma == "scale"

    def check(self) -> None:
        gamma = self.gamma
        known = (
            gamma in ("scale", "auto") if isinstance(gamma, str) else is_number(gamma) and 0 < gamma < np.inf
        )
        if not known:
            raise InputError(
                f"gamma={gamma!r} of the {self.name} kernel must be a finite number above 0, 'scale' or "
                "'auto'"
            )

    def fit(self, documents: Vectors, device: Device | None = None) -> Self:  # type: ignore[override]
        """Check the parameters and compute gamma."""
        self.check()
        self._gamma = 1 / documents.n_features
        if self.gamma == "scale":
            variance = documents.variance
            self._gamma = self._gamma / variance if 0 < variance < np.inf else 1.0
        return self

    def state(self) -> dict[str, NDArray[Any]]:
        return {"gamma": np.array([self._factor])} if isinstance(self.gamma, str) else {}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        if isinstance(self.gamma, str):
            [self._gamma] = state["gamma"].tolist()
            if not is_number(self._gamma) or not 0 < self._gamma < np.inf:
                raise InputError(f"gamma must be a finite number above 0, got {self._gamma!r}")


def check_coef0(kernel: Any) -> None:
    """Raise InputError if the `coef0` of a kernel is not a finite number."""
    if not is_number(kernel.coef0) or not np.isfinite(kernel.coef0):
        raise InputError(f"coef0={kernel.coef0!r} of the {kernel.name} kernel must be a finite number")
