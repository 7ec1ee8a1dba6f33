"""Input types of models: texts, vectors, table columns, or a precomputed kernel matrix.

A source has no state but its parameters; examples, kernels and support vectors are arguments. The source of a
trained model is its reader.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from textsvm.arrays import AnyArray, Array, Arrays, Floats, Ints
from textsvm.errors import InputError
from textsvm.kernels.base import Kernel
from textsvm.kernels.combined.rows import SumPredictor, SumRows
from textsvm.kernels.contract import KernelRows, Predictor, Weights, strip_prefix
from textsvm.kernels.resolve import as_kernel
from textsvm.kernels.shared.counting import PASSES
from textsvm.kernels.spelling import spell
from textsvm.linalg.factored import as_dense, scipy_sparse
from textsvm.runtime.compiled import NUMPY_SIZE, scipy
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import StageProgress
from textsvm.text.documents import View

#: Seconds and bytes of Python and NumPy, and of Numba, which is imported for much work.
LIBRARIES, NUMBA = (0.25, 68 << 20), (0.35, 75 << 20)
#: Seconds to count an occurrence by NumPy and by compiled functions: in training texts, and in a new text.
COUNT, NEW = (1.2e-7, 8e-9), (5e-8, 3e-8)
#: Seconds to store an entry, likewise, and to hash and map a byte of a file with an index.
STORE, READ = (0.0, 5e-8), 1.6e-9
#: Bytes of an entry in an index, or as weights, and for each machine; of an occurrence in a new text; of a
#: byte of a file that is mapped.
INDEXED, WEIGHED, MACHINE, NEW_BYTES, MAPPED = 17, 20, 1, 8, 1.3


def entries_of(occurrences: int) -> float:
    """Predicted number of distinct substrings of a text."""
    return min(0.7 * occurrences, 140 * sqrt(occurrences))


class FirstPrediction(NamedTuple):
    """Cost of the first prediction of a new process, with the imports, for a text with `new` occurrences."""

    seconds: float
    bytes: int  #: Of main memory, with the pages of a mapped file

    @classmethod
    def mapped(cls, size: int, new: int) -> FirstPrediction:
        """From a file of `size` bytes with an index."""
        return cls._of(READ * size, MAPPED * size, 0, new)

    @classmethod
    def counted(cls, size: int, vectors: int, new: int, machines: int) -> FirstPrediction:
        """By counting so many support vectors of equal length, with an index in memory if `machines` is 0."""
        used = WEIGHED + MACHINE * machines if machines else INDEXED
        return cls._of(0.0, size + used * vectors * entries_of(new), vectors, new, 4 if machines else 2)

    @classmethod
    def _of(cls, seconds: float, used: float, vectors: int, new: int, times: int = 2) -> FirstPrediction:
        compiled = times * PASSES * (vectors + 1) * new > NUMPY_SIZE
        for libraries in (LIBRARIES, NUMBA)[: 1 + compiled]:
            seconds, used = seconds + libraries[0], used + libraries[1]
        seconds += vectors * (COUNT[compiled] * new + STORE[compiled] * entries_of(new))
        seconds += NEW[compiled] * new
        return cls(seconds, round(used + NEW_BYTES * new))


#: Prefixes of the names of saved arrays: the learnt state of a kernel, weights of features, and indexes.
_STATE, _WEIGHTS, INDEX = "kernel.", "weights.", "index."
TOLERANCE = 1e-6  #: Largest change by rounding of the value of a normalised kernel, in a model without texts.


@dataclass(frozen=True, eq=False)
class Support:
    """Support vectors and the fitted kernel, from which a model computes decision values."""

    indices: Ints  #: shape (n_sv,): Ascending indices of the support vectors in the training examples
    kernel: Kernel | None = None  #: Fitted; None with a precomputed kernel matrix
    documents: Any = None  #: Support vectors; None with a precomputed kernel matrix
    n_features: int | None = None  #: Columns of the precomputed kernel matrix, or of vectors
    #: A weight for each feature in place of support vectors; `documents` are then empty and keep only the
    #: alphabets of the training texts.
    weights: Weights | None = None
    #: An inverted index of the support vectors for each term of the kernel, if it saves time.
    index: Sequence[Any] = ()

    def rows(self, device: Device) -> KernelRows:
        """Kernel values with the support vectors, by their index if they have one."""
        kernel: Any = self.kernel
        if not self.index:
            return kernel.rows(self.documents, device)
        of_sum = kernel.structure.terms[0][1] is not kernel
        return SumRows(kernel, self.documents, device, self.index) if of_sum else self.index[0]

    def all_documents(self, n: int) -> Any:
        """The documents if all n training examples are support vectors, else None."""
        return self.documents if len(self.indices) == n else None

    @cached_property
    def views(self) -> tuple[View, ...]:
        """Views of the documents; empty with a precomputed kernel matrix."""
        return () if self.kernel is None else self.kernel.structure.views


class Reader(ABC):
    """Reader of a trained model: checks and encodes examples to be predicted."""

    @abstractmethod
    def tag(self, input_tags: Any) -> None:
        """Set scikit-learn's input tags to the inputs that `validate` accepts."""

    @abstractmethod
    def validate(self, X: object, n_features: int | None = None) -> Any:
        """Check examples, and return a list of str, `Vectors`, `InputTable` or a kernel matrix.

        `n_features` is the number of columns of the training examples, None while training. The values of a
        training matrix are checked when its rows are built.
        """

    def encode_test(self, examples: Any, support: Support) -> Any:
        """Encode validated test examples for `Predictor.values`."""
        return examples


class Source(Reader):
    """Input type of a model: validates, encodes and saves its examples."""

    @property
    def form(self) -> Hashable:
        """Equal for sources whose kernels can share examples, see `encode_for`."""
        return None

    def check(self) -> None:
        """Raise InputError if a parameter is out of range."""

    @abstractmethod
    def encode(self, examples: Any, alphabets: Any = None, progress: StageProgress | None = None) -> Any:
        """Encode validated examples: texts over their own alphabet, or an extension of that of `alphabets`.

        `alphabets` are encoded examples.
        """

    def encode_for(self, sources: Sequence[Source], examples: Any, progress: StageProgress | None) -> Any:
        """Encode validated examples for the kernels of several sources with the same `form`."""
        return self.encode(examples, None, progress)

    def of_kernel(self, kernel: Kernel) -> Source:
        """The source with another kernel of the same input."""
        return self

    @abstractmethod
    def kernel_for(self, examples: Any) -> Kernel:
        """A new kernel for these examples; InputError if it finds no feature in any of them."""

    def memory(self, requested: int | str | None, n: int, device: Device) -> int | str | None:
        """Memory limit for the rows of n examples, given the limit of the user."""
        return requested

    def require_tunable(self, names: Iterable[str]) -> None:
        """Raise InputError if a grid over parameters with these names has no meaning for the source."""
        return

    @abstractmethod
    def support(self, kernel: Kernel, examples: Any, indices: Ints) -> Support:
        """The examples at `indices` as support vectors of a fitted kernel."""

    @abstractmethod
    def require_weights(self) -> None:
        """Raise InputError if machines cannot be weights of features."""

    @abstractmethod
    def without_texts(self, support: Support, coef: Floats) -> Support:
        """Replace support vectors and coefficients, (n_machines, n_sv), by a weight for each feature.

        Raises InputError as `require_weights` does.
        """

    @abstractmethod
    def predictor(self, support: Support, coef: Floats, device: Device) -> Predictor:
        """Prepare machines with coefficients (n_machines, n_sv) for prediction."""

    @abstractmethod
    def state(self, support: Support, machines: int = 1) -> tuple[Any, Arrays]:
        """Kernel as JSON values, and arrays to save; InputError if the kernel cannot be saved."""

    def first_prediction(
        self, support: Support, machines: int, size: int, mapped: bool
    ) -> FirstPrediction | None:
        """Predicted cost for a text of mean length, of a file of `size` bytes; None if it is not known."""
        return None

    @abstractmethod
    def restore(self, n_features: int | None, indices: Ints, arrays: Arrays) -> Support:
        """Restore from `state`; InputError, KeyError or ValueError if the arrays are damaged."""


class KernelSource(Source):
    """Examples that a kernel compares."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def new_kernel(self) -> Kernel:
        """A new kernel with the parameters of the source's."""
        return as_kernel(self.kernel)

    @cached_property
    def unfitted(self) -> Kernel:
        """A kernel with these parameters that is never fitted."""
        return as_kernel(self.kernel)

    def of_kernel(self, kernel: Kernel) -> Source:
        source = copy(self)
        vars(source).pop("unfitted", None)
        source.kernel = kernel
        return source

    def check(self) -> None:
        self.unfitted.check()

    def kernel_for(self, examples: Any) -> Kernel:
        return self.new_kernel()

    def require_weights(self) -> None:
        features = self.unfitted.features
        if features is None or not features.has_weights:
            raise InputError(
                f"a model of {spell(self.unfitted)} cannot do without its support vectors: spectrum kernels, "
                "linear kernels and sums of them can"
            )

    def without_texts(self, support: Support, coef: Floats) -> Support:
        if support.weights is not None:
            return support
        self.require_weights()
        assert support.kernel is not None
        empty = support.documents.take(np.empty(0, np.int64))
        read = support.kernel.structure.read(support.documents)
        weights = support.kernel.features.weights(read, coef, *support.index)
        return Support(support.indices[:0], support.kernel, empty, support.n_features, weights)

    def predictor(self, support: Support, coef: Floats, device: Device) -> Predictor:
        if support.weights is not None:
            return support.weights.predictor(device)
        assert support.kernel is not None
        terms = support.kernel.structure.terms
        if support.index and device.kind == "cpu" and not scipy_sparse(coef):
            pairs = zip(terms, support.index, strict=True)
            parts = [index.predictor(weight * coef, device) for (weight, _), index in pairs]
            return SumPredictor(support.kernel, parts, device, np.ones(len(parts)).tolist())
        features = support.kernel.features
        if features is None or not features.has_weights:
            coef = as_dense(coef)
        return support.kernel.predictor(support.documents, coef, device)

    def _learnt_state(self, support: Support) -> Arrays:
        """Arrays of the weights of features, or else of the state that the kernel has learnt."""
        assert support.kernel is not None
        if support.weights is not None:
            return {_WEIGHTS + name: array for name, array in support.weights.state(TOLERANCE).items()}
        return {_STATE + name: array for name, array in support.kernel.structure.state().items()}

    def _restore_learnt(self, unfitted: Support, arrays: Arrays) -> Support:
        """Restore the state of a kernel, or weights of features, from `_learnt_state`."""
        kernel: Any = unfitted.kernel
        if weights := strip_prefix(_WEIGHTS, arrays):
            self.require_weights()
            restored = kernel.features.restore_weights(weights, unfitted.documents)
            return replace(unfitted, weights=restored)
        kernel.structure.restore(strip_prefix(_STATE, arrays))
        return unfitted


@dataclass(frozen=True, eq=False)
class Expansion:
    """Machines f_k(x) = sum_i dual_coef[k, i] K(support_i, x) + intercept[k], or weights of features."""

    support: Support
    #: shape (n_machines, n_sv): sign_i alpha_i of each machine; sparse if it is large and most are 0
    dual_coef: Array
    intercept: Floats  #: shape (n_machines,): Biases

    def prepare(self, reader: Reader, device: Device) -> Predictor:
        """Prepare the machines, without their biases, for prediction on a device."""
        assert isinstance(reader, Source)
        return reader.predictor(self.support, self.dual_coef, device)

    @cached_property
    def constant(self) -> bool:
        """Whether the machines are their biases alone, without support vectors or weights."""
        return not len(self.support.indices) and self.support.weights is None


def csr_of(data: AnyArray, columns: AnyArray, starts: AnyArray, shape: tuple[int, int], name: str) -> Any:
    """Sparse matrix from saved arrays; InputError, which names the rows `name`, if they are damaged."""
    if data.ndim != 1 or columns.shape != data.shape or columns.dtype not in (np.int32, np.int64):
        raise InputError(f"its {name} have no column for each value")
    if starts.shape != (shape[0] + 1,):
        raise InputError(f"its {name} are not as many as they should be")
    check_offsets(starts, len(data), f"{name}'")
    if len(columns) and (columns.min() < 0 or columns.max() >= shape[1]):
        raise InputError(f"the columns of its {name} are out of bounds")
    values = scipy.sparse.csr_array((data, columns, starts), shape=shape)
    if not values.has_canonical_format:
        raise InputError(f"the columns of its {name} are out of order")
    return values


def check_offsets(offsets: AnyArray, size: int, of: str) -> None:
    """Raise InputError unless saved offsets ascend from 0 to `size`."""
    if offsets.ndim != 1 or offsets.dtype != np.int64 or len(offsets) < 1:
        raise InputError(f"its {of} offsets are not a row of 64-bit integers")
    if offsets[0] != 0 or offsets[-1] != size or (offsets[1:] < offsets[:-1]).any():
        raise InputError(f"its {of} offsets are out of bounds")
