"""Kernels: parameters, the methods every kernel has, and sums and products of kernels.

    k(s, t) = sum_i w_i k_i(s, t),    w_i >= 0, sum_i w_i = 1        (Sum, a weighted mean)
    k(s, t) = prod_i k_i(s, t)                                       (Product)

    a + b       Sum([a, b])              a + b + c      Sum([a, b, c])
    2 * a + b   Sum([a, b], [2, 1])      2 * (a + b)    Sum([a, b], [2, 2])
    a * b       Product([a, b])          a * b * c      Product([a, b, c])

A factor is a weight relative to the other terms of a sum: a single kernel has the same values with any
factor. The operators flatten nested sums and products; the factor of a part of a product applies to the
product. Kernels are normalised by default, and so are their sums and products: k(s, s) = 1. The features of
a sum are the features of its terms side by side, times sqrt(w_i), so decisions and attributions are sums over
the terms. Parts may read different views of a text.

`combined/rows.py` computes rows of sums and products; gram/build.py shares the Grams of terms in a grid.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from math import inf
from numbers import Real
from typing import Any, ClassVar, Generic, Self, TypeGuard, TypeVar

import numpy as np

from textsvm.arrays import Arrays, Floats, Floats32, Ints, Json
from textsvm.errors import InputError
from textsvm.kernels import contract
from textsvm.kernels.attribution import AttributionMethod, Attributor, Contributions
from textsvm.kernels.combined.rows import ProductRows, SumPredictor, SumRows, SumWeights, sum_contributions
from textsvm.kernels.inputs import encode_inputs
from textsvm.runtime import device as devices
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress
from textsvm.runtime.parameters import Parameters
from textsvm.text.documents import Documents, MultiView, View
from textsvm.text.tokens import Tokens, check_tokens

AbilityT = TypeVar("AbilityT", covariant=True)
MOST_PARTS = 100  #: Greatest number of leaves of a sum or product.
MOST_DEPTH = 10  #: Greatest number of nested sums and products.


class Ability(Generic[AbilityT]):
    """Attribute of a kernel class: an object constructed from the kernel when it is read."""

    def __init__(self, make: Callable[[Any], AbilityT]) -> None:
        self.make = make

    def __get__(self, kernel: Any, kind: type) -> AbilityT:
        return self.make(kernel)


@dataclass(frozen=True)
class Structure:
    """The input that a kernel reads, its parts and its saved form."""

    kernel: Any
    view: View  #: The input of the kernel; a composite kernel has the views of its leaves

    @property
    def learns(self) -> bool:
        """Whether kernel values depend on the documents that the kernel was fitted to."""
        return bool(self.kernel._learns)

    @property
    def min_length(self) -> int:
        """Documents with fewer symbols have no features."""
        return int(self.kernel._min_length)

    @property
    def comparable(self) -> bool:
        """Whether equal parameters mean equal kernels: not so for Python functions."""
        return bool(self.kernel._comparable)

    def resolved(self) -> Any:
        """A fresh kernel of the same parameters, in which `On` is applied to leaves only."""
        return self.kernel.__sklearn_clone__()

    @property
    def leaves(self) -> tuple[Any, ...]:
        """Kernels that are neither sums nor products, depth first."""
        return (self.kernel,)

    @property
    def terms(self) -> Sequence[tuple[float, Any]]:
        """The kernel as a weighted sum of kernels that are not sums; terms of weight 0 are left out."""
        return ((1.0, self.kernel),)

    @property
    def depth(self) -> int:
        """Levels of nested sums and products."""
        return 0

    @property
    def views(self) -> tuple[View, ...]:
        """Distinct views of the leaves."""
        return (self.view,)

    @property
    def reads_tables(self) -> bool:
        """Whether the examples are rows of a table."""
        return any(view.column is not None for view in self.views)

    @property
    def reads_vectors(self) -> bool:
        """Whether the examples are vectors of numbers."""
        numbers = bool(self.views) and all(view.tokens == "numbers" for view in self.views)
        return numbers and not self.reads_tables

    @property
    def examples(self) -> str:
        """Kind of examples, "texts", "vectors" or "columns", for messages."""
        if self.reads_tables:
            return "columns"
        return "vectors" if self.reads_vectors else "texts"

    def read(self, documents: Documents | MultiView) -> Any:
        """The view of documents that the kernel compares."""
        return documents.of(self.view)

    @property
    def letters(self) -> str:
        """The letters that the kernel accepts, "" for all: kernels of both strands read DNA and RNA only."""
        return "acgtunrykmswbdhv" if self.kernel.canonical else ""

    @property
    def alike(self) -> float:
        """Normalised kernel value from which two examples are near-duplicates."""
        return contract.ALIKE

    @property
    def near_duplicate_kernel(self) -> Any:
        """The kernel of the parts that read texts, for the search for near-duplicates; None without any."""
        return self.kernel

    def as_dict(self) -> Json:
        """Name and parameters as JSON values and arrays: the form of model files and of ``--json``."""
        own = {"name": self.kernel.name, **self.kernel.get_params(deep=False)}
        column = self.view.column
        return own if column is None else {"name": "on", "column": column, "kernel": own}

    @property
    def key(self) -> Hashable:
        """Equal for two kernels that have the same values once they are fitted to the same documents."""
        # Different functions of tokens may have the same repr.
        return (f"{type(self.kernel)} {self.as_dict()}", self.views) if self.comparable else id(self.kernel)

    def state(self) -> Arrays:
        """The arrays that the kernel learnt, under the names of a model file."""
        prefix = "" if self.view.column is None else contract.OWN
        return {prefix + name: array for name, array in self.kernel.state().items()}

    def restore(self, state: Arrays) -> None:
        """Restore a kernel from the arrays of `state`."""
        self.kernel.restore(state if self.view.column is None else contract.strip_prefix(contract.OWN, state))


class Kernel(Parameters, ABC):
    """Base class of kernels; a kernel is defined by its constructor parameters.

    A subclass has a `name` (in model files and on the command line), stores its constructor parameters under
    their names, and implements `rows`; the rest has defaults. kernels/contract.py describes `structure`,
    `cost`, `features` and `attribution`.
    """

    name: ClassVar[str]
    cost: Ability[contract.Cost] = Ability(contract.Cost)
    features: Ability[Any] = Ability(lambda kernel: None)
    attribution: Ability[Attributor] = Ability(Attributor)
    #: Column of a table that the kernel reads, or several whose texts are joined, see `On`.
    _column: str | tuple[str, ...] | None = None
    #: Number of symbols of the shortest documents that have features, or the parameter with this number.
    _shortest: ClassVar[int | str] = 0
    canonical: bool = False  #: Whether windows of the reverse complement count, of kernels of DNA.
    __array_ufunc__ = None  #: Makes ``np.float64(2) * kernel`` call `__rmul__` of the kernel.

    # For subclasses; others read them from `structure`.

    @property
    def _learns(self) -> bool:
        return False

    @property
    def _min_length(self) -> int:
        return int(getattr(self, self._shortest) if isinstance(self._shortest, str) else self._shortest)

    @property
    def _comparable(self) -> bool:
        return True

    @property
    def structure(self) -> Structure:
        # Not kept: the cycle would keep the learnt weights until the garbage collector runs.
        return Structure(self, View(column=self._column))

    def check(self) -> None:
        """Raise InputError if a parameter is out of range."""

    def fit(self, documents: Documents, device: Device | None = None) -> Self:
        """Check the parameters and learn from training documents, on a device if that is quicker.

        Raises
        ------
        InputError
            If a parameter is out of range.
        """
        self.check()
        return self

    @abstractmethod
    def rows(self, documents: Documents, device: Device) -> contract.KernelRows:
        """Kernel matrix against fixed documents, computed on demand.

        The columns are `documents`; the rows are these documents, or others (`KernelRows.cross`).
        """

    def predictor(self, support: Documents, coef: Floats, device: Device) -> contract.Predictor:
        """Prepare machines for prediction; `coef` is a float64 array of shape (n_machines, n_sv)."""
        return contract.RowsPredictor(self.rows(support, device), coef)

    def state(self) -> Arrays:
        """Arrays learnt by `fit`, to be saved with a model."""
        return {}

    def restore(self, state: Arrays) -> None:
        """Restore the learnt arrays of `state`."""

    def __call__(self, texts: object, others: Any = None) -> Floats32:
        """Kernel values of texts with others, or with each other.

        Texts are normalised as `textsvm.SVC` does by default, and values computed on the device that it would
        choose. A kernel that learns (idf weights, the scale of vectors) learns from the columns; the kernel
        object itself does not change.

        Parameters
        ----------
        texts : m texts, or vectors or a table for kernels of vectors or columns
        others : n texts, vectors or a table, optional
            The columns; the texts themselves by default.

        Returns
        -------
        float32 array, shape (m, n)

        Raises
        ------
        InputError
            If a parameter of the kernel is out of range, or the input is of the wrong type.
        """
        kernel = self.structure.resolved()
        kernel.check()
        structure, device = kernel.structure, devices.select()
        with devices.use(device):
            examples = encode_inputs(texts if others is None else others, structure.views)
            columns = structure.read(examples)
            rows = kernel.fit(columns, device).rows(columns, device)
            if others is None:
                return np.asarray(devices.to_host(rows.gram()))
            compared = structure.read(encode_inputs(texts, structure.views, examples))
            return np.asarray(devices.to_host(rows.cross(compared)))

    def __add__(self, other: object) -> Sum:
        if not isinstance(other, Kernel):
            return NotImplemented
        (weights, kernels), (more_weights, more_kernels) = _operands(self), _operands(other)
        weights, kernels = weights + more_weights, kernels + more_kernels
        return Sum(kernels, None if set(weights) == {1.0} else weights)

    def __radd__(self, other: object) -> Any:
        # The builtin `sum` begins with 0.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __mul__(self, other: object) -> Any:
        if isinstance(other, Kernel):
            return _product(self, other)
        if not isinstance(other, Real) or isinstance(other, bool | np.bool_):
            return NotImplemented
        if not 0 < float(other) < inf:
            raise InputError(f"a kernel can be multiplied by a finite number above 0, not by {other}")
        return _scaled(float(other), self)

    __rmul__ = __mul__

    def __sklearn_clone__(self) -> Self:
        kernel = super().__sklearn_clone__()
        if self._column is not None:
            kernel._column = self._column
        return kernel

    def __repr__(self) -> str:
        own = super().__repr__()
        return own if self._column is None else f"On(column={self._column!r}, kernel={own})"


@dataclass(repr=False, eq=False)
class SymbolKernel(Kernel):
    """A kernel of symbols.

    Parameters
    ----------
    tokens : {"characters", "words", "runs", "whitespace", "blosum62"} or callable
        Definition of a symbol, see `textsvm.text.tokens.Tokens`.
    keep_case : bool
        Distinguish upper and lower case, which the normal form of texts does not.
    """

    tokens: Tokens = field(default="characters", kw_only=True)
    keep_case: bool = field(default=False, kw_only=True)

    @property
    def structure(self) -> Structure:
        return Structure(self, View(self.tokens, bool(self.keep_case), self._column))

    def check(self) -> None:
        check_flag(self, "keep_case")
        if hasattr(self, "normalised"):
            check_flag(self, "normalised")
        check_tokens(self.tokens)

    def _copied(self, name: str, value: object) -> Any:
        # Functions of tokens are compared by identity.
        return value if name == "tokens" else super()._copied(name, value)


def is_number(value: object) -> TypeGuard[float]:
    """Whether a parameter is a float or an int of at most 64 bits, but no bool."""
    return isinstance(value, float | np.floating) or is_whole(value)


def is_whole(value: object) -> bool:
    """Whether a parameter is an int of at most 64 bits, but no bool."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and abs(int(value)) < 1 << 63


def check_flag(kernel: Kernel, name: str) -> None:
    """Raise InputError unless a parameter is a bool."""
    value = getattr(kernel, name)
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name}={value!r} of the {kernel.name} kernel must be True or False")


def check_positive(kernel: Kernel, name: str) -> None:
    """Raise InputError if a parameter is no finite number above 0."""
    value = getattr(kernel, name)
    if not is_number(value) or not 0 < value < inf:
        raise InputError(f"{name}={value!r} of the {kernel.name} kernel must be a finite number above 0")


def check_choice(kernel: Kernel, name: str, choices: Sequence[str]) -> None:
    """Raise InputError if a parameter has another value than these."""
    value = getattr(kernel, name)
    if value not in choices:
        raise InputError(f"{name}={value!r} of the {kernel.name} kernel is not one of {', '.join(choices)}")


def check_whole(kernel: Kernel, name: str, least: int, most: int | None = None) -> None:
    """Raise InputError if a parameter is no whole number within bounds."""
    value = getattr(kernel, name)
    if not is_whole(value) or value < least or (most is not None and value > most):
        bounds = f"from {least}" if most is None else f"from {least} to {most:,}"
        raise InputError(f"{name}={value!r} of the {kernel.name} kernel must be a whole number {bounds}")


def check_weights(weights: Any, n: int, owner: str, reason: str) -> None:
    """Raise InputError unless weights are n numbers >= 0 with a positive sum."""
    try:
        values = np.asarray(weights, np.float64)
    except (TypeError, ValueError):
        values = np.empty((0, 0))
    if values.shape != (n,):
        raise InputError(f"weights={weights!r} of {owner} must be {n} numbers ({reason})")
    if not (np.isfinite(values).all() and (values >= 0).all() and 0 < values.sum() < np.inf):
        raise InputError(f"the weights of {owner} must be finite, not negative and not all 0")


class CompositeStructure(Structure):
    """Structure of a sum or product; `kernels` are the parts."""

    def resolved(self) -> Any:
        return self.with_parts(lambda part: part.structure.resolved())

    def with_parts(self, change: Callable[[Any], Any]) -> Any:
        """A fresh kernel with changed parts."""
        kernel = self.kernel.__sklearn_clone__()
        if _is_list(kernel.kernels):
            kernel.kernels = type(kernel.kernels)(
                change(part) if isinstance(part, Kernel) else part for part in kernel.kernels
            )
        return kernel

    @property
    def leaves(self) -> tuple[Any, ...]:
        return tuple(leaf for part in self.kernel.kernels for leaf in part.structure.leaves)

    @property
    def depth(self) -> int:
        return 1 + max(part.structure.depth for part in self.kernel.kernels)

    @property
    def views(self) -> tuple[View, ...]:
        return tuple(dict.fromkeys(view for part in self.kernel._parts for view in part.structure.views))

    @property
    def alike(self) -> float:
        return max(part.structure.alike for part in self.kernel.kernels)

    def read(self, documents: Documents | MultiView) -> Any:
        return documents

    def as_dict(self) -> Json:
        kernels = [part.structure.as_dict() for part in self.kernel.kernels]
        return {"name": self.kernel.name, **self.kernel.get_params(deep=False), "kernels": kernels}


class CompositeCost(contract.Cost):
    """Cost of a sum or product."""

    def of_rows(self, row_lengths: Ints, column_lengths: Ints) -> Floats:
        return np.sum([own.cost.of_rows(row_lengths, column_lengths) for own in self.kernel.kernels], axis=0)

    def tileable(self, documents: Any, kind: str = "cpu") -> bool:
        # With several views there is no common order of length.
        structure = self.kernel.structure
        return len(structure.views) == 1 and all(
            leaf.cost.tileable(leaf.structure.read(documents), kind) for leaf in structure.leaves
        )

    @property
    def quadratic(self) -> bool:
        return any(part.cost.quadratic for part in self.kernel.kernels)


class Composite(Kernel):
    """A kernel composed of kernels; part i is the parameter ``i``, its parameters are ``i__parameter``."""

    kernels: Sequence[Kernel]
    cost = Ability(CompositeCost)
    _structure: ClassVar[type[CompositeStructure]] = CompositeStructure

    @property
    def structure(self) -> CompositeStructure:
        return self._structure(self, View())

    @property
    def _parts(self) -> list[Kernel]:
        """The parts that are kernels, also of parameters that `check` refuses."""
        return [part for part in self.kernels if isinstance(part, Kernel)] if _is_list(self.kernels) else []

    @property
    def _learns(self) -> bool:
        return any(part.structure.learns for part in self._parts)

    @property
    def _min_length(self) -> int:
        return min(part.structure.min_length for part in self._parts)

    @property
    def _comparable(self) -> bool:
        return all(part.structure.comparable for part in self._parts)

    def fit(self, documents: Documents, device: Device | None = None) -> Self:
        self.check()
        for part in self.kernels:
            part.fit(part.structure.read(documents), device)
        return self

    def check(self) -> None:
        if not _is_list(self.kernels) or not len(self.kernels):
            raise InputError(
                f"kernels={self.kernels!r} of a {self.name} of kernels must be a list of kernels, not empty"
            )
        for number, part in enumerate(self.kernels):
            if not isinstance(part, Kernel):
                raise InputError(
                    f"part {number} of a {self.name} of kernels is {part!r}, which is not a kernel; give "
                    "objects such as Spectrum(4)"
                )
            part.check()
            first, kind = self.kernels[0].structure.examples, part.structure.examples
            if kind != first:
                raise InputError(
                    f"part 0 of a {self.name} of kernels reads {first}, and part {number} {kind}; name the "
                    "column of a table for each, as On(column, kernel)"
                )
        depth, leaves = self.structure.depth, len(self.structure.leaves)
        if depth > MOST_DEPTH or leaves > MOST_PARTS:
            raise InputError(
                f"a {self.name} of {leaves:,} kernels, nested {depth} deep, is too large; at "
                f"most {MOST_PARTS} kernels and {MOST_DEPTH} levels are allowed"
            )

    def state(self) -> Arrays:
        return {
            f"{number}.{name}": array
            for number, part in enumerate(self.kernels)
            for name, array in part.structure.state().items()
        }

    def restore(self, state: Arrays) -> None:
        for number, part in enumerate(self.kernels):
            part.structure.restore(contract.strip_prefix(f"{number}.", state))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; with `deep` also the parts ("0") and their parameters ("0__p")."""
        params: dict[str, Any] = super().get_params(deep=False)
        if deep and _is_list(self.kernels):
            for number, part in enumerate(self.kernels):
                params[str(number)] = part
                if hasattr(part, "get_params"):
                    params |= {f"{number}__{name}": value for name, value in part.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``set_params(**{"0__p": 5, "1": Spectrum(3)})`` sets parts, too."""
        if "kernels" in params:
            self.kernels = params.pop("kernels")
        numbers = [name for name in params if name.isdecimal() and name in self.get_params(deep=True)]
        if numbers:
            parts = {name: params.pop(name) for name in numbers}
            self.kernels = [parts.get(str(number), part) for number, part in enumerate(self.kernels)]
        return super().set_params(**params)


def _is_list(kernels: Any) -> bool:
    return isinstance(kernels, list | tuple)


class SumStructure(CompositeStructure):
    """Structure of a sum."""

    @property
    def terms(self) -> tuple[tuple[float, Any], ...]:
        return tuple(
            (share * weight, kernel)
            for share, part in zip(self.kernel._shares.tolist(), self.kernel.kernels, strict=True)
            for weight, kernel in part.structure.terms
            if share > 0
        )

    @property
    def near_duplicate_kernel(self) -> Any:
        terms = [(weight, kernel, kernel.structure.near_duplicate_kernel) for weight, kernel in self.terms]
        if all(other is kernel for _, kernel, other in terms):
            return self.kernel
        parts = [(weight, other) for weight, _, other in terms if other is not None]
        return Sum([kernel for _, kernel in parts], [weight for weight, _ in parts]) if parts else None


class SumFeatures(contract.Features):
    """Features of a sum: the features of its terms side by side."""

    @property
    def countable(self) -> bool:
        return all(term.features.countable for _, term in self.kernel.structure.terms)

    @property
    def host_only(self) -> bool:  # type: ignore[override]
        return any(term.features.host_only for _, term in self.kernel.structure.terms)

    @property
    def has_weights(self) -> bool:  # type: ignore[override]
        return all(term.features.has_weights for _, term in self.kernel.structure.terms)

    def weights(self, support: Documents, coef: Floats, *index: Any) -> SumWeights:
        parts = [
            term.features.weights(term.structure.read(support), weight * coef, *index[k : k + 1])
            for k, (weight, term) in enumerate(self.kernel.structure.terms)
        ]
        return SumWeights(self.kernel, parts)

    def restore_weights(self, state: Arrays, alphabets: Documents | MultiView) -> SumWeights:
        terms = enumerate(self.kernel.structure.terms)
        parts = [
            term.features.restore_weights(contract.strip_prefix(f"{k}.", state), alphabets)
            for k, (_, term) in terms
        ]
        return SumWeights(self.kernel, parts)


class SumAttributor(Attributor):
    """Attribution of a sum: the sum over its terms."""

    @property
    def method(self) -> AttributionMethod:  # type: ignore[override]
        methods = list(dict.fromkeys(term.attribution.method for _, term in self.kernel.structure.terms))
        if len(methods) == 1:
            return methods[0]
        return AttributionMethod(
            "+".join(method.name for method in methods),
            "a sum over the kernels; " + "; ".join(f"{way.name}: {way.description}" for way in methods),
            exact=all(method.exact for method in methods),
        )

    def contributions(
        self, rows: SumRows, documents: Documents, coef: Floats, values: Floats, progress: Progress | None
    ) -> Contributions:
        return sum_contributions(rows, documents, coef, progress)

    def seconds(self, lengths: Ints, support_lengths: Ints) -> Floats:
        terms = self.kernel.structure.terms
        return np.sum([term.attribution.seconds(lengths, support_lengths) for _, term in terms], axis=0)


class Sum(Composite):
    """Weighted mean of kernels, sum_i w_i k_i(s, t), with weights scaled to sum to 1.

    Parameters
    ----------
    kernels : list of Kernel
        May contain sums and products.
    weights : sequence of floats >= 0, a weight for each kernel, optional
        Equal by default.

    Examples
    --------
    >>> from textsvm import Spectrum, Sum
    >>> words = Spectrum(1, tokens="words")
    >>> print(Sum([Spectrum(2), words])(["red rose"], ["red nose"]).round(4))
    [[0.6071]]
    >>> Spectrum(2) + words  # the same
    Sum(kernels=[Spectrum(p=2), Spectrum(p=1, tokens='words')])
    >>> 3 * Spectrum(2) + words
    Sum(kernels=[Spectrum(p=2), Spectrum(p=1, tokens='words')], weights=[3.0, 1.0])
    """

    name: ClassVar[str] = "sum"
    attribution = Ability(SumAttributor)
    _structure = SumStructure

    def __init__(self, kernels: Sequence[Kernel] = (), weights: Sequence[float] | None = None) -> None:
        self.kernels = kernels
        self.weights = weights

    @property
    def features(self) -> SumFeatures | None:
        terms = self.structure.terms
        return SumFeatures(self) if all(term.features is not None for _, term in terms) else None

    @property
    def _shares(self) -> Floats:
        weights = np.ones(len(self.kernels)) if self.weights is None else np.asarray(self.weights, float)
        return weights / weights.sum()

    def check(self) -> None:
        super().check()
        if self.weights is not None:
            check_weights(self.weights, len(self.kernels), "a sum of kernels", "a weight for each kernel")

    def rows(self, documents: Documents, device: Device) -> SumRows:
        return SumRows(self, documents, device)

    def predictor(self, support: Documents, coef: Floats, device: Device) -> contract.Predictor:
        parts = [
            term.predictor(term.structure.read(support), weight * coef, device)
            for weight, term in self.structure.terms
        ]
        return SumPredictor(self, parts, device, [weight for weight, _ in self.structure.terms])


class ProductStructure(CompositeStructure):
    """Structure of a product."""

    @property
    def near_duplicate_kernel(self) -> Any:
        pairs = [(kernel, kernel.structure.near_duplicate_kernel) for kernel in self.kernel.kernels]
        if all(other is kernel for kernel, other in pairs):
            return self.kernel
        parts = [other for _, other in pairs if other is not None]
        return Product(parts) if parts else None


class Product(Composite):
    """Product of kernels, prod_i k_i(s, t).

    Parameters
    ----------
    kernels : list of Kernel
        May contain sums and products.

    Examples
    --------
    >>> from textsvm import Product, Spectrum
    >>> words = Spectrum(1, tokens="words")
    >>> print(Product([Spectrum(2), words])(["red rose"], ["red nose"]).round(4))
    [[0.3571]]
    >>> Spectrum(2) * words  # the same
    Product(kernels=[Spectrum(p=2), Spectrum(p=1, tokens='words')])
    """

    name: ClassVar[str] = "product"
    _structure = ProductStructure

    def __init__(self, kernels: Sequence[Kernel] = ()) -> None:
        self.kernels = kernels

    def rows(self, documents: Documents, device: Device) -> ProductRows:
        return ProductRows(self, documents, device)


def _operands(kernel: Kernel) -> tuple[list[float], list[Kernel]]:
    """Weights and kernels of a sum as the user gave them; any other kernel is a sum of itself.

    `Structure.terms` scales the weights to sum to 1 and flattens nested sums.
    """
    if not isinstance(kernel, Sum):
        return [1.0], [kernel]
    weights = [1.0] * len(kernel.kernels) if kernel.weights is None else [float(w) for w in kernel.weights]
    return weights, list(kernel.kernels)


def _scaled(factor: float, kernel: Kernel) -> Sum:
    weights, kernels = _operands(kernel)
    return Sum(kernels, [factor * weight for weight in weights])


def _product(a: Kernel, b: Kernel) -> Product | Sum:
    factor, parts = 1.0, list[Kernel]()
    for kernel in (a, b):
        weights, kernels = _operands(kernel)
        if len(kernels) == 1:  # a kernel times a number
            factor, kernel = factor * weights[0], kernels[0]
        parts += kernel.kernels if isinstance(kernel, Product) else [kernel]
    product = Product(parts)
    return product if factor == 1 else _scaled(factor, product)
