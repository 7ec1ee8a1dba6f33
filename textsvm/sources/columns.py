"""Rows of a table, compared by kernels on its columns (`kernels.combined.on`): texts and numbers together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.kernels.combined.table import Numbers, Table
from textsvm.kernels.contract import under
from textsvm.kernels.inputs import InputTable, encode_table, read_view
from textsvm.runtime.parallel import StageProgress, of_stage
from textsvm.sources.base import Kept, Source
from textsvm.sources.texts import TextSource
from textsvm.sources.vectors import pack, unpack
from textsvm.text.documents import View


class ColumnSource(TextSource):
    """A table whose columns of texts become documents as texts do, and whose other columns are numbers.

    Examples are a `Table`, or what one kernel reads of it where there is one view alone. Columns that no
    kernel is on are ignored.
    """

    def read(self, X: Any, machine: Any, fitting: bool = True) -> Any:
        """See `Source`: an `InputTable`; columns that the kernel reads are checked."""
        table = InputTable.of(X)
        for view in self.make_kernel().structure.views:
            read_view(table, view)
        return table

    def prepare(self, given: Any, known: Any = None, progress: StageProgress | None = None) -> Any:
        """See `Source`."""
        return self._table(given, self.make_kernel().structure.views, known, progress)

    def prepare_for(
        self, sources: Sequence[Source], given: Any, progress: StageProgress | None = None
    ) -> Any:
        """See `Source`."""
        kernels = [source.make_kernel() for source in sources if isinstance(source, ColumnSource)]
        views = tuple(dict.fromkeys(view for kernel in kernels for view in kernel.structure.views))
        return self._table(given, views, None, progress)

    def _table(self, given: Any, views: Sequence[View], known: Any, progress: StageProgress | None) -> Any:
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
        arrays = under(prefix, arrays)
        widths = arrays["widths"]
        if widths.dtype != np.int64 or widths.shape != (len(view.column),) or (widths < 1).any():
            raise InputError("it does not say how many numbers each of its columns has")
        return Numbers(unpack(arrays, (n, int(widths.sum()))).values, tuple(widths.tolist()))

    def restore(
        self, n_features: int | None, support: NDArray[np.int64], arrays: dict[str, NDArray[Any]]
    ) -> Kept:
        """See `Source`."""
        kept = super().restore(n_features, support, arrays)
        kernel: Any = kept.kernel
        for leaf in kernel.structure.leaves:
            numbers = leaf.structure.read(kept.documents)
            if isinstance(numbers, Numbers) and len(leaf.standard_.mean) != numbers.n_features:
                raise InputError("mean and scale of its numbers do not fit its support vectors")
        return kept
