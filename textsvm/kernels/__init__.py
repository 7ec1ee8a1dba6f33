"""The string kernels, one file each."""

from textsvm.kernels.base import Kernel
from textsvm.kernels.edit import EditDistance
from textsvm.kernels.gap import GapWeighted
from textsvm.kernels.spectrum import Spectrum
from textsvm.kernels.user import UserKernel

#: Kernels by the name that the command line and model files use; a function of the user's has none.
KERNELS: dict[str, type[Kernel]] = {k.name: k for k in (Spectrum, EditDistance, GapWeighted)}

__all__ = ["KERNELS", "EditDistance", "GapWeighted", "Kernel", "Spectrum", "UserKernel"]
