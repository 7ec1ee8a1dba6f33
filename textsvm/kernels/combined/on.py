"""A kernel on a column of a table, or on several columns of numbers: texts and numbers side by side.

    k((s, x), (t, y)) = w_1 k_text(s, t) + w_2 k_numbers((x - m) / c, (y - m) / c) + ...

A sum (or product) of such kernels compares rows of a table. What a kernel reads of a row is its `View`, which
names the column; everything else is the kernel's own. Numbers come in any unit, so those that are alone in
their column are standardised: m and c are their mean and standard deviation over the training rows, c = 1
where a column is constant. Columns whose cells are vectors (embeddings) have one unit and stay as they are.

Numbers of a table, standardised: what kernels of vectors compare of them (`textsvm.kernels.combined.on`).

    z = (x - m) / c

m and c are mean and standard deviation over the training rows of every number that is alone in its column; 0
and 1 of vectors. What a kernel prepares is wrapped, so that it can be given numbers as a table has them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.kernels.attribution import Attribution, Contributions
from textsvm.kernels.base import Kernel, KernelRows, Predictor, Sharing, Weights
from textsvm.kernels.combined.rows import under
from textsvm.kernels.combined.sums import Composite
from textsvm.kernels.combined.table import Numbers
from textsvm.kernels.near import Near
from textsvm.kernels.options import ON_OPTIONS, Option
from textsvm.linalg.rows import FeatureRows
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress
from textsvm.text.documents import View

#: Names of a saved state: of what is learnt here, and of what the kernel of the numbers learnt.
STANDARD, OWN = "standard.", "own."


@dataclass(frozen=True)
class Standard:
    """Numbers in the unit of their standard deviation, from their mean.

    Attributes
    ----------
    mean, scale : float64 arrays, shape (d,)
    """

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def of(cls, numbers: Numbers) -> Standard:
        """Learn it; 0 and 1 of numbers that are not alone in their column."""
        mean, scale = np.zeros(numbers.n_features), np.ones(numbers.n_features)
        alone = numbers.single
        if alone.any() and not numbers.sparse:
            values = numbers.values[:, alone].astype(np.float64)
            mean[alone], scale[alone] = values.mean(axis=0), values.std(axis=0)
        scale[scale <= 1e-13 * np.abs(mean)] = 1.0  # constant, but for rounding
        return cls(mean, scale)

    @classmethod
    def from_state(cls, state: dict[str, NDArray[Any]]) -> Standard:
        """Take back what was saved; raises InputError if it is damaged."""
        mean, scale = state["mean"], state["scale"]
        whole = all(each.dtype == np.float64 and np.isfinite(each).all() for each in (mean, scale))
        if not whole or mean.ndim != 1 or mean.shape != scale.shape or (scale <= 0).any():
            raise InputError("what it learnt of numbers is damaged; train the model again")
        return cls(mean, scale)

    @property
    def state(self) -> dict[str, NDArray[Any]]:
        """It as it is saved."""
        return {STANDARD + "mean": self.mean, STANDARD + "scale": self.scale}

    def apply(self, numbers: Numbers) -> Numbers:
        """Numbers standardised; compressed rows are of one column, and stay."""
        return (
            numbers if numbers.sparse else replace(numbers, values=(numbers.values - self.mean) / self.scale)
        )


class OfNumbers:
    """Rows, or a predictor, of standardised numbers, for numbers as a table has them."""

    def __init__(self, made: Any, standard: Standard) -> None:
        self._made, self._standard = made, standard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made, name)

    def cross(self, others: Numbers, progress: Progress | None = None) -> Any:
        """See `KernelRows`."""
        return self._made.cross(self._standard.apply(others), progress)

    def decision(self, others: Numbers, coef: NDArray[np.float64], progress: Progress | None = None) -> Any:
        """See `KernelRows`."""
        return self._made.decision(self._standard.apply(others), coef, progress)

    def values(self, others: Numbers, progress: Progress | None = None) -> Any:
        """See `Predictor`."""
        return self._made.values(self._standard.apply(others), progress)

    def contributions(self, others: Numbers, mixes: NDArray[np.float64]) -> Contributions:
        """See `SpectrumPredictor`."""
        return together(others, (self.values(others) * mixes).sum(axis=1))


@dataclass(frozen=True)
class CountedNumbers:
    """Numbers, for kernels whose features they are once they are standardised by some of the rows."""

    numbers: Numbers

    def rows(self, kernel: Kernel, train: NDArray[np.int64]) -> FeatureRows:
        """All of them as rows of features."""
        seen: Any = Standard.of(self.numbers.take(train)).apply(self.numbers)
        if not seen.sparse:  # as those of texts beside them are
            from scipy.sparse import csr_array

            seen = replace(seen, values=csr_array(seen.values))
        rows: FeatureRows = kernel.counted(seen).rows(kernel, train)
        # Numbers of one scale suit coordinate descent: beside texts it takes a quarter of Newton's time.
        return replace(rows, descent=bool(self.numbers.single.all()))


@dataclass(frozen=True)
class NumberWeights:
    """The machines of a kernel on numbers as weights of them, standardised; see `Weights`."""

    own: Weights
    standard: Standard

    @property
    def left_out(self) -> int:
        """See `Weights`."""
        return self.own.left_out

    @property
    def n_machines(self) -> int:
        """See `Weights`."""
        return self.own.n_machines

    def predictor(self, device: Device) -> Any:
        """See `Weights`."""
        return OfNumbers(self.own.predictor(device), self.standard)

    def state(self, tolerance: float) -> dict[str, NDArray[Any]]:
        """See `Weights`."""
        return self.standard.state | {OWN + name: one for name, one in self.own.state(tolerance).items()}


def together(numbers: Numbers, totals: NDArray[np.float64]) -> Contributions:
    """What numbers say, shape (n,), evenly over them as they are shown."""
    shown = [numbers.shown(d) for d in range(len(numbers))]
    pairs = list(zip(shown, totals.tolist(), strict=True))
    return Contributions(
        [np.full(len(text), total / len(text)) for text, total in pairs],
        [[(text, 1, total)] for text, total in pairs],
    )


#: How numbers have their part in a value.
TOGETHER = Attribution("numbers", "numbers: what all that are compared together say", exact=True)
#: Columns of numbers that a kernel may be on.
MOST_COLUMNS = 10_000
#: Bytes of a number as a feature.
NUMBER_BYTES = 16


class On(Kernel):
    """A kernel on one column of a table, or a kernel of vectors on some columns of numbers.

    Parameters
    ----------
    column : str, or list of str
        One column of texts for a kernel of texts; for a kernel of vectors one or more, whose cells are
        numbers, bools or vectors of equal length. Numbers that are alone in their column are standardised,
        their mean and standard deviation being learnt from the training rows; vectors are not.
    kernel : Kernel
        A sum or a product, too: all of its parts are on the column.

    Examples
    --------
    >>> from textsvm import SVC, Gaussian, On, Spectrum
    >>> table = {"text": ["a win", "win!", "a loss", "loss!"], "hour": [1, 2, 8, 9]}
    >>> kernel = On("text", Spectrum(2)) + On("hour", Gaussian())
    >>> SVC(kernel).fit(table, ["night", "night", "day", "day"]).predict({"text": ["win?"], "hour": [3]})
    array(['night'], dtype='<U5')
    """

    name: ClassVar[str] = "on"
    options: ClassVar[tuple[Option, ...]] = ON_OPTIONS
    reads: ClassVar[str] = "columns"

    def __init__(self, column: str | Sequence[str] = "", kernel: Kernel | None = None) -> None:
        self.column = column
        self.kernel: Any = kernel

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns."""
        return (self.column,) if isinstance(self.column, str) else tuple(self.column)

    @property
    def of_numbers(self) -> bool:
        """Whether it is a kernel of vectors."""
        return bool(self.kernel.reads == "vectors")

    @property
    def bare(self) -> Kernel:
        kernel: Kernel = self.kernel.bare
        return kernel

    @property
    def view(self) -> View:
        return replace(self.kernel.view, column=self.columns if self.of_numbers else self.columns[0])

    @property
    def views(self) -> tuple[View, ...]:
        return tuple(dict.fromkeys(leaf.view for leaf in self.leaves))

    @property
    def copies_by(self) -> Kernel | None:
        return None if self.of_numbers else self

    @property
    def leaves(self) -> tuple[Kernel, ...]:
        if not isinstance(self.kernel, Composite):
            return (self,)
        return tuple(On(self.column, leaf) for leaf in self.kernel.leaves)

    @property
    def terms(self) -> Sequence[tuple[float, Kernel]]:
        if not isinstance(self.kernel, Composite):
            return ((1.0, self),)
        return tuple((weight, On(self.column, term)) for weight, term in self.kernel.terms)

    @property
    def depth(self) -> int:
        return int(self.kernel.depth)

    @property
    def comparable(self) -> bool:  # type: ignore[override]
        return bool(self.kernel.comparable)

    @property
    def alike(self) -> float:  # type: ignore[override]
        return Kernel.alike if self.of_numbers else float(self.kernel.alike)  # `copies_by` asks no numbers

    @property
    def has_distances(self) -> bool:  # type: ignore[override]
        return bool(self.kernel.has_distances)

    @property
    def in_shards(self) -> bool:  # type: ignore[override]
        return bool(self.kernel.in_shards)

    @property
    def key(self) -> Hashable:
        return self.name, self.columns, self.kernel.key

    @property
    def attribution(self) -> Attribution:  # type: ignore[override]
        attribution: Attribution = TOGETHER if self.of_numbers else self.kernel.attribution
        return attribution

    @property
    def counting(self) -> Hashable | None:
        return None if self.kernel.counting is None else (self.columns, self.kernel.counting)

    @property
    def min_length(self) -> int:
        return int(self.kernel.min_length)

    def demand(self, lengths: NDArray[np.int64]) -> float:
        return float(self.kernel.demand(lengths))

    @property
    def learns(self) -> bool:
        return self.of_numbers or bool(self.kernel.learns)

    def divides(self, documents: Any, kind: str = "cpu") -> bool:
        return not self.of_numbers and bool(self.kernel.divides(documents, kind))

    @property
    def quadratic(self) -> bool:
        return not self.of_numbers and bool(self.kernel.quadratic)

    @property
    def sharing(self) -> Sharing | None:
        return None if self.of_numbers else self.kernel.sharing

    def check(self) -> None:
        kernel = self.kernel
        if not isinstance(kernel, Kernel) or kernel.reads == "columns":
            raise InputError(
                f"kernel={kernel!r} of On is no kernel that a column can be compared by; give one such as "
                "Spectrum(4) or Gaussian()"
            )
        listed = isinstance(self.column, str | list | tuple)
        names = self.columns if listed else ()
        if not names or not all(isinstance(name, str) and name for name in names):
            raise InputError(f"column={self.column!r} of On must be the name of a column, or a list of names")
        if len(names) > MOST_COLUMNS or len(set(names)) < len(names):
            raise InputError(
                f"On names {len(names):,} columns; they must be different ones, at most {MOST_COLUMNS:,}"
            )
        kernel.check()
        if kernel.reads == "texts" and len(names) > 1:
            raise InputError(
                f"a kernel of texts reads one column and is on {', '.join(names)}; take a sum of On(column, "
                "kernel) for each"
            )

    def fit(self, documents: Any) -> On:
        self.check()
        self._learn(documents)
        self.kernel.fit(self._seen(documents))
        return self

    def fit_on(self, documents: Any, device: Device) -> On:
        self.check()
        self._learn(documents)
        self.kernel.fit_on(self._seen(documents), device)
        return self

    def read(self, documents: Any) -> Any:
        return documents.of(self.view)

    def _learn(self, documents: Any) -> None:
        if self.of_numbers:
            self.standard_ = Standard.of(self.read(documents))

    def _seen(self, documents: Any) -> Any:
        """What the kernel compares of rows."""
        read = self.read(documents)
        return self.standard_.apply(read) if self.of_numbers else read

    def occurrences(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        found: NDArray[np.int64] = self.kernel.occurrences(lengths)
        return found

    def counted(self, documents: Any, device: Device | None = None) -> Any:
        read = self.read(documents)
        return CountedNumbers(read) if self.of_numbers else self.kernel.counted(read, device)

    def fit_counted(self, counted: Any, train: NDArray[np.int64]) -> None:
        if self.of_numbers:
            self.fit(counted.numbers.take(train))
        else:
            self.kernel.fit_counted(counted, train)

    def feature_bytes(self, documents: Any) -> int:
        read = self.read(documents)
        return int(NUMBER_BYTES * read.lengths.sum() if self.of_numbers else self.kernel.feature_bytes(read))

    def rows(self, documents: Any, device: Device) -> KernelRows:
        """Prepare rows of a table as the columns of rows to come."""
        return self._reading(self.kernel.rows(self._seen(documents), device))

    def near(self, documents: Any, others: Any, device: Device) -> Near:
        seen = None if others is None else self._seen(others)
        found: Near = self.kernel.near(self._seen(documents), seen, device)
        return found

    def predictor(self, support: Any, coef: NDArray[np.float64], device: Device) -> Predictor:
        return self._reading(self.kernel.predictor(self._seen(support), coef, device))

    def _reading(self, made: Any) -> Any:
        return OfNumbers(made, self.standard_) if self.of_numbers else made

    @property
    def has_weights(self) -> bool:
        return bool(self.kernel.has_weights)

    def weight_vectors(self, support: Any, coef: NDArray[np.float64]) -> Weights:
        weights: Weights = self.kernel.weight_vectors(self._seen(support), coef)
        return NumberWeights(weights, self.standard_) if self.of_numbers else weights

    def restore_weight_vectors(self, state: dict[str, NDArray[Any]], alphabets: Any) -> Weights:
        if not self.of_numbers:
            weights: Weights = self.kernel.restore_weight_vectors(state, self.read(alphabets))
            return weights
        self.standard_ = Standard.from_state(under(STANDARD, state))
        own = self.kernel.restore_weight_vectors(under(OWN, state), self.read(alphabets))
        return NumberWeights(own, self.standard_)

    def cost(self, row_lengths: NDArray[np.int64], column_lengths: NDArray[np.int64]) -> NDArray[np.float64]:
        seconds: NDArray[np.float64] = self.kernel.cost(row_lengths, column_lengths)
        return seconds

    def contributions(
        self,
        rows: Any,
        documents: Any,
        coef: NDArray[np.float64],
        values: NDArray[np.float64],
        progress: Progress | None = None,
    ) -> Contributions:
        """See `Kernel`: what numbers say together is spread evenly over them as they are shown."""
        read = self.read(documents)
        if not self.of_numbers:
            found: Contributions = self.kernel.contributions(rows, read, coef, values, progress)
            return found
        return together(read, (coef * values).sum(axis=1))

    def contributions_cost(
        self, lengths: NDArray[np.int64], support_lengths: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        found: NDArray[np.float64] = self.kernel.contributions_cost(lengths, support_lengths)
        return found

    def as_dict(self) -> dict[str, Any]:
        column = self.columns[0] if len(self.columns) == 1 else list(self.columns)
        return {"name": self.name, "column": column, "kernel": self.kernel.as_dict()}

    def state(self) -> dict[str, NDArray[Any]]:
        own = {OWN + name: array for name, array in self.kernel.state().items()}
        return self.standard_.state | own if self.of_numbers else own

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        self.kernel.restore(under(OWN, state))
        if self.of_numbers:
            self.standard_ = Standard.from_state(under(STANDARD, state))


def on_leaves(kernel: Kernel) -> Kernel:
    """The same kernel, `On` being said of its leaves alone: of the parts of a sum, not of the sum."""
    if not isinstance(kernel, Composite | On):
        return kernel
    inner: Any = kernel.kernel if isinstance(kernel, On) else kernel
    if not isinstance(inner, Composite) or not isinstance(inner.kernels, list | tuple):
        return kernel
    made = copy(inner)
    column = kernel.column if isinstance(kernel, On) else None
    made.kernels = [on_leaves(part if column is None else On(column, part)) for part in inner.kernels]
    return made
