"""Numbers of a table, standardised: what kernels of vectors compare of them (`textsvm.kernels.on`).

    z = (x - m) / c

m and c are mean and standard deviation over the training rows of every number that is alone in its column; 0
and 1 of vectors. What a kernel prepares is wrapped, so that it can be given numbers as a table has them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.device import Device
from textsvm.errors import InputError
from textsvm.features.rows import FeatureRows
from textsvm.features.table import Numbers
from textsvm.kernels.attribution import Contributions
from textsvm.kernels.base import Kernel, Weights
from textsvm.parallel import Progress

#: Names of a saved state: of what is learnt here, and of what the kernel of the numbers learnt.
STANDARD, OWN = "standard.", "own."


@dataclass(frozen=True)
class Standard:
    """Numbers in the unit of their standard deviation, from their mean.

    Attributes
    ----------
    mean, scale : float64 arrays, shape (d,)
    """

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def of(cls, numbers: Numbers) -> Standard:
        """Learn it; 0 and 1 of numbers that are not alone in their column."""
        mean, scale = np.zeros(numbers.n_features), np.ones(numbers.n_features)
        alone = numbers.single
        if alone.any() and not numbers.sparse:
            values = numbers.values[:, alone].astype(np.float64)
            mean[alone], scale[alone] = values.mean(axis=0), values.std(axis=0)
        scale[scale <= 1e-13 * np.abs(mean)] = 1.0  # constant, but for rounding
        return cls(mean, scale)

    @classmethod
    def from_state(cls, state: dict[str, NDArray[Any]]) -> Standard:
        """Take back what was saved; raises InputError if it is damaged."""
        mean, scale = state["mean"], state["scale"]
        whole = all(each.dtype == np.float64 and np.isfinite(each).all() for each in (mean, scale))
        if not whole or mean.ndim != 1 or mean.shape != scale.shape or (scale <= 0).any():
            raise InputError("what it learnt of numbers is damaged; train the model again")
        return cls(mean, scale)

    @property
    def state(self) -> dict[str, NDArray[Any]]:
        """It as it is saved."""
        return {STANDARD + "mean": self.mean, STANDARD + "scale": self.scale}

    def apply(self, numbers: Numbers) -> Numbers:
        """Numbers standardised; compressed rows are of one column, and stay."""
        return (
            numbers if numbers.sparse else replace(numbers, values=(numbers.values - self.mean) / self.scale)
        )


class OfNumbers:
    """Rows, or a predictor, of standardised numbers, for numbers as a table has them."""

    def __init__(self, made: Any, standard: Standard) -> None:
        self._made, self._standard = made, standard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made, name)

    def cross(self, others: Numbers, progress: Progress | None = None) -> Any:
        """See `KernelRows`."""
        return self._made.cross(self._standard.apply(others), progress)

    def decision(self, others: Numbers, coef: NDArray[np.float64], progress: Progress | None = None) -> Any:
        """See `KernelRows`."""
        return self._made.decision(self._standard.apply(others), coef, progress)

    def values(self, others: Numbers, progress: Progress | None = None) -> Any:
        """See `Predictor`."""
        return self._made.values(self._standard.apply(others), progress)

    def contributions(self, others: Numbers, mixes: NDArray[np.float64]) -> Contributions:
        """See `SpectrumPredictor`."""
        return together(others, (self.values(others) * mixes).sum(axis=1))


@dataclass(frozen=True)
class CountedNumbers:
    """Numbers, for kernels whose features they are once they are standardised by some of the rows."""

    numbers: Numbers

    def rows(self, kernel: Kernel, train: NDArray[np.int64]) -> FeatureRows:
        """All of them as rows of features."""
        seen: Any = Standard.of(self.numbers.take(train)).apply(self.numbers)
        if not seen.sparse:  # as those of texts beside them are
            from scipy.sparse import csr_array

            seen = replace(seen, values=csr_array(seen.values))
        rows: FeatureRows = kernel.counted(seen).rows(kernel, train)
        # Numbers of one scale suit coordinate descent: beside texts it takes a quarter of Newton's time.
        return replace(rows, descent=bool(self.numbers.single.all()))


@dataclass(frozen=True)
class NumberWeights:
    """The machines of a kernel on numbers as weights of them, standardised; see `Weights`."""

    own: Weights
    standard: Standard

    @property
    def left_out(self) -> int:
        """See `Weights`."""
        return self.own.left_out

    @property
    def n_machines(self) -> int:
        """See `Weights`."""
        return self.own.n_machines

    def predictor(self, device: Device) -> Any:
        """See `Weights`."""
        return OfNumbers(self.own.predictor(device), self.standard)

    def state(self, tolerance: float) -> dict[str, NDArray[Any]]:
        """See `Weights`."""
        return self.standard.state | {OWN + name: one for name, one in self.own.state(tolerance).items()}


def together(numbers: Numbers, totals: NDArray[np.float64]) -> Contributions:
    """What numbers say, shape (n,), evenly over them as they are shown."""
    shown = [numbers.shown(d) for d in range(len(numbers))]
    pairs = list(zip(shown, totals.tolist(), strict=True))
    return Contributions(
        [np.full(len(text), total / len(text)) for text, total in pairs],
        [[(text, 1, total)] for text, total in pairs],
    )
