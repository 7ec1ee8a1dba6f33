"""Kernels as Python writes them: ``a + b``, ``2 * a``, ``a * b``, and ``kernel(texts, others)``.

    a + b       Sum([a, b])              a + b + c      Sum([a, b, c])
    2 * a + b   Sum([a, b], [2, 1])      2 * (a + b)    Sum([a, b], [2, 2])
    a * b       Product([a, b])          a * b * c      Product([a, b, c])

Sums are weighted means (`textsvm.kernels.sums`): a factor says how much a term counts beside others, and a
kernel that stands alone has the same values whatever its factor. Terms of sums and parts of products are put
together flat; the factor of a part of a product is one of the product.
"""

from __future__ import annotations

from math import inf
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from textsvm import device as devices
from textsvm.errors import InputError

if TYPE_CHECKING:  # the package knows everybody; sums and machines are built on kernels
    from textsvm import Product, Sum


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
