"""Rows, prediction, weights and attribution of sums and products of kernels.

They are computed from those of the parts, in place on either device: a whole matrix takes memory for two, the
result and that of a part.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import iadd, imul
from typing import Any

import numpy as np

from textsvm.arrays import Array, Arrays, Floats, Ints
from textsvm.kernels import contract
from textsvm.kernels.attribution import Contributions, complete
from textsvm.kernels.shared.feature_rows import sum_of_values
from textsvm.linalg.factored import FactoredWeights, check_dense
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress, part, run
from textsvm.text.documents import Documents, MultiView
from textsvm.text.tokens import SINGLE

_HOST_BLOCK = 1 << 18  #: Values that a core adds at a time.
_DEVICE_BLOCK = 1 << 26  #: Values that a card adds at a time.


class CombinedRows(ABC):
    """Rows of several kernels against the same documents (`KernelRows`), combined value by value.

    `terms` are weights and fitted kernels, `documents` the columns.
    """

    parts: Sequence[contract.KernelRows]

    def __init__(
        self, kernel: Any, terms: Sequence[tuple[float, Any]], documents: Documents, device: Device,
        parts: Sequence[contract.KernelRows] = (),
    ) -> None:  # fmt: skip
        self.kernel, self.documents, self.device, self.n = kernel, documents, device, len(documents)
        self.terms = terms
        self.parts = parts or [term.rows(term.structure.read(documents), device) for _, term in terms]

    @property
    def matrices(self) -> int:
        """Number of whole matrices in memory while `gram` runs: the result, and those of a part."""
        most = [getattr(rows, "matrices", 1) for rows in self.parts]
        return max(most[0], *(1 + count for count in most[1:])) if len(most) > 1 else most[0]

    @property
    def ahead(self) -> int:
        """Rows to compute at a time (`HostRows.ahead`), those of the slowest part."""
        costs = [term.cost.seconds(self.documents, self.documents) for _, term in self.terms]
        return getattr(self.parts[int(np.argmax(costs))], "ahead", contract.AHEAD)

    def diag(self) -> Array:
        return self._combined(lambda number: self.parts[number].diag())

    def rows(self, indices: Ints) -> Array:
        return self._combined(lambda number: self.parts[number].rows(indices))

    def gram(self, progress: Progress | None = None) -> Array:
        steps = self._steps(self.documents, progress)
        return self._combined(lambda number: self.parts[number].gram(steps[number]))

    def cross(self, others: Documents, progress: Progress | None = None) -> Array:
        steps, read = self._steps(others, progress), [term.structure.read(others) for _, term in self.terms]
        return self._combined(lambda number: self.parts[number].cross(read[number], steps[number]))

    @abstractmethod
    def decision(self, others: Documents, coef: Floats, progress: Progress | None = None) -> Floats:
        """k(others, documents) @ coef, shape (len(others), k), on the host."""

    @abstractmethod
    def _add(self, total: Array, values: Array, number: int) -> None:
        """Combine the values of another part with the result, in place."""

    def _combined(self, values_of: Callable[[int], Array]) -> Array:
        with devices.use(self.device):
            total, weight = values_of(0), self.terms[0][0]
            if weight != 1:
                scale(total, weight)
            for number in range(1, len(self.parts)):
                values = values_of(number)
                self._add(total, values, number)
                del values
        return total

    def _steps(self, others: Documents, progress: Progress | None) -> list[Progress | None]:
        """Progress of each part, by its predicted cost."""
        costs = [1e-9 + term.cost.seconds(others, self.documents) for _, term in self.terms]
        ends = np.cumsum(costs)
        return [part(progress, end - cost, cost, ends[-1]) for cost, end in zip(costs, ends, strict=True)]


class SumRows(CombinedRows):
    """Rows of a sum."""

    def __init__(
        self, kernel: Any, documents: Documents, device: Device, parts: Sequence[contract.KernelRows] = ()
    ) -> None:
        super().__init__(kernel, kernel.structure.terms, documents, device, parts)

    def decision(self, others: Documents, coef: Floats, progress: Progress | None = None) -> Floats:
        values, steps = np.zeros((len(others), coef.shape[1])), self._steps(others, progress)
        for (weight, term), rows, step in zip(self.terms, self.parts, steps, strict=True):
            values += weight * rows.decision(term.structure.read(others), coef, step)
        return values

    def _add(self, total: Array, values: Array, number: int) -> None:
        add(total, values, self.terms[number][0])


class ProductRows(CombinedRows):
    """Rows of a product."""

    def __init__(self, kernel: Any, documents: Documents, device: Device) -> None:
        super().__init__(kernel, [(1.0, factor) for factor in kernel.kernels], documents, device)

    def decision(self, others: Documents, coef: Floats, progress: Progress | None = None) -> Floats:
        return contract.decision_by_rows(self, others, coef, progress)

    def _add(self, total: Array, values: Array, number: int) -> None:
        _by_blocks(lambda block: imul(total[block], values[block]), total)


class SumPredictor:
    """Predictor of a sum: the sum of those of its terms, of the same coefficients times `factors`."""

    def __init__(self, kernel: Any, parts: Sequence[Any], device: Device, factors: Sequence[float]) -> None:
        self.terms, self.parts, self.factors = kernel.structure.terms, parts, factors
        # A Python function runs on the host.
        own = any(predictor.device == device for predictor in self.parts)
        self.device = device if own else self.parts[0].device

    def values(self, documents: Documents, progress: Progress | None = None) -> Floats:
        total: Array = 0.0
        factored: list[tuple[Any, Documents, float]] = []
        n, terms = len(self.parts), zip(self.parts, self.terms, self.factors, strict=True)
        for number, (predictor, (_, kernel), factor) in enumerate(terms):
            read = kernel.structure.read(documents)
            if isinstance(vars(predictor).get("weights"), FactoredWeights):
                factored.append((predictor, read, factor))
                continue
            with devices.use(predictor.device):
                total = total + predictor.values(read, part(progress, number - len(factored), 1, n))
        if factored:
            factored.sort(key=lambda term: -term[2])
            total = total + sum_of_values(factored, part(progress, n - len(factored), len(factored), n))
        return total

    def feature_terms(self, examples: Documents | MultiView) -> list[contract.FeatureTerm]:
        """All that prediction needs, for export; `examples` have the alphabets of training."""
        check_dense([vars(predictor).get("weights") for predictor in self.parts])
        terms: list[contract.FeatureTerm] = []
        for (_, kernel), predictor in zip(self.terms, self.parts, strict=True):
            terms += predictor.feature_terms(kernel.structure.read(examples))
        return terms

    def contributions(self, documents: Documents | MultiView, mixes: Floats) -> Contributions:
        """Contributions to mixes of machines, as `SpectrumPredictor.contributions` of each term."""
        added = _Added(documents)
        for (_, kernel), predictor in zip(self.terms, self.parts, strict=True):
            added.add(kernel, predictor.contributions(kernel.structure.read(documents), mixes))
        return added.contributions


@dataclass(frozen=True)
class SumWeights:
    """`Weights` of a sum: weights of the features of its terms."""

    kernel: Any
    parts: Sequence[contract.Weights]

    @property
    def n_machines(self) -> int:
        """Number of machines, -1 if it differs between the terms."""
        numbers = {part.n_machines for part in self.parts}
        return numbers.pop() if len(numbers) == 1 else -1

    @property
    def left_out(self) -> int:
        return max(part.left_out for part in self.parts)

    def predictor(self, device: Device) -> SumPredictor:
        parts = [part.predictor(device) for part in self.parts]
        return SumPredictor(self.kernel, parts, device, [1.0] * len(parts))

    def named(self, examples: Documents | MultiView) -> list[contract.FeatureWeights]:
        terms = zip(self.kernel.structure.terms, self.parts, strict=True)
        return [replace(table, kernel=kernel) for (_, kernel), own in terms for table in own.named(examples)]

    def state(self, tolerance: float) -> Arrays:
        states = [part.state(tolerance / len(self.parts)) for part in self.parts]
        return {f"{k}.{name}": array for k, state in enumerate(states) for name, array in state.items()}


def sum_contributions(
    rows: SumRows, documents: Documents, coef: Floats, progress: Progress | None = None
) -> Contributions:
    """Contributions to the values of a sum: the sum over its terms."""
    added = _Added(documents)
    for number, ((weight, kernel), columns) in enumerate(zip(rows.terms, rows.parts, strict=True)):
        read = kernel.structure.read(documents)
        values = columns.cross(read).astype(np.float64)
        step = part(progress, number, 1, len(rows.parts))
        own = kernel.attribution.contributions(columns, read, weight * coef, values, step)
        if kernel.attribution.method.exact:
            own = complete(own, (weight * coef * values).sum(axis=1))
        added.add(kernel, own)
    return added.contributions


class _Added:
    """Sum of the contributions of several kernels to values of the same documents."""

    def __init__(self, documents: Documents | MultiView) -> None:
        self.documents = documents
        self._symbols = [np.zeros(len(documents.shown(d))) for d in range(len(documents))]
        self._features: list[dict[str, tuple[int, float]]] = [{} for _ in self._symbols]
        self._words: list[set[str]] = [set() for _ in self._symbols]

    def add(self, kernel: Any, own: Contributions) -> None:
        is_leaf, view = kernel.structure.leaves == (kernel,), kernel.structure.view
        for d, share in enumerate(own.symbols):
            self._symbols[d] += self.documents.to_shown(d, view, share) if is_leaf else share
            features = self._features[d]
            self._words[d] |= own.words[d] if own.words else set()
            for text, count, value in own.features[d] if own.features else ():
                name = view.called(text) if is_leaf else text
                most, total = features.get(name, (0, 0.0))  # a word is also within words as a substring
                features[name] = max(most, count), total + value
                if is_leaf and view.tokens not in SINGLE:
                    self._words[d].add(name)

    @property
    def contributions(self) -> Contributions:
        features = [[(name, *own) for name, own in totals.items()] for totals in self._features]
        return Contributions(self._symbols, features, self._words)


def add(total: Array, values: Array, weight: float) -> None:
    """total += weight * values in place, float32 arrays on either device, without a large temporary."""
    factor = np.float32(weight)
    _by_blocks(lambda block: iadd(total[block], factor * values[block]), total)


def scale(values: Array, weight: float) -> None:
    """values *= weight in place, on either device."""
    factor = np.float32(weight)
    _by_blocks(lambda block: imul(values[block], factor), values)


def _by_blocks(work: Callable[[slice], object], values: Array) -> None:
    """Call a function for each block of rows of an array; on the host with all cores."""
    on_gpu = devices.is_on_gpu(values)
    width = max(1, values.size // max(1, len(values)))
    rows = max(1, (_DEVICE_BLOCK if on_gpu else _HOST_BLOCK) // width)
    blocks = [slice(first, first + rows) for first in range(0, len(values), rows)]
    if on_gpu or len(blocks) == 1:
        for block in blocks:
            work(block)
    else:
        run(work, blocks)
