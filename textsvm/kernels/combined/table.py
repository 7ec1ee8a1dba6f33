"""Examples that are rows of a table: texts of some columns, numbers of others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from textsvm.arrays import Array, Bools, Floats, Ints
from textsvm.linalg.vectors import Vectors
from textsvm.runtime.parallel import Progress
from textsvm.text.documents import Documents, MultiView, View, column_name
from textsvm.text.tokens import Spans, align

SHOWN = 12  #: Greatest number of numbers of an example that are shown; of more, only their count is.
SMALLEST = 1e-12  #: Smallest mean length of centred vectors that are scaled.


@dataclass(frozen=True)
class Numbers(Vectors):
    """Numbers of columns of a table, not standardised; values has shape (n, d)."""

    #: How many of the d numbers each column has: 1, or more if its cells are vectors.
    widths: tuple[int, ...] = ()
    dense: ClassVar[bool] = False  #: Whether rows of features are dense

    @property
    def single(self) -> Bools:
        """Whether each number is alone in its column, shape (d,)."""
        return np.repeat(np.array(self.widths) == 1, self.widths)

    def take(self, indices: Sequence[int] | NDArray[np.integer]) -> Numbers:
        return replace(self, values=self.values[np.asarray(indices, np.int64)])

    def moments(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation of columns of single numbers; 0 and 1 for vectors."""
        mean, scale, alone = np.zeros(self.n_features), np.ones(self.n_features), self.single
        if alone.any() and not self.sparse:
            values = self.values[:, alone].astype(np.float64)
            mean[alone], scale[alone] = values.mean(axis=0), values.std(axis=0)
        scale[scale <= 1e-13 * np.abs(mean)] = 1.0  # constant up to rounding
        return mean, scale

    def standardised(self, mean: Floats, scale: Floats) -> Numbers:
        return replace(self, values=(self.values - mean) / scale)

    def with_classes(self, classes: Array) -> Numbers:
        """The same numbers: kernels of vectors do not learn from classes."""
        return self

    def shown(self, index: int) -> str:
        """The numbers of an example as text."""
        if self.n_features > SHOWN or self.sparse:
            return f"{self.n_features:,} numbers"
        return ", ".join(f"{value:.6g}" for value in self.values[index].tolist())

    def _places(self, index: int) -> Ints:
        return np.empty(0, np.int64)

    def _without(self, index: int, places: Ints, cuts: Sequence[tuple[int, int]]) -> Numbers:
        """Copies of an example: leaving out pieces of text does not change its numbers."""
        return self.take([index] * (1 + len(cuts)))


@dataclass(frozen=True)
class EncodedTexts(Numbers):
    """Vectors of texts, computed by an encoder (`textsvm.text.encoders`); shown as the texts."""

    characters: Documents = None  # type: ignore[assignment]  #: Of the texts, with case
    encoder: Any = None
    dense = True

    @classmethod
    def of_texts(cls, characters: Documents, encoder: Any, progress: Progress | None = None) -> EncodedTexts:
        """Encode texts."""
        return cls(encoder.encode(characters, progress), (), characters, encoder)

    def moments(self) -> tuple[Floats, Floats]:
        """Mean, and root mean square distance from it, of vectors but the vector 0 (no token)."""
        filled = self.values[self.values.any(axis=1)].astype(np.float64)
        mean = filled.sum(axis=0) / max(len(filled), 1)
        length = np.sqrt(np.square(filled - mean).sum() / max(len(filled), 1))
        return mean, np.full(len(mean), length if length > SMALLEST else 1.0)

    def standardised(self, mean: Floats, scale: Floats) -> EncodedTexts:
        filled = self.values.any(axis=1, keepdims=True)
        return replace(self, values=np.where(filled, (self.values - mean) / scale, 0))

    @property
    def lengths(self) -> Ints:
        return self.characters.lengths

    def take(self, indices: Sequence[int] | NDArray[np.integer]) -> EncodedTexts:
        taken = self.values[np.asarray(indices, np.int64)]
        return replace(self, values=taken, characters=self.characters.take(indices))

    def shown(self, index: int) -> str:
        return self.characters.text(index)

    def to_shown(self, index: int, view: View, shares: Floats) -> Floats:
        """As `Documents.to_shown`."""
        return shares

    def without(self, index: int, cuts: Sequence[tuple[int, int]]) -> EncodedTexts:
        """As `Documents.without`."""
        return self.of_texts(self.characters.without(index, cuts), self.encoder)

    def _places(self, index: int) -> Ints:
        return self.characters._places(index)

    def _without(self, index: int, places: Ints, cuts: Sequence[tuple[int, int]]) -> EncodedTexts:
        return self.of_texts(self.characters._without(index, places, cuts), self.encoder)


@dataclass(frozen=True)
class Table(MultiView):
    """Rows of a table in several views: `Documents` of a column or `Numbers` of columns.

    A row is shown as a line for each column, such as ``subject: Lunch``; contributions refer to these lines.
    """

    def shown(self, index: int) -> str:
        """All columns of a row, a line each."""
        return "\n".join(f"{column_name(column)}: {text}" for column, text in self._lines(index).items())

    def _lines(self, index: int) -> dict[Any, str]:
        """Text shown for each column, with upper and lower case if a view keeps it."""
        lines: dict[Any, str] = {}
        for view, documents in sorted(self.documents.items(), key=lambda item: not item[0].keep_case):
            lines.setdefault(view.column, documents.shown(index))
        return {view.column: lines[view.column] for view in self.documents}

    def _aligned(self, index: int, view: View) -> Spans:
        """Positions of the characters of a view's text in the text shown."""
        lines, begin = self._lines(index), 0
        for column, text in lines.items():
            begin += len(column_name(column)) + 2
            if column == view.column:
                return begin + align(self.documents[view].shown(index), text)
            begin += len(text) + 1
        raise KeyError(view)
