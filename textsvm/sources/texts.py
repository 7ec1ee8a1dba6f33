"""Texts, compared by a string kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from textsvm.device import Device
from textsvm.documents import MAX_ALPHABET, NORMALISATIONS, Documents, encode, normalise
from textsvm.errors import InputError
from textsvm.kernels import KERNELS
from textsvm.kernels.base import Kernel, Predictor
from textsvm.kernels.spelling import spell
from textsvm.kernels.user import KernelFunction, UserKernel
from textsvm.parallel import StageProgress
from textsvm.sources.base import Kept, Source

#: Arrays of a saved kernel's state are named so.
_STATE = "kernel."


@dataclass(frozen=True)
class TextForm:
    """How texts become documents; see `textsvm.SVC`."""

    normalise: str = "unicode"
    punctuation: bool = True
    max_length: int | None = None


class TextSource(Source):
    """Texts that are normalised, encoded and compared by a kernel.

    Parameters
    ----------
    kernel : Kernel, str or callable
        As `textsvm.SVC` takes it.
    form : TextForm
    """

    def __init__(self, kernel: Kernel | KernelFunction | str, form: TextForm) -> None:
        self.kernel, self._form = kernel, form

    @property
    def form(self) -> TextForm:
        """See `Source`."""
        return self._form

    def check(self) -> None:
        """See `Source`."""
        self.make_kernel().check()
        if self.form.normalise not in NORMALISATIONS:
            raise InputError(f"normalise={self.form.normalise!r} is not one of {', '.join(NORMALISATIONS)}")
        length = self.form.max_length
        whole = isinstance(length, int | np.integer) and not isinstance(length, bool)
        if length is not None and not (whole and length > 0):
            raise InputError(f"max_length={length!r} must be a whole number above 0, or None")

    def tag(self, input_tags: Any) -> None:
        """See `Source`."""
        input_tags.string, input_tags.two_d_array, input_tags.pairwise = True, False, False

    def make_kernel(self) -> Kernel:
        """A fresh kernel with the parameters of the one given.

        Raises
        ------
        InputError
            If it is nothing that a kernel can be made from.
        """
        if isinstance(self.kernel, str):
            if self.kernel not in KERNELS:
                raise InputError(
                    f"kernel={self.kernel!r} is not one of {', '.join(KERNELS.simple())}, precomputed"
                )
            return KERNELS[self.kernel]()
        if isinstance(self.kernel, Kernel):
            return clone(self.kernel)
        if callable(self.kernel):
            return UserKernel(self.kernel)
        raise InputError(f"kernel={self.kernel!r} is neither a kernel object, a name nor a function")

    def read(self, X: Any, estimator: Any, fitting: bool = True) -> list[str]:
        """See `Source`."""
        return as_texts(X)

    def prepare(
        self,
        given: list[str],
        alphabet: NDArray[np.uint32] | None = None,
        progress: StageProgress | None = None,
    ) -> Documents:
        """See `Source`."""
        form, normalised = self.form, []
        for i, text in enumerate(given):
            found = normalise(text, form.normalise, punctuation=form.punctuation)
            normalised.append(found[: form.max_length])
            if progress is not None and i % 256 == 0:
                progress("encode", i, len(given))
        return encode(normalised, alphabet)

    def kernel_for(self, examples: Documents) -> Kernel:
        """See `Source`."""
        kernel = self.make_kernel()
        for leaf in kernel.leaves:
            longest = int(leaf.read(examples).lengths.max())
            if longest < leaf.min_length:
                which = "" if leaf is kernel else f" of its part {spell(leaf)}"
                raise InputError(
                    f"every document is shorter than p = {leaf.min_length}{which} (the longest has {longest} "
                    "symbols); lower p or give longer documents"
                )
        return kernel

    def memory(self, wished: int | str | None, n: int, device: Device) -> int | str | None:
        """See `Source`."""
        return wished

    def keep(self, kernel: Kernel, examples: Documents, support: NDArray[np.int64]) -> Kept:
        """See `Source`."""
        return Kept(support, kernel, kernel.read(examples).take(support))

    def others(self, given: list[str], kept: Kept) -> Documents:
        """See `Source`."""
        assert kept.documents is not None
        return self.prepare(given, kept.documents.alphabet)

    def predictor(self, kept: Kept, coef: NDArray[np.float64], device: Device) -> Predictor:
        """See `Source`."""
        assert kept.kernel is not None
        assert kept.documents is not None
        return kept.kernel.predictor(kept.documents, coef, device)

    def state(self, kept: Kept) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """See `Source`."""
        kernel, documents = kept.kernel, kept.documents
        assert kernel is not None
        assert documents is not None
        if any(leaf.name not in KERNELS for leaf in kernel.leaves):
            raise InputError(
                "a model with a kernel function cannot be saved, for a file holds no code; train it again "
                "where it is needed, or save the model of a precomputed kernel matrix"
            )
        _require_length(kernel, documents)
        arrays = {"codes": documents.codes, "offsets": documents.offsets, "alphabet": documents.alphabet}
        arrays |= {_STATE + name: array for name, array in kernel.state().items()}
        return kernel.as_dict(), arrays

    def restore(
        self, n_features: int | None, support: NDArray[np.int64], arrays: dict[str, NDArray[Any]]
    ) -> Kept:
        """See `Source`."""
        kernel, documents = self.make_kernel(), _documents(arrays)
        if len(documents) != len(support):
            raise InputError("its support indices do not fit its support vectors")
        _require_length(kernel, documents)
        kernel.restore({k.removeprefix(_STATE): v for k, v in arrays.items() if k.startswith(_STATE)})
        return Kept(support, kernel, documents)


def as_texts(X: Any) -> list[str]:
    """Read texts from a list, tuple, NumPy string or object array, or a pandas, Polars or Arrow column.

    Raises
    ------
    InputError
        If `X` is a single string, has more than one column, or holds something that is not a string; it
        says the index of the first offender.
    """
    if isinstance(X, str | bytes):
        raise InputError("expected a list of texts, got a single string; put it in a list: [text]")
    if len(getattr(X, "shape", (0,))) > 1:
        raise InputError(
            f"expected one column of texts, got an array of shape {tuple(X.shape)}; select a column"
        )
    for convert in ("to_pylist", "to_list", "tolist"):  # Arrow; pandas and Polars; NumPy
        if hasattr(X, convert):
            texts = getattr(X, convert)()
            break
    else:
        try:
            texts = np.asarray(X).tolist() if hasattr(X, "__array__") else list(X)
        except TypeError as error:
            raise InputError(f"expected a list of texts, got {type(X).__name__}") from error
    if not isinstance(texts, list):
        raise InputError(f"expected a list of texts, got {type(X).__name__} of one value; put it in a list")
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            shown = "missing" if is_missing(text) else f"of type {type(text).__name__}"
            raise InputError(f"document {i} is {shown}, not a string; remove it or convert it with str()")
    return texts


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or pandas' NA or NaT."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(np.any(value != value))


def _require_length(kernel: Kernel, support: Documents) -> None:
    """A saved p is bounded by the support vectors beside it, as work with it is not."""
    for leaf in kernel.leaves:
        longest = int(leaf.read(support).lengths.max(initial=0))
        if len(support) and longest < leaf.min_length:
            raise InputError(
                f"its kernel needs p = {leaf.min_length:,} symbols and its longest support vector has "
                f"{longest}; lower p and train it again"
            )


def _documents(arrays: dict[str, NDArray[Any]]) -> Documents:
    """Saved documents, every code and offset checked."""
    codes, offsets, alphabet = arrays["codes"], arrays["offsets"], arrays["alphabet"]
    if codes.ndim != 1 or codes.dtype not in (np.uint8, np.uint16):
        raise InputError("its symbol codes are not one row of small unsigned integers")
    if offsets.ndim != 1 or offsets.dtype != np.int64 or len(offsets) < 1:
        raise InputError("its document offsets are not one row of 64-bit integers")
    if offsets[0] != 0 or offsets[-1] != len(codes) or (np.diff(offsets) < 0).any():
        raise InputError("its document offsets are out of bounds")
    if alphabet.ndim != 1 or alphabet.dtype != np.uint32 or len(alphabet) > MAX_ALPHABET:
        raise InputError("its alphabet is not one row of code points")
    if len(alphabet) and (alphabet.max() > 0x10FFFF or len(np.unique(alphabet)) != len(alphabet)):
        raise InputError("its alphabet has symbols that are no code points, or one twice")
    if len(codes) and codes.max() >= len(alphabet):
        raise InputError("it has symbols outside its alphabet")
    return Documents(codes, offsets, alphabet)
