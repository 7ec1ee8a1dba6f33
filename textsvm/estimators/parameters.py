"""The parameters that the estimators share: their checks, and the kernel and the documents they lead to."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.metadata_routing import UNUSED

from textsvm.documents import NORMALISATIONS, Documents, encode, normalise
from textsvm.errors import InputError
from textsvm.gram.plan import parse_bytes
from textsvm.kernels import KERNELS
from textsvm.kernels.base import Kernel
from textsvm.kernels.user import KernelFunction, UserKernel
from textsvm.parallel import StageProgress


class Parameters(BaseEstimator):
    """What SVC, SVR and OneClassSVM all take; described at `textsvm.SVC`."""

    #: Parameters that must be finite numbers above 0 (`duality_gap` may be None).
    _POSITIVE: ClassVar[tuple[str, ...]] = ("tol", "duality_gap")
    # `progress` is nothing that a meta-estimator could route.
    __metadata_request__fit: ClassVar[dict[str, str]] = {"progress": UNUSED}

    def __init__(
        self,
        kernel: Kernel | KernelFunction | str,
        normalise: str,
        punctuation: bool,
        max_length: int | None,
        tol: float,
        duality_gap: float | None,
        max_iter: int,
        memory: int | str | None,
        device: str,
        n_jobs: int | None,
    ) -> None:
        self.kernel = kernel
        self.normalise = normalise
        self.punctuation = punctuation
        self.max_length = max_length
        self.tol = tol
        self.duality_gap = duality_gap
        self.max_iter = max_iter
        self.memory = memory
        self.device = device
        self.n_jobs = n_jobs

    def check(self) -> None:
        """Raise InputError if a parameter is out of range; `fit` calls it first."""
        if not self.precomputed:
            self.make_kernel().check()
        for name in self._POSITIVE:
            value = getattr(self, name)
            if not (name == "duality_gap" and value is None) and not (
                is_number(value) and 0 < value < np.inf
            ):
                raise InputError(f"{name}={value!r} must be a finite number above 0")
        if self.normalise not in NORMALISATIONS:
            raise InputError(f"normalise={self.normalise!r} is not one of {', '.join(NORMALISATIONS)}")
        if self.max_length is not None and not (is_integer(self.max_length) and self.max_length > 0):
            raise InputError(f"max_length={self.max_length!r} must be a whole number above 0, or None")
        if not (is_integer(self.max_iter) and (self.max_iter > 0 or self.max_iter == -1)):
            raise InputError(f"max_iter={self.max_iter!r} must be a whole number above 0, or -1 for no bound")
        if self.n_jobs is not None and not (
            is_integer(self.n_jobs) and (self.n_jobs > 0 or self.n_jobs == -1)
        ):
            raise InputError(
                f"n_jobs={self.n_jobs!r} must be a whole number above 0, -1 or None for all cores"
            )
        parse_bytes(self.memory)

    @property
    def precomputed(self) -> bool:
        """Whether X is a kernel matrix instead of texts."""
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def make_kernel(self) -> Kernel:
        """A fresh kernel with the parameters of `kernel`.

        Raises
        ------
        InputError
            If `kernel` is nothing that a kernel can be made from.
        """
        if isinstance(self.kernel, str):
            if self.kernel not in KERNELS:
                raise InputError(f"kernel={self.kernel!r} is not one of {', '.join(KERNELS)}, precomputed")
            return KERNELS[self.kernel]()
        if isinstance(self.kernel, Kernel):
            return clone(self.kernel)
        if callable(self.kernel):
            return UserKernel(self.kernel)
        raise InputError(f"kernel={self.kernel!r} is neither a kernel object, a name nor a function")

    def encode(
        self,
        texts: list[str],
        alphabet: NDArray[np.uint32] | None = None,
        progress: StageProgress | None = None,
    ) -> Documents:
        """Normalise and encode texts, over their own alphabet or as an extension of another."""
        normalised = []
        for i, text in enumerate(texts):
            normalised.append(
                normalise(text, self.normalise, punctuation=self.punctuation)[: self.max_length]
            )
            if progress is not None and i % 256 == 0:
                progress("encode", i, len(texts))
        return encode(normalised, alphabet)


def is_number(value: object) -> bool:
    """Whether a parameter is a number (bool is none)."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def is_integer(value: object) -> bool:
    """Whether a parameter is a whole number (bool is none)."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
