"""A whole kernel matrix on its way to the workers, and where they work with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from textsvm.gram.base import DenseGram, Gram
from textsvm.runtime import device as devices


@dataclass(frozen=True)
class PortableGram:
    """A kernel matrix on the host.

    Attributes
    ----------
    matrix : float32 array, shape (n, n)
    device : str
        The kind of device that a worker moves it to.
    """

    matrix: NDArray[np.float32]
    device: str

    @contextmanager
    def at_work(self) -> Iterator[DenseGram]:
        """The Gram on the worker's first device of the kind."""
        device = devices.select(self.device)
        with devices.use(device):
            yield DenseGram(devices.array_module(device).asarray(self.matrix))


def portable(gram: Gram) -> PortableGram | None:
    """What is sent to workers of a Gram; None if it is not a whole matrix in memory."""
    if not isinstance(gram, DenseGram):
        return None
    return PortableGram(devices.to_host(gram.matrix), gram.device.kind)
