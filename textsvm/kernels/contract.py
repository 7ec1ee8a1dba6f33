"""Interfaces of kernels: rows of values, prediction, and optional abilities.

A kernel (`textsvm.kernels.base.Kernel`) has parameters, `check`, `fit`, `rows`, `predictor`, `state` and
`restore`. Everything else is in an object of its own that the kernel has as an attribute:

- `structure` (`Structure`): the input it reads, its parts, its saved form.
- `cost` (`Cost`): predicted time and memory, and how its Gram can be divided and shared.
- `features` (`Features`, or None): an explicit feature map.
- `attribution` (`textsvm.kernels.attribution.Attributor`): contributions of symbols to a value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from textsvm.arrays import AnyArray, Array, Arrays, Bools, Floats, Floats32, Ints
from textsvm.errors import InputError
from textsvm.linalg.rows import FeatureRows, side_by_side
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device
from textsvm.runtime.memory import trim
from textsvm.runtime.parallel import Progress, report
from textsvm.text.documents import Documents, MultiView

BLOCK_BYTES = 32 << 20  #: Bytes of kernel values that prediction holds at a time.
#: Rows computed on demand that a solver requests at a time by default; more would evict rows in use
#: (reports/tiers.md). A stored matrix is read by larger blocks (`Gram.ahead`).
AHEAD = 8
#: Values a second of a kernel without a cost model, such as a Python function: 5e5 a minute.
UNKNOWN_RATE = 5e5 / 60
#: Seconds of a core of a Gram from features: to count an occurrence of a feature, for a kernel value, and for
#: a document and an occurrence (reports/plan.md).
COUNT, VALUE, PRODUCT = 4.5e-8, 1.75e-8, 2.7e-11
OWN = "own."  #: Prefix of the saved arrays of a kernel on a column.
#: Normalised kernel value from which two texts are near-duplicates. 3,000 documents of R8 have 23 exact
#: copies; kernels of texts report 29 to 101 pairs at 0.98, nearly all identical. At 0.95 a kernel that
#: counts single characters reports 22,030 pairs of different documents.
ALIKE = 0.98


class MatrixRows(Protocol):
    """Rows of a symmetric n x n kernel matrix, computed on demand.

    Arrays are float32 and stay on the device: NumPy arrays on a CPU, CuPy arrays on a GPU.
    """

    n: int
    device: Device

    def diag(self) -> Array:
        """k(d, d) of each column document, shape (n,)."""

    def rows(self, indices: Ints) -> Array:
        """k(documents[indices], documents), shape (len(indices), n)."""

    def gram(self, progress: Progress | None = None) -> Array:
        """The whole matrix, shape (n, n), of which half is computed."""


class KernelRows(MatrixRows, Protocol):
    """Kernel values with `n` fixed documents, the columns; other documents can be the rows.

    CPU and CUDA implementations have the same constructor: (kernel, documents, device).
    """

    kernel: Any
    documents: Documents

    def cross(self, others: Documents, progress: Progress | None = None) -> Array:
        """k(others, documents), shape (len(others), n).

        The alphabet of `others` must extend that of the column documents.
        """

    def decision(self, others: Documents, coef: Floats, progress: Progress | None = None) -> Floats:
        """k(others, documents) @ coef in bounded memory: coef (n, k) -> (len(others), k), on the host."""


class HostRows(ABC):
    """Base class of rows on a CPU: decision values from blocks of `cross`."""

    n: int
    #: Rows that a solver should request at a time, including rows that it will probably need next; 1 if a
    #: block saves no time.
    ahead: int = AHEAD

    @abstractmethod
    def cross(self, others: Documents, progress: Progress | None = None) -> Floats32:
        """k(others, documents), shape (len(others), n)."""

    def decision(self, others: Documents, coef: Floats, progress: Progress | None = None) -> Floats:
        return decision_by_rows(self, others, coef, progress, on_host=True)


def rows_ahead(rows: object) -> int:
    """Rows that a solver should request at a time."""
    return int(getattr(rows, "ahead", AHEAD))


def decision_by_rows(
    rows: Any, others: Any, coef: Floats, progress: Progress | None = None, on_host: bool = False,
    size: int | None = None,
) -> Floats:  # fmt: skip
    """k(others, documents) @ coef, `size` of `others` at a time, multiplied on the device or on the host."""
    values = np.empty((len(others), coef.shape[1]))
    size = size or max(1, BLOCK_BYTES // (4 * max(1, rows.n)))
    with devices.use(rows.device):
        weights = coef if on_host else devices.array_module(rows.device).asarray(coef)
        for start in range(0, len(others), size):
            stop = min(start + size, len(others))
            block = rows.cross(others.take(np.arange(start, stop)))
            block = (devices.to_host(block) if on_host else block).astype(np.float64)
            if isinstance(block, np.ndarray):  # the order of a sum in BLAS depends on the number of rows
                values[start:stop] = [row @ weights for row in block]
            else:
                values[start:stop] = devices.to_host(block @ weights)
            report(progress, stop, len(others))
    return values


class Predictor(Protocol):
    """Machines prepared for prediction on `device`: machine m is sum_i coef[m, i] k(support_i, document)."""

    device: Device

    def values(self, documents: Documents, progress: Progress | None = None) -> Floats:
        """Values without bias, shape (len(documents), n_machines), on the host, in bounded memory.

        The alphabet of `documents` must extend that of the support vectors.
        """


@dataclass(frozen=True)
class FeatureWeights:
    """Names and weights of the features of a kernel."""

    kind: str  #: "substrings", "words" or "numbers"
    names: Callable[[Ints], NDArray[np.object_]]  #: Of some features, given by ascending numbers
    weights: Floats  #: shape (n_features, n_machines)
    kernel: Any = None  #: The kernel, if it is a term of a sum
    in_texts: Bools | None = None  #: shape (n_features,): Whether texts of the model have it; None: all


@dataclass(frozen=True)
class FeatureTable:
    """Features of a kernel that are counted together: strings at some offsets of a window."""

    offsets: Ints  #: shape (n_patterns, p): Places of the symbols of an occurrence in its window
    #: Symbols of a window, which must lie within the text; of several patterns each has its own window, up
    #: to its last symbol.
    span: int
    values: Floats  #: shape (n_patterns,): Value of an occurrence; 1 for plain counts
    times: int  #: Factor of the squares of these features in k(s, s)
    codes: AnyArray  #: shape (n, p): Codes of the symbols of each known string
    factors: Floats | None  #: shape (n,): Learnt factor of each string; None: 1
    #: shape (n,): Number of rows of `weights` of each string. Intersection kernels have a row for each
    #: occurrence up to the largest count, all others have a single row.
    rows: Ints
    weights: Floats  #: shape (sum of rows, n_machines)


@dataclass(frozen=True)
class FeatureTerm:
    """A kernel with machines as weights of features: all that prediction needs.

    A string u with value a in a text (its number of occurrences) has the feature
    x = float32(factor f(a)), and adds ``x * weights`` to the values of the machines and ``times * x**2`` to
    k(s, s). With `count` "intersection" each occurrence has the feature x = float32(factor) and a row of
    weights of its own. The values are finally multiplied by 1 / sqrt(k(s, s)) if the kernel is `normalised`,
    else by `scale`.
    """

    kernel: Any
    view: Any  #: Symbols that the kernel reads (`textsvm.text.documents.View`)
    alphabet: AnyArray  #: Symbol of each code: code points (uint32) or tokens (object)
    count: str  #: Function f: "count", "presence", "log" or "intersection"
    normalised: bool
    tables: Sequence[FeatureTable]
    unknown: float = 1.0  #: Factor of strings that no table has
    scale: float = 1.0
    mean: bool = False  #: Whether the values are divided by the number of symbols of the text
    #: Codes of texts without any feature, and values of equal texts, shape (n, n_machines).
    featureless: Sequence[Ints] = ()
    featureless_values: Floats | None = None


class Weights(Protocol):
    """Machines as a weight for each feature, on the host, without support vectors."""

    @property
    def left_out(self) -> int:
        """Number of support vectors without features, which have no weights."""

    @property
    def n_machines(self) -> int:
        """Number of machines."""

    def predictor(self, device: Device) -> Predictor:
        """Prepare for prediction; the predictor of a CPU has `contributions` (`SpectrumPredictor`), too."""

    def named(self, examples: Documents | MultiView) -> list[FeatureWeights]:
        """Features with a weight, for each term of the kernel; `examples` have the alphabets of training."""

    def state(self, tolerance: float) -> Arrays:
        """Arrays for `Features.restore_weights`; normalised values change by at most `tolerance`."""


class RowsPredictor:
    """`Predictor` from kernel values with the support vectors; coef has shape (n_machines, n_sv)."""

    def __init__(self, rows: KernelRows, coef: Floats) -> None:
        self.rows, self.coef, self.device = rows, coef, rows.device

    def values(self, documents: Documents, progress: Progress | None = None) -> Floats:
        return self.rows.decision(documents, self.coef.T, progress)

    def feature_terms(self, examples: Any) -> list[FeatureTerm]:
        """Raise InputError: predictors of kernel values have no features to export."""
        raise InputError("a kernel of the model has too many features to be exported")


class SharedColumns(Protocol):
    """Rows of several kernels from a shared pass, with the same bits as rows of each kernel alone."""

    def diags(self) -> list[Array]:
        """K[i, i] of each kernel, shape (n,), float32."""

    def rows(self, indices: Ints) -> list[Array]:
        """Rows of each kernel, shape (len(indices), n), float32."""

    def cross(self, others: Documents) -> list[Array]:
        """Values of other documents with the columns, a matrix for each kernel."""


class Sharing(ABC):
    """Work that several kernels of a grid share on the same documents.

    Subclasses are frozen dataclasses of the parameters on which the work depends: kernels share it if their
    `Cost.sharing` is equal.
    """

    #: Whether tiles of the matrices of a pass have the same bits on a CPU; see `Cost.tileable`.
    tileable: ClassVar[bool] = False

    def passes(self, kernels: Sequence[Any], room: int) -> list[list[int]]:
        """Positions of the kernels that are computed in each pass, in the order of `grams`.

        `room` is the number of matrices that fit in memory, at least 2; a single pass takes 2.
        """
        return [list(range(len(kernels)))]

    @abstractmethod
    def description(self, kernels: Sequence[Any]) -> str:
        """The common work of a pass in a few words, for messages."""

    @abstractmethod
    def grams(
        self, kernels: Sequence[Any], documents: Documents, device: Device, progress: Progress | None
    ) -> Iterator[tuple[int, Array]]:
        """Position and matrix of each kernel of a pass; the caller may keep the matrix."""

    def columns(self, kernels: Sequence[Any], documents: Documents, device: Device) -> SharedColumns | None:
        """Kernel matrices against fixed documents, computed on demand; None without a shared pass."""
        return None

    def cross(self, kernels: Sequence[Any], others: Documents, documents: Documents) -> list[Array]:
        """Kernel values of others with documents, a matrix for each kernel, on the CPU."""
        columns = self.columns(kernels, documents, devices.select("cpu"))
        assert columns is not None
        return columns.cross(others)


class Cost:
    """Predicted time and memory of a kernel, and how its Gram can be divided and shared."""

    #: Whether rows on a card have ``gram_in_shards(shards, number, progress)`` (`textsvm.gram.cards`).
    in_shards: ClassVar[bool] = False

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    @property
    def sharing(self) -> Sharing | None:
        """Work that is shared with kernels of equal `sharing`."""
        return None

    def of_rows(self, row_lengths: Ints, column_lengths: Ints) -> Floats:
        """Predicted seconds of a core for the kernel values of each row document with all columns, (m,)."""
        return np.full(len(row_lengths), len(column_lengths) / UNKNOWN_RATE)

    def seconds(self, rows: Documents | MultiView, columns: Documents | MultiView) -> float:
        """Predicted seconds of a core for all values of some documents with others."""
        total = 0.0
        for leaf in self.kernel.structure.leaves:
            row_lengths, column_lengths = (leaf.structure.read(own).lengths for own in (rows, columns))
            total += float(leaf.cost.of_rows(row_lengths, column_lengths).sum())
        return total

    def tileable(self, documents: Documents, kind: str = "cpu") -> bool:
        """Whether a Gram computed in tiles, documents in order of length, has the bits of the whole.

        False by default: values that are quick to compute are not worth sending. `kind` is the kind of
        device, "cpu" or "cuda".
        """
        return False

    @property
    def quadratic(self) -> bool:
        """Whether the time of a value grows with the product of the two lengths."""
        once, twice = (self.of_rows(length, length)[0] for length in (np.array([1000]), np.array([2000])))
        return bool(twice > 3 * once)

    def demand(self, lengths: Ints) -> float:
        """Work of prediction with support vectors of these lengths, relative to the limit of saved models."""
        return 0.0


class CountedCost(Cost):
    """Cost of a kernel whose features are counted, and whose values are products of counts."""

    def of_rows(self, row_lengths: Ints, column_lengths: Ints) -> Floats:
        features, n = self.kernel.features, len(column_lengths)
        own, others = features.occurrences(row_lengths), features.occurrences(column_lengths)
        counting = own + others.sum() / max(len(own), 1)
        seconds: Floats = COUNT * counting + 2 * n * (VALUE + PRODUCT * features.density * own)
        return seconds


class TileableCost(Cost):
    """Cost of a kernel whose values are worth sending, with the same bits in a tile and in the whole."""

    def tileable(self, documents: Documents, kind: str = "cpu") -> bool:
        return True


class Features:
    """Explicit feature map of a kernel.

    `key`, `occurrences`, `count`, `fit_counted`, `rows_of` and `bytes` are for kernels that are not sums. All
    other members are for sums, too. Machines can be kept as weights of features (`weights`,
    `restore_weights`) if `has_weights` is true.
    """

    has_weights: bool = False
    has_index: bool = False  #: Whether the kernel has an inverted index (`index`)
    host_only: bool = False  #: Whether features are counted on the CPU only
    in_passes: bool = False  #: Whether a GPU counts them in passes, and keeps them in main memory if it must
    density: float = 1.0  #: Share of documents with a feature, relative to p-mers of texts, for predictions

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    @property
    def key(self) -> Hashable | None:
        """Equal for kernels that can share counted documents; None if features cannot be counted."""
        return None

    @property
    def countable(self) -> bool:
        """Whether the features of all terms can be counted, so that `rows` is available."""
        return self.key is not None

    def occurrences(self, lengths: Ints) -> Ints:
        """Upper bound of the number of features of documents of these lengths, shape (n,)."""
        raise NotImplementedError

    def count(self, documents: Documents, device: Device | None = None) -> Any:
        """Count the features of documents (`CountedDocuments`), on a CPU by default."""
        raise NotImplementedError

    def fit_counted(self, counted: Any, train: Ints) -> None:
        """Fit the kernel to some of the counted documents."""
        self.kernel.check()

    def release(self, counted: object) -> None:
        """Let the next feature rows of counted documents, which are the last, reuse their memory."""

    def bytes(self, documents: Documents, gram: bool = False) -> int:
        """Predicted bytes of the features, if they can lie on disk, or to compute a `gram`; otherwise 0."""
        return 0

    def rows_of(self, counted: Any, train: Ints) -> FeatureRows:
        """Feature matrix of counted documents, for a kernel fitted to `train`."""
        return counted.rows(self.kernel, train)

    def rows(self, documents: Documents | MultiView, device: Device) -> FeatureRows:
        """Fit the kernel to documents and return their feature matrix."""
        every_document, terms = np.arange(len(documents)), [term for _, term in self.kernel.structure.terms]
        keys, parts = [term.features.key for term in terms], {}
        for key in dict.fromkeys(keys):
            counted = terms[keys.index(key)].features.count_terms(documents, device)
            for k, term in enumerate(terms):
                if keys[k] == key:
                    if keys.count(key) == 1:
                        term.features.release(counted[key])
                    parts[k] = fitted_rows(term, counted, every_document)
            del counted  # before the terms of the next key are counted: counts are larger than rows
            trim()
        return self._side_by_side([parts.pop(k) for k in range(len(terms))], device)

    def count_terms(self, documents: Documents | MultiView, device: Device) -> dict[Hashable, Any]:
        """Counted documents of all terms, by `key`."""
        counted: dict[Hashable, Any] = {}
        for _, term in self.kernel.structure.terms:
            if term.features.key not in counted:
                counted[term.features.key] = term.features.count(term.structure.read(documents), device)
        return counted

    def counted_rows(self, counted: dict[Hashable, Any], train: Ints, device: Device) -> FeatureRows:
        """Fit the kernel to some documents of `count_terms` and return the feature matrix of all."""
        terms = [term for _, term in self.kernel.structure.terms]
        return self._side_by_side([fitted_rows(term, counted, train) for term in terms], device)

    def _side_by_side(self, parts: list[FeatureRows], device: Device) -> FeatureRows:
        weights = [weight for weight, _ in self.kernel.structure.terms]
        if device.kind == "cuda":
            from textsvm.linalg import rows_cuda

            return rows_cuda.side_by_side(parts, weights)
        return side_by_side(parts, weights)

    def weights(self, support: Documents, coef: Floats) -> Weights:
        """Machines, coef (n_machines, n_sv), as weights of features."""
        raise NotImplementedError

    def restore_weights(self, state: Arrays, alphabets: Documents | MultiView) -> Weights:
        """Restore weights, and the state of the kernel, from `Weights.state`."""
        raise NotImplementedError

    def index(self, support: Documents, state: Arrays | None = None) -> Any:
        """Inverted index of support vectors, or restored from `state`; None if some have no feature."""
        raise NotImplementedError


def fitted_rows(term: Any, counted: dict[Hashable, Any], train: Ints) -> FeatureRows:
    """Fit a term to some counted documents; the feature matrix of all."""
    features = term.features
    features.fit_counted(counted[features.key], train)
    return features.rows_of(counted[features.key], train)


def strip_prefix(prefix: str, state: Arrays) -> Arrays:
    """The arrays whose names begin with a prefix, by their names without it."""
    return {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}
