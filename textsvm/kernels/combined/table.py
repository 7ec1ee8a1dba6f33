"""Examples that are rows of a table: texts of some columns, numbers of others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textsvm.linalg.vectors import Vectors
from textsvm.text.documents import View, Views
from textsvm.text.tokens import Spans, align

#: Numbers that are shown of an example; of more, how many there are.
SHOWN = 12


@dataclass(frozen=True)
class Numbers(Vectors):
    """Numbers of one column of a table or more, as it has them.

    Attributes
    ----------
    values : float array or CSR matrix, shape (n, d)
    widths : tuple of int
        How many of the d numbers are of each column: 1, or more where its cells are vectors.
    """

    widths: tuple[int, ...] = ()

    @property
    def single(self) -> NDArray[np.bool_]:
        """Which numbers are alone in their column, shape (d,)."""
        return np.repeat(np.array(self.widths) == 1, self.widths)

    def take(self, indices: Sequence[int] | NDArray[np.integer]) -> Numbers:
        """The numbers of the examples at `indices`, in that order."""
        return replace(self, values=self.values[np.asarray(indices, np.int64)])

    def with_classes(self, classes: Any) -> Numbers:
        """The same numbers: nothing that reads them asks for classes."""
        return self

    def shown(self, index: int) -> str:
        """The numbers of one example, for people."""
        if self.n_features > SHOWN or self.sparse:
            return f"{self.n_features:,} numbers"
        return ", ".join(f"{value:.6g}" for value in self.values[index].tolist())

    def text(self, index: int) -> str:
        """The same, for who compares examples."""
        return self.shown(index)

    def _places(self, index: int) -> NDArray[np.int64]:
        return np.empty(0, np.int64)

    def _without(self, index: int, places: NDArray[np.int64], cuts: Sequence[tuple[int, int]]) -> Numbers:
        """Numbers stay where pieces of text are left out."""
        return self.take([index] * (1 + len(cuts)))


def _named(column: Any) -> str:
    """The column of a view, or its columns, for people."""
    return column if isinstance(column, str) else ", ".join(column)


@dataclass(frozen=True)
class Table(Views):
    """Rows of a table, of several views: documents of a column (`Documents`) or `Numbers` of some.

    A row is shown as a line for each column, such as ``subject: Lunch``; what is found in a column is found
    in its line.
    """

    def text(self, index: int) -> str:
        """All columns of one row."""
        return self.shown(index)

    def shown(self, index: int) -> str:
        """All columns of one row, a line each."""
        return "\n".join(f"{_named(column)}: {text}" for column, text in self._lines(index).items())

    def called(self, feature: str, view: View) -> str:
        """A feature with its column."""
        return f"{_named(view.column)}: {feature}"

    def _lines(self, index: int) -> dict[Any, str]:
        """What is shown of each column, texts with their case if a view keeps it."""
        lines: dict[Any, str] = {}
        for view, one in sorted(self.documents.items(), key=lambda item: not item[0].keep_case):
            lines.setdefault(view.column, one.shown(index))
        return {view.column: lines[view.column] for view in self.documents}

    def _aligned(self, index: int, view: View) -> Spans:
        """Where the characters of a view's text stand in what is shown."""
        lines, begin = self._lines(index), 0
        for column, text in lines.items():
            begin += len(_named(column)) + 2
            if column == view.column:
                return begin + align(self.documents[view].shown(index), text)
            begin += len(text) + 1
        raise KeyError(view)
