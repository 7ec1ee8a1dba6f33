"""Sums and products of kernels, which are kernels again.

    k(s, t) = sum_i w_i k_i(s, t),    w_i >= 0, sum_i w_i = 1        (the mean, without weights)
    k(s, t) = prod_i k_i(s, t)

Parts are normalised kernels by default, and so are their sums and products: k(s, s) = 1. The features of a
sum are those of its parts side by side, times sqrt(w_i); so decisions, and what they come from, are sums over
the parts. The parts may read different things of a text (`Kernel.view`), and may be sums and products
themselves: a sum of sums is one of all their parts.

What is computed, on either device, is in combined_rows.py; a grid over sums shares the Grams of their parts
(gram/shared.py).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from textsvm.errors import InputError
from textsvm.kernels.attribution import Attribution, Contributions
from textsvm.kernels.base import Kernel, Predictor
from textsvm.kernels.combined.rows import (
    ProductRows,
    SumPredictor,
    SumRows,
    SumWeights,
    sum_contributions,
    under,
)
from textsvm.kernels.options import SUMS_OPTIONS, Option
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress
from textsvm.text.documents import Documents, View, Views

#: How many kernels a sum or product may be of, all told, and how deeply they may be nested.
MOST_PARTS, MOST_DEPTH = 100, 10


class Composite(Kernel):
    """A kernel made of kernels; parameters of part i are named ``i__parameter``, the part itself ``i``."""

    options: ClassVar[tuple[Option, ...]] = SUMS_OPTIONS
    kernels: Sequence[Kernel]

    @property
    def alike(self) -> float:  # type: ignore[override]
        return max(part.alike for part in self.kernels)

    @property
    def view(self) -> View:
        raise TypeError("the parts of a kernel have views; this one reads whole documents")

    @property
    def views(self) -> tuple[View, ...]:
        return tuple(dict.fromkeys(leaf.view for leaf in self.leaves))

    @property
    def leaves(self) -> tuple[Kernel, ...]:
        return tuple(leaf for part in self.kernels for leaf in part.leaves)

    @property
    def depth(self) -> int:
        return 1 + max(part.depth for part in self.kernels)

    @property
    def reads(self) -> str:  # type: ignore[override]
        """What its parts read, if that is the same."""
        parts = self.kernels if isinstance(self.kernels, list | tuple) else ()
        kinds = {getattr(part, "reads", "") for part in parts}
        return "columns" if "columns" in kinds else "vectors" if kinds == {"vectors"} else "texts"

    @property
    def comparable(self) -> bool:  # type: ignore[override]
        return all(part.comparable for part in self.kernels)

    @property
    def min_length(self) -> int:
        return min(part.min_length for part in self.kernels)

    @property
    def learns(self) -> bool:
        return any(part.learns for part in self.kernels)

    def divides(self, documents: Any, kind: str = "cpu") -> bool:
        # In one view, for documents have one order of length.
        return len(self.views) == 1 and all(leaf.divides(leaf.read(documents), kind) for leaf in self.leaves)

    @property
    def quadratic(self) -> bool:
        return any(part.quadratic for part in self.kernels)

    def read(self, documents: Documents | Views) -> Any:
        return documents

    def fit(self, documents: Documents) -> Composite:
        self.check()
        for part in self.kernels:
            part.fit(part.read(documents))
        return self

    def fit_on(self, documents: Documents, device: Device) -> Composite:
        self.check()
        for part in self.kernels:
            part.fit_on(part.read(documents), device)
        return self

    def check(self) -> None:
        if not isinstance(self.kernels, list | tuple) or not len(self.kernels):
            raise InputError(
                f"kernels={self.kernels!r} of a {self.name} of kernels must be a list of one kernel or more"
            )
        for number, part in enumerate(self.kernels):
            if not isinstance(part, Kernel):
                raise InputError(
                    f"part {number} of a {self.name} of kernels is {part!r}, which is no kernel; give "
                    "objects such as Spectrum(4)"
                )
            part.check()
            if part.reads != self.kernels[0].reads:
                raise InputError(
                    f"part 0 of a {self.name} of kernels reads {self.kernels[0].reads}, and part {number} "
                    f"{part.reads}; say which columns of a table each is for, as On(column, kernel)"
                )
        if self.depth > MOST_DEPTH or len(self.leaves) > MOST_PARTS:
            raise InputError(
                f"a {self.name} of {len(self.leaves):,} kernels, nested {self.depth} deep, is too large; at "
                f"most {MOST_PARTS} kernels and {MOST_DEPTH} levels are allowed"
            )

    def cost(self, row_lengths: NDArray[np.int64], column_lengths: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.sum([part.cost(row_lengths, column_lengths) for part in self.kernels], axis=0)

    def as_dict(self) -> dict[str, Any]:
        return {**super().as_dict(), "kernels": [part.as_dict() for part in self.kernels]}

    def state(self) -> dict[str, NDArray[Any]]:
        return {
            f"{number}.{name}": array
            for number, part in enumerate(self.kernels)
            for name, array in part.state().items()
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        for number, part in enumerate(self.kernels):
            part.restore(under(f"{number}.", state))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """See scikit-learn; with `deep` the parts by their numbers and their parameters too."""
        params: dict[str, Any] = super().get_params(deep=False)
        if deep and isinstance(self.kernels, list | tuple):
            for number, part in enumerate(self.kernels):
                params[str(number)] = part
                if hasattr(part, "get_params"):
                    params |= {f"{number}__{name}": value for name, value in part.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Composite:
        """See scikit-learn; ``set_params(**{"0__p": 5, "1": Spectrum(3)})`` sets parts, too."""
        if "kernels" in params:
            self.kernels = params.pop("kernels")
        parts = {name: params.pop(name) for name in list(params) if name in self.get_params(deep=True)
                 and name.isdecimal()}  # fmt: skip
        if parts:
            self.kernels = [parts.get(str(number), part) for number, part in enumerate(self.kernels)]
        super().set_params(**params)
        return self

    @abstractmethod
    def rows(self, documents: Documents, device: Device) -> Any:
        """See `Kernel`."""


class Sum(Composite):
    """Weighted mean of kernels, sum_i w_i k_i(s, t) with weights that are made to sum to 1.

    Parameters
    ----------
    kernels : list of Kernel
        Which may be sums and products themselves.
    weights : sequence of floats >= 0, one a kernel, optional
        Equal ones if not given.

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

    def __init__(self, kernels: Sequence[Kernel] = (), weights: Sequence[float] | None = None) -> None:
        self.kernels = kernels
        self.weights = weights

    @property
    def shares(self) -> NDArray[np.float64]:
        """The weights, of sum 1."""
        weights = np.ones(len(self.kernels)) if self.weights is None else np.asarray(self.weights, float)
        return weights / weights.sum()

    @property
    def terms(self) -> tuple[tuple[float, Kernel], ...]:
        return tuple(
            (share * weight, kernel)
            for share, part in zip(self.shares.tolist(), self.kernels, strict=True)
            for weight, kernel in part.terms
            if share > 0
        )

    @property
    def copies_by(self) -> Kernel | None:
        parts = [(weight, kernel.copies_by) for weight, kernel in self.terms if kernel.copies_by is not None]
        if all(kernel.copies_by is kernel for _, kernel in self.terms):
            return self
        return Sum([kernel for _, kernel in parts], [weight for weight, _ in parts]) if parts else None

    @property
    def attribution(self) -> Attribution:  # type: ignore[override]
        ways = list(dict.fromkeys(kernel.attribution for _, kernel in self.terms))
        if len(ways) == 1:
            return ways[0]
        return Attribution(
            "+".join(way.name for way in ways),
            "a sum over the kernels; " + "; ".join(f"{way.name}: {way.description}" for way in ways),
            exact=all(way.exact for way in ways),
        )

    def check(self) -> None:
        super().check()
        if self.weights is None:
            return
        try:
            weights = np.asarray(self.weights, np.float64)
        except (TypeError, ValueError):
            weights = np.empty((0, 0))
        if weights.shape != (len(self.kernels),):
            raise InputError(
                f"weights={self.weights!r} of a sum of kernels must be one number for each of its "
                f"{len(self.kernels)} kernels"
            )
        if not (np.isfinite(weights).all() and (weights >= 0).all() and 0 < weights.sum() < np.inf):
            raise InputError("the weights of a sum of kernels must be finite, not negative and not all 0")

    def rows(self, documents: Documents, device: Device) -> SumRows:
        """Prepare `documents` as the columns of rows to come."""
        self.check()
        return SumRows(self, documents, device)

    def predictor(self, support: Documents, coef: NDArray[np.float64], device: Device) -> Predictor:
        """See `Kernel`: each part decides as it does alone, in the space of its features if it has one."""
        parts = [each.predictor(each.read(support), weight * coef, device) for weight, each in self.terms]
        return SumPredictor(self, parts, device)

    @property
    def has_weights(self) -> bool:
        return all(kernel.has_weights for _, kernel in self.terms)

    def weight_vectors(self, support: Documents, coef: NDArray[np.float64]) -> SumWeights:
        parts = [each.weight_vectors(each.read(support), weight * coef) for weight, each in self.terms]
        return SumWeights(self, parts)

    def restore_weight_vectors(
        self, state: dict[str, NDArray[Any]], alphabets: Documents | Views
    ) -> SumWeights:
        parts = [
            each.restore_weight_vectors(under(f"{number}.", state), alphabets)
            for number, (_, each) in enumerate(self.terms)
        ]
        return SumWeights(self, parts)

    def contributions(
        self,
        rows: Any,
        documents: Documents,
        coef: NDArray[np.float64],
        values: NDArray[np.float64],
        progress: Progress | None = None,
    ) -> Contributions:
        return sum_contributions(rows, documents, coef, progress)

    def contributions_cost(
        self, lengths: NDArray[np.int64], support_lengths: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        costs = [kernel.contributions_cost(lengths, support_lengths) for _, kernel in self.terms]
        return np.sum(costs, axis=0)


class Product(Composite):
    """Product of kernels, prod_i k_i(s, t): documents are alike if all of them say so.

    Parameters
    ----------
    kernels : list of Kernel
        Which may be sums and products themselves.

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

    def __init__(self, kernels: Sequence[Kernel] = ()) -> None:
        self.kernels = kernels

    @property
    def copies_by(self) -> Kernel | None:
        if all(kernel.copies_by is kernel for kernel in self.kernels):
            return self
        parts = [kernel.copies_by for kernel in self.kernels if kernel.copies_by is not None]
        return Product(parts) if parts else None

    def rows(self, documents: Documents, device: Device) -> ProductRows:
        """Prepare `documents` as the columns of rows to come."""
        self.check()
        return ProductRows(self, documents, device)
