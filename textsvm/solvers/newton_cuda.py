"""Products with sparse rows on a GPU for `solvers.newton`: passes of `features.rows_cuda`."""

from __future__ import annotations

from typing import Any

from textsvm import device as gpu
from textsvm.features.rows import FeatureRows
from textsvm.features.rows_cuda import CudaRows

Array = Any  # a CuPy array


class CudaProducts:
    """See `textsvm.solvers.newton.Products`; X D X' d takes one reading of the free rows."""

    def __init__(self, rows: FeatureRows) -> None:
        self.xp = gpu.cupy()
        self.x: CudaRows = rows.x  # type: ignore[assignment]
        self.ridge = rows.ridge
        self.squares = self.x.squares()
        self.lengths = self.xp.sqrt(self.squares)
        mean = float((self.squares + self.ridge).mean())
        self.constant = mean**0.5 if mean > 0 else 1.0

    def values(self, weights: Array, bias: Array) -> Array:
        """See `Products`."""
        return self.x.passed(dense=weights, shift=self.constant * bias)[0]

    def combine(self, coef: Array) -> Array:
        """See `Products`."""
        index = self.xp.flatnonzero(coef.any(axis=1))
        bound = self.lengths @ self.xp.abs(coef)
        return self.x.passed(coef=coef[index], index=index, bound=bound)[1]

    def free_rows(self, curvature: Array) -> tuple[Array, Array, Array, Array]:
        """The rows, their D, and bounds: sum D |x|^2 and constant sum D |x|."""
        index = self.xp.flatnonzero(curvature.any(axis=1))
        return (
            index,
            self.xp.ascontiguousarray(curvature[index]),
            self.squares @ curvature,
            self.constant * (self.lengths @ curvature),
        )

    def curve(self, rows: tuple[Array, ...], weights: Array, bias: Array) -> tuple[Array, Array]:
        """See `Products`."""
        index, curvature, of_weights, of_bias = rows
        xp = self.xp
        bound = of_weights * xp.sqrt((weights**2).sum(axis=0)) + of_bias * xp.abs(bias)
        made, sums = self.x.passed(
            dense=weights, index=index, shift=self.constant * bias, factor=curvature, bound=bound
        )
        return sums, self.constant * made.sum(axis=0)
