"""Kernels of vectors.

Linear          <x, y>; machines are a weight for each number of a vector
Polynomial      (gamma <x, y> + coef0)^degree
Gaussian        exp(-gamma |x - y|^2)
Sigmoid         tanh(gamma <x, y> + coef0)
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.kernels.base import check_whole
from textsvm.kernels.contract import Ability, Features, FeatureWeights, Predictor
from textsvm.kernels.spectrum.weight_vectors import MOST_TIMES, ROOM
from textsvm.kernels.vectors.base import ScaledKernel, VectorFunction, VectorKernel, check_coef0
from textsvm.linalg.rows import FeatureRows
from textsvm.linalg.vectors import feature_rows
from textsvm.runtime import device as devices
from textsvm.runtime.compiled import njit
from textsvm.runtime.parallel import Progress

if TYPE_CHECKING:
    from textsvm.runtime.device import Device


class LinearFunction(VectorFunction):
    """<x, y>."""

    name = "linear"

    def value(self, products: Any, rows: Any, columns: Any) -> Any:
        return products


class LinearFeatures(Features):
    """The numbers of a vector as features."""

    has_weights = True

    @property
    def key(self) -> Hashable:
        return self.kernel.name

    def occurrences(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        return lengths

    def count(self, documents: Any, device: Device | None = None) -> CountedVectors:
        return CountedVectors(feature_rows(documents))

    def weights(self, support: Any, coef: NDArray[np.float64]) -> LinearWeights:
        values = devices.to_host(support.values)
        return LinearWeights(np.ascontiguousarray((values.T @ coef.T).T, np.float64))

    def restore_weights(self, state: dict[str, NDArray[Any]], alphabets: Any) -> LinearWeights:
        weights = state["weights"]
        if weights.dtype != np.float64 or weights.shape[1:] != (alphabets.n_features,):
            raise InputError("its weights are not one for each number of a vector")
        if not np.isfinite(weights).all():
            raise InputError("its weights are not finite")
        return LinearWeights(weights)


class Linear(VectorKernel):
    """The product of vectors, <x, y>.

    Examples
    --------
    >>> from textsvm import Linear
    >>> print(Linear()([[1.0, 2.0]], [[3.0, 4.0], [0.0, 1.0]]))
    [[11.  2.]]
    """

    name: ClassVar[str] = "linear"
    features = Ability(LinearFeatures)

    @property
    def function(self) -> LinearFunction:
        return LinearFunction()

    def predictor(self, support: Any, coef: NDArray[np.float64], device: Device) -> Predictor:
        """Predict by weights on a CPU, unless most of them would be 0."""
        stored = 12 * int(support.values.size)
        if device.kind == "cuda" or 8 * len(coef) * support.n_features > max(ROOM, MOST_TIMES * stored):
            return super().predictor(support, coef, device)
        return self.features.weights(support, coef).predictor(device)


@dataclass(frozen=True)
class CountedVectors:
    """Vectors as rows of features."""

    features: FeatureRows

    def rows(self, kernel: Any, train: NDArray[np.int64]) -> FeatureRows:
        """All vectors."""
        return self.features


@dataclass(frozen=True)
class LinearWeights:
    """`Weights` of a linear kernel: a weight for each number of a vector."""

    weights: NDArray[np.float64]  #: shape (n_machines, d)

    @property
    def left_out(self) -> int:
        return 0

    @property
    def n_machines(self) -> int:
        return len(self.weights)

    def predictor(self, device: Device) -> Predictor:
        return LinearPredictor(self.weights, device if device.kind == "cpu" else devices.select("cpu"))

    def named(self, examples: Any) -> list[FeatureWeights]:
        names = np.array([f"x{i}" for i in range(self.weights.shape[1])], object)
        return [FeatureWeights("linear", "numbers", names, self.weights.T)]

    def state(self, tolerance: float) -> dict[str, NDArray[Any]]:
        return {"weights": self.weights}


class LinearPredictor:
    """Values of machines, X w (`Predictor`)."""

    def __init__(self, weights: NDArray[np.float64], device: Device) -> None:
        self.weights, self.device = weights, device

    def values(self, documents: Any, progress: Progress | None = None) -> NDArray[np.float64]:
        return np.asarray(devices.to_host(documents.values) @ self.weights.T, np.float64)


#: Greatest degree: a C int holds it, and a float64 its parity.
MOST = (1 << 31) - 1


@dataclass(frozen=True)
class PolynomialFunction(VectorFunction):
    """(gamma <x, y> + coef0)^degree."""

    name: ClassVar[str] = "polynomial"
    gamma: float
    coef0: float
    degree: float

    def value(self, products: Any, rows: Any, columns: Any) -> Any:
        products *= self.gamma
        products += self.coef0
        return _power(products, int(self.degree))


class Polynomial(ScaledKernel):
    """(gamma <x, y> + coef0)^degree.

    Parameters
    ----------
    gamma : float > 0, "scale" or "auto"
        See `ScaledKernel`.
    degree : int, 1 or more
    coef0 : float

    Examples
    --------
    >>> from textsvm import Polynomial
    >>> print(Polynomial(gamma=1.0, degree=2, coef0=1.0)([[1.0, 2.0]], [[3.0, 4.0]]))  # (11 + 1)^2
    [[144.]]
    """

    name: ClassVar[str] = "polynomial"

    def __init__(self, degree: int = 3, gamma: float | str = "scale", coef0: float = 0.0) -> None:
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0

    @property
    def function(self) -> PolynomialFunction:
        return PolynomialFunction(self._factor, float(self.coef0), float(self.degree))

    def check(self) -> None:
        super().check()
        check_whole(self, "degree", 1, MOST)
        check_coef0(self)


def _power(base: Any, exponent: int) -> Any:
    """An integer power by squaring, ten times as fast as pow(); `base` is overwritten."""
    power = None
    while exponent:
        if exponent & 1:
            power = base.copy() if power is None else power * base
        exponent >>= 1
        if exponent:
            base *= base
    return power


@dataclass(frozen=True)
class GaussianFunction(VectorFunction):
    """exp(-gamma |x - y|^2)."""

    name: ClassVar[str] = "gaussian"
    shifts: ClassVar[bool] = True
    gamma: float

    def value(self, products: Any, rows: Any, columns: Any) -> Any:
        xp = devices.array_module(devices.device_of(products))
        products *= -2
        products += rows
        products += columns
        return xp.exp(-self.gamma * xp.maximum(products, 0))

    def put(self, products: NDArray[np.float64], rows: Any, columns: Any, out: NDArray[np.float32]) -> None:
        _exponents(products, rows, columns, self.gamma, out)
        np.exp(out, out=out)
        _correct(products, out)


class Gaussian(ScaledKernel):
    """exp(-gamma |x - y|^2), scikit-learn's "rbf".

    Parameters
    ----------
    gamma : float > 0, "scale" or "auto"
        See `ScaledKernel`.

    Examples
    --------
    >>> from textsvm import Gaussian
    >>> print(Gaussian(gamma=0.5)([[0.0, 0.0]], [[1.0, 1.0], [0.0, 0.0]]).round(4))  # exp(-1), exp(0)
    [[0.3679 1.    ]]
    """

    name: ClassVar[str] = "gaussian"

    def __init__(self, gamma: float | str = "scale") -> None:
        self.gamma = gamma

    @property
    def function(self) -> GaussianFunction:
        return GaussianFunction(self._factor)


@njit(nogil=True, cache=True, error_model="numpy")
def _exponents(
    products: NDArray[Any], rows: NDArray[Any], columns: NDArray[Any], gamma: float, out: NDArray[Any]
) -> None:
    """Exponents as float32, and their rounding error in `products`: exp(a + b) = exp(a) (1 + b)."""
    for i in range(products.shape[0]):
        row = rows[i, 0]
        for j in range(products.shape[1]):
            exponent = -gamma * max(row + columns[j] - 2 * products[i, j], 0.0)
            out[i, j] = exponent
            products[i, j] = exponent - out[i, j]


@njit(nogil=True, cache=True)
def _correct(rest: NDArray[Any], out: NDArray[Any]) -> None:
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] += out[i, j] * np.float32(rest[i, j])


@dataclass(frozen=True)
class SigmoidFunction(VectorFunction):
    """tanh(gamma <x, y> + coef0)."""

    name: ClassVar[str] = "sigmoid"
    gamma: float
    coef0: float

    def value(self, products: Any, rows: Any, columns: Any) -> Any:
        products *= self.gamma
        products += self.coef0
        return devices.array_module(devices.device_of(products)).tanh(products)


class Sigmoid(ScaledKernel):
    """tanh(gamma <x, y> + coef0).

    Parameters
    ----------
    gamma : float > 0, "scale" or "auto"
        See `ScaledKernel`.
    coef0 : float

    Examples
    --------
    >>> from textsvm import Sigmoid
    >>> print(Sigmoid(gamma=1.0)([[1.0, 0.0]], [[0.5, 1.0]]).round(4))  # tanh(0.5)
    [[0.4621]]
    """

    name: ClassVar[str] = "sigmoid"

    def __init__(self, gamma: float | str = "scale", coef0: float = 0.0) -> None:
        self.gamma = gamma
        self.coef0 = coef0

    @property
    def function(self) -> SigmoidFunction:
        return SigmoidFunction(self._factor, float(self.coef0))

    def check(self) -> None:
        super().check()
        check_coef0(self)
