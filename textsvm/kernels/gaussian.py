"""The Gaussian kernel of vectors, k(x, y) = exp(-gamma |x - y|^2)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from textsvm import device as devices
from textsvm.compiled import njit
from textsvm.kernels.gaussian_options import OPTIONS
from textsvm.kernels.option import Option
from textsvm.kernels.vectors import ScaledKernel


class Gaussian(ScaledKernel):
    """exp(-gamma |x - y|^2), scikit-learn's "rbf".

    Parameters
    ----------
    gamma : float > 0, "scale" or "auto"
        See `ScaledKernel`.

    Examples
    --------
    >>> from textsvm import Gaussian
    >>> print(Gaussian(gamma=0.5)([[0.0, 0.0]], [[1.0, 1.0], [0.0, 0.0]]).round(4))  # exp(-1), exp(0)
    [[0.3679 1.    ]]
    """

    name: ClassVar[str] = "gaussian"
    options: ClassVar[tuple[Option, ...]] = OPTIONS
    finish: ClassVar[str] = "gaussian"
    shifts: ClassVar[bool] = True

    def __init__(self, gamma: float | str = "scale") -> None:
        self.gamma = gamma

    @property
    def numbers(self) -> tuple[float, ...]:
        return (self.gamma_,)

    def value(self, products: Any, rows: Any, columns: Any) -> Any:
        xp = devices.array_module(devices.device_of(products))
        products *= -2
        products += rows
        products += columns
        return xp.exp(-self.gamma_ * xp.maximum(products, 0))

    def put(self, products: NDArray[np.float64], rows: Any, columns: Any, out: NDArray[np.float32]) -> None:
        _exponents(products, rows, columns, self.gamma_, out)
        np.exp(out, out=out)
        _correct(products, out)


@njit(nogil=True, cache=True, error_model="numpy")
def _exponents(
    products: NDArray[Any], rows: NDArray[Any], columns: NDArray[Any], gamma: float, out: NDArray[Any]
) -> None:
    """Exponents as float32, and in `products` what they lack of float64: exp(a + b) = exp(a) (1 + b)."""
    for i in range(products.shape[0]):
        row = rows[i, 0]
        for j in range(products.shape[1]):
            exponent = -gamma * max(row + columns[j] - 2 * products[i, j], 0.0)
            out[i, j] = exponent
            products[i, j] = exponent - out[i, j]


@njit(nogil=True, cache=True)
def _correct(rest: NDArray[Any], out: NDArray[Any]) -> None:
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] += out[i, j] * np.float32(rest[i, j])
