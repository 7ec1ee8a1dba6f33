"""The string kernels, one file each. Their modules are imported when they are first used."""

from __future__ import annotations

from collections import UserDict
from importlib import import_module
from typing import TYPE_CHECKING, Any

from textsvm.kernels.option import Option

if TYPE_CHECKING:
    from textsvm.kernels.base import Kernel
    from textsvm.kernels.bounded_gap import BoundedGap
    from textsvm.kernels.edit import EditDistance
    from textsvm.kernels.gap import GapWeighted
    from textsvm.kernels.gapped import GappedKmers
    from textsvm.kernels.gaussian import Gaussian
    from textsvm.kernels.gkm import Gkm
    from textsvm.kernels.linear import Linear
    from textsvm.kernels.locality import LocalityImproved
    from textsvm.kernels.mismatch import Mismatch
    from textsvm.kernels.oligo import Oligo
    from textsvm.kernels.on import On
    from textsvm.kernels.polynomial import Polynomial
    from textsvm.kernels.sigmoid import Sigmoid
    from textsvm.kernels.spectrum import Spectrum
    from textsvm.kernels.sums import Product, Sum
    from textsvm.kernels.user import UserKernel
    from textsvm.kernels.weighted_degree import WeightedDegree


_MADE_OF_OTHERS = ("sum", "product", "on")


class Kernels(UserDict[str, Any]):
    """Kernel classes by name; "module:Class" becomes the class when it is first asked for."""

    def __getitem__(self, name: str) -> type[Kernel]:
        kernel = self.data[name]
        if isinstance(kernel, str):
            module, _, class_name = kernel.partition(":")
            kernel = self.data[name] = getattr(import_module(module), class_name)
        return kernel

    def options(self, name: str) -> tuple[Option, ...]:
        """The options of a kernel, without importing it: scikit-learn and Numba take a second."""
        kernel = self.data[name]
        if isinstance(kernel, str):
            return import_module(kernel.partition(":")[0] + "_options").OPTIONS
        return kernel.options

    def simple(self) -> list[str]:
        """Names of the kernels that are made of no others."""
        return [name for name in self if name not in _MADE_OF_OTHERS]


#: Kernels by the name that the command line and model files use; a function of the user's has none.
KERNELS = Kernels(
    spectrum="textsvm.kernels.spectrum:Spectrum",
    edit="textsvm.kernels.edit:EditDistance",
    gap="textsvm.kernels.gap:GapWeighted",
    gapped="textsvm.kernels.gapped:GappedKmers",
    mismatch="textsvm.kernels.mismatch:Mismatch",
    gkm="textsvm.kernels.gkm:Gkm",
    oligo="textsvm.kernels.oligo:Oligo",
    locality="textsvm.kernels.locality:LocalityImproved",
    linear="textsvm.kernels.linear:Linear",
    polynomial="textsvm.kernels.polynomial:Polynomial",
    gaussian="textsvm.kernels.gaussian:Gaussian",
    sigmoid="textsvm.kernels.sigmoid:Sigmoid",
    sum="textsvm.kernels.sums:Sum",
    product="textsvm.kernels.sums:Product",
    on="textsvm.kernels.on:On",
    **{
        "bounded-gap": "textsvm.kernels.bounded_gap:BoundedGap",
        "weighted-degree": "textsvm.kernels.weighted_degree:WeightedDegree",
    },
)
_HOME = {
    "Kernel": "base",
    "Linear": "linear",
    "Polynomial": "polynomial",
    "BoundedGap": "bounded_gap",
    "EditDistance": "edit",
    "GapWeighted": "gap",
    "GappedKmers": "gapped",
    "Gaussian": "gaussian",
    "Gkm": "gkm",
    "Mismatch": "mismatch",
    "LocalityImproved": "locality",
    "Oligo": "oligo",
    "On": "on",
    "Product": "sums",
    "Sigmoid": "sigmoid",
    "Spectrum": "spectrum",
    "Sum": "sums",
    "UserKernel": "user",
    "WeightedDegree": "weighted_degree",
}

__all__ = [
    "KERNELS",
    "BoundedGap",
    "EditDistance",
    "GapWeighted",
    "GappedKmers",
    "Gaussian",
    "Gkm",
    "Kernel",
    "Linear",
    "LocalityImproved",
    "Mismatch",
    "Oligo",
    "On",
    "Polynomial",
    "Product",
    "Sigmoid",
    "Spectrum",
    "Sum",
    "UserKernel",
    "WeightedDegree",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
