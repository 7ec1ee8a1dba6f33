"""Kernels of vectors, functions of |x|^2, |y|^2 and <x, y>.

Linear          <x, y>; machines are a weight for each number of a vector
Polynomial      (gamma <x, y> + coef0)^degree
Gaussian        exp(-gamma |x - y|^2)
Sigmoid         tanh(gamma <x, y> + coef0)

`VectorFunction` is such a function, for arrays of either device. `HostVectorRows` and cuda.py compute
products and rows of kernel values; a GPU applies the functions of finish.cuh where products are computed.

On a CPU tiles of float64 products are turned into kernel values in the cache. Dense vectors are multiplied by
BLAS, with relative errors of about 1e-15 |x| |y|. Columns of sparse vectors that many vectors hold are kept
dense; the others are lists (an inverted index), and x adds x_u y_u to every y on the list of each of its
columns u. A tile continues in the lists where the tile to its left ended. Whole numbers, including one-hot
columns, are multiplied in float32 if every product is below 2^24, which is exact and twice as fast. Tiles of
a symmetric matrix are computed once and mirrored.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from dataclasses import astuple, dataclass
from typing import Any, ClassVar, Self

import numpy as np

from textsvm.arrays import AnyArray, Array, Arrays, Floats, Floats32, Ints, first_true
from textsvm.errors import InputError
from textsvm.kernels.base import Ability, Kernel, Structure, check_whole, is_number
from textsvm.kernels.contract import Cost, Features, FeatureWeights, HostRows, Predictor
from textsvm.kernels.spectrum.weight_vectors import MOST_TIMES, ROOM
from textsvm.kernels.vectors.cuda import CudaVectorRows
from textsvm.linalg.factored import BYTES_PER_ENTRY, as_dense
from textsvm.linalg.rows import FeatureRows
from textsvm.linalg.sparse import Sparse
from textsvm.linalg.vectors import NUMBERS, Vectors, feature_rows
from textsvm.runtime import device as devices
from textsvm.runtime.compiled import njit, scipy
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress, n_threads, one_blas_thread, run

DENSE_SHARE = 0.15  #: Columns of which more than this share of the vectors have a number are dense.
DENSE_BYTES = 1 << 28  #: Greatest bytes of dense columns.
WIDE = 1 << 22  #: Number of columns up to which arrays over all columns are used.
#: Bytes up to which dense vectors are copied to float64; larger ones are converted tile by tile.
DOUBLE_BYTES = 256 << 20
EXACT = float(1 << 24)  #: Products of whole numbers below are exact in float32.
#: Rows and columns of a tile (no power of two, as columns are read too), and values of a tile of few rows.
TILE_ROWS, TILE_COLUMNS = 256, 528
TILE = TILE_ROWS * TILE_COLUMNS
ALONE = 1 << 18  #: Number of values below which starting threads does not pay.


@dataclass(frozen=True)
class DividedVectors:
    """Vectors divided into dense columns and lists, by the columns of a `VectorProducts`."""

    dense: AnyArray  #: float32 or float64, shape (m, k)
    squares: AnyArray  #: float64, shape (m,): |x|^2
    exact: bool  #: Whether products of the dense parts are exact in float32
    lists: Sparse | None = None  #: The other columns, None if there are none

    def __len__(self) -> int:
        return len(self.dense)

    def take(self, indices: slice | Ints) -> DividedVectors:
        at = np.arange(len(self))[indices] if isinstance(indices, slice) else indices
        lists = None if self.lists is None else self.lists.take(at)
        return DividedVectors(self.dense[indices], self.squares[indices], self.exact, lists)


class VectorProducts:
    """Products of vectors with n fixed vectors, an array or CSR matrix of shape (n, d) on the host.

    `shifted` says that the kernel is invariant to a common shift. Dense vectors are then centred: far from 0
    products lose the differences between vectors.
    """

    def __init__(self, values: Array, shifted: bool = False) -> None:
        self._middle: Any = None
        if shifted and not scipy.sparse.issparse(values) and 8 * values.size <= DOUBLE_BYTES:
            self._middle = np.rint(values.mean(axis=0, dtype=np.float64))  # whole numbers stay whole
        self._full: AnyArray | None = None
        self._listed: Any = None
        if scipy.sparse.issparse(values):  # columns to keep dense, and the others with entries
            (n, d), columns = values.shape, None
            if d > WIDE:
                columns, df = np.unique(values.indices, return_counts=True)
            else:
                df = np.bincount(values.indices, minlength=d)
            full = np.flatnonzero(df > DENSE_SHARE * n)
            full = np.sort(full[np.argsort(-df[full], kind="stable")[: DENSE_BYTES // (8 * max(n, 1))]])
            df[full] = 0
            listed = np.flatnonzero(df)
            self._full, self._listed = (full, listed) if columns is None else (columns[full], columns[listed])
        self.rows = self.divide(values)
        if self.rows.lists is not None:
            lists = self.rows.lists
            shape = len(self), lists.n_features
            by_columns = scipy.sparse.csr_array((lists.values, lists.features, lists.indptr), shape).tocsc()
            self._lists = (by_columns.indptr.astype(np.int64), by_columns.indices, by_columns.data)

    def __len__(self) -> int:
        return len(self.rows)

    def divide(self, values: Array) -> DividedVectors:
        """Divide vectors, dense or sparse."""
        if self._full is None:
            dense = values.toarray() if scipy.sparse.issparse(values) else values
            dense = dense if self._middle is None else dense - self._middle
            return _divided_vectors(dense, squares(dense))
        sparse = values if scipy.sparse.issparse(values) else scipy.sparse.csr_array(values)
        dense = _chosen(sparse, self._full).toarray()
        lists = None
        if len(self._listed):
            rest = _chosen(sparse, self._listed)
            lists = Sparse(rest.indptr.astype(np.int64), rest.indices, rest.data, rest.shape[1])
        return _divided_vectors(dense, squares(sparse), lists)

    def start(self, rows: DividedVectors, first: int) -> AnyArray | None:
        """For each list entry of `rows`, the position of the first vector from `first` on in its column."""
        if rows.lists is None:
            return None
        starts, documents, _ = self._lists
        at = np.empty(len(rows.lists.features), np.int64)
        _seek(rows.lists.features, starts, documents, first, at)
        return at

    def tile(self, rows: DividedVectors, columns: slice, at: AnyArray | None, out: AnyArray) -> None:
        """Write the products of rows with consecutive vectors to `out`, float64.

        `at` comes from `start` or the tile to the left and is advanced to the tile to the right.
        """
        own, other = rows.dense, self.rows.dense[columns]
        if rows.exact and self.rows.exact:
            out[...] = own @ other.T
        else:
            np.matmul(own.astype(np.float64, copy=False), other.astype(np.float64, copy=False).T, out=out)
        if at is not None and rows.lists is not None:
            entries = (rows.lists.indptr, rows.lists.features, rows.lists.values)
            _add(*entries, *self._lists, at, columns.start, columns.stop, out)


def squares(values: Array) -> Floats:
    """Squared norm of every row of a matrix."""
    if not scipy.sparse.issparse(values):
        return np.einsum("ij,ij->i", values, values, dtype=np.float64)
    data = np.square(values.data, dtype=np.float64)
    # As if all entries were in one column: the number of columns may be huge.
    return scipy.sparse.csr_array(
        (data, np.zeros_like(values.indices), values.indptr), (values.shape[0], 1)
    ) @ np.ones(1)


def _chosen(values: Array, columns: AnyArray) -> Array:
    """Some columns of a CSR matrix, ascending; of a wide matrix without an array over all columns."""
    if values.shape[1] <= WIDE:
        return values[:, columns]
    place = np.searchsorted(columns, values.indices)
    selected = np.append(columns, -1)[place] == values.indices
    indptr = np.append(0, np.cumsum(selected))[values.indptr]
    shape = (values.shape[0], len(columns))
    return scipy.sparse.csr_array((values.data[selected], place[selected], indptr), shape)


def _divided_vectors(dense: AnyArray, norms: AnyArray, lists: Sparse | None = None) -> DividedVectors:
    exact = bool(np.all(dense == np.rint(dense))) and bool(np.all(squares(dense) < EXACT))
    if exact:
        dense = dense.astype(np.float32, copy=False)
    elif 8 * dense.size <= DOUBLE_BYTES:
        dense = dense.astype(np.float64, copy=False)
    return DividedVectors(np.ascontiguousarray(dense), norms, exact, lists)


@njit(nogil=True, cache=True)
def _seek(features, starts, documents, first, at):
    for k in range(len(features)):
        low, high = starts[features[k]], starts[features[k] + 1]
        while low < high:
            middle = (low + high) // 2
            if documents[middle] < first:
                low = middle + 1
            else:
                high = middle
        at[k] = low


@njit(nogil=True, cache=True)
def _add(indptr, features, values, starts, documents, x, at, first, last, out):
    for i in range(len(indptr) - 1):
        for k in range(indptr[i], indptr[i + 1]):
            value, end, here = np.float64(values[k]), starts[features[k] + 1], at[k]
            while here < end and documents[here] < last:
                out[i, documents[here] - first] += value * x[here]
                here += 1
            at[k] = here


class HostVectorRows(HostRows):
    """Kernel values of a fitted `VectorKernel` with fixed vectors (`KernelRows`)."""

    ahead = 1

    def __init__(self, kernel: Any, documents: Vectors, device: Device) -> None:
        self.kernel, self.documents, self.device, self.n = kernel, documents, device, len(documents)
        self._function = kernel.function
        with np.errstate(over="ignore", invalid="ignore"):  # infinite squares are reported below
            self._columns = VectorProducts(devices.to_host(documents.values), self._function.shifts)
        self._squares = self._columns.rows.squares
        if (row := first_true(~np.isfinite(self._squares))) is not None:
            raise InputError(
                f"the numbers of vector {row} are too large to be multiplied; scale the columns, as "
                "StandardScaler does"
            )

    def diag(self) -> Floats32:
        row = self._squares[None]
        with np.errstate(over="ignore"):
            return self._function.value(row.copy(), row, row[0])[0].astype(np.float32)

    def rows(self, indices: Ints) -> Floats32:
        return self._with(self._columns.rows.take(indices), None)

    def cross(self, others: Any, progress: Progress | None = None) -> Floats32:
        return self._with(self._columns.divide(devices.to_host(others.values)), progress)

    def gram(self, progress: Progress | None = None) -> Floats32:
        n, matrix = self.n, np.empty((self.n, self.n), np.float32)
        every = self._columns.rows

        def fill(piece: tuple[slice, slice]) -> None:
            rows, columns = piece
            for tile, place in self._tiles(every.take(rows), columns):
                matrix[rows, place] = tile
                matrix[place, rows] = tile.T

        _on_all_cores(fill, [(rows, slice(rows.start, n)) for rows in _slices(n, TILE_ROWS)], progress)
        np.fill_diagonal(matrix, self.diag())
        return matrix

    def _with(self, rows: DividedVectors, progress: Progress | None) -> Floats32:
        matrix = np.empty((len(rows), self.n), np.float32)
        width = max(TILE_COLUMNS, TILE // max(1, len(rows)))

        def fill(piece: tuple[slice, slice]) -> None:
            block, columns = piece
            for tile, place in self._tiles(rows.take(block), columns, width):
                matrix[block, place] = tile

        few = len(rows) < 2 * TILE_ROWS * n_threads()
        size = max(width, -(-self.n // n_threads())) if few else self.n
        pieces = [(a, b) for a in _slices(len(rows), TILE_ROWS) for b in _slices(self.n, size)]
        _on_all_cores(fill, pieces, progress)
        return matrix

    def _tiles(
        self, rows: DividedVectors, columns: slice, width: int = TILE_COLUMNS
    ) -> Iterator[tuple[AnyArray, slice]]:
        """Kernel values of some vectors with consecutive columns, tile by tile."""
        at = self._columns.start(rows, columns.start)
        size = len(rows) * min(width, columns.stop - columns.start)
        products, values = np.empty(size), np.empty(size, np.float32)
        for place in _slices(columns.stop, width, columns.start):
            shape = len(rows), place.stop - place.start
            # Contiguous, which is quickest for compiled loops.
            tile, out = (buffer[: shape[0] * shape[1]].reshape(shape) for buffer in (products, values))
            self._columns.tile(rows, place, at, tile)
            self._function.put(tile, rows.squares[:, None], self._squares[place], out)
            yield out, place


def _slices(stop: int, size: int, start: int = 0) -> list[slice]:
    return [slice(first, min(first + size, stop)) for first in range(start, stop, size)]


def _on_all_cores(
    fill: Callable[[Any], object], pieces: list[tuple[slice, slice]], progress: Progress | None
) -> None:
    """Fill pieces of a matrix on all cores, with one BLAS thread each."""
    work = [(a.stop - a.start) * (b.stop - b.start) for a, b in pieces]
    with one_blas_thread():
        if progress is None and sum(work) <= ALONE:
            for piece in pieces:
                fill(piece)
        else:
            run(fill, pieces, work, progress)


# Kernels


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
