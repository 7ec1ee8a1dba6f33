"""What sums and products of kernels (sums.py) compute, on either device: from rows of their parts, in place.

A whole matrix takes memory for two: the result, and that of a part until it has been added or multiplied.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.kernels.attribution import Contributions, complete
from textsvm.kernels.base import AHEAD, BLOCK_BYTES, Kernel, KernelRows, Weights
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress, part, run
from textsvm.text.documents import Documents, Views

#: Values that are added at a time, by a core and by a card.
_HOST_BLOCK, _DEVICE_BLOCK = 1 << 18, 1 << 26


class CombinedRows(ABC):
    """Rows of several kernels against the same documents (`KernelRows`), combined value by value.

    Parameters
    ----------
    kernel : Kernel
    terms : sequence of (float, Kernel)
        What is combined: weights, and kernels that are fitted.
    documents : Documents
        The columns.
    device : Device
    """

    def __init__(
        self, kernel: Kernel, terms: Sequence[tuple[float, Kernel]], documents: Documents, device: Device
    ) -> None:
        self.kernel, self.documents, self.device, self.n = kernel, documents, device, len(documents)
        self.terms = terms
        #: Those of the parts.
        self.parts: list[KernelRows] = [each.rows(each.read(documents), device) for _, each in terms]

    @property
    def matrices(self) -> int:
        """Whole matrices that exist at a time while `gram` makes one: the result, and those of a part."""
        most = [getattr(rows, "matrices", 1) for rows in self.parts]
        return max(most[0], *(1 + each for each in most[1:])) if len(most) > 1 else most[0]

    @property
    def ahead(self) -> int:
        """Rows best asked for at a time: of the part that takes longest."""
        costs = [each.seconds(self.documents, self.documents) for _, each in self.terms]
        return getattr(self.parts[int(np.argmax(costs))], "ahead", AHEAD)

    def diag(self) -> Any:
        """See `KernelRows`."""
        return self._combined(lambda number: self.parts[number].diag())

    def rows(self, indices: NDArray[np.int64]) -> Any:
        """See `KernelRows`."""
        return self._combined(lambda number: self.parts[number].rows(indices))

    def gram(self, progress: Progress | None = None) -> Any:
        """See `KernelRows`."""
        steps = self._steps(self.documents, progress)
        return self._combined(lambda number: self.parts[number].gram(steps[number]))

    def cross(self, others: Documents, progress: Progress | None = None) -> Any:
        """See `KernelRows`."""
        steps, read = self._steps(others, progress), [each.read(others) for _, each in self.terms]
        return self._combined(lambda number: self.parts[number].cross(read[number], steps[number]))

    @abstractmethod
    def decision(
        self, others: Documents, coef: NDArray[np.float64], progress: Progress | None = None
    ) -> NDArray[np.float64]:
        """See `KernelRows`."""

    @abstractmethod
    def _first(self, values: Any, number: int) -> None:
        """Make the values of the first part the beginning of the result, in place."""

    @abstractmethod
    def _next(self, total: Any, values: Any, number: int) -> None:
        """Bring those of another part into the result, in place."""

    def _combined(self, values_of: Callable[[int], Any]) -> Any:
        with devices.use(self.device):
            total = values_of(0)
            self._first(total, 0)
            for number in range(1, len(self.parts)):
                values = values_of(number)
                self._next(total, values, number)
                del values
        return total

    def _steps(self, others: Documents, progress: Progress | None) -> list[Progress | None]:
        """Progress of each part, by what it is predicted to cost."""
        costs = [1e-9 + each.seconds(others, self.documents) for _, each in self.terms]
        ends = np.cumsum(costs)
        return [part(progress, end - cost, cost, ends[-1]) for cost, end in zip(costs, ends, strict=True)]


class SumRows(CombinedRows):
    """Rows of a sum."""

    def __init__(self, kernel: Kernel, documents: Documents, device: Device) -> None:
        super().__init__(kernel, kernel.terms, documents, device)

    def decision(
        self, others: Documents, coef: NDArray[np.float64], progress: Progress | None = None
    ) -> NDArray[np.float64]:
        """See `KernelRows`: the sum of what the parts say."""
        values, steps = np.zeros((len(others), coef.shape[1])), self._steps(others, progress)
        for (weight, each), rows, step in zip(self.terms, self.parts, steps, strict=True):
            values += weight * rows.decision(each.read(others), coef, step)
        return values

    def _first(self, values: Any, number: int) -> None:
        scale(values, self.terms[number][0])

    def _next(self, total: Any, values: Any, number: int) -> None:
        add(total, values, self.terms[number][0])


class ProductRows(CombinedRows):
    """Rows of a product."""

    def __init__(self, kernel: Any, documents: Documents, device: Device) -> None:
        super().__init__(kernel, [(1.0, each) for each in kernel.kernels], documents, device)

    def decision(
        self, others: Documents, coef: NDArray[np.float64], progress: Progress | None = None
    ) -> NDArray[np.float64]:
        """See `KernelRows`: from kernel values, a block of `others` at a time."""
        values = np.empty((len(others), coef.shape[1]))
        size = max(1, BLOCK_BYTES // (4 * max(1, self.n)))
        with devices.use(self.device):
            weights = devices.array_module(self.device).asarray(coef)
            for start in range(0, len(others), size):
                block = others.take(np.arange(start, min(start + size, len(others))))
                values[start : start + size] = devices.to_host(self.cross(block).astype(np.float64) @ weights)
                if progress is not None:
                    progress(min(start + size, len(others)), len(others))
        return values

    def _first(self, values: Any, number: int) -> None:
        pass

    def _next(self, total: Any, values: Any, number: int) -> None:
        def multiply(some: slice) -> None:
            total[some] *= values[some]

        _by_blocks(multiply, total)


class SumPredictor:
    """Prediction of a sum (`Predictor`): the sum of what the predictors of its parts say."""

    def __init__(self, kernel: Kernel, parts: Sequence[Any], device: Device) -> None:
        self.terms, self.parts = kernel.terms, parts
        #: Where most is done: a function of the user's decides on the host.
        self.device = device if any(each.device == device for each in self.parts) else self.parts[0].device

    def values(self, documents: Documents, progress: Progress | None = None) -> NDArray[np.float64]:
        """See `Predictor`."""
        total: Any = 0.0
        for number, ((_, kernel), predictor) in enumerate(zip(self.terms, self.parts, strict=True)):
            with devices.use(predictor.device):
                step = part(progress, number, 1, len(self.parts))
                total = total + predictor.values(kernel.read(documents), step)
        return total

    def contributions(self, documents: Documents | Views, mixes: NDArray[np.float64]) -> Contributions:
        """See `SpectrumPredictor`; of parts that are such."""
        found = _Added(documents)
        for (_, kernel), predictor in zip(self.terms, self.parts, strict=True):
            found.add(kernel, predictor.contributions(kernel.read(documents), mixes))
        return found.contributions


@dataclass(frozen=True)
class SumWeights:
    """The machines of a sum as weights of the features of its terms; see `Weights`."""

    kernel: Kernel
    parts: Sequence[Weights]

    @property
    def n_machines(self) -> int:
        """See `Weights`: the same for each part, or -1."""
        numbers = {part.n_machines for part in self.parts}
        return numbers.pop() if len(numbers) == 1 else -1

    @property
    def left_out(self) -> int:
        """See `Weights`: the most of any part."""
        return max(part.left_out for part in self.parts)

    def predictor(self, device: Device) -> SumPredictor:
        """See `Weights`."""
        return SumPredictor(self.kernel, [part.predictor(device) for part in self.parts], device)

    def state(self, tolerance: float) -> dict[str, NDArray[Any]]:
        """See `Weights`."""
        states = [part.state(tolerance / len(self.parts)) for part in self.parts]
        return {f"{k}.{name}": array for k, state in enumerate(states) for name, array in state.items()}


def under(prefix: str, state: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays whose names begin so, under the rest of their names."""
    return {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}


def sum_contributions(
    rows: SumRows, documents: Documents, coef: NDArray[np.float64], progress: Progress | None = None
) -> Contributions:
    """Contributions to the values of a sum: those of its parts, added up; see `Kernel.contributions`."""
    added = _Added(documents)
    for number, ((weight, kernel), columns) in enumerate(zip(rows.terms, rows.parts, strict=True)):
        read = kernel.read(documents)
        values = columns.cross(read).astype(np.float64)
        step = part(progress, number, 1, len(rows.parts))
        found = kernel.contributions(columns, read, weight * coef, values, step)
        if kernel.attribution.exact:
            found = complete(found, (weight * coef * values).sum(axis=1))
        added.add(kernel, found)
    return added.contributions


class _Added:
    """Contributions of several kernels to what is said of the same documents, added up."""

    def __init__(self, documents: Documents | Views) -> None:
        self.documents = documents
        self._symbols = [np.zeros(len(documents.shown(d))) for d in range(len(documents))]
        self._features: list[dict[tuple[str, int], float]] = [{} for _ in self._symbols]

    def add(self, kernel: Kernel, found: Contributions) -> None:
        """Add those of one kernel."""
        is_leaf = kernel.leaves == (kernel,)
        for d, share in enumerate(found.symbols):
            self._symbols[d] += self.documents.to_shown(d, kernel.view, share) if is_leaf else share
            features = self._features[d]
            for text, count, value in found.features[d] if found.features else ():
                at = (self.documents.called(text, kernel.view) if is_leaf else text, count)
                features[at] = features.get(at, 0.0) + value

    @property
    def contributions(self) -> Contributions:
        """The sums."""
        features = [[(*key, value) for key, value in each.items()] for each in self._features]
        return Contributions(self._symbols, features)


def add(total: Any, values: Any, weight: float) -> None:
    """total += weight * values, float32 arrays of either device, without a third one of their size."""
    factor = np.float32(weight)

    def add_block(some: slice) -> None:
        total[some] += factor * values[some]

    _by_blocks(add_block, total)


def scale(values: Any, weight: float) -> None:
    """values *= weight, likewise."""
    factor = np.float32(weight)

    def scale_block(some: slice) -> None:
        values[some] *= factor

    _by_blocks(scale_block, values)


def _by_blocks(work: Callable[[slice], None], values: Any) -> None:
    """Do something to all of an array, a block of rows at a time; on the host with all cores."""
    on_gpu = devices.is_on_gpu(values)
    width = max(1, values.size // max(1, len(values)))
    rows = max(1, (_DEVICE_BLOCK if on_gpu else _HOST_BLOCK) // width)
    blocks = [slice(first, first + rows) for first in range(0, len(values), rows)]
    if on_gpu or len(blocks) == 1:
        for block in blocks:
            work(block)
    else:
        run(work, blocks)
