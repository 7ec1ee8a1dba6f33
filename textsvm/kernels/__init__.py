"""Kernels, in a package for each family. Their modules are imported when they are first used.

`KERNELS` is the only place where a kernel is registered: its name, its class and its options. The names of
this package and of `textsvm` follow from it; type checkers read the imports below.

Each kernel keeps the letters of its paper. The compared substring, subsequence or window is called

    p           Spectrum, GapWeighted, BoundedGap       symbols of a substring or subsequence
    k           Mismatch                                symbols of a substring
    g, m        GappedKmers                             symbols of a window, m of them open
    l, k, d     Gkm                                     symbols of a window, k of them compared, d mismatches

`normalised` of a kernel divides values by sqrt(k(s, s) k(t, t)); `normalise` of an estimator is the normal
form of texts.
"""

from __future__ import annotations

from collections import UserDict
from importlib import import_module
from typing import TYPE_CHECKING, Any

from textsvm.kernels import options as o
from textsvm.kernels.options import Option

if TYPE_CHECKING:
    from textsvm.kernels.base import Kernel as Kernel
    from textsvm.kernels.base import Product as Product
    from textsvm.kernels.base import Sum as Sum
    from textsvm.kernels.combined.on import On as On
    from textsvm.kernels.edit.kernel import EditDistance as EditDistance
    from textsvm.kernels.encoder import Encoder as Encoder
    from textsvm.kernels.gap.bounded import BoundedGap as BoundedGap
    from textsvm.kernels.gap.kernel import GapWeighted as GapWeighted
    from textsvm.kernels.mers.gapped import GappedKmers as GappedKmers
    from textsvm.kernels.mers.kernel import Gkm as Gkm
    from textsvm.kernels.mers.kernel import Mismatch as Mismatch
    from textsvm.kernels.spectrum.kernel import Spectrum as Spectrum
    from textsvm.kernels.user import UserKernel as UserKernel
    from textsvm.kernels.vectors.kernels import Gaussian as Gaussian
    from textsvm.kernels.vectors.kernels import Linear as Linear
    from textsvm.kernels.vectors.kernels import Polynomial as Polynomial
    from textsvm.kernels.vectors.kernels import Sigmoid as Sigmoid


class Kernels(UserDict[str, Any]):
    """Kernel classes by name, each set as (class, options) or as ("module:Class", options)."""

    def __getitem__(self, name: str) -> type[Kernel]:
        kernel, options = self.data[name]
        if isinstance(kernel, str):
            module, _, class_name = kernel.partition(":")
            kernel = getattr(import_module(f"{__name__}.{module}"), class_name)
            self.data[name] = kernel, options
        return kernel

    def options(self, name: str) -> tuple[Option, ...]:
        """Options of a kernel, without importing it; none for kernels that are not registered."""
        return self.data[name][1] if name in self.data else ()

    def simple(self) -> list[str]:
        """Names of the kernels that need no other object: neither kernels nor an encoder."""
        return [name for name in self if name not in ("sum", "product", "on", "encoder")]


#: Kernels by their name on the command line and in model files, with their options.
KERNELS = Kernels({
    "spectrum": ("spectrum.kernel:Spectrum", o.SPECTRUM),
    "edit": ("edit.kernel:EditDistance", o.EDIT),
    "gap": ("gap.kernel:GapWeighted", o.GAP),
    "gapped": ("mers.gapped:GappedKmers", o.GAPPED),
    "mismatch": ("mers.kernel:Mismatch", o.MISMATCH),
    "gkm": ("mers.kernel:Gkm", o.GKM),
    "linear": ("vectors.kernels:Linear", ()),
    "polynomial": ("vectors.kernels:Polynomial", o.POLYNOMIAL),
    "gaussian": ("vectors.kernels:Gaussian", o.GAUSSIAN),
    "sigmoid": ("vectors.kernels:Sigmoid", o.SIGMOID),
    "encoder": ("encoder:Encoder", o.ENCODER),
    "sum": ("base:Sum", ()),
    "product": ("base:Product", ()),
    "on": ("combined.on:On", ()),
    "bounded-gap": ("gap.bounded:BoundedGap", o.BOUNDED_GAP),
})  # fmt: skip
_MODULES = {"Kernel": "base", "UserKernel": "user"}
_MODULES |= {name: module for module, name in (path.split(":") for path, _ in KERNELS.data.values())}
__all__ = ["KERNELS", *_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
