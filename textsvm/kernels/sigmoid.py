"""The sigmoid kernel of vectors, k(x, y) = tanh(gamma <x, y> + coef0)."""

from __future__ import annotations

from typing import Any, ClassVar

from textsvm import device as devices
from textsvm.kernels.option import Option
from textsvm.kernels.sigmoid_options import OPTIONS
from textsvm.kernels.vectors import ScaledKernel, check_coef0


class Sigmoid(ScaledKernel):
    """tanh(gamma <x, y> + coef0).

    Parameters
    ----------
    gamma : float > 0, "scale" or "auto"
        See `ScaledKernel`.
    coef0 : float

    Examples
    --------
    >>> from textsvm import Sigmoid
    >>> print(Sigmoid(gamma=1.0)([[1.0, 0.0]], [[0.5, 1.0]]).round(4))  # tanh(0.5)
    [[0.4621]]
    """

    name: ClassVar[str] = "sigmoid"
    options: ClassVar[tuple[Option, ...]] = OPTIONS
    finish: ClassVar[str] = "sigmoid"

    def __init__(self, gamma: float | str = "scale", coef0: float = 0.0) -> None:
        self.gamma = gamma
        self.coef0 = coef0

    @property
    def numbers(self) -> tuple[float, ...]:
        return self.gamma_, float(self.coef0)

    def check(self) -> None:
        super().check()
        check_coef0(self)

    def value(self, products: Any, rows: Any, columns: Any) -> Any:
        products *= self.gamma_
        products += self.coef0
        return devices.array_module(devices.device_of(products)).tanh(products)
