"""What every kernel of vectors is: a function of |x|^2, |y|^2 and <x, y>.

    k(x, y) = value(<x, y>, |x|^2, |y|^2)

A subclass says `value`, value by value, for arrays of either device; what computes products and rows of
kernel values is in vector_rows.py (CPU) and vectors_cuda.py. On a card a kernel that has a `finish` is
finished where its products are made (kernels_cu/finish.cuh).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.kernels.base import Kernel, is_number
from textsvm.linalg.vectors import NUMBERS, Vectors
from textsvm.text.documents import View

if TYPE_CHECKING:
    from textsvm.runtime.device import Device

#: Seconds that a core takes for a value, and for each number of a vector in it.
VALUE_RATE, NUMBER_RATE = 2e-9, 3e-11


class VectorKernel(Kernel):
    """A kernel of the form f(<x, y>, |x|^2, |y|^2).

    Attributes
    ----------
    finish : str
        What finish.cuh calls it, with `numbers` of it; empty if it is not there.
    shifts : bool
        Whether its values stay where all vectors are shifted alike.
    """

    reads: ClassVar[str] = "vectors"
    # Neighbours are no copies: with a small gamma all vectors are close.
    alike: ClassVar[float] = 1 - 1e-5
    descent: ClassVar[bool] = False
    finish: ClassVar[str] = ""
    shifts: ClassVar[bool] = False

    @property
    def view(self) -> View:
        return NUMBERS

    @property
    def numbers(self) -> tuple[float, ...]:
        """The parameters of `finish`, once it is fitted."""
        return ()

    @abstractmethod
    def value(self, products: Any, rows: Any, columns: Any) -> Any:
        """Kernel values of some vectors x with others y.

        Parameters
        ----------
        products : float array, shape (m, n)
            <x, y>; may be overwritten.
        rows, columns : float arrays, shapes (m, 1) and (n,)
            |x|^2 and |y|^2.

        Returns
        -------
        float array, shape (m, n)
        """

    def put(self, products: NDArray[np.float64], rows: Any, columns: Any, out: NDArray[np.float32]) -> None:
        """Kernel values into `out`, (m, n), on the host; otherwise as `value`."""
        with np.errstate(over="ignore"):  # solvers say of an infinite value that it is one
            out[...] = self.value(products, rows, columns)

    def cost(self, row_lengths: NDArray[np.int64], column_lengths: NDArray[np.int64]) -> NDArray[np.float64]:
        # A product of two sparse vectors takes as long as numbers that both have.
        return (VALUE_RATE + NUMBER_RATE * np.asarray(row_lengths, np.float64)) * len(column_lengths)

    def rows(self, documents: Any, device: Device) -> Any:
        """Prepare vectors as the columns of rows to come."""
        if device.kind == "cuda":
            from textsvm.kernels.vectors.cuda import CudaVectorRows

            return CudaVectorRows(self, documents, device)
        from textsvm.kernels.vectors.cpu import HostVectorRows

        return HostVectorRows(self, documents, device)


class ScaledKernel(VectorKernel):
    """A kernel of vectors with a factor gamma, which "scale" and "auto" work out as scikit-learn does.

    Parameters
    ----------
    gamma : float > 0, "scale" or "auto"
        "scale" is 1 / (d * variance of all numbers of the training vectors), "auto" is 1 / d.
    """

    gamma: float | str

    @property
    def gamma_(self) -> float:
        """The factor."""
        return self._gamma if isinstance(self.gamma, str) else float(self.gamma)

    @property
    def learns(self) -> bool:
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

    def fit(self, documents: Vectors) -> ScaledKernel:  # type: ignore[override]
        """Check the parameters and work out gamma."""
        self.check()
        self._gamma = 1 / documents.n_features
        if self.gamma == "scale":
            variance = documents.variance
            self._gamma = self._gamma / variance if 0 < variance < np.inf else 1.0
        return self

    def state(self) -> dict[str, NDArray[Any]]:
        return {"gamma": np.array([self.gamma_])} if isinstance(self.gamma, str) else {}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        if isinstance(self.gamma, str):
            [self._gamma] = state["gamma"].tolist()
            if not is_number(self._gamma) or not 0 < self._gamma < np.inf:
                raise InputError(f"its gamma {self._gamma!r} is no finite number above 0")


def check_coef0(kernel: Any) -> None:
    """Raise InputError if the `coef0` of a kernel is not a finite number."""
    if not is_number(kernel.coef0) or not np.isfinite(kernel.coef0):
        raise InputError(f"coef0={kernel.coef0!r} of the {kernel.name} kernel must be a finite number")
