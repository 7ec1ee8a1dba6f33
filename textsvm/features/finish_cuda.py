"""What becomes of products of vectors on a GPU: kernels_cu/finish.cuh."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from textsvm.device import Defines

#: The names that finish.cuh has.
NAMES = ("linear", "polynomial", "gaussian", "sigmoid")


@dataclass(frozen=True)
class Finish:
    """A function of <x, y>, |x|^2 and |y|^2.

    Attributes
    ----------
    name : str
        One of NAMES; another is computed by `value`, of products.
    numbers : tuple of float
        Its gamma, coef0 and degree, as many as it has.
    value : callable
        The same of float64 arrays: products (m, n), |x|^2 (m, 1) and |y|^2 (n,).
    """

    name: str
    numbers: tuple[float, ...]
    value: Callable[[Any, Any, Any], Any]


def finish_defines(name: str) -> Defines:
    """What a .cu that needs finish.cuh is specialised by."""
    return (("FINISH", name.upper() if name in NAMES else "LINEAR"),)


def finish_fields(finish: Finish) -> dict[str, float]:
    """The parameters of a finish as a structure that a kernel takes has them."""
    return dict(zip(("gamma", "coef0", "degree"), (*finish.numbers, 0.0, 0.0, 0.0), strict=False))
