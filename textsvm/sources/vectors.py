"""Vectors, compared by a kernel of vectors: what is read, and what a machine keeps of it (`Source`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from sklearn.utils.validation import validate_data

from textsvm import device as devices
from textsvm.device import Device
from textsvm.errors import InputError
from textsvm.features.vectors import Vectors
from textsvm.kernels.base import Kernel, Predictor
from textsvm.kernels.combined_rows import under
from textsvm.kernels.made import approximated, make_kernel
from textsvm.kernels.spelling import spell
from textsvm.parallel import StageProgress
from textsvm.sources.base import Kept, Source
from textsvm.sources.matrix import as_input_error
from textsvm.sources.numbers import TYPES, canonical, check_finite, on_gpu, require_numbers
from textsvm.sources.texts import TOLERANCE

#: What the names of arrays begin with: of a saved kernel's state, of vectors, of machines that are weights.
_STATE, _VECTORS, _WEIGHTS = "kernel.", "vectors.", "weights."


class VectorSource(Source):
    """Vectors, the rows of a matrix, compared by a kernel of vectors.

    Parameters
    ----------
    kernel : Kernel or str
        As `textsvm.SVC` takes it.
    landmarks : int, optional
        Of the Nystroem approximation of the kernel, which is compared with in its place.
    """

    def __init__(self, kernel: Any, landmarks: int | None = None) -> None:
        self.kernel, self._landmarks = kernel, landmarks

    def check(self) -> None:
        """See `Source`."""
        self.make_kernel().check()

    def make_kernel(self) -> Kernel:
        """A fresh kernel with the parameters of the one given."""
        return make_kernel(self.kernel)

    def tag(self, input_tags: Any) -> None:
        """See `Source`."""
        input_tags.string, input_tags.two_d_array, input_tags.pairwise = False, True, False
        input_tags.sparse = True

    def read(self, X: Any, estimator: Any, fitting: bool = True) -> Vectors:
        """See `Source`: `Vectors`, of finite numbers and as many columns as there were in training."""
        if devices.is_on_gpu(X):
            return Vectors(on_gpu(X, estimator, fitting))
        require_numbers(X, self.make_kernel())
        with as_input_error():
            values = validate_data(
                estimator, X, reset=fitting, accept_sparse="csr", dtype=TYPES, order="C",
                ensure_all_finite=False,
            )  # fmt: skip
        if issparse(values):
            values = canonical(values)
        check_finite(values, getattr(estimator, "feature_names_in_", None))
        return Vectors(values)

    def prepare(self, given: Vectors, known: Any = None, progress: StageProgress | None = None) -> Vectors:
        """See `Source`: they are examples as they are."""
        return given

    def kernel_for(self, examples: Vectors) -> Kernel:
        """See `Source`."""
        return approximated(self.make_kernel(), self._landmarks, len(examples))

    def memory(self, wished: int | str | None, n: int, device: Device) -> int | str | None:
        """See `Source`; on a CPU a quarter of what is free.

        Rows of vectors cost next to nothing, and many are never asked for: of w8a, with 3,116 support vectors
        among 49,749, a fit took 5 to 7 s with rows on demand and 20 s with all, most of it for new memory.
        """
        return devices.free_memory(device) // 4 if wished is None and device.kind == "cpu" else wished

    def require_tunable(self, names: Iterable[str]) -> None:
        """See `Source`."""
        for name in ("normalise", "punctuation", "max_length"):
            if name in names:
                raise InputError(f"{name} says how texts are read; this model takes vectors")

    def keep(self, kernel: Kernel, examples: Vectors, support: NDArray[np.int64]) -> Kept:
        """See `Source`."""
        return Kept(support, kernel, examples.take(support), examples.n_features)

    def require_weights(self) -> None:
        """See `Source`."""
        kernel = self.make_kernel()
        if not kernel.has_weights:
            raise InputError(
                f"a model of {spell(kernel)} cannot do without its support vectors: linear kernels, and sums "
                "of them, can"
            )

    def without_texts(self, kept: Kept, coef: NDArray[np.float64]) -> Kept:
        """See `Source`."""
        if kept.weights is not None:
            return kept
        self.require_weights()
        kernel, support = kept.kernel, kept.documents
        assert kernel is not None
        nothing = support.take(np.empty(0, np.int64))
        return Kept(kept.support[:0], kernel, nothing, kept.n_features, kernel.weight_vectors(support, coef))

    def others(self, given: Vectors, kept: Kept) -> Vectors:
        """See `Source`."""
        return given

    def predictor(self, kept: Kept, coef: NDArray[np.float64], device: Device) -> Predictor:
        """See `Source`."""
        if kept.weights is not None:
            return kept.weights.predictor(device)
        assert kept.kernel is not None
        return kept.kernel.predictor(kept.documents, coef, device)

    def state(self, kept: Kept) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """See `Source`."""
        kernel = kept.kernel
        assert kernel is not None
        arrays = {_VECTORS + name: array for name, array in pack(kept.documents).items()}
        if kept.weights is not None:
            state = kept.weights.state(TOLERANCE)
            return kernel.as_dict(), arrays | {_WEIGHTS + name: array for name, array in state.items()}
        return kernel.as_dict(), arrays | {_STATE + name: one for name, one in kernel.state().items()}

    def restore(
        self, n_features: int | None, support: NDArray[np.int64], arrays: dict[str, NDArray[Any]]
    ) -> Kept:
        """See `Source`."""
        if n_features is None:
            raise ValueError("it does not say how many numbers a vector has")
        kernel, documents = self.make_kernel(), unpack(under(_VECTORS, arrays), (len(support), n_features))
        if weights := under(_WEIGHTS, arrays):
            self.require_weights()
            made = kernel.restore_weight_vectors(weights, cast("Any", documents))
            return Kept(support, kernel, documents, n_features, made)
        kernel.restore(under(_STATE, arrays))
        return Kept(support, kernel, documents, n_features)


def pack(vectors: Vectors) -> dict[str, NDArray[Any]]:
    """Vectors as a model file has them."""
    values = devices.to_host(vectors.values)
    if not vectors.sparse:
        return {"values": values}
    return {
        "data": values.data,
        "indices": values.indices.astype(np.int64),
        "indptr": values.indptr.astype(np.int64),
    }


def unpack(arrays: dict[str, NDArray[Any]], shape: tuple[int, int]) -> Vectors:
    """Take back what `pack` gave, every number checked.

    Raises
    ------
    InputError
        If they are not vectors of this shape.
    """
    data = arrays["values"] if "values" in arrays else arrays["data"]
    if data.dtype not in TYPES or not np.isfinite(data).all():
        raise InputError("its vectors have values that are no finite numbers")
    if "values" in arrays:
        if data.shape != shape:
            raise InputError("its vectors are not as many, or as long, as they should be")
        return Vectors(data)
    indices, indptr = arrays["indices"], arrays["indptr"]
    if indices.dtype != np.int64 or data.ndim != 1 or indices.shape != data.shape:
        raise InputError("its vectors have no column for each value")
    if indptr.dtype != np.int64 or indptr.shape != (shape[0] + 1,):
        raise InputError("its vectors are not as many as they should be")
    if indptr[0] != 0 or indptr[-1] != len(data) or (indptr[1:] < indptr[:-1]).any():
        raise InputError("the starts of its vectors are out of bounds")
    if len(indices) and (indices.min() < 0 or indices.max() >= shape[1]):
        raise InputError("the columns of its vectors are out of bounds")
    values = csr_array((data, indices, indptr), shape=shape)
    if not values.has_canonical_format:
        raise InputError("the columns of its vectors are out of order")
    return Vectors(values)
