"""From what a user gives as `kernel` to a kernel."""

from __future__ import annotations

from typing import Any

from textsvm.errors import InputError
from textsvm.kernels import KERNELS
from textsvm.kernels.base import Kernel
from textsvm.kernels.spectrum import fixed_default

#: What others call kernels that are here.
_ELSEWHERE = {"rbf": "gaussian", "poly": "polynomial"}


def make_kernel(given: Any) -> Kernel:
    """A fresh kernel with the parameters of the one given: an object, a name or a function.

    Raises
    ------
    InputError
        If it is nothing that a kernel can be made from.
    """
    if isinstance(given, str):
        if given in ("auto", "fast"):
            return fixed_default()
        if given in _ELSEWHERE:
            raise InputError(f"kernel={given!r} is called {_ELSEWHERE[given]!r} here")
        if given not in KERNELS:
            known = ", ".join(["auto", "fast", *KERNELS.simple()])
            raise InputError(f"kernel={given!r} is not one of {known}, precomputed")
        return KERNELS[given]()
    if isinstance(given, Kernel):
        if given.reads != "columns":
            return given.copy()
        from textsvm.kernels.on import on_leaves

        return on_leaves(given.copy())
    if callable(given):
        from textsvm.kernels.user import UserKernel

        return UserKernel(given)
    raise InputError(f"kernel={given!r} is neither a kernel object, a name nor a function")


def reads_of(given: Any) -> str:
    """What a kernel compares (`Kernel.reads`), given as for `make_kernel`; "texts" if it is none."""
    if isinstance(given, str) and given in KERNELS:
        given = KERNELS[given]()
    return str(getattr(given, "reads", "texts"))


def approximated(kernel: Kernel, landmarks: int | None, n: int) -> Kernel:
    """The Nystroem approximation of a kernel by so many of n examples; itself if `landmarks` is None."""
    if landmarks is None:
        return kernel
    if landmarks > n:
        raise InputError(
            f"approximate asks for {landmarks:,} landmarks and there are {n:,} "
            "documents; take fewer, or leave it out: the kernel itself is no more work then"
        )
    from textsvm.kernels.nystroem import Nystroem

    return Nystroem(kernel, landmarks)
