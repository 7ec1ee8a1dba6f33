"""Which neighbours are asked for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from textsvm.errors import InputError
from textsvm.kernels.base import Kernel

#: Neighbours of a text if nothing is said.
K = 10


@dataclass(frozen=True)
class Wanted:
    """Which neighbours are asked for; of several conditions, those that fulfil all.

    Attributes
    ----------
    k : int, optional
        The so many nearest of each text.
    at_least : float, optional
        Those of at least this normalised kernel value.
    within : int, optional
        Those within this distance.
    """

    k: int | None = None
    at_least: float | None = None
    within: int | None = None

    def check(self, kernel: Kernel) -> None:
        """Raise InputError if they are out of range, or the kernel has no distances."""
        for name, least in (("k", 1), ("within", 0)):
            value = getattr(self, name)
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if value is not None and not (whole and value >= least):
                raise InputError(f"{name}={value!r} must be a whole number of at least {least}, or None")
        value = self.at_least
        number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if value is not None and not (number and 0 < value <= 1):
            raise InputError(
                f"at_least={value!r} is no normalised kernel value; it must be above 0 and at most 1"
            )
        if self.within is not None and not kernel.nearest.has_distances:
            raise InputError(
                f"within={self.within} is a distance and the {kernel.name} kernel has none; give at_least, "
                "or take the edit kernel"
            )

    @property
    def least(self) -> np.float32:
        """The least value; equal texts may differ from 1 by float32 rounding."""
        return np.float32(-np.inf if self.at_least is None else min(float(self.at_least), 1 - 1e-5))
