"""The polynomial kernel of vectors, k(x, y) = (gamma <x, y> + coef0)^degree."""

from __future__ import annotations

from typing import Any, ClassVar

from textsvm.errors import InputError
from textsvm.kernels.base import is_whole
from textsvm.kernels.option import Option
from textsvm.kernels.polynomial_options import OPTIONS
from textsvm.kernels.vectors import ScaledKernel, check_coef0

#: The greatest degree: a float64 tells even and odd ones apart, and a C int holds it.
MOST = (1 << 31) - 1


class Polynomial(ScaledKernel):
    """(gamma <x, y> + coef0)^degree.

    Parameters
    ----------
    gamma : float > 0, "scale" or "auto"
        See `ScaledKernel`.
    degree : int, 1 or more
    coef0 : float

    Examples
    --------
    >>> from textsvm import Polynomial
    >>> print(Polynomial(gamma=1.0, degree=2, coef0=1.0)([[1.0, 2.0]], [[3.0, 4.0]]))  # (11 + 1)^2
    [[144.]]
    """

    name: ClassVar[str] = "polynomial"
    options: ClassVar[tuple[Option, ...]] = OPTIONS
    finish: ClassVar[str] = "polynomial"

    def __init__(self, degree: int = 3, gamma: float | str = "scale", coef0: float = 0.0) -> None:
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0

    @property
    def numbers(self) -> tuple[float, ...]:
        return self.gamma_, float(self.coef0), float(self.degree)

    def check(self) -> None:
        super().check()
        if not is_whole(self.degree) or not 1 <= self.degree <= MOST:
            raise InputError(
                f"degree={self.degree!r} of the polynomial kernel must be a whole number from 1 to {MOST:,}"
            )
        check_coef0(self)

    def value(self, products: Any, rows: Any, columns: Any) -> Any:
        products *= self.gamma_
        products += self.coef0
        return _power(products, int(self.degree))


def _power(base: Any, exponent: int) -> Any:
    """A whole power by squares, which pow() takes ten times as long for; `base` is overwritten."""
    found = None
    while exponent:
        if exponent & 1:
            found = base.copy() if found is None else found * base
        exponent >>= 1
        if exponent:
            base *= base
    return found
