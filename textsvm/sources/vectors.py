"""Examples of numbers: vectors, and tables with columns of texts and numbers (`kernels.combined.on`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from textsvm.arrays import Arrays, Ints, Json
from textsvm.errors import InputError
from textsvm.kernels.base import Kernel
from textsvm.kernels.combined.table import EncodedTexts, Numbers, Table
from textsvm.kernels.contract import strip_prefix
from textsvm.kernels.inputs import TYPES, InputTable, as_vectors, encode_table, read_view
from textsvm.linalg.vectors import Vectors
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress, StageProgress
from textsvm.sources.base import KernelSource, Support, csr_of
from textsvm.sources.texts import TextSource
from textsvm.text.documents import View

_VECTORS = "vectors."  #: Prefix of the names of the arrays of vectors.


class VectorSource(KernelSource):
    """Vectors, the rows of a matrix, compared by a kernel of vectors."""

    def tag(self, input_tags: Any) -> None:
        input_tags.string, input_tags.two_d_array, input_tags.pairwise = False, True, False
        input_tags.sparse = True

    def validate(self, X: Any, n_features: int | None = None) -> Vectors:
        vectors = as_vectors(X)
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
