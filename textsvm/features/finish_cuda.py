"""What becomes of products of vectors on a GPU: kernels_cu/finish.cuh."""

from __future__ import annotations

from dataclasses import dataclass

from textsvm.device import Defines

#: The names of finish.cuh.
NAMES = ("linear", "polynomial", "gaussian", "sigmoid")


@dataclass(frozen=True)
class Finish:
    """A function of <x, y>, |x|^2 and |y|^2.

    Attributes
    ----------
    name : str
        One of NAMES.
    numbers : tuple of float
        Its gamma, coef0 and degree, as many as it has.
    """

    name: str = "linear"
    numbers: tuple[float, ...] = ()

    @property
    def defines(self) -> Defines:
        """What a .cu that needs finish.cuh is specialised by."""
        return (("FINISH", self.name.upper()),)

    @property
    def fields(self) -> dict[str, float]:
        """Its parameters as a structure that a kernel takes has them."""
        return dict(zip(("gamma", "coef0", "degree"), (*self.numbers, 0.0, 0.0, 0.0), strict=False))
