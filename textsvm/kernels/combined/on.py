"""Kernels on columns of a table: texts and numbers compared together.

    k((s, x), (t, y)) = w_1 k_text(s, t) + w_2 k_numbers((x - m) / c, (y - m) / c) + ...

A user gives such a kernel as `On(column, kernel)`. For computation (`Structure.resolved`) a kernel of texts
is bound to the column: it is the kernel itself, with the column in its `View`. A kernel of vectors stays an
`On`, which standardises numbers, as their units differ: the mean m of a column of single numbers is
subtracted, and it is divided by its standard deviation c over the training rows (c = 1 for a constant
column). Columns of vectors (embeddings) have a common unit and are not changed.

With `ranks` a number is replaced by smooth functions of its rank u among the training rows, from 0 to 1,

    f_j(u) = cos(pi j u) / j, j = 1 .. WAVES,

centred and scaled to a mean square length of 1, on which a linear kernel learns any smooth function of the
rank. Neither unit nor outliers matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from textsvm.arrays import Array, Arrays, Floats, Ints, Json
from textsvm.errors import InputError
from textsvm.kernels import contract
from textsvm.kernels.attribution import AttributionMethod, Attributor, Contributions
from textsvm.kernels.base import Ability, Composite, Kernel, Structure
from textsvm.kernels.combined.table import SMALLEST, Numbers
from textsvm.linalg.rows import FeatureRows
from textsvm.linalg.sparse import Sparse
from textsvm.runtime.compiled import scipy
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress
from textsvm.text.documents import View

STANDARD = "standard."  #: Prefix of the saved mean and scale.
#: AttributionMethod of numbers.
TOGETHER = AttributionMethod("numbers", "numbers: the joint contribution of all numbers of a kernel")
MOST_COLUMNS = 10_000  #: Greatest number of columns of numbers of a kernel.
NUMBER_BYTES = 16  #: Bytes of a number as a feature.
#: Functions of the rank of a number, and quantiles of the training rows by which it is ranked.
WAVES, QUANTILES = 8, 64


@dataclass(frozen=True)
class Standard:
    """Standardisation z = (x - mean) / scale; both have shape (d,)."""

    mean: Floats
    scale: Floats

    @classmethod
    def of(cls, numbers: Numbers) -> Standard:
        """Mean and scale of numbers, see their `moments`."""
        return cls(*numbers.moments())

    @classmethod
    def from_state(cls, state: Arrays) -> Standard:
        """Restore from `state`; raises InputError if it is damaged."""
        mean, scale = state["mean"], state["scale"]
        whole = all(array.dtype == np.float64 and np.isfinite(array).all() for array in (mean, scale))
        if not whole or mean.ndim != 1 or mean.shape != scale.shape or (scale <= 0).any():
            raise InputError("mean and scale of its numbers are damaged; train the model again")
        return cls(mean, scale)

    @property
    def n_features(self) -> int:
        """Number of numbers of a row."""
        return len(self.mean)

    @property
    def state(self) -> Arrays:
        return {STANDARD + "mean": self.mean, STANDARD + "scale": self.scale}

    def apply(self, numbers: Numbers) -> Numbers:
        """Standardised numbers; sparse rows, and the vector 0 of an encoder (no token), do not change."""
        if numbers.sparse:
            return numbers
        if numbers.n_features != self.n_features:
            raise InputError(
                f"there are {numbers.n_features} numbers for each text or row, and {self.n_features} in the "
                "training; take the encoder or the columns of the training"
            )
        return self._standardised(numbers)

    def _standardised(self, numbers: Numbers) -> Numbers:
        return numbers.standardised(self.mean, self.scale)


@dataclass(frozen=True)
class Ranks(Standard):
    """Numbers as functions of their ranks, standardised by mean and scale."""

    quantiles: Floats  #: shape (number of columns, QUANTILES)

    @classmethod
    def of(cls, numbers: Numbers) -> Ranks:
        """Quantiles of numbers, and moments of the functions of their ranks."""
        if numbers.sparse or not numbers.single.all():
            raise InputError("ranks are for columns of single numbers; leave ranks out")
        levels = (np.arange(QUANTILES) + 0.5) / QUANTILES
        raw = cls(np.zeros(0), np.ones(0), np.quantile(numbers.values, levels, axis=0, method="nearest").T)
        waves = raw._waves(numbers)
        mean = waves.mean(axis=0)
        length = float(np.sqrt(np.square(waves - mean).sum(axis=1).mean()))
        return cls(mean, np.full(len(mean), length if length > SMALLEST else 1.0), raw.quantiles)

    @classmethod
    def from_state(cls, state: Arrays) -> Ranks:
        standard, quantiles = Standard.from_state(state), state.get("quantiles", np.empty(0))
        shape = len(standard.mean) // WAVES, QUANTILES
        if quantiles.dtype != np.float64 or quantiles.shape != shape or not np.isfinite(quantiles).all():
            raise InputError("the quantiles of its numbers are damaged; train the model again")
        return cls(standard.mean, standard.scale, quantiles)

    @property
    def state(self) -> Arrays:
        return {**super().state, STANDARD + "quantiles": self.quantiles}

    @property
    def n_features(self) -> int:
        return len(self.quantiles)

    def _standardised(self, numbers: Numbers) -> Numbers:
        waves = (self._waves(numbers) - self.mean) / self.scale
        return replace(numbers, values=waves, widths=(1,) * waves.shape[1])

    def _waves(self, numbers: Numbers) -> Floats:
        """Functions of the ranks of numbers, shape (n, WAVES times the number of columns)."""
        sides = [
            [np.searchsorted(own, values, side) for side in ("left", "right")]
            for own, values in zip(self.quantiles, numbers.values.T, strict=True)
        ]
        ranks = np.array(sides, float).sum(axis=1).T / (2 * QUANTILES)
        orders = np.arange(1, WAVES + 1)
        return (np.cos(np.pi * ranks[:, :, None] * orders) / orders).reshape(len(numbers), WAVES * len(sides))


class StandardisedRows:
    """Rows or a predictor of standardised numbers that take the numbers of a table."""

    def __init__(self, rows: Any, standard: Standard) -> None:
        self._rows, self._standard = rows, standard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)

    def cross(self, others: Numbers, progress: Progress | None = None) -> Array:
        return self._rows.cross(self._standard.apply(others), progress)

    def decision(self, others: Numbers, coef: Floats, progress: Progress | None = None) -> Any:
        return self._rows.decision(self._standard.apply(others), coef, progress)

    def values(self, others: Numbers, progress: Progress | None = None) -> Array:
        return self._rows.values(self._standard.apply(others), progress)

    def contributions(self, others: Numbers, mixes: Floats) -> Contributions:
        return _together(others, (self.values(others) * mixes).sum(axis=1))


@dataclass(frozen=True)
class CountedNumbers:
    """Numbers as features, standardised by the training rows."""

    numbers: Numbers

    def rows(self, on: On, train: Ints) -> FeatureRows:
        """All numbers as rows of features."""
        numbers = on._standard.of(self.numbers.take(train)).apply(self.numbers)
        if numbers.dense:
            n, d = numbers.values.shape
            columns, values = np.tile(np.arange(d, dtype=np.int32), n), numbers.values.astype(np.float32)
            return FeatureRows(Sparse(d * np.arange(n + 1), columns, values.ravel(), d), np.zeros(n), dense=d)
        if not numbers.sparse:  # like the features of texts
            numbers = replace(numbers, values=scipy.sparse.csr_array(numbers.values))
        rows = on.kernel.features.count(numbers).rows(on.kernel, train)
        # Coordinate descent suits numbers of equal scale: with texts it takes a quarter of Newton's time.
        return replace(rows, descent=bool(self.numbers.single.all()))


@dataclass(frozen=True)
class NumberWeights:
    """`Weights` of a kernel on numbers."""

    weights: contract.Weights  #: Of the standardised numbers
    standard: Standard

    @property
    def left_out(self) -> int:
        return self.weights.left_out

    @property
    def n_machines(self) -> int:
        return self.weights.n_machines

    def predictor(self, device: Device) -> Any:
        return StandardisedRows(self.weights.predictor(device), self.standard)

    def named(self, examples: Any) -> list[contract.FeatureWeights]:
        return self.weights.named(examples)

    def state(self, tolerance: float) -> Arrays:
        state = {contract.OWN + name: array for name, array in self.weights.state(tolerance).items()}
        return self.standard.state | state


def _together(numbers: Numbers, totals: Floats) -> Contributions:
    """Joint contributions of numbers, shape (n,), spread evenly over their text."""
    pairs = list(zip([numbers.shown(d) for d in range(len(numbers))], totals.tolist(), strict=True))
    return Contributions(
        [np.full(len(text), total / len(text)) for text, total in pairs],
        [[(text, 1, total)] for text, total in pairs],
    )


class OnStructure(Structure):
    """Structure of a kernel on columns."""

    def resolved(self) -> Any:
        on = self.kernel.__sklearn_clone__()
        try:
            on._check_columns()
        except InputError:  # raised by `check`
            return on
        return _bind(on.kernel, on.column, on.ranks)

    @property
    def near_duplicate_kernel(self) -> Any:
        return None

    def as_dict(self) -> Json:
        on = self.kernel
        column = on._columns[0] if len(on._columns) == 1 else list(on._columns)
        form = {"name": on.name, "column": column, "kernel": on.kernel.structure.as_dict()}
        return {**form, "ranks": True} if on.ranks else form

    def state(self) -> Arrays:
        return self.kernel.state()

    def restore(self, state: Arrays) -> None:
        self.kernel.restore(state)


def _bind(kernel: Any, column: Any, ranks: bool) -> Any:
    """Put the leaves of a kernel on a column: kernels of texts are bound to it, of vectors become `On`."""
    if isinstance(kernel, Composite):
        return kernel.structure.with_parts(lambda part: _bind(part, column, ranks))
    if kernel.structure.reads_vectors:
        return On(column, kernel, ranks)
    if ranks:
        raise InputError(f"ranks=True of On is for numbers, and {kernel!r} reads texts")
    names = (column,) if isinstance(column, str) else tuple(column)
    kernel = kernel.structure.resolved()
    kernel._column = names[0] if len(names) == 1 else names
    return kernel


class OnCost(contract.Cost):
    """Cost of a kernel on numbers."""

    def of_rows(self, row_lengths: Ints, column_lengths: Ints) -> Floats:
        return self.kernel.kernel.cost.of_rows(row_lengths, column_lengths)

    @property
    def quadratic(self) -> bool:
        return False


class OnFeatures(contract.Features):
    """Features of a linear kernel on numbers."""

    @property
    def key(self) -> Any:
        return self.kernel._columns, self.kernel.ranks, self.kernel.kernel.features.key

    @property
    def has_weights(self) -> bool:  # type: ignore[override]
        return bool(self.kernel.kernel.features.has_weights)

    def occurrences(self, lengths: Ints) -> Ints:
        return self.kernel.kernel.features.occurrences(lengths)

    def count(self, documents: Any, device: Device | None = None) -> CountedNumbers:
        return CountedNumbers(documents)

    def fit_counted(self, counted: Any, train: Ints) -> None:
        self.kernel.fit(counted.numbers.take(train))

    def bytes(self, documents: Any, gram: bool = False) -> int:
        return int(NUMBER_BYTES * documents.lengths.sum())

    def weights(self, support: Any, coef: Floats) -> NumberWeights:
        on = self.kernel
        return NumberWeights(on.kernel.features.weights(on._standardised(support), coef), on.standard_)

    def restore_weights(self, state: Arrays, alphabets: Any) -> NumberWeights:
        on = self.kernel
        on.standard_ = on._standard.from_state(contract.strip_prefix(STANDARD, state))
        own, numbers = contract.strip_prefix(contract.OWN, state), on._standardised(alphabets)
        return NumberWeights(on.kernel.features.restore_weights(own, numbers), on.standard_)


class OnAttributor(Attributor):
    """Attribution of numbers: their joint contribution."""

    method = TOGETHER

    def contributions(
        self, rows: Any, documents: Any, coef: Floats, values: Floats, progress: Progress | None
    ) -> Contributions:
        return _together(self.kernel.structure.read(documents), (coef * values).sum(axis=1))


class On(Kernel):
    """A kernel on a column of a table, or on several columns.

    Parameters
    ----------
    column : str, or list of str
        For a kernel of texts the column, or columns whose texts are joined by line breaks. For a kernel of
        vectors the columns, whose cells are numbers, bools or vectors of equal length. Columns of single
        numbers are standardised by mean and standard deviation of the training rows; columns of vectors are
        not.
    kernel : Kernel
        For a sum or a product, all parts are on the column.
    ranks : bool
        Compare single numbers by smooth functions of their ranks among the training rows, with a linear
        kernel: units and outliers do not matter.

    Examples
    --------
    >>> from textsvm import SVC, Gaussian, On, Spectrum
    >>> table = {"text": ["a win", "win!", "a loss", "loss!"], "hour": [1, 2, 8, 9]}
    >>> kernel = On("text", Spectrum(2)) + On("hour", Gaussian())
    >>> SVC(kernel).fit(table, ["night", "night", "day", "day"]).predict({"text": ["win?"], "hour": [3]})
    array(['night'], dtype='<U5')
    """

    name: ClassVar[str] = "on"
    cost = Ability(OnCost)
    attribution: Ability[Attributor] = Ability(OnAttributor)

    def __init__(
        self, column: str | Sequence[str] = "", kernel: Kernel | None = None, ranks: bool = False
    ) -> None:
        self.column = column
        self.kernel: Any = kernel
        self.ranks = ranks

    @property
    def structure(self) -> OnStructure:
        return OnStructure(self, View("numbers", column=tuple(map(str, self._columns))))

    @property
    def _learns(self) -> bool:
        return True

    @property
    def features(self) -> OnFeatures | None:
        return None if self.kernel.features is None else OnFeatures(self)

    @property
    def _standard(self) -> type[Standard]:
        return Ranks if vars(self).get("ranks") else Standard  # an encoder has no ranks

    @property
    def _columns(self) -> tuple[str, ...]:
        column: Any = self.column
        return tuple(column) if isinstance(column, list | tuple) else (column,)

    def check(self) -> None:
        self._check_columns()
        self.kernel.check()

    def _check_columns(self) -> None:
        kernel, names = self.kernel, self._columns
        if not isinstance(kernel, Kernel) or kernel.structure.reads_tables:
            raise InputError(
                f"kernel={kernel!r} of On must be a kernel of texts or vectors, such as Spectrum(4) or "
                "Gaussian()"
            )
        if not names or not all(isinstance(name, str) and name for name in names):
            cure = "" if isinstance(self.column, str) else "; X.columns = X.columns.astype(str) makes names"
            raise InputError(f"column={self.column!r} of On must be the name of a column, or names{cure}")
        if len(names) > MOST_COLUMNS or len(set(names)) < len(names):
            raise InputError(
                f"On has {len(names):,} columns; they must be distinct, and at most {MOST_COLUMNS:,}"
            )

    def fit(self, documents: Any, device: Device | None = None) -> On:
        self.check()
        self.standard_ = self._standard.of(self.structure.read(documents))
        self.kernel.fit(self._standardised(documents), device)
        return self

    def _standardised(self, documents: Any) -> Numbers:
        return self.standard_.apply(self.structure.read(documents))

    def rows(self, documents: Any, device: Device) -> Any:
        return StandardisedRows(self.kernel.rows(self._standardised(documents), device), self.standard_)

    def predictor(self, support: Any, coef: Floats, device: Device) -> Any:
        predictor = self.kernel.predictor(self._standardised(support), coef, device)
        return StandardisedRows(predictor, self.standard_)

    def state(self) -> Arrays:
        state = {contract.OWN + name: array for name, array in self.kernel.state().items()}
        return self.standard_.state | state

    def restore(self, state: Arrays) -> None:
        self.kernel.restore(contract.strip_prefix(contract.OWN, state))
        self.standard_ = self._standard.from_state(contract.strip_prefix(STANDARD, state))
