"""The linear kernel of vectors, k(x, y) = <x, y>."""

from __future__ import annotations

from typing import Any, ClassVar

from textsvm.kernels.linear_options import OPTIONS
from textsvm.kernels.option import Option
from textsvm.kernels.vectors import VectorKernel


class Linear(VectorKernel):
    """The product of vectors, <x, y>."""

    name: ClassVar[str] = "linear"
    options: ClassVar[tuple[Option, ...]] = OPTIONS
    finish: ClassVar[str] = "linear"

    def value(self, products: Any, rows: Any, columns: Any) -> Any:
        return products
