"""Kernels of vectors, functions of |x|^2, |y|^2 and <x, y>.

Linear          <x, y>; machines are a weight for each number of a vector
Polynomial      (gamma <x, y> + coef0)^degree
Gaussian        exp(-gamma |x - y|^2)
Sigmoid         tanh(gamma <x, y> + coef0)

`VectorFunction` is such a function, for arrays of either device. cpu.py and cuda.py compute products and rows
of kernel values; a GPU applies the functions of finish.cuh where products are computed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import astuple, dataclass
from typing import Any, ClassVar, Self

import numpy as np

from textsvm.arrays import Array, Arrays, Floats, Floats32, Ints
from textsvm.errors import InputError
from textsvm.kernels.base import Ability, Kernel, Structure, check_whole, is_number
from textsvm.kernels.contract import Cost, Features, FeatureWeights, Predictor
from textsvm.kernels.spectrum.weight_vectors import MOST_TIMES, ROOM
from textsvm.kernels.vectors.cpu import HostVectorRows
from textsvm.kernels.vectors.cuda import CudaVectorRows
from textsvm.linalg.factored import BYTES_PER_ENTRY, as_dense
from textsvm.linalg.rows import FeatureRows
from textsvm.linalg.vectors import NUMBERS, Vectors, feature_rows
from textsvm.runtime import device as devices
from textsvm.runtime.compiled import njit
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress

VALUE_SECONDS = 2e-9  #: Seconds that a core takes for a kernel value.
NUMBER_SECONDS = 3e-11  #: Seconds that a core takes for a number of a vector in a kernel value.


@dataclass(frozen=True)
class VectorFunction(ABC):
    """Kernel values from products; the fields are its parameters."""

    name: ClassVar[str] = ""  #: Name in finish.cuh; empty if it is not there
    shifts: ClassVar[bool] = False  #: Whether values do not change if all vectors are shifted alike

    @property
    def numbers(self) -> tuple[float, ...]:
        """The parameters, in the order of finish.cuh."""
        return astuple(self)

    @abstractmethod
    def value(self, products: Array, rows: Array, columns: Array) -> Array:
        """Kernel values, (m, n), from <x, y>, (m, n), |x|^2, (m, 1), and |y|^2, (n,).

        The products may be overwritten.
        """

    def put(self, products: Floats, rows: Array, columns: Array, out: Floats32) -> None:
        """Write kernel values to `out`, (m, n), on the host."""
        with np.errstate(over="ignore"):  # solvers report infinite values
            out[...] = self.value(products, rows, columns)


class VectorCost(Cost):
    """Cost of a kernel of vectors."""

    def of_rows(self, row_lengths: Ints, column_lengths: Ints) -> Floats:
        # The time of a product of sparse vectors depends on the numbers that both have.
        return (VALUE_SECONDS + NUMBER_SECONDS * np.asarray(row_lengths, np.float64)) * len(column_lengths)


class VectorStructure(Structure):
    """Structure of a kernel of vectors."""

    @property
    def alike(self) -> float:
        return 1 - 1e-5  # with a small gamma all vectors are close


class VectorKernel(Kernel):
    """A kernel of the form f(<x, y>, |x|^2, |y|^2)."""

    cost = Ability(VectorCost)

    @property
    def structure(self) -> Structure:
        return VectorStructure(self, NUMBERS)

    @property
    @abstractmethod
    def function(self) -> VectorFunction:
        """The function of a fitted kernel."""

    def rows(self, documents: Any, device: Device) -> Any:
        return (CudaVectorRows if device.kind == "cuda" else HostVectorRows)(self, documents, device)


class ScaledKernel(VectorKernel):
    """A kernel of vectors with a factor gamma; "scale" and "auto" are computed as in scikit-learn."""

    gamma: float | str

    @property
    def _factor(self) -> float:
        return self._gamma if isinstance(self.gamma, str) else float(self.gamma)

    @property
    def _learns(self) -> bool:
        return isinstance(self.gamma, str) and self.gamma == "scale"

    def check(self) -> None:
        gamma = self.gamma
        a_number = is_number(gamma) and 0 < gamma < np.inf
        if not a_number and not (isinstance(gamma, str) and gamma in ("scale", "auto")):
            raise InputError(
                f"gamma={gamma!r} of the {self.name} kernel must be a finite number above 0, 'scale' or "
                "'auto'"
            )

    def fit(self, documents: Vectors, device: Device | None = None) -> Self:  # type: ignore[override]
        """Check the parameters and compute gamma."""
        self.check()
        self._gamma = 1 / documents.n_features
        if self.gamma == "scale":
            variance = documents.variance
            self._gamma = self._gamma / variance if 0 < variance < np.inf else 1.0
        return self

    def state(self) -> Arrays:
        return {"gamma": np.array([self._factor])} if isinstance(self.gamma, str) else {}

    def restore(self, state: Arrays) -> None:
        if isinstance(self.gamma, str):
            [self._gamma] = state["gamma"].tolist()
            if not is_number(self._gamma) or not 0 < self._gamma < np.inf:
                raise InputError(f"gamma must be a finite number above 0, got {self._gamma!r}")


def check_coef0(kernel: Any) -> None:
    """Raise InputError if the `coef0` of a kernel is not a finite number."""
    if not is_number(kernel.coef0) or not np.isfinite(kernel.coef0):
        raise InputError(f"coef0={kernel.coef0!r} of the {kernel.name} kernel must be a finite number")


class LinearFunction(VectorFunction):
    """<x, y>."""

    name = "linear"

    def value(self, products: Array, rows: Array, columns: Array) -> Array:
        return products


class LinearFeatures(Features):
    """The numbers of a vector as features."""

    has_weights = True

    @property
    def key(self) -> Hashable:
        return self.kernel.name

    def occurrences(self, lengths: Ints) -> Ints:
        return lengths

    def count(self, documents: Any, device: Device | None = None) -> CountedVectors:
        return CountedVectors(feature_rows(documents))

    def weights(self, support: Any, coef: Floats) -> LinearWeights:
        values = devices.to_host(support.values)
        return LinearWeights(np.ascontiguousarray((values.T @ as_dense(coef).T).T, np.float64))

    def restore_weights(self, state: Arrays, alphabets: Any) -> LinearWeights:
        weights = state["weights"]
        if weights.dtype != np.float64 or weights.shape[1:] != (alphabets.n_features,):
            raise InputError(f"its weights must be {alphabets.n_features} numbers for each machine")
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

    def __init__(self) -> None:
        pass

    name: ClassVar[str] = "linear"
    features = Ability(LinearFeatures)

    @property
    def function(self) -> LinearFunction:
        return LinearFunction()

    def predictor(self, support: Any, coef: Floats, device: Device) -> Predictor:
        """Predict by weights on a CPU, unless most of them would be 0."""
        coef, stored = as_dense(coef), BYTES_PER_ENTRY * int(support.values.size)
        if device.kind == "cuda" or 8 * len(coef) * support.n_features > max(ROOM, MOST_TIMES * stored):
            return super().predictor(support, coef, device)
        return self.features.weights(support, coef).predictor(device)


@dataclass(frozen=True)
class CountedVectors:
    """Vectors as rows of features."""

    features: FeatureRows

    def rows(self, kernel: Any, train: Ints) -> FeatureRows:
        """All vectors."""
        return self.features


@dataclass(frozen=True)
class LinearWeights:
    """`Weights` of a linear kernel: a weight for each number of a vector."""

    weights: Floats  #: shape (n_machines, d)

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
        return [FeatureWeights("numbers", names.__getitem__, self.weights.T)]

    def state(self, tolerance: float) -> Arrays:
        return {"weights": self.weights}


@dataclass
class LinearPredictor:
    """Values of machines, X w (`Predictor`)."""

    weights: Floats
    device: Device

    def values(self, documents: Any, progress: Progress | None = None) -> Floats:
        return np.asarray(devices.to_host(documents.values) @ self.weights.T, np.float64)


MOST = (1 << 31) - 1  #: Greatest degree: a C int holds it, and a float64 its parity.


@dataclass(frozen=True)
class PolynomialFunction(VectorFunction):
    """(gamma <x, y> + coef0)^degree."""

    name: ClassVar[str] = "polynomial"
    gamma: float
    coef0: float
    degree: float

    def value(self, products: Array, rows: Array, columns: Array) -> Array:
        products *= self.gamma
        products += self.coef0
        return _power(products, int(self.degree))


class Polynomial(ScaledKernel):
    """(gamma <x, y> + coef0)^degree.

    Parameters
    ----------
    gamma : float > 0, "scale" or "auto"
        "scale" is 1 / (d * variance of all numbers of the training vectors), "auto" is 1 / d.
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


def _power(base: Array, exponent: int) -> Array:
    """An integer power by squaring, 10 times as fast as pow(); `base` is overwritten."""
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

    def value(self, products: Array, rows: Array, columns: Array) -> Array:
        xp = devices.array_module(devices.device_of(products))
        products *= -2
        products += rows
        products += columns
        return xp.exp(-self.gamma * xp.maximum(products, 0))

    def put(self, products: Floats, rows: Array, columns: Array, out: Floats32) -> None:
        _exponents(products, rows, columns, self.gamma, out)
        np.exp(out, out=out)
        _correct(products, out)


class Gaussian(ScaledKernel):
    """exp(-gamma |x - y|^2), scikit-learn's "rbf".

    Parameters
    ----------
    gamma : float > 0, "scale" or "auto"
        "scale" is 1 / (d * variance of all numbers of the training vectors), "auto" is 1 / d.

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
def _exponents(products, rows, columns, gamma, out):
    """Exponents as float32, and their rounding error in `products`: exp(a + b) = exp(a) (1 + b)."""
    for i in range(products.shape[0]):
        row = rows[i, 0]
        for j in range(products.shape[1]):
            exponent = -gamma * max(row + columns[j] - 2 * products[i, j], 0.0)
            out[i, j] = exponent
            products[i, j] = exponent - out[i, j]


@njit(nogil=True, cache=True)
def _correct(rest, out):
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] += out[i, j] * np.float32(rest[i, j])


@dataclass(frozen=True)
class SigmoidFunction(VectorFunction):
    """tanh(gamma <x, y> + coef0)."""

    name: ClassVar[str] = "sigmoid"
    gamma: float
    coef0: float

    def value(self, products: Array, rows: Array, columns: Array) -> Array:
        products *= self.gamma
        products += self.coef0
        return devices.array_module(devices.device_of(products)).tanh(products)


class Sigmoid(ScaledKernel):
    """tanh(gamma <x, y> + coef0).

    Parameters
    ----------
    gamma : float > 0, "scale" or "auto"
        "scale" is 1 / (d * variance of all numbers of the training vectors), "auto" is 1 / d.
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
