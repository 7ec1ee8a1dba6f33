"""The string kernels, one file each. Their modules are imported when they are first used."""

from __future__ import annotations

from collections import UserDict
from importlib import import_module
from typing import TYPE_CHECKING, Any

from textsvm.kernels.options import OPTIONS, Option

if TYPE_CHECKING:
    from textsvm.kernels.base import Kernel
    from textsvm.kernels.combined.on import On
    from textsvm.kernels.combined.sums import Product, Sum
    from textsvm.kernels.edit.kernel import EditDistance
    from textsvm.kernels.gap.bounded import BoundedGap
    from textsvm.kernels.gap.kernel import GapWeighted
    from textsvm.kernels.mers.gapped import GappedKmers
    from textsvm.kernels.mers.gkm import Gkm
    from textsvm.kernels.mers.mismatch import Mismatch
    from textsvm.kernels.positions.locality import LocalityImproved
    from textsvm.kernels.positions.oligo import Oligo
    from textsvm.kernels.positions.weighted_degree import WeightedDegree
    from textsvm.kernels.spectrum.kernel import Spectrum
    from textsvm.kernels.user import UserKernel
    from textsvm.kernels.vectors.kernels import Gaussian, Linear, Polynomial, Sigmoid


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
        return OPTIONS[name] if isinstance(kernel, str) else kernel.options

    def simple(self) -> list[str]:
        """Names of the kernels that are made of no others."""
        return [name for name in self if name not in _MADE_OF_OTHERS]


#: Kernels by the name that the command line and model files use; a function of the user's has none.
KERNELS = Kernels(
    spectrum="textsvm.kernels.spectrum.kernel:Spectrum",
    edit="textsvm.kernels.edit.kernel:EditDistance",
    gap="textsvm.kernels.gap.kernel:GapWeighted",
    gapped="textsvm.kernels.mers.gapped:GappedKmers",
    mismatch="textsvm.kernels.mers.mismatch:Mismatch",
    gkm="textsvm.kernels.mers.gkm:Gkm",
    oligo="textsvm.kernels.positions.oligo:Oligo",
    locality="textsvm.kernels.positions.locality:LocalityImproved",
    linear="textsvm.kernels.vectors.kernels:Linear",
    polynomial="textsvm.kernels.vectors.kernels:Polynomial",
    gaussian="textsvm.kernels.vectors.kernels:Gaussian",
    sigmoid="textsvm.kernels.vectors.kernels:Sigmoid",
    sum="textsvm.kernels.combined.sums:Sum",
    product="textsvm.kernels.combined.sums:Product",
    on="textsvm.kernels.combined.on:On",
    **{
        "bounded-gap": "textsvm.kernels.gap.bounded:BoundedGap",
        "weighted-degree": "textsvm.kernels.positions.weighted_degree:WeightedDegree",
    },
)
_HOME = {
    "Kernel": "base",
    "On": "combined.on",
    "Product": "combined.sums",
    "Sum": "combined.sums",
    "EditDistance": "edit.kernel",
    "BoundedGap": "gap.bounded",
    "GapWeighted": "gap.kernel",
    "GappedKmers": "mers.gapped",
    "Gkm": "mers.gkm",
    "Mismatch": "mers.mismatch",
    "LocalityImproved": "positions.locality",
    "Oligo": "positions.oligo",
    "WeightedDegree": "positions.weighted_degree",
    "Spectrum": "spectrum.kernel",
    "UserKernel": "user",
    "Gaussian": "vectors.kernels",
    "Linear": "vectors.kernels",
    "Polynomial": "vectors.kernels",
    "Sigmoid": "vectors.kernels",
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
