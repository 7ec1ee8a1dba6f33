"""The linear kernel of vectors, k(x, y) = <x, y>; its machines are one weight for each number of a vector."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from textsvm import device as devices
from textsvm.errors import InputError
from textsvm.features.rows import FeatureRows
from textsvm.features.vectors import feature_rows
from textsvm.features.weight_vectors import MOST_TIMES, ROOM
from textsvm.kernels.linear_options import OPTIONS
from textsvm.kernels.option import Option
from textsvm.kernels.predictor import Predictor, Weights
from textsvm.kernels.vectors import VectorKernel
from textsvm.parallel import Progress

if TYPE_CHECKING:
    from textsvm.device import Device


class Linear(VectorKernel):
    """The product of vectors, <x, y>.

    Examples
    --------
    >>> from textsvm import Linear
    >>> print(Linear()([[1.0, 2.0]], [[3.0, 4.0], [0.0, 1.0]]))
    [[11.  2.]]
    """

    name: ClassVar[str] = "linear"
    options: ClassVar[tuple[Option, ...]] = OPTIONS
    finish: ClassVar[str] = "linear"

    def value(self, products: Any, rows: Any, columns: Any) -> Any:
        return products

    @property
    def counting(self) -> Hashable:
        return self.name

    def occurrences(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        return lengths

    def counted(self, documents: Any, device: Device | None = None) -> CountedVectors:
        return CountedVectors(feature_rows(documents))

    def fit_counted(self, counted: Any, train: NDArray[np.int64]) -> None:
        self.check()

    def predictor(self, support: Any, coef: NDArray[np.float64], device: Device) -> Predictor:
        """See `Kernel`: by weights, on the CPU; not by a wealth of them that are 0."""
        stored = 12 * int(support.values.size)
        if device.kind == "cuda" or 8 * len(coef) * support.n_features > max(ROOM, MOST_TIMES * stored):
            return super().predictor(support, coef, device)
        return self.weight_vectors(support, coef).predictor(device)

    @property
    def has_weights(self) -> bool:
        return True

    def weight_vectors(self, support: Any, coef: NDArray[np.float64]) -> Weights:
        values = devices.to_host(support.values)
        return LinearWeights(np.ascontiguousarray((values.T @ coef.T).T, np.float64))

    def restore_weight_vectors(self, state: dict[str, NDArray[Any]], alphabets: Any) -> Weights:
        weights = state["weights"]
        if weights.dtype != np.float64 or weights.shape[1:] != (alphabets.n_features,):
            raise InputError("its weights are not one for each number of a vector")
        if not np.isfinite(weights).all():
            raise InputError("its weights are not finite")
        return LinearWeights(weights)


@dataclass(frozen=True)
class CountedVectors:
    """Vectors as rows of features, which their numbers are: nothing is learnt of them."""

    features: FeatureRows

    def rows(self, kernel: Any, train: NDArray[np.int64]) -> FeatureRows:
        """All of them."""
        return self.features


@dataclass(frozen=True)
class LinearWeights:
    """Machines as one weight for each number of a vector (`Weights`).

    Attributes
    ----------
    weights : float64 array, shape (n_machines, d)
    """

    weights: NDArray[np.float64]

    @property
    def left_out(self) -> int:
        """See `Weights`: none."""
        return 0

    @property
    def n_machines(self) -> int:
        """See `Weights`."""
        return len(self.weights)

    def predictor(self, device: Device) -> Predictor:
        """See `Weights`; on the host, wherever the vectors are."""
        return LinearPredictor(self.weights, device if device.kind == "cpu" else devices.select("cpu"))

    def state(self, tolerance: float) -> dict[str, NDArray[Any]]:
        """See `Weights`: exactly."""
        return {"weights": self.weights}


class LinearPredictor:
    """Values of machines, X w (`Predictor`)."""

    def __init__(self, weights: NDArray[np.float64], device: Device) -> None:
        self.weights, self.device = weights, device

    def values(self, documents: Any, progress: Progress | None = None) -> NDArray[np.float64]:
        """See `Predictor`."""
        return np.asarray(devices.to_host(documents.values) @ self.weights.T, np.float64)
