"""What becomes of products of vectors on a GPU: kernels_cu/finish.cuh."""

from __future__ import annotations

from typing import Any, Protocol

from textsvm.device import Defines

#: The names that finish.cuh has.
NAMES = ("linear", "polynomial", "gaussian", "sigmoid")


class Finish(Protocol):
    """A function of <x, y>, |x|^2 and |y|^2."""

    @property
    def name(self) -> str:
        """One of NAMES; of another, only products are computed."""

    @property
    def numbers(self) -> tuple[float, ...]:
        """Its gamma, coef0 and degree, as many as it has."""

    def value(self, products: Any, rows: Any, columns: Any, /) -> Any:
        """The same of float64 arrays: products (m, n), |x|^2 (m, 1) and |y|^2 (n,)."""


def finish_defines(name: str) -> Defines:
    """What a .cu that needs finish.cuh is specialised by."""
    return (("FINISH", name.upper() if name in NAMES else "LINEAR"),)


def finish_fields(finish: Finish) -> dict[str, float]:
    """The parameters of a finish as a structure that a kernel takes has them."""
    return dict(zip(("gamma", "coef0", "degree"), (*finish.numbers, 0.0, 0.0, 0.0), strict=False))
