"""The `kernel` parameter of estimators: a kernel object, a name, or a Python function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from textsvm.errors import InputError
from textsvm.kernels import KERNELS
from textsvm.kernels.base import Kernel, Structure, Sum
from textsvm.kernels.combined.on import On
from textsvm.kernels.combined.table import Numbers
from textsvm.kernels.encoder import Encoder, as_encoder, encoders_of
from textsvm.kernels.spectrum.kernel import fixed_default
from textsvm.kernels.spelling import IN_SKLEARN, is_spelled_out, parse
from textsvm.kernels.user import UserKernel
from textsvm.kernels.vectors.kernels import Gaussian, Linear
from textsvm.text.documents import View

ENCODER_WEIGHT = 0.3  #: Weight of the encoder beside a kernel that the user names.


def as_kernel(kernel: Any) -> Kernel:
    """A fresh kernel from a kernel object, a name or a Python function."""
    if isinstance(kernel, str):
        if kernel in ("auto", "fast"):
            return fixed_default()
        if kernel in IN_SKLEARN:
            raise InputError(f"kernel={kernel!r} is called {IN_SKLEARN[kernel]!r} here")
        if kernel not in KERNELS:
            names = ", ".join(["auto", "fast", *KERNELS.simple()])
            raise InputError(f"kernel={kernel!r} is not one of {names}, precomputed")
        return KERNELS[kernel]()
    if isinstance(kernel, Kernel):
        return kernel.structure.resolved()
    if callable(kernel):
        return UserKernel(kernel)
    raise InputError(f"kernel={kernel!r} is neither a kernel object, a name nor a function")


def sum_on_columns(
    texts: Sequence[str], numbers: Sequence[list[str]], of: Mapping[str, Kernel] | None, encoder: object
) -> Kernel:
    """Sum of a kernel on each column of texts and on each group of columns of numbers.

    `of` are the kernels of "texts" and "vectors"; by default the fast kernel and Gaussian. An encoder reads
    each column of texts, too.
    """
    of = {"texts": fixed_default(), "vectors": Gaussian(), **(of or {})}
    if encoder is not None:
        of["texts"] = with_encoder(of["texts"], encoder)
    parts = [On(name, of["texts"]) for name in texts]
    parts += [On(names if len(names) > 1 else names[0], of["vectors"]) for names in numbers if names]
    return parts[0] if len(parts) == 1 else Sum(parts)


def kernel_on_numbers(name: str, numbers: Numbers) -> Kernel:
    """The default kernel on a column of numbers or vectors."""
    single = not numbers.sparse and bool(numbers.single.all())
    return On(name, Linear(), ranks=True) if single else On(name, Gaussian())


def with_encoder(kernel: Any, encoder: object) -> Any:
    """Sum of a kernel of texts, given as for `as_kernel` or spelled out, and of a kernel of an encoder.

    A sum with this encoder is returned unchanged. InputError for another encoder in the kernel, and for a
    kernel of other examples.
    """
    if isinstance(kernel, str):
        if kernel == "precomputed":
            raise InputError("a precomputed kernel matrix has no texts for an encoder; leave encoder out")
        kernel = parse(kernel) if is_spelled_out(kernel) else as_kernel(kernel)
    elif not isinstance(kernel, Kernel):
        kernel = as_kernel(kernel)
    added = encoder if isinstance(encoder, Encoder) else Encoder(encoder)
    if encoders := [part.encoder for part in encoders_of(kernel)]:
        if added.encoder not in encoders and as_encoder(added).encoder not in encoders:
            raise InputError("the kernel has an encoder; leave the parameter encoder out")
        return kernel
    structure = kernel.structure
    if structure.examples != "texts":
        raise InputError(
            f"an encoder reads texts, and the kernel compares {structure.examples}; leave encoder out"
            + ", or write column=encoder:NAME into the kernel" * structure.reads_tables
        )
    # It is loaded when a training starts: a fitted model holds it, and its folder may be gone.
    return Sum([kernel, added], [1 - ENCODER_WEIGHT, ENCODER_WEIGHT])


def structure_of(kernel: Any) -> Structure:
    """Structure of a kernel, given as for `as_kernel`; an unregistered name reads texts."""
    if isinstance(kernel, str) and kernel in KERNELS:
        kernel = KERNELS[kernel]()
    return kernel.structure if isinstance(kernel, Kernel) else Structure(kernel, View())
