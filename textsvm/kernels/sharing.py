"""What kernels of a grid have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from textsvm.documents import Documents
from textsvm.parallel import Progress

if TYPE_CHECKING:
    from textsvm.device import Device


class SharedColumns(Protocol):
    """Rows of several kernels from one pass, with the bits that each kernel's own have."""

    def diags(self) -> list[Any]:
        """K[i, i] of each kernel, shape (n,), float32."""

    def rows(self, indices: NDArray[np.int64]) -> list[Any]:
        """Rows of each kernel, shape (len(indices), n), float32."""


class Sharing(ABC):
    """Work that kernels of a grid have in common, on the same documents: equal ones are computed together.

    Subclasses are frozen dataclasses of the parameters that must be equal.
    """

    def passes(self, kernels: Sequence[Any], room: int) -> list[list[int]]:
        """Which of these kernels are computed together, by their positions, in the order of `grams`.

        By default all, which takes memory for two matrices; `room`, at least 2, is for how many there is.
        """
        return [list(range(len(kernels)))]

    @abstractmethod
    def description(self, kernels: Sequence[Any]) -> str:
        """What the Grams of one pass come from, in a few words."""

    @abstractmethod
    def grams(
        self, kernels: Sequence[Any], documents: Documents, device: Device, progress: Progress | None = None
    ) -> Iterator[tuple[int, Any]]:
        """The kernels of one pass by their positions, each with its matrix, which the caller may keep."""

    def columns(self, kernels: Sequence[Any], documents: Documents, device: Device) -> SharedColumns | None:
        """Documents as the columns of rows of all these kernels; None where there is no such pass."""
        return None

    def divides(self, kernels: Sequence[Any], documents: Documents) -> bool:
        """Whether matrices of one pass can be made in tiles; see `Kernel.divides`."""
        return False

    def cross(self, kernels: Sequence[Any], others: Documents, documents: Documents) -> list[Any]:
        """Matrices of kernel values of others with documents, one a kernel, from one pass on the CPU."""
        raise TypeError(f"{type(self).__name__} has no tiles")
