"""Examples of numbers: vectors, and tables with columns of texts and numbers (`kernels.combined.on`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from textsvm.arrays import Array, Arrays, Ints, Json
from textsvm.errors import InputError
from textsvm.kernels.base import Kernel
from textsvm.kernels.combined.table import EncodedTexts, Numbers, Table
from textsvm.kernels.contract import strip_prefix
from textsvm.kernels.inputs import InputTable, encode_table, read_view
from textsvm.kernels.spelling import spell
from textsvm.linalg.vectors import Vectors
from textsvm.runtime import device as devices
from textsvm.runtime.compiled import scipy
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress, StageProgress
from textsvm.sources.base import KernelSource, Support, csr_of
from textsvm.sources.texts import TextSource
from textsvm.text.documents import View
from textsvm.text.stored import StoredTexts

TYPES = (np.float64, np.float32)  #: Number types that are kept; others are converted to the first.
_BLOCK = 1 << 20  #: Numbers that are checked together.
#: Kinds of NumPy types that texts, and dates, may have.
_TEXTS, _DATES = tuple("OUST"), tuple("mM")


def require_numbers(X: Any, kernel: Kernel) -> None:
    """Raise InputError if X is visibly not rows of numbers, without a look at every value."""
    if _kind(X) == "c":
        raise InputError("Complex data not supported: X is of complex numbers; give their parts as columns")
    first = X[0] if isinstance(X, list | tuple | StoredTexts) and len(X) else None
    of_texts = _kind(X) in _TEXTS and len(X.shape) == 1 and len(X) > 0 and isinstance(next(iter(X)), str)
    if isinstance(X, str) or isinstance(first, str) or of_texts:
        raise InputError(
            f"X is of texts, and the kernel {spell(kernel)} compares vectors; take one of texts, such as "
            "Spectrum(4), or give numbers"
        )
    if not scipy.sparse.issparse(X) and isinstance(X, Iterator | dict):
        raise InputError(f"X is a {type(X).__name__}; give rows of numbers, such as an array or a data frame")
    if len(getattr(X, "shape", (0, 0))) == 1 or isinstance(first, int | float | np.number):
        raise InputError(
            "X is one row of numbers (Expected 2D array, got 1D array instead); Reshape your data: "
            "X.reshape(1, -1) is one vector, X.reshape(-1, 1) vectors of one number"
        )
    for name in getattr(X, "columns", ()):
        _require_column(X[name], name)


def _require_column(column: Any, name: object) -> None:
    """Raise InputError if a column of a table has texts or dates."""
    if _kind(column) in _DATES:
        raise InputError(f"the column {name!r} of X has dates; give numbers, such as days since one of them")
    for value in column if _kind(column) in _TEXTS else ():
        if isinstance(value, str):
            raise InputError(
                f"the column {name!r} of X has texts, such as {value[:20]!r}; leave it out, or compare it "
                "by a kernel of texts, as On(column, kernel)"
            )


def _kind(array: object) -> str:
    """Kind of the NumPy type of an array; "" without a NumPy type."""
    return str(getattr(getattr(array, "dtype", None), "kind", ""))


def as_rows(X: Any, vectors: bool = False) -> Array:
    """Rows of numbers as an array; sparse vectors as CSR. InputError for other data."""
    if vectors and scipy.sparse.issparse(X):
        values = X.tocsr()
    else:
        try:
            values = np.asarray(X)
            values = values.astype(np.float64) if values.dtype.kind not in "biuf" else values
        except (TypeError, ValueError) as error:
            raise InputError(f"X is not rows of numbers: {error}") from error
    if values.ndim != 2:
        raise InputError(
            f"Expected 2D array, got {values.ndim}D array instead. Reshape your data: X has the shape "
            f"{values.shape}, and rows of numbers are needed"
        )
    if 0 in values.shape:
        raise InputError(f"X has the shape {values.shape}; rows of numbers are needed")
    if vectors and values.dtype not in TYPES:
        values = values.astype(np.float64)
    return np.ascontiguousarray(values) if vectors and isinstance(values, np.ndarray) else values


def check_finite(values: Any, names: Any = None) -> None:
    """Raise InputError with the row and column if a value of an array or CSR matrix is NaN or infinite."""
    stored = values.data if scipy.sparse.issparse(values) else values.reshape(-1)
    for first in range(0, len(stored), _BLOCK):
        finite = np.isfinite(stored[first : first + _BLOCK])
        if not finite.all():
            at = first + int(finite.argmin())
            row, column = _place(values, at)
            called = "" if names is None else f" ({names[column]})"
            value = "NaN" if np.isnan(stored[at]) else "infinity"
            raise InputError(
                f"X has {value} in row {row}, column {column}{called}, counted from 0; vectors are of finite "
                "numbers: fill or remove it"
            )


def _place(values: Any, at: int) -> tuple[int, int]:
    if not scipy.sparse.issparse(values):
        return divmod(at, values.shape[1])
    return int(np.searchsorted(values.indptr, at, side="right")) - 1, int(values.indices[at])


def canonical(values: Any) -> Any:
    """CSR matrix with sorted, unique indices; a copy if the matrix of the user has others."""
    try:
        values.check_format(full_check=True)
    except ValueError as error:
        raise InputError(f"X is a sparse matrix that is damaged: {error}; make it anew") from error
    if not values.has_canonical_format:
        values = values.copy()
        values.sum_duplicates()
    return values


def _check_on_gpu(X: Array) -> Array:
    """Check a matrix on a GPU, without a copy to the host."""
    xp = devices.array_module(devices.device_of(X))
    if X.ndim != 2 or X.dtype.kind not in "fiub" or not X.size:
        raise InputError(f"X on a GPU has shape {X.shape} and type {X.dtype}; give rows of real numbers")
    values = xp.ascontiguousarray(X, dtype=X.dtype if X.dtype in TYPES else np.float64)
    if not bool(xp.isfinite(values).all()):
        check_finite(devices.to_host(values))
    return values


_VECTORS = "vectors."  #: Prefix of the names of the arrays of vectors.


class VectorSource(KernelSource):
    """Vectors, the rows of a matrix, compared by a kernel of vectors."""

    def tag(self, input_tags: Any) -> None:
        input_tags.string, input_tags.two_d_array, input_tags.pairwise = False, True, False
        input_tags.sparse = True

    def validate(self, X: Any, n_features: int | None = None) -> Vectors:
        if devices.is_on_gpu(X):
            vectors = Vectors(_check_on_gpu(X))
        else:
            require_numbers(X, self.unfitted)
            values = as_rows(X, vectors=True)
            if scipy.sparse.issparse(values):
                values = canonical(values)
            check_finite(values, getattr(X, "columns", None))
            vectors = Vectors(values)
        if n_features not in (None, vectors.n_features):
            raise InputError(
                f"X has {vectors.n_features} features, but the model is expecting {n_features} features as "
                "input"
            )
        return vectors

    def encode(
        self, examples: Vectors, alphabets: Any = None, progress: StageProgress | None = None
    ) -> Vectors:
        return examples

    def memory(self, requested: int | str | None, n: int, device: Device) -> int | str | None:
        """Memory limit; by default a quarter of the free memory on a CPU.

        Rows of vectors are cheap, and many are never needed: on w8a, with 3,116 support vectors among 49,749
        vectors, a fit took 5 to 7 s with rows on demand and 20 s with all rows, mostly for new memory.
        """
        return devices.free_memory(device) // 4 if requested is None and device.kind == "cpu" else requested

    def require_tunable(self, names: Iterable[str]) -> None:
        for name in ("normalise", "punctuation", "max_length"):
            if name in names:
                raise InputError(f"{name} says how texts are read; this model takes vectors")

    def support(self, kernel: Kernel, examples: Vectors, indices: Ints) -> Support:
        return Support(indices, kernel, examples.take(indices), examples.n_features)

    def state(self, support: Support, machines: int = 1) -> tuple[Json, Arrays]:
        assert support.kernel is not None
        arrays = {_VECTORS + name: array for name, array in pack(support.documents).items()}
        return support.kernel.structure.as_dict(), arrays | self._learnt_state(support)

    def restore(self, n_features: int | None, indices: Ints, arrays: Arrays) -> Support:
        if n_features is None:
            raise ValueError("it does not say how many numbers a vector has")
        vectors = unpack(strip_prefix(_VECTORS, arrays), (len(indices), n_features))
        return self._restore_learnt(Support(indices, self.new_kernel(), vectors, n_features), arrays)


def pack(vectors: Vectors) -> Arrays:
    """Arrays to save vectors."""
    values = devices.to_host(vectors.values)
    if not vectors.sparse:
        return {"values": values}
    places = {"indices": values.indices, "indptr": values.indptr}
    return {"data": values.data} | {name: array.astype(np.int64) for name, array in places.items()}


def unpack(arrays: Arrays, shape: tuple[int, int]) -> Vectors:
    """Vectors from the arrays of `pack`; every number is checked."""
    data = arrays["values"] if "values" in arrays else arrays["data"]
    if data.dtype not in TYPES or not np.isfinite(data).all():
        raise InputError("its vectors have values that are not finite numbers")
    if "values" in arrays:
        if data.shape != shape:
            raise InputError("its vectors are not as many, or as long, as they should be")
        return Vectors(data)
    return Vectors(csr_of(data, arrays["indices"], arrays["indptr"], shape, "vectors"))


class ColumnSource(TextSource):
    """A table with columns of texts, which become documents, and columns of numbers.

    Examples are a `Table`, or the documents or numbers of a single view. Other columns are ignored.
    """

    def validate(self, X: object, n_features: int | None = None) -> InputTable:
        table = InputTable.of(X)
        for view in self.unfitted.structure.views:
            read_view(table, view)
        return table

    def encode_views(
        self, examples: Any, views: Sequence[View], alphabets: Any, progress: Progress | None
    ) -> Any:
        return self._together(encode_table(InputTable.of(examples), views, alphabets, self._form, progress))

    def _together(self, views: dict[View, Any]) -> Any:
        return Table(views) if len(views) > 1 else next(iter(views.values()))

    def _pack(self, documents: Any, compressed: bool) -> Arrays:
        if isinstance(documents, EncodedTexts) or not isinstance(documents, Numbers):
            return super()._pack(documents, compressed)
        return pack(documents) | {"widths": np.array(documents.widths, np.int64)}

    def _unpack(self, arrays: Arrays, prefix: str, view: View, n: int) -> Any:
        if not view.of_numbers:
            return super()._unpack(arrays, prefix, view, n)
        arrays = strip_prefix(prefix, arrays)
        widths = arrays["widths"]
        if widths.dtype != np.int64 or widths.shape != (len(view.columns),) or (widths < 1).any():
            raise InputError("it does not say how many numbers each of its columns has")
        return Numbers(unpack(arrays, (n, int(widths.sum()))).values, tuple(widths.tolist()))

    def restore(self, n_features: int | None, indices: Ints, arrays: Arrays) -> Support:
        support = super().restore(n_features, indices, arrays)
        kernel: Any = support.kernel
        for leaf in kernel.structure.leaves:
            numbers = leaf.structure.read(support.documents)
            if isinstance(numbers, Numbers) and leaf.standard_.n_features != numbers.n_features:
                raise InputError("mean and scale of its numbers do not fit its support vectors")
        return support
