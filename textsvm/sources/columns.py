"""Rows of a table, compared by kernels on its columns (`textsvm.kernels.on`): texts and numbers together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.documents import View, Views
from textsvm.errors import InputError
from textsvm.features.table import Numbers, Table
from textsvm.kernels.combined_rows import under
from textsvm.parallel import StageProgress
from textsvm.sources.base import Kept, Source
from textsvm.sources.tables import Columns
from textsvm.sources.texts import TextSource
from textsvm.sources.vectors import pack, unpack


class ColumnSource(TextSource):
    """A table whose columns of texts become documents as texts do, and whose other columns are numbers.

    Examples are a `Table`, or what one kernel reads of it where there is one view alone. Columns that no
    kernel is on are ignored.
    """

    def read(self, X: Any, estimator: Any, fitting: bool = True) -> Any:
        """See `Source`: `Columns`, those that the kernel reads having been looked at."""
        columns = Columns.of(X)
        for view in self.make_kernel().views:
            _read(columns, view)
        return columns

    def prepare(self, given: Any, known: Any = None, progress: StageProgress | None = None) -> Any:
        """See `Source`."""
        return self._table(Columns.of(given), self.make_kernel().views, known, progress)

    def prepare_for(
        self, sources: Sequence[Source], given: Any, progress: StageProgress | None = None
    ) -> Any:
        """See `Source`."""
        kernels = [source.make_kernel() for source in sources if isinstance(source, ColumnSource)]
        views = tuple(dict.fromkeys(view for kernel in kernels for view in kernel.views))
        return self._table(Columns.of(given), views, None, progress)

    def _table(
        self, given: Columns, views: Sequence[View], known: Any, progress: StageProgress | None
    ) -> Any:
        columns = dict.fromkeys(view.column for view in views)
        found: dict[View, Any] = {}
        for number, column in enumerate(columns):
            of_column = [view for view in views if view.column == column]
            if isinstance(column, tuple):
                found[of_column[0]] = _numbers(given, of_column[0], known)
            else:
                step = _of_column(progress, number, len(columns))
                found |= self._documents(given.texts(str(column)), of_column, known, step)
        return self._together({view: found[view] for view in views})

    def _documents(
        self, texts: list[str], views: Sequence[View], known: Any, progress: StageProgress | None
    ) -> dict[View, Any]:
        """The texts of one column in its views."""
        plain = {view: replace(view, column=None) for view in views}
        before = None if known is None else Views({plain[view]: known.of(view) for view in views})
        found = self._encoded(texts, tuple(plain.values()), before, progress)
        return {view: found.of(plain[view]) for view in views}

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
        for leaf in kernel.leaves:
            if leaf.of_numbers and len(leaf.standard_.mean) != leaf.read(kept.documents).n_features:
                raise InputError("what it learnt of numbers does not fit its support vectors")
        return kept


def _read(columns: Columns, view: View) -> Any:
    return columns.numbers(view.column) if isinstance(view.column, tuple) else columns.texts(str(view.column))


def _numbers(given: Columns, view: View, known: Any) -> Numbers:
    """Numbers of a view, as many in each column as are known."""
    found: Numbers = _read(given, view)
    before = found if known is None else known.of(view)
    if not len(found):  # nothing says how long vectors would be
        return before.take(np.empty(0, np.int64))
    for name, width, known_width in zip(view.column or (), found.widths, before.widths, strict=True):
        if width != known_width:
            raise InputError(
                f"column {name!r} has {width} numbers in a row, and the model was trained on {known_width}"
            )
    return found


def _of_column(progress: StageProgress | None, number: int, total: int) -> StageProgress | None:
    if progress is None:
        return None

    def step(stage: str, done: float, whole: float) -> None:
        progress(stage, number + done / (whole or 1), total)

    return step
