"""What becomes of products of vectors on a GPU: kernels_cu/finish.cuh."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from textsvm.device import Defines

Array = Any  # a CuPy array
#: The names that finish.cuh has.
NAMES = ("linear", "polynomial", "gaussian", "sigmoid")


@dataclass(frozen=True)
class Finish:
    """A function of <x, y>, |x|^2 and |y|^2.

    Attributes
    ----------
    name : str
        One of NAMES; of another, only products are computed, and then its value.
    numbers : tuple of float
        Its parameters: gamma, coef0, degree, as many as it has.
    value : callable
        The same of float64 arrays: products (m, n), |x|^2 (m, 1) and |y|^2 (n,).
    """

    name: str
    numbers: tuple[float, ...]
    value: Callable[[Array, Array, Array], Array]

    @property
    def known(self) -> bool:
        """Whether finish.cuh has it."""
        return self.name in NAMES

    @property
    def gamma(self) -> float | None:
        """Of a function of gamma |x - y|^2 alone, whatever the origin is; None of others."""
        return self.numbers[0] if self.name == "gaussian" else None


def finish_defines(name: str) -> Defines:
    """What a .cu that needs finish.cuh is specialised by."""
    return (("FINISH", name if name in NAMES else "linear"),)


def finish_fields(finish: Finish | None) -> dict[str, float]:
    """The parameters of a finish as a structure that a kernel takes has them; zeros for none."""
    numbers = finish.numbers if finish else ()
    return dict(zip(("gamma", "coef0", "degree"), (*numbers, 0.0, 0.0, 0.0), strict=False))
