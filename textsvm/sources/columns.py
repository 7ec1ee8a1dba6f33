"""Rows of a table, compared by kernels on its columns (`kernels.combined.on`): texts and numbers together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.kernels.combined.table import Numbers, Table
from textsvm.kernels.contract import strip_prefix
from textsvm.kernels.inputs import InputTable, encode_table, read_view
from textsvm.runtime.parallel import StageProgress, of_stage
from textsvm.sources.base import Kept
from textsvm.sources.texts import TextSource
from textsvm.sources.vectors import pack, unpack
from textsvm.text.documents import View


class ColumnSource(TextSource):
    """A table with columns of texts, which become documents, and columns of numbers.

    Examples are a `Table`, or the documents or numbers of a single view. Other columns are ignored.
    """

    def validate(self, X: Any, machine: Any, fitting: bool = True) -> InputTable:
        table = InputTable.of(X)
        for view in self.new_kernel().structure.views:
            read_view(table, view)
        return table

    def _encode_views(
        self, given: Any, views: Sequence[View], known: Any, progress: StageProgress | None
    ) -> Any:
        step = of_stage(progress, "encode")
        return self._together(encode_table(InputTable.of(given), views, known, self._form, step))

    def _together(self, views: dict[View, Any]) -> Any:
        return Table(views) if len(views) > 1 else next(iter(views.values()))

    def _pack(self, documents: Any) -> dict[str, NDArray[Any]]:
        if not isinstance(documents, Numbers):
            return super()._pack(documents)
        return pack(documents) | {"widths": np.array(documents.widths, np.int64)}

    def _unpack(self, arrays: dict[str, NDArray[Any]], prefix: str, view: View, n: int) -> Any:
        if not isinstance(view.column, tuple):
            return super()._unpack(arrays, prefix, view, n)
        arrays = strip_prefix(prefix, arrays)
        widths = arrays["widths"]
        if widths.dtype != np.int64 or widths.shape != (len(view.column),) or (widths < 1).any():
            raise InputError("it does not say how many numbers each of its columns has")
        return Numbers(unpack(arrays, (n, int(widths.sum()))).values, tuple(widths.tolist()))

    def restore(
        self, n_features: int | None, support: NDArray[np.int64], arrays: dict[str, NDArray[Any]]
    ) -> Kept:
        kept = super().restore(n_features, support, arrays)
        kernel: Any = kept.kernel
        for leaf in kernel.structure.leaves:
            numbers = leaf.structure.read(kept.documents)
            if isinstance(numbers, Numbers) and len(leaf.standard_.mean) != numbers.n_features:
                raise InputError("mean and scale of its numbers do not fit its support vectors")
        return kept
