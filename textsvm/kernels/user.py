"""Kernels given as a Python function of two lists of strings.

Values are not normalised. A whole matrix is computed in blocks of rows from the diagonal on and mirrored; the
blocks on the diagonal show whether the function is symmetric.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, ClassVar

import numpy as np

from textsvm.arrays import Array, Floats, Floats32, Ints
from textsvm.errors import InputError
from textsvm.kernels.base import Kernel, Structure
from textsvm.kernels.contract import BLOCK_BYTES, HostRows, KernelRows, Predictor
from textsvm.runtime import device as gpu
from textsvm.runtime.device import Device
from textsvm.runtime.parallel import Progress, report
from textsvm.text.documents import Documents, View
from textsvm.text.tokens import shorten

#: Takes two lists of texts, returns their kernel values, shape (len(first), len(second)).
KernelFunction = Callable[[list[str], list[str]], Any]
ROWS = 256  #: Greatest number of row documents of a call.
ASYMMETRY = 1e-4  #: Greatest |k(s, t) - k(t, s)|, relative to the largest value of the block.


class UserStructure(Structure):
    """Structure of a Python function, which is compared by identity."""

    @property
    def key(self) -> Hashable:
        return UserKernel, id(self.kernel.function), self.view


class UserKernel(Kernel):
    """A kernel given as a function.

    Parameters
    ----------
    function : callable
        ``function(a, b)`` with two lists of normalised texts returns an array of shape (len(a), len(b)),
        the values of a symmetric kernel, which are not normalised. It is called from a single thread, with
        some hundreds of texts at a time.

    Examples
    --------
    >>> from textsvm import SVC, UserKernel
    >>> def same_length(a, b):
    ...     return [[float(len(s) == len(t)) for t in b] for s in a]
    >>> UserKernel(same_length)(["cat", "mouse"], ["dog"]).tolist()
    [[1.0], [0.0]]
    >>> SVC(same_length).fit(["cat", "mouse", "dog", "horse"], [3, 5, 3, 5]).predict(["cow"]).tolist()
    [3]
    """

    name: ClassVar[str] = "user"

    def __init__(self, function: KernelFunction) -> None:
        self.function = function

    @property
    def structure(self) -> UserStructure:
        return UserStructure(self, View(column=self._column))

    @property
    def _comparable(self) -> bool:
        return False

    def check(self) -> None:
        if not callable(self.function):
            raise InputError(f"kernel function {self.function!r} cannot be called")

    def predictor(self, support: Documents, coef: Floats, device: Device) -> Predictor:
        """Predict on the host, where the function runs, whatever the device."""
        return super().predictor(support, coef, gpu.select("cpu"))

    def rows(self, documents: Documents, device: Device) -> KernelRows:
        return UserRows(self, documents, device)


class UserRows(HostRows):
    """Kernel values of the function with fixed documents (`KernelRows`), copied to a GPU for its solver."""

    def __init__(self, kernel: UserKernel, documents: Documents, device: Device) -> None:
        self.kernel, self.documents, self.device, self.n = kernel, documents, device, len(documents)
        self.texts = _texts(documents)

    def diag(self) -> Array:
        values = np.empty(self.n, np.float32)
        for i, text in enumerate(self.texts):
            values[i] = self._call([text], [text])[0, 0]
        return self._move(values)

    def rows(self, indices: Ints) -> Array:
        return self._move(self._values([self.texts[i] for i in indices]))

    def gram(self, progress: Progress | None = None) -> Array:
        if self.device.kind == "cuda":
            with gpu.use(self.device):
                gpu.require_memory(4 * self.n**2, f"the {self.n:,} x {self.n:,} matrix", "lower --memory")
        values = np.empty((self.n, self.n), np.float32)
        for first, last in self._blocks(self.n):
            block = self._call(self.texts[first:last], self.texts[first:])
            values[first:last, first:] = block
            values[first:, first:last] = block.T
            own = block[:, : last - first]
            for i, j in np.argwhere(np.abs(own - own.T) > ASYMMETRY * np.abs(own).max(initial=0))[:1]:
                raise InputError(
                    f"the kernel function is not symmetric: {own[i, j]:g} for documents {first + i} and "
                    f"{first + j}, {own[j, i]:g} the other way round"
                )
            report(progress, last * (2 * self.n - last), self.n * self.n)
        return self._move(values)

    def cross(self, others: Documents, progress: Progress | None = None) -> Array:
        return self._move(self._values(_texts(others), progress))

    def _values(self, texts: list[str], progress: Progress | None = None) -> Floats32:
        values = np.empty((len(texts), self.n), np.float32)
        for first, last in self._blocks(len(texts)):
            values[first:last] = self._call(texts[first:last], self.texts)
            report(progress, last, len(texts))
        return values

    def _move(self, values: Floats32) -> Array:
        if self.device.kind == "cpu":
            return values
        with gpu.use(self.device):
            gpu.require_memory(values.nbytes, "kernel values", "lower --memory, or run with --device cpu")
            return gpu.cupy().asarray(values)

    def _blocks(self, m: int) -> list[tuple[int, int]]:
        size = min(ROWS, max(1, BLOCK_BYTES // (8 * max(1, self.n))))
        return [(first, min(first + size, m)) for first in range(0, m, size)]

    def _call(self, rows: list[str], columns: list[str]) -> Floats32:
        try:
            returned = self.kernel.function(list(rows), list(columns))
        except Exception as error:
            raise InputError(
                f"the kernel function failed on {len(rows)} and {len(columns)} texts "
                f"({type(error).__name__}: {error}); correct it, or catch what these texts may cause"
            ) from error
        shape = (len(rows), len(columns))
        try:
            raw = np.asarray(returned)
            with np.errstate(over="ignore"):
                values = raw.astype(np.float32) if raw.dtype.kind in "fiub" else None
        except (TypeError, ValueError):
            values = None
        if values is None:
            raise InputError(
                f"the kernel function returned {type(returned).__name__} and not an array of real numbers "
                f"of shape {shape}"
            )
        if values.shape != shape:
            raise InputError(
                f"the kernel function returned an array of shape {values.shape} for {shape[0]} and "
                f"{shape[1]} texts; it must return one of shape {shape}"
            )
        if not np.isfinite(values).all():
            i, j = np.argwhere(~np.isfinite(values))[0]
            raise InputError(
                f"the kernel function returned {raw[i, j]} for the texts {shorten(rows[i])} and "
                f"{shorten(columns[j])}; it must return finite numbers"
            )
        return values


def _texts(documents: Documents) -> list[str]:
    return [documents.text(i) for i in range(len(documents))]
