"""What every string kernel is: parameters, and rows of kernel values against fixed documents.

Objects that are their parameters, as scikit-learn's estimators are: it can set, print and clone them.

scikit-learn's own base class would do, but takes more than a second to import, for which one mail that is
predicted should not wait.

Rows of kernel values: what a Gram is made of, and what is compared with support vectors.

Machines as they decide: by kernel values with their support vectors, or by one weight a feature.

What kernels of a grid have in common.

Kernels as Python writes them: ``a + b``, ``2 * a``, ``a * b``, and ``kernel(texts, others)``.

    a + b       Sum([a, b])              a + b + c      Sum([a, b, c])
    2 * a + b   Sum([a, b], [2, 1])      2 * (a + b)    Sum([a, b], [2, 2])
    a * b       Product([a, b])          a * b * c      Product([a, b, c])

Sums are weighted means (`combined.sums`): a factor says how much a term counts beside others, and a
kernel that stands alone has the same values whatever its factor. Terms of sums and parts of products are put
together flat; the factor of a part of a product is one of the product.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from copy import deepcopy
from inspect import signature
from math import inf
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.kernels.attribution import OCCLUSION, PIECES, Attribution, Contributions, occlusion
from textsvm.kernels.near import Near, NearByValues
from textsvm.kernels.options import Option
from textsvm.linalg.rows import FeatureRows, side_by_side
from textsvm.runtime import device as devices
from textsvm.runtime.parallel import Progress
from textsvm.text.documents import Documents, View, Views
from textsvm.text.tokens import Tokens, check_tokens

if TYPE_CHECKING:
    from typing_extensions import Self
if TYPE_CHECKING:
    from textsvm.runtime.device import Device
if TYPE_CHECKING:  # the package knows everybody; sums and machines are built on kernels
    from textsvm import Product, Sum


_KNOWN: dict[type, dict[str, Any]] = {}


def _defaults(kind: type) -> dict[str, Any]:
    """The parameters of a class by name, in order, and their defaults."""
    if kind not in _KNOWN:
        every = sorted(signature(kind).parameters.values(), key=lambda one: one.name)
        _KNOWN[kind] = {
            one.name: one.default for one in every if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        }
    return _KNOWN[kind]


class Parameters:
    """Its attributes are the parameters of its constructor."""

    if TYPE_CHECKING:

        def __init__(self, *values: Any, **parameters: Any) -> None: ...

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Its parameters by name; with `deep` those of its parameters as well, as "name__parameter"."""
        found: dict[str, Any] = {}
        for name in _defaults(type(self)):
            value = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                found |= {f"{name}__{key}": one for key, one in value.get_params().items()}
            found[name] = value
        return found

    def set_params(self, **given: Any) -> Self:
        """Set some of its parameters, or theirs.

        Raises
        ------
        ValueError
            If there is no such parameter.
        """
        known, inner = self.get_params(), dict[str, dict[str, Any]]()
        for key, value in given.items():
            name, _, rest = key.partition("__")
            if name not in known:
                raise ValueError(
                    f"Invalid parameter {name!r} for {self!r}; there is {', '.join(_defaults(type(self)))}"
                )
            if rest:
                inner.setdefault(name, {})[rest] = value
            else:
                setattr(self, name, value)
        for name, theirs in inner.items():
            known[name].set_params(**theirs)
        return self

    def copy(self) -> Self:
        """A fresh object with copies of its parameters, and nothing that it learnt."""
        return type(self)(**{name: self.copied(name, getattr(self, name)) for name in _defaults(type(self))})

    def copied(self, name: str, value: Any) -> Any:
        """The value of a parameter for a copy."""
        if isinstance(value, list | tuple):
            return type(value)(self.copied(name, each) for each in value)
        return value.copy() if isinstance(value, Parameters) else deepcopy(value)

    def __sklearn_clone__(self) -> Self:
        return self.copy()

    def __repr__(self) -> str:
        defaults, values = _defaults(type(self)), self.get_params(deep=False)
        changed = (
            f"{name}={values[name]!r}" for name in values if repr(values[name]) != repr(defaults[name])
        )
        return f"{type(self).__name__}({', '.join(changed)})"


#: Kernel values that prediction holds at a time.
BLOCK_BYTES = 32 << 20


#: Rows asked for at a time where kernels do not say; more would push out rows in use (reports/tiers.md).
AHEAD = 8


class MatrixRows(Protocol):
    """Rows of a symmetric n x n kernel matrix, which is what a Gram is made of.

    Arrays are float32 and live where the work is done: NumPy arrays for the CPU twins, CuPy arrays
    for the CUDA twins. None of the matrix exists until it is asked for.
    """

    n: int
    device: Device

    def diag(self) -> Any:
        """k(d, d) of each column document, shape (n,)."""

    def rows(self, indices: NDArray[np.int64]) -> Any:
        """k(documents[indices], documents), shape (len(indices), n)."""

    def gram(self, progress: Progress | None = None) -> Any:
        """The whole matrix, shape (n, n), one half of it computed."""


class KernelRows(MatrixRows, Protocol):
    """Kernel values with `n` fixed documents, the columns; other documents can be the rows.

    The twins, HostX and CudaX, have the same constructor: (kernel, documents, device).
    """

    documents: Documents

    def cross(self, others: Documents, progress: Progress | None = None) -> Any:
        """k(others, documents), shape (len(others), n).

        The alphabet of `others` must extend that of the column documents.
        """

    def decision(
        self, others: Documents, coef: NDArray[np.float64], progress: Progress | None = None
    ) -> NDArray[np.float64]:
        """k(others, documents) @ coef in bounded memory: coef (n, k) -> (len(others), k), on the host."""


class HostRows(ABC):
    """What the CPU twins share: decision values from blocks of `cross`.

    Attributes
    ----------
    ahead : int
        Rows that a solver had best ask for at a time, the likely next ones among them. Few of these are
        used before they make room again: 1 (none but those needed) where each takes as long as one alone.
    """

    n: int
    ahead: int = AHEAD

    @abstractmethod
    def cross(self, others: Documents, progress: Progress | None = None) -> NDArray[np.float32]:
        """See `KernelRows`."""

    def decision(
        self, others: Documents, coef: NDArray[np.float64], progress: Progress | None = None
    ) -> NDArray[np.float64]:
        """k(others, documents) @ coef, a block of `others` at a time: coef (n, k) -> (len(others), k)."""
        values = np.empty((len(others), coef.shape[1]))
        size = max(1, BLOCK_BYTES // (4 * max(1, self.n)))
        for start in range(0, len(others), size):
            block = others.take(np.arange(start, min(start + size, len(others))))
            values[start : start + size] = self.cross(block) @ coef
            if progress is not None:
                progress(min(start + size, len(others)), len(others))
        return values


class Predictor(Protocol):
    """Values of machines at any documents, sum_i coef[k, i] k(support_i, document), where `device` says.

    Whatever can be prepared once for all predictions has been.
    """

    device: Device

    def values(self, documents: Documents, progress: Progress | None = None) -> NDArray[np.float64]:
        """Values without bias, shape (len(documents), n_machines), on the host, in bounded memory.

        The alphabet of `documents` must extend that of the support vectors.
        """


class Weights(Protocol):
    """Machines as one weight a feature, on the host, and what their kernel learnt: no support vectors."""

    @property
    def left_out(self) -> int:
        """Support vectors that have no feature, and so are not in it."""

    @property
    def n_machines(self) -> int:
        """How many machines there are."""

    def predictor(self, device: Device) -> Predictor:
        """Prepare them for prediction; that of the CPU has `contributions` (`SpectrumPredictor`), too."""

    def state(self, tolerance: float) -> dict[str, NDArray[Any]]:
        """Arrays for `Kernel.restore_weight_vectors`; values, normalised, move by `tolerance` at most."""


class RowsPredictor:
    """The `Predictor` of kernels that have no weight vector: kernel values with the support vectors.

    Parameters
    ----------
    rows : KernelRows
        Of the support vectors.
    coef : float64 array, shape (n_machines, n_sv)
    """

    def __init__(self, rows: KernelRows, coef: NDArray[np.float64]) -> None:
        self.rows, self.coef, self.device = rows, coef, rows.device

    def values(self, documents: Documents, progress: Progress | None = None) -> NDArray[np.float64]:
        """See `Predictor`."""
        return self.rows.decision(documents, self.coef.T, progress)


class SharedColumns(Protocol):
    """Rows of several kernels from one pass, with the bits that each kernel's own have."""

    def diags(self) -> list[Any]:
        """K[i, i] of each kernel, shape (n,), float32."""

    def rows(self, indices: NDArray[np.int64]) -> list[Any]:
        """Rows of each kernel, shape (len(indices), n), float32."""


class Sharing(ABC):
    """Work that kernels of a grid have in common, on the same documents: equal ones are computed together.

    Subclasses are frozen dataclasses of the parameters that must be equal.
    """

    def passes(self, kernels: Sequence[Any], room: int) -> list[list[int]]:
        """Which of these kernels are computed together, by their positions, in the order of `grams`.

        By default all, which takes memory for two matrices; `room`, at least 2, is for how many there is.
        """
        return [list(range(len(kernels)))]

    @abstractmethod
    def description(self, kernels: Sequence[Any]) -> str:
        """What the Grams of one pass come from, in a few words."""

    @abstractmethod
    def grams(
        self, kernels: Sequence[Any], documents: Documents, device: Device, progress: Progress | None = None
    ) -> Iterator[tuple[int, Any]]:
        """The kernels of one pass by their positions, each with its matrix, which the caller may keep."""

    def columns(self, kernels: Sequence[Any], documents: Documents, device: Device) -> SharedColumns | None:
        """Documents as the columns of rows of all these kernels; None where there is no such pass."""
        return None

    def divides(self, kernels: Sequence[Any], documents: Documents) -> bool:
        """Whether matrices of one pass can be made in tiles; see `Kernel.divides`."""
        return False

    def cross(self, kernels: Sequence[Any], others: Documents, documents: Documents) -> list[Any]:
        """Matrices of kernel values of others with documents, one a kernel, from one pass on the CPU."""
        raise TypeError(f"{type(self).__name__} has no tiles")


class Operators:
    """What a kernel does with ``+``, ``*`` and ``()``."""

    #: Numbers of NumPy leave their products to the kernel.
    __array_ufunc__ = None

    def __add__(self, other: Any) -> Sum:
        from textsvm import Sum

        if not isinstance(other, Operators):
            return NotImplemented
        weights, kernels = (mine + theirs for mine, theirs in zip(_terms(self), _terms(other), strict=True))
        return Sum(kernels, None if set(weights) == {1.0} else weights)

    def __radd__(self, other: Any) -> Any:
        # The builtin `sum` begins with 0.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Operators):
            return _product(self, other)
        return _scaled(float(other), self) if _is_factor(other) else NotImplemented

    __rmul__ = __mul__

    def __call__(self, texts: Any, others: Any = None) -> NDArray[np.float32]:
        """Kernel values of texts with others, or with each other.

        Texts have the normal form that `textsvm.SVC` gives them by default, and values are normalised, and
        computed on the device that it would take. What a kernel learns from texts (idf weights, the scale of
        vectors) it learns from the columns; it is the same afterwards.

        Parameters
        ----------
        texts : texts, or vectors or a table where the kernel reads these; m of them
        others : the same, n of them, optional
            The texts themselves if not given.

        Returns
        -------
        float32 array, shape (m, n)

        Raises
        ------
        InputError
            If a parameter of the kernel is out of range, or something is no text.
        """
        from textsvm import SVC

        model = SVC(self)
        model.check()
        device = devices.select(model.device)
        with model.at_work(device):
            columns = model.encode(model.read(texts if others is None else others))
            kernel = model.make_kernel()
            rows = kernel.fit_on(kernel.read(columns), device).rows(kernel.read(columns), device)
            if others is None:
                return np.asarray(devices.to_host(rows.gram()))
            compared = model.encode(model.read(texts, fitting=False), columns)
            return np.asarray(devices.to_host(rows.cross(kernel.read(compared))))


def _is_factor(value: Any) -> bool:
    """Whether it is a number; raises InputError if it is none that a kernel can be multiplied by."""
    if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
        return False
    if not (0 < float(value) < inf):
        raise InputError(f"a kernel can be multiplied by a finite number above 0, not by {value}")
    return True


def _terms(kernel: Any) -> tuple[list[float], list[Any]]:
    """The weights and the terms of a sum; one of any other kernel."""
    from textsvm import Sum

    if not isinstance(kernel, Sum):
        return [1.0], [kernel]
    weights = [1.0] * len(kernel.kernels) if kernel.weights is None else [float(w) for w in kernel.weights]
    return weights, list(kernel.kernels)


def _scaled(factor: float, kernel: Any) -> Sum:
    from textsvm import Sum

    weights, kernels = _terms(kernel)
    return Sum(kernels, [factor * weight for weight in weights])


def _product(a: Any, b: Any) -> Product | Sum:
    from textsvm import Product

    factor = 1.0
    parts: list[Any] = []
    for one in (a, b):
        weights, kernels = _terms(one)
        if len(kernels) == 1:  # a kernel times a number
            factor, one = factor * weights[0], kernels[0]
        parts += one.kernels if isinstance(one, Product) else [one]
    product = Product(parts)
    return product if factor == 1 else _scaled(factor, product)


#: Values a second of a kernel about which nothing is known, such as a function of the user's.
UNKNOWN_RATE = 5e5 / 60


def is_number(value: object) -> bool:
    """Whether a parameter is a number (bool is none, nor is a whole number that takes more than 64 bits)."""
    return isinstance(value, float | np.floating) or is_whole(value)


def is_whole(value: object) -> bool:
    """Whether a parameter is a whole number of at most 64 bits (bool is none)."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and abs(int(value)) < 1 << 63


class Kernel(Operators, Parameters, ABC):
    """The parameters of a kernel, what it learns from training documents, and all that others ask of it.

    A subclass has a `name`, stores its parameters, and makes `rows`; the rest has defaults.

    Attributes
    ----------
    name : str
        In model files and on the command line.
    options : tuple of Option
        Its parameters on the command line.
    attribution : Attribution
        What `contributions` are.
    comparable : bool
        Whether equal parameters make equal kernels.
    reads : {"texts", "vectors", "columns"}
        What its examples are: which source of rows (`textsvm.sources`) serves it.
    alike : float
        Normalised kernel value from which two examples count as nearly the same. 3,000 documents of R8 have
        23 exact copies; at 0.98 kernels of texts find 29 to 101 pairs, all but identical, at 0.95 one that
        counts single characters takes 22,030 pairs of unlike documents for copies.
    has_distances : bool
        Whether the pairs that `near` finds have distances, whole numbers, and can be bounded by them.
    descent : bool
        Whether coordinate descent suits its features (`FeatureRows.descent`).
    in_shards : bool
        Whether its rows on a card have ``gram_in_shards(shards, number, progress)`` (`textsvm.gram.cards`).
    """

    name: ClassVar[str]
    options: ClassVar[tuple[Option, ...]] = ()
    attribution: ClassVar[Attribution] = OCCLUSION
    comparable: ClassVar[bool] = True
    reads: ClassVar[str] = "texts"
    alike: ClassVar[float] = 0.98
    has_distances: ClassVar[bool] = False
    descent: ClassVar[bool] = True
    in_shards: ClassVar[bool] = False

    @property
    def view(self) -> View:
        """What it reads of a text."""
        return View()

    @property
    def views(self) -> tuple[View, ...]:
        """The distinct views of its parts, its own if it has none."""
        return (self.view,)

    @property
    def bare(self) -> Kernel:
        """It without the column that it is on (`textsvm.kernels.combined.on`)."""
        return self

    @property
    def copies_by(self) -> Kernel | None:
        """Its parts that tell near-duplicates: of those on columns the ones on texts; None if none is."""
        return self

    @property
    def leaves(self) -> tuple[Kernel, ...]:
        """The kernels it is made of that are made of no others: itself, if it is neither sum nor product."""
        return (self,)

    @property
    def terms(self) -> Sequence[tuple[float, Kernel]]:
        """It as a weighted sum of kernels that are no sums, those of weight 0 left out."""
        return ((1.0, self),)

    @property
    def depth(self) -> int:
        """Levels of sums and products that it is made of."""
        return 0

    def read(self, documents: Documents | Views) -> Documents:
        """What it reads of documents that may have several views."""
        return documents.of(self.view)

    @property
    def counting(self) -> Hashable | None:
        """Equal for kernels that can share `counted` documents; None if its features cannot be counted."""
        return None

    def occurrences(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """How often any feature occurs in documents of these lengths, shape (n,): as many at most it has."""
        raise TypeError(f"features of {type(self).__name__} cannot be counted")

    def counted(self, documents: Documents, device: Device | None = None) -> Any:
        """Documents whose features are counted, as `textsvm.kernels.spectrum.counted` has them.

        On a card, where one is given; on the CPU otherwise.
        """
        raise TypeError(f"features of {type(self).__name__} cannot be counted")

    def fit_counted(self, counted: Any, train: NDArray[np.int64]) -> None:
        """Learn what `fit` would learn from some of the documents that were counted."""
        raise TypeError(f"features of {type(self).__name__} cannot be counted")

    @property
    def has_features(self) -> bool:
        """Whether it is a sum of kernels whose features can be counted."""
        return all(weight > 0 and term.counting is not None for weight, term in self.terms)

    def feature_bytes(self, documents: Documents) -> int:
        """Bytes that are predicted for the features of documents while they are counted and solved with."""
        return 0

    def feature_rows(self, documents: Documents | Views, device: Device) -> FeatureRows:
        """Learn what `fit` would, and the documents as rows of features, on a device.

        Raises
        ------
        TypeError
            If it has no features.
        """
        return self.counted_rows(self.count(documents, device), np.arange(len(documents)), device)

    def count(self, documents: Documents | Views, device: Device) -> dict[Hashable, Any]:
        """`counted` documents of all its terms, by their `counting`."""
        found: dict[Hashable, Any] = {}
        for _, leaf in self.terms:
            if leaf.counting not in found:
                found[leaf.counting] = leaf.counted(leaf.read(documents), device)
        return found

    def counted_rows(
        self, counted: dict[Hashable, Any], train: NDArray[np.int64], device: Device
    ) -> FeatureRows:
        """Learn what `fit` would from some of the documents that `count` counted, and all as rows."""
        parts = []
        for _, leaf in self.terms:
            leaf.fit_counted(counted[leaf.counting], train)
            parts.append(counted[leaf.counting].rows(leaf.bare, train))
        weights = [weight for weight, _ in self.terms]
        if device.kind == "cuda":
            from textsvm.linalg import rows_cuda

            return rows_cuda.side_by_side(parts, weights)
        return side_by_side(parts, weights)

    @property
    def approximation(self) -> Any:
        """How well it stands for another kernel, as `textsvm.kernels.nystroem` says; None if it is none."""
        return None

    def condense(
        self, index: NDArray[np.int64], coef: NDArray[np.float64]
    ) -> tuple[Kernel, NDArray[np.int64], NDArray[np.float64]]:
        """Machines on the documents of its last rows, as they are kept.

        Parameters
        ----------
        index : int64 array, shape (m,)
            Which documents.
        coef : float64 array, shape (n_machines, m)

        Returns
        -------
        Kernel, index, coef
            Machines of the same values, of the kernel that decides.
        """
        return self, index, coef

    def require_memory(self, n: int, allowed: int) -> None:
        """Raise InputError if what it makes of n documents takes more bytes than are allowed."""
        return

    @property
    def min_length(self) -> int:
        """Symbols a document needs to have any feature."""
        return 0

    def demand(self, lengths: NDArray[np.int64]) -> float:
        """What deciding with support vectors of these lengths takes, as a share of what a saved model may."""
        return 0.0

    @property
    def letters(self) -> str:
        """The only letters that it reads, "" if all: a kernel of both strands knows DNA and RNA."""
        return "acgtun" if getattr(self, "canonical", False) else ""

    @property
    def learns(self) -> bool:
        """Whether `fit` learns something from the documents, on which kernel values depend."""
        return False

    def fit(self, documents: Documents) -> Kernel:
        """Check the parameters and learn what the kernel needs from training documents.

        Raises
        ------
        InputError
            If a parameter is out of range.
        """
        self.check()
        return self

    def fit_on(self, documents: Documents, device: Device) -> Kernel:
        """`fit`, where `device` says if there is a quicker way."""
        return self.fit(documents)

    def check(self) -> None:
        """Raise InputError if a parameter is out of range."""

    @abstractmethod
    def rows(self, documents: Documents, device: Device) -> KernelRows:
        """Prepare `documents` as the columns of rows of kernel values."""

    def near(self, documents: Documents, others: Documents | None, device: Device) -> Near:
        """Prepare to find pairs that are alike, of `documents` or of `others` (the rows) and `documents`."""
        return NearByValues(self, documents, others, device)

    def predictor(self, support: Documents, coef: NDArray[np.float64], device: Device) -> Predictor:
        """Prepare machines for prediction.

        Parameters
        ----------
        support : Documents, n_sv of them
        coef : float64 array, shape (n_machines, n_sv)
        device : Device
            Where they decide.
        """
        return RowsPredictor(self.rows(support, device), coef)

    @property
    def has_weights(self) -> bool:
        """Whether its machines can be kept as one weight a feature (`weight_vectors`)."""
        return False

    def weight_vectors(self, support: Documents, coef: NDArray[np.float64]) -> Weights:
        """Machines, coef (n_machines, n_sv), as weights of features."""
        raise TypeError(f"machines of {type(self).__name__} are no weights")

    def restore_weight_vectors(self, state: dict[str, NDArray[Any]], alphabets: Documents | Views) -> Weights:
        """Take back what `Weights.state` gave, and what the kernel learnt; InputError if it is damaged."""
        raise TypeError(f"machines of {type(self).__name__} are no weights")

    @property
    def sharing(self) -> Sharing | None:
        """What it has in common with kernels of equal `sharing`, if anything."""
        return None

    def cost(self, row_lengths: NDArray[np.int64], column_lengths: NDArray[np.int64]) -> NDArray[np.float64]:
        """Seconds that a core is predicted to take for kernel values, roughly.

        Parameters
        ----------
        row_lengths, column_lengths : int64 arrays, shapes (m,) and (n,)
            Symbols of the documents.

        Returns
        -------
        float64 array, shape (m,)
            Of each row document with all column documents.
        """
        return np.full(len(row_lengths), len(column_lengths) / UNKNOWN_RATE)

    def seconds(self, rows: Documents | Views, columns: Documents | Views) -> float:
        """The same for all values of some documents with others."""
        parts = ((leaf.cost, leaf.read(rows), leaf.read(columns)) for leaf in self.leaves)
        return float(sum(cost(some.lengths, others.lengths).sum() for cost, some, others in parts))

    def divides(self, documents: Documents, kind: str = "cpu") -> bool:
        """Whether a Gram made in tiles, documents in order of length, has the bits of one made whole.

        Of no kernel by default: what is quick to compute is not worth sending.

        Parameters
        ----------
        kind : {"cpu", "cuda"}
            Of the device that makes both.
        """
        return False

    @property
    def quadratic(self) -> bool:
        """Whether the time of a value grows with the product of the two lengths."""
        once, twice = (self.cost(length, length)[0] for length in (np.array([1000]), np.array([2000])))
        return bool(twice > 3 * once)

    def contributions(
        self,
        rows: KernelRows,
        documents: Documents,
        coef: NDArray[np.float64],
        values: NDArray[np.float64],
        progress: Progress | None = None,
    ) -> Contributions:
        """What of sum_i coef[d, i] k(support_i, documents[d]) comes from which symbols, by `attribution`.

        Parameters
        ----------
        rows : KernelRows
            Of the support vectors, on the CPU.
        documents : Documents
            Over an extension of their alphabet.
        coef, values : float64 arrays, shape (len(documents), n_sv)
            Coefficients, and kernel values with the support vectors.
        """
        return occlusion(rows.decision, documents, coef, progress)

    def contributions_cost(
        self, lengths: NDArray[np.int64], support_lengths: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Seconds that a core is predicted to take for `contributions` to each document, roughly."""
        return PIECES * self.cost(lengths, support_lengths)

    def against(self, documents: Documents, device: Device) -> KernelRows:
        """Deprecated name of `rows`."""
        warnings.warn("Kernel.against is called rows now", DeprecationWarning, stacklevel=2)
        return self.rows(documents, device)

    def as_dict(self) -> dict[str, Any]:
        """Its name and parameters, JSON values but for arrays: the form that is saved and printed."""
        return {"name": self.name, **self.get_params(deep=False)}

    @property
    def key(self) -> Hashable:
        """Equal for kernels of equal values, learnt from the same documents."""
        # Different functions of tokens may look alike in print.
        return (f"{type(self)} {self.as_dict()}", self.views) if self.comparable else id(self)

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays learnt by `fit`, to be saved with a model."""
        return {}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Take back what `state` gave."""


class SymbolKernel(Kernel):
    """A kernel of symbols, its parameters `tokens` and `keep_case` saying what they are.

    Parameters
    ----------
    tokens : {"characters", "words", "whitespace", "blosum62"} or callable
        What one symbol is, see `textsvm.text.tokens.tokenise`.
    keep_case : bool
        Tell upper and lower case apart, which the normal form of texts does not.
    """

    tokens: Tokens
    keep_case: bool

    @property
    def view(self) -> View:
        return View(self.tokens, bool(self.keep_case))

    def check(self) -> None:
        check_tokens(self.tokens)
        if not isinstance(self.keep_case, bool | np.bool_):
            raise InputError(f"keep_case={self.keep_case!r} of the {self.name} kernel must be True or False")

    def copied(self, name: str, value: Any) -> Any:
        # A function of tokens stays the one it is: documents are known by it.
        return value if name == "tokens" else super().copied(name, value)
