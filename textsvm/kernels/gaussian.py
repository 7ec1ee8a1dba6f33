"""The Gaussian kernel of vectors, k(x, y) = exp(-gamma |x - y|^2)."""

from __future__ import annotations

from typing import Any, ClassVar

from textsvm import device as devices
from textsvm.kernels.gaussian_options import OPTIONS
from textsvm.kernels.option import Option
from textsvm.kernels.vectors import ScaledKernel


class Gaussian(ScaledKernel):
    """exp(-gamma |x - y|^2), scikit-learn's "rbf".

    Parameters
    ----------
    gamma : float > 0, "scale" or "auto"
        See `ScaledKernel`.
    """

    name: ClassVar[str] = "gaussian"
    options: ClassVar[tuple[Option, ...]] = OPTIONS
    finish: ClassVar[str] = "gaussian"

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
